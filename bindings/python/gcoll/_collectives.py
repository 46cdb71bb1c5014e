"""The collectives: one method each. A method checks its arguments and fills in the library's call struct; the
form of the call (blocking, started, prepared) is the caller's."""

import math
import threading
from ctypes import byref, c_char, c_void_p, cast, memmove, pointer, sizeof
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, List, Optional, Sequence, Tuple, TypeVar, Union

from ._buffers import (BOOL, REDUCED, UINT8, Buffer, Element, address, counts_array, describe, make_like,
                       pointers, resolve, resolve_output)
from ._errors import Status, text_of
from ._library import (CollectiveCall, CollectiveOptions, GuardedReduce, MemoryStruct, ReduceFunction, UserOpStruct,
                       api)
from ._requests import milliseconds

if TYPE_CHECKING:
    from ._context import Context

R = TypeVar("R")

(ALLREDUCE, BROADCAST, BARRIER, REDUCE, REDUCE_SCATTER, ALLGATHER, GATHER, SCATTER, ALLTOALL,
 PAIRWISE_EXCHANGE) = range(10)
COLLECTIVES = ("allreduce", "broadcast", "barrier", "reduce", "reduce_scatter", "allgather", "gather", "scatter",
               "alltoall", "pairwise_exchange")
OPS = {"sum": 0, "product": 1, "min": 2, "max": 3, "avg": 4, "band": 5, "bor": 6, "bxor": 7, "land": 9, "lor": 10,
       "lxor": 11, "minloc": 12, "maxloc": 13}
USER_OP = 8
SAMES = {"ranks": 1, "runs": 2, "nowhere": 3}
ORDERS = {"any": 1, "pairs": 2, "left": 3}
# Operations on truth values that are the logical ones by another name.
_BOOL_OPS = {"min": "land", "max": "lor", "band": "land", "bor": "lor", "bxor": "lxor", "land": "land", "lor": "lor",
             "lxor": "lxor"}
_MAX_ELEMENT_BYTES = 65535
_MAX_LIST = 65536

# The functions of the library by name, with the method and the arguments by which Python says each. A test
# compares the names with the headers.
C_COLLECTIVES = {
    "allreduce": ("allreduce", ()), "allreduce_list": ("allreduce_list", ()), "reduce": ("reduce", ()),
    "reduce_scatter": ("reduce_scatter", ()), "reduce_scatter_v": ("reduce_scatter", ("counts",)),
    "reduce_scatter_list": ("reduce_scatter_list", ()), "broadcast": ("broadcast", ()),
    "allgather": ("allgather", ()), "allgather_v": ("allgather", ("counts",)),
    "allgather_list": ("allgather_list", ()), "gather": ("gather", ()), "gather_v": ("gather", ("counts",)),
    "scatter": ("scatter", ()), "scatter_v": ("scatter", ("counts",)), "alltoall": ("alltoall", ()),
    "alltoall_v": ("alltoall", ("send_counts", "recv_counts")), "alltoall_list": ("alltoall_list", ()),
    "pairwise_exchange": ("pairwise_exchange", ()), "barrier": ("barrier", ()),
}


class UserOp:
    """A reduction of your own.

    function:     takes two numpy arrays of one size and type, and returns their reduction, element by element; a
                  numpy function of two arguments will do. It must be associative. It must not call gcoll.
    commutative:  False keeps the order of ranks: the first array comes from lower ranks than the second. Fewer
                  algorithms can do that.

    Elements may be of any type that numpy has, also structured ones of up to 65535 bytes. The result must have the
    size of the arrays, and elements that numpy converts to theirs within a kind: float64 to float32, not to int64.
    The arrays are the function's own, copies that it may change and keep. Needs numpy.

    An exception of the function is raised by this rank's call. No rank gets a result that the failed reduction is
    part of: it breaks the context, and the other ranks get an AbortedError that names this rank and the exception;
    from this call or, if their part of it was done, from a later one.

    >>> import gcoll, numpy
    >>> def rank(context):
    ...     fraction = numpy.array([(1, context.rank + 1)], "i4,i8")
    ...     smaller = gcoll.UserOp(lambda a, b: numpy.where(a["f0"] * b["f1"] <= b["f0"] * a["f1"], a, b),
    ...                            commutative=True)
    ...     return context.allreduce(fraction, op=smaller).tolist()
    >>> gcoll.run_local(3, rank)[0]
    [(1, 3)]
    """

    def __init__(self, function: Callable[[Any, Any], Any], commutative: bool = False) -> None:
        if not callable(function):
            raise TypeError("function: is %s; allowed is a function of two arrays" % describe(function))
        self.function = function
        self.commutative = bool(commutative)


class BoundOp:
    """A UserOp with the elements that it reduces: what the library calls."""

    def __init__(self, op: UserOp, dtype: Any, element: Element) -> None:
        import numpy
        self.error: Optional[BaseException] = None
        own = not element.reduces
        if own and not 1 <= element.size <= _MAX_ELEMENT_BYTES:
            raise TypeError("op: elements have %d bytes; allowed are 1 to %d" % (element.size, _MAX_ELEMENT_BYTES))
        size, function, guard = element.size, op.function, GuardedReduce()

        def reduced(a: int, b: int, count: int) -> Any:
            left, right = (numpy.frombuffer(bytearray((c_char * (count * size)).from_address(at)), dtype)
                           for at in (a, b))
            value = numpy.asarray(function(left, right))
            if value.shape != (count,):
                raise ValueError("op: gave an array of shape %s; allowed is (%d,), as its arguments have" %
                                 (value.shape, count))
            if not numpy.can_cast(value.dtype, dtype, "same_kind"):
                raise TypeError("op: gave elements of type %s; allowed are %s" % (value.dtype, dtype))
            return numpy.ascontiguousarray(value, dtype)

        # An exception of a signal's handler, such as KeyboardInterrupt, may come before the first line. So the
        # library takes a reduction for failed until `status` says otherwise.
        def reduce(out: Any, a: Any, b: Any, count: int, _type: int, _arg: Any) -> None:
            try:
                value = reduced(a, b, count)
                memmove(out, value.__array_interface__["data"][0], count * size)
                guard.status = Status.OK
            except BaseException as error:
                guard.status = Status.ABORTED
                self.error = error
                api.gcoll_store_error(Status.ABORTED, text_of(error))

        guard.reduce = ReduceFunction(reduce)
        self._guard = guard
        self.struct = UserOpStruct(cast(api.gcoll_reduce_guarded, c_void_p), address(guard), int(op.commutative),
                                   size if own else 0)

    def take_error(self, has_failed: bool) -> Optional[BaseException]:
        """The exception that ended a reduction of this call, if one did."""
        error, self.error = self.error, None
        if error is None and has_failed and self._guard.status == Status.ABORTED:
            # It came before the function began, and Python has printed it. Handlers of signals run in this thread.
            if threading.current_thread() is threading.main_thread():
                error = KeyboardInterrupt()
        self._guard.status = Status.OK
        return error


