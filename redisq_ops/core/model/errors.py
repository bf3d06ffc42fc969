"""Everything redisq-ops raises on purpose, in one tree.

    RedisqError
    ├── Refused          the server, or a rule of the queue, said no     (exit 1)
    │   ├── Forbidden        the server's ACL doesn't let this user
    │   ├── NotFound         no such queue, request or entry
    │   ├── Exists           the id is taken by another submission
    │   ├── QueueFull        over max_waiting
    │   ├── QueueClosed      draining, or the request is sealed
    │   ├── SchemaTooNew     written by a newer release
    │   ├── WrongKind        the queue is of another kind, or a key of another type is in the way
    │   ├── TooLarge         a payload or result over its limit
    │   ├── Lost             history went under its reader
    │   ├── Unreadable       a value in a key of the queue is corrupt
    │   └── Superseded       an older call of the same caller arrived late
    ├── BadInput         a name, number, URL or file that can't be used  (exit 2)
    ├── Unreachable      the server can't be reached, or was lost        (exit 4)
    │   └── LoginRefused     the server answers; the password is wrong       (exit 1)
    └── Unconfirmed      the change needs a confirmation (`--yes`)       (exit 5)

The exit code travels with the exception, so the faces need no table of their own.
"""

from __future__ import annotations

import errno
import re

import redis.exceptions as rx

from ..redis.acl_denial import Denial


class RedisqError(Exception):
    """Base of all; ``exit_code`` is what the command line ends with."""

    exit_code = 1


class Refused(RedisqError):
    """The operation was understood and not done; nothing was changed."""


class Forbidden(Refused):
    """The server's ACL doesn't let this user do or see that; the text names the rule to add.

    ``denial``: the right that is missing, where the server's words say it.
    """

    def __init__(self, what: str | Denial) -> None:
        super().__init__(what)
        self.denial = what if isinstance(what, Denial) else None

    def tell(self, user: str = "", names: tuple[str, ...] = ()) -> None:
        """Add what the server left out: who asked, and the keys it was one of."""
        if self.denial is not None:
            self.denial = self.denial.among(names, user)

    def __str__(self) -> str:
        return super().__str__() if self.denial is None else str(self.denial)


class NotFound(Refused):
    """No such queue, request or entry."""


class Exists(Refused):
    """The id is taken by a submission with other content."""


class QueueFull(Refused):
    """The queue holds as many waiting entries as its ``max_waiting`` allows."""


class QueueClosed(Refused):
    """The queue is draining, or the request was sealed: it takes nothing more."""


class SchemaTooNew(Refused):
    """A newer release wrote this queue; this one doesn't touch it."""


class WrongKind(Refused):
    """The queue is of another kind, or a key of another type is in the way."""


class TooLarge(Refused):
    """A payload or result is over its limit."""


class Lost(Refused):
    """History was trimmed before it was read."""


class Unreadable(Refused, ValueError):
    """A value in a key of the queue is corrupt: not as this program, or the layout's, writes it.

    The message names the key and never the value: that may be what isn't to be shown.
    """


CORRUPT = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
"""what reading a value raises that isn't as we would have written it"""


class Superseded(Refused):
    """A call arrived after a later one of the same caller; it changed nothing."""


class BadInput(RedisqError):
    """A name, number, expression, URL or file that can't be used."""

    exit_code = 2


class Unreachable(RedisqError):
    """The server can't be reached, or the connection was lost: a later try may succeed."""

    exit_code = 4


class LoginRefused(Unreachable):
    """The server answers and refuses the user name or password, or wants one.

    A worker goes on trying, as with a server that is down: passwords are rotated.
    """

    exit_code = 1


class Unconfirmed(RedisqError):
    """The change was planned and not made: nobody confirmed it."""

    exit_code = 5


_DISK = {errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}


def file_error(error: OSError, message: str) -> RedisqError:
    """The error for a file: `BadInput` if another path or other permissions would help, else that
    of a failure (the disk is full or broken)."""
    return RedisqError(message) if error.errno in _DISK else BadInput(message)


# Our scripts refuse with `error_reply('WORD text')`; the server uses the same shape for its own.
_BY_WORD: dict[str, type[RedisqError]] = {
    "NOTFOUND": NotFound,
    "EXISTS": Exists,
    "FULL": QueueFull,
    "CLOSED": QueueClosed,
    "TOOLARGE": TooLarge,
    "SUPERSEDED": Superseded,
    "BADINPUT": BadInput,
    "WRONGTYPE": WrongKind,
    "MISFIT": WrongKind,
    "UNREADABLE": Unreadable,
    "OOM": Refused,
    "READONLY": Refused,
    "NOPERM": Forbidden,
    "NOREPLICAS": Refused,
    "MISCONF": Refused,
    "WRONGPASS": LoginRefused,
    "NOAUTH": LoginRefused,
    "LOADING": Unreachable,
}

_IN_WORDS = {
    "OOM": "the server is full (maxmemory): no new work; taking, settling and purging still work",
    "READONLY": "this server is a read-only replica; connect to its primary",
    "WRONGTYPE": "a key of another type stands where the queue keeps its data",
    "WRONGPASS": "wrong user name or password",
    "NOAUTH": "the server asks for a password (set REDISQ_PASSWORD or put it in the URL)",
    "LOADING": "the server is still loading its data; try again in a moment",
    "user_script": "a script met something in the queue's keys that it can't work with; "
    "`redisq fsck` looks for it",
    "MISCONF": "the server refuses writes because it can't save to disk",
}


