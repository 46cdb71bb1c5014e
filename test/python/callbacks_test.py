"""Functions of the caller's that the library calls: reductions that fail, give the wrong thing, or are cut short."""

import asyncio
import gc
import sys
import threading
import time
import traceback
import unittest

try:
    import numpy
except ImportError:
    print("skipped: needs numpy (Debian: python3-numpy)")
    sys.exit(77)

import gcoll

SOON_S = 10.0  # far less than the timeout of run_local, 30 s, also on a busy machine
FORMS = ("run", "start", "await", "prepare")


class Refused(Exception):
    pass


def call(context, form, name, *arguments, **options):
    """Makes a call in one of the forms; returns its result."""
    if form == "run":
        return getattr(context, name)(*arguments, **options)
    if form == "prepare":
        with getattr(context.prepare, name)(*arguments, **options) as operation:
            return operation.run()
    request = getattr(context.start, name)(*arguments, **options)
    if form == "start":
        return request.wait()

    async def wait():
        return await request
    return asyncio.run(wait())


class Failing:
    """Adds, and raises at call number `at`, after the function has spoilt what it could reach."""

    def __init__(self, at=None, error=None):
        self.calls = 0
        self.at = at
        self.error = error or Refused("had enough")
        self.op = gcoll.UserOp(self.add, commutative=True)

    def add(self, a, b):
        self.calls += 1
        if self.calls - 1 == self.at:
            a[...] = -99
            b[...] = -99
            raise self.error
        return a + b

    @property
    def has_failed(self):
        return self.at is not None and self.calls > self.at


