"""Contexts: groups of ranks that run collectives together, and exchange messages."""

import asyncio
import collections
import os
import pickle
import re
import threading
import weakref
from ctypes import (addressof, byref, c_int, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p, create_string_buffer, memmove,
                    pointer, sizeof, string_at)
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._buffers import Buffer, describe, resolve, resolve_output
from ._collectives import (COLLECTIVES, OPS, Collectives, _Call, read_codec, read_number, read_order,
                           read_same)
from ._errors import Error, StateError, Status, UnsupportedError, check, error_of, text_of
from ._library import (CollectiveOptions, CollectiveStatsStruct, ContextOptions, CostParameters, EnvironmentStruct, ExchangeFunction,
                       GrowOptions, IbverbsOptions, LogFunction, PeerStatsStruct, RegionKeyStruct, ShrinkOptions,
                       StatsStruct, api)
from ._requests import (Claim, Operation, Received, Request, Watch, finish, milliseconds, own_error, poll, takes_signals)
from ._store import Store, describes_store, utf8

_IS_INSIDE = re.compile(r"context: (another thread of )?rank \d+ is inside a gcoll call on it")
_LEVELS = ("error", "warning", "info", "debug")
_TEXT_MAX = 65536
_UINT32 = 1 << 32
_GROW_MOST = 16  # newcomers that wait in a store at a time

# ---- What the environment says --------------------------------------------------------------------------


class Environment(NamedTuple):
    """A job's rank, size and store, as its launcher says them. local_rank, local_size: on this host, or None. source:
    the launcher. store: URL, or "" if nothing says where ranks meet."""
    rank: int
    size: int
    local_rank: Optional[int]
    local_size: Optional[int]
    source: str
    job: str
    store: str


def environment() -> Environment:
    """Reads the variables of torchrun, Slurm, Open MPI, PMI, PMIx, Kubernetes, or GCOLL_RANK, GCOLL_SIZE and
    GCOLL_STORE. NotFoundError if none are set."""
    found = EnvironmentStruct()
    api.gcoll_environment_init(byref(found))
    check(api.gcoll_environment_read(byref(found)), "environment")
    return Environment(found.rank, found.size, None if found.local_rank == _UINT32 - 1 else found.local_rank,
                       found.local_size or None, found.source.decode(), found.job.decode(), found.store.decode())


def _numbers(struct: Any) -> Dict[str, Any]:
    """The fields of a struct of statistics."""
    fields = {name: getattr(struct, name) for name, _ in struct._fields_ if name != "struct_size"}
    if fields.get("lane"):
        fields["lane"] = fields["lane"].decode()
    return fields


def metrics(contexts: "Sequence[Context]", path: "Optional[Union[str, os.PathLike[str]]]" = None) -> str:
    """The statistics of some contexts of this process as text in Prometheus' format, for a server of metrics; from any
    thread. With path, also written to that file as a whole, for the textfile collector of node_exporter.

    >>> import gcoll
    >>> def rank(context):
    ...     context.barrier()
    ...     return [line for line in gcoll.metrics([context]).splitlines() if line.startswith("gcoll_operations_total{")]
    >>> gcoll.run_local(2, rank)[0][0].endswith('collective="barrier"} 1')
    True
    """
    handles = (c_void_p * len(contexts))(*[context._handle() for context in contexts])
    needed = c_size_t()
    if path is not None:
        check(api.gcoll_metrics_write(handles, len(handles), os.fsencode(path)), "metrics")
    check(api.gcoll_metrics(handles, len(handles), None, 0, byref(needed)), "metrics")
    while True:  # what is counted meanwhile may make it longer
        text = create_string_buffer(needed.value + 1024)
        status = api.gcoll_metrics(handles, len(handles), text, len(text), byref(needed))
        if status == Status.OK or needed.value <= len(text):
            check(status, "metrics")
            return text.value.decode()


# ---- Options --------------------------------------------------------------------------------------------

_TEXTS = ("job", "transport", "interface", "tuning", "accelerator", "launch", "secret_file", "encryption", "tls_certificate",
          "tls_key", "tls_ca", "tls_name")
_FLAGS = ("progress_thread", "monitor", "checksum", "share", "recovery")
_IBVERBS_TEXTS = ("device",)
_IBVERBS_NUMBERS = ("port", "gid_index", "mtu", "pkey", "service_level", "traffic_class", "timeout", "retry_count",
                    "rnr_retry", "cache_bytes", "device_memory")


class Hub:
    """Connects ranks that are threads of one process, for ``transport="inproc"``. ``run_local`` makes one."""

    def __init__(self, size: int) -> None:
        self._raw = c_void_p()
        check(api.gcoll_hub_create(read_number(size, "size", _UINT32), byref(self._raw)), "Hub")

    def close(self) -> None:
        """Destroys the hub. Close its contexts first."""
        if self._raw.value is not None:
            raw, self._raw = self._raw, c_void_p()
            api.gcoll_hub_destroy(raw)

    def __enter__(self) -> "Hub":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close()


def _make_log(log: Callable[[str, str], None]) -> Any:
    def called(_arg: Any, level: int, text: bytes) -> None:
        try:
            log(_LEVELS[level] if 0 <= level < len(_LEVELS) else str(level), text.decode("utf-8", "replace"))
        except Exception:  # a log that fails must not stop the context
            pass
    return LogFunction(called)


def _make_exchange(exchange: Callable[[bytes], Sequence[bytes]], size: int, errors: List[BaseException]) -> Any:
    def called(_arg: Any, mine: int, nbytes: int, every: int) -> int:
        try:
            parts = list(exchange(string_at(mine, nbytes)))
            if len(parts) != size or any(len(part) != nbytes for part in parts):
                raise ValueError("exchange: gave %d texts; allowed are %d, each of %d bytes" %
                                 (len(parts), size, nbytes))
            for rank, part in enumerate(parts):
                memmove(every + rank * nbytes, bytes(part), nbytes)
            return Status.OK
        except BaseException as error:
            errors.append(error)
            return int(api.gcoll_store_error(Status.IO, b"exchange: " + text_of(error)))
    return ExchangeFunction(called)


def _ibverbs(given: Dict[str, Any]) -> IbverbsOptions:
    options = IbverbsOptions()
    api.gcoll_ibverbs_options_init(byref(options))
    for name, value in given.items():
        if name in _IBVERBS_TEXTS:
            setattr(options, name, utf8(value, "ibverbs[%r]" % name))
        elif name in _IBVERBS_NUMBERS:
            setattr(options, name, int(value))
        else:
            raise TypeError("ibverbs[%r]: is unknown; allowed are %s" %
                            (name, ", ".join(_IBVERBS_TEXTS + _IBVERBS_NUMBERS)))
    return options


