"""Stores: where the ranks of a job find each other."""

from ctypes import byref, c_int64, c_size_t, c_void_p, create_string_buffer
from typing import Any, Optional, Union

from ._errors import StateError, Status, check
from ._library import api
from ._requests import milliseconds

_VALUE_MAX = 65536


def utf8(text: Any, name: str) -> bytes:
    """A text as the library takes it."""
    if not isinstance(text, str):
        raise TypeError("%s: is of type %s; allowed are texts" % (name, type(text).__name__))
    if "\0" in text:
        raise ValueError("%s: has a NUL character; allowed are texts without" % name)
    return text.encode()


class Store:
    """A key-value store in which ranks meet, by URL. Every rank opens the same.

    file:DIR                         a folder that all ranks see
    tcp://host:port                  a server that one of the ranks runs
    redis://[user:password@]host     a Redis server
    pmi:                             found by mpiexec or srun --mpi=pmi2

    timeout: seconds for each request to a server. Use it as a context manager, or close it; after the contexts that
    use it. One thread at a time uses a store. ``Store.memory()`` is a store for ranks that are threads.

    >>> import gcoll
    >>> with gcoll.Store.memory() as store:
    ...     store.set("key", b"value")
    ...     store.get("key"), store.add("count", 2)
    (b'value', 2)
    """

    def __init__(self, url: str, timeout: float = 30.0) -> None:
        self._raw = c_void_p()
        self._base: Optional[Store] = None
        check(api.gcoll_store_open(utf8(url, "url"), milliseconds(timeout, "timeout", False), byref(self._raw)),
              "Store")

    @classmethod
    def _made(cls, raw: c_void_p, base: "Optional[Store]" = None) -> "Store":
        store = cls.__new__(cls)
        store._raw, store._base = raw, base
        return store

    @classmethod
    def memory(cls) -> "Store":
        """Makes a store in the memory of this process. Any number of threads may use it."""
        raw = c_void_p()
        check(api.gcoll_store_memory_create(byref(raw)), "Store.memory")
        return cls._made(raw)

    def prefix(self, prefix: str) -> "Store":
        """Makes a view: key k of the view is key "prefix/k" of this store."""
        raw = c_void_p()
        check(api.gcoll_store_prefix_create(self._handle(), utf8(prefix, "prefix"), byref(raw)), "Store.prefix")
        return self._made(raw, self)

    def _handle(self) -> c_void_p:
        if self._raw.value is None:
            raise StateError("the store is closed", Status.STATE, "Store")
        return self._raw

    def set(self, key: str, value: Union[bytes, bytearray]) -> None:
        """Creates or replaces a value of up to 65536 bytes."""
        check(api.gcoll_store_set(self._handle(), utf8(key, "key"), bytes(value), len(value)), "Store.set")

    def set_new(self, key: str, value: Union[bytes, bytearray]) -> None:
        """Creates a value. StateError if the key exists; of several callers at once, one succeeds."""
        check(api.gcoll_store_set_new(self._handle(), utf8(key, "key"), bytes(value), len(value)), "Store.set_new")

    def get(self, key: str, timeout: Optional[float] = None) -> bytes:
        """Returns a value. timeout: None does not wait, and raises NotFoundError if there is no such key; else waits
        for so many seconds, and raises TimeoutError then."""
        room, size = create_string_buffer(_VALUE_MAX), c_size_t()
        if timeout is None:
            check(api.gcoll_store_get(self._handle(), utf8(key, "key"), room, _VALUE_MAX, byref(size)), "Store.get")
        else:
            check(api.gcoll_store_get_wait(self._handle(), utf8(key, "key"), room, _VALUE_MAX, byref(size),
                                           milliseconds(timeout, "timeout", False)), "Store.get")
        return room.raw[:size.value]

    def wait(self, key: str, timeout: float) -> None:
        """Waits until the key exists. TimeoutError after `timeout` seconds."""
        check(api.gcoll_store_wait(self._handle(), utf8(key, "key"), milliseconds(timeout, "timeout", False)),
              "Store.wait")

    def add(self, key: str, delta: int) -> int:
        """Adds to a counter, which is 0 at first. Returns the new value."""
        value = c_int64()
        check(api.gcoll_store_add(self._handle(), utf8(key, "key"), delta, byref(value)), "Store.add")
        return value.value

    def remove(self, key: str) -> None:
        """Removes a key. It is no error if there is none."""
        check(api.gcoll_store_remove(self._handle(), utf8(key, "key")), "Store.remove")

    def keep(self, key: str, lifetime: float) -> None:
        """Lets the store drop the key after `lifetime` seconds, unless it is kept again before."""
        check(api.gcoll_store_keep(self._handle(), utf8(key, "key"), max(1, int(lifetime * 1000))), "Store.keep")

    def close(self) -> None:
        """Closes the store. On the process that serves a tcp store, takes up to a second while others use it."""
        if self._raw.value is not None:
            raw, self._raw = self._raw, c_void_p()
            api.gcoll_store_destroy(raw)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close()
