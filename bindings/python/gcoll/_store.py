"""Stores: where the ranks of a job find each other."""

import threading
import time
from ctypes import byref, c_int64, c_size_t, c_void_p, create_string_buffer, memmove, sizeof, string_at
from typing import Any, Callable, List, Optional, TypeVar, Union

from ._errors import Error, StateError, Status, check, text_of
from ._library import StoreGetWaitFunction, StoreOps, StoreRemoveFunction, StoreSetFunction, api
from ._requests import milliseconds

T = TypeVar("T")

_VALUE_MAX = 65536


def utf8(text: Any, name: str) -> bytes:
    """A text as the library takes it."""
    if not isinstance(text, str):
        raise TypeError("%s: is of type %s; allowed are texts" % (name, type(text).__name__))
    if "\0" in text:
        raise ValueError("%s: has a NUL character; allowed are texts without" % name)
    return text.encode()


def describes_store(target: Any) -> bool:
    """Whether an object may be a store that is written in Python."""
    return callable(getattr(target, "set", None)) and callable(getattr(target, "get", None))


class _Written:
    """A store that is written in Python, as the library sees it.

    A handler of a signal may raise an exception at the first line of a callback, which then has no result. So the
    library calls these functions on threads that are not Python's main thread: handlers of signals do not run there.
    """

    def __init__(self, target: Any) -> None:
        if not describes_store(target):
            raise TypeError("target: is of type %s; allowed are objects with the methods set(key, value) and get(key)" %
                            type(target).__name__)
        self._target = target
        self._errors: List[BaseException] = []
        self._stop: Optional[BaseException] = None  # why the call in progress is to end
        self.ops = StoreOps()
        self.ops.struct_size = sizeof(StoreOps)
        self.ops.name = b"Python"
        self.ops.set = StoreSetFunction(self._set)
        self.ops.get_wait = StoreGetWaitFunction(self._get_wait)
        if callable(getattr(target, "remove", None)):
            self.ops.remove = StoreRemoveFunction(self._remove)

    # What the library calls

    def _guard(self, function: Callable[[], int]) -> int:
        try:
            if self._stop is None:
                return function()
            return int(api.gcoll_store_error(Status.ABORTED, text_of(self._stop)))
        except BaseException as error:
            self._errors.append(error)
            status = error.status if isinstance(error, Error) else Status.IO
            return int(api.gcoll_store_error(status, b"store: " + text_of(error)))

    def _set(self, _self: Any, key: bytes, value: int, size: int) -> int:
        def do() -> int:
            self._target.set(key.decode(), string_at(value, size))
            return Status.OK
        return self._guard(do)

    def _get_wait(self, _self: Any, key: bytes, room: int, capacity: int, size: Any, timeout_ms: int) -> int:
        def do() -> int:
            end, pause = time.monotonic() + timeout_ms / 1000, _POLL_S
            while True:
                found = self._look(key.decode())
                if found is not None:
                    break
                if time.monotonic() >= end or self._stop is not None:
                    return int(api.gcoll_store_error(Status.TIMEOUT, b"store: the key has not come in time"))
                time.sleep(pause)
                pause = min(2 * pause, _POLL_MOST_S)
            if len(found) > capacity:
                raise ValueError("get: gave %d bytes; allowed are up to %d" % (len(found), capacity))
            memmove(room, found, len(found))
            size[0] = len(found)
            return Status.OK
        return self._guard(do)

    def _look(self, key: str) -> Optional[bytes]:
        try:
            found = self._target.get(key)
        except LookupError:
            return None
        if found is not None and not isinstance(found, (bytes, bytearray, memoryview)):
            raise TypeError("get: gave an object of type %s; allowed are bytes, and None or LookupError if there is no "
                            "such key" % type(found).__name__)
        return None if found is None else bytes(found)

    def _remove(self, _self: Any, key: bytes) -> int:
        def do() -> int:
            self._target.remove(key.decode())
            return Status.OK
        return self._guard(do)

    # What the package calls

    def run(self, function: Callable[[], T]) -> T:
        """Runs a call that may use the store. Its exception has that of the store as its cause."""
        self._errors, self._stop = [], None
        try:
            return self._run_aside(function)
        except Error as error:
            if not self._errors:
                raise
            own = self._errors[0]
            if not isinstance(own, Exception):
                raise own from error
            raise error from own

    def _run_aside(self, function: Callable[[], T]) -> T:
        if threading.current_thread() is not threading.main_thread():
            return function()
        results: List[T] = []
        errors: List[BaseException] = []
        gate = threading.Lock()
        begun: List[bool] = []  # True: the thread calls the function; False: it must not
        ended = threading.Event()

        def run() -> None:
            with gate:
                begun.append(True)
            try:
                if begun[0]:
                    results.append(function())
            except BaseException as error:
                errors.append(error)
            ended.set()
        thread = threading.Thread(target=run, name="gcoll store", daemon=True)
        try:
            thread.start()
        except BaseException as error:  # nobody says whether it runs
            self._stop = error
            with gate:
                begun.append(False)
        # Not Thread.join: one that an exception ends may say that a thread which still runs has ended, up to Python 3.12.
        while not begun or (begun[0] and not ended.is_set()):
            try:
                ended.wait()
            except BaseException as error:  # of a handler, such as KeyboardInterrupt: the store ends the call
                self._stop = error
        if self._stop is not None:
            raise self._stop
        if errors:
            raise errors[0]
        return results[0]