def _make_options(keep: List[Any], errors: List[BaseException], given: Dict[str, Any]) -> ContextOptions:
    options = ContextOptions()
    api.gcoll_context_options_init(byref(options))
    for name, value in given.items():
        if value is None or value is False and name in _FLAGS:
            continue
        if name in _TEXTS:
            setattr(options, name, utf8(value, name))
        elif name in _FLAGS:
            setattr(options, name, read_number(value, name, 2))
        elif name in ("rank", "size"):
            setattr(options, name, read_number(value, name, _UINT32))
        elif name == "timeout":
            options.timeout_ms = milliseconds(value, name, False)
        elif name == "silence":
            options.silence_ms = milliseconds(value, name)
        elif name == "spin":
            options.spin_us = -1 if value == 0 else read_number(int(value * 1e6), name, 1 << 40)
        elif name in ("eager_bytes", "eager_pool_bytes"):
            setattr(options, name, read_number(value, name, 1 << 63))
        elif name == "ports":
            low, high = value
            options.port_min, options.port_max = read_number(low, "ports", 65536), read_number(high, "ports", 65536)
        elif name == "same":
            options.same = read_same(value)
        elif name == "order":
            options.order = read_order(value)
        elif name == "secret":
            if not isinstance(value, (bytes, str)):
                raise TypeError("secret: is of type %s; allowed are bytes and texts" % type(value).__name__)
            secret = value if isinstance(value, bytes) else utf8(value, name)
            keep.append(create_string_buffer(secret, len(secret)))
            options.secret, options.secret_bytes = addressof(keep[-1]), len(secret)
        elif name == "cost":
            keep.append(CostParameters(*(float(part) for part in value)))
            options.cost = pointer(keep[-1])
        elif name == "ibverbs":
            keep.append(_ibverbs(value))
            options.ibverbs = pointer(keep[-1])
        elif name == "hub":
            keep.append(value)
            options.hub = value._raw
        elif name == "log":
            options.log = _make_log(value)
            keep.append(options.log)
        elif name == "exchange":
            options.exchange = _make_exchange(value, given["size"], errors)
            keep.append(options.exchange)
        else:
            raise TypeError("%s: is no option of a context" % name)
    return options


def _open_store(store: Any, timeout: Optional[float]) -> Tuple[Optional[Store], bool]:
    """The store that a caller has named, and whether it was opened here."""
    if store is None or isinstance(store, Store):
        return store, False
    if isinstance(store, str):
        return Store(store, timeout or 30.0), True
    if not describes_store(store):
        raise TypeError("store: is %s; allowed are a Store, a URL, an object with the methods set(key, value) and "
                        "get(key), and None" % describe(store))
    return Store.of(store), True


def _create(function: Any, options: ContextOptions, store: Any, timeout: Optional[float], keep: List[Any],
            errors: List[BaseException], name: str) -> c_void_p:
    """Runs a function of options that creates a context. keep: receives the store."""
    used, opened = _open_store(store, timeout)
    handle = c_void_p()

    def create() -> None:
        status = function(byref(options), byref(handle))
        if status:
            raise error_of(status, name) from (errors[0] if errors else None)
    try:
        if used is None:
            create()
        else:
            options.store = used._handle()
            keep.append(_Owned(used) if opened else used)
            used._run(create)
    except BaseException:
        api.gcoll_context_destroy(handle)  # Ctrl-C came just when it was made
        if used is not None and opened:
            used.close()
        raise
    return handle


# ---- What a context holds -------------------------------------------------------------------------------


class _Core:
    """The handle of a context, and what must live as long as it. Outlives the Context by which it is closed."""

    def __init__(self, handle: Optional[int], keep: List[Any]) -> None:
        self.handle = handle
        self.keep = keep
        self.requests: Dict[int, Tuple[Any, Any]] = {}  # in flight: handles, and what they keep
        self.inside: Dict[int, Claim] = {}  # requests and operations that threads wait for
        self.dropped_requests: Deque[Tuple[Any, Any]] = collections.deque()
        self.operations: Dict[int, Tuple[c_void_p, Any]] = {}
        self.dropped: List[Tuple[c_void_p, Any]] = []
        self.regions: Dict[int, Tuple[c_void_p, Any]] = {}
        self.pairs: Dict[int, Any] = {}
        self.lock = threading.Lock()

    def drop(self, handle: c_void_p, keep: Any) -> None:
        """Notes a request, if there is one, that the program does not get. It goes on, and so do its buffers."""
        if handle.value is not None:
            self.dropped_requests.append((handle, keep))

    def end_dropped_requests(self) -> None:
        """Ends requests in flight that the program has let go of. A few in each call: no call takes long, and they do
        not add up."""
        for _ in range(min(2, len(self.dropped_requests))):
            try:
                handle, keep = self.dropped_requests.popleft()
            except IndexError:  # another thread was faster
                return
            if handle.value is not None:
                api.gcoll_request_test(byref(handle), byref(c_int()))
            if handle.value is not None:
                self.dropped_requests.append((handle, keep))

    def free_dropped(self) -> None:
        while self.dropped:
            handle, _keep = self.dropped.pop()
            api.gcoll_operation_destroy(handle)

    def close(self) -> None:
        with self.lock:
            if any(claim.counts() for claim in list(self.inside.values())):
                raise StateError("another thread is inside a call on the context", Status.STATE, "close")
            self.inside.clear()
            handle, self.handle = self.handle, None
        if not handle:
            return
        api.gcoll_store_error(Status.OK, b"")  # so that a text is that of the call below
        for _ in range(len(self.dropped_requests)):
            self.end_dropped_requests()
        idle = not self.requests and not self.dropped_requests
        if idle:
            self.free_dropped()
            for operation, _keep in list(self.operations.values()):
                api.gcoll_operation_destroy(operation)
            for region, _keep in list(self.regions.values()):
                api.gcoll_region_destroy(region)
        api.gcoll_context_destroy(handle)
        text = (api.gcoll_last_error() or b"").decode("utf-8", "replace")
        if _IS_INSIDE.match(text):  # and not the cause of a broken context that quotes it
            self.handle = handle
            raise StateError(text, Status.STATE, "close")
        if not idle:  # their context is gone, and with it what was in flight
            self.free_dropped()
            for operation, _keep in list(self.operations.values()):
                api.gcoll_operation_destroy(operation)
        self.operations.clear()
        self.regions.clear()
        self.requests.clear()
        self.dropped_requests.clear()
        for kept in self.keep:
            if isinstance(kept, _Owned):
                kept.value.close()
        self.keep = []


class _Owned:
    """A store that belongs to a context."""

    def __init__(self, value: Any) -> None:
        self.value = value


# ---- Forms of the collectives ---------------------------------------------------------------------------


