"""The toolkit in the dashboard, on real servers: explain, groups, consumers, edit, undo, limits."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import redis
from textual.pilot import Pilot
from textual.widgets import Input

from redisq_ops.core.engine.registry import Registered
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import aconnect
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change import scope, whole_state
from redisq_ops.ops.change.audit_log import Author, log
from redisq_ops.ops.change.control import pause
from redisq_ops.ops.change.limits import Guard
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.discover import register
from redisq_ops.ops.inspect import consumers
from redisq_ops.ops.redaction import Redaction
from redisq_ops.tui.app import Top
from redisq_ops.tui.change import run_change
from redisq_ops.tui.change.confirm_dialog import Confirm
from redisq_ops.tui.frame import text
from redisq_ops.tui.poller import Connected, Live
from redisq_ops.tui.screens.explain_screen import ExplainScreen
from redisq_ops.tui.views import GroupsView
from redisq_ops.tui.views import consumers as view

from .test_app import (
    asked,
    bury,
    dead,
    drive_in,
    press,
    see,
    see_line,
    told,
    undo,
    until,
    valued,
)

pytestmark = [pytest.mark.alike, pytest.mark.slow]

SLOW = Failure("TimeoutError", "no answer from smtp-3 after 30 s")


def limited(url: str, guard: Guard, redaction: Redaction | None = None) -> Callable[[], Connected]:
    return lambda: Connected(
        url, Deployment(aconnect(url, "top")), guard=guard, redaction=redaction
    )


def under(url: str, connect: Callable[[], Connected], body: object, *keys: str) -> None:
    """`drive_in`, by a connection of our own."""
    app = Top(Live(connect), interval=0.2)

    async def run() -> None:
        async with app.run_test(size=(120, 30)) as pilot:
            await until(pilot, lambda: app.snapshot is not None)
            await press(pilot, *keys)
            await until(pilot, lambda: app.snapshot and app.snapshot.viewport.view == app.view)
            await body(app, pilot)  # type: ignore[operator]

    asyncio.run(run())


# --- explain -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_t_explains_what_is_under_the_cursor_and_follows_it(url: str, client: redis.Redis) -> None:
    queue = bury(client, "r1", 2)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "t")
        assert isinstance(app.screen, ExplainScreen)
        id = app.screen.about.id
        await see(
            pilot,
            f"entry mail/{id}  dead",
            "its handler rejected it",
            "what helps",
            f"redisq replay mail/{id}",
            "facts  dead",
        )
        await press(pilot, "y")
        assert app.clipboard == f"redisq replay mail/{id}"
        moved = await asyncio.to_thread(
            queue.move, "x", 1, [str(id)], source="dead", target="waiting", high_water_ms=2**50
        )
        assert moved == ["moved"]
        await see(pilot, f"entry mail/{id}  waiting")
        await press(pilot, "t")
        assert len(app.screen_stack) == 1
        assert app.viewport().explain is None  # nobody asks for it any more

    drive_in(url, body, "5")


@pytest.mark.slow
def test_t_explains_queues_requests_and_what_is_open(url: str, client: redis.Redis) -> None:
    queue = bury(client, "r1", 1)
    queue.submit([b"x"], id="r2")
    run(client, pause(queue, Author("kim", "here", "disk full")))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "t")
        await see(pilot, "queue mail  paused", "disk full", "redisq queue resume mail")
        await press(pilot, "escape", "3", "enter", "t")
        await see(pilot, "request mail/r2")
        await press(pilot, "escape", "escape", "8", "t")
        await see(pilot, "queue mail  paused")

    drive_in(url, body)


def test_an_explanation_is_redacted(url: str, client: redis.Redis) -> None:
    bury(client, "r1", 1, Failure("LoginError", '{"password": "hunter2"}'))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "t")
        await see(pilot, "LoginError", "facts")
        assert "hunter2" not in text(app)

    under(url, limited(url, Guard(), Redaction.read([({"keys": ["password"]}, "")])), body, "5")


def test_no_editor_shows_what_is_redacted(
    url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "false")
    bury(client, "r1", 1)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "r1/1")
        await press(pilot, "E")
        await told(pilot, "parts of that payload are redacted")

    hidden = Redaction.read([({"patterns": {"all": "payload"}}, "")])
    under(url, limited(url, Guard(), hidden), body, "5")


# --- groups ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_groups_are_of_the_latest_and_f_looks_at_all(url: str, client: redis.Redis) -> None:
    bury(client, "old", 120, SLOW)
    bury(client, "new", 500)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "the latest 500 of 620 dead", "ValueError: new failed")
        assert "TimeoutError" not in text(app)
        await press(pilot, "f")
        await see(pilot, "all 620 dead at", "TimeoutError: no answer from", "19 %", "81 %")
        await press(pilot, "escape")
        await see(pilot, "the latest 500 of 620 dead")
        await until(pilot, lambda: "TimeoutError" not in text(app))

    drive_in(url, body, "7")


@pytest.mark.slow
def test_a_scan_of_all_stops_at_esc(url: str, client: redis.Redis) -> None:
    bury(client, "r", 1_200)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "7")
        await see(pilot, "the latest 500 of 1,200 dead")
        groups = app.current
        assert isinstance(groups, GroupsView)
        app.changes.scan(groups)
        app.changes.stopping = True  # Esc, before the first page is there
        await told(pilot, "Stopped: the list shows the groups of the latest dead letters again.")
        assert groups.whole is None

    drive_in(url, body)


@pytest.mark.slow
def test_a_group_is_opened_and_replayed_while_others_die(url: str, client: redis.Redis) -> None:
    bury(client, "slow", 30, SLOW)
    queue = bury(client, "bad", 12)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        table = app.current.table
        await see(pilot, "TimeoutError: no answer from")
        group = table.identity
        await press(pilot, "enter")
        await see(pilot, f"/group={group}/ in 30 of 42", "slow/1")
        assert app.view == "dead"
        await until(pilot, lambda: "bad/1" not in text(app))
        await press(pilot, "escape")
        await until(pilot, lambda: app.view == "groups")
        assert app.views["dead"].filter is None
        await asked(pilot, "P")
        assert "Replay 30 dead entries of mail?" in text(app)
        assert f"filter: where group={group}" in text(app)
        await asyncio.to_thread(bury, client, "late", 3, SLOW)  # while the dialog is open
        await press(pilot, "y")
        await told(pilot, "30 replayed")
        assert dead(queue) == {f"bad/{n}" for n in range(1, 13)} | {
            f"late/{n}" for n in range(1, 4)
        }

    drive_in(url, body, "7")


@pytest.mark.slow
def test_marked_groups_are_purged_and_no_others(url: str, client: redis.Redis) -> None:
    for name, n in (("a", 5), ("b", 4), ("c", 3)):
        queue = bury(client, name, n, Failure(f"{name.upper()}Error", "x"))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "AError", "BError", "CError")
        await press(pilot, "space", "j", "j", "space")
        await asked(pilot, "X")
        assert "Purge 8 dead entries of mail?" in text(app)
        await press(pilot, "y")
        await told(pilot, "8 purged")
        await see_line(pilot, " is gone")
        said = text(app).splitlines()
        assert [line for line in said if "✗" in line] == [
            line for line in said if "is gone" in line
        ]
        assert dead(queue) == {f"b/{n}" for n in range(1, 5)}

    drive_in(url, body, "7")


# --- consumers ---------------------------------------------------------------------------------


def test_the_grid_of_the_view_is_that_of_the_report() -> None:
    assert view._DELIVERIES == consumers.DELIVERIES
    assert len(view._AGES) == len(consumers.AGES_MS) + 1


@pytest.mark.slow
def test_what_a_silent_consumer_holds_is_claimed(
    url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (consumers, run_change):
        monkeypatch.setattr(module, "SILENT_MS", 1)
    monkeypatch.setattr(
        consumers.consumer_reports, "__kwdefaults__", {"silent_ms": 1, "poison": 10}
    )
    client.xgroup_create("orders", "billing", "0", mkstream=True)
    for n in range(6):
        client.xadd("orders", {"n": n})
    client.xreadgroup("billing", "gone", {"orders": ">"}, count=4)
    client.xreadgroup("billing", "alive", {"orders": ">"}, count=1)
    entry = Registered("stream:orders", "stream", 1, 0)
    run(client, register(Deployment(client), [entry]))

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "gone", "alive", "billing", "lag 1", "pending 5")
        while app.current.copied(app.current.table.identity or "") != "gone":
            await press(pilot, "j")
        await see(pilot, "to remove it: redisq workers rm")
        await press(pilot, "p")
        await see(pilot, "claims it for one other consumer")
        await press(pilot, "R")  # nobody but a consumer of the group can have them
        await told(pilot, "which lacks XNACK (Redis 8.8)")
        assert "requeues what it holds" not in text(app) and "acknowledges it: its" in text(app)
        await press(pilot, "p")
        await valued(pilot, "C")
        await see(pilot, "Which consumer receives 4 pending entries of consumer gone")
        await press(pilot, *"ann")
        await asked(pilot, "enter")
        assert "Claim 4 pending entries of consumer gone of group billing" in text(app)
        await press(pilot, *"new ann", "y")
        await told(pilot, "4 claimed")
        held = {row["name"]: row["pending"] for row in client.xinfo_consumers("orders", "billing")}
        assert held == {b"alive": 1, b"gone": 0, b"ann": 4}
        await undo(pilot)
        await press(pilot, "y")
        await told(pilot, "put back")
        held = {row["name"]: row["pending"] for row in client.xinfo_consumers("orders", "billing")}
        assert held[b"gone"] == 4

    drive_in(url, body, "8")


@pytest.mark.slow
def test_a_group_is_moved_and_removed_and_what_it_holds_acknowledged(
    url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_change, "SILENT_MS", 0)
    for group in ("audit", "billing"):
        client.xgroup_create("orders", group, "0", mkstream=True)
    ids = [client.xadd("orders", {"n": n}) for n in range(6)]
    client.xreadgroup("billing", "gone", {"orders": ">"}, count=4)
    run(client, register(Deployment(client), [Registered("stream:orders", "stream", 1, 0)]))

    def places() -> dict[bytes, tuple[bytes, int]]:
        rows = client.xinfo_groups("orders")
        return {row["name"]: (row["last-delivered-id"], row["pending"]) for row in rows}

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "gone", "audit", "billing", "pending 4")

        async def at(group: str) -> None:
            await press(pilot, "g")
            if not (app.current.table.identity or "").startswith(group):
                await press(pilot, "j")
            assert (app.current.table.identity or "").startswith(group)

        await at("billing")
        await press(pilot, "K")
        await told(pilot, "has 4 pending entries, which would be lost with it")
        await asked(pilot, "X")
        assert "their group is done with them, and they stay in the stream" in text(app)
        await press(pilot, "y")
        await told(pilot, "4 acknowledged")
        await valued(pilot, "M")
        await press(pilot, *"soon", "enter")
        await see(pilot, "no position: start, end, an id, or a time")
        await press(pilot, *["backspace"] * 4, *"end")
        await asked(pilot, "enter")
        assert "what comes between (2 entries) is never delivered to it" in text(app)
        await press(pilot, "y")
        await told(pilot, "billing was moved")
        assert places()[b"billing"] == (ids[-1], 0)
        await at("audit")  # nobody reads it, so its row has no consumer
        await asked(pilot, "K")
        await press(pilot, "y")
        await told(pilot, "audit was removed")
        await undo(pilot)
        await press(pilot, "y")
        await told(pilot, "put back")
        assert places()[b"audit"] == (b"0-0", 0)

    drive_in(url, body, "8")


@pytest.mark.slow
def test_what_a_worker_just_took_is_spared(url: str, client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 3, id="r1")
    deliveries = queue.take(2, consumer="w1").deliveries

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await see(pilot, "w1", "lag 1", "pending 2")
        await press(pilot, "R")
        await told(pilot, "0 matched: requeue 0 pending entries of consumer w1 in queue mail")
        await told(pilot, "2 were held for less than 5m 00s: left out")
        await press(pilot, "enter")
        await see(pilot, '/consumer="w1"/ in 2 of 2', "r1/1")
        await press(pilot, "escape")
        await until(pilot, lambda: app.view == "consumers")

    drive_in(url, body, "8")
    assert queue.settle([Settlement(one, "ack") for one in deliveries]) == ["done", "done"]


# --- dialogs -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_dialog_shows_the_consequences_and_keeps_the_reason(
    url: str, client: redis.Redis
) -> None:
    bury(client, "r1", 3)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "A")
        await asked(pilot, "X")
        await see(pilot, "priorities: 50 (3)", "error groups:", "server: 1 call,")
        await press(pilot, "w", *"any y or n", "enter")
        assert isinstance(app.screen, Confirm)  # the letters were text, Enter no answer
        await press(pilot, "y")
        await told(pilot, "3 purged")
        await undo(pilot)
        await see(pilot, ": any y or n")
        await press(pilot, "y")
        await told(pilot, "3 put back")

    drive_in(url, body, "5")


@pytest.mark.slow
def test_the_limits_of_a_context_come_before_any_look(url: str, client: redis.Redis) -> None:
    queue = bury(client, "r1", 5)
    guard = Guard(max_entries=2, word="prod")

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "space", "j", "space", "j", "space")
        await press(pilot, "X")
        await told(pilot, "that is 3 entries, and one change may touch 2")
        assert len(app.screen_stack) == 1
        await press(pilot, "space")
        await asked(pilot, "X")
        assert "type prod" in text(app)
        await press(pilot, "y")
        assert isinstance(app.screen, Confirm)
        await press(pilot, *"prod", "enter")
        await told(pilot, "2 purged")

    under(url, limited(url, guard), body, "5")
    assert queue.counts().dead == 3


@pytest.mark.slow
def test_a_large_state_is_moved_as_a_whole_and_back(
    url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope, "LARGE", 500)
    queue = bury(client, "r", 1_200)
    used = set[type]()
    step = whole_state.WholeStateSteps.step

    async def seen(self: whole_state.WholeStateSteps, size: int) -> int | None:
        used.add(type(self))
        return await step(self, size)

    monkeypatch.setattr(whole_state.WholeStateSteps, "step", seen)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "A")
        await asked(pilot, "P")
        assert "Replay 1,200 dead entries of mail?" in text(app)
        await asyncio.to_thread(bury, client, "late", 2)
        await press(pilot, *"1200", "enter")
        await told(pilot, "1,200 replayed")
        assert dead(queue) == {"late/1", "late/2"}
        await undo(pilot)
        await press(pilot, *"1200", "enter")
        await told(pilot, "1,200 put back")
        assert queue.counts().dead == 1_202

    drive_in(url, body, "5")
    assert used == {whole_state.WholeStateSteps}


# --- undo --------------------------------------------------------------------------------------


def test_undo_takes_back_the_change_that_was_picked(url: str, client: redis.Redis) -> None:
    queue = bury(client, "r", 4)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        for _ in range(2):
            await asked(pilot, "X")
            await press(pilot, "y")
            await until(pilot, lambda: not app.changes.running)
            await press(pilot, "g")
            await until(pilot, lambda: app.current.table.identity is not None)
        assert queue.counts().dead == 2
        first = run(client, log(Deployment(client), 9, "mail")).operations[-1]
        await press(pilot, "U")
        await see(pilot, "Undo which change?", "purge", "yes", "Enter chooses")
        await press(pilot, "j")
        await asked(pilot, "enter")
        assert first.id in text(app)
        await press(pilot, "y")
        await told(pilot, "1 put back")
        await press(pilot, "U")
        await see(pilot, "undone")
        await press(pilot, "j", "enter")
        await told(pilot, "can't be undone: it was undone already")

    drive_in(url, body, "5")
    assert queue.counts().dead == 3


@pytest.mark.slow
def test_undo_says_what_was_not_put_back(url: str, client: redis.Redis) -> None:
    queue = bury(client, "r", 3)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "A")
        await asked(pilot, "P")
        await press(pilot, "y")
        await told(pilot, "3 replayed")
        queue.take(1, consumer="w2")
        await undo(pilot)
        await press(pilot, "y")
        await told(pilot, "2 put back, 1 were in another state by then")

    drive_in(url, body, "5")


# --- edit --------------------------------------------------------------------------------------


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    path = tmp_path / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", str(path))
    monkeypatch.setattr(Top, "suspend", lambda self: nullcontext())


@pytest.mark.slow
def test_e_edits_one_payload_and_undo_gives_the_old_one_back(
    url: str, client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(tmp_path, monkeypatch, 'sed -i s/payload/fixed/ "$1"')
    queue = bury(client, "r1", 1)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await asked(pilot, "E")
        await see(pilot, "Edit 1 dead entry of mail?", "filter: r1/1", "-payload 0", "+fixed 0")
        await press(pilot, "n")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        found = queue.get("r1/1")
        assert found is not None and found.payload == b"payload 0"
        await until(pilot, lambda: not app.changes.running)
        await asked(pilot, "E")
        await press(pilot, "y")
        await told(pilot, "1 edited")
        found = queue.get("r1/1")
        assert found is not None and (found.payload, found.state) == (b"fixed 0", "dead")
        await undo(pilot)
        await press(pilot, "y")
        await told(pilot, "1 put back")
        found = queue.get("r1/1")
        assert found is not None and found.payload == b"payload 0"

    drive_in(url, body, "5")


@pytest.mark.slow
def test_e_edits_a_waiting_job_of_another_program(
    url: str, client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(tmp_path, monkeypatch, 'sed -i s/wrong/right/ "$1"')
    queue = SidekiqQueue(client, "sidekiq:low")
    queue.push([Job("Note", ["wrong"])])

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await asked(pilot, "E")
        await see(pilot, "Edit 1 waiting entry of sidekiq:low?")
        await press(pilot, "y")
        await told(pilot, "1 edited")
        assert b"right" in client.lrange("queue:low", 0, -1)[0]

    drive_in(url, body, "9")


@pytest.mark.slow
def test_an_edit_meets_another_operators(
    url: str, client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody replays the entry while our dialog is open: it is left as it is."""
    editor(tmp_path, monkeypatch, 'echo new > "$1"')
    queue = bury(client, "r1", 1)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await asked(pilot, "E")
        await asyncio.to_thread(
            queue.move, "x", 1, ["r1/1"], source="dead", target="waiting", high_water_ms=2**50
        )
        await press(pilot, "y")
        await told(pilot, "0 edited, 1 were in another state by then")
        assert queue.take(consumer="w").deliveries[0].payload == b"payload 0"

    drive_in(url, body, "5")


@pytest.mark.slow
def test_an_editor_that_fails_or_changes_nothing_changes_nothing(
    url: str, client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DelaySet(client, "later").schedule([("e1", b"x")], after=3600)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        monkeypatch.setattr(Top, "suspend", lambda self: nullcontext())
        monkeypatch.setenv("VISUAL", "false")
        await press(pilot, "E")
        await told(pilot, "false ended with 1: nothing was changed")
        monkeypatch.setenv("VISUAL", "true")
        await until(pilot, lambda: not app.changes.running)
        await press(pilot, "E")
        await told(pilot, "The payload is as it was")
        assert not app.screen.query(Input).filter("#why")

    drive_in(url, body, "6")
