"""Every collective in its three forms against numpy, with ranks that are threads; requests, operations, messages."""

import asyncio
import gc
import math
import os
import random
import sys
import tempfile
import threading
import unittest
import weakref

try:
    import numpy
except ImportError:
    print("skipped: needs numpy (Debian: python3-numpy)")
    sys.exit(77)

import gcoll
from gcoll._collectives import C_COLLECTIVES

SIZES = (1, 2, 3, 5)
FORMS = ("run", "start", "prepare")


def call(context, form, name, *arguments, **options):
    """Makes a call in one of the three forms; returns its result."""
    if form == "run":
        return getattr(context, name)(*arguments, **options)
    if form == "start":
        return getattr(context.start, name)(*arguments, **options).wait()
    with getattr(context.prepare, name)(*arguments, **options) as operation:
        operation.run()
        return operation.start().wait()


def vectors(size, count, dtype="int64", seed=1):
    """The vectors of all ranks."""
    source = numpy.random.default_rng([seed, size, count])
    return [source.integers(-1000, 1000, count).astype(dtype) for _ in range(size)]


def uneven(size):
    """Counts with an empty one."""
    return [(7 * r + 3) % 5 if r != 1 else 0 for r in range(size)]


def ends(counts):
    return numpy.concatenate([[0], numpy.cumsum(counts)])


class Case(unittest.TestCase):
    def on_all(self, function, sizes=SIZES, forms=FORMS, **options):
        for size in sizes:
            def rank(context):
                for form in forms:
                    function(context, form)
            gcoll.run_local(size, rank, **options)

    def equal(self, found, expected):
        if isinstance(expected, list):
            assert len(found) == len(expected)
            for a, b in zip(found, expected):
                self.equal(a, b)
            return
        numpy.testing.assert_array_equal(found, expected)
        if isinstance(expected, numpy.ndarray):
            assert found.dtype == expected.dtype, (found.dtype, expected.dtype)


