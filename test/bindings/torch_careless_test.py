"""Programs that are careless with torch.distributed over gcoll: odd tensors, ranks that are killed, stopped or raise,
workers that are forked, many groups, groups that are gone. Nothing may hang, crash, or give a wrong result as success.

Usage: python3 torch_careless_test.py [unittest's arguments]
"""

import datetime
import gc
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch_ranks
from torch_test import equal, part, raises

LIMIT_S = 60  # of a program that may not hang


def world():
    return dist.distributed_c10d._get_default_group()


# ---- Odd tensors -----------------------------------------------------------------------------------

def every_operation(rank, size, make):
    """Calls all operations that move data, on tensors that make(r) gives for rank r, and compares what arrives."""
    wanted = [make(r).clone() for r in range(size)]
    for root in range(size):
        tensor = make(rank)
        dist.broadcast(tensor, root)
        equal(tensor, wanted[root], "broadcast")
        lists = [make(rank) for _ in range(size)] if rank == root else None
        dist.gather(make(rank), lists, dst=root)
        for r in range(size if rank == root else 0):
            equal(lists[r], wanted[r], "gather")
        tensor = make(rank)
        dist.scatter(tensor, [make(r) for r in range(size)] if rank == root else None, src=root)
        equal(tensor, wanted[rank], "scatter")
    lists = [make(rank) for _ in range(size)]
    world().allgather([lists], [make(rank)]).wait()
    for r in range(size):
        equal(lists[r], wanted[r], "all_gather")
    lists = [[make(rank), make(rank)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [make(rank), make(rank)])
    for r in range(size):
        equal(lists[r][1], wanted[r], "all_gather_coalesced")
    lists = [make(rank) for _ in range(size)]
    world().alltoall(lists, [make(rank) for _ in range(size)]).wait()
    for r in range(size):
        equal(lists[r], wanted[r], "all_to_all")


def every_reduction(rank, size, make):
    whole = make(0).clone()
    for r in range(1, size):
        whole = whole + make(r)
    tensor = make(rank)
    world().allreduce([tensor]).wait()
    equal(tensor, whole, "all_reduce")
    tensor = make(rank)
    dist.reduce(tensor, size - 1)
    equal(tensor, whole if rank == size - 1 else make(rank).clone(), "reduce")
    tensors = [make(rank), make(rank)]
    world().allreduce_coalesced(tensors).wait()
    equal(tensors[1], whole, "all_reduce_coalesced")
    tensor = make(rank)
    dist.reduce_scatter(tensor, [make(rank) for _ in range(size)])
    equal(tensor, whole, "reduce_scatter")


def odd_tensors(rank, size):
    def numbers(r, *shape, dtype=torch.float32):
        count = 1
        for n in shape:
            count *= n
        return part(r, count, dtype).reshape(shape)

    def complexes(r, *shape):
        return torch.complex(numbers(r, *shape), numbers(r + 1, *shape))

    kinds = {
        "one number": lambda r: torch.tensor(r + 1.0),
        "nothing": lambda r: torch.zeros(0),
        "nothing, with a shape": lambda r: torch.zeros(3, 0, 2),
        "transposed": lambda r: numbers(r, 5, 3).t(),
        "every second": lambda r: numbers(r, 20)[1::2],
        "part of a row": lambda r: numbers(r, 4, 6)[:, 1:3],
        "channels last": lambda r: numbers(r, 2, 3, 4, 5).to(memory_format=torch.channels_last),
        "with an offset": lambda r: numbers(r, 20)[7:],
        "bfloat16": lambda r: numbers(r, 33, dtype=torch.bfloat16),
        "bool": lambda r: numbers(r, 33) > 2,
        "bool, every second": lambda r: (numbers(r, 33) > 2)[::2],
        "complex": lambda r: complexes(r, 7),
        "complex128 transposed": lambda r: complexes(r, 7, 2).to(torch.complex128).t(),
    }
    for name, make in kinds.items():
        try:
            every_operation(rank, size, make)
            every_reduction(rank, size, make)
        except BaseException as error:
            raise AssertionError(f"{name}: {error}") from error
    # Views that change signs. As outputs torch puts copies in their place, and loses what comes: also with gloo.
    for view in (lambda r: complexes(r, 7).conj(), lambda r: torch._neg_view(numbers(r, 7)),
                 lambda r: complexes(r, 7).conj().imag):
        lists = [torch.zeros_like(view(rank).resolve_conj().resolve_neg()) for _ in range(size)]
        world().allgather([lists], [view(rank)]).wait()
        work = dist.isend(view(rank), (rank + 1) % size) if view(rank).is_contiguous() else None
        if work:
            tensor = torch.zeros_like(lists[0])
            dist.recv(tensor, (rank - 1) % size)
            work.wait()
            equal(tensor, view((rank - 1) % size).clone(), "send of a view that changes signs")
        for r in range(size):
            equal(lists[r], view(r).clone(), "all_gather of a view that changes signs")
    leaf = torch.nn.Parameter(numbers(rank, 7))
    dist.all_reduce(leaf)
    equal(leaf.detach(), sum(numbers(r, 7) for r in range(size)), "a leaf that needs a gradient")
    for shape in ((), (0,)):
        output = torch.zeros((size,) + shape)
        dist.all_gather_into_tensor(output, torch.full((1,) + shape, float(rank)))
        equal(output, torch.stack([torch.full(shape, float(r)) for r in range(size)]), "all_gather_into_tensor")
        output = torch.zeros((1,) + shape)
        dist.reduce_scatter_tensor(output, torch.ones((size,) + shape))
        equal(output, torch.full((1,) + shape, float(size)), "reduce_scatter_tensor")
    factor = torch._C._distributed_c10d._make_nccl_premul_sum([torch.tensor([3.0], dtype=torch.float64)])
    tensor = numbers(rank, 7)
    dist.all_reduce(tensor, factor)
    equal(tensor, 3 * sum(numbers(r, 7) for r in range(size)), "a factor of a wider type")


def refused_tensors(rank, size):
    quantized = torch.quantize_per_tensor(torch.ones(3), 0.5, 0, torch.qint8)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for tensor, kind, word in ((quantized, ValueError, "quantized"),
                               (torch.eye(3).to_sparse_csr(), ValueError, "not strided"),
                               (nested, (NotImplementedError, ValueError), "ested"),  # some are refused by torch itself
                               (torch.ones(3, device="meta"), (NotImplementedError, ValueError), "eta")):
        calls = (lambda: world().broadcast([tensor], dist.distributed_c10d.BroadcastOptions()),
                 lambda: world().allgather([[tensor.clone() for _ in range(size)]], [tensor]),
                 lambda: world().send([tensor], (rank + 1) % size, 0),
                 lambda: world().recv([tensor], (rank + 1) % size, 0))
        for call in calls:
            raises(kind, [word], lambda: call().wait())
    make_factor = torch._C._distributed_c10d._make_nccl_premul_sum
    raises(ValueError, ["PREMUL_SUM", "2 elements"],
           lambda: dist.all_reduce(torch.ones(2), make_factor([torch.ones(2)])))
    raises(ValueError, ["PREMUL_SUM", "complex"],
           lambda: dist.all_reduce(torch.ones(2), make_factor([torch.ones(1, dtype=torch.complex64)])))
    raises(TypeError, [], lambda: world().allreduce([None]))
    # An output whose elements share memory cannot hold the result. This rank says so; the peers have theirs.
    raises(RuntimeError, [], lambda: dist.all_reduce(torch.ones(1).expand(4)))
    tensor = torch.ones(1)
    dist.all_reduce(tensor)  # nothing is broken
    equal(tensor, torch.full((1,), float(size)), "after refusals")


class Tensors(unittest.TestCase):
    def test_odd_ones_arrive_whole(self):
        torch_ranks.run(3, odd_tensors)

    def test_others_are_refused_before_anything_is_sent(self):
        torch_ranks.run(3, refused_tensors)


# ---- Failures --------------------------------------------------------------------------------------

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, k):
        generator = torch.Generator().manual_seed(k)
        return torch.randn(20, generator=generator), k % 3


