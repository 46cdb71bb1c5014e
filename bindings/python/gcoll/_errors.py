"""Status codes of the library as exceptions."""

import builtins
import enum
from typing import Any, Dict, Optional, Type

from ._library import api


class Status(enum.IntEnum):
    """Status codes of the library (gcoll/status.h)."""
    OK = 0
    INVALID = 1
    NO_MEMORY = 2
    UNSUPPORTED = 3
    TIMEOUT = 4
    IO = 5
    PEER = 6
    PROTOCOL = 7
    MISMATCH = 8
    ABORTED = 9
    NOT_FOUND = 10
    STATE = 11
    INTERNAL = 12
    WOKEN = 13


class Error(RuntimeError):
    """A call of the library failed. Each status has a subclass, such as ``PeerError``.

    status:     a ``Status``
    culprit:    the rank at fault, or None if no rank is, or the context is not broken
    operation:  the name of the method that failed, such as "allreduce"
    text:       the library's description

    >>> import gcoll
    >>> try:
    ...     with gcoll.Context(0, 1) as context:
    ...         context.barrier(algorithm="no such")
    ... except gcoll.Error as error:
    ...     print(error.status.name, error.operation, error.culprit, isinstance(error, ValueError))
    INVALID barrier None True
    """
    status: Status
    culprit: Optional[int]
    operation: str
    text: str

    def __init__(self, text: str, status: int = Status.INTERNAL, operation: str = "",
                 culprit: Optional[int] = None) -> None:
        super().__init__("%s: %s" % (operation, text) if operation else text)
        self.text = text
        self.status = Status(status)
        self.operation = operation
        self.culprit = culprit

    def __reduce__(self) -> Any:
        return type(self), (self.text, self.status, self.operation, self.culprit)


class InvalidError(Error, ValueError):
    """An argument is not allowed. The call did nothing."""


class NoMemoryError(Error, MemoryError):
    """A rank ran out of memory, file descriptors or locked memory."""


class UnsupportedError(Error):
    """The call is legal, but the algorithm, transport or build cannot do it."""


class TimeoutError(Error, builtins.TimeoutError):
    """A time limit passed."""


class IoError(Error):
    """The system, a file or a server failed, or the network changed data."""


class PeerError(Error):
    """Another rank closed, died, left or could not be reached. ``culprit`` is that rank."""


class ProtocolError(Error):
    """A peer sent bytes that no gcoll of this version sends."""


class MismatchError(Error):
    """Ranks made different calls: another collective, count, type or operation; or a message was larger than its
    buffer."""


class AbortedError(Error):
    """``Context.abort`` was called, or a reduction of a rank's own (``UserOp``) raised an exception; here or on
    another rank."""


class NotFoundError(Error, LookupError):
    """There is no such key, algorithm, site or launcher."""


class StateError(Error):
    """The object is not in a state that allows the call."""


class InternalError(Error):
    """A bug in gcoll. Please report it."""


_CLASSES: Dict[int, Type[Error]] = {
    Status.INVALID: InvalidError, Status.NO_MEMORY: NoMemoryError, Status.UNSUPPORTED: UnsupportedError,
    Status.TIMEOUT: TimeoutError, Status.IO: IoError, Status.PEER: PeerError, Status.PROTOCOL: ProtocolError,
    Status.MISMATCH: MismatchError, Status.ABORTED: AbortedError, Status.NOT_FOUND: NotFoundError,
    Status.STATE: StateError, Status.INTERNAL: InternalError,
}


def text_of(error: BaseException) -> bytes:
    """An exception of the caller's own as text for the library."""
    try:
        text = "%s: %s" % (type(error).__name__, error)
    except BaseException:
        text = type(error).__name__
    return text.encode("utf-8", "replace").replace(b"\0", b"?")


def error_of(status: int, operation: str, context: Any = None) -> Error:
    """Returns the exception for a status that a call on this thread has just returned. context: its handle."""
    text = (api.gcoll_last_error() or b"").decode("utf-8", "replace")
    text = text or api.gcoll_status_text(status).decode()
    culprit = api.gcoll_context_culprit(context) if context else -1
    known = status if status in _CLASSES else Status.INTERNAL
    return _CLASSES[known](text, known, operation, culprit if culprit >= 0 else None)


def check(status: int, operation: str, context: Any = None) -> None:
    """Raises the exception for any status but 0."""
    if status:
        raise error_of(status, operation, context)
