"""The C library: finding it, its structs, and its functions.

``api`` has every function of the library that the package calls, as an attribute. The first use of ``api`` loads
the library, so that ``import gcoll`` works without it.
"""

import ctypes
import os
import sys
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int32, c_int64,
                    c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p)
from typing import Any, Dict, List, Optional, Sequence, Tuple

__version__ = "0.1.0"

# ---- Structs: the same fields in the same order as in the headers; a test compares all offsets ----------

ReduceFunction = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p, c_uint64, c_int, c_void_p)
LogFunction = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
ExchangeFunction = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p)


class UserOpStruct(Structure):
    """gcoll_user_op"""
    _fields_ = [("reduce", c_void_p), ("arg", c_void_p), ("commutative", c_int), ("element_bytes", c_uint32)]


class GuardedReduce(Structure):
    """gcoll_guarded_reduce"""
    _fields_ = [("reduce", ReduceFunction), ("arg", c_void_p), ("status", c_int)]


class MemoryStruct(Structure):
    """gcoll_memory"""
    _fields_ = [("struct_size", c_size_t), ("kind", c_int), ("device", c_int), ("streams", c_void_p),
                ("local", c_int)]


class CollectiveOptions(Structure):
    """gcoll_collective_options"""
    _fields_ = [("struct_size", c_size_t), ("algorithm", c_char_p), ("user_op", POINTER(UserOpStruct)),
                ("memory_limit_bytes", c_uint64), ("memory", POINTER(MemoryStruct)), ("inputs", c_void_p),
                ("outputs", c_void_p), ("buffers", c_uint32), ("timeout_ms", c_int64), ("same", c_int),
                ("counts_at_root", c_int), ("done", c_void_p), ("done_arg", c_void_p), ("keep_input", c_int),
                ("uniform", c_int), ("order", c_int), ("prescale", c_double), ("postscale", c_double),
                ("codec", c_char_p)]


class CollectiveCall(Structure):
    """gcoll_collective_call"""
    _fields_ = [("struct_size", c_size_t), ("collective", c_int), ("input", c_void_p), ("output", c_void_p),
                ("count", c_uint64), ("counts", c_void_p), ("recv_counts", c_void_p), ("type", c_int), ("op", c_int),
                ("root", c_uint32), ("exchanges", c_uint32), ("algorithm", c_char_p),
                ("options", POINTER(CollectiveOptions)), ("timeout_ms", c_int64), ("inputs", c_void_p),
                ("outputs", c_void_p), ("entries", c_uint32)]


class CostParameters(Structure):
    """gcoll_cost_parameters"""
    _fields_ = [("alpha", c_double), ("beta", c_double), ("gamma", c_double)]


class IbverbsOptions(Structure):
    """gcoll_ibverbs_options"""
    _fields_ = [("struct_size", c_size_t), ("device", c_char_p), ("port", c_uint32), ("gid_index", c_int32),
                ("mtu", c_uint32), ("pkey", c_uint32), ("service_level", c_uint32), ("traffic_class", c_uint32),
                ("timeout", c_uint32), ("retry_count", c_uint32), ("rnr_retry", c_uint32), ("cache_bytes", c_uint64),
                ("device_memory", c_uint32)]


class ContextOptions(Structure):
    """gcoll_context_options"""
    _fields_ = [("struct_size", c_size_t), ("rank", c_uint32), ("size", c_uint32), ("store", c_void_p),
                ("job", c_char_p), ("transport", c_char_p), ("hub", c_void_p), ("interface", c_char_p),
                ("port_min", c_uint16), ("port_max", c_uint16), ("timeout_ms", c_int64), ("eager_bytes", c_uint64),
                ("eager_pool_bytes", c_uint64), ("spin_us", c_int64), ("log", LogFunction), ("log_arg", c_void_p),
                ("allocator", c_void_p), ("progress_thread", c_int), ("cost", POINTER(CostParameters)),
                ("tuning", c_char_p), ("ibverbs", POINTER(IbverbsOptions)), ("accelerator", c_char_p),
                ("accelerator_times", c_int), ("monitor", c_int), ("launch", c_char_p), ("silence_ms", c_int64),
                ("checksum", c_int), ("same", c_int), ("exchange", ExchangeFunction), ("exchange_arg", c_void_p),
                ("share", c_int), ("recovery", c_int), ("secret", c_void_p), ("secret_bytes", c_size_t),
                ("secret_file", c_char_p), ("encryption", c_char_p), ("tls_certificate", c_char_p), ("tls_key", c_char_p),
                ("tls_ca", c_char_p), ("tls_name", c_char_p), ("order", c_int)]


