"""The ACL rules of the roles: viewer, producer, worker, operator. The docs show these.

Each role has all rights of the role before it. The write commands of a producer and a worker are
read from the scripts that these roles run. The server applies rules from left to right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal, get_args

from redisq_ops.core.engine.queue_classes import plug_in_classes
from redisq_ops.core.engine.queue_types import FOREIGN_CLASSES, OWN_CLASSES
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import PREFIX, checked_name, checked_prefix, known_name
from redisq_ops.core.model.quoting import stored
from redisq_ops.core.redis.acl_denial import READS
from redisq_ops.core.redis.acl_rights import PUT, WORK
from redisq_ops.core.redis.scripts import commands, script

Role = Literal["viewer", "producer", "worker", "operator"]
ROLES: tuple[Role, ...] = get_args(Role)
CLUSTER = ("+cluster|slots", "+cluster|shards", "+cluster|nodes")
"""commands that a client of a Cluster also needs, on every node"""
_READ = ("+@read", "+@connection", "-@dangerous")
_SCRIPTS = ("-@scripting", "+eval", "+evalsha")
_SEE = ("+subscribe", "+unsubscribe", "+time", "+info")
_PRODUCER = ("hsetnx",)
"""what a producer writes without a script: the registry entry of a new queue"""
_WORKER = ("blpop", "lpush", "publish")
_TRANSFERS = (
    "hand_over",
    "transfer_accept",
    "transfer_drop",
    "transfer_read",
    "transfer_restore",
    "transfer_results",
    "transfer_revert",
    "transfer_step_ended",
    "finish_transfer",
    "list_unfinished",
)
"""scripts that hand over due entries, and scripts that end a move whose operator was killed"""
_GLOB = re.compile(r"[*?\[\]\\^]")


def rules(
    role: Role,
    *,
    prefix: str = PREFIX,
    queues: Sequence[str] = (),
    keys: Sequence[str] = (),
    cluster: bool = False,
) -> list[str]:
    """The rules of a role, in their order; without ``reset``, a password and ``on``.

    ``queues``: allow only the keys of these queues, and the registry as they need it; empty: all.
    ``keys``: patterns of other programs' keys. ``cluster``: add what a client of a Cluster needs.
    """
    writes = {
        "viewer": (),
        "producer": (*_SCRIPTS, *_allowed(_written(PUT), _PRODUCER)),
        "worker": (*_SCRIPTS, *_allowed(_written((*PUT, *WORK, *_TRANSFERS)), _PRODUCER, _WORKER)),
        "operator": ("+@write", *_SCRIPTS, "+publish"),
    }[role]
    mark = "%R~" if role == "viewer" else "~"
    own, channels = _patterns(checked_prefix(prefix), queues)
    registry = _registry_rules(_literal(prefix), writes) if queues else []
    read, connection, dangerous = _READ
    # `-@dangerous` comes after `+@write`, to forbid the dangerous commands in it.
    ahead = [word for word in writes if word.startswith("+@")]
    return [
        *(f"{mark}{pattern}" for pattern in own),
        *registry[:1],
        *(f"{mark}{_checked_pattern(pattern)}" for pattern in keys),
        *(f"&{pattern}" for pattern in channels),
        read,
        *ahead,
        connection,
        dangerous,
        *(word for word in writes if word not in ahead),
        *_SEE,
        *(CLUSTER if cluster else ()),
        *registry[1:],
    ]


def setuser(user: str, rules: Sequence[str]) -> str:
    """The command that makes a user. It begins with ``reset``: ACL SETUSER adds to old rules."""
    return " ".join(["ACL SETUSER", checked_name(user, "user name"), "reset on >change-me", *rules])


def _patterns(prefix: str, queues: Sequence[str]) -> tuple[list[str], list[str]]:
    """Patterns of keys and of channels."""
    literal = _literal(prefix)
    if not queues:
        return [f"{literal}:*"], [f"{literal}:*"]
    names = [_literal(stored(known_name(name, "queue name"))) for name in dict.fromkeys(queues)]
    # A shard's name is its queue's name, a slash and a number. No queue's name has a slash.
    own = [f"{literal}:{{{name}{end}}}:*" for name in names for end in ("", "/*")]
    return own, own


def _registry_rules(literal: str, writes: Sequence[str]) -> list[str]:
    """A user who is limited to some queues may read the whole registry, and add entries to it. A
    selector allows only HSETNX there: other commands of the role could hide or replace an entry."""
    rules = [f"%R~{literal}:registry"]
    return [*rules, f"(%W~{literal}:registry +hsetnx)"] if writes else rules


def _literal(text: str) -> str:
    """The text as a pattern that matches only this text."""
    return _GLOB.sub(r"\\\g<0>", text)


def _checked_pattern(pattern: str) -> str:
    if not re.fullmatch(r"[!-~]+", pattern):
        raise BadInput(f"--keys {pattern!r}: printable ASCII characters without space")
    return pattern


def _allowed(*names: Iterable[str]) -> list[str]:
    return [f"+{name}" for name in sorted({name for some in names for name in some})]


@cache
def _written(scripts: tuple[str, ...]) -> tuple[str, ...]:
    """The commands of these scripts, in every kind of queue, that the other rules don't allow."""
    found, absent = set[str](), set(scripts)
    packages = [kind[0] for kind in (*OWN_CLASSES.values(), *FOREIGN_CLASSES.values())]
    packages += [made.package for made in plug_in_classes().values()]
    for package in dict.fromkeys(packages):
        for name in scripts:
            try:
                text = script(package, name).text
            except FileNotFoundError:  # not of this kind
                continue
            absent.discard(name)
            found |= {"|".join(words).lower() for words in commands(text)}
    assert not absent, f"no kind has the scripts {sorted(absent)}"
    return tuple(found - READS - {"time"})
