"""Tests of the backend gcoll of torch.distributed. Usage: python3 torch_test.py [unittest's arguments]"""

import datetime
import os
import signal
import time
import unittest

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch_ranks

TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
         torch.float64]


def equal(found, wanted, what):
    assert found.dtype == wanted.dtype and torch.equal(found, wanted), f"{what}: found {found}; wanted {wanted}"


def raises(kind, words, function):
    try:
        function()
    except kind as error:
        assert all(word in str(error) for word in words), f"'{error}' lacks one of {words}"
        return
    raise AssertionError(f"no {kind} with {words}")


def part(rank, count, dtype):
    """Small whole numbers, which every type holds and sums exactly; different on each rank."""
    return ((torch.arange(count) * (rank + 2) + rank) % 5).to(dtype)


# ---- Reductions ------------------------------------------------------------------------------------

def reductions(rank, size):
    count = 1001
    for dtype in TYPES:
        parts = torch.stack([part(r, count, torch.float64) for r in range(size)])
        wanted = {dist.ReduceOp.SUM: parts.sum(0), dist.ReduceOp.PRODUCT: parts.prod(0),
                  dist.ReduceOp.MIN: parts.min(0).values, dist.ReduceOp.MAX: parts.max(0).values}
        for op, value in wanted.items():
            for root in [None, size - 1]:
                tensor = part(rank, count, dtype)
                if root is None:
                    dist.all_reduce(tensor, op)
                else:
                    dist.reduce(tensor, root, op)
                right = value if root in (None, rank) else part(rank, count, torch.float64)
                equal(tensor, right.to(dtype), f"{op} {dtype} root {root}")
        if not dtype.is_floating_point:
            ints = parts.to(torch.int64)
            for op, fold in [(dist.ReduceOp.BAND, torch.bitwise_and), (dist.ReduceOp.BOR, torch.bitwise_or),
                             (dist.ReduceOp.BXOR, torch.bitwise_xor)]:
                value = ints[0]
                for r in range(1, size):
                    value = fold(value, ints[r])
                tensor = part(rank, count, dtype)
                dist.all_reduce(tensor, op)
                equal(tensor, value.to(dtype), f"{op} {dtype}")
        else:
            raises(TypeError, ["allreduce", "BAND", "allowed are SUM"],
                   lambda: dist.all_reduce(part(rank, count, dtype), dist.ReduceOp.BAND))
        tensor = (part(rank, count, dtype) * 0 + size).to(dtype)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        equal(tensor, torch.full_like(tensor, size), f"average {dtype}")
    for op, want in ((dist.ReduceOp.SUM, [True, True, False]), (dist.ReduceOp.MAX, [True, True, False]),
                     (dist.ReduceOp.PRODUCT, [size == 1, True, False]), (dist.ReduceOp.BAND, [size == 1, True, False]),
                     (dist.ReduceOp.BXOR, [True, size % 2 == 1, False])):
        truth = torch.tensor([rank == 0, True, False])
        dist.all_reduce(truth, op)
        equal(truth, torch.tensor(want), f"truth values {op}")
    for dtype in (torch.complex64, torch.complex128):
        numbers = torch.full((7,), complex(rank, 1), dtype=dtype)
        dist.all_reduce(numbers)
        equal(numbers, torch.full((7,), complex(size * (size - 1) // 2, size), dtype=dtype), f"sum {dtype}")
        numbers = torch.full((7,), complex(rank, 1), dtype=dtype)
        dist.reduce(numbers, 0, dist.ReduceOp.PRODUCT) # all_reduce of torch refuses it
        want = complex(1, 0) if rank == 0 else complex(rank, 1)
        for r in range(1, size if rank == 0 else 0):
            want *= complex(r, 1)
        equal(numbers, torch.full((7,), want * (1j if rank == 0 else 1), dtype=dtype), f"product {dtype}")
    for dtype in (getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)):
        tensor = torch.full((9,), 0.5).to(dtype)
        dist.all_reduce(tensor)
        equal(tensor.float(), torch.full((9,), size / 2), f"sum {dtype}")
    several = [part(rank, n, torch.float32) for n in (1, 0, 300, 17)]
    dist.all_reduce_coalesced(several)
    for tensor in several:
        equal(tensor, sum(part(r, len(tensor), torch.float32) for r in range(size)), "coalesced sum")


# Factors that gcoll multiplies by, and such as torch has to: 0, tiny ones, complex ones.
def premultiplied(rank, size):
    make_factor = torch._C._distributed_c10d._make_nccl_premul_sum
    count = 1001
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128):
        total = sum(part(r, count, torch.float64) for r in range(size))
        for number in (2.0, -0.5, 0.0, 1.0):
            real = torch.empty(0, dtype=dtype).real.dtype
            for factor in (make_factor(number), make_factor([torch.tensor([number], dtype=real)])):
                tensor = part(rank, count, dtype)
                dist.all_reduce(tensor, factor)
                equal(tensor, (number * total).to(dtype), f"premultiplied sum {dtype} {number}")
        tensor = part(rank, count, dtype)
        dist.reduce(tensor, size - 1, make_factor(2.0))
        equal(tensor, (2 * total if rank == size - 1 else part(rank, count, torch.float64)).to(dtype),
              f"premultiplied reduce {dtype}")
        output, given = torch.empty(5, dtype=dtype), part(rank, 5 * size, dtype)
        dist.reduce_scatter_tensor(output, given, make_factor(2.0))
        equal(output, 2 * sum(part(r, 5 * size, dtype) for r in range(size))[5 * rank:5 * rank + 5], f"base {dtype}")
        equal(given, part(rank, 5 * size, dtype), f"the input of {dtype}")
        output, blocks = torch.empty(3, dtype=dtype), [part(rank + b, 3, dtype) for b in range(size)]
        dist.reduce_scatter(output, blocks, make_factor(2.0))
        equal(output, 2 * sum(part(r + rank, 3, dtype) for r in range(size)), f"list {dtype}")
    tensor = torch.full((3,), 1.0)
    dist.all_reduce(tensor, make_factor(1e-300))
    equal(tensor, torch.zeros(3), "a factor that float32 has not")
    tensor = torch.full((3,), complex(1, 2)) # all_reduce of torch hands over real numbers
    dist.reduce(tensor, 0, make_factor([torch.tensor([complex(0, 1)])]))
    equal(tensor, torch.full((3,), complex(-2, 1) * size if rank == 0 else complex(1, 2)), "a complex factor")


def scattered_reductions(rank, size):
    counts = [3 + r for r in range(size)]
    blocks = [[part(r + 7 * b, counts[b], torch.float32) for b in range(size)] for r in range(size)]
    output = torch.empty(counts[rank])
    dist.reduce_scatter(output, blocks[rank])
    equal(output, sum(blocks[r][rank] for r in range(size)), "reduce_scatter")
    output = torch.empty(5)
    dist.reduce_scatter_tensor(output, part(rank, 5 * size, torch.float32))
    equal(output, sum(part(r, 5 * size, torch.float32) for r in range(size))[5 * rank:5 * rank + 5], "base")


# ---- Data movement ---------------------------------------------------------------------------------

def movement(rank, size):
    for dtype in TYPES + [torch.bool, torch.complex64]:
        for root in range(size):
            tensor = part(rank, 33, dtype)
            dist.broadcast(tensor, root)
            equal(tensor, part(root, 33, dtype), f"broadcast {dtype}")
            lists = [torch.zeros(33, dtype=dtype) for _ in range(size)] if rank == root else None
            dist.gather(part(rank, 33, dtype), lists, dst=root)
            for r in range(size if rank == root else 0):
                equal(lists[r], part(r, 33, dtype), f"gather {dtype}")
            output = torch.zeros(33, dtype=dtype)
            dist.scatter(output, [part(r, 33, dtype) for r in range(size)] if rank == root else None, src=root)
            equal(output, part(rank, 33, dtype), f"scatter {dtype}")
        lists = [torch.zeros(33, dtype=dtype) for _ in range(size)]
        dist.all_gather(lists, part(rank, 33, dtype))
        for r in range(size):
            equal(lists[r], part(r, 33, dtype), f"all_gather {dtype}")
        output = torch.zeros(33 * size, dtype=dtype)
        if not dtype.is_complex:
            dist.all_gather_into_tensor(output, part(rank, 33, dtype))
            equal(output, torch.cat([part(r, 33, dtype) for r in range(size)]), f"base {dtype}")
    lists = [[torch.zeros(3, dtype=torch.int8), torch.zeros(5, dtype=torch.int8)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [part(rank, 3, torch.int8), part(rank, 5, torch.int8)])
    for r in range(size):
        equal(lists[r][0], part(r, 3, torch.int8), "coalesced")
        equal(lists[r][1], part(r, 5, torch.int8), "coalesced")


def exchanges(rank, size):
    output = torch.zeros(size * 4, 2)
    dist.all_to_all_single(output, torch.arange(size * 8).reshape(size * 4, 2) + 1000.0 * rank)
    wanted = torch.cat([torch.arange(8).reshape(4, 2) + 8 * rank + 1000.0 * r for r in range(size)])
    equal(output, wanted, "equal splits")
    gives = [(rank + r) % 3 for r in range(size)]
    output = torch.zeros(sum(gives))
    sends = torch.cat([torch.full((gives[r],), 10.0 * rank + r) for r in range(size)])
    dist.all_to_all_single(output, sends, gives, gives)
    wanted = torch.cat([torch.full((gives[r],), 10.0 * r + rank) for r in range(size)])
    equal(output, wanted, "uneven splits")
    outputs = [torch.zeros(gives[r]) for r in range(size)]
    dist.all_to_all(outputs, list(sends.split(gives)))
    equal(torch.cat(outputs), wanted, "lists")


def messages(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (0, 1, 100000):
        got = torch.zeros(count)
        work = dist.isend(part(rank, count, torch.float32), right)
        dist.recv(got, left)
        work.wait()
        equal(got, part(left, count, torch.float32), "ring")
    if rank == 0:  # any source, started before the messages come
        works = [(torch.zeros(1), None) for _ in range(size - 1)]
        works = [(tensor, dist.distributed_c10d._get_default_group().recv_anysource([tensor], 3)) for tensor, _ in works]
        sources = set()
        for tensor, work in works:
            work.wait()
            assert int(tensor) == work._source_rank()
            sources.add(int(tensor))
        assert sources == set(range(1, size)), sources
        raises(RuntimeError, ["4 bytes", "the tensor has 8"], lambda: dist.recv(torch.zeros(2), 1, tag=4))
        assert int(dist.recv(torch.zeros(1))) == 1
    else:
        dist.send(torch.tensor([float(rank)]), 0, tag=3)
        if rank == 1:
            dist.send(torch.zeros(1), 0, tag=4)
            dist.send(torch.zeros(1), 0)
    dist.barrier()


def layouts(rank, size):
    """Tensors that are not contiguous; inputs that are outputs."""
    base = part(rank, 24, torch.float32).reshape(4, 6)
    tensor = base.clone().t()
    dist.all_reduce(tensor)
    equal(tensor, sum(part(r, 24, torch.float32).reshape(4, 6) for r in range(size)).t(), "transposed")
    table = torch.zeros(6, size)
    dist.all_gather([table[:, r] for r in range(size)], base[0])
    equal(table, torch.stack([part(r, 6, torch.float32) for r in range(size)], 1), "columns")
    whole = torch.zeros(size * 6)
    mine = whole[rank * 6:rank * 6 + 6]
    mine.copy_(base[0])
    dist.all_gather_into_tensor(whole, mine)
    equal(whole, torch.cat([part(r, 6, torch.float32) for r in range(size)]), "in place")
    lists = [torch.full((2,), float(rank)) for _ in range(size)]
    dist.all_gather(lists, lists[(rank + 1) % size])
    equal(torch.stack(lists)[:, 0], torch.arange(float(size)), "input is another output")
    square = torch.arange(float(size)) + 10 * rank
    dist.all_to_all_single(square, square)
    equal(square, torch.arange(float(size)) * 10 + rank, "exchange in place")


# ---- Works -----------------------------------------------------------------------------------------

def works(rank, size):
    tensors = [torch.full((1000,), float(rank + i)) for i in range(30)]
    started = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    dist.barrier()  # ends after all of them
    assert all(work.is_completed() for work in started)
    for i, tensor in enumerate(tensors):
        equal(tensor, torch.full((1000,), float(sum(range(size)) + i * size)), f"in flight {i}")

    # A callback starts the next operation, on whichever thread it runs.
    first = torch.ones(10)
    chained = dist.all_reduce(first, async_op=True).get_future().then(
        lambda done: dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0])
    equal(chained.wait(), torch.full((10,), float(size * size)), "chained")
    group = dist.distributed_c10d._get_default_group()
    before = group._get_sequence_number_for_group()
    dist.all_reduce(first)
    assert group._get_sequence_number_for_group() == before + 1

    # Works that nobody waits for, and groups of some ranks.
    for _ in range(100):
        dist.all_reduce(torch.ones(10), async_op=True)
        dist.isend(torch.ones(1), (rank + 1) % size, tag=9)
    for _ in range(100):
        dist.recv(torch.zeros(1), (rank - 1) % size, tag=9)
    pair = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        tensor = torch.tensor([rank])
        dist.all_reduce(tensor, group=pair)
        equal(tensor, torch.tensor([size - 1]), "group")


def errors(rank, size):
    group = dist.distributed_c10d._get_default_group()
    raises(ValueError, ["broadcast", "sparse"], lambda: dist.broadcast(torch.eye(2).to_sparse(), 0))
    raises(ValueError, ["allgather", "4 elements; needed are 3"],
           lambda: dist.all_gather([torch.zeros(3)] * size, torch.zeros(4)))
    raises(ValueError, ["allgather", f"the list has 1 tensors; needed are {size}"],
           lambda: dist.all_gather([torch.zeros(3)], torch.zeros(3)))
    raises(ValueError, ["alltoall_base", "torch.Long and torch.Float"],
           lambda: group.alltoall_base(torch.zeros(size, dtype=torch.int64), torch.zeros(size), [], []))
    raises(ValueError, ["alltoall_base", "cannot divide"],
           lambda: dist.all_to_all_single(torch.zeros(size + 1), torch.zeros(size + 1)))
    raises(ValueError, ["send", "contiguous"], lambda: dist.send(torch.zeros(4, 4).t(), (rank + 1) % size))
    raises(ValueError, ["send", "the peer is"], lambda: dist.send(torch.zeros(4), rank))
    raises(TypeError, ["allreduce", "MAX", "torch.ComplexFloat"],
           lambda: group.allreduce([torch.zeros(4, dtype=torch.complex64)], _max_options()).wait())
    tensor = torch.ones(1)  # nothing of that has broken the group
    dist.all_reduce(tensor)
    equal(tensor, torch.full((1,), float(size)), "after errors")


def _max_options():
    options = dist.distributed_c10d.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MAX
    return options


def mismatch(rank, size):
    raises(RuntimeError, ["gcoll", "allreduce"], lambda: dist.all_reduce(torch.zeros(10 + rank)))


def late(rank, size):
    import gcoll.torch
    gcoll.torch.monitored_barrier()
    if rank == 0:
        raises(RuntimeError, ["Rank 1 failed to pass monitoredBarrier in 200 ms"],
               lambda: gcoll.torch.monitored_barrier(timeout=datetime.timedelta(milliseconds=200)))
    elif rank != 1:
        raises(RuntimeError, [f"Rank {rank} successfully reached monitoredBarrier"],
               lambda: gcoll.torch.monitored_barrier(timeout=datetime.timedelta(milliseconds=200)))
    tensor = torch.ones(1)
    dist.all_reduce(tensor)  # nothing is broken
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    if rank == 0:
        begun = time.monotonic()
        raises(RuntimeError, ["a timeout in allreduce"], lambda: dist.all_reduce(torch.ones(1), group=group))
        assert 0.9 < time.monotonic() - begun < 5
    dist.barrier()


def aborted(rank, size):
    import gcoll.torch
    dist.barrier()
    if rank == 1:
        gcoll.torch.abort("the user has had enough")
        raises(RuntimeError, ["the user has had enough"], lambda: dist.all_reduce(torch.ones(1)))
    else:
        raises(RuntimeError, ["the user has had enough", "rank 1"], lambda: dist.all_reduce(torch.ones(1)))
        assert gcoll.torch.culprit() == 1


# ---- Training --------------------------------------------------------------------------------------

def train(rank, size, steps=8, options=None, shards=False):
    """Trains a small network on data of this rank. Returns the losses and the parameters.

    shards: the optimizer's state is divided among the ranks (ZeroRedundancyOptimizer).
    """
    group = None
    if options is not None:
        import gcoll.torch
        group = dist.new_group(pg_options=gcoll.torch.Options(**options))
    torch.manual_seed(17)
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.Tanh(),
                                torch.nn.Linear(64, 3))
    model = DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.01)
    if shards:
        from torch.distributed.optim import ZeroRedundancyOptimizer
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        data, labels = torch.randn(16, 20, generator=generator), torch.randint(3, (16,), generator=generator)
        loss = torch.nn.functional.cross_entropy(model(data), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.detach().numpy().tobytes() for parameter in model.parameters()]


