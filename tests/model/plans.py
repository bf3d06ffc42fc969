"""Plans beside everything else: made, applied by several at once, killed, gone on with, undone.

An apply here is an object that takes a step when its turn comes: one that is never asked again was
killed, one that is asked after another finished is a zombie, two of one plan are two operators.
What a step did is predicted entry by entry from the book; after every step the server must say the
same: nothing is lost, nothing is moved twice, and nothing but what was planned is touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from redisq_ops.core.model.errors import Refused
from redisq_ops.core.model.states import VERBS
from redisq_ops.core.redis.operation import Description, run
from redisq_ops.ops.change import audit_log
from redisq_ops.ops.change.apply import PlanSteps
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.entry_steps import Pick
from redisq_ops.ops.change.plan import Draft, PlanFile
from redisq_ops.ops.change.plan_header import PlanHeader
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.scope import select_entries
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.filter.filter import Filter

from ..changes import plan_change
from .delays import DelayModel
from .model import LEASE, Model, Step, Unit
from .requests import RequestModel
from .wire import picture

ME = Author("ada", "laptop", "because")
MOST = 5
"""plans that are gone on with at a time"""


class Killed(BaseException):
    """The tool, after the server carried out its step and before it heard of it."""


class Ticks:
    """Calls that take half a millisecond, also those that do nothing."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 0.0005
        return self._now


@dataclass
class Paper:
    """A plan as the book has it."""

    path: str
    header: PlanHeader
    picks: list[Pick]
    meant: dict[str, Unit]
    """the very lives that were planned for"""
    reached: int = 0
    steps: int = 0
    rows: dict[int, Step] = field(default_factory=dict)
    words: Counter[str] = field(default_factory=Counter)
    undoing: bool = False
    appliers: list[ChangeRun[PlanSteps]] = field(default_factory=list)
    undos: list[ChangeRun[UndoSteps]] = field(default_factory=list)
    heard: list[tuple[str, str]] = field(default_factory=list)