class ShrinkOptions(Structure):
    """gcoll_shrink_options"""
    _fields_ = [("struct_size", c_size_t), ("timeout_ms", c_int64), ("majority", c_int)]


class GrowOptions(Structure):
    """gcoll_grow_options"""
    _fields_ = [("struct_size", c_size_t), ("store", c_void_p), ("job", c_char_p), ("most", c_uint32),
                ("timeout_ms", c_int64)]


class EnvironmentStruct(Structure):
    """gcoll_environment"""
    _fields_ = [("struct_size", c_size_t), ("rank", c_uint32), ("size", c_uint32), ("local_rank", c_uint32),
                ("local_size", c_uint32), ("source", c_char_p), ("job", c_char * 65), ("store", c_char * 1024)]


class RegionKeyStruct(Structure):
    """gcoll_region_key"""
    _fields_ = [("bytes", c_uint8 * 64)]


class DeviceStruct(Structure):
    """gcoll_device"""
    _fields_ = [("transport", c_char_p), ("name", c_char_p), ("port", c_uint32), ("gid_index", c_int32),
                ("address", c_char_p), ("kind", c_char_p), ("state", c_char_p), ("bits_per_second", c_uint64),
                ("mtu", c_uint32)]


DeviceFunction = CFUNCTYPE(None, c_void_p, POINTER(DeviceStruct))

StoreSetFunction = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t)
StoreGetWaitFunction = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t, POINTER(c_size_t), c_int64)
StoreRemoveFunction = CFUNCTYPE(c_int, c_void_p, c_char_p)


class StoreOps(Structure):
    """gcoll_store_ops"""
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("set", StoreSetFunction), ("get", c_void_p),
                ("wait", c_void_p), ("add", c_void_p), ("remove", StoreRemoveFunction), ("destroy", c_void_p),
                ("set_new", c_void_p), ("set_timeout", c_void_p), ("keep", c_void_p),
                ("get_wait", StoreGetWaitFunction)]


# The structs by their names in C, for the test of their layout.
class StatsStruct(Structure):
    """gcoll_stats"""
    _fields_ = [("struct_size", c_size_t), ("begun", c_uint64), ("done", c_uint64), ("failed", c_uint64),
                ("sent_messages", c_uint64), ("sent_bytes", c_uint64), ("received_messages", c_uint64),
                ("received_bytes", c_uint64), ("waits", c_uint64), ("waited_ns", c_uint64), ("sleeps", c_uint64),
                ("asleep_ns", c_uint64), ("registrations", c_uint64), ("retransmitted", c_uint64), ("age_ns", c_int64)]


class CollectiveStatsStruct(Structure):
    """gcoll_collective_stats"""
    _fields_ = [("struct_size", c_size_t), ("done", c_uint64), ("failed", c_uint64), ("bytes", c_uint64),
                ("sent_bytes", c_uint64), ("busy_ns", c_uint64)]


class PeerStatsStruct(Structure):
    """gcoll_peer_stats"""
    _fields_ = [("struct_size", c_size_t), ("sent_messages", c_uint64), ("sent_bytes", c_uint64),
                ("received_messages", c_uint64), ("received_bytes", c_uint64), ("waits", c_uint64), ("waited_ns", c_uint64),
                ("retransmitted", c_uint64), ("lane", c_char_p)]


STRUCTS = {cls.__doc__: cls for cls in (
    UserOpStruct, GuardedReduce, MemoryStruct, CollectiveOptions, CollectiveCall, CostParameters, IbverbsOptions, ContextOptions, ShrinkOptions,
    GrowOptions, EnvironmentStruct, RegionKeyStruct, DeviceStruct, StoreOps,
    StatsStruct, CollectiveStatsStruct, PeerStatsStruct)}

# ---- Functions: result, then parameters -----------------------------------------------------------------

_STATUS = c_int
_HANDLE = c_void_p
_OUT_HANDLE = POINTER(c_void_p)
_CALL = POINTER(CollectiveCall)

