"""Buffers: where the elements of an array lie, and what they are.

A buffer is any of these, tried in this order:

  torch tensors              by their own methods; on the CPU or on a CUDA device
  __array_interface__        numpy arrays, and objects that follow numpy
  __cuda_array_interface__   arrays in the memory of a CUDA device
  the buffer protocol        bytes, bytearray, memoryview, array.array, ctypes arrays, mmap
  DLPack (__dlpack__)        tensors on the CPU

A buffer must be C-contiguous. Nothing is copied.
"""

import ctypes
import re
import sys
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_ssize_t, c_uint8, c_uint16, c_uint64
from ctypes import addressof, c_char, c_void_p, py_object
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from ._library import LITTLE_ENDIAN, address

(INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64, INT16, UINT16, BOOL_BYTE, COMPLEX64,
 COMPLEX128, FLOAT8_E4M3, FLOAT8_E5M2, FLOAT32_INT32, FLOAT64_INT64, INT32_INT32, INT64_INT64) = range(21)
TYPE_NAMES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64",
              "int16", "uint16", "bool", "complex64", "complex128", "float8_e4m3", "float8_e5m2", "float32_int32",
              "float64_int64", "int32_int32", "int64_int64")
REDUCED = ", ".join(TYPE_NAMES)


class Element(NamedTuple):
    """An element type. `scale` elements of the library's `type` make up one; `reduces` says whether the library
    can reduce it."""
    name: str
    size: int
    type: int
    scale: int
    reduces: bool


def _known(type: int, size: int) -> Element:
    return Element(TYPE_NAMES[type], size, type, 1, True)


_SIZES = (1, 1, 4, 4, 8, 8, 2, 2, 4, 8, 2, 2, 1, 8, 16, 1, 1, 8, 16, 8, 16)
_ELEMENTS = tuple(_known(type, size) for type, size in enumerate(_SIZES))
BOOL = _ELEMENTS[BOOL_BYTE]
BYTES = _ELEMENTS[UINT8]

_ORDER = "<" if LITTLE_ENDIAN else ">"
# By numpy's type strings. Others are moved as bytes; elements of one byte have no order.
_BY_TYPESTR: Dict[str, Element] = {"|b1": BOOL, "|i1": _ELEMENTS[INT8], "|u1": _ELEMENTS[UINT8]}
for _kind, _type in (("i2", INT16), ("u2", UINT16), ("i4", INT32), ("u4", UINT32), ("i8", INT64), ("u8", UINT64),
                     ("f2", FLOAT16), ("f4", FLOAT32), ("f8", FLOAT64), ("c8", COMPLEX64), ("c16", COMPLEX128)):
    _BY_TYPESTR[_ORDER + _kind] = _ELEMENTS[_type]
# By the type strings of two fields, one right after the other: a value and its index.
_BY_FIELDS = {(_ORDER + value, _ORDER + index): _ELEMENTS[type] for value, index, type in (
    ("f4", "i4", FLOAT32_INT32), ("f8", "i8", FLOAT64_INT64), ("i4", "i4", INT32_INT32), ("i8", "i8", INT64_INT64))}
# By names of the package ml_dtypes, whose types numpy itself does not have.
_BY_NAME = {"bfloat16": _ELEMENTS[BFLOAT16], "float8_e4m3fn": _ELEMENTS[FLOAT8_E4M3],
            "float8_e5m2": _ELEMENTS[FLOAT8_E5M2]}
# Names of types by their type string, for texts of errors.
_KINDS = {"i": "int", "u": "uint", "f": "float", "c": "complex"}


def _raw(name: str, size: int) -> Element:
    return Element(name, size, UINT8, size, False)