def training(rank, size, steps, workers, group=None):
    """Trains by DistributedDataParallel on data that `workers` forked processes of each rank make. Returns losses."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 3))
    model = DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = Data()
    sampler = torch.utils.data.distributed.DistributedSampler(data, size, rank, shuffle=False)
    losses = []
    for x, labels in torch.utils.data.DataLoader(data, 8, sampler=sampler, num_workers=workers):
        begun = time.monotonic()
        try:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), labels)
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            error.when, error.begun = time.monotonic(), begun  # start and end of a loader may take seconds
            raise
        losses.append(loss.item())
        if len(losses) == steps:
            return losses


def note_time(path):
    with open(path, "w") as file:
        file.write(str(time.monotonic()))


def is_killed(rank, size, doomed, after_s, path):
    """The doomed rank dies somewhere in its training, while its workers live on for some time.

    The others return when they learned of it, when the kernel told them, which is late, too, on a busy machine, and
    when they began the step that failed.
    """
    training(rank, size, 2, 2)
    pids = [torch.tensor([0]) for _ in range(size)]
    dist.all_gather(pids, torch.tensor([os.getpid()]))
    told = []
    if rank == doomed:
        def die():
            time.sleep(after_s)
            note_time(path)
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Thread(target=die).start()
    else:
        def look(descriptor):
            select.select([descriptor], [], [])
            told.append(time.monotonic())
        watch = threading.Thread(target=look, args=(os.pidfd_open(int(pids[doomed])),))
        watch.start()
    try:
        training(rank, size, 1 << 30, 2)
    except RuntimeError as error:
        when, begun = getattr(error, "when", time.monotonic()), getattr(error, "begun", 0.0)
        watch.join()
        return when, told[0], begun, str(error)


def is_stopped(rank, size, doomed, path):
    """The doomed rank stops, and a child of it lets it go on after 10 s."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=2))
    training(rank, size, 2, 0, group)
    dist.barrier(group=group)
    if rank == doomed:
        if os.fork() == 0:
            time.sleep(10)
            os.kill(os.getppid(), signal.SIGCONT)
            os._exit(0)
        note_time(path)
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        training(rank, size, 1 << 30, 0, group)
    except RuntimeError as error:
        return getattr(error, "when", time.monotonic()), str(error)


