"""Memory that ranks of a host can map (gcoll/memory.h)."""

import os
import weakref
from ctypes import byref, c_ubyte, c_void_p

from ._errors import check
from ._library import api


def _free(address: int, process: int) -> None:
    if os.getpid() == process:  # a forked child does not have it
        api.gcoll_memory_free(address)


def shared_memory(count: int) -> memoryview:
    """Allocates `count` bytes, all zero, that ranks of this host read where they lie (docs/shared-memory.md).

    For large buffers that are made once and used often. It is freed with the last object that uses it.

    >>> import gcoll
    >>> memory = gcoll.shared_memory(1 << 20)            # numpy.frombuffer(memory, "float32") is an array in it
    >>> memory[0], len(memory)
    (0, 1048576)
    """
    address = c_void_p()
    if not 0 < count < 1 << 63:
        raise ValueError(f"count: is {count}; allowed are 1 to {(1 << 63) - 1}")
    check(api.gcoll_memory_alloc(count, byref(address)), "shared_memory")
    assert address.value is not None
    memory = (c_ubyte * count).from_address(address.value)
    weakref.finalize(memory, _free, address.value, os.getpid()).atexit = False  # some may be in use until the end
    return memoryview(memory).cast("B")