FUNCTIONS: Dict[str, Tuple[Any, Sequence[Any]]] = {
    # status.h, version.h, types.h
    "gcoll_codec_round": (_STATUS, [c_char_p, c_void_p, c_void_p, c_uint64, c_uint64]),
    "gcoll_status_text": (c_char_p, [_STATUS]),
    "gcoll_last_error": (c_char_p, []),
    "gcoll_version": (c_char_p, []),
    "gcoll_reduce_guarded": (_STATUS, [c_void_p, c_void_p, c_void_p, c_uint64, c_int, c_void_p]),
    # store.h
    "gcoll_store_open": (_STATUS, [c_char_p, c_int64, _OUT_HANDLE]),
    "gcoll_store_memory_create": (_STATUS, [_OUT_HANDLE]),
    "gcoll_store_prefix_create": (_STATUS, [_HANDLE, c_char_p, _OUT_HANDLE]),
    "gcoll_store_create": (_STATUS, [POINTER(StoreOps), c_void_p, _OUT_HANDLE]),
    "gcoll_store_set": (_STATUS, [_HANDLE, c_char_p, c_char_p, c_size_t]),
    "gcoll_store_set_new": (_STATUS, [_HANDLE, c_char_p, c_char_p, c_size_t]),
    "gcoll_store_get": (_STATUS, [_HANDLE, c_char_p, c_void_p, c_size_t, POINTER(c_size_t)]),
    "gcoll_store_get_wait": (_STATUS, [_HANDLE, c_char_p, c_void_p, c_size_t, POINTER(c_size_t), c_int64]),
    "gcoll_store_wait": (_STATUS, [_HANDLE, c_char_p, c_int64]),
    "gcoll_store_add": (_STATUS, [_HANDLE, c_char_p, c_int64, POINTER(c_int64)]),
    "gcoll_store_remove": (_STATUS, [_HANDLE, c_char_p]),
    "gcoll_store_keep": (_STATUS, [_HANDLE, c_char_p, c_int64]),
    "gcoll_store_error": (_STATUS, [_STATUS, c_char_p]),
    "gcoll_store_destroy": (None, [_HANDLE]),
    # environment.h
    "gcoll_environment_init": (None, [POINTER(EnvironmentStruct)]),
    "gcoll_environment_read": (_STATUS, [POINTER(EnvironmentStruct)]),
    "gcoll_context_create_from_env": (_STATUS, [POINTER(ContextOptions), _OUT_HANDLE]),
    # context.h
    "gcoll_hub_create": (_STATUS, [c_uint32, _OUT_HANDLE]),
    "gcoll_hub_destroy": (None, [_HANDLE]),
    "gcoll_context_options_init": (None, [POINTER(ContextOptions)]),
    "gcoll_context_create": (_STATUS, [POINTER(ContextOptions), _OUT_HANDLE]),
    "gcoll_context_duplicate": (_STATUS, [_HANDLE, _OUT_HANDLE]),
    "gcoll_context_split": (_STATUS, [_HANDLE, c_int32, c_int32, _OUT_HANDLE]),
    "gcoll_context_create_group": (_STATUS, [_HANDLE, POINTER(c_uint32), c_uint32, c_uint32, _OUT_HANDLE]),
    "gcoll_context_lanes": (_STATUS, [_HANDLE, c_char_p, c_size_t]),
    "gcoll_context_dump": (_STATUS, [_HANDLE, c_char_p]),
    # stats.h
    "gcoll_context_stats": (_STATUS, [_HANDLE, POINTER(StatsStruct)]),
    "gcoll_context_collective_stats": (_STATUS, [_HANDLE, c_int, POINTER(CollectiveStatsStruct)]),
    "gcoll_context_peer_stats": (_STATUS, [_HANDLE, c_uint32, POINTER(PeerStatsStruct)]),
    "gcoll_context_refresh_stats": (_STATUS, [_HANDLE]),
    "gcoll_metrics": (_STATUS, [POINTER(_HANDLE), c_uint32, c_char_p, c_size_t, POINTER(c_size_t)]),
    "gcoll_metrics_write": (_STATUS, [POINTER(_HANDLE), c_uint32, c_char_p]),
    "gcoll_context_parent_rank": (c_uint32, [_HANDLE, c_uint32]),
    "gcoll_context_rank": (c_uint32, [_HANDLE]),
    "gcoll_context_size": (c_uint32, [_HANDLE]),
    "gcoll_context_health": (_STATUS, [_HANDLE]),
    "gcoll_context_culprit": (c_int64, [_HANDLE]),
    "gcoll_context_abort": (None, [_HANDLE, c_char_p]),
    "gcoll_context_wake": (_STATUS, [_HANDLE]),
    "gcoll_context_fd": (_STATUS, [_HANDLE, POINTER(c_int)]),
    "gcoll_context_destroy": (None, [_HANDLE]),
    # recovery.h
    "gcoll_context_failed": (_STATUS, [_HANDLE, POINTER(c_uint32), c_uint32, POINTER(c_uint32)]),
    "gcoll_context_completed": (c_uint64, [_HANDLE]),
    "gcoll_context_agree": (_STATUS, [_HANDLE, POINTER(c_uint64), POINTER(c_uint64), c_int64]),
    "gcoll_shrink_options_init": (None, [POINTER(ShrinkOptions)]),
    "gcoll_context_shrink": (_STATUS, [_HANDLE, POINTER(ShrinkOptions), _OUT_HANDLE]),
    "gcoll_grow_options_init": (None, [POINTER(GrowOptions)]),
    "gcoll_context_grow": (_STATUS, [_HANDLE, POINTER(GrowOptions), _OUT_HANDLE]),
    "gcoll_context_join": (_STATUS, [POINTER(ContextOptions), _OUT_HANDLE]),
    "gcoll_request_wait": (_STATUS, [_OUT_HANDLE]),
    "gcoll_request_test": (_STATUS, [_OUT_HANDLE, POINTER(c_int)]),
    "gcoll_request_wait_for": (_STATUS, [_OUT_HANDLE, c_int64]),
    "gcoll_request_cancel": (_STATUS, [_OUT_HANDLE]),
    "gcoll_wait_any": (_STATUS, [_OUT_HANDLE, c_uint32, POINTER(c_uint32)]),
    "gcoll_request_source": (_STATUS, [_HANDLE, POINTER(c_uint32)]),
    "gcoll_request_bytes": (_STATUS, [_HANDLE, POINTER(c_uint64)]),
    "gcoll_context_pair": (_STATUS, [_HANDLE, c_uint32, _OUT_HANDLE]),
    "gcoll_pair_set_timeout": (_STATUS, [_HANDLE, c_int64]),
    "gcoll_pair_send": (_STATUS, [_HANDLE, c_uint32, c_void_p, c_uint64]),
    "gcoll_pair_recv": (_STATUS, [_HANDLE, c_uint32, c_void_p, c_uint64]),
    "gcoll_pair_sendrecv": (_STATUS, [_HANDLE, c_uint32, c_void_p, c_uint64, _HANDLE, c_uint32, c_void_p, c_uint64]),
    "gcoll_pair_send_start": (_STATUS, [_HANDLE, c_uint32, c_void_p, c_uint64, _OUT_HANDLE]),
    "gcoll_pair_recv_start": (_STATUS, [_HANDLE, c_uint32, c_void_p, c_uint64, _OUT_HANDLE]),
    "gcoll_context_last_received": (_STATUS, [_HANDLE, POINTER(c_uint32), POINTER(c_uint64)]),
    "gcoll_context_recv_any": (_STATUS, [_HANDLE, POINTER(c_uint32), c_uint32, c_uint32, c_void_p, c_uint64,
                                         POINTER(c_uint32)]),
    "gcoll_context_recv_any_start": (_STATUS, [_HANDLE, POINTER(c_uint32), c_uint32, c_uint32, c_void_p, c_uint64,
                                               _OUT_HANDLE]),
    "gcoll_context_probe": (_STATUS, [_HANDLE, POINTER(c_uint32), c_uint32, c_uint32, POINTER(c_int),
                                      POINTER(c_uint32), POINTER(c_uint64)]),
    # collectives.h and operations.h: by the struct, which can say all of them
    "gcoll_collective_options_init": (None, [POINTER(CollectiveOptions)]),
    "gcoll_call_run": (_STATUS, [_HANDLE, _CALL]),
    "gcoll_call_start": (_STATUS, [_HANDLE, _CALL, _OUT_HANDLE]),
    "gcoll_call_create": (_STATUS, [_HANDLE, _CALL, _OUT_HANDLE]),
    "gcoll_barrier_report": (_STATUS, [_HANDLE, c_int64, POINTER(c_uint8)]),
    "gcoll_algorithm_at": (_STATUS, [c_char_p, c_uint32, POINTER(c_char_p), POINTER(c_char_p)]),
    "gcoll_context_explain": (_STATUS, [_HANDLE, c_int, c_uint64, c_int, c_int, c_uint32, POINTER(CollectiveOptions),
                                        c_char_p, c_size_t]),
    "gcoll_context_tuning": (_STATUS, [_HANDLE, c_char_p, c_size_t]),
    "gcoll_operation_run": (_STATUS, [_HANDLE]),
    "gcoll_operation_start": (_STATUS, [_HANDLE]),
    "gcoll_operation_request": (c_void_p, [_HANDLE]),
    "gcoll_operation_algorithm": (c_char_p, [_HANDLE]),
    "gcoll_operation_destroy": (None, [_HANDLE]),
    # region.h
    "gcoll_region_create": (_STATUS, [_HANDLE, c_void_p, c_uint64, _OUT_HANDLE]),
    "gcoll_region_export": (_STATUS, [_HANDLE, POINTER(RegionKeyStruct)]),
    "gcoll_region_export_to": (_STATUS, [_HANDLE, c_uint32, POINTER(RegionKeyStruct)]),
    "gcoll_region_destroy": (None, [_HANDLE]),
    "gcoll_put": (_STATUS, [_HANDLE, POINTER(RegionKeyStruct), c_uint64, c_void_p, c_uint64, c_uint32]),
    "gcoll_get": (_STATUS, [_HANDLE, POINTER(RegionKeyStruct), c_uint64, c_void_p, c_uint64]),
    "gcoll_put_start": (_STATUS, [_HANDLE, POINTER(RegionKeyStruct), c_uint64, c_void_p, c_uint64, c_uint32,
                                  _OUT_HANDLE]),
    "gcoll_get_start": (_STATUS, [_HANDLE, POINTER(RegionKeyStruct), c_uint64, c_void_p, c_uint64, _OUT_HANDLE]),
    "gcoll_region_notified": (_STATUS, [_HANDLE, POINTER(c_uint64)]),
    "gcoll_region_wait": (_STATUS, [_HANDLE, c_uint64]),
    # memory.h, ibverbs.h, device.h, arrival.h
    "gcoll_memory_alloc": (_STATUS, [c_size_t, POINTER(c_void_p)]),
    "gcoll_memory_free": (_STATUS, [c_void_p]),
    "gcoll_memory_init": (None, [POINTER(MemoryStruct)]),
    "gcoll_ibverbs_options_init": (None, [POINTER(IbverbsOptions)]),
    "gcoll_transport_at": (_STATUS, [c_uint32, POINTER(c_char_p)]),
    "gcoll_devices": (_STATUS, [DeviceFunction, c_void_p]),
    "gcoll_arrival_begin": (_STATUS, [_HANDLE]),
    "gcoll_arrival_edge": (_STATUS, [_HANDLE, c_double]),
    "gcoll_arrival_finish": (_STATUS, [_HANDLE]),
    "gcoll_arrival_site": (_STATUS, [_HANDLE, c_uint32]),
    "gcoll_arrival_stats_text": (_STATUS, [_HANDLE, c_char_p, c_size_t]),
}

