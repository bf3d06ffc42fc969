"""How deployments of Resque and Sidekiq are recognised.

Both have lists ``queue:NAME`` and a set ``queues``. The next job of a list shows whose they are; if
all lists are empty, the keys beside them do.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ...redis.key_scan import Lane
from ...redis.operation import Call, apart, together
from ..recogniser import Find, KeyLook, Recogniser
from . import job
from .private_lists import PrivateList

_LIST = re.compile(rb"((?:.*?:)?)queue:(.+)", re.DOTALL)
_QUEUES = re.compile(rb"((?:.*:)?)queues", re.DOTALL)
_SET = re.compile(rb"((?:.*:)?)(?:schedule|retry|dead)", re.DOTALL)
_NOTES = re.compile(
    rb"(?:.*:)?(?:cron_job:.+:enqueued|sidekiq-scheduler:pushed:.+"
    rb"|uniquejobs:(?:digests|expiring_digests|changelog))",
    re.DOTALL,
)
"""sets by time that extensions of Sidekiq keep beside its queues: sidekiq-cron, sidekiq-scheduler
and sidekiq-unique-jobs. They hold no jobs."""
Owner = Literal["sidekiq", "resque"]
SIGNS: dict[Owner, dict[bytes, bytes]] = {
    "sidekiq": {b"schedule": b"zset", b"retry": b"zset", b"dead": b"zset", b"processes": b"set"},
    "resque": {b"workers": b"set", b"failed": b"list", b"delayed_queue_schedule": b"zset"},
}
"""the keys beside the lists, by type"""


@dataclass(slots=True)
class _Home:
    """Lists of jobs and a set of queues whose keys begin alike: of Resque, Sidekiq, or neither."""

    queues: list[bytes] | None = None
    """what the set of queues names; None: there is none"""
    lists: dict[bytes, Owner | None] = field(default_factory=dict)
    waits: bool = False
    """a sorted set of Sidekiq's exists; if its queues are all empty, no key names one"""


class JobRecogniser(Recogniser):
    lanes: ClassVar[tuple[Lane, ...]] = (Lane("zset"), Lane("list"), Lane("set", b"*queues"))

    def __init__(self) -> None:
        self._homes: dict[bytes, _Home] = {}
        self._claimed: set[bytes] = set()

    async def by_name(self, look: KeyLook) -> bool:
        if look.type == "zset" and _NOTES.fullmatch(look.key):
            return True
        if look.type == "zset" and (at := _SET.fullmatch(look.key)):
            if owner_of(await look.first()) != "sidekiq":
                return False
            self._home(at[1]).waits = True
            return True
        if look.type == "list" and (held := PrivateList.of_key(look.key)):
            if (owner := owner_of(await look.first())) is not None:
                self._home(held.at).lists.setdefault(held.queue, owner)
            return True
        if look.type == "list" and (part := _LIST.fullmatch(look.key)):
            lists = self._home(part[1]).lists
            owner = owner_of(await look.first())
            lists[part[2]] = owner or lists.get(part[2])
            return owner is not None
        if look.type == "set" and (at := _QUEUES.fullmatch(look.key)):
            self._home(at[1]).queues = await look.members()
            return True
        return False

    def _home(self, at: bytes) -> _Home:
        return self._homes.setdefault(at, _Home())

    async def finds(self) -> list[Find]:
        found = []
        for at, home in self._homes.items():
            owners = [owner for owner in home.lists.values() if owner]
            if not owners and home.queues is None:
                continue
            kind = Counter(owners).most_common(1)[0][0] if owners else await _beside(at)
            if kind is None:
                continue
            names = [n for n in home.queues or () if PrivateList.of_queue(n) is None]
            of = {name: home.lists.get(name) or kind for name in names}
            of |= {name: owner for name, owner in home.lists.items() if owner}
            found += [Find(owner, name, at) for name, owner in of.items()]
        named = {find.at for find in found if find.kind == "sidekiq"}
        # A Sidekiq whose queues no key names is found as a whole deployment, without a name.
        nameless = [at for at, home in self._homes.items() if home.waits and at not in named]
        found += [Find("sidekiq", b"", at) for at in nameless]
        self._claimed = {find.at for find in found}
        return found

    def owns(self, key: bytes) -> bool:
        for at in self._claimed:
            rest = key.removeprefix(at) if key.startswith(at) else b""
            if any(rest in kept for kept in SIGNS.values()):
                return True
            if re.match(rb"(?:working:)?queue:|delayed:\d+\Z", rest):
                return True
        return False


def owner_of(element: bytes) -> Owner | None:
    """Sidekiq's jobs have a ``jid``, Resque's a class and its arguments."""
    found = job.fields(element)
    if found is None or (isinstance(found.get("client_id"), str) and "attempts" in found):
        return None
    if not isinstance(found.get("class"), str) or not isinstance(found.get("args"), list):
        return None
    return "sidekiq" if isinstance(found.get("jid"), str) else "resque"


async def _beside(at: bytes) -> Owner | None:
    """The program whose keys are beside a set of queues, if no list has a job."""
    for owner, kept in SIGNS.items():
        types = await together(
            apart(Call(("TYPE", at + part), bytes, key=at + part)) for part in kept
        )
        if any(is_ == wanted for is_, wanted in zip(types, kept.values(), strict=True)):
            return owner
    return "resque" if at.endswith(b"resque:") else None
