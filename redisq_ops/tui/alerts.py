"""Notifies of new trouble by the terminal's bell and by OSC 9, on the rules of `redisq check`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from redisq_ops.ops.inspect.snapshot import Snapshot, Viewport
from redisq_ops.ops.terminal import printable

if TYPE_CHECKING:
    from redisq_ops.ops.check.standing import Standing
    from redisq_ops.ops.inspect.overview import QueueRow

    from .dashboard_settings import AlertSettings
    from .poller import SnapshotSource

EVERY_S: Final = 10.0
_LISTED: Final = 3
"""broken rules that are named in one notification"""


class AlertWatch:
    """Judges the overview, and finds the rules broken now that were not broken the time before.

    Rules broken at the first look are on the screen already, and are not reported.
    """

    def __init__(self, settings: AlertSettings) -> None:
        self.settings = settings
        self._known: set[tuple[str | None, str, str]] | None = None

    def judge(self, snapshot: Snapshot) -> list[Standing]:
        """The broken rules of an overview that are new, the worst first."""
        from redisq_ops.ops.check.evaluation import broken_rules, standings
        from redisq_ops.ops.inspect.overview import Overview
        from redisq_ops.ops.trouble.finding import Severity

        least = Severity[self.settings.severity.upper()]
        seen = Overview(snapshot.now_ms, snapshot.overview)
        found = {
            one.identity: one
            for one in broken_rules(standings(seen, self.settings.rules))
            if one.severity >= least
        }
        known, self._known = self._known, set(found)
        return [] if known is None else [found[key] for key in found if key not in known]

    async def run(
        self, source: SnapshotSource, alert: Callable[[Sequence[Standing]], object]
    ) -> None:
        """Look at all queues every `EVERY_S` seconds, whatever is on the screen."""
        while True:
            with suppress(Exception):  # the poller shows the error
                if source.connected is not None and (new := await self.look(source)):
                    alert(new)
            await asyncio.sleep(EVERY_S)

    async def look(self, source: SnapshotSource) -> list[Standing]:
        """The broken rules that are new now, the worst first."""
        from redisq_ops.core.redis.operation import arun
        from redisq_ops.ops.inspect.overview import died_lately
        from redisq_ops.ops.trouble.finding import USUAL

        snapshot = await source.look(Viewport())
        minutes = {
            row.name: number
            for row in snapshot.overview
            if (number := self.settings.rules.of(row.name).limits.minutes) != USUAL.minutes
        }
        if minutes and source.connected is not None:  # the overview counts the usual period only
            deployment = source.connected.deployment
            died = await arun(deployment.client, died_lately(deployment, minutes))
            rows = (_with_dead(row, died) for row in snapshot.overview)
            snapshot = replace(snapshot, overview=tuple(rows))
        return self.judge(snapshot)


def _with_dead(row: QueueRow, died: Mapping[str, int | None]) -> QueueRow:
    """The row with the number of entries that died in its rules' period."""
    if row.name not in died or row.activity is None:
        return row
    return replace(row, activity=replace(row.activity, dead_lately=died[row.name]))


def alert_text(found: Sequence[Standing]) -> str:
    """Newly broken rules in one line."""
    words = [f"{one.queue}: {one.reason}" for one in found[:_LISTED]]
    more = [f"{len(found) - _LISTED} more"] if len(found) > _LISTED else []
    return printable("; ".join([*words, *more]))


def notify_terminal(write: Callable[[str], Any], text: str, ways: frozenset[str]) -> None:
    """Ring the bell, and send the text as a desktop notification (OSC 9)."""
    if "osc9" in ways:
        write(f"\x1b]9;redisq: {text}\x07")
    if "bell" in ways:
        write("\x07")