def _of_typestr(typestr: str, owner: Any) -> Element:
    """The element of a type string of numpy's array interface."""
    element = _BY_TYPESTR.get(typestr)
    if element:
        return element
    order, kind, size = typestr[0], typestr[1], int(typestr[2:].split("[")[0])
    if kind == "U":
        size *= 4
    element = _BY_NAME.get(getattr(getattr(owner, "dtype", None), "name", ""))
    if element and element.size == size:
        return element
    if kind in _KINDS and order == _ORDER:
        return _raw("%s%d" % (_KINDS[kind], 8 * size), size)
    return _raw(str(getattr(owner, "dtype", typestr)), size)


def _of_fields(fields: Any) -> Optional[Element]:
    """The element of a structured type that is a value and its index; None: it is another one. fields: `descr` of
    numpy's array interface, which names padding as a field, too."""
    if not isinstance(fields, list) or len(fields) != 2:
        return None
    if not all(isinstance(field, tuple) and len(field) == 2 for field in fields):
        return None
    value, index = fields[0][1], fields[1][1]
    return _BY_FIELDS.get((value, index)) if isinstance(value, str) and isinstance(index, str) else None


class Buffer:
    """Where an array lies. `keep` must live as long as the address is used."""
    __slots__ = ("address", "count", "element", "readonly", "shape", "kind", "keep", "device", "stream")

    def __init__(self, address: int, shape: Tuple[int, ...], element: Element, readonly: bool, kind: str,
                 keep: Any, count: int = -1) -> None:
        if count < 0:
            count = 1
            for length in shape:
                count *= length
        self.address = address
        self.count = count
        self.element = element
        self.readonly = readonly
        self.shape = shape
        self.kind = kind
        self.keep = keep
        self.device = False  # whether it lies in the memory of a CUDA device
        self.stream = 0      # of the device: the stream that fills or uses it

    @property
    def nbytes(self) -> int:
        return self.count * self.element.size


def is_contiguous(shape: Sequence[int], strides: Optional[Sequence[int]], size: int) -> bool:
    """Whether elements of `size` units with these strides (None: none given) lie one after the other in C order."""
    if strides is None or 0 in shape:
        return True
    expected = size
    for length, stride in zip(reversed(shape), reversed(strides)):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


def _refuse_strides(name: str, shape: Any, strides: Any) -> "ValueError":
    return ValueError("%s: is not C-contiguous: its shape is %s, its strides are %s; allowed are C-contiguous arrays "
                      "(numpy.ascontiguousarray and tensor.contiguous make one)" % (name, tuple(shape), tuple(strides)))


# ---- torch ----------------------------------------------------------------------------------------------

_TORCH: Dict[str, Element] = {"torch." + name: element for name, element in zip(TYPE_NAMES, _ELEMENTS)}
_TORCH["torch.float8_e4m3fn"] = _ELEMENTS[FLOAT8_E4M3]


def _of_torch(tensor: Any, name: str) -> Buffer:
    torch = sys.modules["torch"]
    if tensor.layout is not torch.strided:
        raise TypeError("%s: is a torch tensor of layout %s; allowed is torch.strided" % (name, tensor.layout))
    if not tensor.is_contiguous():
        raise _refuse_strides(name, tensor.shape, tensor.stride())
    if tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
        raise TypeError("%s: is a quantized tensor, or a view whose values are conjugated or negated when they are "
                        "read; allowed are plain values (tensor.resolve_conj().resolve_neg())" % name)
    place = tensor.device.type
    if place not in ("cpu", "cuda"):
        raise TypeError("%s: is a torch tensor on %s; allowed are cpu and cuda" % (name, tensor.device))
    dtype = str(tensor.dtype)
    size = tensor.element_size()
    buffer = Buffer(tensor.data_ptr(), tuple(tensor.shape), _TORCH.get(dtype) or _raw(dtype[6:], size), False,
                    "torch", tensor)
    if place == "cuda":
        buffer.device = True
        buffer.stream = torch.cuda.current_stream(tensor.device).cuda_stream
    return buffer


_from_buffer = c_char.from_buffer


# ---- numpy's array interface ----------------------------------------------------------------------------