class Oracle(Case):
    """The names are those of C_COLLECTIVES, whose last test checks that none is missing."""

    def test_allreduce(self):
        def check(context, form):
            for count in (0, 1, 1000):
                given = vectors(context.size, count)
                mine = given[context.rank].copy()
                for op, numpys in (("sum", numpy.add), ("min", numpy.minimum), ("max", numpy.maximum),
                                   ("product", numpy.multiply), ("bxor", numpy.bitwise_xor),
                                   ("band", numpy.bitwise_and), ("bor", numpy.bitwise_or)):
                    self.equal(call(context, form, "allreduce", mine, op=op), numpys.reduce(given))
                self.equal(mine, given[context.rank])  # untouched
                out = numpy.zeros(count, "int64")
                assert call(context, form, "allreduce", mine, out, algorithm="ring") is out
                self.equal(out, sum(given))
            if form != "prepare":  # which runs twice
                mine = given[context.rank].astype("f8")
                assert call(context, form, "allreduce", mine, mine, op="avg") is mine
                self.equal(mine, sum(v.astype("f8") for v in given) / context.size)
        self.on_all(check)

    def test_allreduce_of_every_type(self):
        def check(context, form):
            for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"):
                given = [numpy.arange(5).astype(dtype) + numpy.dtype(dtype).type(r) for r in range(context.size)]
                self.equal(call(context, form, "allreduce", given[context.rank]), sum(given))
            flags = [numpy.array([True, r == 0, False, r < 2]) for r in range(context.size)]
            for ops, numpys in ((("land", "min", "band"), numpy.logical_and), (("lor", "max", "bor"), numpy.logical_or),
                                (("lxor", "bxor"), numpy.logical_xor)):
                for op in ops:
                    self.equal(call(context, form, "allreduce", flags[context.rank], op=op), numpys.reduce(flags))
        self.on_all(check)

    def test_complex_product(self):
        def check(context, form):
            given = [numpy.array([1 + 2j, 1j, 3]) + r for r in range(context.size)]
            self.equal(call(context, form, "allreduce", given[context.rank], op="product"),
                       numpy.multiply.reduce(given))
        self.on_all(check)

    def test_locations(self):
        def check(context, form):
            for fields in ("f4,i4", "f8,i8", "i4,i4", "i8,i8"):
                values = numpy.array([[3, 1, 2], [1, 1, 2], [2, 3, 1], [1, 3, 2], [3, 1, 1]])[:context.size]
                given = numpy.zeros(3, fields)
                given["f0"], given["f1"] = values[context.rank], context.rank
                for op, numpys in (("minloc", numpy.argmin), ("maxloc", numpy.argmax)):
                    result = call(context, form, "allreduce", given, op=op)
                    wanted = numpys(values, axis=0)  # of equal ones the first
                    self.equal(result["f1"], wanted.astype(fields[3:]))
                    self.equal(result["f0"], values[wanted, range(3)].astype(fields[:2]))
        self.on_all(check)

    def test_shapes_stay(self):
        def check(context, form):
            assert call(context, form, "allreduce", numpy.ones((2, 3))).shape == (2, 3)
            assert call(context, form, "allreduce", numpy.float32(2)).shape == ()
            assert call(context, form, "allgather", numpy.ones((2, 3))).shape == (2 * context.size, 3)
            assert call(context, form, "allgather", numpy.ones(())).shape == (context.size,)
            assert call(context, form, "reduce_scatter", numpy.ones((2 * context.size, 3))).shape == (2, 3)
            assert call(context, form, "alltoall", numpy.ones((context.size, 3))).shape == (context.size, 3)
        self.on_all(check)

    def test_other_kinds_of_buffers(self):
        import array

        def check(context, form):
            result = call(context, form, "allreduce", array.array("d", [1, context.rank]))
            assert isinstance(result, array.array) and result[0] == context.size
            result = call(context, form, "allgather", bytes([context.rank, 9]))
            assert result == bytes(sum(([r, 9] for r in range(context.size)), []))
            view = memoryview(bytearray(8)).cast("i")
            view[1] = 3
            assert call(context, form, "allreduce", view).tolist() == [0, 3 * context.size]
        self.on_all(check)

    def test_reduce(self):
        def check(context, form):
            given = vectors(context.size, 17)
            for root in range(context.size):
                result = call(context, form, "reduce", given[context.rank].copy(), root=root)
                self.equal(result, sum(given) if context.rank == root else None)
        self.on_all(check)

    def test_reduce_scatter(self):
        def check(context, form):
            given = vectors(context.size, 4 * context.size)
            block = slice(4 * context.rank, 4 * context.rank + 4)
            self.equal(call(context, form, "reduce_scatter", given[context.rank].copy()), sum(given)[block])
            mine = given[context.rank].copy()
            if form != "prepare":
                call(context, form, "reduce_scatter", mine, mine[block])
                self.equal(mine[block], sum(given)[block])
        self.on_all(check)

    def test_reduce_scatter_v(self):
        def check(context, form):
            counts = uneven(context.size)
            at = ends(counts)
            given = vectors(context.size, at[-1])
            result = call(context, form, "reduce_scatter", given[context.rank].copy(), counts=counts)
            self.equal(result, sum(given)[at[context.rank]:at[context.rank + 1]])
        self.on_all(check)

    def test_reduce_scatter_list(self):
        def check(context, form):
            counts = uneven(context.size)
            at = ends(counts)
            given = vectors(context.size, at[-1])
            parts = [p.copy() for p in numpy.split(given[context.rank], at[1:-1])]
            self.equal(call(context, form, "reduce_scatter_list", parts),
                       sum(given)[at[context.rank]:at[context.rank + 1]])
        self.on_all(check)

    def test_broadcast(self):
        def check(context, form):
            for dtype in ("f8", "i2", "c16", "S3", "?"):
                for root in range(context.size):
                    given = vectors(context.size, 9)[root].astype(dtype)
                    data = given.copy() if context.rank == root else numpy.zeros(9, dtype)
                    assert call(context, form, "broadcast", data, root) is data
                    self.equal(data, given)
            data = b"fixed" if context.rank == 0 else bytearray(5)
            assert call(context, form, "broadcast", data) == b"fixed"
        self.on_all(check)

    def test_allgather(self):
        def check(context, form):
            for dtype in ("f4", "i2", "c8"):
                given = [v.astype(dtype) for v in vectors(context.size, 6)]
                self.equal(call(context, form, "allgather", given[context.rank]), numpy.concatenate(given))
                whole = numpy.zeros(6 * context.size, dtype)
                block = whole[6 * context.rank:6 * context.rank + 6]
                block[...] = given[context.rank]
                call(context, form, "allgather", block, whole)
                self.equal(whole, numpy.concatenate(given))
        self.on_all(check)

    def test_allgather_v(self):
        def check(context, form):
            for dtype in ("f4", "i2"):
                counts = uneven(context.size)
                given = [vectors(context.size, c)[r].astype(dtype) for r, c in enumerate(counts)]
                self.equal(call(context, form, "allgather", given[context.rank], counts=counts),
                           numpy.concatenate(given))
        self.on_all(check)

    def test_allgather_list(self):
        def check(context, form):
            counts = uneven(context.size)
            given = [vectors(context.size, c)[r].astype("i2") for r, c in enumerate(counts)]
            outs = [numpy.zeros(c, "i2") for c in counts]
            self.equal(call(context, form, "allgather_list", given[context.rank], outs), given)
            alike = [numpy.full(3, r) for r in range(context.size)]
            self.equal(call(context, form, "allgather_list", alike[context.rank]), alike)
        self.on_all(check)

    def test_gather(self):
        def check(context, form):
            given = vectors(context.size, 6)
            for root in range(context.size):
                self.equal(call(context, form, "gather", given[context.rank], root=root),
                           numpy.concatenate(given) if context.rank == root else None)
        self.on_all(check)

    def test_gather_v(self):
        def check(context, form):
            counts = uneven(context.size)
            given = [vectors(context.size, c)[r] for r, c in enumerate(counts)]
            for root in range(context.size):
                self.equal(call(context, form, "gather", given[context.rank], root=root, counts=counts),
                           numpy.concatenate(given) if context.rank == root else None)
        self.on_all(check)

    def test_gather_list_and_scatter_list(self):
        def check(context, form):
            counts = uneven(context.size)
            given = [vectors(context.size, c)[r].astype("i2") for r, c in enumerate(counts)]
            for root in range(context.size):
                mine = context.rank == root
                outs = [numpy.zeros(c, "i2") for c in counts] if mine else None
                self.equal(call(context, form, "gather_list", given[context.rank], outs, root),
                           given if mine else None)
                self.equal(call(context, form, "scatter_list", given if mine else None,
                                numpy.zeros(counts[context.rank], "i2"), root), given[context.rank])
        self.on_all(check)

    def test_scatter(self):
        def check(context, form):
            given = vectors(context.size, 6)
            for root in range(context.size):
                source = numpy.concatenate(given) if context.rank == root else None
                out = None if context.rank == root else numpy.zeros(6, "int64")
                self.equal(call(context, form, "scatter", source, out, root), given[context.rank])
        self.on_all(check)

    def test_scatter_v(self):
        def check(context, form):
            counts = uneven(context.size)
            given = [vectors(context.size, c)[r].astype("c8") for r, c in enumerate(counts)]
            for root in range(context.size):
                source = numpy.concatenate(given) if context.rank == root else None
                out = numpy.zeros(counts[context.rank], "c8")
                self.equal(call(context, form, "scatter", source, out, root, counts), given[context.rank])
        self.on_all(check)

    def test_alltoall(self):
        def check(context, form):
            for dtype in ("f8", "i2"):
                given = [v.astype(dtype).reshape(context.size, 3) for v in vectors(context.size, 3 * context.size)]
                self.equal(call(context, form, "alltoall", given[context.rank]),
                           numpy.array([given[r][context.rank] for r in range(context.size)]))
        self.on_all(check)

    def test_alltoall_v(self):
        def check(context, form):
            size, me = context.size, context.rank
            sent = [[(3 * i + j) % 4 for j in range(size)] for i in range(size)]
            blocks = [[numpy.full(sent[i][j], 10 * i + j, "i2") for j in range(size)] for i in range(size)]
            taken = [sent[i][me] for i in range(size)]
            expected = [blocks[i][me] for i in range(size)]
            result = call(context, form, "alltoall", numpy.concatenate(blocks[me]), None, sent[me], taken)
            self.equal(result, numpy.concatenate(expected))
        self.on_all(check)

    def test_alltoall_list(self):
        def check(context, form):
            size, me = context.size, context.rank
            blocks = [[numpy.full((3 * i + j) % 4, 10 * i + j) for j in range(size)] for i in range(size)]
            outs = [numpy.zeros(len(blocks[i][me]), "int64") for i in range(size)]
            self.equal(call(context, form, "alltoall_list", blocks[me], outs), [blocks[i][me] for i in range(size)])
        self.on_all(check)

    def test_pairwise_exchange(self):
        def check(context, form):
            exchanges = max(1, (context.size - 1).bit_length())
            for dtype in ("f8", "c8"):
                given = [v.astype(dtype).reshape(exchanges, 2) for v in vectors(context.size, 2 * exchanges)]
                expected = numpy.array([given[p][c] if (p := context.rank ^ (1 << c)) < context.size
                                        else given[context.rank][c] for c in range(exchanges)])
                self.equal(call(context, form, "pairwise_exchange", given[context.rank]), expected)
        self.on_all(check)

    def test_barrier(self):
        self.on_all(lambda context, form: call(context, form, "barrier", timeout=20))

    def test_allreduce_list(self):
        def check(context, form):
            given = [vectors(context.size, count) for count in (3, 0, 500, 1)]
            mine = [v[context.rank].copy() for v in given]
            self.equal(call(context, form, "allreduce_list", mine), [sum(v) for v in given])
            assert call(context, form, "allreduce_list", []) == []
        self.on_all(check)

    def test_several_buffers(self):
        def check(context, form):
            given = vectors(context.size, 2 * context.size)
            mine = [given[context.rank].copy(), given[context.rank] * 2]
            total = sum(v * 3 for v in given)
            self.equal(call(context, form, "allreduce_buffers", mine), [total, total])
            outs = [numpy.zeros(2, "int64"), numpy.zeros(2, "int64")]
            block = total[2 * context.rank:2 * context.rank + 2]
            self.equal(call(context, form, "reduce_scatter_buffers", mine, outs), [block, block])
            data = [numpy.full(3, context.rank + k) for k in range(2)]
            root = context.size - 1
            self.equal(call(context, form, "broadcast_buffers", data, root), [numpy.full(3, root)] * 2)
        self.on_all(check)

    def test_trees(self):
        # Binary floating point adds otherwise in each order, so the oracle is the tree, step by step.
        def pairs(leaves):
            while len(leaves) > 1:
                leaves = [sum(leaves[i + 1:i + 2], leaves[i]) for i in range(0, len(leaves), 2)]
            return leaves[0]

        def left(leaves):
            total = leaves[0]
            for leaf in leaves[1:]:
                total = total + leaf
            return total

        def check(context, form):
            n = 3 * context.size
            leaves = [numpy.array([(7 * leaf + i + 1) * 3.0 ** ((5 * leaf + i) % 23 - 11) for i in range(n)])
                      for leaf in range(2 * context.size)]
            first, mine = leaves[:context.size], leaves[2 * context.rank:2 * context.rank + 2]
            block = slice(3 * context.rank, 3 * context.rank + 3)
            for order, tree in (("pairs", pairs), ("left", left)):
                one, two = tree(first), tree(leaves)
                own = first[context.rank]
                self.equal(call(context, form, "allreduce", own, order=order), one)
                self.equal(call(context, form, "allreduce_list", [own, own[:2].copy()], order=order), [one, one[:2]])
                self.equal(call(context, form, "reduce", own, order=order), one if context.rank == 0 else None)
                self.equal(call(context, form, "reduce_scatter", own, order=order), one[block])
                blocks = [own[3 * r:3 * r + 3] for r in range(context.size)]
                self.equal(call(context, form, "reduce_scatter_list", blocks, order=order), one[block])
                self.equal(call(context, form, "allreduce_buffers", mine, order=order), [two, two])
                outs = [numpy.zeros(3), numpy.zeros(3)]
                self.equal(call(context, form, "reduce_scatter_buffers", mine, outs, order=order), [two[block]] * 2)
        self.on_all(check)

    def test_every_collective_has_a_test(self):
        named = {name[5:] for name in dir(self) if name.startswith("test_")}
        self.assertEqual(set(C_COLLECTIVES) - named, set())


