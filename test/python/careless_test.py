"""What careless programs do: Ctrl-C at any moment, forks, exits with calls in flight, calls from reductions, requests
that two threads share, arrays that lie about themselves.

The functions rank_NAME are what processes run: this file is started again with --rank NAME."""

import gc
import os
import signal
import sys
import tempfile
import threading
import time
import unittest

try:
    import numpy
except ImportError:
    print("skipped: needs numpy (Debian: python3-numpy)")
    sys.exit(77)

import gcoll
from gcoll._requests import Claim
from jobs_test import Job, say

SOON_S = 30.0  # far less than the timeout of these contexts, also on a busy machine
TIMEOUT_S = 300.0
FEW = "GCOLL_TEST_SANITIZED" in os.environ and "GCOLL_TEST_WHOLE" not in os.environ  # each is a few slow processes


class Processes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.store = "file:" + self.folder.name

    def tearDown(self):
        self.folder.cleanup()

    def job(self, name, size=2, **variables):
        return Job(name, size, self.store, file=os.path.abspath(__file__), **variables)


class CtrlC(Processes):
    def interrupt(self, call, other="AbortedError"):
        """Rank 0 makes a call in which rank 1 never joins, and gets Ctrl-C."""
        begun = time.monotonic()
        job = self.job("interrupted", CALL=call)
        for rank in range(2):
            self.assertEqual(job.line(rank), "ready")
        job.processes[0].stdin.write(b"\n")  # only now: rank 1 might still be in its barrier, and serve an access
        job.processes[0].stdin.flush()
        self.assertEqual(job.line(0), "calls")
        job.processes[0].send_signal(signal.SIGINT)
        self.assertEqual(job.line(0), "KeyboardInterrupt", call)
        results = job.end()
        self.assertEqual([status for status, _, _ in results], [0, 0], (call, results))
        self.assertEqual(results[1][1], [other], (call, results))
        self.assertLess(time.monotonic() - begun, SOON_S, call)

    def test_ends_collectives(self):
        for call in ("allreduce", "reduction") if FEW else ("allreduce", "prepared", "barrier", "reduction", "objects"):
            self.interrupt(call)

    def test_ends_messages_and_accesses(self):
        for call in ("recv", "get") if FEW else ("recv", "recv_any", "get"):
            self.interrupt(call)

    def test_ends_creation_by_a_store_written_in_python(self):
        job = self.job("alone", size=1)
        self.assertEqual(job.line(0), "ready")
        begun = time.monotonic()
        job.processes[0].send_signal(signal.SIGINT)
        self.assertEqual(job.end()[0][:2], (0, ["KeyboardInterrupt"]))
        self.assertLess(time.monotonic() - begun, SOON_S)


def rank_interrupted():
    call = os.environ["CALL"]
    data = numpy.ones(1000)
    with gcoll.Context.from_env(timeout=TIMEOUT_S) as context, context.region(data) as region:
        keys = context.allgather_object(region.key)
        prepared = context.prepare.allreduce(data)
        context.barrier()
        try:
            say("ready")
            if context.rank == 1:
                sys.stdin.read()
                context.recv(data, 0)  # which makes progress, so that the abort arrives
                return
            sys.stdin.readline()
            say("calls")
            if call == "allreduce":
                context.allreduce(data)
            elif call == "prepared":
                prepared.run()
            elif call == "barrier":
                context.barrier()
            elif call == "reduction":
                context.allreduce(data, op=numpy.maximum)
            elif call == "objects":
                context.allgather_object(1)
            elif call == "recv":
                context.recv(data, 1)
            elif call == "recv_any":
                context.recv(data)
            else:
                context.get(keys[1], data)  # whose owner makes no calls
        except BaseException as error:
            say(type(error).__name__)
            if context.rank == 0:  # tells rank 1 before it leaves
                context.abort("Ctrl-C")
                try:
                    context.barrier()
                except gcoll.AbortedError:
                    pass


class Silent:
    """A store in which no other rank ever comes."""

    def __init__(self):
        self.is_asked = False

    def set(self, key, value):
        pass

    def get(self, key):
        if not self.is_asked:
            say("ready")
        self.is_asked = True


def rank_alone():
    try:
        gcoll.Context(0, 2, Silent(), timeout=TIMEOUT_S)
    except BaseException as error:
        say(type(error).__name__)


