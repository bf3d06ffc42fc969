"""Everything redisq-ops raises on purpose, in one tree.

    RedisqError
    ├── Refused          the server or a rule of the queue refuses it    (exit 1)
    │   ├── Forbidden        the server's ACL doesn't allow it to this user
    │   ├── NotFound         no such queue, request or entry
    │   ├── Exists           the id is taken by another submission
    │   ├── QueueFull        over max_waiting
    │   ├── QueueClosed      draining, or the request is sealed
    │   ├── SchemaTooNew     written by a newer release
    │   ├── WrongKind        the queue is of another kind, or a key of another type is in the way
    │   ├── TooLarge         a payload or result over its limit
    │   ├── Unregistered     the registry has lost the queue; the call registers it again
    │   ├── Lost             the history was trimmed before it was read
    │   ├── Unreadable       a value in a key of the queue is corrupt
    │   ├── Unfit            this payload can't be changed in this way
    │   └── Superseded       an older call of the same caller arrived late
    ├── BadInput         a name, number, URL or file is not usable       (exit 2)
    ├── Unreachable      no connection to the server, or it was lost     (exit 4)
    │   └── LoginRefused     the server refuses user name or password        (exit 1)
    ├── Unconfirmed      the change needs a confirmation (`--yes`)       (exit 5)
    ├── TimedOut         an awaited event did not happen in time         (exit 124)
    └── Interrupted      Ctrl+C; the text says what was done             (exit 130)

Each exception has the exit code with which the command line ends; `exit_codes` names them. What
redis-py raises becomes one of these in `core.redis.server_errors`.
"""

from __future__ import annotations

import errno

from ..redis.acl_denial import Denial
from . import exit_codes


class RedisqError(Exception):
    """Base of all errors; ``exit_code`` is the exit code of the command line."""

    exit_code = exit_codes.FAILED


class Refused(RedisqError):
    """The operation is not possible now, or not at all; nothing was changed."""


class Forbidden(Refused):
    """The server's ACL doesn't allow this user to do it; the text names the rule to add.

    ``denial``: the right that is missing, where the server's message says it.
    """

    def __init__(self, what: str | Denial) -> None:
        super().__init__(what)
        self.denial = what if isinstance(what, Denial) else None

    def tell(self, user: str = "", names: tuple[str, ...] = (), *, reads: bool = False) -> None:
        """Add what the server's message doesn't have: the user, the keys of the command, and
        whether it only reads them."""
        if self.denial is not None:
            self.denial = self.denial.among(names, user, reads=reads)

    def tell_change(self) -> None:
        """Ask for the right to write, too: the refused command was the beginning of a change."""
        if self.denial is not None:
            self.denial = self.denial.of_change

    def __str__(self) -> str:
        return super().__str__() if self.denial is None else str(self.denial)


class NotFound(Refused):
    """No such queue, request or entry."""


class Exists(Refused):
    """The id is taken by a submission with other content."""


class QueueFull(Refused):
    """The queue holds as many waiting entries as its ``max_waiting`` allows."""


class QueueClosed(Refused):
    """The queue is draining, or the request is sealed: it accepts no more entries."""


class SchemaTooNew(Refused):
    """A newer release wrote this queue; this release doesn't touch it."""


class WrongKind(Refused):
    """The queue is of another kind, or a key has another Redis type than the queue needs."""


class Unregistered(NotFound):
    """The queue has no registration mark, so the call stored nothing: its data is lost or
    destroyed.

    The queue registers itself again and repeats the call; callers see this if that fails.
    """


class TooLarge(Refused):
    """A payload or result is over its limit."""


class Lost(Refused):
    """The history was trimmed before it was read."""


class Unreadable(Refused, ValueError):
    """A value in a key of the queue is corrupt: no program of this layout would write it.

    The message names the key and never the value, which may be confidential.
    """


class Unfit(Refused):
    """Why one payload can't be changed; the others can."""


CORRUPT = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
"""exceptions that reading a corrupt value can raise"""


class Superseded(Refused):
    """A call arrived after a later one of the same caller; it changed nothing."""


class BadInput(RedisqError):
    """A name, number, expression, URL or file is not usable; nothing was sent or changed."""

    exit_code = exit_codes.BAD_INPUT


class Unreachable(RedisqError):
    """The server can't be reached, or the connection was lost: a later try may succeed.

    A change that was on its way may have been made.
    """

    exit_code = exit_codes.UNREACHABLE


class LoginRefused(Unreachable):
    """The server answers and refuses the user name or password, or requires one.

    A worker keeps trying, as it does when a server is down: passwords are rotated.
    """

    exit_code = exit_codes.FAILED


class Unconfirmed(RedisqError):
    """The change was planned and not made, because nobody confirmed it."""

    exit_code = exit_codes.UNCONFIRMED


class TimedOut(RedisqError):
    """The event that a command waited for did not happen in time."""

    exit_code = exit_codes.TIMED_OUT


class Interrupted(RedisqError):
    """Ctrl+C ended a command; the text says what was done."""

    exit_code = exit_codes.INTERRUPTED


_DISK = {errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}


def file_error(error: OSError, message: str) -> RedisqError:
    """The error for a file: `BadInput` where another path or permission would help; otherwise, as
    for a full disk, a `RedisqError`."""
    return RedisqError(message) if error.errno in _DISK else BadInput(message)