class UserOps(Case):
    def test_functions_of_numpy(self):
        def check(context, form):
            given = [v.astype("f8") for v in vectors(context.size, 30)]
            self.equal(call(context, form, "allreduce", given[context.rank], op=numpy.maximum),
                       numpy.maximum.reduce(given))
            shorts = [v.astype("i2") for v in vectors(context.size, 30)]
            self.equal(call(context, form, "allreduce", shorts[context.rank], op=gcoll.UserOp(numpy.minimum, True)),
                       numpy.minimum.reduce(shorts))
        self.on_all(check)

    def test_order_of_ranks_is_kept(self):
        # Composition of x -> a x + b modulo 2^64 does not commute.
        def compose(f, g):
            result = numpy.empty_like(f)
            result["a"] = f["a"] * g["a"]
            result["b"] = f["a"] * g["b"] + f["b"]
            return result

        def check(context, form):
            given = []
            for r in range(context.size):
                given.append(numpy.zeros(4, "u8,u8").astype([("a", "u8"), ("b", "u8")]))
                given[r]["a"], given[r]["b"] = r + 2, 7 * r + 1
            expected = given[0]
            for other in given[1:]:
                expected = compose(expected, other)
            self.equal(call(context, form, "allreduce", given[context.rank], op=compose), expected)
        self.on_all(check)

    def test_exceptions_are_raised_here_and_abort_the_other_ranks(self):
        for form in FORMS:
            seen = {}

            def rank(context):
                called = []

                def fail(a, b):
                    called.append(1)
                    raise KeyError("broken")
                try:
                    call(context, form, "allreduce", numpy.ones(3), op=fail)
                except Exception as error:
                    seen[context.rank] = (bool(called), error)
                # Who had done its part before the abort came gets it from a later call.
                with self.assertRaisesRegex(gcoll.AbortedError, "KeyError: 'broken'"):
                    while True:
                        context.barrier()
            gcoll.run_local(2, rank)
            self.assertTrue(any(called for called, _ in seen.values()), form)
            for called, error in seen.values():
                self.assertIsInstance(error, KeyError if called else gcoll.AbortedError, (form, seen))

