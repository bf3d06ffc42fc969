"""Why a periodic entry does not run, and when it runs next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from redisq_ops.core.foreign.schedule import OwnersSchedule

from ..hint import hint
from ..inspect.periodic import PeriodicStatus, missed_words
from ..terminal import count
from .blocking_reasons import BlockingReasons
from .reason import Reason

NAMED = 3
"""periodic entries that one sentence names"""


class PeriodicReasons(BlockingReasons):
    """The reasons for the periodic entries of a queue."""

    def _periodic_state(self, status: PeriodicStatus) -> str:
        entry = status.entry
        if entry.problem:
            return "corrupt"
        return "paused" if entry.paused else "overdue" if status.overdue else "scheduled"

    def _periodic_entry(self, status: PeriodicStatus) -> Iterator[Reason]:
        """Everything about one periodic entry, beginning with what holds it back."""
        entry = status.entry
        facts = {
            "next_ms": entry.next_ms,
            "run": entry.run,
            "run_state": status.run_state,
            "missed_runs": status.missed,
        }
        if entry.problem:
            stays = isinstance(entry, OwnersSchedule) and (
                "rm" in entry.refusals or not entry.record
            )
            removes = None if stays else "rm"
            command = removes and self._periodic_command(removes, entry.name)
            yield Reason("periodic-corrupt", entry.problem, removes, command, facts=facts)
            return
        if entry.paused:
            change = self._change("periodic-pause", f"periodic entry {entry.name}")
            by = "" if entry.program and change is None else f" {self._by(change)}"
            yield Reason(
                "periodic-paused",
                f"it is paused{by}: no run is scheduled",
                "resume",
                self._periodic_command("resume", entry.name),
                facts=facts | self._op_facts(change),
            )
        if status.overdue:
            yield from self._closed()
            held = status.held and entry.run is not None
            if held:
                yield Reason(
                    "periodic-held",
                    f"its next run begins after the end of its latest one, "
                    f"{entry.run}, which is {status.run_state}",
                    "explain",
                    hint("explain", f"{self.queue.name}/{entry.run}"),
                    facts=facts,
                )
            else:
                yield from self._no_worker()
            yield Reason(
                "periodic-overdue", f"{_missed(status)}: {self._policy(status)}", facts=facts
            )
        elif entry.next_ms is not None:
            at = entry.next_ms
            yield Reason(
                "periodic",
                f"its next run is at {self.when(at)}, {self._until(at)}",
                eta_ms=at,
                facts=facts,
            )
        if entry.run is not None:
            yield Reason("periodic-run", self._latest(status), facts=facts)

    def _policy(self, status: PeriodicStatus) -> str:
        """What the next worker does with missed runs."""
        if status.entry.program:
            return f"look whether {status.entry.program}'s scheduler, or a worker, runs"
        spec = status.entry.spec
        if spec is None or spec.missed == "none":
            return "the next worker leaves them out"
        return "the next worker runs " + ("all of them" if spec.missed == "all" else "the latest")

    def _latest(self, status: PeriodicStatus) -> str:
        entry = status.entry
        at = "" if entry.run_ms is None else f" (due at {self.when(entry.run_ms)})"
        state = status.run_state or "done, or was removed"
        return f"its latest run, {entry.run}{at}, is {state}"

    def _periodic_command(self, verb: str, name: str) -> str:
        return hint("periodic", verb, f"{self.queue.name}/{name}")

    def _overdue(self, periodic: Sequence[PeriodicStatus]) -> Iterator[Reason]:
        """Of a queue: which periodic entries missed runs, or are corrupt."""
        late = [one for one in periodic if one.overdue]
        corrupt = [one.name for one in periodic if one.entry.problem and one.name]
        if late:
            yield Reason(
                "periodic-overdue",
                f"missed runs: {_named([_missed(one, True) for one in late])}",
                "explain",
                hint("explain", f"{self.queue.name}/{late[0].name}"),
                facts={"overdue": [one.name for one in late]},
            )
        if corrupt:
            yield Reason(
                "periodic-corrupt",
                f"corrupt periodic entries: {_named(corrupt)}",
                "periodic",
                hint("periodic", "ls", self.queue.name),
                facts={"corrupt": corrupt},
            )

    def _unseen_periodic(self, periodic: Sequence[PeriodicStatus]) -> Iterator[Reason]:
        """Of a queue: which of its periodic entries could not be read, or are too many."""
        for problem in (one.entry.problem for one in periodic if not one.name):
            yield Reason(
                "unread",
                f"not all periodic entries of {self.queue.name} were looked at: {problem}",
                "periodic",
                hint("periodic", "ls", self.queue.name),
                facts={"problem": problem},
            )

    def _next_periodic(self, periodic: Sequence[PeriodicStatus]) -> Iterator[Reason]:
        """Of a queue: which periodic entry runs next."""
        for one in periodic:
            at = one.entry.next_ms
            if at is not None and at > self.now and not one.entry.problem:
                yield Reason(
                    "periodic",
                    f"periodic entry {one.name} runs next, {self._until(at)}",
                    eta_ms=at,
                    facts={"periodic": one.name, "next_ms": at},
                )
                return


def _missed(status: PeriodicStatus, named: bool = False) -> str:
    number = missed_words(status.missed)
    if named:
        return f"{status.name} ({number})"
    return f"it missed {number} run{'' if status.missed == 1 else 's'}"


def _named(names: Sequence[str]) -> str:
    left = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {count(left)} more" if left > 0 else "")
