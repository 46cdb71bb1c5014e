"""gcoll: collective operations (allreduce, broadcast, ...) of many processes, without MPI.

    import gcoll, numpy

    with gcoll.Context.from_env() as context:            # or Context(rank, size, "tcp://host:port")
        total = context.allreduce(numpy.ones(1000))      # blocks, and returns the output
        request = context.start.allreduce(total)         # begins; then request.wait(), or await request
        with context.prepare.allreduce(total, out=total) as operation:
            operation.run()                              # prepared once, run often

Arrays are anything with a buffer: numpy arrays, torch tensors, array.array, bytearray, DLPack, CUDA arrays. Methods
whose names end in ``_object`` send Python objects by pickle. ``help(gcoll.Context)`` lists everything;
docs/python.md is the guide. The library is loaded when it is first used: from $GCOLL_LIBRARY, else beside the package,
else where the system's loader finds libgcoll.so.
"""

from ctypes import byref as _byref, c_char_p as _c_char_p
from typing import Any, List, NamedTuple, Tuple

from ._buffers import FLOAT32 as _FLOAT32, TYPE_NAMES as _TYPE_NAMES, make_like as _make_like, resolve as _resolve
from ._buffers import resolve_output as _resolve_output
from ._collectives import Collectives, UserOp, read_codec as _read_codec
from ._context import Agreement, Context, Environment, Hub, Prepared, Region, Started, environment, metrics, run_local
from ._errors import (AbortedError, Error, InternalError, InvalidError, IoError, MismatchError, NoMemoryError,
                      NotFoundError, PeerError, ProtocolError, StateError, Status, TimeoutError, UnsupportedError)
from ._errors import check as _check
from ._library import DeviceFunction as _DeviceFunction, __version__, api as _api
from ._memory import shared_memory
from ._requests import Operation, Received, Request, wait_any
from ._store import Store, utf8 as _utf8

__all__ = [
    "AbortedError", "Agreement", "Collectives", "Context", "Device", "Environment", "Error", "Hub", "InternalError",
    "InvalidError", "IoError", "MismatchError", "NoMemoryError", "NotFoundError", "Operation", "PeerError", "Prepared",
    "ProtocolError", "Received", "Region", "Request", "Started", "StateError", "Status", "Store", "TimeoutError",
    "UnsupportedError", "UserOp", "__version__", "algorithms", "codec_round", "devices", "environment", "metrics", "run_local",
    "shared_memory", "transports", "version", "wait_any",
]


class Device(NamedTuple):
    """An address of a network interface or RDMA device (gcoll/device.h)."""
    transport: str
    name: str
    port: int
    gid_index: int
    address: str
    kind: str
    state: str
    bits_per_second: int
    mtu: int


def version() -> str:
    """The version of the library that is loaded.

    >>> import gcoll
    >>> gcoll.version() == gcoll.__version__
    True
    """
    return str(_api.gcoll_version().decode())


def algorithms(collective: str) -> List[Tuple[str, str]]:
    """The algorithms of a collective, each with a summary.

    >>> import gcoll
    >>> "ring" in dict(gcoll.algorithms("allreduce"))
    True
    """
    found: List[Tuple[str, str]] = []
    while True:
        name, summary = _c_char_p(), _c_char_p()
        status = _api.gcoll_algorithm_at(_utf8(collective, "collective"), len(found), _byref(name), _byref(summary))
        if status == Status.NOT_FOUND:
            return found
        _check(status, "algorithms")
        found.append(((name.value or b"").decode(), (summary.value or b"").decode()))


def codec_round(input: Any, codec: str, out: Any = None, *, call: int = 0) -> Any:
    """Rounds float32 numbers as messages with that codec do, and returns the array. For error feedback.

    input: an array. codec: as of ``Context.allreduce``. out: an array of as many elements; in place: the input; None:
    a new one. call: with a seed, a number that is another one for each call.

    >>> import gcoll, numpy
    >>> gcoll.codec_round(numpy.array([1.0, 0.3, -127.0], numpy.float32), "int8:block=8").tolist()
    [1.0, 0.0, -127.0]
    """
    source = _resolve(input, "input")
    if out is None:
        out = _make_like(source, source.shape, "out")
    target = _resolve_output(out, "out")
    for name, buffer in (("input", source), ("out", target)):
        if buffer.element.type != _FLOAT32 or buffer.device:
            raise ValueError("%s: has elements of %s%s; allowed is float32 in host memory" % (
                name, _TYPE_NAMES[buffer.element.type], " on a device" if buffer.device else ""))
    if source.count != target.count:
        raise ValueError("out: has %d elements; allowed are %d, as input has" % (target.count, source.count))
    if not 0 <= call < 1 << 64:
        raise ValueError("call: is %d; allowed are 0 to 2**64 - 1" % call)
    status = _api.gcoll_codec_round(_read_codec(codec), source.address, target.address, source.count, call)
    _check(status, "codec_round")
    return out


def transports() -> List[str]:
    """The names of the transports. The first is the default.

    >>> import gcoll
    >>> gcoll.transports()[0]
    'tcp'
    """
    found: List[str] = []
    while True:
        name = _c_char_p()
        status = _api.gcoll_transport_at(len(found), _byref(name))
        if status == Status.NOT_FOUND:
            return found
        _check(status, "transports")
        found.append((name.value or b"").decode())


def devices() -> List[Device]:
    """The network interfaces and RDMA devices of this machine."""
    found: List[Device] = []

    def add(_arg: object, device: "object") -> None:
        raw = device.contents  # type: ignore[attr-defined]
        found.append(Device(*[value.decode() if isinstance(value, bytes) else value
                              for value in (getattr(raw, name) for name in Device._fields)]))

    _check(_api.gcoll_devices(_DeviceFunction(add), None), "devices")
    return found