_TYPESTR = re.compile(r"[<>|=](?:O|([a-zA-Z])([0-9]+)(?:\[.*\])?)")
_BYTES_MAX = (1 << 63) - 1


def _check_interface(interface: Dict[str, Any], name: str) -> None:
    """Refuses what no array can have. An object that is no array of numpy's may say anything."""
    shape, strides, typestr = interface.get("shape"), interface.get("strides"), interface.get("typestr")
    found = _TYPESTR.fullmatch(typestr) if isinstance(typestr, str) else None
    if found is None or (found.group(2) or "").lstrip("0") == "" and (found.group(1) or "V") not in "SUV":
        raise TypeError("%s: its array interface has the typestr %r; allowed are those of numpy" % (name, typestr))
    if not isinstance(shape, (tuple, list)) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ValueError("%s: its array interface has the shape %r; allowed are numbers from 0" % (name, shape))
    nbytes = max(1, int(found.group(2) or 0))
    for n in shape:
        nbytes *= n
    if nbytes > _BYTES_MAX:
        raise ValueError("%s: has the shape %s, which exceeds the address space" % (name, tuple(shape)))
    if strides is not None and (not isinstance(strides, (tuple, list)) or len(strides) != len(shape) or
                                not all(isinstance(n, int) for n in strides)):
        raise ValueError("%s: its array interface has the strides %r; allowed are %d numbers, as of its shape" %
                         (name, strides, len(shape)))
    data = interface.get("data")
    if isinstance(data, tuple) and (len(data) != 2 or not isinstance(data[0] or 0, int) or
                                    not (0 if nbytes == 0 else 1) <= (data[0] or 0) <= _BYTES_MAX):
        raise ValueError("%s: its array interface has the data %r; allowed are an address, and whether it is read-only" %
                         (name, data))


def _of_interface(array: Any, interface: Dict[str, Any], name: str, kind: str) -> Buffer:
    _check_interface(interface, name)
    shape = tuple(interface["shape"])
    typestr = interface["typestr"]
    data = interface.get("data")
    if typestr[1] == "O" or getattr(getattr(array, "dtype", None), "hasobject", False):
        raise TypeError("%s: has elements that are Python objects; allowed are numbers and plain bytes "
                        "(broadcast_object and the like send objects)" % name)
    numpy = sys.modules.get("numpy")
    if interface.get("mask") is not None or (numpy is not None and isinstance(array, numpy.ma.MaskedArray)):
        raise TypeError("%s: is a masked array; allowed are arrays without a mask" % name)
    if not isinstance(data, tuple):
        raise TypeError("%s: its array interface gives no address; allowed are arrays that have one" % name)
    element = (_of_fields(interface.get("descr")) if typestr[1] == "V" else None) or _of_typestr(typestr, array)
    strides = interface.get("strides")
    if strides is not None and not is_contiguous(shape, strides, element.size):
        raise _refuse_strides(name, shape, strides)
    return Buffer(data[0] or 0, shape, element, bool(data[1]), kind, array)


def _of_cuda(array: Any, name: str) -> Buffer:
    interface = array.__cuda_array_interface__
    buffer = _of_interface(array, interface, name, "cuda")
    buffer.device = True
    buffer.stream = interface.get("stream") or 0
    return buffer


# ---- The buffer protocol --------------------------------------------------------------------------------


class _PyBuffer(Structure):
    """Python's Py_buffer, which is part of its stable ABI."""
    _fields_ = [("buf", c_void_p), ("obj", py_object), ("len", c_ssize_t), ("itemsize", c_ssize_t),
                ("readonly", c_int), ("ndim", c_int), ("format", c_char_p), ("shape", POINTER(c_ssize_t)),
                ("strides", POINTER(c_ssize_t)), ("suboffsets", POINTER(c_ssize_t)), ("internal", c_void_p)]


