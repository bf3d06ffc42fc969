"""What happens to replayed Resque jobs, which have no ids: they are followed by their content.

A job waits while its queue's list has one of the same content; it is running while a worker's
record has one; it failed again when a failure of one is added to the list of failures. If two
searches in a row find it nowhere, it is done: a job that a Resque worker takes is in no key for a
moment, and one that is put back may be missed by a search. Identical jobs are counted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ...engine.replay_tracking import WATCHED, ReplayTracker
from ...model.quoting import text
from ...redis.operation import both, together
from ..ruby_jobs import job
from . import failure

if TYPE_CHECKING:
    from .queue import ResqueQueue

AHEAD = 1000
"""jobs of a look: of a list from the end where the next is taken, and of what our workers have"""
NEAR = AHEAD // 2
"""jobs of a list that stay in sight when others are put back in front of them"""
LATEST = 250
"""failures of a look: the last of a list, where new ones come; of all lists if there are several"""
OF_EACH = 10
"""at least, of those"""
SKEW_MS = 60_000
"""by how much the clock of a machine that wrote a failure may be behind the server's"""


class Which(NamedTuple):
    """A queue's name, and the digest of a job's content."""

    queue: str
    content: str


@dataclass(slots=True)
class IdenticalJobs:
    """Replayed jobs of one queue with the same content."""

    since: deque[int] = field(default_factory=deque)
    """the time before each was replayed; as many as aren't settled"""
    ids: set[str] = field(default_factory=set)
    """of their records, as the queue's list has them"""
    near: int = 0
    """at the latest look, about to be taken or at work"""
    missing: int = 0
    """nowhere at the latest look"""
    failed: int = 0
    """their failures that were found and not reported yet"""
    back: int = 0
    """older ones that were put back, by an undo"""
    lost: int = 0
    """how often a worker of ours was lost with one, by the latest delivery"""

    def look(self, seen: int, near: int, hidden: bool, blind: bool) -> tuple[int, int, int]:
        """How many failed, are done, and have an unknown end.

        ``seen``: how many wait or are at work. ``hidden``: further ones may wait where nobody
        looked. ``blind``: failures may have come that nobody saw.
        """
        gone = len(self.since) - min(len(self.since), seen)
        died = min(gone, self.failed)
        back = min(gone - died, self.back)
        if hidden:  # only those near the front are known to be gone
            gone = min(gone, self.near + self.missing)
        rest = max(0, gone - died - back)
        done = 0 if blind else min(rest, max(0, self.missing - died - back))
        untold = rest if blind else 0
        self.missing = rest - done - untold
        self.failed -= died
        self.back -= back
        for _ in range(died + back + done + untold):
            self.since.popleft()
        if died or done:  # that count is forgotten with the end of one
            self.lost = 0
        self.near = min(near, len(self.since))
        return died, done, untold


@dataclass(slots=True)
class Tail:
    """The last elements of a list of failures, as they were at the latest look."""

    size: int = 0
    """of the whole list; less what was taken out by us since"""
    known: Counter[str] = field(default_factory=Counter)
    """digests of the last elements, without those"""
    whole: bool = True
    """these were all"""

    @classmethod
    def of(cls, latest: Sequence[bytes], size: int) -> Tail:
        return cls(size, Counter(map(job.digest, latest)), size <= len(latest))

    def took(self, digest: str) -> None:
        """One was replayed."""
        self.size -= 1
        if self.known[digest] > 1:
            self.known[digest] -= 1
        else:
            del self.known[digest]

    def behind(self, latest: Sequence[bytes], size: int) -> tuple[list[bytes], bool]:
        """The failures that came since, by a later look, and whether there may be more. New ones
        are appended: as many as the list grew by are new for sure. If others were taken out
        meanwhile, so are those before, back to the first whose content was known."""
        sure = max(0, size - self.size)
        if sure > len(latest):
            return list(latest), True
        start = len(latest) - sure
        while start and job.digest(latest[start - 1]) not in self.known:
            start -= 1
        if not start and not self.whole:  # they may be older than what was seen
            return list(latest[len(latest) - sure :]), bool(self.known)
        return list(latest[start:]), not start and size > len(latest)