Op = Union[str, UserOp, Callable[[Any, Any], Any]]


def _dtype_of(buffer: Buffer) -> Any:
    """numpy's type of a buffer's elements."""
    try:
        import numpy
    except ImportError:
        raise ImportError("op: functions need numpy, which is not installed") from None
    dtype = getattr(buffer.keep, "dtype", None)
    if isinstance(dtype, numpy.dtype):
        return dtype
    try:
        return numpy.dtype(buffer.element.name)
    except TypeError:
        raise TypeError("op: is a function, but numpy has no elements of type %s; allowed are operations by name" %
                        buffer.element.name) from None


def _same_elements(a: Buffer, a_name: str, b: Buffer, b_name: str) -> None:
    if a.element != b.element:
        raise TypeError("%s: has elements of type %s; allowed are %s, as %s has" %
                        (b_name, b.element.name, a.element.name, a_name))


def _count_is(buffer: Buffer, name: str, count: int, why: str) -> None:
    if buffer.count != count:
        raise ValueError("%s: has %d elements; allowed are %d, %s" % (name, buffer.count, count, why))


def read_counts(counts: Any, name: str, size: int) -> List[int]:
    try:
        found = [int(count) for count in counts]
    except TypeError:
        raise TypeError("%s: is %s; allowed is a sequence of %d numbers" % (name, describe(counts), size)) from None
    if len(found) != size:
        raise ValueError("%s: has %d entries; allowed are %d, one for each rank" % (name, len(found), size))
    for k, count in enumerate(found):
        if not 0 <= count < 1 << 63:
            raise ValueError("%s[%d]: is %d; allowed are 0 and more" % (name, k, count))
    return found


def _read_word(name: str, given: Optional[str], words: Dict[str, int]) -> int:
    if given is None:
        return 0
    if given not in words:
        raise ValueError("%s: is %r; allowed are %s and None" % (name, given, ", ".join(repr(w) for w in words)))
    return words[given]


def read_same(same: Optional[str]) -> int:
    return _read_word("same", same, SAMES)


def read_order(order: Optional[str]) -> int:
    return _read_word("order", order, ORDERS)


def read_number(value: Any, name: str, limit: int) -> int:
    try:
        number = value.__index__()
    except AttributeError:
        raise TypeError("%s: is %s; allowed are numbers from 0 to %d" % (name, describe(value), limit - 1)) from None
    if not 0 <= number < limit:
        raise ValueError("%s: is %d; allowed are 0 to %d" % (name, number, limit - 1))
    return int(number)


def read_factor(value: Any, name: str) -> float:
    try:
        number = value.__float__() if not isinstance(value, str) else None
    except AttributeError:
        number = None
    if number is None:
        raise TypeError("%s: is %s; allowed are numbers and None" % (name, describe(value)))
    if number == 0 or not math.isfinite(number):
        raise ValueError("%s: is %s; allowed are finite numbers other than 0, and None" % (name, value))
    return float(number)