_PYBUF_SIMPLE = 0
_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes, _get_buffer.restype = [py_object, POINTER(_PyBuffer), c_int], c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = [POINTER(_PyBuffer)], None

_FORMATS: Dict[str, str] = {"?": "b", "c": "u", "b": "i", "B": "u", "h": "i", "H": "u", "i": "i", "I": "u", "l": "i",
                            "L": "u", "q": "i", "Q": "u", "n": "i", "N": "u", "e": "f", "f": "f", "d": "f"}


def _of_format(format: str, size: int) -> Element:
    """The element of a format of the module struct."""
    letter = format.lstrip("@=") if format[:1] in "@=" else format
    if letter[:1] == _ORDER or (letter[:1] == "!" and not LITTLE_ENDIAN):
        letter = letter[1:]
    kind = _FORMATS.get(letter)
    if "O" in format or "P" in format:
        raise TypeError("has elements that are pointers")
    if not kind:
        return _raw("format '%s'" % format, size)
    order = "|" if size == 1 else _ORDER
    return _of_typestr("%s%s%d" % (order, kind, size), None)


class _Exported:
    """Holds a Py_buffer, so that its owner can neither free nor move the memory."""
    __slots__ = ("raw", "view")

    def __init__(self, owner: Any, view: memoryview) -> None:
        self.view = view
        self.raw = _PyBuffer()
        _get_buffer(owner, self.raw, _PYBUF_SIMPLE)

    def __del__(self) -> None:
        if self.raw.buf is not None or self.raw.len == 0:
            _release_buffer(self.raw)


def _of_memory(owner: Any, view: memoryview, name: str) -> Buffer:
    shape = tuple(view.shape or ())
    if not view.c_contiguous:
        raise _refuse_strides(name, shape, view.strides or ())
    try:
        element = _of_format(view.format, view.itemsize)
    except TypeError as error:
        raise TypeError("%s: %s; allowed are numbers and plain bytes" % (name, error)) from None
    exported = _Exported(view, view)
    return Buffer(exported.raw.buf or 0, shape, element, view.readonly, "memory", exported)


# ---- DLPack ---------------------------------------------------------------------------------------------


class _DLTensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


_DL_CPU = (1, 3)  # kDLCPU, kDLCUDAHost
_DL_KINDS = {0: "i", 1: "u", 2: "f", 5: "c"}
_DL_BFLOAT, _DL_BOOL = 4, 6
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes, _capsule_pointer.restype = [py_object, c_char_p], c_void_p


def _of_dlpack(array: Any, name: str) -> Buffer:
    place = array.__dlpack_device__()[0] if hasattr(array, "__dlpack_device__") else 1
    if int(place) not in _DL_CPU:
        raise TypeError("%s: is a DLPack tensor on a device of type %d; allowed is the CPU, and for CUDA arrays "
                        "__cuda_array_interface__" % (name, int(place)))
    # The capsule is not consumed: its own destructor gives the tensor back when the buffer is let go.
    capsule = array.__dlpack__()
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[:tensor.ndim])
    size = tensor.bits // 8 * tensor.lanes
    if tensor.lanes == 1 and tensor.code in _DL_KINDS:
        element = _of_typestr("%s%s%d" % ("|" if size == 1 else _ORDER, _DL_KINDS[tensor.code], size), None)
    elif tensor.lanes == 1 and tensor.code == _DL_BFLOAT and size == 2:
        element = _ELEMENTS[BFLOAT16]
    elif tensor.lanes == 1 and tensor.code == _DL_BOOL and size == 1:
        element = BOOL
    elif size:
        element = _raw("DLPack type %d of %d bits" % (tensor.code, tensor.bits), size)
    else:
        raise TypeError("%s: is a DLPack tensor of %d-bit elements; allowed are whole bytes" % (name, tensor.bits))
    strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else None
    if not is_contiguous(shape, strides, 1):
        raise _refuse_strides(name, shape, strides)
    return Buffer((tensor.data or 0) + tensor.byte_offset, shape, element, False, "dlpack", (array, capsule))


