"""Names: which are allowed, and the one place where a queue's keys are built.

A key is ``<prefix>:{<queue>}:<part>``; the braces put all keys of a queue in one hash slot, so
that one script may change several of them. A part that ends in ``_`` is a *prefix* of keys
(``r_`` → ``rq:{mail}:r:`` + request id). Prefixes are declared to scripts like keys: when a slot
is migrating, an absent declared key makes the server answer TRYAGAIN before anything is written.
"""

from __future__ import annotations

import re

from .errors import BadInput

PREFIX = "rq"
_NAME = re.compile(r"[!-~]{1,128}")
_FORBIDDEN = frozenset("{}*|/")


def checked_name(value: str, what: str) -> str:
    """``value`` itself when it is a legal name or id (1–128 printable ASCII, no ``{ } * | /``)."""
    if not isinstance(value, str):  # a library's caller may hand in anything
        raise BadInput(f"{what} must be a str, not {type(value).__name__}")
    if not _NAME.fullmatch(value) or _FORBIDDEN & set(value):
        raise BadInput(
            f"{what} {value[:140]!a} can't be used: "
            "1 to 128 printable ASCII characters without space { } * | /"
        )
    return value


def checked_prefix(prefix: str) -> str:
    """``prefix`` itself when keys may begin with it: braces would choose another hash slot."""
    if not isinstance(prefix, str):
        raise BadInput(f"prefix must be a str, not {type(prefix).__name__}")
    if not _NAME.fullmatch(prefix) or set("{}*") & set(prefix):
        raise BadInput(
            f"prefix {prefix[:140]!a} can't be used: "
            "1 to 128 printable ASCII characters without space { } *"
        )
    return prefix


def checked_consumer(name: str) -> str:
    """A consumer's name; ``~`` in front is kept for names of our own."""
    checked_name(name, "consumer name")
    if name.startswith("~"):
        raise BadInput(f"consumer name {name!r}: names that begin with ~ are reserved")
    return name


class Keys:
    """The key names of one queue (``tag``: its name, or name/shard)."""

    __slots__ = ("_lists", "base", "tag")

    def __init__(self, tag: str, prefix: str = PREFIX) -> None:
        self.tag = tag
        self.base = f"{prefix}:{{{tag}}}:"
        self._lists: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __getitem__(self, part: str) -> str:
        return self.base + (part[:-1] + ":" if part.endswith("_") else part)

    def of(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """A script's keys, some twenty; built once, for it may be sent a million times."""
        if parts not in self._lists:
            self._lists[parts] = tuple([self[part] for part in parts])
        return self._lists[parts]


class GivenKeys(Keys):
    """Names that follow no scheme of ours."""

    __slots__ = ("_names",)

    def __init__(self, **names: str) -> None:
        super().__init__("")
        self._names = names

    def __getitem__(self, part: str) -> str:
        return self._names[part]


def registry_key(prefix: str = PREFIX) -> str:
    """The hash of all queues; written before a queue's first key, in a slot of its own.

    Not ``rq:queues``: that is where the RQ library keeps its own, and both may share a server.
    """
    return f"{prefix}:registry"