class Started(Collectives[Request]):
    """The collectives and messages that do not block: ``context.start``. Each returns a ``Request``."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._size, self._rank = context._size, context._rank

    def _owner(self) -> "Context":
        return self._context

    def _go(self, call: _Call) -> Request:
        if self._context._core.dropped_requests:
            self._context._core.end_dropped_requests()
        handle = c_void_p()
        try:
            status = api.gcoll_call_start(self._context._handle(), byref(call.struct), byref(handle))
            if status:
                raise self._context._failure(status, call.name, call)
            return Request(self._context, handle, call.name, call, call.result)
        except BaseException:
            self._context._core.drop(handle, call)
            raise

    def send(self, data: Any, dest: int, tag: int = 0) -> Request:
        """Begins ``Context.send``."""
        self._context._core.end_dropped_requests()
        buffer = _host(resolve(data, "data"), "data")
        pair, number = self._context._pair(dest, "dest"), _tag(tag)
        return self._message("send", buffer, lambda handle: api.gcoll_pair_send_start(
            pair, number, buffer.address, buffer.nbytes, handle))

    def recv(self, data: Any, source: Union[int, Sequence[int], None] = None, tag: int = 0) -> Request:
        """Begins ``Context.recv``. The result is a ``Received``. ``Request.cancel`` may cancel it."""
        self._context._core.end_dropped_requests()
        buffer, number = _host(resolve_output(data, "data"), "data"), _tag(tag)
        if _is_rank(source):
            pair = self._context._pair(source, "source")
            return self._message("recv", buffer, lambda handle: api.gcoll_pair_recv_start(
                pair, number, buffer.address, buffer.nbytes, handle), receives=True)
        peers, context = self._context._peers(source), self._context._handle()
        return self._message("recv", buffer, lambda handle: api.gcoll_context_recv_any_start(
            context, peers, len(peers), number, buffer.address, buffer.nbytes, handle), receives=True)

    def put(self, key: bytes, data: Any, offset: int = 0, notify: bool = False) -> Request:
        """Begins ``Context.put``."""
        return self._access("put", key, _host(resolve(data, "data"), "data"), offset, int(bool(notify)))

    def get(self, key: bytes, data: Any, offset: int = 0) -> Request:
        """Begins ``Context.get``."""
        return self._access("get", key, _host(resolve_output(data, "data"), "data"), offset)

    def _access(self, name: str, key: bytes, buffer: Buffer, offset: int, *flags: int) -> Request:
        start = api.gcoll_put_start if name == "put" else api.gcoll_get_start
        context, where, at = self._context._handle(), _region_key(key), read_number(offset, "offset", 1 << 63)
        return self._message(name, buffer, lambda handle: start(
            context, byref(where), at, buffer.address, buffer.nbytes, *flags, handle))

    def _message(self, name: str, buffer: Buffer, start: Callable[[Any], Any], receives: bool = False) -> Request:
        """Makes the request of a message that `start` begins. Ctrl-C may come at any point: what has begun keeps its
        buffer."""
        handle = c_void_p()
        try:
            check(start(byref(handle)), name, self._context._core.handle)
            return Request(self._context, handle, name, buffer.keep, None, receives)
        except BaseException:
            self._context._core.drop(handle, buffer.keep)
            raise


class Prepared(Collectives[Operation]):
    """The collectives that are prepared once and run often: ``context.prepare``. Each returns an ``Operation``.
    Preparing is not collective and sends nothing."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._size, self._rank = context._size, context._rank

    def _owner(self) -> "Context":
        return self._context

    def _go(self, call: _Call) -> Operation:
        self._context._core.free_dropped()
        handle = c_void_p()
        status = api.gcoll_call_create(self._context._handle(), byref(call.struct), byref(handle))
        if status:
            raise self._context._failure(status, call.name, call)
        return Operation(self._context, handle, call.name, call, call.result)


# ---- Messages -------------------------------------------------------------------------------------------


def _host(buffer: Buffer, name: str) -> Buffer:
    if buffer.device:
        raise TypeError("%s: lies on a device; allowed for messages are arrays in host memory" % name)
    return buffer


def _is_rank(source: Any) -> bool:
    """Whether a source is one rank, and not a list of ranks."""
    return hasattr(source, "__index__") and not hasattr(source, "__len__")


def _tag(tag: int) -> int:
    return read_number(tag, "tag", _UINT32)


def _region_key(key: Any) -> RegionKeyStruct:
    if not isinstance(key, (bytes, bytearray)) or len(key) != 64:
        raise TypeError("key: is %s; allowed are the 64 bytes of Region.key" % describe(key))
    return RegionKeyStruct.from_buffer_copy(key)


class Region:
    """Memory that peers read and write by themselves, made by ``Context.region``. Give `key` to peers, for example
    by ``allgather_object``. Close it when no peer uses it any more, for example after a barrier.

    >>> import gcoll, numpy
    >>> def rank(context):
    ...     window = numpy.zeros(2)
    ...     with context.region(window) as region:
    ...         keys = context.allgather_object(region.key)
    ...         context.put(keys[1 - context.rank], numpy.array([context.rank + 5.0]), offset=8, notify=True)
    ...         region.wait(1)
    ...         context.barrier()
    ...     return window.tolist()
    >>> gcoll.run_local(2, rank, progress_thread=True)
    [[0.0, 6.0], [0.0, 5.0]]
    """

    def __init__(self, context: "Context", data: Any) -> None:
        buffer = _host(resolve_output(data, "data"), "data")
        self._context = context
        self._raw = c_void_p()
        check(api.gcoll_region_create(context._handle(), buffer.address, buffer.nbytes, byref(self._raw)), "region",
              context._core.handle)
        self.nbytes = buffer.nbytes
        context._core.regions[id(self)] = (self._raw, buffer.keep)

    def _live(self) -> c_void_p:
        if self._raw.value is None or not self._context._core.handle:
            raise StateError("the region is closed", Status.STATE, "region")
        return self._raw

    @property
    def key(self) -> bytes:
        """The key by which every rank of the context that has it may access the region."""
        key = RegionKeyStruct()
        check(api.gcoll_region_export(self._live(), byref(key)), "key", self._context._core.handle)
        return bytes(key.bytes)

    def key_for(self, rank: int) -> bytes:
        """A key that is of use to one rank alone: an access by another one breaks the context. The owner moves the
        bytes, also over an RDMA device."""
        key = RegionKeyStruct()
        check(api.gcoll_region_export_to(self._live(), read_number(rank, "rank", 1 << 32), byref(key)), "key_for",
              self._context._core.handle)
        return bytes(key.bytes)

    def notified(self) -> int:
        """The number of notifications since the region was made. Makes progress without waiting."""
        count = c_uint64()
        check(api.gcoll_region_notified(self._live(), byref(count)), "notified", self._context._core.handle)
        return count.value

    def wait(self, count: int) -> None:
        """Waits until there have been at least `count` notifications. TimeoutError after the context's timeout,
        which breaks nothing."""
        check(api.gcoll_region_wait(self._live(), read_number(count, "count", 1 << 63)), "wait",
              self._context._core.handle)

    def close(self) -> None:
        """Frees the region."""
        entry = self._context._core.regions.pop(id(self), None)
        if entry is not None:
            api.gcoll_region_destroy(self._raw)
        self._raw = c_void_p()

    def __enter__(self) -> "Region":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()


class Agreement(NamedTuple):
    """The result of ``Context.agree``, the same on every rank that is left. bits: the bitwise AND of their bits.
    completed: the least of their ``Context.completed``."""
    bits: int
    completed: int