class Plans(Model):
    """What the two kinds have in common; before a kind's own model in the order of bases."""

    rests = (*Model.rests, "ops")

    def __init__(self, client: redis.Redis, seed: int, folder: Path) -> None:
        self.folder = folder
        self.papers: list[Paper] = []
        self.planned = 0
        self.told: Counter[str] = Counter()
        super().__init__(client, seed)

    def rules(self) -> Iterable[tuple[int, Callable[[], None]]]:
        return [*super().rules(), (8, self.plan), (25, self.apply), (4, self.undo_plan)]

    def run(self, description: Description[Any]) -> Any:
        """As every model's, less often twice: the other models are there for that."""
        if self.rng.random() < 0.6:
            return run(self.client, description)
        return super().run(description)

    def born(self, unit: Unit) -> int:
        """What tells a waiting or delayed entry from a later one of its id without a record."""
        raise NotImplementedError

    # --- rules ---------------------------------------------------------------------------------

    def plan(self) -> None:
        """Write one, of a state that has something; that changes nothing."""
        verb: Any = self.rng.choice(list(self.queue.actions))
        state = self.rng.choice(self.queue.actions[verb])
        self.planned += 1
        op, path = f"{verb}-plan{self.planned}", str(self.folder / f"p{self.planned}")
        before = picture(self.client) if self.rng.random() < 0.1 else None
        with Draft(path, op) as draft:
            limit = Filter(max=self.rng.choice([3, 10, 40]))
            chosen, weight = run(
                self.client, select_entries(self.queue, state, limit, keep=draft.add)
            )
            argument = self.now + LEASE if verb == "reschedule" else LEASE
            header = PlanHeader(
                op,
                "q",
                self.queue.kind,
                "redisq",
                0,
                "",
                verb,
                state,
                "operator",
                argument,
                chosen.high_water_ms,
                "all",
                "ada",
                "laptop",
                "",
                self.now,
                self.rng.choice([1, 3, 9]),
            )
            draft.finish(header, {"consequences": weight.facts(verb)})
        assert before is None or picture(self.client) == before
        file = PlanFile(path)
        picks = list(file.picks())
        file.close()
        if picks:
            meant = {pick.id: self.units[pick.id] for pick in picks}
            self.papers.append(Paper(path, header, picks, meant))
            self.papers = self.papers[-MOST:]

    def apply(self) -> None:
        """One of a plan's operators takes a step or two, or a new one comes."""
        if not self.papers:
            return
        paper = self.rng.choice(self.papers)
        if not paper.appliers or self.rng.random() < 0.3:
            paper.heard = []
            most = self.rng.choice([None, None, 2, 5])
            change = plan_change(
                PlanFile(paper.path),
                self.queue,
                ME,
                most=most,
                clock=Ticks(),
                report=lambda id, said: self.hears(paper, id, said),
            )
            paper.appliers.append(change)
        change = self.rng.choice(paper.appliers)
        for _ in range(self.rng.choice([1, 1, 2])):
            paper.heard.clear()
            self.dies = self.rng.random() < 0.1
            over = False
            try:
                over = not self.run(change.step())
            except Killed:
                paper.appliers.remove(change)
                self.told["killed"] += 1
            except Refused:
                assert paper.undoing, "only a plan that was taken back is refused"
                self.told["refused"] += 1
                paper.appliers.remove(change)
            self.dies = False
            self.follow(paper)
            if change not in paper.appliers:
                return
            if over:
                self.told["over"] += 1
                self.is_told_the_truth(paper, change)
                if self.rng.random() < 0.7:
                    paper.appliers.remove(change)
                return

    dies = False

    def hears(self, paper: Paper, id: str, said: str) -> None:
        if self.dies:
            raise Killed
        paper.heard.append((id, said))

    def follow(self, paper: Paper) -> None:
        """Enter what the server carried out, and compare with what was said of it."""
        operation = run(self.client, audit_log.read(self.queue, paper.header.op))
        if operation is None or operation.steps == paper.steps:
            return
        start, end = operation.span
        assert (operation.steps, start) == (paper.steps + 1, paper.reached), (
            "one step, and the next"
        )
        assert not paper.undoing, "nothing is done of what is being undone"
        step = Step(paper.header.op, operation.steps)
        said = [(pick.id, self.looked_at(paper, pick, step)) for pick in paper.picks[start:end]]
        if paper.heard:
            assert paper.heard[-len(said) :] == said
        paper.rows[step.seq] = step
        paper.steps, paper.reached = operation.steps, end
        paper.words.update(word for _, word in said)
        assert operation.done == paper.words["moved"]
        self.told["steps"] += 1
        self.told.update(word for _, word in said)

    def looked_at(self, paper: Paper, pick: Pick, step: Step) -> str:
        header, unit = paper.header, self.units.get(pick.id)
        if unit is None or not self.in_state(unit, header.state):
            return "changed"
        if pick.at_ms is not None and self.born(unit) != pick.at_ms:
            return "changed"
        if unit.line and unit.since > header.high_water_ms:
            return "late"
        # A delay set can't tell lives of one id that were due in the very same millisecond.
        assert unit is paper.meant[pick.id] or pick.at_ms is not None, "another life of that id"
        self.moved(unit, step, header.state, VERBS[header.verb][1], header.argument)
        return "moved"

    def is_told_the_truth(self, paper: Paper, change: ChangeRun[PlanSteps]) -> None:
        if paper.undoing:
            return
        run(self.client, change.steps.finish())
        outcome = change.outcome
        assert outcome.done == paper.words["moved"]
        assert outcome.done + sum(outcome.skipped.values()) == paper.reached
        assert change.steps.left == len(paper.picks) - paper.reached

    def undo_plan(self) -> None:
        """Take some of a plan back; whoever still applies it is told."""
        able = [paper for paper in self.papers if paper.steps]
        if not able:
            return
        paper = self.rng.choice(able)
        if not paper.undos or self.rng.random() < 0.3:
            operation = run(self.client, audit_log.read(self.queue, paper.header.op))
            assert operation is not None
            if not operation.undoable:
                return
            paper.undos.append(ChangeRun(UndoSteps(self.queue, operation), ME))
        undo = self.rng.choice(paper.undos)
        for _ in range(self.rng.choice([1, 2, 20])):
            before = self.lists(paper)
            going = self.run(undo.step())
            paper.undoing = True
            for seq in sorted(before - self.lists(paper), reverse=True):
                self.taken_back(paper.rows[seq], VERBS[paper.header.verb][1])
            operation = run(self.client, audit_log.read(self.queue, paper.header.op))
            assert operation is not None
            assert operation.span[1] == paper.reached
            paper.steps = operation.steps
            self.told["undone"] += 1
            if not going:
                paper.undos.remove(undo)
                return

    def lists(self, paper: Paper) -> set[int]:
        key = f"{self.queue.keys['undo_']}{paper.header.op}"
        return {seq for seq in paper.rows if self.client.exists(f"{key}:{seq}")}

    def taken_back(self, step: Step, target: str) -> None:
        for before, to in step.rows:
            unit = self.units.get(before.id)
            if unit is None or unit.op != step.op or not self.still(unit, to, target):
                continue
            self.put_back(unit, before)
        step.rows = []


class PlannedDelays(Plans, DelayModel):
    def born(self, unit: Unit) -> int:
        return unit.at


class PlannedRequests(Plans, RequestModel):
    def born(self, unit: Unit) -> int:
        return self.book(unit).created if unit.state == "waiting" else unit.at
