"""Reads from the server's message what its ACL refused, and which rule would allow it.

Redis 7.0 doesn't name the user and, inside scripts, neither the command nor the key. Redis 7.2 and
Valkey name the user and the command, and sometimes a key or a channel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["command", "key", "channel", "database"]
_SHOWN = 5
_USER = re.compile(r"\bUser (\S+) has no permissions")
_COMMAND = re.compile(r"no permissions to run the '([^']+)' command")
_OTHERS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("key", re.compile(r"permissions to access the '(.*)' key")),
    ("key", re.compile(r"permissions to access (?:a|one of the) key()|can't access .* keys()")),
    ("channel", re.compile(r"permissions to access the '(.*)' channel")),
    ("channel", re.compile(r"permissions to access (?:a|one of the) channel()|can't publish to()")),
    ("database", re.compile(r"permissions to access database ?(\d*)")),
)
READ_FIRST = ("hgetall", "hmget", "time", "type")
"""commands that scripts run before their check of the ACL: for these we get the server's own
message, which in Redis 7.0 doesn't name the command"""
READS = frozenset(
    re.findall(
        r"\S+",
        """
        exists get getrange hexists hget hgetall hkeys hlen hmget hrandfield hscan hstrlen hvals
        lindex llen lpos lrange memory mget pexpiretime pttl scard sismember smembers smismember
        srandmember sscan strlen ttl type xinfo xlen xpending xrange xrevrange zcard zcount zmscore
        zrange zrank zrevrange zscan zscore
        """,
    )
)
"""commands of ours that only read a key; ``+@read`` allows them"""
_GLOB = re.compile(r"[*?\[\]\\^]")
_UNQUOTED = re.compile(r"[^!-~]+|[\"']")
_NAMELESS = re.compile(r"ACL failure in script|The user executing the script can't run")


@dataclass(frozen=True, slots=True)
class Denial:
    """Rights that a user lacks, all of one kind."""

    kind: Kind
    names: tuple[str, ...] = ()
    """commands (``zadd``, ``xgroup|create``), keys, channels or a database number; empty:
    unknown"""
    user: str = ""
    """empty: unknown"""
    reads: bool = False
    """of keys: reading them was refused, and is all that is needed"""

    @classmethod
    def read(cls, text: str) -> Denial | None:
        """Read the missing right from an error's text; None: it isn't about the ACL."""
        user = found[1] if (found := _USER.search(text)) else ""
        if found := _COMMAND.search(text):
            return cls("command", (found[1].lower(),), user)
        for kind, pattern in _OTHERS:
            if found := pattern.search(text):
                return cls(kind, (found[1],) if found[1] else (), user)
        return cls("command", (), user) if _NAMELESS.search(text) else None

    def among(self, names: tuple[str, ...], user: str = "", *, reads: bool = False) -> Denial:
        """Add the names and the user, where the server's message has none, and whether the command
        only reads."""
        return replace(
            self,
            names=self.names or names,
            user=self.user or user,
            reads=self.reads or (reads and self.kind == "key"),
        )

    @property
    def of_change(self) -> Denial:
        """The same on the way to a change, which will write where it read. The registry it reads
        only: a right to write there could hide queues."""
        return replace(
            self, reads=self.reads and all(name.endswith(":registry") for name in self.names)
        )

    @property
    def rules(self) -> str:
        """The rules to add with ACL SETUSER; empty: unknown."""
        match self.kind:
            case "command":
                scripts = {"eval", "evalsha"}
                given = self.names or READ_FIRST
                names = [n for name in given for n in (scripts if name in scripts else [name])]
                rules = [f"+{name}" for name in names]
            case "database":
                rules = [f"db={name}" for name in self.names]
            case _:
                mark = "&" if self.kind == "channel" else "%R~" if self.reads else "~"
                rules = [mark + _pattern(name) for name in self.names]
        return " ".join(sorted(set(rules)))

    def __str__(self) -> str:
        who = f"user {self.user}" if self.user else "this user"
        refused = f"the server's ACL says no: {who} may not {self._what()}"
        return (
            f"{refused}; to allow it: {setuser(self.user, self.rules)}" if self.rules else refused
        )

    def _what(self) -> str:
        names, more = list(self.names[:_SHOWN]), len(self.names) - _SHOWN
        if self.kind == "command":
            one = "" if self.names else "one of "
            shown = ", ".join(names or READ_FIRST).upper().replace("|", " ")
            return f"run {one}{shown}" + (f" and {more} more commands" if more > 0 else "")
        if len(self.names) == 1:
            return f"use {self.kind} {self.names[0]}"
        of = {"key": "one of the keys", "channel": "the channel", "database": "this database"}
        return f"use {of[self.kind]}"


def setuser(user: str, rules: str) -> str:
    """The command that adds rules to a user."""
    return f"ACL SETUSER {user or '<user>'} {rules}"


def _pattern(name: str) -> str:
    """For a key of a queue of ours, the pattern of all queues with its prefix; else the name. Where
    an ACL or a prompt can't take a character as it is, any characters stand for it."""
    prefix, braces, _ = name.partition(":{")
    literal = _GLOB.sub(r"\\\g<0>", prefix if braces else name)
    return _UNQUOTED.sub("*", literal) + (":*" if braces else "")
