"""All queues of a deployment: one hash, name -> kind, schema, time of creation.

An entry is written before the queue's first key and removed after its last. A server can lose it:
with all data or, on a Cluster, without the queues. So each shard of a queue has a mark among its
settings: a short copy of the entry. Without the mark a script stores nothing, and the queue
registers itself again (`QueueBase._register_again`). The mark restores an entry that is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2s
from typing import Any

from ..foreign.plug_ins import plug_ins
from ..model.errors import CORRUPT, BadInput, NotFound, SchemaTooNew, Unreadable, WrongKind
from ..model.keys import PREFIX, Keys, checked_name, known_name, registry_key
from ..model.quoting import bytes_of, legal, stored, text
from ..redis.hash_field import replace_field
from ..redis.operation import Call, Description, together
from ..redis.parsers import optional
from .queue_types import LAYOUTS

MARK = "registered"
"""the field of a queue's settings that has the mark"""
_MOST = 2**53
_LONGEST = 128
"""characters of a name"""
_PARTS: dict[str, tuple[type, int, int]] = {
    "kind": (str, 0, 0),
    "schema": (int, 0, _MOST),
    "created_ms": (int, 0, _MOST),
    "shards": (int, 1, 256),
    "old_shards": (int, 0, 256),
    "layout": (int, 0, _MOST),
    "at": (str, 0, 0),
    "called": (str, 0, 0),
}
"""fields of an entry, with their types and, of numbers, the least and the greatest"""


@dataclass(frozen=True, slots=True)
class Registered:
    """A registry entry."""

    name: str
    kind: str
    schema: int
    created_ms: int = 0
    shards: int = 1
    old_shards: int = 0
    """the former number of shards, while entries still move; else 0"""
    layout: int = 0
    """how often the number of shards was changed"""
    at: str | None = None
    """another program's queue: what its keys begin with"""
    called: str | None = None
    """of another program's queue: its owner's name, if that differs from ours"""
    problem: str | None = None
    """why the entry is corrupt; then the other fields mean nothing"""

    @property
    def all_shards(self) -> int:
        """Shards that may hold entries: 0 up to this."""
        return max(self.shards, self.old_shards)

    @classmethod
    def decoded(cls, name: bytes | str, data: bytes) -> Registered:
        """The entry; a corrupt one has a ``problem``."""
        name = text(name) if isinstance(name, bytes) else name
        try:
            name = _checked(name)
            found = json.loads(data)
            entry = cls(name, **{part: found[part] for part in _PARTS if part in found})
            for part, (type_, low, high) in _PARTS.items():
                value = getattr(entry, part)
                if type(value) is not type_ and (value is not None or part in ("kind", "schema")):
                    raise TypeError(part)
                if isinstance(value, int) and not low <= value <= high:
                    raise ValueError(part)
            if not entry._named_so:
                why = f"it describes a {entry.kind} queue, which has another name"
                return cls(
                    name, "unknown", 0, 0, problem=f"the registry entry of {name} is corrupt: {why}"
                )
        except (BadInput, *CORRUPT):
            return cls(name, "unknown", 0, 0, problem=f"the registry entry of {name} is corrupt")
        return entry

    @property
    def _named_so(self) -> bool:
        """Whether a queue of this kind with these keys can have this name. A user who may write the
        registry must not make a name mean another program's keys."""
        if self.at is None:
            owner, colon, _ = self.name.partition(":")
            return not (colon and owner in LAYOUTS and owner != self.kind)
        if self.called is None:
            return self.name == self.kind or self.name.startswith(f"{self.kind}:")
        return self.name == distinct_name(self.kind, bytes_of(self.at), bytes_of(self.called))

    @property
    def mark(self) -> str:
        """A copy of the entry for the queue's own keys. It is short, because a longer value would
        cost the settings hash its compact encoding."""
        numbers = (self.schema, self.created_ms, self.shards, self.old_shards, self.layout)
        return " ".join([self.kind, *map(str, numbers)])

    @classmethod
    def marked(cls, name: str, mark: bytes | None) -> Registered | None:
        """The entry that a mark stands for; None: there is none, or it is corrupt."""
        try:
            kind, *numbers = (mark or b"").decode().split(" ")
            schema, created, shards, old, layout = map(int, numbers)
        except ValueError:
            return None
        found = cls(name, kind, schema, created, shards, old, layout)
        entry = cls.decoded(name, found.encoded().encode())
        return None if entry.problem else entry

    def encoded(self) -> str:
        body: dict[str, str | int] = {
            "kind": self.kind,
            "schema": self.schema,
            "created_ms": self.created_ms,
        }
        if self.all_shards > 1:
            body["shards"] = self.shards
        if self.old_shards:
            body["old_shards"] = self.old_shards
        if self.layout:
            body["layout"] = self.layout
        if self.at is not None:
            body["at"] = self.at
        if self.called is not None:
            body["called"] = self.called
        return json.dumps(body)

    def checked(self, kind: str, schema: int) -> Registered:
        """The entry itself; raises unless a class of this kind and schema can open the queue."""
        if self.problem is not None:
            raise Unreadable(self.problem)
        if self.kind != kind:
            raise WrongKind(f"queue {self.name} is a {self.kind} queue, not a {kind} queue")
        if self.schema > schema:
            raise SchemaTooNew(
                f"queue {self.name} was written by a newer release "
                f"(schema {self.schema}, this one knows {schema}); update redisq-ops"
            )
        return self


