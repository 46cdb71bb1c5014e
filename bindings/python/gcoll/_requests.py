"""Requests: collectives and messages in flight. Operations: collectives that are prepared once and run often."""

import asyncio
import os
import sys
import threading
import time
from ctypes import byref, c_int, c_uint32, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, Generator, List, NamedTuple, Optional, Sequence, Tuple

from ._errors import Error, StateError, Status, TimeoutError, check, error_of
from ._library import api

if TYPE_CHECKING:
    from ._context import Context

SLICE_MS = 100      # a wait returns to Python so often, so that Ctrl-C is heeded
_POLL_S = 0.001      # how often `await` looks on a context without a progress thread
_POLL_STEP_S = 5e-5


def milliseconds(timeout: Optional[float], name: str, unlimited: bool = True) -> int:
    """A time limit in seconds as the library takes it. None: 0, the default."""
    if timeout is None:
        return 0
    if unlimited and timeout == float("inf"):
        return -1
    try:
        ms = int(timeout * 1000 + 0.999)
    except (TypeError, ValueError, OverflowError):
        ms = 0
    if not 1 <= ms <= 86400000:
        raise ValueError("%s: is %r; allowed are seconds up to 86400%s, and None" %
                         (name, timeout, ", math.inf" if unlimited else ""))
    return ms


_MAIN_THREAD = threading.main_thread().ident


def takes_signals() -> bool:
    """Whether handlers of signals run on this thread: it must not stay in the library for long."""
    return threading.get_ident() == _MAIN_THREAD


def finish(context: "Context", handle: c_void_p) -> int:
    """Waits for a request that is in no Request, and returns its status. Returns to Python now and then, where
    handlers of signals run and may raise an exception."""
    while True:
        if not context._core.handle:
            raise StateError("the context was closed before the call had ended", Status.STATE)
        status = int(api.gcoll_request_wait_for(byref(handle), SLICE_MS))
        if handle.value is None:
            return status
        if status == Status.STATE and not api.gcoll_context_health(context._core.handle):
            time.sleep(_POLL_S)  # another thread is inside the context, against the rules
        elif status not in (Status.OK, Status.TIMEOUT):
            return status


def own_error(keep: Any, failure: Optional[Error] = None) -> Optional[BaseException]:
    """The exception that the caller's own operation (UserOp) raised, of a call with what it keeps. failure: the
    library's error, if the call failed; it becomes the context of the exception."""
    while isinstance(keep, tuple) and keep:
        keep = keep[-1]
    bound = getattr(keep, "bound", None)
    if bound is None or failure is not None and failure.status != Status.ABORTED:
        return None
    error: Optional[BaseException] = bound.take_error(failure is not None)
    if error is not None and failure is not None:
        first = error  # what the function's exception has as context stays
        while first.__context__ is not None and first.__context__ is not error:
            first = first.__context__
        first.__context__ = failure
    return error


