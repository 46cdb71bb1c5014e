"""Which objects are buffers, what they hold, and what is refused with which words."""

import array
import ctypes
import gc
import mmap
import sys
import unittest

try:
    import numpy
except ImportError:
    print("skipped: needs numpy (Debian: python3-numpy)")
    sys.exit(77)

from gcoll import _buffers
import gcoll


class Interface:
    """An object with an array interface and nothing else."""

    def __init__(self, of):
        self.of = of
        self.__array_interface__ = of.__array_interface__


class Dlpack:
    """An object with DLPack and nothing else."""

    def __init__(self, of, device=None):
        self.of, self.device = of, device

    def __dlpack__(self, stream=None):
        return self.of.__dlpack__()

    def __dlpack_device__(self):
        return self.device or self.of.__dlpack_device__()


class Cuda:
    def __init__(self, stream=None, strides=None):
        self.__cuda_array_interface__ = {"shape": (2, 3), "typestr": "<f4", "data": (0x7000, False), "version": 3,
                                         "stream": stream, "strides": strides}


def found(value):
    buffer = _buffers.resolve(value, "input")
    return buffer.element.name, buffer.count, buffer.nbytes, buffer.readonly


def content(value):
    buffer = _buffers.resolve(value, "input")
    return ctypes.string_at(buffer.address, buffer.nbytes)


class Kinds(unittest.TestCase):
    def test_numpy_types(self):
        for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
                     "float64", "complex64", "complex128"):
            data = numpy.arange(6).astype(name).reshape(2, 3)
            self.assertEqual(found(data), (name, 6, data.nbytes, False))
            self.assertEqual(content(data), data.tobytes())
            self.assertTrue(_buffers.resolve(data, "input").element.reduces)
        for fields, name in (("f4,i4", "float32_int32"), ("f8,i8", "float64_int64"), ("i4,i4", "int32_int32"),
                             ("i8,i8", "int64_int64")):
            data = numpy.zeros((2, 3), fields)
            self.assertEqual(found(data), (name, 6, data.nbytes, False))
            self.assertTrue(_buffers.resolve(data, "input").element.reduces)
        padded = numpy.dtype({"names": ["a", "b"], "formats": ["f4", "i4"], "offsets": [0, 8]})
        for name in ("M8[ns]", "S5", "U3", "i4,f8", "i4,f4", "f8,i4", "f4,i4,i4", "f4,2i4", ">f4,i4", padded, ">i2",
                     ">c8", ">i4", ">f8"):
            data = numpy.zeros(3, name)
            element = _buffers.resolve(data, "input").element
            self.assertFalse(element.reduces, name)
            self.assertEqual((element.type, element.scale), (_buffers.UINT8, data.itemsize))
            self.assertEqual(content(data), data.tobytes())
        self.assertEqual(found(numpy.zeros(2, bool))[0], "bool")

    def test_shapes(self):
        self.assertEqual(found(numpy.zeros(())), ("float64", 1, 8, False))
        self.assertEqual(found(numpy.zeros((3, 0, 2))), ("float64", 0, 0, False))
        self.assertEqual(found(numpy.zeros((4, 1, 3))[:, :, :]), ("float64", 12, 96, False))
        self.assertEqual(found(numpy.zeros((4, 6))[1:3]), ("float64", 12, 96, False))
        self.assertEqual(found(numpy.zeros((1, 6))[:, ::1].T.T), ("float64", 6, 48, False))

    def test_python_buffers(self):
        self.assertEqual(found(b"abc"), ("uint8", 3, 3, True))
        self.assertEqual(found(bytearray(b"abc")), ("uint8", 3, 3, False))
        self.assertEqual(found(memoryview(b"abc")[1:]), ("uint8", 2, 2, True))
        self.assertEqual(content(memoryview(b"abc")[1:]), b"bc")
        for code, name in (("b", "int8"), ("B", "uint8"), ("i", "int32"), ("I", "uint32"), ("q", "int64"),
                           ("Q", "uint64"), ("l", "int64"), ("L", "uint64"), ("f", "float32"), ("d", "float64"),
                           ("h", "int16")):
            data = array.array(code, [1, 2, 3])
            self.assertEqual(found(data)[:3], (name, 3, 3 * data.itemsize))
            self.assertEqual(content(data), data.tobytes())
        self.assertEqual(found((ctypes.c_double * 4)())[:2], ("float64", 4))
        self.assertEqual(found(memoryview(bytearray(12)).cast("i", (1, 3)))[:2], ("int32", 3))
        with mmap.mmap(-1, 64) as memory:
            self.assertEqual(found(memory), ("uint8", 64, 64, False))
        self.assertEqual(found(bytearray()), ("uint8", 0, 0, False))

    def test_a_buffer_cannot_be_resized_while_it_is_used(self):
        data = bytearray(4)
        buffer = _buffers.resolve(data, "input")
        with self.assertRaises(BufferError):
            data.append(1)
        del buffer
        data.append(1)

    def test_interfaces(self):
        data = numpy.arange(5, dtype="f4")
        self.assertEqual(found(Interface(data)), ("float32", 5, 20, False))
        self.assertEqual(content(Interface(data)), data.tobytes())
        readonly = numpy.arange(3)
        readonly.flags.writeable = False
        self.assertEqual(found(readonly), ("int64", 3, 24, True))
        self.assertEqual(found(Dlpack(data)), ("float32", 5, 20, False))
        self.assertEqual(content(Dlpack(data[2:])), data[2:].tobytes())

    def test_dlpack_gives_its_tensor_back(self):
        data = numpy.arange(5.0)
        before = sys.getrefcount(data)
        buffer = _buffers.resolve(Dlpack(data), "input")
        self.assertGreater(sys.getrefcount(data), before)
        del buffer
        self.assertEqual(sys.getrefcount(data), before)

    def test_scalars_can_be_read_only(self):
        self.assertEqual(found(numpy.float64(3)), ("float64", 1, 8, True))
        self.assertEqual(content(numpy.int32(7)), (7).to_bytes(4, sys.byteorder))
        with self.assertRaisesRegex(ValueError, "out: is read-only"):
            _buffers.resolve_output(numpy.float64(3), "out")

    def test_cuda_arrays(self):
        buffer = _buffers.resolve(Cuda(stream=7), "input")
        self.assertTrue(buffer.device)
        self.assertEqual((buffer.address, buffer.count, buffer.stream), (0x7000, 6, 7))
        with self.assertRaisesRegex(ValueError, "not C-contiguous"):
            _buffers.resolve(Cuda(strides=(4, 8)), "input")

    def test_torch_tensors(self):
        try:
            import torch
        except ImportError:
            self.skipTest("needs torch (Debian: python3-torch)")
        for name in _buffers.TYPE_NAMES:
            if hasattr(torch, name):
                data = torch.ones(6, dtype=getattr(torch, name))
                self.assertEqual(found(data), (name, 6, 6 * data.element_size(), False))
        self.assertEqual(found(torch.zeros(2, dtype=torch.bool))[0], "bool")
        self.assertEqual(found(torch.zeros(2, dtype=torch.complex64))[0], "complex64")
        with self.assertRaisesRegex(ValueError, "not C-contiguous"):
            _buffers.resolve(torch.zeros(3, 4).t(), "input")
        with self.assertRaisesRegex(TypeError, "layout torch.sparse"):
            _buffers.resolve(torch.zeros(3).to_sparse(), "input")
        with gcoll.Context(0, 1) as context:
            data = torch.tensor([1.5, 2.5], dtype=torch.bfloat16)
            result = context.allreduce(data)
            self.assertTrue(torch.equal(result, data))
            self.assertEqual(result.dtype, torch.bfloat16)
            self.assertEqual(found(Dlpack(torch.arange(4.0)))[:2], ("float32", 4))