def die(rank, size, doomed):
    train(rank, size, 2)
    dist.barrier()
    if rank == doomed:
        now = time.monotonic()
        with open(f"/tmp/gcoll_torch_test.died.{os.getppid()}", "w") as file:
            file.write(str(now))
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        train(rank, size, 1000000)
    except RuntimeError as error:
        return time.monotonic(), str(error)


class Collectives(unittest.TestCase):
    def test_three_ranks(self):
        def all_of_them(rank, size):
            for function in (reductions, premultiplied, scattered_reductions, movement, exchanges, messages, layouts,
                             works, errors):
                function(rank, size)
        torch_ranks.run(3, all_of_them)

    def test_one_rank(self):
        def some(rank, size):
            for function in (reductions, premultiplied, scattered_reductions, movement, exchanges):
                function(rank, size)
        torch_ranks.run(1, some)


class Failures(unittest.TestCase):
    def test_different_calls(self):
        torch_ranks.run(2, mismatch)

    def test_late_rank(self):
        torch_ranks.run(3, late)

    def test_abort(self):
        torch_ranks.run(3, aborted)

    def test_death(self):
        died = f"/tmp/gcoll_torch_test.died.{os.getpid()}"
        results = torch_ranks.run(4, die, 2, dies=(2,))
        with open(died) as file:
            then = float(file.read())
        os.unlink(died)
        for rank in (0, 1, 3):
            when, text = results[rank]
            self.assertLess(when - then, 1.0, text)
            self.assertIn("rank 2", text)


class Training(unittest.TestCase):
    def test_replicas_are_the_same(self):
        results = torch_ranks.run(3, train)
        for _, parameters in results:
            self.assertTrue(parameters == results[0][1])

    def test_runs_are_the_same(self):
        first, second = (torch_ranks.run(3, train, 8, {"same": "runs"}) for _ in range(2))
        self.assertTrue(first == second)

    def test_optimizer_in_shards(self):
        whole, shards = (torch_ranks.run(3, train, 8, {"same": "runs"}, divided) for divided in (False, True))
        self.assertTrue(whole == shards)

    def test_losses_are_those_of_gloo(self):
        self.assertEqual(torch_ranks.run(2, train), torch_ranks.run(2, train, backend="gloo"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