class Reductions(unittest.TestCase):
    def refuse(self, size, form, name, bad, at, **options):
        """All ranks reduce; rank `bad` raises. Returns whether it came so far."""
        failing = [Failing(at if rank == bad else None) for rank in range(size)]
        want = sum(numpy.arange(300.0) + 1000 * rank for rank in range(size))
        begun = time.monotonic()
        met = threading.Barrier(size)

        def check_error(error, rank):
            if rank == bad:
                self.assertIs(error, failing[bad].error)
                self.assertIsInstance(error.__context__, gcoll.AbortedError)
                error = error.__context__
            self.assertIsInstance(error, gcoll.AbortedError)
            self.assertEqual(error.culprit, bad)
            self.assertIn("rank %d: options.user_op failed" % bad, error.text)
            self.assertIn("Refused: had enough", error.text)

        def rank(context):
            mine, out = numpy.arange(300.0) + 1000 * context.rank, None
            try:
                if name == "reduce_scatter":
                    mine = numpy.tile(mine, context.size)
                if name == "allreduce_list":
                    out = call(context, form, name, [mine[:7].copy(), mine[7:].copy()], op=failing[context.rank].op,
                               algorithm="ring")
                    out = numpy.concatenate(out)
                else:
                    out = call(context, form, name, mine, op=failing[context.rank].op, algorithm="ring")
            except Exception as error:
                check_error(error, context.rank)
            met.wait(SOON_S)  # one that needs nothing of the bad rank may be done before that fails, and must not leave
            if out is not None:  # a wrong result must not come as success
                numpy.testing.assert_array_equal(out, want)
            self.assertEqual(out is None and context.rank == bad, context.rank == bad and failing[bad].has_failed)
            if failing[bad].has_failed:
                with self.assertRaises(gcoll.AbortedError) as raised:
                    context.barrier()
                self.assertEqual(raised.exception.culprit, bad)

        gcoll.run_local(size, rank, **options)
        self.assertLess(time.monotonic() - begun, SOON_S)
        return failing[bad].has_failed

    def test_that_raise_are_raised_here_and_name_this_rank_to_others(self):
        for transport in ("inproc", "tcp"):
            for form in FORMS:
                for name in ("allreduce", "reduce_scatter", "allreduce_list"):
                    for at in (0, 1):
                        bad = (len(form) + at) % 3
                        failed = self.refuse(3, form, name, bad, at, transport=transport)
                        self.assertTrue(failed or at > 0, (transport, form, name))

    def test_that_raise_on_the_contexts_own_thread(self):
        for form in FORMS:
            self.assertTrue(self.refuse(3, form, "allreduce", 1, 0, transport="tcp", progress_thread=True))

    def test_of_several_buffers_raise_with_no_peer_to_tell(self):
        with gcoll.Context(0, 1) as context:
            failing = Failing(0)
            with self.assertRaises(Refused) as raised:
                context.allreduce_buffers([numpy.ones(3), numpy.ones(3)], op=failing.op)
            self.assertIs(raised.exception, failing.error)
            with self.assertRaises(gcoll.AbortedError):
                context.barrier()

    def test_keep_their_own_chain_of_exceptions(self):
        try:
            raise KeyError("below")
        except KeyError as below:
            error = Refused("above")
            error.__cause__ = below
        with gcoll.Context(0, 1) as context:
            try:
                context.allreduce_buffers([numpy.ones(3), numpy.ones(3)], op=Failing(0, error).op)
            except Refused as raised:
                self.assertIs(raised, error)
        self.assertIsInstance(error.__cause__, KeyError)
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.assertIn("KeyError: 'below'", text)
        self.assertIn("in add", text)  # where it was raised

    def test_exceptions_that_are_not_errors(self):
        for kind in (KeyboardInterrupt, SystemExit, GeneratorExit):
            with gcoll.Context(0, 1) as context:
                with self.assertRaises(kind):
                    context.allreduce_buffers([numpy.ones(3), numpy.ones(3)], op=Failing(0, kind()).op)

    def test_texts_of_any_kind_reach_the_peers(self):
        for text in ("\0 and more", "\udc80 half", "%s %n", "x" * 5000, "line\nline"):
            def rank(context, text=text):
                failing = Failing(0 if context.rank == 1 else None, Refused(text))
                try:
                    context.allreduce(numpy.ones(3), op=failing.op)
                    context.barrier()
                except Refused:
                    return context.rank
                except gcoll.AbortedError as error:
                    self.assertIn("Refused: ", error.text)
                    return None
            self.assertEqual(gcoll.run_local(2, rank), [None, 1])

    def test_an_exception_whose_text_fails_is_raised_all_the_same(self):
        class Nasty(Exception):
            def __str__(self):
                raise ValueError("no text")
        with gcoll.Context(0, 1) as context:
            with self.assertRaises(Nasty):
                context.allreduce_buffers([numpy.ones(3), numpy.ones(3)], op=Failing(0, Nasty()).op)

    def test_of_another_request_do_not_take_this_ones_exception(self):
        def rank(context):
            failing = Failing(0 if context.rank == 0 else None)
            bad = context.start.allreduce(numpy.ones(3), op=failing.op)
            try:
                good = context.start.allreduce(numpy.ones(3), op=Failing().op)
                good.wait()
            except gcoll.AbortedError as error:
                self.assertEqual(error.culprit, 0)
            with self.assertRaises(Refused if context.rank == 0 else gcoll.AbortedError):
                bad.wait()
                context.barrier()
        gcoll.run_local(2, rank)


def on_one(test, function, kind, text, data=None):
    """Reduces two buffers on a single rank; expects an exception."""
    data = numpy.arange(4) if data is None else data
    with gcoll.Context(0, 1) as context:
        with test.assertRaisesRegex(kind, text):
            context.allreduce_buffers([data.copy(), data.copy()], op=function)