# ---- All of them ----------------------------------------------------------------------------------------


_BY_DTYPE: Dict[Any, Element] = {}  # of numpy's types that were met, those that gcoll reduces


def _of_plain(array: Any) -> Optional[Buffer]:
    """The common case, which needs not build a dictionary: a numpy array that can be written."""
    flags = array.flags
    element = _BY_DTYPE.get(array.dtype)
    if element is None:
        element = _BY_TYPESTR.get(array.dtype.str)
        if element is None:
            return None
        _BY_DTYPE[array.dtype] = element
    count = array.size
    if not count or not flags.c_contiguous or not flags.writeable:
        return None
    return Buffer(addressof(_from_buffer(array)), array.shape, element, False, "numpy", array, count)


def resolve(array: Any, name: str) -> Buffer:
    """Finds the memory of an array. name: of the argument, for errors. TypeError: it is no buffer, or one of
    elements that cannot be sent. ValueError: it is not contiguous."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(array) is numpy.ndarray:
        buffer = _of_plain(array)
        if buffer is not None:
            return buffer
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _of_torch(array, name)
    if numpy is not None and isinstance(array, numpy.generic):  # a scalar: its memory is a copy of it
        array = numpy.asarray(array)
        array.flags.writeable = False
    interface = getattr(array, "__array_interface__", None)
    if interface is not None:
        return _of_interface(array, interface, name, "numpy")
    if hasattr(array, "__cuda_array_interface__"):
        return _of_cuda(array, name)
    try:
        view = memoryview(array)
    except TypeError:
        pass
    else:
        return _of_memory(array, view, name)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array, name)
    raise TypeError("%s: is %s, which is no buffer; allowed are numpy arrays, torch tensors, and objects with the "
                    "buffer protocol, __array_interface__, __cuda_array_interface__ or __dlpack__" %
                    (name, describe(array)))


def describe(value: Any) -> str:
    """What an argument is, for texts of errors."""
    return "None" if value is None else "of type %s" % type(value).__name__


def resolve_output(array: Any, name: str) -> Buffer:
    """The same for an array that is written to."""
    buffer = resolve(array, name)
    if buffer.readonly:
        raise ValueError("%s: is read-only; allowed are arrays that can be written" % name)
    return buffer


def make_like(buffer: Buffer, shape: Tuple[int, ...], name: str) -> Any:
    """Makes an array of the same kind and elements, for an output that the caller has not given."""
    owner = buffer.keep
    if buffer.kind == "torch":
        return owner.new_empty(shape)
    if buffer.kind == "numpy" and "numpy" in sys.modules:
        numpy = sys.modules["numpy"]
        return numpy.empty(shape, getattr(owner, "dtype", None) or numpy.asarray(owner).dtype)
    if buffer.kind == "memory":
        view = owner.view
        count = 1
        for length in shape:
            count *= length
        memory = bytearray(count * view.itemsize)
        if type(view.obj).__module__ == "array":
            return type(view.obj)(view.obj.typecode, bytes(memory))
        if view.format == "B" and len(shape) == 1:
            return memory
        try:
            return memoryview(memory).cast(view.format, shape) if shape else memoryview(memory).cast(view.format)
        except (ValueError, TypeError):
            pass
    raise TypeError("%s: is None, and gcoll cannot make an array like the input, %s; allowed here is an array" %
                    (name, describe(owner[0] if isinstance(owner, tuple) else owner)))


def pointers(addresses: Sequence[int]) -> Any:
    """An array of pointers for the library."""
    return (c_void_p * len(addresses))(*addresses)


def counts_array(counts: Sequence[int]) -> Any:
    return (c_uint64 * len(counts))(*counts)


__all__ = ["Buffer", "Element", "address", "counts_array", "describe", "make_like", "pointers", "resolve",
           "resolve_output"]