class Failures(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gcoll_torch_careless.")
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "then")

    def then(self):
        with open(self.path) as file:
            return float(file.read())

    def test_a_killed_rank_is_named_within_a_second(self):
        for k in range(int(os.environ.get("GCOLL_TORCH_KILLS", "2"))):
            doomed = (2, 0, 3, 1)[k % 4]
            results = torch_ranks.run(4, is_killed, doomed, 0.007 * (k % 11), self.path, dies=(doomed,))
            for rank, result in enumerate(results):
                if rank == doomed:
                    continue
                when, told, begun, text = result
                self.assertIn(f"rank {doomed}", text)
                late = when - max(told, begun, self.then())
                self.assertLess(late, 1.0, f"rank {rank}, kill {k}: {text}")
                if "GCOLL_TORCH_KILLS" in os.environ:
                    print(f"kill {k}: rank {rank}: {1000 * (when - self.then()):.0f} ms, "
                          f"{1000 * late:.0f} in the call, after the kernel's notice")

    def test_a_stopped_rank_is_named_after_the_timeout(self):
        results = torch_ranks.run(3, is_stopped, 1, self.path)
        for rank in (0, 2):
            when, text = results[rank]
            self.assertIn("rank 1", text)
            self.assertLess(when - self.then(), 8.0, text)  # before it goes on
        self.assertIsNotNone(results[1])  # it raises, too, when it goes on

    def test_workers_of_a_loader_disturb_nothing(self):
        self.assertEqual(torch_ranks.run(2, training, 6, 2), torch_ranks.run(2, training, 6, 0))


# ---- Whole programs --------------------------------------------------------------------------------

class Programs(unittest.TestCase):
    """Processes of their own, which end as Python ends."""

    def end(self, name, size=3):
        """Returns status, output and errors of each rank, which must end in time."""
        with tempfile.TemporaryDirectory(prefix="gcoll_torch_careless.") as folder:
            children = [subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), "--rank", name, str(rank), str(size), folder],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(size)]
            deadline = time.monotonic() + LIMIT_S
            results = []
            for child in children:
                try:
                    out, err = child.communicate(timeout=max(0.0, deadline - time.monotonic()))
                    results.append((child.returncode, out, err))
                except subprocess.TimeoutExpired:
                    for each in children:
                        each.kill()
                    self.fail(f"{name}: a rank has not ended in {LIMIT_S} s: {child.communicate()[1]}")
        return results

    def test_an_exception_in_one_rank_ends_the_others(self):
        for rank, (status, _, err) in enumerate(self.end("raises")):
            self.assertEqual(status, 1, err)
            self.assertIn("my fault", err)
            if rank != 1:
                self.assertIn("rank 1", err)

    def test_may_end_without_destroying_their_groups(self):
        for name in ("forgets", "forgets_works"):
            for status, _, err in self.end(name):
                self.assertEqual(status, 0, f"{name}: {err}")
                self.assertNotIn("terminate called", err)