class WrongResults(unittest.TestCase):
    def test_of_another_size_are_refused(self):
        on_one(self, lambda a, b: numpy.sum(a + b), ValueError, r"op: gave an array of shape \(\); allowed is \(4,\)")
        on_one(self, lambda a, b: (a + b)[1:], ValueError, r"shape \(3,\)")
        on_one(self, lambda a, b: None, ValueError, "op: gave")
        on_one(self, lambda a, b: numpy.concatenate([a, b]), ValueError, r"shape \(8,\)")

    def test_of_another_kind_are_refused(self):
        on_one(self, numpy.hypot, TypeError, "op: gave elements of type float64; allowed are int64")
        on_one(self, lambda a, b: ["x"] * len(a), TypeError, "op: gave elements of type <U1")
        on_one(self, lambda a, b: a["f0"], TypeError, "op: gave elements of type int64", numpy.zeros(3, "i8,f8"))

    def test_within_a_kind_are_converted(self):
        with gcoll.Context(0, 1) as context:
            data = [numpy.ones(3, "f4"), numpy.full(3, 2, "f4")]
            out = context.allreduce_buffers(data, op=lambda a, b: (a + b).astype("f8"))
            self.assertEqual([out[0].dtype, out[0].tolist()], [numpy.dtype("f4"), [3.0] * 3])
            ones = [numpy.ones(3, "i8"), numpy.ones(3, "i8")]
            out = context.allreduce_buffers(ones, op=lambda a, b: [int(x + y) for x, y in zip(a, b)])
            self.assertEqual(out[0].tolist(), [2] * 3)
            data = [numpy.ones(6), numpy.arange(6.0)]
            out = context.allreduce_buffers(data, op=lambda a, b: numpy.stack([a, b], 1)[:, 1])
            self.assertEqual(out[0].tolist(), list(range(6)))  # a result that is not contiguous

    def test_arrays_may_be_changed_and_kept(self):
        kept = []

        def keep(a, b):
            kept.append((a, b))
            a += b
            return a
        with gcoll.Context(0, 1) as context:
            data = [numpy.arange(1000.0), numpy.ones(1000)]
            inputs = [array.copy() for array in data]
            out = context.allreduce_buffers(data, op=keep)
            for array, before in zip(data, inputs):
                numpy.testing.assert_array_equal(array, before)
            numpy.testing.assert_array_equal(out[1], inputs[0] + 1)
            for array in out:
                array[...] = -1
        del data, out
        gc.collect()
        numpy.testing.assert_array_equal(kept[0][0], inputs[0] + 1)  # no view of memory that is gone
        numpy.testing.assert_array_equal(kept[0][1], inputs[1])


class CutShort(unittest.TestCase):
    """An exception of a signal's handler may come before the first line of a function runs."""

    def cut(self, function):
        def trace(frame, event, _arg):
            if event == "call" and frame.f_code.co_name == "reduce" and "_collectives" in frame.f_code.co_filename:
                sys.settrace(None)
                raise KeyboardInterrupt
        said, hook = [], sys.unraisablehook
        sys.unraisablehook = lambda unraisable: said.append(unraisable.exc_type)
        sys.settrace(trace)
        try:
            function()
        finally:
            sys.settrace(None)
            sys.unraisablehook = hook
        self.assertEqual(said, [KeyboardInterrupt])  # or this test tests nothing

    def test_is_a_failure_and_raises_keyboard_interrupt(self):
        with gcoll.Context(0, 1) as context:
            def reduce():
                with self.assertRaises(KeyboardInterrupt):
                    context.allreduce_buffers([numpy.ones(3), numpy.ones(3)], op=numpy.maximum)
            self.cut(reduce)
            with self.assertRaises(gcoll.AbortedError):
                context.barrier()

    def test_is_a_failure_on_other_threads(self):
        def in_thread():
            with gcoll.Context(0, 1) as context:
                def reduce():
                    with self.assertRaises(gcoll.AbortedError):
                        context.allreduce_buffers([numpy.ones(3), numpy.ones(3)], op=numpy.maximum)
                self.cut(reduce)
            done.append(True)
        done = []
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
        self.assertEqual(done, [True])


# ---- Stores -----------------------------------------------------------------------------------------------


class Keys:
    """A store of two methods. get returns None if there is no such key."""

    def __init__(self):
        self.keys = {}
        self.threads = set()

    def set(self, key, value):
        assert type(key) is str and type(value) is bytes
        self.threads.add(threading.current_thread())
        self.keys[key] = value

    def get(self, key):
        self.threads.add(threading.current_thread())
        return self.keys.get(key)


class Raising(Keys):
    def get(self, key):
        return self.keys[key]


class Waiting(Keys):
    """Like a store of torch.distributed: get waits for the key."""

    def __init__(self):
        super().__init__()
        self.changed = threading.Condition()

    def set(self, key, value):
        with self.changed:
            super().set(key, value)
            self.changed.notify_all()

    def get(self, key):
        with self.changed:
            if not self.changed.wait_for(lambda: key in self.keys, timeout=60):
                raise OSError("the key does not come")
            return self.keys[key]


class Removing(Keys):
    def remove(self, key):
        self.keys.pop(key, None)