# ---- Loading --------------------------------------------------------------------------------------------


def _places() -> List[str]:
    """Where the library is looked for, in this order."""
    named = os.environ.get("GCOLL_LIBRARY")
    if named:
        return [named]
    soname = "libgcoll.so." + ".".join(__version__.split(".")[:2])
    here = os.path.dirname(os.path.abspath(__file__))
    beside = [os.path.join(here, name) for name in (soname, "libgcoll.so")]
    return [path for path in beside if os.path.exists(path)] + [soname, "libgcoll.so"]


def _open() -> ctypes.CDLL:
    tried = []
    for place in _places():
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            tried.append("%s: %s" % (place, error))
    raise ImportError(
        "gcoll: the C library was not found. Install it (cmake --install, then ldconfig), or set GCOLL_LIBRARY to "
        "the path of libgcoll.so. Tried:\n  " + "\n  ".join(tried))


class _Api:
    """The functions of the library. Attributes appear when the first one is used."""
    path: Optional[str] = None

    def __getattr__(self, name: str) -> Any:
        if name not in FUNCTIONS:
            raise AttributeError(name)
        library = _open()
        library.gcoll_version.restype = c_char_p
        found = (library.gcoll_version() or b"").decode()
        if found.split(".")[:2] != __version__.split(".")[:2]:
            raise ImportError("gcoll: %s has version %s; this package is for %s" %
                              (library._name, found, __version__))
        for function, (result, parameters) in FUNCTIONS.items():
            bound = getattr(library, function)
            bound.restype, bound.argtypes = result, parameters
            setattr(self, function, bound)
        self.path = library._name
        return self.__dict__[name]


api = _Api()


def address(array: Any) -> int:
    """The address of a ctypes object."""
    return ctypes.addressof(array)


LITTLE_ENDIAN = sys.byteorder == "little"