class Requests(Case):
    def test_results_come_by_wait_test_and_result(self):
        def rank(context):
            request = context.start.allreduce(numpy.ones(3))
            with self.assertRaisesRegex(gcoll.StateError, "has not ended"):
                request.result
            while not request.test():
                pass
            self.assertTrue(request.test() and request.done)
            self.equal(request.result, numpy.full(3, 2.0))
            self.equal(request.wait(), numpy.full(3, 2.0))
            self.assertIn("done", repr(request))
            self.assertEqual(len(context._core.requests), 0)
        gcoll.run_local(2, rank)

    def test_buffers_live_while_they_are_in_flight(self):
        def rank(context):
            requests = []
            for k in range(20):  # inputs and outputs that nobody else holds
                requests.append(context.start.allreduce(numpy.full(1000, float(k))))
            context.start.allreduce(numpy.full(1000, 7.0))  # a request that is dropped goes on
            numpy.full(100000, -1.0)
            for k, request in enumerate(requests):
                self.equal(request.wait(), numpy.full(1000, 2.0 * k))
            context.barrier()
        gcoll.run_local(2, rank)

    def test_buffers_of_dropped_requests_and_operations_live_as_long_as_needed(self):
        def rank(context):
            peer = 1 - context.rank
            data = numpy.zeros(1000)
            alive = weakref.ref(data)
            context.start.recv(data, peer)
            del data
            gc.collect()
            self.assertIsNotNone(alive())
            context.barrier()
            context.send(numpy.ones(1000), peer)
            context.barrier()
            for _ in range(1000):  # other calls find out that it has ended
                context.start.barrier().wait()
                if alive() is None:
                    break
            self.assertIsNone(alive())

            data = numpy.zeros(1000)
            alive = weakref.ref(data)
            operation = context.prepare.allreduce(data, data)
            request = operation.start()
            del data, operation
            gc.collect()
            self.equal(request.wait(), numpy.zeros(1000))
            del request
            gc.collect()
            self.assertIsNotNone(alive())  # the operation is destroyed by the next call that prepares one
            context.prepare.barrier()
            self.assertIsNone(alive())
        gcoll.run_local(2, rank, transport="tcp")

    def test_a_wait_with_a_limit_breaks_nothing(self):
        def rank(context):
            if context.rank == 0:
                request = context.start.recv(numpy.zeros(1), source=1)
                with self.assertRaisesRegex(gcoll.TimeoutError, "goes on") as caught:
                    request.wait(timeout=0.02)
                self.assertIsInstance(caught.exception, TimeoutError)
                context.barrier()
                self.assertEqual(request.wait(), (1, 8))
            else:
                context.barrier()
                context.send(numpy.zeros(1), dest=0)
        gcoll.run_local(2, rank)

    def test_operations_read_and_write_their_buffers(self):
        def rank(context):
            data, out = numpy.zeros(5), numpy.zeros(5)
            operation = context.prepare.allreduce(data, out, algorithm="ring")
            self.assertEqual(operation.algorithm, "ring")
            for k in range(5):
                data[...] = k * (context.rank + 1)
                self.assertIs(operation.run(), out)
                self.equal(out, numpy.full(5, 6.0 * k))
                request = operation.start()
                with self.assertRaises(gcoll.StateError):
                    operation.start()
                with self.assertRaisesRegex(gcoll.StateError, "in flight"):
                    operation.close()
                self.assertIs(request.wait(), out)
            operation.close()
            with self.assertRaisesRegex(gcoll.StateError, "closed"):
                operation.run()
            for _ in range(3):  # operations that are dropped are freed by the next prepare, or with the context
                context.prepare.allreduce(numpy.zeros(3)).run()
            self.assertLessEqual(len(context._core.operations), 1)
        gcoll.run_local(3, rank)

    def test_wait_any(self):
        def rank(context):
            empty = numpy.zeros(1)
            requests = [context.start.recv(empty, source=1 - context.rank, tag=9), None,
                        context.start.allreduce(numpy.ones(1))]
            self.assertEqual(gcoll.wait_any(requests), 2)
            context.barrier()
            context.send(numpy.ones(1), 1 - context.rank, tag=9)
            self.assertEqual(gcoll.wait_any(requests), 0)
            with self.assertRaises(gcoll.StateError):
                gcoll.wait_any(requests)
        gcoll.run_local(2, rank, transport="tcp")
        gcoll.run_local(2, rank, progress_thread=True, transport="tcp")