def on_store(store, size, function, **options):
    """Runs function(context) in threads that meet in one store; returns results, and exceptions, by rank."""
    results = [None] * size

    def run(rank):
        try:
            with gcoll.Context(rank, size, store, **options) as context:
                results[rank] = function(context)
        except BaseException as error:
            results[rank] = error
    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(1, size)]
    for thread in threads:
        thread.start()
    run(0)  # on the main thread
    for thread in threads:
        thread.join()
    return results


class Stores(unittest.TestCase):
    def test_ranks_meet_in_stores_of_their_own(self):
        for kind in (Keys, Raising, Waiting, Removing):
            store = kind()
            found = on_store(store, 3, lambda context: context.allreduce(numpy.array([context.rank + 1])).tolist())
            self.assertEqual(found, [[6]] * 3)
            self.assertNotIn(threading.main_thread(), store.threads)
            self.assertEqual(kind is Removing, not store.keys)
            store.threads.clear()
            with gcoll.Store.of(kind()) as made:
                view = made.prefix("a")
                view.set("key", bytearray(b"value"))
                self.assertEqual((made.get("a/key", timeout=1), view.get("key", 1)), (b"value", b"value"))
                with self.assertRaises(gcoll.UnsupportedError):
                    made.get("a/key")
                if kind is not Waiting:
                    with self.assertRaises(gcoll.TimeoutError):
                        made.get("none", timeout=0.01)

    def test_stores_of_torch_have_these_methods(self):
        try:
            import torch.distributed as dist
        except ImportError:
            self.skipTest("needs torch")
        self.assertTrue(callable(dist.Store.set) and callable(dist.Store.get))

    def test_exceptions_are_the_cause(self):
        class Broken(Keys):
            def set(self, key, value):
                raise Refused("the disk is full")
        store = Broken()
        error = on_store(store, 2, None, timeout=2)[0]
        self.assertIsInstance(error, gcoll.IoError)
        self.assertIn("Refused: the disk is full", error.text)
        self.assertIsInstance(error.__cause__, Refused)
        with gcoll.Store.of(store) as made:
            with self.assertRaisesRegex(gcoll.IoError, "Store.set: store: Refused: the disk is full") as raised:
                made.set("key", b"")
            self.assertIsInstance(raised.exception.__cause__, Refused)

    def test_what_they_give_is_checked(self):
        class Odd(Keys):
            gives = None

            def get(self, key):
                return self.gives
        store = Odd()
        with gcoll.Store.of(store) as made:
            for gives, text in (("text", "get: gave an object of type str; allowed are bytes"), (7, "of type int"),
                                (b"x" * 65537, "gave 65537 bytes; allowed are up to 65536")):
                store.gives = gives
                with self.assertRaisesRegex(gcoll.IoError, text):
                    made.get("key", timeout=1)
            store.gives = memoryview(b"fine")
            self.assertEqual(made.get("key", timeout=1), b"fine")
            store.gives = b""
            self.assertEqual(made.get("key", timeout=1), b"")
        store.gives = b"nonsense"  # as the data of other ranks
        for error in on_store(store, 2, None, timeout=2):
            self.assertIsInstance(error, gcoll.Error)

    def test_exceptions_that_are_no_errors_are_raised_as_themselves(self):
        for kind in (KeyboardInterrupt, SystemExit):
            class Leaving(Keys):
                def get(self, key):
                    raise kind()
            with gcoll.Store.of(Leaving()) as made:
                with self.assertRaises(kind):
                    made.get("key", timeout=1)

    def test_objects_that_are_no_stores_are_refused(self):
        for target in ({}, 7, [], object()):
            with self.assertRaisesRegex(TypeError, "set\\(key, value\\) and get\\(key\\)"):
                gcoll.Context(0, 2, target)
        with self.assertRaisesRegex(TypeError, "target: is of type dict"):
            gcoll.Store.of({})

    def test_stores_that_are_dropped_leave_nothing(self):
        import weakref
        for _ in range(3):
            target = Keys()
            alive = weakref.ref(target)
            made = gcoll.Store.of(target)
            made.set("key", b"1")
            made.close()
            del target, made
            gc.collect()
            self.assertIsNone(alive())


if __name__ == "__main__":
    unittest.main()