class Refused(unittest.TestCase):
    """Bad input is refused before anything is sent: on a context whose other rank is not there to answer."""

    @classmethod
    def setUpClass(cls):
        cls.context = gcoll.Context(0, 1)

    @classmethod
    def tearDownClass(cls):
        cls.context.close()

    def refuses(self, kind, words, call, *arguments, **options):
        for form in (self.context, self.context.start, self.context.prepare):
            method = getattr(form, call, None)
            if method is not None:
                with self.assertRaisesRegex(kind, words):
                    method(*arguments, **options)
        self.context.check()

    def test_no_buffer(self):
        for value in (3, 1.5, "text", [1, 2], None, object(), {}):
            self.refuses(TypeError, "input: is .*no buffer; allowed are numpy arrays", "allreduce", value)
        self.refuses(TypeError, "input: has elements that are Python objects", "allgather",
                     numpy.array([1, "a"], object))
        self.refuses(TypeError, "input: has elements that are Python objects", "allgather",
                     numpy.zeros(2, [("a", object)]))
        self.refuses(TypeError, "input: is a masked array", "allreduce", numpy.ma.masked_array([1.0, 2.0], [0, 1]))
        self.refuses(TypeError, r"inputs: is .*int; allowed is a list", "reduce_scatter_list", 3)

    def test_strides(self):
        self.refuses(ValueError, r"input: is not C-contiguous: its shape is \(3, 2\), its strides are \(8, 24\)",
                     "allreduce", numpy.zeros((2, 3)).T)
        self.refuses(ValueError, "out: is not C-contiguous", "allreduce", numpy.zeros(2), numpy.zeros(4)[::2])
        self.refuses(ValueError, "data: is not C-contiguous", "broadcast", numpy.zeros(4)[::-1])
        self.refuses(ValueError, "data: is not C-contiguous", "broadcast", memoryview(bytearray(4))[::2])
        self.refuses(ValueError, "input: is not C-contiguous", "allreduce", Dlpack(numpy.zeros((2, 3)).T))

    def test_types(self):
        self.refuses(TypeError, "input: has elements of type >i2, which gcoll cannot reduce; allowed are int8",
                     "allreduce", numpy.zeros(2, ">i2"))
        self.refuses(TypeError, "type datetime64", "reduce", numpy.zeros(2, "M8[ns]"))
        self.refuses(gcoll.InvalidError, "op: is max with type complex128; allowed are sum, product, avg, and", "reduce",
                     numpy.zeros(2, complex), op="max")
        self.refuses(gcoll.InvalidError, "op: is sum with type float32_int32; allowed are minloc, maxloc, and",
                     "allreduce", numpy.zeros(2, "f4,i4"))
        self.refuses(gcoll.InvalidError, "op: is lxor with type float64", "allreduce", numpy.zeros(2), op="lxor")
        self.refuses(TypeError, "out: has elements of type float32; allowed are float64, as input has", "allreduce",
                     numpy.zeros(2), numpy.zeros(2, "f4"))
        self.refuses(TypeError, "op: is 'sum', but input has elements of type bool", "allreduce", numpy.zeros(2, bool))
        self.refuses(TypeError, "DLPack tensor on a device of type 2", "allreduce", Dlpack(numpy.zeros(2), (2, 0)))

    def test_sizes(self):
        self.refuses(ValueError, "out: has 3 elements; allowed are 2, as input has", "allreduce", numpy.zeros(2),
                     numpy.zeros(3))
        self.refuses(ValueError, "out: has 3 elements; allowed are 2", "allgather", numpy.zeros(2), numpy.zeros(3))
        self.refuses(ValueError, "counts: has 2 entries; allowed are 1", "allgather", numpy.zeros(2), counts=[1, 1])
        self.refuses(ValueError, r"input: has 2 elements; allowed are 1, counts\[0\]", "allgather", numpy.zeros(2),
                     counts=[1])
        self.refuses(ValueError, r"counts\[0\]: is -1", "reduce_scatter", numpy.zeros(2), counts=[-1])
        self.refuses(ValueError, "send_counts: is None beside recv_counts", "alltoall", numpy.zeros(2),
                     recv_counts=[2])
        self.refuses(ValueError, r"outs: has 1 arrays; allowed are 2", "allreduce_list", [numpy.zeros(1)] * 2,
                     [numpy.zeros(1)])
        self.refuses(ValueError, r"outs\[1\]: has 2 elements; allowed are 1, as inputs\[1\] has", "allreduce_list",
                     [numpy.zeros(1)] * 2, [numpy.zeros(1), numpy.zeros(2)])

    def test_outputs(self):
        readonly = numpy.zeros(2)
        readonly.flags.writeable = False
        self.refuses(ValueError, "out: is read-only", "allreduce", numpy.zeros(2), readonly)
        self.refuses(ValueError, "out: is read-only", "allreduce", bytearray(2), b"ab")
        self.refuses(ValueError, r"outs\[0\]: is read-only", "allreduce_list", [numpy.zeros(2)], [readonly])
        self.refuses(ValueError, "data: is read-only", "recv", readonly, 0)
        self.refuses(TypeError, "out: is None, and gcoll cannot make an array like", "allreduce", Cuda())

    def test_devices(self):
        # The context takes host memory only: the library refuses what says it is on a device, and reads nothing.
        self.refuses(gcoll.InvalidError, "memory of devices", "allreduce", Cuda(), Cuda())
        self.refuses(gcoll.InvalidError, "memory of devices", "allreduce", Cuda(), numpy.zeros(6, "f4"))
        self.refuses(TypeError, "lie on a device", "allreduce_list", [Cuda()], [Cuda()])
        self.refuses(TypeError, "data: lies on a device", "send", Cuda(), 0)

    def test_other_arguments(self):
        data = numpy.zeros(2)
        self.refuses(ValueError, "op: is 'mean'; allowed are sum, product", "allreduce", data, op="mean")
        self.refuses(TypeError, "op: is .*int", "allreduce", data, op=3)
        self.refuses(ValueError, "root: is 1; allowed are 0 to 0", "broadcast", data, 1)
        self.refuses(TypeError, "root: is .*float", "broadcast", data, 1.0)
        self.refuses(ValueError, "timeout: is 0; allowed", "allreduce", data, timeout=0)
        self.refuses(ValueError, "timeout: is -1; allowed", "barrier", timeout=-1)
        self.refuses(ValueError, "same: is 'everywhere'; allowed are 'ranks'", "allreduce", data, same="everywhere")
        self.refuses(ValueError, "order: is 'right'; allowed are 'any', 'pairs', 'left'", "reduce", data, order="right")
        self.refuses(gcoll.InvalidError, "algorithm", "allreduce", data, algorithm="nonsense")
        self.refuses(TypeError, "algorithm: is", "allreduce", data, algorithm=3)
        self.refuses(ValueError, "exchanges: is 33", "pairwise_exchange", data, exchanges=33)
        self.refuses(ValueError, "memory_limit: is -1", "allreduce", data, memory_limit=-1)
        self.refuses(ValueError, "dest: is 1; allowed are 0 to 0", "send", data, 1)
        self.refuses(TypeError, "source: is .*float", "recv", data, 1.5)
        self.refuses(TypeError, "key: is .*int; allowed are the 64 bytes", "put", 3, data)

    def test_contexts(self):
        with self.assertRaisesRegex(TypeError, "store: is .*int"):
            gcoll.Context(0, 1, 3)
        for flag in ("share", "monitor", "checksum", "progress_thread"):
            for off in (0, False, None):
                with gcoll.Context(rank=0, size=1, **{flag: off}), \
                        gcoll.Context(rank=0, size=1, share=off, progress_thread=True):
                    pass  # share with a progress thread is refused: off is off
            with self.assertRaisesRegex(TypeError, "%s: is .*str" % flag):
                gcoll.Context(rank=0, size=1, **{flag: "no"})
            with self.assertRaisesRegex(ValueError, "%s: is 2; allowed are 0 to 1" % flag):
                gcoll.Context(rank=0, size=1, **{flag: 2})
        with self.assertRaisesRegex(ValueError, "rank: is -1"):
            gcoll.Context(-1, 1)
        with self.assertRaisesRegex(TypeError, "job: is of type int"):
            gcoll.Context(0, 1, job=3)
        with self.assertRaisesRegex(TypeError, r"ibverbs\['colour'\]: is unknown; allowed are device"):
            gcoll.Context(0, 1, ibverbs={"colour": 1})
        with self.assertRaisesRegex(gcoll.InvalidError, "options.rank"):
            gcoll.Context(2, 1)
        with self.assertRaisesRegex(TypeError, "rank: is given"):
            gcoll.Context.from_env(rank=0)
        with self.assertRaisesRegex(TypeError, "colour: is no option"):
            gcoll.Context.from_env(colour=0)
        with self.assertRaisesRegex(ValueError, "url: has a NUL"):
            gcoll.Store("file:\0")

    def test_closed_objects(self):
        context = gcoll.Context(0, 1)
        operation = context.prepare.allreduce(numpy.zeros(2))
        request = context.start.allreduce(numpy.zeros(2))
        request.wait()
        context.close()
        context.close()
        for call in (lambda: context.allreduce(numpy.zeros(2)), operation.run, operation.start, context.fileno,
                     lambda: context.start.barrier(), lambda: context.recv(numpy.zeros(1), 0)):
            with self.assertRaisesRegex(gcoll.StateError, "closed"):
                call()
        operation.close()
        self.assertEqual(repr(context), "<gcoll.Context rank 0 of 1, closed>")


