"""Jobs of several processes on this host: stores, launchers' variables, dead ranks, Ctrl-C, leaks, the benchmark.

The functions rank_NAME are what the processes run: this file is started again with --rank NAME."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import numpy
except ImportError:
    print("skipped: needs numpy (Debian: python3-numpy)")
    sys.exit(77)

import gcoll

LIMIT_S = 200  # for a machine that is busy with other work
SANITIZED = "GCOLL_TEST_SANITIZED" in os.environ
# Every survivor learns of a death within a second. A machine that is busy with other work may need another try.
LEARN_S, LEARN_BUSY_S, TRIES = (5.0 if SANITIZED else 1.0), 10.0, 3
LEAK_KIB = 1e6 if SANITIZED else 1024  # sanitizers keep what was freed
# A shell's job in the background begins with Ctrl-C ignored, and so would the ranks.
signal.signal(signal.SIGINT, signal.default_int_handler)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Job:
    """Processes that run rank_NAME, each with its rank as the variables of a launcher say it."""

    def __init__(self, name, size, store, file=__file__, **variables):
        self.processes = []
        for rank in range(size):
            environment = dict(os.environ, GCOLL_RANK=str(rank), GCOLL_SIZE=str(size), GCOLL_STORE=store,
                               **variables)
            self.processes.append(subprocess.Popen([sys.executable, "-B", file, "--rank", name],
                                                   env=environment, stdin=subprocess.PIPE,
                                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def line(self, rank):
        """The next line that a rank prints, as it was given to say()."""
        line = self.processes[rank].stdout.readline()
        if not line:
            raise AssertionError("rank %d ended: %s" % (rank, self.processes[rank].stderr.read().decode()))
        return json.loads(line)

    def end(self):
        """Waits for all; returns [(exit status, what they said, errors)]."""
        results = []
        try:
            for process in self.processes:
                out, error = process.communicate(timeout=LIMIT_S)
                results.append((process.returncode, [json.loads(line) for line in out.splitlines()],
                                error.decode()))
        finally:
            for process in self.processes:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
        return results


def say(value):
    print(json.dumps(value), flush=True)


class Jobs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.store = "file:" + self.folder.name

    def tearDown(self):
        self.folder.cleanup()

    def all_good(self, job):
        results = job.end()
        for rank, (status, _, error) in enumerate(results):
            self.assertEqual((status, error), (0, ""), "rank %d" % rank)
        return [said for _, said, _ in results]

    def end_well(self, job, left):
        """Ends the input of the ranks that are left, which then leave."""
        for rank in left:
            job.processes[rank].stdin.close()
            job.processes[rank].stdin = None
        results = job.end()
        for rank in left:
            self.assertEqual(results[rank], (0, [], ""), rank)

    def test_numpy_over_stores(self):
        for store in (self.store, "tcp://127.0.0.1:%d" % free_port()):
            said = self.all_good(Job("numpy", 4, store))
            self.assertEqual(said, [[[10.0, 4.0]]] * 4)

    def test_torchruns_variables(self):
        said = self.all_good(Job("torchrun", 2, self.store))
        self.assertEqual(said, [[["torchrun", 0, 2]], [["torchrun", 1, 2]]])

    def test_a_killed_rank_is_named_within_a_second(self):
        for form in ("run", "start", "prepare", "await"):
            took = [self.kill_one_of_four(form, "first")]
            while took[-1] >= LEARN_S and len(took) < TRIES:
                took.append(self.kill_one_of_four(form, "try%d" % len(took)))
            self.assertLess(min(took), LEARN_S, form)
            self.assertLess(max(took), LEARN_BUSY_S, form)

    def kill_one_of_four(self, form, folder):
        """Returns the time until the last survivor had its exception."""
        job = Job("survive", 4, "%s/%s-%s" % (self.store, form, folder), FORM=form)
        for rank in range(4):
            self.assertEqual(job.line(rank), "ready")
        job.processes[2].kill()
        killed = time.monotonic()  # the clock of all processes of this host
        results, took = job.end(), 0.0
        for rank in (0, 1, 3):
            status, said, error = results[rank]
            self.assertEqual((status, error), (0, ""), (form, rank))
            (kind, culprit, operation, text, at), = said
            self.assertEqual((kind, culprit, operation), ("PeerError", 2, "allreduce"), (form, rank, text))
            self.assertIn("rank 2", text)
            took = max(took, at - killed)
        return took

    def test_survivors_shrink_and_repeat_the_call(self):
        """Two of five ranks are killed, one after the other; each time the others repeat with exact results."""
        job, left = Job("shrink", 5, self.store), [0, 1, 2, 3, 4]
        for rank in left:
            self.assertEqual(job.line(rank), [[0, 1, 2, 3, 4], 10.0, []])
        for victim, place in ((3, 3), (0, 0)):
            job.processes[victim].kill()
            left.remove(victim)
            for rank in left:
                self.assertEqual(job.line(rank), [left, float(sum(left)), [place]])
        self.end_well(job, left)

    def test_a_newcomer_replaces_a_killed_rank(self):
        """Of three ranks one is killed, and a newcomer comes; then for the newcomer, too. Sums are exact."""
        job, left = Job("grow", 3, self.store), [0, 1, 2]
        for rank in left:
            self.assertEqual(job.line(rank), [3, 3.0, list(range(3))])
        for victim in (1, 3):
            job.processes[victim].kill()
            left.remove(victim)
            for rank in left:  # which go on without it
                self.assertEqual(job.line(rank), [2, 2.0, [0, 1 if victim == 3 else 2]])
            newcomer = Job("newcomer", 1, self.store)
            job.processes += newcomer.processes
            left.append(len(job.processes) - 1)
            for rank in left:
                expected = [3, 3.0, [0, 1, None]] if rank < 3 else [3, 3.0]
                self.assertEqual(job.line(rank)[:len(expected)], expected)
        self.end_well(job, left)

    def test_a_newcomer_waits_no_longer_than_its_timeout(self):
        with self.assertRaisesRegex(gcoll.TimeoutError, "was not admitted"):
            gcoll.Context.join(self.store, timeout=0.3)

    def test_grow_and_join_name_what_is_wrong(self):
        with gcoll.Context(0, 1, recovery=True) as context, gcoll.Store(self.store) as store:
            self.assertIsNone(context.grow(store))
            self.assertIsNone(context.grow(self.store, job="another", most=1, timeout=1))
            with self.assertRaisesRegex(ValueError, "most"):
                context.grow(store, most=17)
            with self.assertRaisesRegex(gcoll.InvalidError, "options.store"):
                context.grow(None)
            with self.assertRaisesRegex(gcoll.InvalidError, "store"):
                gcoll.Context.join(None)
            with self.assertRaisesRegex(TypeError, "rank"):
                gcoll.Context.join(store, rank=1)
            with self.assertRaisesRegex(TypeError, "store: is of type int"):
                context.grow(3)

    def test_a_majority_goes_on(self):
        job = Job("majority", 3, self.store)
        for rank in range(3):
            self.assertEqual(job.line(rank), "ready")
        job.processes[1].kill()
        results = job.end()
        for rank in (0, 2):
            self.assertEqual(results[rank], (0, [["PeerError", 1, [0, 2], [1]]], ""), rank)

    def test_a_minority_is_refused(self):
        job = Job("minority", 3, self.store)
        for rank in range(3):
            self.assertEqual(job.line(rank), "ready")
        job.processes[1].kill()
        job.processes[2].kill()
        self.assertEqual(job.end()[0], (0, ["only 1 of 3 ranks are left"], ""))

    def test_an_exception_reaches_the_other_ranks(self):
        results = Job("raise", 3, self.store).end()
        self.assertEqual(results[1][0], 1)
        self.assertIn("RuntimeError: my fault", results[1][2])
        for rank in (0, 2):
            self.assertEqual(results[rank][1], [["AbortedError", 1, True]], results[rank])

    def test_ctrl_c_ends_a_wait(self):
        job = Job("wait", 2, self.store)
        for rank in range(2):
            self.assertEqual(job.line(rank), "ready")
        job.processes[0].send_signal(signal.SIGINT)
        results = job.end()
        self.assertEqual(results[0][1], ["KeyboardInterrupt"], results[0])
        self.assertEqual(results[1][1], ["AbortedError"], results[1])

    def test_a_program_may_end_without_close(self):
        self.assertEqual(self.all_good(Job("forget", 2, self.store)), [[2.0], [2.0]])

    def test_10000_calls_leak_nothing(self):
        for (memory_kib, objects, requests, operations), in self.all_good(Job("leak", 2, self.store)):
            self.assertLess(memory_kib, LEAK_KIB)  # less than 100 bytes a call
            self.assertLess(objects, 200)
            self.assertEqual((requests, operations), (0, 0))

    def test_bench(self):
        for arguments in (["--local", "2", "--bytes", "4:4Ki:x32", "--seconds", "0.05"],
                          ["--local", "3", "--collective", "allgather", "--bytes", "48", "--seconds", "0.05",
                           "--form", "prepare", "--type", "float64", "--json"],
                          ["--local", "2", "--collective", "alltoall", "--bytes", "64", "--seconds", "0.05",
                           "--form", "start"]):
            result = subprocess.run([sys.executable, "-B", "-m", "gcoll.bench"] + arguments, timeout=LIMIT_S,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual((result.returncode, result.stderr.decode()), (0, ""))
            if "--json" in arguments:
                rows = [json.loads(line) for line in result.stdout.splitlines()]
                self.assertEqual([(row["bytes"], row["wrong"]) for row in rows], [(48, 0)])
                self.assertGreater(rows[0]["p50_us"], 0)
            else:
                self.assertIn("every element of every result was right", result.stdout.decode())
        result = subprocess.run([sys.executable, "-B", "-m", "gcoll.bench", "--local", "2", "--bytes", "x"],
                                timeout=LIMIT_S, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, 2)
        self.assertIn("--bytes", result.stderr.decode())


# ---- What the ranks run -----------------------------------------------------------------------------------


def rank_numpy():
    with gcoll.Context.from_env() as context:
        total = context.allreduce(numpy.array([context.rank + 1.0, 1.0]))
        say(total.tolist())


def rank_torchrun():
    rank, size, store = (os.environ.pop(name) for name in ("GCOLL_RANK", "GCOLL_SIZE", "GCOLL_STORE"))
    os.environ.update(RANK=rank, WORLD_SIZE=size, GCOLL_STORE=store)
    found = gcoll.environment()
    with gcoll.Context(found.rank, found.size, found.store) as context:
        context.barrier()
        say([found.source, context.rank, context.size])


def rank_survive():
    import asyncio
    form = os.environ["FORM"]
    data = numpy.ones(100)

    async def wait(request):
        return await request

    with gcoll.Context.from_env(progress_thread=form == "await") as context:
        prepared = context.prepare.allreduce(data)
        context.allreduce(data)
        context.barrier()
        say("ready")
        if context.rank == 2:
            sys.stdin.read()  # until it is killed
        try:
            while True:
                if form == "run":
                    context.allreduce(data)
                elif form == "start":
                    context.start.allreduce(data).wait()
                elif form == "prepare":
                    prepared.run()
                else:
                    asyncio.run(wait(context.start.allreduce(data)))
        except gcoll.Error as error:
            say([type(error).__name__, error.culprit, error.operation, error.text, time.monotonic()])
        sys.stdin.read()  # so that the death of no other rank is noticed


def rank_shrink():
    """Sums until standard input ends on a rank. Says members, sum and failed ranks when there are new members."""
    import select
    context = gcoll.Context.from_env(recovery=True)
    members, failed, new = list(range(context.size)), [], True
    own = context.rank
    while True:
        try:
            total, well = float(context.allreduce(numpy.full(1000, float(own)))[999]), True
        except gcoll.Error:
            well = False
        told = bool(select.select([sys.stdin], [], [], 0)[0])
        bits = context.agree(well | (not told) << 1).bits
        if not bits & 1:
            survivors = context.shrink()
            failed = context.failed()
            members = [members[survivors.parent_rank(rank)] for rank in range(survivors.size)]
            context.close()
            context, new = survivors, True
            continue
        if new:
            say([members, total, failed])
        new = False
        if not bits & 2:
            break
    context.close()


def rank_grow():
    train(gcoll.Context.from_env(recovery=True, timeout=LIMIT_S))


def rank_newcomer():
    train(gcoll.Context.join(os.environ["GCOLL_STORE"], timeout=LIMIT_S))


def train(context):
    """Sums ones until standard input ends on a rank; grows before each call, or shrinks if one has failed. Says size,
    sum and the ranks of the context before when there is a new one."""
    import select
    old, new = list(range(context.size)), True
    store = gcoll.Store(os.environ["GCOLL_STORE"])
    while True:
        try:
            total, well = float(context.allreduce(numpy.ones(1000))[999]), True
        except gcoll.Error:
            well = False
        told = bool(select.select([sys.stdin], [], [], 0)[0])
        bits = context.agree(well | (not told) << 1).bits
        if bits & 1 and new:
            say([context.size, total, old])
            new = False
        if not bits & 2:
            break
        time.sleep(0.01)  # leaves processors to newcomers that start
        following = context.grow(store) if bits & 1 else context.shrink()
        if following is not None:
            old, new = [following.parent_rank(rank) for rank in range(following.size)], True
            context.close()
            context = following
    context.close()


def rank_majority():
    with gcoll.Context.from_env(recovery=True) as context:
        context.barrier()
        say("ready")
        if context.rank == 1:
            sys.stdin.read()  # until it is killed
        try:
            context.barrier()
        except gcoll.Error as error:
            with context.shrink(majority=True, timeout=20) as survivors:
                old = [survivors.parent_rank(rank) for rank in range(survivors.size)]
                survivors.barrier()
                say([type(error).__name__, error.culprit, old, context.failed()])


def rank_minority():
    with gcoll.Context.from_env(recovery=True) as context:
        context.barrier()
        say("ready")
        if context.rank > 0:
            sys.stdin.read()  # until it is killed
        try:
            context.barrier()
        except gcoll.Error:
            try:
                context.shrink(majority=True, timeout=20)
            except gcoll.PeerError as error:
                say(error.text.split(":")[-1].split(",")[0].strip())


def rank_raise():
    with gcoll.Context.from_env() as context:
        context.barrier()  # else others may still be in from_env
        if context.rank == 1:
            raise RuntimeError("my fault")
        try:
            context.allreduce(numpy.ones(3))
        except gcoll.Error as error:
            say([type(error).__name__, error.culprit, "RuntimeError: my fault" in error.text])


def rank_wait():
    try:
        with gcoll.Context.from_env() as context:
            context.barrier()
            request = context.start.recv(numpy.zeros(1), source=1 - context.rank)
            say("ready")
            request.wait()
    except BaseException as error:
        say(type(error).__name__)


def rank_forget():
    context = gcoll.Context.from_env(progress_thread=True, log=lambda level, text: None)
    say(float(context.allreduce(numpy.ones(1))[0]))
    rank_forget.context = context


def resident_kib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def rank_leak():
    import gc
    data, out = numpy.ones(64), numpy.zeros(64)
    with gcoll.Context.from_env() as context:
        def calls(count):
            for k in range(count):
                context.allreduce(data, out)
                context.allgather(b"1234")
                context.start.allreduce(data).wait()
                with context.prepare.broadcast(out) as operation:
                    operation.run()
                context.prepare.allreduce(data, out)  # dropped
                try:
                    context.allreduce(data, numpy.zeros(3))
                except ValueError:
                    pass
                try:
                    context.allreduce(data, algorithm="none such")
                except gcoll.InvalidError:
                    pass
                if k % 8 == 0:
                    context.allreduce(data, op=numpy.maximum)
                    context.allreduce_list([data, out])
                    context.broadcast_object({"k": 1})
                    context.start.recv(out, 1 - context.rank)  # dropped
                    context.send(data, 1 - context.rank)
            gc.collect()

        calls(300)
        before, objects = resident_kib(), len(gc.get_objects())
        calls(200 if SANITIZED else 2000)  # 10,000 calls and more
        say([resident_kib() - before, len(gc.get_objects()) - objects,
             len(context._core.requests) + max(0, len(context._core.dropped_requests) - 2),
             len(context._core.operations)])
        context.barrier()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        globals()["rank_" + sys.argv[2]]()
    else:
        unittest.main()