class Claim:
    """Of a request or operation, by a thread that is inside a call on it. The library would crash if another thread
    ended it meanwhile.

    A signal's handler may raise between two lines, so that the call is left and its claim stays. Such a claim does not
    count: the call that made it is no longer on its thread's stack."""
    __slots__ = ("_claimed", "_frame", "_inside", "_thread")

    def __init__(self, owner: Any, context: "Context", name: str) -> None:
        self._inside, self._claimed = context._core.inside, id(owner)
        self._frame, self._thread = sys._getframe(1), threading.get_ident()
        while True:
            first = self._inside.setdefault(self._claimed, self)
            if first is self:
                return
            if first.counts():
                raise StateError("another thread is in a call on it, or this one is", Status.STATE, name)
            first.end()

    def counts(self) -> bool:
        """Whether the call that made the claim goes on."""
        frame = sys._current_frames().get(self._thread)
        while frame is not None and frame is not self._frame:
            frame = frame.f_back
        return frame is not None

    def end(self) -> None:
        if self._inside.get(self._claimed) is self:
            self._inside.pop(self._claimed, None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.end()


class Received(NamedTuple):
    """What a receive got, or a probe found. source: the rank that sent the message. nbytes: its size in bytes."""
    source: int
    nbytes: int


class Request:
    """A collective or message that has begun, made by ``context.start``.

    Its buffers belong to gcoll until it has ended: do not write to them, nor read outputs. They are kept alive.
    End it by ``wait``, ``test`` or ``await``. A request that is dropped goes on. One thread at a time uses a
    request.

    >>> import gcoll, numpy
    >>> def rank(context):
    ...     request = context.start.allreduce(numpy.arange(3.0))
    ...     # ... compute ...
    ...     return request.wait().tolist()
    >>> gcoll.run_local(2, rank)
    [[0.0, 2.0, 4.0], [0.0, 2.0, 4.0]]
    """

    def __init__(self, context: "Context", handle: Any, operation: str, keep: Any, result: Any,
                 receives: bool = False) -> None:
        self._context = context
        self._handle = handle
        self._name = operation
        self._keep = keep
        self._result = result
        self._receives = receives
        self._error: Optional[BaseException] = None
        self._ended = False
        context._core.requests[id(self)] = (handle, keep)

    def __repr__(self) -> str:
        state = "in flight" if not self._is_over() else "failed" if self._error else "done"
        return "<gcoll.Request %s, %s>" % (self._name, state)

    def __del__(self) -> None:
        # The buffers must stay until the request has ended, which later calls of the context find out.
        if not getattr(self, "_ended", True):
            core = self._context._core
            entry = core.requests.pop(id(self), None)
            if entry is not None:
                core.dropped_requests.append(entry)

    # How it ends

    def _is_over(self) -> bool:
        """Whether the request has ended, by a call of its own or with its context."""
        if not self._ended and not self._context._core.handle:
            self._end(StateError("the context was closed before the request had ended", Status.STATE, self._name))
        return self._ended

    def _end(self, error: Optional[BaseException] = None) -> None:
        self._ended = True
        self._error = error
        self._context._core.requests.pop(id(self), None)
        self._keep = None

    def _after(self, status: int) -> bool:
        """Takes the status of a call that may have ended the request. Returns whether it has ended."""
        if self._handle.value is not None:
            if status in (Status.OK, Status.TIMEOUT):
                return False
            raise error_of(status, self._name, self._context._core.handle)
        error: Optional[BaseException] = None
        if status:
            error = self._context._failure(status, self._name, self._keep)
        elif not self._receives:
            error = own_error(self._keep)
        elif not isinstance(self._result, Received):
            source, size = c_uint32(), c_uint64()
            check(api.gcoll_context_last_received(self._context._handle(), byref(source), byref(size)), self._name)
            self._result = Received(source.value, size.value)
        self._end(error)
        return True

    def _look_received(self) -> bool:
        """For a receive while other threads may end theirs: notes source and size before the request ends."""
        source, size = c_uint32(), c_uint64()
        if api.gcoll_request_source(self._handle, byref(source)):
            return False
        check(api.gcoll_request_bytes(self._handle, byref(size)), self._name)
        self._result = Received(source.value, size.value)
        return True

    def _test_received(self) -> bool:
        if not self._look_received() and not api.gcoll_context_health(self._context._handle()):
            return False
        return self._after(api.gcoll_request_wait(byref(self._handle)))

    def _wait_received(self) -> None:
        index = c_uint32()
        while True:
            status = api.gcoll_wait_any(byref(self._handle), 1, byref(index))
            if status != Status.WOKEN:
                break
        if not status:
            self._look_received()
        self._after(api.gcoll_request_wait(byref(self._handle)))

    def _outcome(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    # For the caller

    @property
    def done(self) -> bool:
        """Whether the request has ended, by a call of ``wait``, ``test`` or ``await``. Makes no progress."""
        return self._is_over()

    @property
    def result(self) -> Any:
        """The output, once the request has ended: what the blocking call returns. StateError before. Raises the
        error of a request that has failed."""
        if not self._is_over():
            raise StateError("the request has not ended; allowed is result after wait, test or await", Status.STATE,
                             self._name)
        return self._outcome()

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Waits until the request has ended, and returns its result: what the blocking call returns.

        timeout: seconds. When they are over, TimeoutError is raised; the request goes on, and nothing breaks.
        None: the time limit of the call, or else of the context, which breaks the context.

        Ctrl-C raises KeyboardInterrupt within 0.1 s; the request then goes on.
        """
        if timeout is not None and not timeout >= 0:
            raise ValueError("timeout: is %r; allowed are 0 and more seconds, and None" % (timeout,))
        if not self._is_over():
            with Claim(self, self._context, self._name):
                self._wait(timeout)
        return self._outcome()

    def _wait(self, timeout: Optional[float]) -> None:
        end = None if timeout is None else time.monotonic() + timeout
        if not self._is_over() and end is None and self._receives and self._context.progress_thread:
            self._wait_received()
        while not self._is_over():
            slice_ms = SLICE_MS
            if end is not None:
                slice_ms = max(0, min(slice_ms, int((end - time.monotonic()) * 1000 + 0.999)))
            if self._receives and self._context.progress_thread:
                ended = self._test_received()
                if not ended:
                    time.sleep(min(_POLL_S, slice_ms / 1000))
            else:
                ended = self._after(api.gcoll_request_wait_for(byref(self._handle), slice_ms))
            if not ended and end is not None and time.monotonic() >= end:
                raise TimeoutError("the request has not finished within %g s, and goes on" % (timeout or 0),
                                   Status.TIMEOUT, self._name)

    def test(self) -> bool:
        """Makes progress without waiting. Returns whether the request has ended. Raises its error if it failed."""
        if not self._is_over():
            with Claim(self, self._context, self._name):
                if self._is_over():
                    pass
                elif self._receives and self._context.progress_thread:
                    self._test_received()
                else:
                    self._after(api.gcoll_request_test(byref(self._handle), byref(c_int())))
        if self._ended:
            self._outcome()
        return self._ended

    def cancel(self) -> None:
        """Cancels a receive whose message is not on its way. StateError: it cannot be cancelled, and goes on."""
        if not self._is_over():
            with Claim(self, self._context, self._name):
                if self._is_over():
                    return
                check(api.gcoll_request_cancel(byref(self._handle)), self._name, self._context._core.handle)
                self._end(StateError("the request was cancelled", Status.STATE, self._name))

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.test():
            yield from self._context._watch(self).__await__()
            self.test()  # raises its error; and that of a request whose context was closed
        return self._outcome()


class Watch:
    """Ends the awaited requests of a context in an event loop of asyncio: the context's descriptor tells when."""

    def __init__(self, context: "Context", loop: asyncio.AbstractEventLoop, fd: int) -> None:
        self.loop = loop
        self._context = context
        self._fd = fd
        self._waiting: List[Tuple[Request, "asyncio.Future[None]"]] = []

    def add(self, request: Request) -> "asyncio.Future[None]":
        future: "asyncio.Future[None]" = self.loop.create_future()
        if not self._waiting:
            self.loop.add_reader(self._fd, self._readable)
        self._waiting.append((request, future))
        self._look()  # it may have ended since it was tested
        return future

    def _readable(self) -> None:
        try:
            os.read(self._fd, 8)  # before the look: what ends after this makes the descriptor readable again
        except BlockingIOError:
            pass
        self._look()

    def _look(self) -> None:
        left = []
        for request, future in self._waiting:
            try:
                ended = future.done() or request.test()
            except Error:
                ended = True  # the waiting task asks the request again
            except BaseException as error:
                ended = True
                future.set_exception(error)
            if not ended:
                left.append((request, future))
            elif not future.done():
                future.set_result(None)
        self._waiting = left
        if not left:
            self.stop()

    def stop(self) -> None:
        if not self.loop.is_closed():
            self.loop.remove_reader(self._fd)

    def close(self) -> None:
        """Wakes the tasks that wait, because the context is closing; from any thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        self.stop()
        waiting, self._waiting = self._waiting, []
        for _request, future in waiting:
            if not future.done():
                future.set_result(None)

    @property
    def is_idle(self) -> bool:
        return not self._waiting or self.loop.is_closed()


async def poll(request: Request) -> None:
    """Tests a request now and then, on a context without a progress thread."""
    pause = 0.0
    while not request.test():
        await asyncio.sleep(pause)
        pause = min(_POLL_S, pause + _POLL_STEP_S)


class Operation:
    """A collective that is prepared once and runs many times, made by ``context.prepare``. Saves the checks and
    the look-up of each call.

    Its buffers stay bound: each run reads the inputs as they then are, and writes the same outputs. Every rank
    starts the runs in the same order. Close it, or use it as a context manager.

    >>> import gcoll, numpy
    >>> def rank(context):
    ...     data = numpy.ones(2)
    ...     with context.prepare.allreduce(data, out=data) as double:
    ...         for _ in range(3):
    ...             double.run()
    ...     return data.tolist()
    >>> gcoll.run_local(2, rank)
    [[8.0, 8.0], [8.0, 8.0]]
    """

    def __init__(self, context: "Context", handle: c_void_p, name: str, keep: Any, result: Any) -> None:
        self._context = context
        self._handle = handle
        self._name = name
        self._keep = keep
        self._result = result
        self._request: Optional[Request] = None
        context._core.operations[id(self)] = (handle, keep)

    def __repr__(self) -> str:
        return "<gcoll.Operation %s>" % self._name

    def _live(self) -> c_void_p:
        if self._handle.value is None or not self._context._core.handle:
            raise StateError("the operation is closed", Status.STATE, self._name)
        return self._handle

    def run(self) -> Any:
        """Runs the operation once, and returns the output."""
        if takes_signals() and not self._context._has_monitor:
            with Claim(self, self._context, self._name):
                status = api.gcoll_operation_start(self._live())
                status = status or finish(self._context, c_void_p(api.gcoll_operation_request(self._handle)))
        else:
            status = api.gcoll_operation_run(self._live())
        if status:
            raise self._context._failure(status, self._name, self._keep)
        own = own_error(self._keep)
        if own is not None:
            raise own
        return self._result

    def start(self) -> Request:
        """Starts a run, and returns its request. StateError if a run is in flight."""
        status = api.gcoll_operation_start(self._live())
        if status:
            raise self._context._failure(status, self._name, self._keep)
        handle = c_void_p(api.gcoll_operation_request(self._handle))
        self._request = Request(self._context, handle, self._name, (self, self._keep), self._result)
        return self._request

    @property
    def algorithm(self) -> str:
        """The algorithm with its options, as "group_butterfly:r=2"."""
        return (api.gcoll_operation_algorithm(self._live()) or b"").decode()

    @property
    def result(self) -> Any:
        """The output, which every run writes."""
        return self._result

    def close(self) -> None:
        """Frees the operation. StateError while a run is in flight."""
        if self._request is not None and not self._request.done and self._context._core.handle:
            raise StateError("a run is in flight; wait for it first", Status.STATE, self._name)
        claim = self._context._core.inside.get(id(self))
        if claim is not None and claim.counts():
            raise StateError("another thread runs it", Status.STATE, self._name)
        entry = self._context._core.operations.pop(id(self), None)
        if entry is not None:
            api.gcoll_operation_destroy(self._handle)
        self._handle = c_void_p()
        self._keep = None

    def __enter__(self) -> "Operation":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()

    def __del__(self) -> None:
        # The collector may run on any thread. So the context frees the operation, in a call of its user's.
        core = getattr(getattr(self, "_context", None), "_core", None)
        if core is not None and self._handle.value is not None:
            entry = core.operations.pop(id(self), None)
            if entry:
                core.dropped.append(entry)


def wait_any(requests: Sequence[Optional[Request]]) -> int:
    """Waits until one of several requests of one context has finished, ends it, and returns its index. None
    entries, and requests that have ended, are skipped. StateError if there are no others.

    >>> import gcoll, numpy
    >>> def rank(context):
    ...     requests = [context.start.allreduce(numpy.ones(n)) for n in (1, 2)]
    ...     first = gcoll.wait_any(requests)
    ...     second = gcoll.wait_any(requests)
    ...     return sorted([first, second])
    >>> gcoll.run_local(2, rank)
    [[0, 1], [0, 1]]
    """
    live = [(k, request) for k, request in enumerate(requests) if request is not None and not request.done]
    if not live:
        raise StateError("all requests have ended", Status.STATE, "wait_any")
    context = live[0][1]._context
    handles = (c_void_p * len(live))(*[request._handle.value for _, request in live])
    index = c_uint32()
    status = Status.WOKEN
    while status == Status.WOKEN:
        status = api.gcoll_wait_any(handles, len(live), byref(index))
    if status:
        raise error_of(status, "wait_any", context._core.handle)
    live[index.value][1].wait()
    return live[index.value][0]