class Asyncio(Case):
    def test_await(self):
        async def main(context):
            async def one(k):
                return await context.start.allreduce(numpy.full(100, float(k)))

            async def message():
                data = numpy.zeros(2)
                receive = context.start.recv(data, source=1 - context.rank, tag=5)
                send = context.start.send(numpy.full(2, float(context.rank)), 1 - context.rank, tag=5)
                await send
                return await receive, data

            results = await asyncio.gather(*[one(k) for k in range(10)], message())
            for k, result in enumerate(results[:-1]):
                self.equal(result, numpy.full(100, 2.0 * k))
            received, data = results[-1]
            self.assertEqual(received, (1 - context.rank, 16))
            self.equal(data, numpy.full(2, 1.0 - context.rank))
            operation = context.prepare.barrier()
            await operation.start()
        for options in ({}, {"progress_thread": True}, {"progress_thread": True, "transport": "tcp"}):
            gcoll.run_local(2, lambda context: asyncio.run(main(context)), **options)
            gcoll.run_local(2, lambda context: [asyncio.run(main(context)) for _ in range(2)], **options)

    def test_errors_are_raised_by_await(self):
        async def main(context):
            if context.rank == 0:
                context.abort("enough")
            with self.assertRaisesRegex(gcoll.AbortedError, "enough"):
                await context.start.barrier()
        for options in ({}, {"progress_thread": True}):
            gcoll.run_local(2, lambda context: asyncio.run(main(context)), **options)

    def test_a_cancelled_task_leaves_the_request(self):
        async def main(context):
            request = context.start.recv(numpy.zeros(1), source=1 - context.rank)
            task = asyncio.ensure_future(self.waiting(request))
            await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await context.start.barrier()
            send = context.start.send(numpy.ones(1), 1 - context.rank)
            self.assertEqual((await request).nbytes, 8)
            await send
        for options in ({}, {"progress_thread": True}):
            gcoll.run_local(2, lambda context: asyncio.run(main(context)), **options)

    def test_closing_ends_what_is_awaited(self):
        async def main(context):
            request = context.start.recv(numpy.zeros(1), source=1 - context.rank)
            task = asyncio.ensure_future(self.waiting(request))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            context.close()
            with self.assertRaises(gcoll.Error):
                await asyncio.wait_for(task, 20)
        for options in ({}, {"progress_thread": True}):
            gcoll.run_local(2, lambda context: asyncio.run(main(context)), **options)

    @staticmethod
    async def waiting(request):
        return await request


class Messages(Case):
    def test_sizes_and_sources(self):
        def rank(context):
            if context.rank == 0:
                data = numpy.zeros(10, "u1")
                seen = {}
                for _ in range(context.size - 1):
                    received = context.recv(data)
                    seen[received.source] = received.nbytes
                self.assertEqual(seen, {r: r for r in range(1, context.size)})
                self.assertIn(context.recv(data, source=numpy.array([2, 1]), tag=3).source, (1, 2))
                context.recv(data, source=(1, 2), tag=3)
            else:
                context.send(numpy.ones(context.rank, "u1"), dest=0)
                context.send(b"", dest=0, tag=3)
        for options in ({}, {"progress_thread": True}):
            gcoll.run_local(3, rank, **options)

    def test_a_message_that_is_too_large_breaks_nothing(self):
        def rank(context):
            if context.rank == 0:
                data = numpy.full(2, 7.0)
                with self.assertRaisesRegex(gcoll.MismatchError, "24.*16|16.*24"):
                    context.recv(data, source=1)
                self.equal(data, numpy.full(2, 7.0))
                self.assertEqual(context.recv(data, source=numpy.int64(1)).nbytes, 8)
            else:
                context.send(numpy.zeros(3), dest=0)
                context.send(numpy.zeros(1), dest=0)
        for options in ({}, {"progress_thread": True}):
            gcoll.run_local(2, rank, **options)

    def test_probe_cancel_and_sendrecv(self):
        def rank(context):
            peer = 1 - context.rank
            self.assertIsNone(context.probe(peer, tag=1))
            receive = context.start.recv(numpy.zeros(1), peer, tag=8)
            receive.cancel()
            with self.assertRaisesRegex(gcoll.StateError, "cancelled"):
                receive.wait()
            context.barrier()
            context.send(b"12345", peer, tag=1)
            while context.probe(peer, tag=1) is None:
                pass
            self.assertEqual(context.probe(None, tag=1), (peer, 5))
            data = bytearray(context.probe(peer, tag=1).nbytes)
            context.recv(data, peer, tag=1)
            self.assertEqual(data, b"12345")
            into = numpy.zeros(2)
            context.sendrecv(numpy.full(2, float(context.rank)), peer, into, peer, tag=4)
            self.equal(into, numpy.full(2, float(peer)))
            context.set_pair_timeout(peer, 12.5)
        gcoll.run_local(2, rank, transport="tcp")

    def test_objects(self):
        def rank(context):
            value = {"rank": context.rank, "data": numpy.arange(context.rank * 1000)}
            for root in range(context.size):
                self.assertEqual(context.broadcast_object(("x", root) if context.rank == root else None, root),
                                 ("x", root))
                gathered = context.gather_object(value, root)
                self.assertEqual(gathered is None, context.rank != root)
                if gathered:
                    self.assertEqual([v["rank"] for v in gathered], list(range(context.size)))
                values = [[r] * r for r in range(context.size)] if context.rank == root else None
                self.assertEqual(context.scatter_object(values, root), [context.rank] * context.rank)
            self.assertEqual([len(v["data"]) for v in context.allgather_object(value)],
                             [1000 * r for r in range(context.size)])
            if context.size > 1:
                context.send_object(value, (context.rank + 1) % context.size)
                self.assertEqual(context.recv_object((context.rank - 1) % context.size)["rank"],
                                 (context.rank - 1) % context.size)
            with self.assertRaises(Exception):
                context.broadcast_object(lambda: 1, context.rank)  # cannot be pickled: refused before it is sent
            context.barrier()
        for size in SIZES:
            gcoll.run_local(size, rank, transport="tcp")


class Groups(Case):
    def test_split_groups_and_duplicates(self):
        def rank(context):
            with context.duplicate() as other:
                self.equal(other.allreduce(numpy.ones(1)), numpy.full(1, 5.0))
                self.assertEqual(other.rank, context.rank)
            none = context.split(None if context.rank == 2 else 0, key=-context.rank)
            if context.rank == 2:
                self.assertIsNone(none)
            else:
                with none:
                    self.assertEqual(none.size, 4)
                    self.assertEqual([none.parent_rank(r) for r in range(4)], [4, 3, 1, 0])
            if context.rank in (1, 3):
                with context.create_group([3, 1]) as group:
                    self.assertEqual(group.rank, 0 if context.rank == 3 else 1)
                    self.assertEqual(group.allgather_object(context.rank), [3, 1])
            self.assertEqual(context.barrier_report(timeout=20), [True] * 5)
        gcoll.run_local(5, rank)

    def test_a_barrier_reports_who_is_missing(self):
        def rank(context):
            if context.rank == 0:
                self.assertEqual(context.barrier_report(timeout=0.05), [True, False])
                context.send(b"x", 1)
            else:
                context.recv(bytearray(1), 0)
                self.assertEqual(context.barrier_report(timeout=0.05)[0:2], [True, False])
            context.barrier()
        gcoll.run_local(2, rank)