def _rows(shape: Tuple[int, ...], blocks: int) -> Tuple[int, ...]:
    """The shape of one of `blocks` equal parts of an array along its first axis."""
    if shape and shape[0] % blocks == 0:
        return (shape[0] // blocks,) + shape[1:]
    count = 1
    for length in shape:
        count *= length
    return (count // blocks,)


def _joined(shape: Tuple[int, ...], blocks: int) -> Tuple[int, ...]:
    """The shape of `blocks` arrays, one after the other along the first axis."""
    return (blocks * shape[0],) + shape[1:] if shape else (blocks,)


def read_codec(codec: Any) -> bytes:
    if not isinstance(codec, str):
        raise TypeError("codec: is %s; allowed are texts and None" % describe(codec))
    return codec.encode()


class _Call:
    """A call in the making: the struct, and all that must live as long as it is in flight."""
    __slots__ = ("name", "struct", "options", "keep", "result", "bound")

    def __init__(self, name: str, collective: int, algorithm: Optional[str], timeout: Optional[float],
                 uniform: bool, keep_input: bool = False, codec: Optional[str] = None) -> None:
        self.name = name
        self.options: Optional[CollectiveOptions] = None
        self.keep: List[Any] = []
        self.result: Any = None
        self.bound: Optional[BoundOp] = None
        self.struct = CollectiveCall(_CALL_BYTES, collective)
        if algorithm is not None:
            if not isinstance(algorithm, str):
                raise TypeError("algorithm: is %s; allowed are texts and None" % describe(algorithm))
            self.struct.algorithm = algorithm.encode()
        if timeout is not None:
            self.struct.timeout_ms = milliseconds(timeout, "timeout")
        if uniform:
            self.option().uniform = 1
        if keep_input:
            self.option().keep_input = 1
        if codec is not None:
            self.option().codec = read_codec(codec)

    def option(self) -> CollectiveOptions:
        if self.options is None:
            self.options = CollectiveOptions()
            api.gcoll_collective_options_init(byref(self.options))
            self.struct.options = pointer(self.options)
            self.keep.append(self.options)
        return self.options

    @property
    def is_uniform(self) -> bool:
        return self.options is not None and bool(self.options.uniform)

    def hold(self, buffer: Buffer) -> Buffer:
        self.keep.append(buffer.keep)
        return buffer

    def limit(self, memory_limit: Optional[int], same: Optional[str] = None, order: Optional[str] = None) -> None:
        if memory_limit is not None:
            self.option().memory_limit_bytes = read_number(memory_limit, "memory_limit", 1 << 63)
        if same is not None:
            self.option().same = read_same(same)
        if order is not None:
            self.option().order = read_order(order)

    def scale(self, prescale: Optional[float], postscale: Optional[float]) -> None:
        if prescale is not None:
            self.option().prescale = read_factor(prescale, "prescale")
        if postscale is not None:
            self.option().postscale = read_factor(postscale, "postscale")

    def elements(self, element: Element) -> int:
        """Says the type, and returns how many of the library's elements make up one."""
        self.struct.type = element.type
        return element.scale

    def devices(self, buffers: Sequence[Tuple[Optional[Buffer], Optional[Buffer]]]) -> None:
        """If a buffer lies on a device, says so: the library then refuses it on a context that takes none. Buffer k
        goes by the stream of its input, or else of its output."""
        if not any(b is not None and b.device for pair in buffers for b in pair):
            return
        memory = MemoryStruct()
        api.gcoll_memory_init(byref(memory))
        streams = pointers([next((b.stream for b in pair if b is not None and b.device), 0) for pair in buffers])
        memory.streams = address(streams)
        self.option().memory = pointer(memory)
        self.keep += [memory, streams]


_CALL_BYTES = sizeof(CollectiveCall)


class Collectives(Generic[R]):
    """The collectives. ``context.allreduce(...)`` blocks and returns the output; ``context.start.allreduce(...)``
    returns a ``Request``; ``context.prepare.allreduce(...)`` returns an ``Operation``. All three take the same
    arguments.

    Every rank makes the same calls in the same order, with arrays of the same sizes and types.

    Arrays. Inputs and outputs are buffers (numpy arrays, torch tensors, ...; see ``docs/python.md``). They must be
    C-contiguous. Their shape plays no part, only the number of elements. What moves data without reducing it takes
    elements of any type but Python objects.

    Reductions. ``op`` is a function, or a name:

    sum, product, avg   of integers, floats and complex numbers
    min, max            of integers and floats
    band, bor, bxor     of the bits of integers
    land, lor, lxor     of bool and integers
    minloc, maxloc      of structured arrays of a value and its index: "f4,i4", "f8,i8", "i4,i4", "i8,i8". Of equal
                        values the one with the lowest index

    Integers have 8 to 64 bits; floats 16 to 64, and 8 as those of torch and ml_dtypes. For bool, min, max, band, bor
    and bxor are the logical operations.

    ``out`` is the output. None: gcoll makes an array like the input, and the input stays as it is. In place: give
    the input as ``out``. If one of the two is a block of the other, it may lie there: ``context.allgather(whole[r],
    whole)``, where r is this rank.

    Blocks. An array with a block for each rank has them one after the other, along its first axis. ``counts`` gives
    the sizes of blocks that differ, in elements, an entry for each rank; the same on every rank.

    Options of every collective:

    algorithm     "ring", "group_butterfly:r=2", ... None: gcoll chooses
    timeout       time limit of this call on this rank, in seconds. None: the context's, which counts only the time
                  in which nothing moves. math.inf: none. A call that exceeds it breaks the context
    memory_limit  most scratch in bytes that the algorithm may need. None: any amount
    same          of reductions: where results are the same, bit by bit. "ranks": on every rank; "runs": in every
                  run, too; "nowhere": last bits may differ. None: as the context says
    order         of reductions: the tree of operations, which gives the same bits for every size, algorithm and
                  transport. "pairs": neighbours first, then pairs, then fours; "left": one after the other; "any".
                  The same on every rank. None: as the context says
    prescale      of reductions of floats and complex numbers: the input is multiplied by this number before. Ranks may
                  differ in it. None: it is not. See ``docs/types.md``
    postscale     the result is multiplied by this number, after the division of "avg". The same on every rank
    keep_input    True: a call in place that fails leaves its input as it was. Costs a copy in each run
    uniform       True, the same on every rank: the call succeeds on all ranks that are left, or fails on all, and
                  then breaks the context. For blocking calls of contexts with recovery; costs an agreement a call
    codec         of allreduce, reduce_scatter, allgather and broadcast: "bf16", "fp16", "int8:block=128",
                  "fp8:block=32", or one of these with a seed, "int8:block=128,seed=7": messages carry float32
                  numbers so, with errors that docs/codecs.md bounds. The same on every rank. None: as they are

    Errors. TypeError and ValueError name an argument, and come before anything is sent; so does ``InvalidError``,
    which is a ValueError. ``UnsupportedError``: the algorithm cannot do it. All other subclasses of ``Error`` break
    the context: ``PeerError``, ``TimeoutError``, ``MismatchError``, ...
    """

    _size: int
    _rank: int

    def _owner(self) -> "Context":
        raise NotImplementedError

    def _go(self, call: _Call) -> R:
        raise NotImplementedError

    # ---- Parts of a call --------------------------------------------------------------------------------

    def _reduction(self, call: _Call, op: Op, buffer: Buffer, name: str) -> int:
        """Sets operation and type; returns how many of the library's elements make up one."""
        element = buffer.element
        if isinstance(op, str):
            if op not in OPS:
                raise ValueError("op: is %r; allowed are %s, and a function" % (op, ", ".join(OPS)))
            if not element.reduces:
                raise TypeError("%s: has elements of type %s, which gcoll cannot reduce; allowed are %s" %
                                (name, element.name, REDUCED))
            if element is BOOL:
                if op not in _BOOL_OPS:
                    raise TypeError("op: is %r, but %s has elements of type bool; allowed are %s" %
                                    (op, name, ", ".join(_BOOL_OPS)))
                op = _BOOL_OPS[op]
            call.struct.op = OPS[op]
            return call.elements(element)
        if not callable(op) and not isinstance(op, UserOp):
            raise TypeError("op: is %s; allowed are %s, and a function" % (describe(op), ", ".join(OPS)))
        user = op if isinstance(op, UserOp) else UserOp(op)
        call.bound = BoundOp(user, _dtype_of(buffer), element)
        call.struct.op = USER_OP
        call.option().user_op = pointer(call.bound.struct)
        call.keep.append(call.bound)
        call.struct.type = element.type if element.reduces else UINT8
        return 1

    def _root(self, call: _Call, root: int) -> bool:
        call.struct.root = read_number(root, "root", self._size)
        return root == self._rank

    def _finish(self, call: _Call, source: Optional[Buffer], target: Optional[Buffer], result: Any) -> R:
        if source is not None:
            call.struct.input = source.address
        if target is not None:
            call.struct.output = target.address
        if (source is not None and source.device) or (target is not None and target.device):
            call.devices([(source, target)])
        call.result = result
        return self._go(call)

    def _counts(self, call: _Call, counts: Sequence[int], scale: int, field: str = "counts") -> None:
        array = counts_array([count * scale for count in counts] if scale != 1 else counts)
        setattr(call.struct, field, address(array))
        call.keep.append(array)

    def _list(self, call: _Call, arrays: Any, name: str, write: bool, length: int = -1) -> List[Buffer]:
        """A list of buffers of one element type; length -1: of any number."""
        if isinstance(arrays, (str, bytes)) or not hasattr(arrays, "__iter__"):
            raise TypeError("%s: is %s; allowed is a list of arrays" % (name, describe(arrays)))
        find = resolve_output if write else resolve
        found = [call.hold(find(array, "%s[%d]" % (name, k))) for k, array in enumerate(arrays)]
        if length >= 0 and len(found) != length:
            raise ValueError("%s: has %d arrays; allowed are %d, one for each rank" % (name, len(found), length))
        if len(found) > _MAX_LIST:
            raise ValueError("%s: has %d arrays; allowed are up to %d" % (name, len(found), _MAX_LIST))
        for k, buffer in enumerate(found):
            _same_elements(found[0], name + "[0]", buffer, "%s[%d]" % (name, k))
            if length >= 0 and buffer.device:
                raise TypeError("%s[%d]: lies on a device; allowed in a list are arrays in host memory" % (name, k))
        return found

    def _pointers(self, call: _Call, field: str, buffers: Sequence[Buffer]) -> None:
        array = pointers([buffer.address for buffer in buffers])
        setattr(call.struct, field, address(array) if buffers else None)
        call.keep.append(array)

    def _several(self, call: _Call, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
        options = call.option()
        for field, buffers in (("inputs", ins), ("outputs", outs)):
            if buffers:
                array = pointers([buffer.address for buffer in buffers])
                setattr(options, field, address(array))
                call.keep.append(array)
        options.buffers = len(outs)
        call.devices([(ins[k] if ins else None, out) for k, out in enumerate(outs)])

    # ---- Reductions -------------------------------------------------------------------------------------

    def allreduce(self, input: Any, out: Any = None, op: Op = "sum", *, algorithm: Optional[str] = None,
                  timeout: Optional[float] = None, memory_limit: Optional[int] = None,
                  same: Optional[str] = None, order: Optional[str] = None,
                  prescale: Optional[float] = None, postscale: Optional[float] = None, keep_input: bool = False,
                  uniform: bool = False, codec: Optional[str] = None) -> R:
        """Reduces the arrays of all ranks, element by element, and gives the result to every rank.

        input: n elements. out: n elements; in place: the input. op: "sum", "product", "min", "max", "avg", "band",
        "bor", "bxor", "land", "lor", "lxor", "minloc", "maxloc", or a function (``UserOp``). Integers wrap around.

        >>> import gcoll, numpy
        >>> gcoll.run_local(3, lambda context: context.allreduce(numpy.array([1.5, context.rank])).tolist())
        [[4.5, 3.0], [4.5, 3.0], [4.5, 3.0]]
        """
        call = _Call("allreduce", ALLREDUCE, algorithm, timeout, uniform, keep_input, codec)
        call.limit(memory_limit, same, order)
        call.scale(prescale, postscale)
        source = call.hold(resolve(input, "input"))
        if out is None:
            out = make_like(source, source.shape, "out")
        if out is input and not source.readonly:
            target = source
        else:
            target = call.hold(resolve_output(out, "out"))
            _same_elements(source, "input", target, "out")
            _count_is(target, "out", source.count, "as input has")
        call.struct.count = source.count * self._reduction(call, op, source, "input")
        return self._finish(call, source, target, out)

    def reduce(self, input: Any, out: Any = None, op: Op = "sum", root: int = 0, *, algorithm: Optional[str] = None,
               timeout: Optional[float] = None, memory_limit: Optional[int] = None,
               same: Optional[str] = None, order: Optional[str] = None,
               prescale: Optional[float] = None, postscale: Optional[float] = None, keep_input: bool = False,
               uniform: bool = False) -> R:
        """Reduces the arrays of all ranks, and gives the result to rank `root`. Other ranks get None.

        input: n elements. out: n elements at the root; in place: the input; ignored elsewhere. op: as in
        ``allreduce``.

        >>> import gcoll, numpy
        >>> gcoll.run_local(2, lambda context: context.reduce(numpy.array([7, context.rank]), op="max", root=1))
        [None, array([7, 1])]
        """
        call = _Call("reduce", REDUCE, algorithm, timeout, uniform, keep_input)
        call.limit(memory_limit, same, order)
        call.scale(prescale, postscale)
        source = call.hold(resolve(input, "input"))
        target = None
        if self._root(call, root):
            if out is None:
                out = make_like(source, source.shape, "out")
            target = call.hold(resolve_output(out, "out"))
            _same_elements(source, "input", target, "out")
            _count_is(target, "out", source.count, "as input has")
        call.struct.count = source.count * self._reduction(call, op, source, "input")
        return self._finish(call, source, target, out if target is not None else None)

    def reduce_scatter(self, input: Any, out: Any = None, op: Op = "sum", counts: Optional[Sequence[int]] = None, *,
                       algorithm: Optional[str] = None, timeout: Optional[float] = None,
                       memory_limit: Optional[int] = None, same: Optional[str] = None, order: Optional[str] = None,
                       prescale: Optional[float] = None, postscale: Optional[float] = None, keep_input: bool = False,
                       uniform: bool = False, codec: Optional[str] = None) -> R:
        """Reduces the arrays of all ranks, and gives block r of the result to rank r.

        input: a block for each rank. out: one block. counts: elements of each block; None: all alike. op: as in
        ``allreduce``.

        >>> import gcoll, numpy
        >>> gcoll.run_local(2, lambda context: context.reduce_scatter(numpy.array([1, 2, 3, 4])).tolist())
        [[2, 4], [6, 8]]
        >>> gcoll.run_local(2, lambda context: context.reduce_scatter(numpy.array([1, 2, 3]), counts=[1, 2]).tolist())
        [[2], [4, 6]]
        """
        call = _Call("reduce_scatter", REDUCE_SCATTER, algorithm, timeout, uniform, keep_input, codec)
        call.limit(memory_limit, same, order)
        call.scale(prescale, postscale)
        source = call.hold(resolve(input, "input"))
        block, sizes = self._block(source, "input", counts)
        if out is None:
            out = make_like(source, _rows(source.shape, self._size) if sizes is None else (block,), "out")
        target = call.hold(resolve_output(out, "out"))
        _same_elements(source, "input", target, "out")
        _count_is(target, "out", block, "a block of input")
        scale = self._reduction(call, op, source, "input")
        self._say_blocks(call, block, sizes, scale)
        return self._finish(call, source, target, out)

    def _block(self, whole: Buffer, name: str, counts: Optional[Sequence[int]]) -> Tuple[int, Optional[List[int]]]:
        """The elements of this rank's block of an array, and the sizes of all blocks, if they are given."""
        if counts is None:
            if whole.count % self._size:
                raise ValueError("%s: has %d elements; allowed are multiples of %d, the number of ranks, or counts" %
                                 (name, whole.count, self._size))
            return whole.count // self._size, None
        sizes = read_counts(counts, "counts", self._size)
        _count_is(whole, name, sum(sizes), "the sum of counts")
        return sizes[self._rank], sizes

    def _say_blocks(self, call: _Call, block: int, sizes: Optional[List[int]], scale: int) -> None:
        if sizes is None:
            call.struct.count = block * scale
        else:
            self._counts(call, sizes, scale)

    # ---- Data movement ----------------------------------------------------------------------------------

    def broadcast(self, data: Any, root: int = 0, *, algorithm: Optional[str] = None,
                  timeout: Optional[float] = None, memory_limit: Optional[int] = None, uniform: bool = False,
                  codec: Optional[str] = None) -> R:
        """Copies `data` of rank `root` to `data` of every rank, and returns it.

        data: n elements, the same number and type on every rank. It may be read-only at the root, unless there is a
        codec: then the root gets the rounded numbers, too.

        >>> import gcoll, numpy
        >>> gcoll.run_local(2, lambda context: context.broadcast(numpy.array([context.rank, 5]), root=1).tolist())
        [[1, 5], [1, 5]]
        """
        call = _Call("broadcast", BROADCAST, algorithm, timeout, uniform, codec=codec)
        call.limit(memory_limit)
        is_root = self._root(call, root)
        is_written = not is_root or codec not in (None, "", "none")
        target = call.hold((resolve_output if is_written else resolve)(data, "data"))
        call.struct.count = target.count * call.elements(target.element)
        return self._finish(call, None, target, data)

    def allgather(self, input: Any, out: Any = None, counts: Optional[Sequence[int]] = None, *,
                  algorithm: Optional[str] = None, timeout: Optional[float] = None,
                  memory_limit: Optional[int] = None, keep_input: bool = False, uniform: bool = False,
                  codec: Optional[str] = None) -> R:
        """Gives the arrays of all ranks to every rank, one after the other.

        input: this rank's block. out: a block for each rank. counts: elements of each block; None: all alike.

        >>> import gcoll, numpy
        >>> gcoll.run_local(2, lambda context: context.allgather(numpy.array([[context.rank, 7]])).tolist())[1]
        [[0, 7], [1, 7]]
        """
        call = _Call("allgather", ALLGATHER, algorithm, timeout, uniform, keep_input, codec)
        call.limit(memory_limit)
        source = call.hold(resolve(input, "input"))
        target, out = self._gathered(call, source, out, counts)
        return self._finish(call, source, target, out)

    def gather(self, input: Any, out: Any = None, root: int = 0, counts: Optional[Sequence[int]] = None, *,
               algorithm: Optional[str] = None, timeout: Optional[float] = None,
               memory_limit: Optional[int] = None, keep_input: bool = False, uniform: bool = False) -> R:
        """Gives the arrays of all ranks to rank `root`, one after the other. Other ranks get None.

        input: this rank's block. out: a block for each rank, at the root; ignored elsewhere. counts: elements of
        each block; None: all alike. ``gather_list`` needs the counts at the root only.

        >>> import gcoll, numpy
        >>> gcoll.run_local(2, lambda context: context.gather(numpy.array([context.rank + 0.5])))
        [array([0.5, 1.5]), None]
        """
        call = _Call("gather", GATHER, algorithm, timeout, uniform, keep_input)
        call.limit(memory_limit)
        source = call.hold(resolve(input, "input"))
        if self._root(call, root):
            target, out = self._gathered(call, source, out, counts)
            return self._finish(call, source, target, out)
        sizes = None
        if counts is not None:
            sizes = read_counts(counts, "counts", self._size)
            _count_is(source, "input", sizes[self._rank], "counts[%d]" % self._rank)
        self._say_blocks(call, source.count, sizes, call.elements(source.element))
        return self._finish(call, source, None, None)

    def _gathered(self, call: _Call, source: Buffer, out: Any,
                  counts: Optional[Sequence[int]]) -> Tuple[Buffer, Any]:
        sizes = None if counts is None else read_counts(counts, "counts", self._size)
        total = source.count * self._size if sizes is None else sum(sizes)
        if sizes is not None:
            _count_is(source, "input", sizes[self._rank], "counts[%d]" % self._rank)
        if out is None:
            out = make_like(source, _joined(source.shape, self._size) if sizes is None else (total,), "out")
        target = call.hold(resolve_output(out, "out"))
        _same_elements(source, "input", target, "out")
        _count_is(target, "out", total, "a block for each rank" if sizes is None else "the sum of counts")
        self._say_blocks(call, source.count, sizes, call.elements(source.element))
        return target, out

    def scatter(self, input: Any, out: Any = None, root: int = 0, counts: Optional[Sequence[int]] = None, *,
                algorithm: Optional[str] = None, timeout: Optional[float] = None,
                memory_limit: Optional[int] = None, keep_input: bool = False, uniform: bool = False) -> R:
        """Gives block r of rank `root`'s array to rank r.

        input: a block for each rank, at the root; ignored elsewhere, where it may be None. out: one block; only the
        root may leave it out. counts: elements of each block; None: all alike.

        >>> import gcoll, numpy
        >>> def rank(context):
        ...     return context.scatter(numpy.arange(4.0) if context.rank == 0 else None, numpy.empty(2)).tolist()
        >>> gcoll.run_local(2, rank)
        [[0.0, 1.0], [2.0, 3.0]]
        """
        call = _Call("scatter", SCATTER, algorithm, timeout, uniform, keep_input)
        call.limit(memory_limit)
        source = None
        is_root = self._root(call, root)
        sizes = None if counts is None else read_counts(counts, "counts", self._size)
        if is_root:
            source = call.hold(resolve(input, "input"))
            block, sizes = self._block(source, "input", counts)
            if out is None:
                out = make_like(source, _rows(source.shape, self._size) if sizes is None else (block,), "out")
        target = call.hold(self._target_of_scatter(out))
        if source is not None:
            _same_elements(source, "input", target, "out")
            _count_is(target, "out", block, "a block of input")
        elif sizes is not None:
            _count_is(target, "out", sizes[self._rank], "counts[%d]" % self._rank)
        self._say_blocks(call, target.count, sizes, call.elements(target.element))
        return self._finish(call, source, target, out)

    def _target_of_scatter(self, out: Any) -> Buffer:
        if out is None:
            raise TypeError("out: is None on rank %d, which is not the root and cannot know what comes; allowed is an "
                            "array" % self._rank)
        return resolve_output(out, "out")

    def alltoall(self, input: Any, out: Any = None, send_counts: Optional[Sequence[int]] = None,
                 recv_counts: Optional[Sequence[int]] = None, *, algorithm: Optional[str] = None,
                 timeout: Optional[float] = None, memory_limit: Optional[int] = None,
                 keep_input: bool = False, uniform: bool = False) -> R:
        """Gives block j of every rank's array to rank j.

        input: a block for each rank. out: as many elements, block j from rank j. Not in place.
        send_counts, recv_counts: elements of each block of input and out; both or none. Each rank has its own; rank
        i's send_counts[j] is rank j's recv_counts[i].

        >>> import gcoll, numpy
        >>> gcoll.run_local(2, lambda context: context.alltoall(numpy.array([10, 20]) + context.rank).tolist())
        [[10, 11], [20, 21]]
        """
        call = _Call("alltoall", ALLTOALL, algorithm, timeout, uniform, keep_input)
        call.limit(memory_limit)
        source = call.hold(resolve(input, "input"))
        scale = call.elements(source.element)
        if (send_counts is None) != (recv_counts is None):
            raise ValueError("%s: is None beside %s; allowed are both or none" %
                             (("send_counts", "recv_counts") if send_counts is None else
                              ("recv_counts", "send_counts")))
        if send_counts is None or recv_counts is None:
            call.struct.count = self._block(source, "input", None)[0] * scale
            total, shape = source.count, source.shape
        else:
            sent = read_counts(send_counts, "send_counts", self._size)
            taken = read_counts(recv_counts, "recv_counts", self._size)
            _count_is(source, "input", sum(sent), "the sum of send_counts")
            self._counts(call, sent, scale)
            self._counts(call, taken, scale, "recv_counts")
            total = sum(taken)
            shape = (total,)
        if out is None:
            out = make_like(source, shape, "out")
        target = call.hold(resolve_output(out, "out"))
        _same_elements(source, "input", target, "out")
        _count_is(target, "out", total, "as input has" if recv_counts is None else "the sum of recv_counts")
        return self._finish(call, source, target, out)

    def pairwise_exchange(self, input: Any, out: Any = None, exchanges: int = 0, *,
                          algorithm: Optional[str] = None, timeout: Optional[float] = None,
                          memory_limit: Optional[int] = None, keep_input: bool = False, uniform: bool = False) -> R:
        """Swaps chunk c of the array with rank XOR 2**c, for each of `exchanges` chunks.

        input: n elements. out: n elements. Not in place. exchanges: up to 32; 0: as often as 1 can be doubled before
        it reaches the number of ranks. A chunk without such a rank stays.

        >>> import gcoll, numpy
        >>> gcoll.run_local(2, lambda context: context.pairwise_exchange(numpy.array([context.rank])).tolist())
        [[1], [0]]
        """
        call = _Call("pairwise_exchange", PAIRWISE_EXCHANGE, algorithm, timeout, uniform, keep_input)
        call.limit(memory_limit)
        source = call.hold(resolve(input, "input"))
        if out is None:
            out = make_like(source, source.shape, "out")
        target = call.hold(resolve_output(out, "out"))
        _same_elements(source, "input", target, "out")
        _count_is(target, "out", source.count, "as input has")
        call.struct.exchanges = read_number(exchanges, "exchanges", 33)
        if source.element.scale != 1:
            self._whole_chunks(source, call.struct.exchanges)
        call.struct.count = source.count * call.elements(source.element)
        return self._finish(call, source, target, out)

    def _whole_chunks(self, source: Buffer, exchanges: int) -> None:
        """Chunks are cut in the library's elements; they must not cut through an element that it moves as bytes."""
        chunks = exchanges or max(1, (self._size - 1).bit_length())
        if source.count % chunks:
            raise ValueError("input: has %d elements of type %s; allowed are multiples of %d, the number of exchanges" %
                             (source.count, source.element.name, chunks))

    def barrier(self, *, algorithm: Optional[str] = None, timeout: Optional[float] = None, uniform: bool = False) -> R:
        """Returns when every rank has called it.

        >>> import gcoll
        >>> gcoll.run_local(3, lambda context: context.barrier())
        [None, None, None]
        """
        return self._go(_Call("barrier", BARRIER, algorithm, timeout, uniform))

    # ---- Lists of arrays --------------------------------------------------------------------------------

    def allreduce_list(self, inputs: Sequence[Any], outs: Optional[Sequence[Any]] = None, op: Op = "sum", *,
                       algorithm: Optional[str] = None, timeout: Optional[float] = None,
                       memory_limit: Optional[int] = None, same: Optional[str] = None, order: Optional[str] = None,
                       prescale: Optional[float] = None, postscale: Optional[float] = None, keep_input: bool = False,
                       uniform: bool = False) -> R:
        """Allreduce of several arrays of one type as one operation, whatever their sizes. Returns the list of
        outputs.

        inputs: up to 65536 arrays. outs: as many, of the same sizes; in place: the inputs; None: new arrays.

        >>> import gcoll, numpy
        >>> def rank(context):
        ...     return [x.tolist() for x in context.allreduce_list([numpy.ones(2), numpy.full(1, 5.0)])]
        >>> gcoll.run_local(2, rank)[0]
        [[2.0, 2.0], [10.0]]
        """
        call = _Call("allreduce_list", ALLREDUCE, algorithm, timeout, uniform, keep_input)
        call.limit(memory_limit, same, order)
        call.scale(prescale, postscale)
        inputs = list(inputs)
        ins = self._list(call, inputs, "inputs", False)
        results = [make_like(b, b.shape, "outs") for b in ins] if outs is None else list(outs)
        targets = self._list(call, results, "outs", True)
        self._match(ins, targets)
        self._host_only(ins + targets)
        if ins:
            self._counts(call, [b.count for b in ins], self._reduction(call, op, ins[0], "inputs[0]"))
        self._pointers(call, "inputs", ins)
        self._pointers(call, "outputs", targets)
        call.struct.entries = len(ins)
        call.result = results
        return self._go(call)

    def _host_only(self, buffers: Sequence[Buffer]) -> None:
        if any(buffer.device for buffer in buffers):
            raise TypeError("inputs, outs: lie on a device; allowed in a list are arrays in host memory")

    def _match(self, ins: List[Buffer], outs: List[Buffer]) -> None:
        if len(ins) != len(outs):
            raise ValueError("outs: has %d arrays; allowed are %d, as inputs has" % (len(outs), len(ins)))
        for k, (a, b) in enumerate(zip(ins, outs)):
            _same_elements(a, "inputs[%d]" % k, b, "outs[%d]" % k)
            _count_is(b, "outs[%d]" % k, a.count, "as inputs[%d] has" % k)

    def reduce_scatter_list(self, inputs: Sequence[Any], out: Any = None, op: Op = "sum", *,
                            algorithm: Optional[str] = None, timeout: Optional[float] = None,
                            memory_limit: Optional[int] = None, same: Optional[str] = None, order: Optional[str] = None,
                            prescale: Optional[float] = None, postscale: Optional[float] = None,
                            keep_input: bool = False, uniform: bool = False) -> R:
        """Like ``reduce_scatter``, with an array for each block. Ranks may call either of the two.

        inputs: an array for each rank. out: like inputs[rank]; in place: that array.

        >>> import gcoll, numpy
        >>> def rank(context):
        ...     return context.reduce_scatter_list([numpy.ones(1), numpy.ones(2)]).tolist()
        >>> gcoll.run_local(2, rank)
        [[2.0], [2.0, 2.0]]
        """
        call = _Call("reduce_scatter_list", REDUCE_SCATTER, algorithm, timeout, uniform, keep_input)
        call.limit(memory_limit, same, order)
        call.scale(prescale, postscale)
        ins = self._list(call, inputs, "inputs", False, self._size)
        mine = ins[self._rank]
        if out is None:
            out = make_like(mine, mine.shape, "out")
        target = call.hold(resolve_output(out, "out"))
        _same_elements(mine, "inputs[%d]" % self._rank, target, "out")
        _count_is(target, "out", mine.count, "as inputs[%d] has" % self._rank)
        self._host_only([target])
        self._counts(call, [b.count for b in ins], self._reduction(call, op, mine, "inputs[0]"))
        self._pointers(call, "inputs", ins)
        return self._finish(call, None, target, out)

    def allgather_list(self, input: Any, outs: Optional[Sequence[Any]] = None, *, algorithm: Optional[str] = None,
                       timeout: Optional[float] = None, memory_limit: Optional[int] = None,
                       keep_input: bool = False, uniform: bool = False) -> R:
        """Like ``allgather``, with an array for each block. Ranks may call either of the two. Returns the list.

        input: this rank's block. outs: an array for each rank; in place: input is outs[rank]. None: arrays like the
        input, if it has the same size on every rank.

        >>> import gcoll, numpy
        >>> def rank(context):
        ...     outs = [numpy.empty(1), numpy.empty(2)]
        ...     return [x.tolist() for x in context.allgather_list(numpy.full(context.rank + 1, 3.0), outs)]
        >>> gcoll.run_local(2, rank)[0]
        [[3.0], [3.0, 3.0]]
        """
        call = _Call("allgather_list", ALLGATHER, algorithm, timeout, uniform, keep_input)
        call.limit(memory_limit)
        source = call.hold(resolve(input, "input"))
        results = self._targets_of_gather(call, source, outs)
        return self._finish(call, source, None, results)

    def gather_list(self, input: Any, outs: Optional[Sequence[Any]] = None, root: int = 0, *,
                    algorithm: Optional[str] = None, timeout: Optional[float] = None,
                    memory_limit: Optional[int] = None, keep_input: bool = False, uniform: bool = False) -> R:
        """Like ``gather``, with an array for each block, whose sizes only the root needs to know. Every rank calls
        this form. Other ranks than the root get None.

        input: this rank's block. outs: at the root, an array for each rank; None: arrays like the input, if it has
        the same size on every rank.

        >>> import gcoll, numpy
        >>> def rank(context):
        ...     outs = [numpy.empty(1), numpy.empty(2)] if context.rank == 0 else None
        ...     return context.gather_list(numpy.full(context.rank + 1, 3.0), outs)
        >>> gcoll.run_local(2, rank)
        [[array([3.]), array([3., 3.])], None]
        """
        call = _Call("gather_list", GATHER, algorithm, timeout, uniform, keep_input)
        call.limit(memory_limit)
        call.option().counts_at_root = 1
        source = call.hold(resolve(input, "input"))
        if self._root(call, root):
            return self._finish(call, source, None, self._targets_of_gather(call, source, outs))
        self._host_only([source])
        self._counts(call, [source.count], call.elements(source.element))
        return self._finish(call, source, None, None)

    def _targets_of_gather(self, call: _Call, source: Buffer, outs: Optional[Sequence[Any]]) -> List[Any]:
        results = [make_like(source, source.shape, "outs") for _ in range(self._size)] if outs is None else list(outs)
        targets = self._list(call, results, "outs", True, self._size)
        _same_elements(source, "input", targets[0], "outs[0]")
        _count_is(source, "input", targets[self._rank].count, "as outs[%d] has" % self._rank)
        self._host_only([source])
        self._counts(call, [b.count for b in targets], call.elements(source.element))
        self._pointers(call, "outputs", targets)
        return results

    def scatter_list(self, inputs: Optional[Sequence[Any]], out: Any = None, root: int = 0, *,
                     algorithm: Optional[str] = None, timeout: Optional[float] = None,
                     memory_limit: Optional[int] = None, keep_input: bool = False, uniform: bool = False) -> R:
        """Like ``scatter``, with an array for each block, whose sizes only the root needs to know. Every rank calls
        this form.

        inputs: at the root, an array for each rank; ignored elsewhere. out: this rank's block; only the root may
        leave it out.

        >>> import gcoll, numpy
        >>> def rank(context):
        ...     inputs = [numpy.ones(1), numpy.zeros(2)] if context.rank == 0 else None
        ...     return context.scatter_list(inputs, numpy.empty(context.rank + 1)).tolist()
        >>> gcoll.run_local(2, rank)
        [[1.0], [0.0, 0.0]]
        """
        call = _Call("scatter_list", SCATTER, algorithm, timeout, uniform, keep_input)
        call.limit(memory_limit)
        call.option().counts_at_root = 1
        ins: List[Buffer] = []
        if self._root(call, root):
            ins = self._list(call, inputs, "inputs", False, self._size)
            if out is None:
                out = make_like(ins[root], ins[root].shape, "out")
        target = call.hold(self._target_of_scatter(out))
        self._host_only([target])
        if ins:
            _same_elements(ins[root], "inputs[%d]" % root, target, "out")
            _count_is(target, "out", ins[root].count, "as inputs[%d] has" % root)
            self._pointers(call, "inputs", ins)
        self._counts(call, [b.count for b in ins or [target]], call.elements(target.element))
        return self._finish(call, None, target, out)

    def alltoall_list(self, inputs: Sequence[Any], outs: Sequence[Any], *, algorithm: Optional[str] = None,
                      timeout: Optional[float] = None, memory_limit: Optional[int] = None,
                      keep_input: bool = False, uniform: bool = False) -> R:
        """Like ``alltoall``, with an array for each block. Ranks may call either of the two. Returns `outs`.

        inputs: inputs[r] goes to rank r. outs: outs[r] comes from rank r. Not in place.

        >>> import gcoll, numpy
        >>> def rank(context):
        ...     outs = [numpy.empty(1), numpy.empty(1)]
        ...     context.alltoall_list([numpy.array([10.0]), numpy.array([20.0])], outs)
        ...     return [x.tolist() for x in outs]
        >>> gcoll.run_local(2, rank)
        [[[10.0], [10.0]], [[20.0], [20.0]]]
        """
        call = _Call("alltoall_list", ALLTOALL, algorithm, timeout, uniform, keep_input)
        call.limit(memory_limit)
        ins = self._list(call, inputs, "inputs", False, self._size)
        results = list(outs)
        targets = self._list(call, results, "outs", True, self._size)
        _same_elements(ins[0], "inputs[0]", targets[0], "outs[0]")
        scale = call.elements(ins[0].element)
        self._counts(call, [b.count for b in ins], scale)
        self._counts(call, [b.count for b in targets], scale, "recv_counts")
        self._pointers(call, "inputs", ins)
        self._pointers(call, "outputs", targets)
        call.result = results
        return self._go(call)

    # ---- Several arrays of one process ------------------------------------------------------------------

    def allreduce_buffers(self, inputs: Sequence[Any], outs: Optional[Sequence[Any]] = None, op: Op = "sum", *,
                          algorithm: Optional[str] = None, timeout: Optional[float] = None,
                          memory_limit: Optional[int] = None, same: Optional[str] = None, order: Optional[str] = None,
                          prescale: Optional[float] = None, postscale: Optional[float] = None,
                          keep_input: bool = False, uniform: bool = False, codec: Optional[str] = None) -> R:
        """Reduces several arrays of each rank with one another: over all arrays of all ranks. Writes the result to
        each output, and returns the list of outputs. For a process with several devices.

        inputs: up to 1024 arrays of one size and type. outs: as many; in place: the inputs; None: new arrays. Ranks
        may have different numbers of arrays, except for "avg".

        >>> import gcoll, numpy
        >>> def rank(context):
        ...     return [x.tolist() for x in context.allreduce_buffers([numpy.ones(1), numpy.ones(1)])]
        >>> gcoll.run_local(2, rank)[0]
        [[4.0], [4.0]]
        """
        call = _Call("allreduce_buffers", ALLREDUCE, algorithm, timeout, uniform, keep_input, codec)
        call.limit(memory_limit, same, order)
        call.scale(prescale, postscale)
        ins = self._alike(call, list(inputs), "inputs", False)
        results = [make_like(b, b.shape, "outs") for b in ins] if outs is None else list(outs)
        targets = self._alike(call, results, "outs", True)
        self._match(ins, targets)
        call.struct.count = ins[0].count * self._reduction(call, op, ins[0], "inputs[0]")
        self._several(call, ins, targets)
        call.result = results
        return self._go(call)

    def _alike(self, call: _Call, arrays: Sequence[Any], name: str, write: bool) -> List[Buffer]:
        found = self._list(call, arrays, name, write)
        if not 1 <= len(found) <= 1024:
            raise ValueError("%s: has %d arrays; allowed are 1 to 1024" % (name, len(found)))
        for k, buffer in enumerate(found):
            _count_is(buffer, "%s[%d]" % (name, k), found[0].count, "as %s[0] has" % name)
        return found

    def reduce_scatter_buffers(self, inputs: Sequence[Any], outs: Sequence[Any], op: Op = "sum",
                               counts: Optional[Sequence[int]] = None, *, algorithm: Optional[str] = None,
                               timeout: Optional[float] = None, memory_limit: Optional[int] = None,
                               same: Optional[str] = None, order: Optional[str] = None,
                               prescale: Optional[float] = None, postscale: Optional[float] = None,
                               keep_input: bool = False, uniform: bool = False, codec: Optional[str] = None) -> R:
        """Like ``reduce_scatter``, over several arrays of each rank. Returns `outs`.

        inputs: arrays with a block for each rank. outs: as many arrays of one block, which all get this rank's block.

        >>> import gcoll, numpy
        >>> def rank(context):
        ...     outs = [numpy.empty(1), numpy.empty(1)]
        ...     context.reduce_scatter_buffers([numpy.ones(2), numpy.ones(2)], outs)
        ...     return [x.tolist() for x in outs]
        >>> gcoll.run_local(2, rank)
        [[[4.0], [4.0]], [[4.0], [4.0]]]
        """
        call = _Call("reduce_scatter_buffers", REDUCE_SCATTER, algorithm, timeout, uniform, keep_input, codec)
        call.limit(memory_limit, same, order)
        call.scale(prescale, postscale)
        ins = self._alike(call, list(inputs), "inputs", False)
        results = list(outs)
        targets = self._alike(call, results, "outs", True)
        if len(targets) != len(ins):
            raise ValueError("outs: has %d arrays; allowed are %d, as inputs has" % (len(targets), len(ins)))
        block, sizes = self._block(ins[0], "inputs[0]", counts)
        _same_elements(ins[0], "inputs[0]", targets[0], "outs[0]")
        _count_is(targets[0], "outs[0]", block, "a block of inputs[0]")
        self._say_blocks(call, block, sizes, self._reduction(call, op, ins[0], "inputs[0]"))
        self._several(call, ins, targets)
        call.result = results
        return self._go(call)

    def broadcast_buffers(self, buffers: Sequence[Any], root: int = 0, *, algorithm: Optional[str] = None,
                          timeout: Optional[float] = None, memory_limit: Optional[int] = None,
                          uniform: bool = False,
                          codec: Optional[str] = None) -> R:
        """Copies the root's buffers[0] to all other arrays of all ranks, and returns `buffers`.

        >>> import gcoll, numpy
        >>> def rank(context):
        ...     arrays = [numpy.array([k + context.rank]) for k in (4, 5)]
        ...     return [x.tolist() for x in context.broadcast_buffers(arrays)]
        >>> gcoll.run_local(2, rank)
        [[[4], [4]], [[4], [4]]]
        """
        call = _Call("broadcast_buffers", BROADCAST, algorithm, timeout, uniform, codec=codec)
        call.limit(memory_limit)
        self._root(call, root)
        results = list(buffers)
        targets = self._alike(call, results, "buffers", True)
        call.struct.count = targets[0].count * call.elements(targets[0].element)
        self._several(call, [], targets)
        call.result = results
        return self._go(call)