class Context(Collectives[Any]):
    """A group of ranks that run collectives together. Creating it blocks until all ranks have joined.

    rank, size       of this process in the job
    store            where ranks meet: a ``Store``, a URL, or an object with the methods set and get (``Store.of``).
                     None if size is 1, or with `exchange`
    job              name of the job, for several jobs on one store
    transport        "auto", "tcp", "shm", "ibverbs" or "inproc", with options: "tcp:eager_bytes=64Ki", or several:
                     "shm,tcp"; None: the variable GCOLL_TRANSPORT, or "auto"
    timeout          seconds without progress after which a call fails; None: 30
    progress_thread  True: a thread of the library makes progress between calls. Several Python threads may then use
                     the context, and ``await`` sleeps until a request has ended
    interface        interfaces, addresses and subnets to use, "eth0,10.0.0.0/8", or to leave out, "^docker0,veth*";
                     None: the variable GCOLL_INTERFACE, or all. ports: a range (low, high) to listen on
    same             where results are the same: "ranks" (also None), "runs" or "nowhere"
    order            the tree of operations of reductions: "any" (also None), "pairs" or "left"
    tuning           "fit" or a file, which learn from calls; "fixed", "fixed:FILE" or "default", which do not; cost: (alpha, beta, gamma) in its place
    accelerator      "cuda", "none" or "auto" (also None): memory that arrays may lie in
    monitor          True: late ranks are watched, and other ranks do not wait for them; see ``arrival_site``
    checksum         True: what ranks send carries a checksum
    share            True: contexts made of this one by ``split``, ``create_group`` and ``duplicate`` share its connections;
                     one thread at a time uses all of them. Over tcp and inproc, and without progress_thread
    recovery         True: after a failure the ranks that are left can ``agree`` and ``shrink``; newcomers can ``join``,
                     and are admitted by ``grow``
    secret           the job's secret, 16 to 4096 bytes or a text, the same on every rank; secret_file: a file with it, which
                     others cannot read. None: the variable GCOLL_SECRET_FILE or GCOLL_SECRET, or else there is none
    encryption       "off", "auth" (ranks prove that they know the secret), "on" (TLS 1.3) or "on:ibverbs"; None: the
                     variable GCOLL_ENCRYPTION, or "auth" if there is a secret. tls_certificate, tls_key, tls_ca: PEM files,
                     in place of a key of the secret; tls_name: the name that a rank's certificate must have, "pod-{rank}.job"
    exchange         in place of a store: a function that gives every rank the bytes of all ranks, such as mpi4py's
                     comm.allgather
    log              a function of level ("error", "warning", "info", "debug") and text
    launch, silence, spin, eager_bytes, eager_pool_bytes, ibverbs (a dict), hub: as in gcoll/context.h; silence and
                     spin in seconds

    Use it as a context manager, or close it. If an exception leaves the ``with`` block, the context is aborted, and
    the other ranks get an AbortedError with its text.

    Threads. Calls release the GIL. One thread at a time uses a context without a progress thread; StateError refuses
    others. ``abort`` and ``wake`` may be called from any thread. Every rank starts its collectives in the same order,
    so let one thread start them, or give each thread a ``duplicate``.

    Ctrl-C raises KeyboardInterrupt within 0.1 s in a collective, a message, a put or get, ``Operation.run`` and
    ``Request.wait``. What has begun goes on, with its arrays. Other calls return first, at the latest after their
    timeout: creation, close, ``split`` and the like, ``agree``, ``shrink``, ``grow`` and ``join``, ``Region.wait``,
    ``sendrecv``, ``barrier_report``, and collectives with `monitor` or ``uniform``.

    Forks. A forked child must not use the context; each call is refused with StateError.

    Errors of creation: ``TimeoutError`` names the ranks that did not join, ``PeerError`` a rank that died while it
    joined, ``MismatchError`` two processes with one rank.

    >>> import gcoll, numpy
    >>> with gcoll.Context(rank=0, size=1) as context:
    ...     context.allreduce(numpy.array([1, 2]))
    array([1, 2])
    """

    progress_thread: bool

    def __init__(self, rank: int, size: int, store: Any = None, *, job: Optional[str] = None,
                 transport: Optional[str] = None, timeout: Optional[float] = None, progress_thread: bool = False,
                 interface: Optional[str] = None, ports: Optional[Tuple[int, int]] = None,
                 same: Optional[str] = None, order: Optional[str] = None, tuning: Optional[str] = None,
                 cost: Optional[Tuple[float, float, float]] = None, accelerator: Optional[str] = None,
                 monitor: bool = False, checksum: bool = False, share: bool = False,
                 recovery: bool = False, secret: Optional[Union[bytes, str]] = None,
                 secret_file: Optional[str] = None, encryption: Optional[str] = None,
                 tls_certificate: Optional[str] = None, tls_key: Optional[str] = None, tls_ca: Optional[str] = None,
                 tls_name: Optional[str] = None,
                 exchange: Optional[Callable[[bytes], Sequence[bytes]]] = None,
                 log: Optional[Callable[[str, str], None]] = None, launch: Optional[str] = None,
                 silence: Optional[float] = None, spin: Optional[float] = None, eager_bytes: Optional[int] = None,
                 eager_pool_bytes: Optional[int] = None, ibverbs: Optional[Dict[str, Any]] = None,
                 hub: Optional[Hub] = None) -> None:
        keep: List[Any] = []
        errors: List[BaseException] = []
        options = _make_options(keep, errors, {
            "rank": rank, "size": size, "job": job, "transport": transport, "timeout": timeout,
            "progress_thread": progress_thread, "interface": interface, "ports": ports, "same": same, "order": order,
            "tuning": tuning, "cost": cost, "accelerator": accelerator, "monitor": monitor, "checksum": checksum,
            "share": share, "recovery": recovery, "secret": secret, "secret_file": secret_file, "encryption": encryption,
            "tls_certificate": tls_certificate, "tls_key": tls_key, "tls_ca": tls_ca, "tls_name": tls_name,
            "exchange": exchange, "log": log, "launch": launch, "silence": silence, "spin": spin,
            "eager_bytes": eager_bytes, "eager_pool_bytes": eager_pool_bytes, "ibverbs": ibverbs, "hub": hub})
        handle = _create(api.gcoll_context_create, options, store, timeout, keep, errors, "Context")
        self._adopt(handle, keep, bool(progress_thread), bool(monitor))

    @classmethod
    def from_env(cls, **options: Any) -> "Context":
        """Creates a context from the variables of the launcher that started this process: torchrun, srun, mpirun,
        Kubernetes, or GCOLL_RANK, GCOLL_SIZE and GCOLL_STORE. options: as of ``Context``, without rank, size, store
        and exchange. NotFoundError if no launcher's variables are set."""
        for name in ("rank", "size", "store", "exchange", "hub"):
            if name in options:
                raise TypeError("%s: is given; allowed with from_env are options that the environment does not say" % name)
        keep: List[Any] = []
        struct = _make_options(keep, [], options)
        handle = c_void_p()
        check(api.gcoll_context_create_from_env(byref(struct), byref(handle)), "from_env")
        return cls._made(handle, keep, bool(options.get("progress_thread")), bool(options.get("monitor")))

    @classmethod
    def join(cls, store: Any, **options: Any) -> "Context":
        """Joins a job that is running, as a newcomer: waits in the job's store until its ranks call ``grow``, and
        returns the new context. options: as of ``Context``, without rank, size, recovery, share and exchange.
        transport, checksum, monitor and the like must be those of the ranks that are in; cost and tuning come from
        them. The store needs all operations, as those of URLs have them. TimeoutError if it was not admitted in time;
        it may try again."""
        for name in ("rank", "size", "recovery", "share", "exchange", "hub"):
            if name in options:
                raise TypeError("%s: is given; a newcomer gets it from the job, so leave it out" % name if name in
                                ("rank", "size", "recovery") else "%s: is given; not allowed with join" % name)
        keep: List[Any] = []
        struct = _make_options(keep, [], options)
        handle = _create(api.gcoll_context_join, struct, store, options.get("timeout"), keep, [], "join")
        return cls._made(handle, keep, bool(options.get("progress_thread")), bool(options.get("monitor")))

    @classmethod
    def _made(cls, handle: c_void_p, keep: List[Any], progress_thread: bool, has_monitor: bool) -> "Context":
        context = cls.__new__(cls)
        context._adopt(handle, keep, progress_thread, has_monitor)
        return context

    def _adopt(self, handle: c_void_p, keep: List[Any], progress_thread: bool, has_monitor: bool) -> None:
        self._core = _Core(handle.value, keep)
        self._rank = int(api.gcoll_context_rank(handle))
        self._size = int(api.gcoll_context_size(handle))
        self.progress_thread = progress_thread
        self._has_monitor = has_monitor  # which watches blocking calls only
        self._watcher: Optional[Watch] = None
        self.start = Started(self)
        self.prepare = Prepared(self)
        # Also at the end of the program: peers learn that this rank is leaving, and no callback comes later.
        self._finalizer = weakref.finalize(self, _close_quietly, self._core)

    def __repr__(self) -> str:
        return "<gcoll.Context rank %d of %d%s>" % (self._rank, self._size, "" if self._core.handle else ", closed")

    # ---- Parts of calls ---------------------------------------------------------------------------------

    def _handle(self) -> int:
        handle = self._core.handle
        if not handle:
            raise StateError("the context is closed", Status.STATE, "Context")
        return handle

    def _owner(self) -> "Context":
        return self

    def _failure(self, status: int, name: str, keep: Any = None) -> BaseException:
        """The exception for a failed call; that of the caller's own operation, if that failed."""
        error = error_of(status, name, self._core.handle)
        return own_error(keep, error) or error

    def _go(self, call: _Call) -> Any:
        if self._has_monitor or call.is_uniform or not takes_signals():
            status = api.gcoll_call_run(self._handle(), byref(call.struct))
        else:
            status = self._run_in_slices(call)
        if status:
            raise self._failure(status, call.name, call)
        if call.bound is not None and call.bound.error is not None:
            raise call.bound.error  # Ctrl-C came when the last reduction was done
        return call.result

    def _run_in_slices(self, call: _Call) -> int:
        """The same on the thread on which handlers of signals run. If one raises an exception, the call goes on."""
        handle = c_void_p()
        try:
            with Claim(handle, self, call.name):
                status = api.gcoll_call_start(self._handle(), byref(call.struct), byref(handle))
                return int(status or finish(self, handle))
        except BaseException:
            self._core.drop(handle, call)
            raise

    def _pair(self, peer: Any, name: str) -> Any:
        number = read_number(peer, name, self._size)
        pair = self._core.pairs.get(number)
        if pair is None:
            pair = c_void_p()
            check(api.gcoll_context_pair(self._handle(), number, byref(pair)), name, self._core.handle)
            self._core.pairs[number] = pair
        self._handle()
        return pair

    def _peers(self, source: Any) -> Any:
        if source is None:
            ranks = [rank for rank in range(self._size) if rank != self._rank]
        else:
            try:
                ranks = [read_number(rank, "source", self._size) for rank in source]
            except TypeError:
                raise TypeError("source: is %s; allowed are a rank, a list of ranks, and None for any rank" %
                                describe(source)) from None
        return (c_uint32 * len(ranks))(*ranks)

    def _watch(self, request: Request) -> Any:
        """An awaitable that ends when the request has ended."""
        loop = asyncio.get_running_loop()
        watcher = self._watcher
        if watcher is not None and watcher.loop is not loop and watcher.is_idle:
            watcher = None
        if watcher is None:
            try:
                self._watcher = watcher = Watch(self, loop, self.fileno())
            except UnsupportedError:
                return poll(request)
        # The events of a context are one stream, which one loop can read.
        return watcher.add(request) if watcher.loop is loop else poll(request)

    # ---- Life -------------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """This rank, from 0."""
        return self._rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._size

    @property
    def culprit(self) -> Optional[int]:
        """The rank that broke the context, or None."""
        rank = api.gcoll_context_culprit(self._handle())
        return rank if rank >= 0 else None

    def check(self) -> None:
        """Raises the cause, if the context is broken. Does nothing else."""
        check(api.gcoll_context_health(self._handle()), "check", self._core.handle)

    def abort(self, reason: str) -> None:
        """Breaks the context on every rank: calls raise AbortedError with `reason`. From any thread. Does not wait."""
        api.gcoll_context_abort(self._handle(), str(reason).encode("utf-8", "replace").split(b"\0")[0])

    def wake(self) -> None:
        """Makes the descriptor of ``fileno`` readable. From any thread."""
        check(api.gcoll_context_wake(self._handle()), "wake")

    def fileno(self) -> int:
        """A descriptor for an event loop, which is readable when a request has ended. Read 8 bytes, then test
        requests. UnsupportedError without a progress thread, and for one rank. ``await`` uses it."""
        fd = c_int()
        check(api.gcoll_context_fd(self._handle(), byref(fd)), "fileno")
        return fd.value

    def close(self) -> None:
        """Leaves the job and frees the context, with its operations and regions. Takes up to about a second. Requests
        in flight fail, here and on other ranks. StateError while another thread is inside a call."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop()
        self._core.close()
        if watcher is not None:
            watcher.close()
        self._finalizer.detach()

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None and self._core.handle and not isinstance(error, Error):
            self.abort("%s: %s" % (kind.__name__, error))
            if self._size > 1:  # a call tells the other ranks, before they see that this one leaves
                api.gcoll_context_probe(self._handle(), self._peers(None), 1, 0, byref(c_int()), None, None)
        self.close()

    def duplicate(self) -> "Context":
        """Creates another context of the same ranks, with its own order of calls. Collective."""
        return self._child(self._new("duplicate", api.gcoll_context_duplicate))

    def _new(self, name: str, function: Any, *arguments: Any) -> c_void_p:
        handle = c_void_p()
        check(function(self._handle(), *arguments, byref(handle)), name, self._core.handle)
        return handle

    def _child(self, handle: c_void_p) -> "Context":
        kept = [k for k in self._core.keep if not isinstance(k, (_Owned, Store))]
        return Context._made(handle, kept, self.progress_thread, self._has_monitor)

    def split(self, color: Optional[int], key: int = 0) -> "Optional[Context]":
        """Divides the ranks into groups by `color`, and creates a context for each. Collective. color: 0 or more;
        None: no group, and the result is None. Ranks of the new context are ordered by `key`, then by rank.

        >>> import gcoll
        >>> def rank(context):
        ...     with context.split(context.rank % 2) as group:
        ...         return group.allgather_object(context.rank)
        >>> gcoll.run_local(4, rank)
        [[0, 2], [1, 3], [0, 2], [1, 3]]
        """
        number = -1 if color is None else read_number(color, "color", 1 << 31)
        if not -(1 << 31) <= key < 1 << 31:
            raise ValueError("key: is %d; allowed are numbers of 32 bits" % key)
        handle = self._new("split", api.gcoll_context_split, number, key)
        return self._child(handle) if handle.value is not None else None

    def create_group(self, ranks: Sequence[int], tag: int = 0) -> "Context":
        """Creates a context of some ranks. Only these call it, with the same list. Rank i of it is ranks[i]. tag:
        tells the group from others that some of the same ranks create."""
        numbers = [read_number(rank, "ranks[%d]" % k, self._size) for k, rank in enumerate(ranks)]
        array = (c_uint32 * len(numbers))(*numbers)
        return self._child(self._new("create_group", api.gcoll_context_create_group, array, len(numbers), _tag(tag)))

    def parent_rank(self, rank: int) -> Optional[int]:
        """Translates a rank of a context made by ``split``, ``create_group``, ``shrink`` or ``grow`` to its rank of the
        parent. None for a newcomer, which was not in it."""
        found = int(api.gcoll_context_parent_rank(self._handle(), read_number(rank, "rank", self._size)))
        return found if found != _UINT32 - 1 else None

    # ---- Going on after a failure (option recovery) -----------------------------------------------------

    def failed(self) -> List[int]:
        """The ranks that are known here to be gone, in increasing order. Other ranks may know of others; after
        ``agree`` all know the same, but for later deaths. Does not wait. Works without `recovery`, too."""
        room = self._size
        ranks, count = (c_uint32 * room)(), c_uint32()
        check(api.gcoll_context_failed(self._handle(), ranks, room, byref(count)), "failed", self._core.handle)
        return list(ranks[:count.value])

    @property
    def completed(self) -> int:
        """The number of the latest operation such that it and all before it have completed on this rank. Operations
        in the creation of contexts count, too: take the difference of two values."""
        return int(api.gcoll_context_completed(self._handle()))

    def agree(self, bits: int = 0, timeout: Optional[float] = None) -> Agreement:
        """Agrees with the ranks that are left, on a context that is broken or not. All of them call it, and get the
        same result, also if more ranks die meanwhile. bits: this rank's, 64 of them. timeout: seconds; a rank from
        which nothing comes for so long counts as gone; None: the default of gcoll/recovery.h; math.inf: none.
        PeerError on a rank that the others have left out.

        >>> import gcoll
        >>> gcoll.run_local(2, lambda context: context.agree(0b110 >> context.rank).bits, recovery=True)
        [2, 2]
        """
        value, completed = c_uint64(read_number(bits, "bits", 1 << 64)), c_uint64()
        limit = milliseconds(timeout, "timeout")
        check(api.gcoll_context_agree(self._handle(), byref(value), byref(completed), limit), "agree",
              self._core.handle)
        return Agreement(value.value, completed.value)

    def shrink(self, majority: bool = False, timeout: Optional[float] = None) -> "Context":
        """Creates a context of the ranks that are left, in their old order. All of them call it. This context stays
        as it was; close it before the new one or after. ``parent_rank`` of the new context translates its ranks to
        those of this one. majority: PeerError unless more than half of the ranks are left; the same on every rank.
        timeout: as in ``agree``.

        >>> import gcoll
        >>> def rank(context):
        ...     if context.rank == 1:
        ...         return "leaves"
        ...     try:
        ...         context.barrier()
        ...     except gcoll.PeerError as error:
        ...         assert error.culprit == 1
        ...     with context.shrink() as survivors:
        ...         old = [survivors.parent_rank(r) for r in range(survivors.size)]
        ...         return old, context.failed(), survivors.allgather_object(context.rank)
        >>> gcoll.run_local(3, rank, recovery=True)
        [([0, 2], [1], [0, 2]), 'leaves', ([0, 2], [1], [0, 2])]
        """
        options = ShrinkOptions()
        api.gcoll_shrink_options_init(byref(options))
        options.majority = read_number(majority, "majority", 2)
        options.timeout_ms = milliseconds(timeout, "timeout")
        return self._child(self._new("shrink", api.gcoll_context_shrink, byref(options)))

    def grow(self, store: Any, job: Optional[str] = None, most: int = 0,
             timeout: Optional[float] = None) -> "Optional[Context]":
        """Creates a context of the ranks that are left, in their old order, and of newcomers, which call ``join`` and
        have the highest ranks. All ranks that are left call it, on a context that is broken or not. None if nobody
        waits; then call ``shrink`` if the context is broken. This context stays as it was; close it before the new one
        or after. ``parent_rank`` of the new context is None for newcomers.

        store: where newcomers wait: a ``Store``, or a URL, which is opened for this call; UnsupportedError if it lacks
        operations. Every rank gives it, and the lowest one asks it. A program that serves a tcp:// store keeps it open,
        because newcomers wait in it between the calls.
        job: as of ``Context``. most: newcomers that are admitted, up to 16; 0: as many as wait. timeout: as in
        ``agree``. If the store fails, all ranks raise that error, and may try again.

        >>> import gcoll, tempfile, threading
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     def newcomer():
        ...         with gcoll.Context.join("file:" + folder, transport="tcp") as context:
        ...             print(context.allgather_object("new"))
        ...     thread = threading.Thread(target=newcomer)
        ...     thread.start()
        ...     with gcoll.Context(0, 1, transport="tcp", recovery=True) as context:
        ...         grown = None
        ...         while grown is None:
        ...             grown = context.grow("file:" + folder)
        ...         with grown:
        ...             old = grown.allgather_object("old")
        ...     thread.join()
        ['old', 'new']
        """
        options = GrowOptions()
        api.gcoll_grow_options_init(byref(options))
        options.job = None if job is None else utf8(job, "job")
        options.most = read_number(most, "most", _GROW_MOST + 1)
        options.timeout_ms = milliseconds(timeout, "timeout")
        used, opened = _open_store(store, timeout)

        def create() -> c_void_p:
            return self._new("grow", api.gcoll_context_grow, byref(options))
        try:
            if used is None:
                handle = create()  # its error says what is missing
            else:
                options.store = used._handle()
                handle = used._run(create)
        finally:
            if used is not None and opened:
                used.close()
        return self._child(handle) if handle.value is not None else None

    def barrier_report(self, timeout: Optional[float] = None) -> List[bool]:
        """A barrier with a time limit in seconds, which breaks nothing. Returns for each rank whether it came."""
        here = (c_uint8 * self._size)()
        check(api.gcoll_barrier_report(self._handle(), milliseconds(timeout, "timeout"), here), "barrier_report",
              self._core.handle)
        return [bool(entry) for entry in here]

    # ---- Messages ---------------------------------------------------------------------------------------

    def send(self, data: Any, dest: int, tag: int = 0) -> None:
        """Sends an array to rank `dest`. Returns when `data` may be reused. Messages of one tag between two ranks
        arrive in order.

        >>> import gcoll, numpy
        >>> def rank(context):
        ...     if context.rank == 0:
        ...         return context.send(numpy.array([1.5, 2.5]), dest=1)
        ...     data = numpy.zeros(3)
        ...     return context.recv(data, source=0), data.tolist()
        >>> gcoll.run_local(2, rank)[1]
        (Received(source=0, nbytes=16), [1.5, 2.5, 0.0])
        """
        if takes_signals():
            self.start.send(data, dest, tag).wait()
            return
        buffer = _host(resolve(data, "data"), "data")
        check(api.gcoll_pair_send(self._pair(dest, "dest"), _tag(tag), buffer.address, buffer.nbytes), "send",
              self._core.handle)

    def recv(self, data: Any, source: Union[int, Sequence[int], None] = None, tag: int = 0) -> Received:
        """Receives a message into an array. source: a rank; or a list of ranks, of which the first that has sent is
        taken; None: any rank. The message may be smaller than `data`, whose rest stays as it is. Returns source and
        size. MismatchError if the message is larger: it is dropped, and nothing breaks."""
        if self.progress_thread or takes_signals():  # with the thread, other threads may receive, too
            received: Received = self.start.recv(data, source, tag).wait()
            return received
        buffer = _host(resolve_output(data, "data"), "data")
        found, size = c_uint32(), c_uint64()
        if _is_rank(source):
            status = api.gcoll_pair_recv(self._pair(source, "source"), _tag(tag), buffer.address, buffer.nbytes)
        else:
            peers = self._peers(source)
            status = api.gcoll_context_recv_any(self._handle(), peers, len(peers), _tag(tag), buffer.address,
                                                buffer.nbytes, byref(found))
        check(status, "recv", self._core.handle)
        check(api.gcoll_context_last_received(self._handle(), byref(found), byref(size)), "recv", self._core.handle)
        return Received(found.value, size.value)

    def sendrecv(self, data: Any, dest: int, into: Any, source: int, tag: int = 0,
                 recv_tag: Optional[int] = None) -> None:
        """Sends `data` to `dest` and receives a message of `source` into `into`, at once. recv_tag None: as tag."""
        out = _host(resolve(data, "data"), "data")
        into_buffer = _host(resolve_output(into, "into"), "into")
        check(api.gcoll_pair_sendrecv(self._pair(dest, "dest"), _tag(tag), out.address, out.nbytes,
                                      self._pair(source, "source"), _tag(tag if recv_tag is None else recv_tag),
                                      into_buffer.address, into_buffer.nbytes), "sendrecv", self._core.handle)

    def probe(self, source: Union[int, Sequence[int], None] = None, tag: int = 0) -> Optional[Received]:
        """Looks, without waiting, whether a message has arrived. Returns its source and size, or None. The message
        stays. source: as in ``recv``."""
        peers = self._peers([source] if _is_rank(source) else source)
        found, rank, size = c_int(), c_uint32(), c_uint64()
        check(api.gcoll_context_probe(self._handle(), peers, len(peers), _tag(tag), byref(found), byref(rank),
                                      byref(size)), "probe", self._core.handle)
        return Received(rank.value, size.value) if found.value else None

    def set_pair_timeout(self, peer: int, timeout: Optional[float]) -> None:
        """Sets the time limit in seconds of later messages from and to a rank. None: the context's; math.inf: none."""
        check(api.gcoll_pair_set_timeout(self._pair(peer, "peer"), milliseconds(timeout, "timeout")),
              "set_pair_timeout", self._core.handle)

    # ---- One-sided access -------------------------------------------------------------------------------

    def region(self, data: Any) -> Region:
        """Lets peers read and write an array by themselves."""
        return Region(self, data)

    def put(self, key: bytes, data: Any, offset: int = 0, notify: bool = False) -> None:
        """Writes an array into a peer's region, from byte `offset` on. Returns when it has arrived."""
        if takes_signals():
            self.start.put(key, data, offset, notify).wait()
            return
        buffer = _host(resolve(data, "data"), "data")
        check(api.gcoll_put(self._handle(), byref(_region_key(key)), read_number(offset, "offset", 1 << 63),
                            buffer.address, buffer.nbytes, int(bool(notify))), "put", self._core.handle)

    def get(self, key: bytes, data: Any, offset: int = 0) -> None:
        """Reads a peer's region, from byte `offset` on, into an array."""
        if takes_signals():
            self.start.get(key, data, offset).wait()
            return
        buffer = _host(resolve_output(data, "data"), "data")
        check(api.gcoll_get(self._handle(), byref(_region_key(key)), read_number(offset, "offset", 1 << 63),
                            buffer.address, buffer.nbytes), "get", self._core.handle)

    # ---- Objects, by pickle -----------------------------------------------------------------------------

    def broadcast_object(self, value: Any = None, root: int = 0) -> Any:
        """Gives the object of rank `root` to every rank. It is pickled: ranks trust each other, because whoever
        sends a pickle decides what the receiver runs. The same holds for the other methods of objects.

        >>> import gcoll
        >>> gcoll.run_local(2, lambda context: context.broadcast_object({"from": context.rank}, root=1))
        [{'from': 1}, {'from': 1}]
        """
        is_root = read_number(root, "root", self._size) == self._rank
        text = pickle.dumps(value, pickle.HIGHEST_PROTOCOL) if is_root else b""
        size = (c_uint64 * 1)(len(text))
        self.broadcast(size, root)
        data = text if is_root else bytearray(size[0])
        self.broadcast(data, root)
        return value if is_root else pickle.loads(data)

    def allgather_object(self, value: Any) -> List[Any]:
        """Gives the objects of all ranks to every rank, as a list. They are pickled.

        >>> import gcoll
        >>> gcoll.run_local(2, lambda context: context.allgather_object("rank %d" % context.rank))[0]
        ['rank 0', 'rank 1']
        """
        text = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        sizes = (c_uint64 * self._size)()
        self.allgather((c_uint64 * 1)(len(text)), sizes)
        data = bytearray(sum(sizes))
        self.allgather(text, data, counts=list(sizes))
        return _unpickle(data, list(sizes))

    def gather_object(self, value: Any, root: int = 0) -> Optional[List[Any]]:
        """Gives the objects of all ranks to rank `root`, as a list; other ranks get None. They are pickled.

        >>> import gcoll
        >>> gcoll.run_local(2, lambda context: context.gather_object(context.rank * "x"))
        [['', 'x'], None]
        """
        is_root = read_number(root, "root", self._size) == self._rank
        text = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        sizes = (c_uint64 * self._size)()
        self.gather((c_uint64 * 1)(len(text)), sizes if is_root else None, root)
        if not is_root:
            self.gather_list(text, None, root)
            return None
        parts = self.gather_list(text, [bytearray(size) for size in sizes], root)
        return [pickle.loads(part) for part in parts]

    def scatter_object(self, values: Optional[Sequence[Any]] = None, root: int = 0) -> Any:
        """Gives values[r] of rank `root` to rank r. They are pickled.

        >>> import gcoll
        >>> gcoll.run_local(2, lambda context: context.scatter_object(["a", "b"] if context.rank == 0 else None))
        ['a', 'b']
        """
        is_root = read_number(root, "root", self._size) == self._rank
        size = (c_uint64 * 1)()
        if not is_root:
            self.scatter(None, size, root)
            return pickle.loads(self.scatter_list(None, bytearray(size[0]), root))
        if values is None or len(values) != self._size:
            raise ValueError("values: has %s entries; allowed are %d, one for each rank" %
                             ("no" if values is None else len(values), self._size))
        texts = [pickle.dumps(value, pickle.HIGHEST_PROTOCOL) for value in values]
        self.scatter((c_uint64 * self._size)(*[len(text) for text in texts]), size, root)
        self.scatter_list(texts, bytearray(size[0]), root)
        return values[self._rank]

    def send_object(self, value: Any, dest: int, tag: int = 0) -> None:
        """Sends an object to rank `dest`, pickled, as two messages."""
        text = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        self.send((c_uint64 * 1)(len(text)), dest, tag)
        self.send(text, dest, tag)

    def recv_object(self, source: Union[int, Sequence[int], None] = None, tag: int = 0) -> Any:
        """Receives an object that ``send_object`` has sent. source: as in ``recv``.

        >>> import gcoll
        >>> def rank(context):
        ...     return context.recv_object() if context.rank == 0 else context.send_object([1, "two"], dest=0)
        >>> gcoll.run_local(2, rank)
        [[1, 'two'], None]
        """
        size = (c_uint64 * 1)()
        received = self.recv(size, source, tag)
        if received.nbytes != 8:
            raise ValueError("the message of rank %d has %d bytes and is no object's; use send_object" % received)
        data = bytearray(size[0])
        self.recv(data, received.source, tag)
        return pickle.loads(data)

    # ---- What the library does --------------------------------------------------------------------------

    def explain(self, collective: str, count: int, type: str = "float32", op: str = "sum", root: int = 0,
                codec: Optional[str] = None) -> str:
        """The algorithm that gcoll chooses for such a call, and all others with the predicted time."""
        from ._buffers import TYPE_NAMES
        options = CollectiveOptions()
        api.gcoll_collective_options_init(byref(options))
        options.codec = None if codec is None else read_codec(codec)
        for name, value, allowed in (("collective", collective, COLLECTIVES), ("type", type, TYPE_NAMES),
                                     ("op", op, tuple(OPS))):
            if value not in allowed:
                raise ValueError("%s: is %r; allowed are %s" % (name, value, ", ".join(allowed)))
        text = create_string_buffer(_TEXT_MAX)
        check(api.gcoll_context_explain(self._handle(), COLLECTIVES.index(collective),
                                        read_number(count, "count", 1 << 63), TYPE_NAMES.index(type), OPS[op],
                                        read_number(root, "root", self._size), byref(options), text, _TEXT_MAX),
              "explain",
              self._core.handle)
        return text.value.decode()

    def lanes(self) -> str:
        """How messages travel to each other rank, and why not in a better way: a line for each rank or row of ranks.

        >>> import gcoll
        >>> def rank(context):
        ...     context.barrier()
        ...     return context.lanes()
        >>> gcoll.run_local(2, rank, transport="tcp")[0]
        'to rank 1: tcp\\n'
        """
        text = create_string_buffer(_TEXT_MAX)
        check(api.gcoll_context_lanes(self._handle(), text, _TEXT_MAX), "lanes")
        return text.value.decode()

    def dump(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Writes what the flight recorder has, the last 1,024 operations, as JSON to a file; from any thread, also while
        another one is inside a call. gcoll_trace reads the files of all ranks (docs/trace.md).

        >>> import gcoll, json, tempfile
        >>> def rank(context):
        ...     context.barrier()
        ...     with tempfile.NamedTemporaryFile() as file:
        ...         context.dump(file.name)
        ...         with open(file.name) as written:
        ...             return [operation["collective"] for operation in json.load(written)["operations"]]
        >>> gcoll.run_local(2, rank)[0]
        ['barrier']
        """
        check(api.gcoll_context_dump(self._handle(), os.fsencode(path)), "dump")

    def stats(self) -> Dict[str, Any]:
        """What this context has done so far: the numbers of gcoll_stats (gcoll/stats.h), and below "collectives" and
        "peers" those of each collective that was called and of each rank that messages went to or came from; from any
        thread. What the transport counts is as of refresh_stats(), or of a call soon after the last stats().

        >>> import gcoll, numpy
        >>> def rank(context):
        ...     context.allreduce(numpy.ones(100, dtype="float32"), algorithm="ring")
        ...     stats = context.stats()
        ...     return stats["done"], stats["sent_bytes"], list(stats["collectives"]), list(stats["peers"])
        >>> gcoll.run_local(2, rank)[0]
        (1, 400, ['allreduce'], [1])
        """
        whole = StatsStruct(struct_size=sizeof(StatsStruct))
        check(api.gcoll_context_stats(self._handle(), byref(whole)), "stats")
        collectives, peers = {}, {}
        for number, name in enumerate(COLLECTIVES):
            of = CollectiveStatsStruct(struct_size=sizeof(CollectiveStatsStruct))
            check(api.gcoll_context_collective_stats(self._handle(), number, byref(of)), "stats")
            if of.done + of.failed > 0:
                collectives[name] = _numbers(of)
        for peer in range(self.size):
            if peer == self.rank:
                continue
            to = PeerStatsStruct(struct_size=sizeof(PeerStatsStruct))
            check(api.gcoll_context_peer_stats(self._handle(), peer, byref(to)), "stats")
            if to.lane or to.sent_messages + to.received_messages > 0:
                peers[peer] = _numbers(to)
        return {**_numbers(whole), "collectives": collectives, "peers": peers}

    def refresh_stats(self) -> None:
        """Reads what the transport counts, for stats() and metrics(): an ordinary call."""
        check(api.gcoll_context_refresh_stats(self._handle()), "refresh_stats", self._core.handle)

    def tuning(self) -> str:
        """What gcoll chooses algorithms by, as lines of a tuning file."""
        text = create_string_buffer(_TEXT_MAX)
        check(api.gcoll_context_tuning(self._handle(), text, _TEXT_MAX), "tuning")
        return text.value.decode()

    # ---- Late ranks (option monitor) --------------------------------------------------------------------

    def arrival_begin(self) -> None:
        """This rank's computation begins (gcoll/arrival.h)."""
        check(api.gcoll_arrival_begin(self._handle()), "arrival_begin", self._core.handle)

    def arrival_edge(self, fraction: float) -> None:
        """This part of the computation is done."""
        check(api.gcoll_arrival_edge(self._handle(), fraction), "arrival_edge", self._core.handle)

    def arrival_finish(self) -> None:
        """The computation is over."""
        check(api.gcoll_arrival_finish(self._handle()), "arrival_finish", self._core.handle)

    def arrival_site(self, number: int) -> None:
        """Tells calls of different places in a program apart, even if they look alike."""
        check(api.gcoll_arrival_site(self._handle(), read_number(number, "number", _UINT32)), "arrival_site",
              self._core.handle)

    def arrival_stats(self) -> str:
        """A table of late ranks."""
        text = create_string_buffer(_TEXT_MAX)
        check(api.gcoll_arrival_stats_text(self._handle(), text, _TEXT_MAX), "arrival_stats", self._core.handle)
        return text.value.decode()


def _unpickle(data: bytearray, sizes: Sequence[int]) -> List[Any]:
    values, begin, view = [], 0, memoryview(data)
    for size in sizes:
        values.append(pickle.loads(view[begin:begin + size]))
        begin += size
    return values


def _close_quietly(core: _Core) -> None:
    try:
        core.close()
    except Error:
        pass


# ---- Ranks that are threads -----------------------------------------------------------------------------


def run_local(size: int, function: Callable[[Context], Any], **options: Any) -> List[Any]:
    """Runs ``function(context)`` in `size` threads of this process, each a rank, and returns their results by rank.
    For examples and tests. options: of ``Context``. If a rank raises, the others get an AbortedError, and the
    exception is raised here.

    >>> import gcoll
    >>> gcoll.run_local(3, lambda context: context.rank * 10)
    [0, 10, 20]
    """
    results: List[Any] = [None] * read_number(size, "size", 65537)
    errors: List[BaseException] = []
    options.setdefault("transport", "inproc")
    options.setdefault("timeout", 30.0)

    def run(rank: int, store: Store, hub: Hub) -> None:
        try:
            with Context(rank, size, store, hub=hub if options["transport"] == "inproc" else None,
                         **options) as context:
                results[rank] = function(context)
        except BaseException as error:
            errors.append(error)

    with Store.memory() as store, Hub(size) as hub:
        threads = [threading.Thread(target=run, args=(rank, store, hub), name="rank %d" % rank)
                   for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise next((error for error in errors if not isinstance(error, Error)), errors[0])
    return results