def plain_name(kind: str, own: bytes) -> str:
    """Our name for the queue that its program calls ``own``, at the kind's usual keys."""
    return f"{kind}:{legal(own)}" if own else kind


def distinct_name(kind: str, at: bytes, own: bytes) -> str:
    """The name with a digest of where its keys are, for a queue at other keys or with a long
    name."""
    digest = blake2s(at + b"\0" + own, digest_size=4).hexdigest()
    return f"{plain_name(kind, own)[: _LONGEST - 9]}~{digest}"


_decoded = lru_cache(4096)(Registered.decoded)
"""cached for callers that read all entries again and again, such as the dashboard"""


def all_queues(prefix: str = PREFIX) -> Call[list[Registered]]:
    """Every registered queue, by name. One read of the whole registry: about 100 bytes a queue."""

    def read(reply: dict[bytes, bytes]) -> list[Registered]:
        return sorted(
            (_decoded(name, data) for name, data in reply.items()),
            key=lambda entry: entry.name,
        )

    key = registry_key(prefix)
    return Call(("HGETALL", key), read, key=key)


def find(name: str, prefix: str = PREFIX) -> Call[Registered | None]:
    """One registry entry, or None."""
    key = registry_key(prefix)
    return Call(
        ("HGET", key, stored(name)),
        lambda data: None if data is None else Registered.decoded(name, data),
        key=key,
    )


async def ensure_registered(
    name: str,
    kind: str,
    schema: int,
    prefix: str = PREFIX,
    shards: int = 1,
    permitted: Callable[[], Coroutine[Any, Any, None]] | None = None,
    *,
    layout: int = 0,
    mark: Description[bytes | None] | None = None,
) -> Registered:
    """Find a queue's entry or create it: from its ``mark``, if there is one.

    ``permitted`` is awaited before an entry is created: it raises `Forbidden` for a user who can't
    submit. Raises `WrongKind` for a queue of another kind, `SchemaTooNew` for a newer layout,
    `BadInput` for a name that is reserved.
    """
    _checked(name)
    entry, own = await together(find(name, prefix), mark or read_mark(Keys(name, prefix)))
    kept = Registered.marked(name, own)
    if entry is None:
        refuse_reserved_name(name, kind)
        if permitted is not None:
            await permitted()
        key = registry_key(prefix)
        now = await server_ms()
        mine = kept or Registered(name, kind, schema, now, shards, layout=layout)
        # HSETNX: if two producers create the queue, one wins, and both read its entry.
        await Call(("HSETNX", key, stored(name), mine.encoded()), int, key=key)
        entry = await find(name, prefix)
        if entry is None:
            raise NotFound(f"queue {name} was removed while it was being created")
    if kept is not None and entry.problem is None and kept.kind != entry.kind:
        raise WrongKind(
            f"the registry says that queue {name} is a {entry.kind} queue, but its own keys say"
            f" that it is a {kept.kind} queue: repair or remove field {name} of key"
            f" {registry_key(prefix)}"
        )
    return entry.checked(kind, schema)


def _checked(name: str) -> str:
    """The name; raises `BadInput`. The name of another program's queue may have letters outside
    ASCII."""
    owner, colon, _ = name.partition(":")
    theirs = colon and (owner in LAYOUTS or (not name.isascii() and owner in plug_ins()))
    return (known_name if theirs else checked_name)(name, "queue name")


async def read_mark(keys: Keys) -> bytes | None:
    """The mark of one shard of a queue. A key of another type has none: other checks report its
    type."""
    read: Call[bytes | None] = Call(("HGET", keys["cfg"], MARK), optional, key=keys["cfg"])
    try:
        mark: bytes | None = await read
    except WrongKind:
        return None
    return mark


def refuse_reserved_name(name: str, kind: str) -> None:
    """Raise `BadInput` for a new queue whose name would hide another program's queue."""
    owner, colon, _ = name.partition(":")
    if colon and owner != kind and (owner in LAYOUTS or owner in plug_ins()):
        raise BadInput(f"queue name {name!r}: names that begin with {owner}: are other programs'")


def amend(before: Registered, after: Registered, prefix: str = PREFIX) -> Call[bool]:
    """Replace an entry if it is still ``before``; False: somebody else changed it."""
    key, name = registry_key(prefix), stored(before.name)
    return replace_field(key, name, before.encoded(), after.encoded())


def adopt(entry: Registered, prefix: str = PREFIX) -> Call[bool]:
    """Register another program's queue; False: the name is taken."""
    key = registry_key(prefix)
    return Call(("HSETNX", key, stored(entry.name), entry.encoded()), bool, key=key)


def forget(entry: Registered, prefix: str = PREFIX) -> Call[int]:
    """Remove an entry, after the queue's last key."""
    key = registry_key(prefix)
    return Call(("HDEL", key, stored(entry.name)), int, key=key)


def server_ms() -> Call[int]:
    """The server's clock."""
    return Call(("TIME",), lambda t: int(t[0]) * 1000 + int(t[1]) // 1000, key=registry_key())