def rank_raises(rank, size):
    group = dist.new_group()
    training(rank, size, 2, 0)
    if rank == 1:
        rank_raises.work = dist.all_reduce(torch.ones(1000), group=group, async_op=True)  # the others never do
        raise RuntimeError("my fault")
    training(rank, size, 1 << 30, 0)


def rank_forgets(rank, size):
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    equal(tensor, torch.full((3,), float(size)), "all_reduce")


def rank_forgets_works(rank, size):
    rank_forgets(rank, size)
    rank_forgets_works.works = [dist.all_reduce(torch.ones(100000), async_op=True) for _ in range(5)]
    rank_forgets_works.works[0].get_future().then(lambda done: done.value())


# ---- Groups ----------------------------------------------------------------------------------------

def descriptors():
    return len(os.listdir("/proc/self/fd"))


def threads():
    return len(os.listdir("/proc/self/task"))


def many_groups(rank, size):
    groups = [dist.new_group() for _ in range(100)]
    for k in list(range(100)) + list(range(99, -1, -1)):
        tensor = torch.tensor([k + rank])
        dist.all_reduce(tensor, group=groups[k])
        equal(tensor, torch.tensor([k * size + sum(range(size))]), f"group {k}")
    for group in groups:
        dist.destroy_process_group(group)
    groups.clear()
    group = None
    gc.collect()
    before = descriptors(), threads()
    for k in range(30):  # one after the other: nothing is left of those that are gone
        group = dist.new_group([0, size - 1])
        if rank in (0, size - 1):
            dist.barrier(group=group)
            dist.destroy_process_group(group)
    group = None
    gc.collect()
    dist.barrier()
    assert descriptors() <= before[0] + 2 and threads() <= before[1] + 1, (before, descriptors(), threads())


def after_the_end(rank, size):
    group, store = world(), dist.distributed_c10d._get_default_store()
    tensor = torch.ones(4)
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    future = work.get_future()
    late = dist.irecv(torch.ones(1), (rank + 1) % size, tag=5)  # no message comes
    dist.barrier()
    dist.destroy_process_group()
    raises((AssertionError, RuntimeError, ValueError), [], lambda: dist.destroy_process_group())
    raises((AssertionError, RuntimeError, ValueError), [], lambda: dist.all_reduce(tensor))
    del group
    gc.collect()
    assert work.wait() and work.is_completed() and work.is_success()
    equal(future.value()[0], torch.full((4,), float(size)), "a future after the end")
    raises(RuntimeError, ["recv"], lambda: late.wait())  # destroyed, or the peer had left before
    again = dist.PrefixStore("again", store)
    dist.init_process_group("gcoll", store=again, rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=100))
    dist.all_reduce(tensor)
    equal(tensor, torch.full((4,), float(size * size)), "a second start")


def leaks(rank, size):
    def resident_kib():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

    def calls(count):
        tensor, lists = torch.ones(64), [torch.ones(64) for _ in range(size)]
        for k in range(count):
            dist.all_reduce(tensor.fill_(1))
            dist.all_gather(lists, tensor)
            dist.all_reduce(tensor, async_op=True).get_future().then(lambda done: done.value()[0]).wait()
            dist.all_reduce_coalesced([tensor, lists[0].fill_(0)])
            dist.isend(tensor, (rank + 1) % size, tag=k)  # dropped
            dist.recv(tensor, (rank - 1) % size, tag=k)
            try:
                dist.all_gather(lists, torch.ones(63))
            except ValueError:
                pass
        dist.barrier()
        gc.collect()

    calls(300)
    before, objects = resident_kib(), len(gc.get_objects())
    calls(2000)  # 10,000 calls and more
    grown = resident_kib() - before
    assert grown < 1024, f"{grown} KiB"
    assert len(gc.get_objects()) - objects < 100


class Groups(unittest.TestCase):
    def test_a_hundred(self):
        torch_ranks.run(4, many_groups)

    def test_that_are_gone_are_refused(self):
        torch_ranks.run(3, after_the_end)

    def test_10000_calls_leak_nothing(self):
        torch_ranks.run(2, leaks)


def main():
    if sys.argv[1:2] != ["--rank"]:
        unittest.main(verbosity=2)
    import gcoll.torch  # noqa: F401
    name, rank, size, folder = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    torch.set_num_threads(1)
    dist.init_process_group("gcoll", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    globals()["rank_" + name](rank, size)


if __name__ == "__main__":
    main()