class Threads(Case):
    def test_threads_share_a_context_with_a_progress_thread(self):
        def rank(context):
            errors = []

            def exchange(tag):
                try:
                    peer = 1 - context.rank
                    source = random.Random(tag)
                    for k in range(30):
                        size = source.randrange(1, 50)
                        receive = context.start.recv(numpy.zeros(50, "u1"), None, tag)
                        context.send(numpy.full(size, k, "u1"), peer, tag)
                        assert receive.wait() == (peer, size)
                        into = numpy.zeros(64, "u1")
                        send = context.start.send(numpy.full(size, k, "u1"), peer, tag)
                        assert context.recv(into, peer, tag) == (peer, size) and into[size - 1] == k
                        send.wait()
                except BaseException as error:
                    errors.append(error)
            threads = [threading.Thread(target=exchange, args=(tag,)) for tag in range(4)]
            for thread in threads:
                thread.start()
            for _ in range(30):
                self.equal(context.allreduce(numpy.ones(5)), numpy.full(5, 2.0))
            for thread in threads:
                thread.join()
            self.assertEqual(errors, [])
        gcoll.run_local(2, rank, progress_thread=True)

    def test_a_second_thread_is_refused_without_one(self):
        with gcoll.Context(0, 1) as context:
            inside, leave, seen = threading.Event(), threading.Event(), []
            store = gcoll.Store.memory()
            hub = gcoll.Hub(2)

            def rank(number):
                with gcoll.Context(number, 2, store, transport="inproc", hub=hub) as own:
                    if number == 0:
                        def receive():
                            inside.set()
                            while True:
                                try:
                                    return own.recv(bytearray(1), 1)
                                except gcoll.StateError as error:  # the other thread came first
                                    self.assertIn("another thread", str(error))
                        thread = threading.Thread(target=receive)
                        thread.start()
                        inside.wait()
                        while not seen:
                            try:
                                own.probe(1, tag=7)
                            except gcoll.StateError as error:
                                seen.append(error)
                                try:
                                    own.close()
                                except gcoll.StateError as error:
                                    seen.append(error)
                        leave.set()
                        thread.join()
                    else:
                        leave.wait()
                        own.send(b"x", 0)
                        own.start.barrier()
            threads = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            hub.close()
            store.close()
            context.check()
        self.assertEqual(len(seen), 2)
        for error in seen:
            self.assertIn("another thread", str(error))