class Interrupted(unittest.TestCase):
    """An exception of a signal's handler between the start of a call and the return of its request."""

    def test_arrays_of_the_call_are_kept_until_it_has_ended(self):
        def rank(context):
            def trace(frame, event, _arg):
                if event == "call" and frame.f_code is gcoll.Request.__init__.__code__:
                    sys.settrace(None)
                    raise KeyboardInterrupt
            for name, arguments in (("allreduce", ()), ("recv", (1 - context.rank,)), ("send", (1 - context.rank,))):
                data = numpy.full(100000, 1.0)
                begun = time.monotonic()
                sys.settrace(trace)
                try:
                    with self.assertRaises(KeyboardInterrupt):
                        getattr(context.start, name)(data, *arguments)
                finally:
                    sys.settrace(None)
                self.assertEqual(len(context._core.dropped_requests), 1, name)
                kept = sys.getrefcount(data)
                other = getattr(context, {"send": "recv", "recv": "send"}.get(name, "barrier"))
                if name == "allreduce":
                    other()
                else:
                    other(numpy.ones(100000), *arguments)
                while context._core.dropped_requests:
                    context.barrier()
                    context._core.end_dropped_requests()
                    self.assertLess(time.monotonic() - begun, SOON_S)
                context.barrier()
                self.assertLess(sys.getrefcount(data), kept, name)
        gcoll.run_local(2, rank)


    def test_calls_that_were_left_hold_up_neither_others_nor_close(self):
        def rank(context):
            def leave(method, call):
                def trace(frame, event, _arg):
                    if event == "call" and frame.f_code is method.__code__:
                        sys.settrace(None)
                        raise KeyboardInterrupt
                sys.settrace(trace)
                try:
                    with self.assertRaises(KeyboardInterrupt):
                        call()
                finally:
                    sys.settrace(None)
            peer = 1 - context.rank
            for method in (Claim.__enter__, Claim.__exit__):
                data = numpy.zeros(10)
                request = context.start.recv(data, peer)
                leave(method, request.test)
                context.send(numpy.ones(10), peer)
                request.wait()
                self.assertEqual(data.tolist(), [1.0] * 10)
            request = context.start.recv(data, peer)
            context.send(numpy.ones(10), peer)
            leave(Claim.__exit__, request.wait)  # and the context is closed so
            context.barrier()
        gcoll.run_local(2, rank)


class Exits(Processes):
    def end(self, name, **variables):
        begun = time.monotonic()
        results = self.job(name, **variables).end()
        self.assertLess(time.monotonic() - begun, SOON_S)
        return results

    def test_with_a_daemon_thread_inside_a_call(self):
        for progress_thread in ("", "1"):
            results = self.end("daemon", THREAD=progress_thread)
            self.assertEqual([status for status, _, _ in results], [0, 0], results)
            self.assertEqual(results[1][1], [["PeerError", 0]], results)

    def test_with_reductions_in_python_in_flight(self):
        for progress_thread in ("", "1"):
            for status, _, error in self.end("reducing", THREAD=progress_thread):
                self.assertEqual(status, 0, error)

    def test_by_an_exception_outside_of_with(self):
        for status, _, error in self.end("raising", THREAD="1"):
            self.assertEqual(status, 1)
            self.assertRegex(error, "RuntimeError: my fault|PeerError")
            self.assertNotIn("Fatal", error)


def rank_daemon():
    context = gcoll.Context.from_env(timeout=TIMEOUT_S, progress_thread=bool(os.environ["THREAD"]),
                                     log=lambda level, text: None)
    context.barrier()
    if context.rank == 0:
        inside = threading.Event()

        def receive():
            inside.set()
            context.recv(numpy.zeros(1), 1)
        threading.Thread(target=receive, daemon=True).start()
        inside.wait()
        sys.exit(0)
    try:
        context.recv(numpy.zeros(1), 0)
    except gcoll.Error as error:
        say([type(error).__name__, error.culprit])


def rank_reducing():
    context = gcoll.Context.from_env(timeout=TIMEOUT_S, progress_thread=bool(os.environ["THREAD"]),
                                     log=lambda level, text: None)
    context.barrier()

    def add(a, b):
        time.sleep(0.01)
        return a + b
    rank_reducing.requests = []
    try:
        for _ in range(5):
            rank_reducing.requests.append(context.start.allreduce(numpy.ones(100000), op=add))
    except gcoll.PeerError:
        pass  # the other rank has ended already


def rank_raising():
    context = gcoll.Context.from_env(timeout=TIMEOUT_S, progress_thread=bool(os.environ["THREAD"]),
                                     log=lambda level, text: None)
    context.barrier()
    context.start.recv(numpy.zeros(1), 1 - context.rank)
    raise RuntimeError("my fault")


