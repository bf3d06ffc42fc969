"""Which names are allowed, and how a queue's keys are built.

A key is ``<prefix>:{<queue>}:<part>``; the braces put all keys of a queue in one hash slot, so
that one script may change several of them. A part that ends in ``_`` is a *prefix* of keys
(``r_`` → ``redisq:{mail}:r:`` + request id). Prefixes are declared to scripts like keys: when a
slot is migrating, an absent declared key makes the server answer TRYAGAIN before anything is
written.
"""

from __future__ import annotations

import re

from .errors import BadInput
from .quoting import bytes_of, shown, stored

PREFIX = "redisq"
_NAME = re.compile(r"[!-~]{1,128}")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_FORBIDDEN = frozenset("{}*|/")


def checked_name(value: str, what: str) -> str:
    """Return ``value``; raises `BadInput` unless it is a legal name or id.

    Legal: 1 to 128 printable ASCII characters without space, ``{ } * | /``.
    """
    if not isinstance(value, str):  # library users may pass anything
        raise BadInput(f"{what} must be a str, not {type(value).__name__}")
    if not _is_legal(value):
        raise BadInput(
            f"{what} {value[:140]!a} can't be used: "
            "1 to 128 printable ASCII characters without space { } * | /"
        )
    return value


def _is_legal(value: str) -> bool:
    return _NAME.fullmatch(value) is not None and _FORBIDDEN.isdisjoint(value)


def known_name(value: str, what: str) -> str:
    """The name of something that exists, in the form that redisq shows; raises `BadInput`.

    As `checked_name`, but other programs' names may have other letters, as in `quoting.legal`.
    """
    name = shown(value) if isinstance(value, str) else value
    if not isinstance(name, str) or name.isascii():
        return checked_name(name, what)
    if not _is_legal(_NOT_ASCII.sub("x", name)):
        raise BadInput(
            f"{what} {value[:140]!r} can't be used: write 1 to 128 characters without space and"
            " { } * | /. Only names of other programs have characters outside ASCII"
        )
    return name


def checked_prefix(prefix: str) -> str:
    """Return ``prefix``; raises `BadInput` for braces, which would change the hash slot."""
    if not isinstance(prefix, str):
        raise BadInput(f"prefix must be a str, not {type(prefix).__name__}")
    if not _NAME.fullmatch(prefix) or set("{}*") & set(prefix):
        raise BadInput(
            f"prefix {prefix[:140]!a} can't be used: "
            "1 to 128 printable ASCII characters without space { } *"
        )
    return prefix


def checked_consumer(name: str) -> str:
    """Return a consumer's name; raises `BadInput` for a bad one. ``~`` in front is reserved."""
    checked_name(name, "consumer name")
    if name.startswith("~"):
        raise BadInput(f"consumer name {name!r}: names that begin with ~ are reserved")
    return name


class Keys:
    """The key names of one queue, or of one of its shards (``tag``: its name, or name/shard)."""

    __slots__ = ("_lists", "base", "tag")

    def __init__(self, name: str, prefix: str = PREFIX, shard: int = 0) -> None:
        # A name can't contain a slash, so no queue has the keys of another queue's shard.
        self.tag = f"{name}/{shard}" if shard else name
        self.base = f"{prefix}:{{{stored(self.tag)}}}:"
        self._lists: dict[tuple[str, ...], tuple[str | bytes, ...]] = {}

    def __getitem__(self, part: str) -> str:
        return self.base + (part[:-1] + ":" if part.endswith("_") else part)

    def of(self, parts: tuple[str, ...]) -> tuple[str | bytes, ...]:
        """The key names of several parts as they are sent, cached: a script has about twenty."""
        if parts not in self._lists:
            names = [self[part] for part in parts]
            self._lists[parts] = tuple([n if n.isascii() else bytes_of(n) for n in names])
        return self._lists[parts]

    @classmethod
    def owners(cls, key: str, part: str, prefix: str) -> list[tuple[str, int]]:
        """The queues, each with the number of a shard, that have ``key`` as this part."""
        found = re.fullmatch(
            rf"{re.escape(prefix)}:\{{([^{{}}/]+)(?:/(\d+))?\}}:{re.escape(part)}", key
        )
        return [(shown(found[1]), int(found[2] or 0))] if found else []


class GivenKeys(Keys):
    """Key names that are given one by one."""

    __slots__ = ("_names",)

    def __init__(self, **names: str) -> None:
        super().__init__("")
        self._names = names

    def __getitem__(self, part: str) -> str:
        return self._names[part]


def registry_key(prefix: str = PREFIX) -> str:
    """The key of the registry: a hash of all queues, in a hash slot of its own."""
    return f"{prefix}:registry"