class Life(Case):
    def test_an_exception_aborts_the_other_ranks(self):
        def rank(context):
            if context.rank == 1:
                raise LookupError("no data")
            with self.assertRaisesRegex(gcoll.AbortedError, "LookupError: no data") as caught:
                context.allreduce(numpy.ones(2))
            self.assertEqual(caught.exception.culprit, 1)
            self.assertEqual(caught.exception.operation, "allreduce")
        with self.assertRaisesRegex(LookupError, "no data"):
            gcoll.run_local(3, rank)

    def test_mismatches_name_both_calls(self):
        def rank(context):
            with self.assertRaisesRegex(gcoll.MismatchError, "allreduce") as caught:
                context.allreduce(numpy.ones(2 + context.rank))
            self.assertEqual(caught.exception.status, gcoll.Status.MISMATCH)
            with self.assertRaises(gcoll.MismatchError):
                context.check()
        gcoll.run_local(2, rank)

    def test_a_failed_call_keeps_its_input(self):
        for form in FORMS:
            changed = []

            def rank(context):
                def fail(a, b):
                    if context.rank == 1:
                        raise KeyError("broken")
                    return a + b
                data = numpy.arange(5.0) + context.rank
                try:
                    call(context, form, "allreduce", data, data, op=gcoll.UserOp(fail, commutative=True),
                         algorithm="ring", keep_input=True)
                except (KeyError, gcoll.AbortedError):
                    changed.append((data != numpy.arange(5.0) + context.rank).any())
            gcoll.run_local(3, rank)
            self.assertTrue(changed)
            self.assertFalse(any(changed), form)

    def test_factors_of_input_and_result(self):
        def rank(context):
            own = {"prescale": context.rank + 1.0, "postscale": 0.5}
            data = numpy.arange(6.0) + context.rank
            before, size = data.copy(), context.size
            want = sum((r + 1) * (numpy.arange(6.0) + r) for r in range(size)) / 2
            block = slice(context.rank * 2, context.rank * 2 + 2)
            for form in FORMS:
                numpy.testing.assert_array_equal(call(context, form, "allreduce", data, **own), want)
                numpy.testing.assert_array_equal(call(context, form, "reduce_scatter", data, **own), want[block])
                got = call(context, form, "reduce", data, root=1, **own)
                self.assertEqual(got is None, context.rank != 1)
                if got is not None:
                    numpy.testing.assert_array_equal(got, want)
                parts = call(context, form, "allreduce_list", [data[:1], data[1:]], **own)
                numpy.testing.assert_array_equal(numpy.concatenate(parts), want)
                parts = [data[2 * r:2 * r + 2] for r in range(size)]
                numpy.testing.assert_array_equal(call(context, form, "reduce_scatter_list", parts, **own), want[block])
                for got in call(context, form, "allreduce_buffers", [data, before], **own):
                    numpy.testing.assert_array_equal(got, 2 * want)
                outs = [numpy.empty(2), numpy.empty(2)]
                for got in call(context, form, "reduce_scatter_buffers", [data, before], outs, **own):
                    numpy.testing.assert_array_equal(got, 2 * want[block])
                numpy.testing.assert_array_equal(data, before)
            numpy.testing.assert_array_equal(context.allreduce(data, data, **own), want)
        gcoll.run_local(3, rank)

    def test_factors_that_are_refused(self):
        def rank(context):
            data = numpy.ones(2)
            for name in ("prescale", "postscale"):
                for bad in (0, 0.0, math.nan, math.inf):
                    with self.assertRaisesRegex(ValueError, name + ": is " + str(bad)):
                        context.allreduce(data, **{name: bad})
                with self.assertRaisesRegex(TypeError, name + ": is "):
                    context.allreduce(data, **{name: "2"})
                with self.assertRaisesRegex(gcoll.InvalidError, "options." + name + ": is 2, but type is int64"):
                    context.allreduce(numpy.ones(2, "i8"), **{name: 2})
        gcoll.run_local(1, rank)

    def test_codecs(self):
        def values(rank):
            return numpy.random.default_rng(rank).uniform(-1, 1, 3000).astype(numpy.float32)

        for form in FORMS:
            for codec, error in (("bf16", 2**-8), ("int8:block=64", 1 / 127), ("fp8:block=32,seed=3", 1 / 8)):
                def rank(context):
                    whole = numpy.empty(3 * 3000, numpy.float32)
                    sent = values(1).copy() if context.rank == 1 else numpy.zeros(3000, numpy.float32)
                    return (call(context, form, "allreduce", values(context.rank), op="avg", codec=codec),
                            call(context, form, "allgather", values(context.rank), whole, codec=codec),
                            call(context, form, "broadcast", sent, 1, codec=codec),
                            call(context, form, "reduce_scatter", values(context.rank), codec=codec))
                got = gcoll.run_local(3, rank)
                inputs = [values(r) for r in range(3)]
                for r in range(3):
                    for k in range(3):
                        self.assertEqual(got[0][k].tobytes(), got[r][k].tobytes(), (form, codec, k))
                    numpy.testing.assert_allclose(got[r][3], sum(inputs)[r * 1000:r * 1000 + 1000], 0, 9 * error)
                numpy.testing.assert_allclose(got[0][0], sum(inputs) / 3, 0, 3 * error)
                self.assertFalse(numpy.array_equal(got[0][0], sum(inputs) / 3))
                numpy.testing.assert_allclose(got[0][1], numpy.concatenate(inputs), 0, error)
                numpy.testing.assert_allclose(got[0][2], inputs[1], 0, error)

    def test_a_root_that_cannot_be_written_takes_no_codec(self):
        def rank(context):
            data = numpy.frombuffer(numpy.arange(4, dtype=numpy.float32).tobytes(), numpy.float32)
            target = data if context.rank == 0 else numpy.zeros(4, numpy.float32)
            if context.rank == 0:
                with self.assertRaisesRegex(ValueError, "data: is read-only"):
                    context.broadcast(data, codec="bf16")
            context.broadcast(target)
            numpy.testing.assert_array_equal(target, numpy.arange(4))
        gcoll.run_local(2, rank)

    def test_codecs_that_cannot_be(self):
        with gcoll.Context(0, 1) as context:
            with self.assertRaisesRegex(gcoll.UnsupportedError, "is 'bf16' for type float64; allowed is float32"):
                context.allreduce(numpy.ones(3), codec="bf16")
            with self.assertRaisesRegex(gcoll.InvalidError, "is 'int9'; allowed are none, bf16"):
                context.allreduce(numpy.ones(3, numpy.float32), codec="int9")
            with self.assertRaisesRegex(TypeError, "codec: is of type int"):
                context.allreduce(numpy.ones(3, numpy.float32), codec=8)
            self.assertIn("float32 as int8:block=128", context.explain("allreduce", 1000, codec="int8"))

    def test_codec_round(self):
        data = numpy.linspace(-3, 3, 1000, dtype=numpy.float32)
        once = gcoll.codec_round(data, "int8:block=64")
        self.assertFalse(numpy.array_equal(once, data))
        numpy.testing.assert_allclose(once, data, 0, 3 / 127)
        numpy.testing.assert_array_equal(gcoll.codec_round(once, "int8:block=64"), once)
        self.assertIs(gcoll.codec_round(data, "int8:block=64", data), data)
        numpy.testing.assert_array_equal(data, once)
        seeded = [gcoll.codec_round(once + 0.001, "int8:block=64,seed=5", call=k).tobytes() for k in (1, 1, 2)]
        self.assertEqual(seeded[0], seeded[1])
        self.assertNotEqual(seeded[0], seeded[2])
        with self.assertRaisesRegex(ValueError, "input: has elements of float64; allowed is float32"):
            gcoll.codec_round(numpy.ones(3), "bf16")
        with self.assertRaisesRegex(ValueError, "out: has 2 elements; allowed are 3"):
            gcoll.codec_round(numpy.ones(3, numpy.float32), "bf16", numpy.ones(2, numpy.float32))

    def test_a_uniform_call_fails_on_all_ranks(self):
        def rank(context):
            self.assertEqual(context.allreduce(numpy.array([1]), uniform=True, keep_input=True)[0], context.size)
            context.barrier(uniform=True)
            with self.assertRaisesRegex(gcoll.UnsupportedError, "options.uniform"):
                context.start.barrier(uniform=True)

            def fail(a, b):
                raise KeyError("broken")
            with self.assertRaises((KeyError, gcoll.AbortedError, gcoll.PeerError)):
                context.reduce(numpy.ones(3), op=fail, root=0, uniform=True)
            with context.shrink() as survivors:
                self.assertEqual(survivors.size, 3)
                survivors.barrier(uniform=True)
        gcoll.run_local(3, rank, recovery=True)

    def test_a_uniform_call_blocks_on_the_main_thread_too(self):
        # There other calls are started and waited for, so that Ctrl-C ends the wait.
        with gcoll.Context(0, 1, recovery=True) as context:
            context.barrier(uniform=True)
            self.assertEqual(context.allreduce(numpy.array([3]), uniform=True, keep_input=True)[0], 3)

    def test_a_secret_keeps_others_out(self):
        secret = b"a secret of 30 bytes, of no use"
        gcoll.run_local(2, lambda context: context.barrier(), transport="tcp", secret=secret)
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "secret")
            with open(name, "wb") as file:
                file.write(secret + b"\n")
            os.chmod(name, 0o644)
            with self.assertRaisesRegex(gcoll.InvalidError, "options.secret_file: .* has mode 0644"):
                gcoll.Context(0, 1, secret_file=name)
            os.chmod(name, 0o600)
            gcoll.run_local(2, lambda context: context.barrier(), transport="tcp", secret_file=name)
        with self.assertRaisesRegex(gcoll.InvalidError, "options.encryption: is 'yes'; allowed are"):
            gcoll.Context(0, 1, transport="tcp", secret=secret, encryption="yes")
        try:
            gcoll.run_local(2, lambda context: context.barrier(), transport="tcp", secret=secret, encryption="on")
        except gcoll.UnsupportedError as error:
            self.assertRegex(str(error), "TLS: ")
        with self.assertRaisesRegex(gcoll.InvalidError, "options.tls_ca: is set, and options.encryption is 'auth'"):
            gcoll.Context(0, 1, transport="tcp", secret=secret, tls_ca="/nowhere")
        with self.assertRaisesRegex(gcoll.InvalidError, "options.secret: has 5 bytes"):
            gcoll.Context(0, 1, secret="short")
        with self.assertRaisesRegex(TypeError, "secret"):
            gcoll.Context(0, 1, secret=17)

    def test_timeouts(self):
        def rank(context):
            context.barrier()
            if context.rank == 0:
                context.set_pair_timeout(1, 0.2)
                with self.assertRaises(gcoll.TimeoutError) as caught:
                    context.recv(numpy.zeros(1), source=1)
                self.assertIsInstance(caught.exception, TimeoutError)
            else:
                with self.assertRaises(gcoll.Error):
                    context.barrier()
        gcoll.run_local(2, rank)

    def test_requests_in_flight_at_the_end_fail(self):
        kept = []

        def rank(context):
            kept.append(context.start.recv(numpy.zeros(1), source=1 - context.rank))
            context.barrier()
        gcoll.run_local(2, rank)
        for request in kept:
            with self.assertRaises(gcoll.Error):
                request.wait()
            with self.assertRaises(gcoll.Error):
                request.test()

    def test_an_exchange_in_place_of_a_store(self):
        size = 3
        barrier, parts = threading.Barrier(size), [b""] * size

        def rank(number, errors):
            def exchange(mine):
                barrier.wait()
                parts[number] = mine
                barrier.wait()
                return list(parts)
            try:
                with gcoll.Context(number, size, exchange=exchange) as context:
                    self.equal(context.allreduce(numpy.ones(2)), numpy.full(2, 3.0))
            except BaseException as error:
                errors.append(error)
        errors = []
        threads = [threading.Thread(target=rank, args=(number, errors)) for number in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])

    def test_a_failing_exchange_is_the_cause(self):
        def exchange(mine):
            raise OSError("no network")
        with self.assertRaisesRegex(gcoll.Error, "OSError: no network") as caught:
            gcoll.Context(0, 2, exchange=exchange, timeout=1)
        self.assertIsInstance(caught.exception.__cause__, OSError)

    def test_logs_and_texts(self):
        lines = []
        with gcoll.Context(0, 1, log=lambda level, text: lines.append((level, text))) as context:
            self.assertIn("allreduce", context.explain("allreduce", 1000))
            self.assertIn("for", context.tuning())
            self.assertIsNone(context.culprit)
            with self.assertRaisesRegex(ValueError, "collective: is 'x'"):
                context.explain("x", 1)
            with self.assertRaises(gcoll.UnsupportedError):
                context.fileno()
            with self.assertRaises(gcoll.StateError):
                context.arrival_stats()
        for level, _ in lines:
            self.assertIn(level, ("error", "warning", "info", "debug"))

    def test_a_monitor(self):
        def rank(context):
            context.arrival_site(3)
            for _ in range(10):
                context.arrival_begin()
                context.arrival_finish()
                context.allreduce(numpy.ones(4))
            self.assertIn("allreduce", context.arrival_stats())
        gcoll.run_local(3, rank, monitor=True)

    def test_errors_can_be_pickled(self):
        import pickle
        error = gcoll.PeerError("gone", gcoll.Status.PEER, "allreduce", 3)
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(copy), copy.text, copy.status, copy.operation, copy.culprit, str(copy)),
                         (gcoll.PeerError, "gone", gcoll.Status.PEER, "allreduce", 3, "allreduce: gone"))