_POLL_S, _POLL_MOST_S = 0.001, 0.05


class Store:
    """A key-value store in which ranks meet, by URL. Every rank opens the same.

    file:DIR                         a folder that all ranks see
    tcp://host:port                  a server that one of the ranks runs
    redis://[user:password@]host     a Redis server
    pmi:                             found by mpiexec or srun --mpi=pmi2

    timeout: seconds for each request to a server. Use it as a context manager, or close it; after the contexts that
    use it. One thread at a time uses a store. ``Store.memory()`` is a store for ranks that are threads, and
    ``Store.of(object)`` one that you write yourself.

    >>> import gcoll
    >>> with gcoll.Store.memory() as store:
    ...     store.set("key", b"value")
    ...     store.get("key"), store.add("count", 2)
    (b'value', 2)
    """

    def __init__(self, url: str, timeout: float = 30.0) -> None:
        self._raw = c_void_p()
        self._base: Optional[Store] = None
        self._written: Optional[_Written] = None
        check(api.gcoll_store_open(utf8(url, "url"), milliseconds(timeout, "timeout", False), byref(self._raw)),
              "Store")

    @classmethod
    def _made(cls, raw: c_void_p, base: "Optional[Store]" = None) -> "Store":
        store = cls.__new__(cls)
        store._raw, store._base = raw, base
        store._written = base._written if base else None
        return store

    @classmethod
    def memory(cls) -> "Store":
        """Makes a store in the memory of this process. Any number of threads may use it."""
        raw = c_void_p()
        check(api.gcoll_store_memory_create(byref(raw)), "Store.memory")
        return cls._made(raw)

    @classmethod
    def of(cls, target: Any) -> "Store":
        """Makes a store of an object with these methods, such as a store of torch.distributed:

        set(key, value)   creates or replaces the value, which is bytes; key is text
        get(key)          returns the value. If there is no such key: waits for it, or returns None, or raises a
                          LookupError; then it is asked again and again
        remove(key)       may be missing; then contexts leave some keys behind

        A context uses such a store only while it is created. An exception of a method makes an ``IoError``, whose
        cause it is. The methods are called on other threads than Python's main thread, one at a time. ``Context``
        takes such objects, too.

        >>> import gcoll
        >>> class Keys(dict):
        ...     set = dict.__setitem__
        >>> with gcoll.Store.of(Keys()) as store:
        ...     store.set("key", b"value")
        ...     store.get("key", timeout=1)
        b'value'
        """
        written, raw = _Written(target), c_void_p()
        check(api.gcoll_store_create(byref(written.ops), None, byref(raw)), "Store.of")
        store = cls._made(raw)
        store._written = written
        return store

    def _run(self, function: Callable[[], T]) -> T:
        """Runs a call that may use this store."""
        return self._written.run(function) if self._written else function()

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
        handle, name, content = self._handle(), utf8(key, "key"), bytes(value)
        self._run(lambda: check(api.gcoll_store_set(handle, name, content, len(content)), "Store.set"))

    def set_new(self, key: str, value: Union[bytes, bytearray]) -> None:
        """Creates a value. StateError if the key exists; of several callers at once, one succeeds."""
        check(api.gcoll_store_set_new(self._handle(), utf8(key, "key"), bytes(value), len(value)), "Store.set_new")

    def get(self, key: str, timeout: Optional[float] = None) -> bytes:
        """Returns a value. timeout: None does not wait, and raises NotFoundError if there is no such key; else waits
        for so many seconds, and raises TimeoutError then."""
        room, size, handle, name = create_string_buffer(_VALUE_MAX), c_size_t(), self._handle(), utf8(key, "key")
        if timeout is None:
            check(api.gcoll_store_get(handle, name, room, _VALUE_MAX, byref(size)), "Store.get")
        else:
            limit = milliseconds(timeout, "timeout", False)
            self._run(lambda: check(api.gcoll_store_get_wait(handle, name, room, _VALUE_MAX, byref(size), limit),
                                    "Store.get"))
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
        handle, name = self._handle(), utf8(key, "key")
        self._run(lambda: check(api.gcoll_store_remove(handle, name), "Store.remove"))

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
