"""One way to prepare a change of entries: the command line, the dashboard and `apply` take it.

A face builds a `ChangeRequest`, or reads a plan file. `prepare` or `prepare_plan` checks it, looks
through the entries and says in a `Preview` what will happen; nothing is written.
`PreparedChange.run` picks the kind of steps that carries it out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import checked_consumer
from redisq_ops.core.model.settings import MAX_BATCH
from redisq_ops.core.model.states import Verb

from ..deployment import Deployment
from ..filter.scan import Filter, Selection
from ..terminal import age, count, date
from . import impact, transfer_plan, whole_state
from .apply import Apply, PlannedScope, recorded
from .audit_log import Author, Operation
from .bulk import Bulk, allowed
from .plan import Draft, PlanFile, PlanHeader, home, identity
from .plan_progress import whereabouts
from .preview import Preview, claimed_by, meaning, preview, typed, what
from .transfer import Move, MoveApply
from .transfer_plan import Way, planned_way, way_to
from .whole_state import Whole, WholeBulk

Progress = Callable[[int, int | None], None]
"""gets how many entries were looked at, and of how many if that is known; may raise to stop"""


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
    into: str = ""
    """of a move: the queue that the entries go to"""
    by_ids: bool = False
    """choose every entry by its id, also of a whole large state: for a plan file and for a ramp"""
    utc: bool = False
    """show times in UTC"""


@dataclass(frozen=True, slots=True)
class PreparedChange:
    """A change that was checked and looked at, ready to be confirmed and carried out."""

    request: ChangeRequest
    scope: Selection | Whole | PlannedScope
    preview: Preview
    route: Way | None = None
    """of a move: from which queue to which"""
    plan: PlanFile | None = None
    before: Operation | None = None
    """of a plan: how far it was carried out already"""

    @property
    def count(self) -> int:
        """Entries that match."""
        return self.scope.count

    @property
    def corrupt(self) -> int:
        """Entries that match, or may, and are left out because they are corrupt."""
        return len(self.scope.corrupt) if isinstance(self.scope, Selection) else 0

    def run(
        self, author: Author, *, consumer: str = "", ahead: bool = False, **applying: Any
    ) -> Bulk:
        """What carries it out: the one place where the kind of steps is chosen.

        ``ahead``: a whole state's next step may be sent before the reply of the present one.
        ``applying``: how a plan is applied, as `Apply` takes it.
        """
        request = self.request
        more: dict[str, Any] = {"rate": request.rate}
        if self.route is not None:
            more["way"] = self.route
        if self.plan is not None:
            kind = Apply if self.route is None else MoveApply
            return kind(self.plan, request.queue, author, **more, **applying)
        if request.verb == "claim":
            more["consumer"] = consumer or request.consumer
        if request.ready_ms is not None:
            more["at_ms"] = request.ready_ms
        if self.route is not None:
            return Move(self.scope, request.verb, author, **more)
        if isinstance(self.scope, Whole):
            return WholeBulk(self.scope, request.verb, author, ahead=ahead, **more)
        return Bulk(self.scope, request.verb, author, **more)

    async def write_plan(self, file: Draft, author: Author, deployment: Deployment) -> None:
        """Finish a plan file: what the change is about, and the entries that `prepare` kept."""
        request, order = self.request, self.run(author).order
        created_ms, server = await identity(request.queue, deployment)
        into: dict[str, Any] = {} if self.route is None else {
            "into": self.route.target.name, "into_ms": self.route.into_ms
        }  # fmt: skip
        header = PlanHeader(
            op=file.op, queue=request.queue.name, kind=request.queue.kind,
            prefix=deployment.prefix, created_ms=created_ms, server=server, verb=order.verb,
            state=order.state, consumer=order.consumer, argument=order.argument,
            high_water_ms=order.high_water_ms, filter=str(self.scope.filter), who=author.who,
            whence=author.whence, why=author.why, planned_ms=await request.queue.now.op(),
            step=MAX_BATCH, rate=request.rate, **into,
        )  # fmt: skip
        file.finish(header, self.preview.facts)


async def check(deployment: Deployment, request: ChangeRequest) -> Way | None:
    """Refuse what is not possible for this kind of queue, before anything is looked at. Of a move:
    from which queue to which."""
    if request.verb == "reschedule" and request.ready_ms is None:
        raise BadInput("reschedule needs a time (--at or --in)")
    if request.consumer:
        checked_consumer(request.consumer)
    if request.verb == "move":
        return await way_to(deployment, request.queue, request.into)
    allowed(request.queue, request.verb, request.state)
    return None


async def prepare(
    deployment: Deployment,
    request: ChangeRequest,
    *,
    progress: Progress | None = None,
    keep: Callable[[list[Any]], None] | None = None,
    shown: Callable[[str], str] = str,
) -> PreparedChange:
    """Check a change and look through the entries that it is about. Reads only.

    ``keep`` gets the entries page by page, for a plan file. ``shown`` redacts what errors say.
    """
    route = await check(deployment, request)
    at = (request.queue, request.state, request.filter)
    scope: Selection | Whole
    if not request.by_ids and await whole_state.movable(
        request.queue, request.state, request.verb, request.filter
    ):
        scope, weight = await whole_state.whole(*at, progress, shown)
    else:
        scope, weight = await impact.weigh(*at, progress, keep, shown)
    into = ""
    if route is not None:
        await transfer_plan.look_ahead(weight, route, request.state)
        into = route.target.name
    means = _means(request, route)
    shows = preview(scope, request.verb, request.rate, means, weight, into)
    return PreparedChange(request, scope, shows, route)


def _means(request: ChangeRequest, route: Way | None) -> str:
    """What happens to the entries, where that is more than the verb says."""
    if route is not None:
        return transfer_plan.means(route, request.state)
    if request.verb == "reschedule" and request.ready_ms is not None:
        return f"they become ready at {date(request.ready_ms, UTC if request.utc else None)}"
    if request.verb == "claim" and request.consumer:
        return claimed_by(request.consumer)
    return ""


async def prepare_plan(
    deployment: Deployment,
    plan: PlanFile,
    *,
    rate: float | None = None,
    most: int | None = None,
    utc: bool = False,
    look_again: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> PreparedChange:
    """Check a plan file and say what applying it will do now. Reads only.

    ``most``: stop after so many entries. ``look_again``: say where the entries are by now.
    """
    header = plan.header
    queue = await home(deployment, header)
    before = await recorded(queue, header)
    request = ChangeRequest(
        header.verb, queue, header.state, Filter(), header.rate if rate is None else rate,
        consumer=header.consumer if header.verb == "claim" else "",
        ready_ms=header.argument if header.verb == "reschedule" else None,
        into=header.into, by_ids=True, utc=utc,
    )  # fmt: skip
    scope = PlannedScope(queue, header.state, header.filter, header.high_water_ms, plan.count)
    if before is not None and before.ended:
        return PreparedChange(request, scope, Preview(""), plan=plan, before=before)
    route = await planned_way(deployment, queue, header) if header.into else None
    done = before.span[1] if before else 0
    left = min(plan.count - done, most or plan.count)
    ago = age(await queue.now.op() - header.planned_ms)
    why = f": {header.why}" if header.why else ""
    lines = [
        f"planned {ago} ago by {header.who}@{header.whence}{why} (filter: {header.filter})",
        _means(request, route) or meaning(header.verb, queue),
        *impact.lines(plan.facts["consequences"]),
    ]
    facts: dict[str, Any] = {
        **plan.facts, "op": header.op, "file": plan.path, "before": done,
        "planned_ms": header.planned_ms, "planned_by": f"{header.who}@{header.whence}",
        "matched": left,
    }  # fmt: skip
    if done:
        lines.append(f"{count(done)} of them were dealt with before: continues after them")
    if look_again:
        now = await whereabouts(plan, queue, progress)
        lines.append("now: " + ", ".join(f"{count(n)} {word}" for word, n in now.most_common()))
        facts["now"] = dict(now)
    about = what(header.verb, plan.count, header.state, header.queue, header.into)
    shows = Preview(
        f"apply {plan.path}: {about}", tuple(lines), typed(header.verb, left, header.queue), facts
    )
    return PreparedChange(request, scope, shows, route, plan, before)