class Stores(Case):
    def test_operations_of_stores(self):
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            for make in (gcoll.Store.memory, lambda: gcoll.Store("file:" + folder)):
                with make() as store:
                    store.set("a/b", b"1\0002")
                    self.assertEqual(store.get("a/b"), b"1\0002")
                    with store.prefix("a") as view:
                        self.assertEqual(view.get("b", timeout=1), b"1\0002")
                    self.assertEqual([store.add("n", 3), store.add("n", -1)], [3, 2])
                    store.set_new("new", bytearray(b"x"))
                    with self.assertRaises(gcoll.StateError):
                        store.set_new("new", b"y")
                    store.keep("new", 60)
                    store.wait("new", 1)
                    store.remove("new")
                    with self.assertRaises(gcoll.NotFoundError) as caught:
                        store.get("new")
                    self.assertIsInstance(caught.exception, LookupError)
                    with self.assertRaises(gcoll.TimeoutError):
                        store.get("new", timeout=0.01)
                    with self.assertRaises(gcoll.InvalidError):
                        store.set("bad key", b"")
                with self.assertRaisesRegex(gcoll.StateError, "closed"):
                    store.get("a")
        with self.assertRaises(gcoll.InvalidError):
            gcoll.Store("gopher:nowhere")

    def test_environment(self):
        old = dict(os.environ)
        try:
            for name in list(os.environ):
                if name.startswith(("GCOLL_RANK", "GCOLL_SIZE", "SLURM_", "PMI", "OMPI_", "RANK", "WORLD_SIZE")):
                    del os.environ[name]
            with self.assertRaises(gcoll.NotFoundError):
                gcoll.environment()
            os.environ.update(GCOLL_RANK="0", GCOLL_SIZE="1", GCOLL_JOB="solo", GCOLL_STORE="file:/nowhere")
            found = gcoll.environment()
            self.assertEqual((found.rank, found.size, found.source, found.job, found.store, found.local_rank),
                             (0, 1, "gcoll", "solo", "file:/nowhere", None))
        finally:
            os.environ.clear()
            os.environ.update(old)


if __name__ == "__main__":
    unittest.main()
