"""A refresh draws only what changed, and lays nothing out again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from textual._compositor import Compositor
from textual.pilot import Pilot
from textual.screen import Screen

from redisq_ops.ops.inspect.snapshot import Snapshot, Viewport
from redisq_ops.tui.app import Top
from redisq_ops.tui.banner import Banner, Tabs
from redisq_ops.tui.frame import text
from redisq_ops.tui.screens.preview_pane import PreviewPane
from redisq_ops.tui.table.table import PagedTable

from .test_snapshots import Clock, Seeded, settled


class Changing(Seeded):
    """A server on which one queue has had something to do."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: int | None = None

    async def look(self, viewport: Viewport) -> Snapshot:
        seen = await super().look(viewport)
        if self.waiting is None:
            return seen
        rows = [
            replace(row, counts=replace(row.counts, waiting=self.waiting))
            if row.name == "invoices" and row.counts is not None
            else row
            for row in seen.overview
        ]
        return replace(seen, overview=tuple(rows))


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, calls: Counter[str]) -> None:
    """Count the calls of a method."""
    method: Callable[..., Any] = getattr(owner, name)

    def call(*args: Any, **options: Any) -> Any:
        calls[f"{owner.__name__}.{name}"] += 1
        return method(*args, **options)

    monkeypatch.setattr(owner, name, call)


@pytest.mark.slow
def test_a_refresh_draws_the_rows_that_changed(
    monkeypatch: pytest.MonkeyPatch, drawing: None
) -> None:
    drawn = Counter[str]()

    async def refresh(app: Top, pilot: Pilot[Exception]) -> Counter[str]:
        await pilot.pause()
        drawn.clear()
        before = app.snapshot
        app.poller.wake()
        while app.snapshot is before:
            await pilot.pause()
        await pilot.pause()
        return drawn

    async def body() -> None:
        source = Changing()
        app = Top(source, interval=3600, clock=Clock())
        async with app.run_test(size=(160, 45)) as pilot:
            await settled(app, pilot)
            app.overview.table.go_to("invoices")
            await settled(app, pilot)
            assert app.preview.display and "invoices: p closes" in text(app)
            for owner, name in (
                (PagedTable, "render_line"),
                (Banner, "render"),
                (Tabs, "render"),
                (Screen, "_refresh_layout"),
                (PreviewPane, "refresh"),
                (Compositor, "render_partial_update"),
            ):
                counted(monkeypatch, owner, name, drawn)
            assert not await refresh(app, pilot)
            source.waiting = 77
            assert await refresh(app, pilot) == {
                "PagedTable.render_line": 1,
                "Compositor.render_partial_update": 1,  # the row, and its chart in the preview
            }
            line = next(line for line in text(app).splitlines() if "invoices" in line)
            assert " 77 " in line

    asyncio.run(body())


@pytest.mark.slow
def test_a_name_that_looks_like_markup_is_whole_in_the_previews_title(drawing: None) -> None:
    class Renamed(Seeded):
        async def look(self, viewport: Viewport) -> Snapshot:
            seen = await super().look(viewport)
            rows = (replace(row, name=f"{row.name}[b]") for row in seen.overview)
            return replace(seen, overview=tuple(rows))

    async def body() -> None:
        app = Top(Renamed(), interval=3600, clock=Clock())
        async with app.run_test(size=(160, 45)) as pilot:
            await settled(app, pilot)
            app.overview.table.go_to("invoices[b]")
            await settled(app, pilot)
            assert "invoices[b]: p closes" in text(app)

    asyncio.run(body())
