"""The reasons for a request: what it waits for, or how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from redisq_ops.core.model.entry import Request

from ..hint import hint
from ..terminal import age, count, entries
from .blocking_reasons import BlockingReasons
from .outcome_reasons import OutcomeReasons
from .reason import Reason


class RequestReasons(BlockingReasons, OutcomeReasons):
    """The reasons for a request."""

    def _request_reasons(self) -> Iterator[Reason]:
        request = self.observed.request
        assert request is not None
        if request.state == "cancelled":
            yield self._cancelled(request, "it")
        elif request.state == "done":
            yield self._finished(request)
        else:
            yield from self._unfinished(request)
        if request.dead and request.state != "done":
            yield Reason(
                "dead",
                f"{_its_entries(request.dead)} dead; it can finish without them",
                "replay",
                hint("replay", self.address),
                facts={"dead": request.dead},
            )

    def _unfinished(self, request: Request) -> Iterator[Reason]:
        left = request.waiting + request.pending + request.delayed
        if left:
            yield from (*self._paused(), *self._request_paused())
        position = self.observed.position
        expired = any((holder.until_ms or self.now) < self.now for holder in position.holders)
        if request.waiting or request.delayed or expired:
            yield from self._no_worker_at_all()
        eta = self._after(left + (position.before or 0)) if left else {}
        if request.waiting:
            yield from self._waiting_entries(request, eta)
        if request.pending:
            yield self._in_work(request, eta)
        if request.delayed:
            yield self._delayed_entries(request)
        if request.state == "open":
            yield self._open(request)
        if request.moving:
            yield self._moving_entries(request, alone=not left)
            yield from self._unfinished_moves()
        elif not left and request.state != "open":
            yield Reason(
                "sealed",
                "no entry is left to do, but it is not done: run redisq fsck",
                "fsck",
                hint("fsck", self.queue.name),
            )

    def _waiting_entries(self, request: Request, eta: Mapping[str, Any]) -> Iterator[Reason]:
        if limited := list(self._limit()):
            yield from (replace(reason, **eta) for reason in limited)
        elif not request.paused:
            waiting = f"{count(request.waiting)} of {entries(request.total)}"
            waits = "waits" if request.waiting == 1 else "wait"
            yield replace(self._in_line(waiting, waits), **eta)

    def _delayed_entries(self, request: Request) -> Reason:
        at = self.observed.position.next_ms
        first = "" if at is None else f"; the first is ready {self._until(at)} ({self.when(at)})"
        return Reason(
            "delayed",
            f"{_its_entries(request.delayed)} delayed{first}",
            "requeue",
            hint("requeue", self.address, state="delayed"),
            at,
            facts={"delayed": request.delayed, "next_ms": at},
        )

    def _open(self, request: Request) -> Reason:
        added = request.added_ms or request.created_ms
        return Reason(
            "open",
            f"it is not sealed: its producer may still add to its "
            f"{entries(request.total)}; the last addition was {self._ago(added)}",
            "submit",
            hint(
                "submit",
                "FILE",
                queue=self.queue.name,
                id=request.id,
                limit=str(request.limit),
                priority=str(request.priority),
            ),
            facts={"added_ms": added, "created_ms": request.created_ms, "total": request.total},
        )

    def _moving_entries(self, request: Request, alone: bool) -> Reason:
        """``alone``: no other entry of the request is left to do."""
        but = "; no other entry is left to do" if alone else ""
        return Reason(
            "moving",
            f"{_its_entries(request.moving)} on the way to another queue, by an "
            f"unfinished move{but}",
            "log",
            hint("log", queue=self.queue.name),
            facts={"moving": request.moving},
        )

    def _in_work(self, request: Request, eta: Mapping[str, Any]) -> Reason:
        oldest = next(iter(self.observed.position.holders), None)
        facts: dict[str, Any] = {
            "pending": request.pending,
            "oldest": None if oldest is None else asdict(oldest),
        }
        sentence = f"{_its_entries(request.pending)} pending"
        command = None
        if oldest is not None:
            held = f" for {age(self.now - oldest.since_ms)}" if oldest.since_ms is not None else ""
            lease = f" ({self._lease(oldest.until_ms)})" if oldest.until_ms is not None else ""
            sentence += f"; the oldest is {oldest.id}, held by {oldest.consumer}{held}{lease}"
            command = hint("requeue", f"{self.queue.name}/{oldest.id}")
        return Reason("pending", sentence, command and "requeue", command, facts=facts, **eta)


def _its_entries(n: int) -> str:
    """``1 of its entries is``, ``2 of its entries are``."""
    return f"{count(n)} of its entries {'is' if n == 1 else 'are'}"