class SharedMemory(unittest.TestCase):
    def test_is_freed_with_its_last_user(self):
        def count():
            with open("/proc/self/maps", encoding="utf-8") as maps:
                return sum("gcoll-memory" in line for line in maps)

        values = numpy.frombuffer(gcoll.shared_memory(4 << 20), "float32")
        part = values[10:20]
        self.assertEqual((values.size, values.sum(), count()), (1 << 20, 0.0, 1))
        del values
        gc.collect()
        part[:] = 3
        self.assertEqual((part.sum(), count()), (30.0, 1))
        del part
        gc.collect()
        self.assertEqual(count(), 0)

    def test_ranks_sum_in_it(self):
        def rank(context):
            values = numpy.frombuffer(gcoll.shared_memory(4 << 20), "float32")
            for _ in range(3):
                values[:] = context.rank + 1
                context.allreduce(values, out=values)
            return float(values.min()), float(values.max())

        self.assertEqual(gcoll.run_local(3, rank), [(6.0, 6.0)] * 3)

    def test_wrong_counts(self):
        for wrong in (0, -1, 1 << 63):
            with self.assertRaisesRegex(ValueError, "count: is .* allowed are 1 to"):
                gcoll.shared_memory(wrong)
        with self.assertRaisesRegex(gcoll.NoMemoryError, "the system has not that much"):
            gcoll.shared_memory(1 << 46)


if __name__ == "__main__":
    unittest.main()