class Forks(Processes):
    def test_a_child_can_neither_use_nor_harm_its_parents_context(self):
        for progress_thread in ("", "1"):
            results = self.job("forking", THREAD=progress_thread).end()
            for status, said, error in results:
                self.assertEqual((status, error), (0, ""))
                self.assertEqual(said, [["StateError"] * 5, [0, 2.0]])


def rank_forking():
    with gcoll.Context.from_env(timeout=TIMEOUT_S, progress_thread=bool(os.environ["THREAD"])) as context:
        data = numpy.ones(100000)
        operation = context.prepare.allreduce(data)
        request = context.start.allreduce(data, op=numpy.add)
        child = os.fork()
        if child == 0:
            said = []
            for use in (lambda: context.allreduce(data), request.wait, operation.run, lambda: context.start.barrier(),
                        lambda: context.send(data, 1 - context.rank)):
                try:
                    use()
                    said.append("nothing")
                except gcoll.Error as error:
                    said.append(type(error).__name__)
            say(said)
            del request, operation
            gc.collect()
            context.close()
            sys.stdout.flush()
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        say([status, float(request.wait()[0])])
        context.barrier()


class Calls(unittest.TestCase):
    def test_from_inside_a_reduction_are_refused(self):
        for use in (lambda context: context.barrier(), lambda context: context.start.barrier(),
                    lambda context: context.allreduce(numpy.ones(1)), lambda context: context.close(),
                    lambda context: context.send(b"1", 1 - context.rank)):
            def rank(context, use=use):
                def reduce(a, b):
                    use(context)
                    return a + b
                try:
                    context.allreduce(numpy.ones(50), op=gcoll.UserOp(reduce, True), algorithm="ring")
                except gcoll.StateError:
                    return "refused"
                except gcoll.AbortedError:
                    return "aborted"  # the other rank was refused first
            for progress_thread in (False, True):
                found = gcoll.run_local(2, rank, progress_thread=progress_thread)
                self.assertIn("refused", found)
                self.assertLessEqual(set(found), {"refused", "aborted"})

    def test_of_a_request_by_two_threads_lose_no_result(self):
        def rank(context):
            for _ in range(50):
                request, found = context.start.allreduce(numpy.ones(2000)), []

                def wait():
                    try:
                        found.append(float(request.wait()[0]))
                    except gcoll.StateError:
                        found.append(None)
                threads = [threading.Thread(target=wait) for _ in range(3)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertLessEqual(set(found), {2.0, None})
                self.assertEqual(float(request.wait()[0]), 2.0)
        gcoll.run_local(2, rank, progress_thread=True)


class Lies(unittest.TestCase):
    """Objects whose array interface says what cannot be."""

    class Liar:
        def __init__(self, **changes):
            self.array = numpy.zeros(4)
            self.__array_interface__ = dict(self.array.__array_interface__, **changes)

    def test_are_refused_before_memory_is_touched(self):
        with gcoll.Context(0, 1) as context:
            for changes in ({"shape": (-4,)}, {"shape": (2, -2)}, {"shape": ("x",)}, {"shape": 4}, {"shape": (1.5,)},
                            {"shape": (1 << 62, 4)}, {"typestr": ""}, {"typestr": "<f"}, {"typestr": "<f-8"},
                            {"typestr": "<f0"}, {"typestr": 8}, {"data": (None, False)}, {"data": ("x", False)},
                            {"data": (0, False)}, {"data": (-8, False)}, {"strides": (-8,)}, {"strides": (8, 8)},
                            {"strides": ("x",)}, {"data": ()}):
                with self.assertRaises((TypeError, ValueError), msg=str(changes)):
                    context.broadcast(self.Liar(**changes))
                with self.assertRaises((TypeError, ValueError), msg=str(changes)):
                    context.allreduce(self.Liar(**changes))
            context.broadcast(self.Liar())
            for changes in ({"shape": (0,), "data": (0, False)}, {"shape": (2, 0)}):
                context.broadcast(self.Liar(**changes))

    def test_of_shapes_that_differ_are_no_matter(self):
        with gcoll.Context(0, 1) as context:
            for array in (numpy.zeros((3, 4))[:, 1:3], numpy.zeros(8)[::2], numpy.zeros(8)[::-1],
                          numpy.zeros((3, 4)).T, numpy.broadcast_to(numpy.zeros(1), (4,))):
                with self.assertRaisesRegex(ValueError, "is not C-contiguous|is read-only"):
                    context.broadcast(array)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        globals()["rank_" + sys.argv[2]]()
    else:
        unittest.main()
