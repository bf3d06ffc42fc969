"""A frame without a terminal: of what was asked for, or the reason why there is none."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from redisq_ops.core.model.entry import Counts, Entry
from redisq_ops.core.model.errors import Unreachable
from redisq_ops.ops.inspect.overview import QueueRow
from redisq_ops.ops.inspect.snapshot import ListedQueue, Snapshot, Viewport
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import frame, text
from redisq_ops.tui.poller import Connected

from .test_app import see_line, until

NOW = 1_773_457_965_000
GONE = "node [red]10.0.0.7:7002[/red] doesn't answer"
LONG = "key redisq:{b}:cfg is a string where a hash belongs, and so is " + "x" * 30


class Lost:
    """Two queues of which one can't be read; a look at it alone fails, if it isn't late."""

    connected: Connected | None = None
    warning: str | None = None

    def __init__(self, problem: str = GONE, fails: bool = True) -> None:
        self.problem = problem
        self.fails = fails

    async def look(self, viewport: Viewport) -> Snapshot:
        queues = tuple(
            ListedQueue(name, "delay", frozenset({"HasTimeline"})) for name in ("a", "b", "c")
        )
        bare = Snapshot(viewport, NOW, queues)
        if viewport.view == "overview":
            fine = QueueRow("a", "delay", Counts(1, 2, 3, 4, 5, 6), None)
            lost = QueueRow("b", "delay", None, None, self.problem)
            return replace(bare, overview=(fine, lost, replace(fine, name="c")))
        await asyncio.sleep(0.5)
        if self.fails:
            raise Unreachable(self.problem)
        entries = (Entry("soon", "delayed", NOW + 5_000),)
        return replace(bare, counts=Counts(0, 0, 1, 0, 0, 0), entries=entries, total=1)

    async def close(self) -> None:
        pass


def test_a_queue_that_can_not_be_read_has_no_frame_but_a_reason() -> None:
    with pytest.raises(Unreachable) as refused:
        frame(Top(Lost(), queue="b"), (120, 20))
    assert str(refused.value) == GONE


def test_a_frame_of_a_queue_waits_for_the_look_at_that_queue() -> None:
    shown = frame(Top(Lost(fails=False), queue="b"), (120, 20))
    assert "soon" in shown and "1 of 1" in shown


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 160])
def test_the_overview_says_the_whole_problem_as_it_is(width: int) -> None:
    lines = frame(Top(Lost()), (width, 20)).splitlines()
    lost, fine = (next(line for line in lines if line.split()[:1] == [name]) for name in "bc")
    assert lost.split()[-len(GONE.split()) :] == GONE.split()
    assert lost.startswith("  b ") and max(map(len, lines)) <= width
    assert ("delay" in lost) is ("delay" in fine) is (width == 160)
    assert " ".join(fine.split()[-3:]) in ("c 1 4", "3 4 -", "4 - █")


def test_what_a_row_has_no_room_for_is_said_below_while_the_cursor_is_on_it() -> None:
    async def body() -> None:
        app = Top(Lost(LONG))
        async with app.run_test(size=(100, 20)) as pilot:
            await see_line(pilot, LONG)
            assert LONG[:40] in text(app).splitlines()[3]
            await pilot.press("j")
            await until(pilot, lambda: LONG not in text(app))
            assert LONG[:40] in text(app) and "…" in text(app)

    asyncio.run(body())


class Slow:
    """Three queues; a look at one takes until the test lets it go on."""

    connected: Connected | None = None
    warning: str | None = None

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()

    async def look(self, viewport: Viewport) -> Snapshot:
        features = {"a": {"HasRequests"}, "b": {"HasTimeline"}}
        queues = tuple(
            ListedQueue(name, f"kind-{name}", frozenset(has)) for name, has in features.items()
        )
        bare = Snapshot(viewport, NOW, queues)
        counts = {"a": Counts(1, 22, 0, 4, 0, 6, None, "held"), "b": Counts(1, 0, 33, 0, 0, 6)}
        if viewport.view == "overview":
            rows = (QueueRow(name, f"kind-{name}", counts[name], None) for name in counts)
            return replace(bare, overview=tuple(rows))
        await self.goes_on.wait()
        return replace(bare, counts=counts[str(viewport.queue)])

    async def close(self) -> None:
        pass


def test_header_and_tabs_are_of_the_queue_from_its_first_frame() -> None:
    async def body() -> None:
        source = Slow()
        app = Top(source)

        def top() -> str:
            return "\n".join(text(app).splitlines()[:2])

        async with app.run_test(size=(160, 20)) as pilot:
            while not app.answered:
                await pilot.pause(0.01)
            for keys, shows, not_ in (
                ((), ("3 requests",), ("6 delayed 33", "PAUSED")),
                (("5",), ("a kind-a", "PAUSED", "3 requests", "4 pending 22", "5 dead 4"), ()),
                (("tab",), ("b kind-b", "6 delayed 33"), ("PAUSED", "3 requests", "kind-a")),
                (("escape", "k", "6"), ("a kind-a", "PAUSED"), ("kind-b", "33")),
            ):
                for key in keys:
                    await pilot.press(key)
                    await pilot.pause()
                await until(pilot, lambda: all(word in top() for word in shows))  # noqa: B023
                assert not any(word in top() for word in not_), top()
            source.goes_on.set()

    asyncio.run(body())