_UNKNOWN = re.compile("unknown command '([A-Z]+)'")
_COMMON = ("HGETALL", "HGET", "TIME", "CLUSTER")
"""what is asked first; a Sentinel has none of them"""

_UNFIT = re.compile(r"value is not an? |would overflow|would produce NaN|Invalid stream ID")
"""what the server, or Lua, says of a number that is none, where a script counts or computes"""

# A slot on its way to another node, a node without its slots, a master that is being replaced: the
# next try may meet a cluster that agrees again.
CHANGING = (
    rx.ClusterError,
    rx.TryAgainError,
    rx.AskError,
    rx.SlotNotCoveredError,
)


def translate(error: Exception) -> Exception:
    """The same failure in our words, with the client's exception as its cause."""
    if isinstance(error, RedisqError):
        return error
    text = str(error)
    word, _, rest = text.partition(" ")
    if isinstance(error, (rx.AuthenticationError, rx.AuthenticationWrongNumberOfArgsError)):
        found: type[RedisqError] | None = LoginRefused
        # Without a password RESP3's first command is refused in words of its own.
        asked = "NOAUTH" in text or text.startswith("HELLO must")
        word = "NOAUTH" if asked else "WRONGPASS"
    elif isinstance(error, rx.OutOfMemoryError):
        found, word = Refused, "OOM"
    elif isinstance(error, rx.ReadOnlyError):
        found, word = Refused, "READONLY"
    elif isinstance(error, rx.BusyLoadingError):
        found, word = Unreachable, "LOADING"
    elif isinstance(error, (rx.ConnectionError, rx.TimeoutError)):
        short, gone, each = text.partition(" : <redis")  # then a whole client for each Sentinel
        why = "; one Sentinel, or more, can't be reached" if gone else ""
        if "AuthenticationError" in each:
            why = "; a Sentinel asks for a password (REDISQ_SENTINEL_PASSWORD), or for another"
        found = LoginRefused if "AuthenticationError" in each else Unreachable
        rest = f"can't reach the server: {short}{why}"
    elif isinstance(error, rx.MovedError):
        # A client that knows of a Cluster goes where it is sent; only a lasting change ends here.
        found = Unreachable
        rest = "that is one node of a Cluster (redis+cluster:// reaches all), or it is changing"
    elif isinstance(error, (rx.AskError, rx.TryAgainError)) or "TTL exhausted" in text:
        found, rest = Unreachable, "a slot is moving to another node: try again"
    elif (reason := _unconnected(error)) is not None:
        found, word, rest = type(reason), "", str(reason)
    elif isinstance(error, CHANGING) or (
        # The client's own, but for the one it has for keys that can never be in one script.
        isinstance(error, rx.RedisClusterException) and "same key slot" not in text
    ):
        found, rest = Unreachable, f"the cluster is changing, or part of it is down: {text}"
    elif isinstance(error, rx.InvalidResponse):
        found, rest = Unreachable, f"that is not a Redis or Valkey server: {text}"
    elif "unknown command 'SENTINEL'" in text:
        found, rest = BadInput, "that is a server, and no Sentinel: write redis://…"
    elif (unknown := _UNKNOWN.search(text)) and unknown[1] in _COMMON:
        found = BadInput
        rest = f"that server knows no {unknown[1]}; is it a Sentinel? write redis+sentinel://…/NAME"
    elif text.startswith(("DB index is out of range", "invalid DB index")):
        found, rest = BadInput, "the server has no database of the number that the URL gives"
    elif text.startswith("Client names cannot contain"):
        found, rest = BadInput, "client_name in the URL: printable ASCII characters without spaces"
    elif text.startswith("SELECT is not allowed in cluster mode"):
        found = BadInput
        rest = "the server is a node of a Cluster and has database 0 only: change the URL's"
    elif isinstance(error, rx.ResponseError) and (denial := Denial.read(text)) is not None:
        forbidden = Forbidden(denial)
        forbidden.__cause__ = error
        return forbidden
    elif isinstance(error, rx.NoPermissionError):
        found, rest = Forbidden, f"the server's ACL says no: {text}"
    else:
        found, rest = _BY_WORD.get(word), rest.partition(" script: ")[0]
        # redis-py strips the leading word of some replies, so the type says what the text doesn't.
        if found is None and "Operation against a key holding the wrong kind" in text:
            found, word = WrongKind, "WRONGTYPE"
    if found is None and ("@user_script" in text or "user_script:" in text):
        # The server's own words may quote what stands there.
        found, word = Unreadable, "user_script"
    if found is None and isinstance(error, rx.ResponseError) and _UNFIT.search(text):
        found, rest = Unreadable, f"a key of the queue holds a corrupt value: {text}"
    if found is None:
        return error
    said = found(_IN_WORDS.get(word, rest or text))
    said.__cause__ = error
    return said


def _unconnected(error: Exception) -> RedisqError | None:
    """Why a client could not ask any node which slots it has.

    redis-py puts the last node's reason behind words of its own. Whoever refuses the question is no
    Cluster to it, also where that was its ACL.
    """
    why = error.__cause__
    if "Cluster cannot be connected" not in str(error) or not isinstance(why, Exception):
        return None
    if isinstance(why, rx.RedisClusterException):
        refusal = why.__context__
        if "cluster support disabled" in str(refusal) or not isinstance(refusal, Exception):
            return BadInput("that is a server, and no Cluster: write redis://…, or rediss://…")
        why = refusal
    said = translate(why)
    if isinstance(said, RedisqError):
        return said
    return Unreachable(f"can't ask for the Cluster's slots: {why}")
