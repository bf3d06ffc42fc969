"""The one way to prepare a change of entries, for the command line, the dashboard and `apply`.

They build a `ChangeRequest`, which refuses what is not possible, or read a plan file. `prepare` or
`prepare_plan` selects the entries and says in a `Preview` what will happen; nothing is written.
`PreparedChange.run` picks the kind of steps that carries it out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from itertools import islice, starmap
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import checked_consumer
from redisq_ops.core.model.settings import LEASE_MS, MAX_BATCH
from redisq_ops.core.model.states import VERBS, Verb

from ..deployment import Deployment
from ..filter.filter import Filter
from ..filter.scan import WHOLE
from ..filter.selection import Keep, Selection
from ..terminal import age, count, date
from . import transfer_plan
from .allowed import allowed, ensure_changeable
from .apply import PlanSteps, recorded
from .audit_log import Author, Operation
from .confirmation import typed
from .entry_steps import EntryAction, EntrySteps, ListedSteps, Pick
from .impact import COST_US, STEP
from .plan import Draft, PlanFile, home, identity
from .plan_header import PlanHeader
from .plan_progress import look_at
from .preview import Preview, consequences, preview
from .runner import ChangeRun
from .scope import (
    LOOKED,
    ChangeScope,
    PlannedScope,
    Progress,
    WholeState,
    movable_as_a_whole,
    select_entries,
    select_whole_state,
)
from .transfer import MoveAction, MovePlanSteps, MoveSteps
from .transfer_plan import Route, planned_route
from .whole_state import WholeStateSteps
from .wording import claimed_by, meaning, past, what

SAMPLE = 10
"""ids that a preview has at most"""


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """A change of entries of one queue, as a person or a program asks for it."""

    verb: Verb
    queue: Queue[Any]
    state: State
    filter: Filter
    rate: float | None = None
    """entries per second at most"""
    consumer: str = ""
    """of a claim: the one that receives the entries; empty: named when it is confirmed"""
    ready_ms: int | None = None
    """of a reschedule: when the entries become ready"""
    route: Route | None = None
    """of a move: from which queue to which"""
    by_ids: bool = False
    """choose every entry by its id, also of a whole large state: for a plan file and for a ramp"""
    utc: bool = False
    """show times in UTC"""

    def __post_init__(self) -> None:
        """Refuse what is not possible for this kind of queue."""
        if self.verb == "reschedule" and self.ready_ms is None:
            raise BadInput("reschedule needs a time (--at or --in)")
        if self.consumer:
            checked_consumer(self.consumer)
        if self.verb != "move":
            allowed(self.queue, self.verb, self.state, orphan=True)  # `prepare` refuses others

    @property
    def means(self) -> str:
        """What happens to the entries, where that is more than the verb says."""
        if self.route is not None:
            return transfer_plan.means(self.route, self.state)
        if self.ready_ms is not None:
            return f"they become ready at {date(self.ready_ms, UTC if self.utc else None)}"
        return claimed_by(self.consumer) if self.verb == "claim" and self.consumer else ""


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """A change that was checked and looked at, ready to be confirmed and carried out."""

    request: ChangeRequest
    scope: ChangeScope
    preview: Preview
    plan: PlanFile | None = None
    before: Operation | None = None
    """of a plan: how far it was carried out already"""

    def run(self, why: str = "", *, consumer: str = "", **applying: Any) -> ChangeRun[EntrySteps]:
        """What carries it out; ``why``: the reason, for the audit log. The rest as of `steps`."""
        steps = self.steps(consumer, **applying)
        return ChangeRun(steps, Author.here(why), rate=self.request.rate)

    def steps(self, consumer: str = "", *, hand: str = "", **applying: Any) -> EntrySteps:
        """The steps that carry it out: the one place where their kind is chosen.

        ``consumer``: of a claim, where the request names none. ``hand`` and ``applying``: how
        a plan is applied, as `PlanSteps` and its action take it.
        """
        action, scope, moves = self.action(consumer, hand), self.scope, self.request.route
        if self.plan is not None:
            return (MovePlanSteps if moves else PlanSteps)(action, scope, self.plan, **applying)
        if isinstance(scope, WholeState):
            return WholeStateSteps(action, scope)
        assert isinstance(scope, Selection)
        picks = starmap(Pick, scope.identities())
        return (MoveSteps if moves else ListedSteps)(action, scope, picks)

    def action(self, consumer: str = "", hand: str = "") -> EntryAction:
        """What is done to each entry; ``consumer`` and ``hand`` as of `steps`."""
        request, plan = self.request, self.plan
        common = (request.queue, request.verb, request.state, self.scope.high_water_ms)
        if request.route is not None:
            return MoveAction(*common, route=request.route)
        if plan is not None:
            return EntryAction(*common, plan.header.consumer, plan.header.argument, hand=hand)
        argument = LEASE_MS if request.ready_ms is None else request.ready_ms
        return EntryAction(*common, consumer or request.consumer or "operator", argument)

    async def write_plan(self, file: Draft, why: str, deployment: Deployment) -> None:
        """Finish a plan file: what the change is about, and the entries that `prepare` kept."""
        request, action, author = self.request, self.action(), Author.here(why)
        created_ms, server = await identity(request.queue, deployment)
        header = PlanHeader(
            op=file.op,
            queue=request.queue.name,
            kind=request.queue.kind,
            prefix=deployment.prefix,
            created_ms=created_ms,
            server=server,
            verb=action.verb,
            state=action.state,
            consumer=action.consumer,
            argument=action.argument,
            high_water_ms=action.high_water_ms,
            filter=str(self.scope.filter),
            who=author.who,
            whence=author.whence,
            why=author.why,
            planned_ms=await request.queue.now.op(),
            step=MAX_BATCH,
            rate=request.rate,
            **action.destination,
        )
        file.finish(header, self.preview.facts)


async def prepare(
    request: ChangeRequest,
    *,
    progress: Progress | None = None,
    keep: Keep | None = None,
    shown: Callable[[str], str] = str,
) -> PreparedChange:
    """Select the entries of a change and say what it will do to them. Reads only.

    ``keep`` gets the entries page by page, for a plan file. ``shown`` redacts what errors say.
    """
    queue, state, filter, verb = request.queue, request.state, request.filter, request.verb
    await ensure_changeable(queue)
    means, route, into = request.means, request.route, ""
    scope: Selection | WholeState
    if not request.by_ids and await movable_as_a_whole(queue, state, verb, filter):
        scope, impact = await select_whole_state(queue, state, filter, progress, shown)
    else:
        scope, impact = await select_entries(
            queue, state, filter, progress, keep, shown, VERBS[verb][1]
        )
        if not scope.count and scope.unreadable[WHOLE]:
            allowed(queue, verb, state)
    if route is not None:
        await transfer_plan.look_ahead(impact, route, state)
        into = route.target.name
    await impact.ask(verb)
    return PreparedChange(
        request,
        scope,
        preview(
            scope,
            verb,
            rate=request.rate,
            means=means,
            impact=impact.facts(verb),
            into=into,
            shown=shown,
        ),
    )


async def prepare_plan(
    deployment: Deployment,
    plan: PlanFile,
    *,
    rate: float | None = None,
    most: int | None = None,
    utc: bool = False,
    look_again: bool = False,
    progress: Callable[[int, int], None] | None = None,
    shown: Callable[[str], str] = str,
) -> PreparedChange:
    """Check a plan file and say what applying it will do now. Reads only.

    ``most``: stop after this number of entries. ``look_again``: look at all entries, and say in
    which state they are; otherwise look at the next `LOOKED`. ``shown`` redacts what errors say.
    """
    header = plan.header
    queue = await home(deployment, header)
    await ensure_changeable(queue)
    before = await recorded(queue, header)
    ended = before is not None and before.ended
    request = ChangeRequest(
        header.verb,
        queue,
        header.state,
        Filter(),
        header.rate if rate is None else rate,
        consumer=header.consumer if header.verb == "claim" else "",
        ready_ms=header.argument if header.verb == "reschedule" else None,
        route=await planned_route(deployment, queue, header) if header.into and not ended else None,
        by_ids=True,
        utc=utc,
    )
    scope = PlannedScope(queue, header.state, header.filter, header.high_water_ms, plan.count)
    carried_out = past(header.verb, header.state, header.queue, header.into)
    if ended:
        return PreparedChange(request, scope, Preview("", past=carried_out), plan, before)
    done = before.span[1] if before else 0
    left = min(plan.count - done, most or plan.count)
    if look_again:
        words, impact = await look_at(plan, queue, 0, plan.count, progress, shown)
    else:
        words, impact = await look_at(plan, queue, done, min(left, LOOKED), shown=shown)
        if left > LOOKED:
            impact.extrapolate(left * impact.count // LOOKED, COST_US, STEP)
    if request.route is not None:
        await transfer_plan.look_ahead(impact, request.route, header.state)
    else:
        await impact.read_load(queue)
    await impact.ask(header.verb)
    computed = impact.facts(header.verb)
    ago = age(await queue.now.op() - header.planned_ms)
    why = f": {header.why}" if header.why else ""
    lines = [
        f"planned {ago} ago by {header.who}@{header.whence}{why} (filter: {header.filter})",
        request.means or meaning(header.verb, queue, header.state),
        *consequences(computed, header.verb),
    ]
    facts: dict[str, Any] = {
        "verb": header.verb,
        "queue": header.queue,
        "state": header.state,
        "filter": header.filter,
        "sample": [pick.id for pick in islice(plan.picks(), SAMPLE)],
        **({"into": header.into} if header.into else {}),
        "consequences": computed,
        "op": header.op,
        "file": plan.path,
        "before": done,
        "planned_ms": header.planned_ms,
        "planned_by": f"{header.who}@{header.whence}",
        "matched": left,
    }
    if done:
        lines.append(f"{count(done)} of them were dealt with before: continues after them")
    if look_again:
        lines.append("now: " + ", ".join(f"{count(n)} {word}" for word, n in words.most_common()))
        facts["now"] = dict(words)
    about = what(header.verb, plan.count, header.state, header.queue, header.into)
    shows = Preview(
        f"apply {plan.path}: {about}",
        tuple(lines),
        typed(header.verb, left, header.queue),
        facts,
        past=carried_out,
    )
    return PreparedChange(request, scope, shows, plan, before)