class JobReplayTracker(ReplayTracker):
    """Follows replayed jobs by their content: the whole record, however its JSON is spelled.

    New failures are recognised by their places in the list and their bytes, so one of the same
    second as the replay isn't confused with an earlier one. A look is a fixed
    number of commands and round trips: 1,000 jobs from the front of each list, the latest 250
    failures. When more of these came since the one before, what went meanwhile is neither well nor
    dead, but `unknown_ends`.
    """

    def __init__(self, queue: ResqueQueue[Any]) -> None:
        super().__init__(queue)
        self._jobs = queue
        self._alike: dict[Which, IdenticalJobs] = {}
        self._by_id: dict[tuple[str, str], Which] = {}
        self._tails: dict[str, Tail] = {}
        """by the key of the list"""
        self._overrun = False
        self._untold = 0

    @property
    def failing(self) -> int:
        # One that failed is dead; what comes again is what was lost, of several alike as many.
        return sum(min(alike.lost, len(alike.since)) for alike in self._alike.values())

    @property
    def unsettled(self) -> int:
        return self._followed + self._untold

    @property
    def unknown_ends(self) -> int:
        return self._untold

    @property
    def _followed(self) -> int:
        return sum(len(alike.since) for alike in self._alike.values())

    async def begin(self) -> None:
        await self._read_failures()

    def forget(self) -> None:
        self._alike.clear()
        self._by_id.clear()
        self._untold = 0

    async def add(self, ids: Sequence[str], at_ms: int, op: str, step: int) -> None:
        queue, lists = self._jobs, self._jobs.keys["t_queue_"]
        room, behind, more = WATCHED - self._followed, 0, b"1"
        while more == b"1":
            more, *found = await queue._call_script(
                "replayed_jobs", list[bytes], op=op, step=step, behind=behind
            )
            rows = list(zip(found[::4], found[1::4], found[2::4], found[3::4], strict=True))
            behind += len(rows)
            for source, digest, _, _ in rows:
                self._tails.setdefault(text(source), Tail()).took(digest.decode())
            for _, _, key, payload in rows:
                which = Which(text(key).removeprefix(lists), job.content(payload))
                if room <= 0 and which not in self._alike:
                    continue  # all that are alike are followed, or none: their ends are one count
                room -= 1
                alike = self._alike.setdefault(which, IdenticalJobs())
                alike.since.append(at_ms)
                alike.ids.add(id := queue.id_of(payload))
                self._by_id[which.queue, id] = which

    async def look(self) -> list[bool]:
        # In the order in which a job goes: one that goes on meanwhile may be seen twice, not never.
        seen, near, hidden = await self._read_jobs()
        before, self._overrun = self._overrun, await self._read_failures()
        ends: list[bool] = []
        for which, alike in list(self._alike.items()):
            died, done, untold = alike.look(
                seen[which], near[which], which.queue in hidden, before or self._overrun
            )
            ends += [True] * died + [False] * done
            self._untold += untold
            if not alike.since:
                del self._alike[which]
                for id in alike.ids:
                    del self._by_id[which.queue, id]
        return ends

    async def _read_jobs(self) -> tuple[Counter[Which], Counter[Which], set[str]]:
        """How many are seen waiting or at work, how many of these will soon be taken or are, and
        the queues of which not all could be seen."""
        seen, near, hidden = Counter[Which](), Counter[Which](), set[str]()
        names = sorted({which.queue for which in self._alike})
        if not names:
            return seen, near, hidden
        queue = self._jobs
        lists = await together(queue._list(name).window(0, AHEAD) for name in names)
        held, processes = await both(
            together(queue._holding(name).window(0, AHEAD) for name in names),
            queue.processes_with_jobs(whole=True),
        )
        for name, (waiting, many), (taken, more) in zip(names, lists, held, strict=True):
            if many > AHEAD:
                hidden.add(name)
            if more > AHEAD:  # by deadline, so any of them may get out of sight while it is there
                for which, alike in self._alike.items():
                    seen[which] += len(alike.since) if which.queue == name else 0
            for there in (*waiting, *taken):
                known = self._by_id.get((name, there.entry.id))
                if known is not None:
                    seen[known] += 1
                    near[known] += there.place.kind == "held" or there.score < NEAR
                    alike = self._alike[known]
                    alike.lost = max(alike.lost, there.entry.lost)
        for work in (work for process in processes for work in process.work):
            if work.queue in names:
                which = Which(work.queue, job.content(work.payload))
                seen[which] += 1
                near[which] += 1
        return seen, near, hidden

    async def _read_failures(self) -> bool:
        """Note the failures that came since the look before; True: there may be further ones."""
        queue, overrun = self._jobs, False
        keys = [place.key for place in await queue._places("dead")]
        tails = [self._tails.get(key, Tail()) for key in keys]
        found = await queue._call_script(
            "list_tail", list[Any],
            [(key, tail.size) for key, tail in zip(keys, tails, strict=True)],
            most=max(OF_EACH, LATEST // len(keys)),
        )  # fmt: skip
        for key, tail, (size, latest) in zip(keys, tails, found, strict=True):
            new, more = tail.behind(latest, size)
            overrun = overrun or more
            for element in new:
                self._note(element)
            self._tails[key] = Tail.of(latest, size)
        return overrun

    def _note(self, element: bytes) -> None:
        if not self._alike:
            return
        record = job.fields(element) or {}
        which = Which(str(record.get("queue")), job.content(failure.job_of(element) or b""))
        alike = self._alike.get(which)
        if alike is None:
            return
        at = failure.failed_ms(record.get("failed_at"))
        if at is not None and at < alike.since[0] - SKEW_MS:
            alike.back += 1
        else:
            alike.failed += 1
