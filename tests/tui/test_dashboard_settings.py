"""What the configuration file says of the dashboard is checked at the start, and kept to."""

import asyncio
import os
import re
import tomllib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import redis
from textual.pilot import Pilot

from redisq_ops.cli import main as cli
from redisq_ops.core.model.errors import BadInput, Unreachable
from redisq_ops.core.redis.client import aconnect
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.overview import QueueRow
from redisq_ops.ops.inspect.snapshot import Snapshot, Viewport
from redisq_ops.tui.alerts import AlertWatch, alert_text, notify_terminal
from redisq_ops.tui.app import Top
from redisq_ops.tui.dashboard_settings import DashboardSettings
from redisq_ops.tui.frame import text
from redisq_ops.tui.keys import keys
from redisq_ops.tui.poller import Connected, Live
from redisq_ops.tui.settings_file import read_settings
from redisq_ops.tui.views import ALL

from .test_app import bury, see, until
from .test_snapshots import NOW, Clock, Seeded, overview, settled

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"
WHOLE = """
theme = "light"
refresh = "2s"
dead_by = "payload.tenant"
[keys]
explain = "u"
replay = "ctrl+r,V"
[columns]
dead = ["id", "error"]
[filters]
1 = "error~SMTP"
2 = "attempts>5"
[alerts]
notify = ["bell"]
severity = "warning"
[[alerts.check]]
queues = "mail*"
warning = ["dead>1000"]
"""


def test_the_whole_of_it_is_read() -> None:
    found = read_settings(tomllib.loads(WHOLE), "[dashboard]")
    assert (found.theme, found.refresh_s, found.dead_by) == ("light", 2.0, "payload.tenant")
    assert found.keys == {"explain": "u", "replay": "ctrl+r,V"}
    assert found.columns == {"dead": frozenset({"id", "error"})}
    assert found.filters == {"1": "error~SMTP", "2": "attempts>5"}
    assert found.alerts is not None
    assert found.alerts.notify == {"bell"} and len(found.alerts.rules.tables) == 1
    assert read_settings({}, "") == DashboardSettings()


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (
            "colour = 1",
            "D: 'colour' is none of theme, refresh, preview, dead_by, keys, columns, filters,",
        ),
        ("theme = 'pink'", "D: theme: 'pink' is none of dark, light, ansi, high-contrast"),
        ("refresh = 'soon'", "D: refresh: 'soon' is not a time span: write 90s, 5m, 2h or 3d"),
        ("refresh = 0", "D: refresh: '0': from 0.1 seconds to 1 hour"),
        ("dead_by = 'age'", "D: dead_by: 'age': group by error, task, release,"),
        ("keys.explode = 'x'", "D.keys: 'explode' is none of view-overview, "),
        ("keys.purge = 'p'", "D.keys: purge: a key that changes something takes Shift: 'p'"),
        ("keys.explain = 's'", "D.keys: 's' would do two things"),
        ("keys.explain = 'j'", "D.keys: 'j' would do two things"),
        ("keys.explain = ''", "D.keys: explain: expected a key, as 'x', 'f5' or 'ctrl+o'"),
        ("columns.dead = ['colour']", "D.columns: dead: 'colour' is none of id, task, reason,"),
        ("columns.tail = ['id']", "D.columns: 'tail' is none of overview, dead-all, levels,"),
        ("columns.dead = []", "D.columns: dead: expected a list of columns: id, task"),
        ("filters.0 = 'x'", "D.filters: '0' is none of 1, 2, 3, 4, 5, 6, 7, 8, 9"),
        ("filters.1 = 'age>>2h'", "D.filters: 1: "),
        ("alerts.notify = ['horn']", "D.alerts: notify: 'horn' is none of bell, osc9"),
        ("alerts.severity = 'mild'", "D.alerts: severity: 'mild' is none of warning, critical"),
        ("[[alerts.check]]\ndead = 'x'", "D.alerts.check, table 1: dead: expected a whole number"),
        ("alerts.check = 1", "D.alerts.check: expected tables [[D.alerts.check]]"),
        ("alerts = 1", "D.alerts must be a table"),
    ],
)
def test_a_bad_value_is_refused_with_its_place(bad: str, why: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_settings(tomllib.loads(bad), "D")
    assert str(refused.value).startswith(why)


def test_a_name_for_every_key() -> None:
    names = [binding.id for binding in keys.ALL]
    assert len(set(names)) == len(names) and None not in names
    table = {key for binding in keys.ALL for key in binding.key.split(",")}
    assert not table & set(keys.TABLE)


def names() -> str:
    """What can be named in the file, for its page."""
    rows = [
        f"| `{one.id}` | {' '.join(f'`{keys.sign(key)}`' for key in one.key.split(','))} |"
        for one in keys.ALL
    ]
    views = [
        f"| `{view.name_}` | {' '.join(f'`{column.key}`' for column in view.columns)} |"
        for view in ALL
    ]
    return "\n".join(
        [
            "| name of a key | usual key |",
            "|---|---|",
            *rows,
            "",
            "| view | columns |",
            "|---|---|",
            *views,
            "",
        ]
    )


def test_the_page_names_every_key_and_column() -> None:
    begin, end = "<!-- dashboard names -->\n", "<!-- end of names -->"
    before, _, rest = PAGE.read_text().partition(begin)
    written, found, after = rest.partition(end)
    assert found
    if os.environ.get("REDISQ_DOCS") == "redraw":
        PAGE.write_text(before + begin + names() + end + after)
        return
    assert written == names(), "REDISQ_DOCS=redraw pytest tests/tui/test_dashboard_settings.py"


def test_the_file_is_read_before_a_server_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "redisq" / "config.toml"
    file.parent.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file.write_text('[dashboard]\ntheme = "pink"\n')
    assert cli.run(["--url", "redis://127.0.0.1:1", "top", "--once"]) == 2
    assert f"{file} [dashboard]: theme: 'pink' is none of" in capsys.readouterr().err
    file.write_text('[contexts.a]\nurl = "redis://h"\n[contexts.a.dashboard]\ntheme = "dark"\n')
    assert cli.run(["--context", "a", "config"]) == 2
    assert "unknown setting 'dashboard'" in capsys.readouterr().err


# --- in the dashboard ------------------------------------------------------------------------


def show(
    body: Callable[[Top, Seeded, Pilot[Exception]], Awaitable[None]], settings: DashboardSettings
) -> None:
    async def run() -> None:
        source = Seeded()
        app = Top(source, interval=3600, settings=settings, clock=Clock())
        async with app.run_test(size=(120, 34)) as pilot:
            await settled(app, pilot)
            app.current.table.go_to("mail")
            await body(app, source, pilot)

    asyncio.run(run())


def test_keys_columns_and_filters_are_as_the_file_has_them() -> None:
    async def body(app: Top, source: Seeded, pilot: Pilot[Exception]) -> None:
        assert app.theme == "light" and "u Explain" in text(app)
        await pilot.press("5")
        await settled(app, pilot)
        lines = text(app).splitlines()
        assert lines[2].split() == ["entry", "error"]
        assert "Ctrl+R" in text(app) or "^r" in text(app)
        await pilot.press("t")
        await settled(app, pilot)
        assert "t has no meaning here" in text(app)
        await pilot.press("apostrophe")
        await settled(app, pilot)
        assert "1  error~SMTP" in text(app)
        await pilot.press("1")
        await settled(app, pilot)
        assert "/error~SMTP/ in" in text(app) and "Timeout" not in text(app)
        await pilot.press("apostrophe", "2")
        await settled(app, pilot)
        assert "/attempts>5/ in" in text(app)
        await pilot.press("1", "apostrophe", "2")
        await settled(app, pilot)
        assert "overview can't be filtered by attempts>5: there is no field" in text(app)
        await pilot.press("question_mark", "slash", *"explain")
        await settled(app, pilot)
        assert re.search(r"u +Explain", text(app))

    show(body, read_settings(tomllib.loads(WHOLE), "D"))


def test_without_saved_filters_it_says_where_they_are_written() -> None:
    async def body(app: Top, source: Seeded, pilot: Pilot[Exception]) -> None:
        await pilot.press("apostrophe")
        await settled(app, pilot)
        assert "[dashboard.filters]" in text(app)

    show(body, DashboardSettings())


def test_frozen_nothing_moves_until_a_key_needs_it() -> None:
    async def body(app: Top, source: Seeded, pilot: Pilot[Exception]) -> None:
        app.poller.interval = 0.01
        app.poller.wake()
        await pilot.press("z")
        await pilot.pause()
        frozen = app.snapshot
        assert isinstance(app.clock, Clock)
        app.clock.now += 75
        app.tick()
        assert "FROZEN 1m 15s (z)" in text(app) and "stale" not in text(app)
        for _ in range(20):
            await pilot.pause(0.01)
        assert app.snapshot is frozen
        await pilot.press("5")
        await settled(app, pilot)
        assert app.answered and app.poller.frozen
        source.broken = Unreachable("gone")
        app.poller.wake()
        while app.problem is None:
            await pilot.pause(0.01)
        app.clock.now += 9
        app.tick()
        await see(pilot, "stale 9s")
        assert "FROZEN" not in text(app)
        source.broken = None
        await pilot.press("z")
        await until(pilot, lambda: "FROZEN" not in text(app) and "stale" not in text(app))

    show(body, DashboardSettings())


def test_the_time_between_two_looks_is_chosen_by_a_command() -> None:
    async def body(app: Top, source: Seeded, pilot: Pilot[Exception]) -> None:
        for span, seconds in (("5s", 5.0), ("0.5", 0.5), ("1m", 60.0)):
            app.commands.run(f"refresh {span}")
            assert app.poller.interval == app.interval == seconds
        app.commands.run("refresh 1ms")
        assert "from 0.1 seconds" in app.refused and app.interval == 60.0

    show(body, DashboardSettings())


# --- alerts ----------------------------------------------------------------------------------


def watch(settings: str) -> AlertWatch:
    found = read_settings({"alerts": tomllib.loads(settings)}, "D").alerts
    assert found is not None
    return AlertWatch(found)


def test_only_new_trouble_is_news() -> None:
    rows = overview()
    healthy = tuple(replace(row, activity=None, counts=rows[0].counts) for row in rows)

    def look(these: tuple[QueueRow, ...]) -> Snapshot:
        return Snapshot(Viewport(), NOW, overview=these)

    by_usual = watch("")
    assert by_usual.judge(look(healthy)) == []
    found = by_usual.judge(look(rows))
    assert alert_text(found) == (
        "geo-import: no worker for 13 m;"
        " mail: 1,240 dead in all; mail: 211 dead in 5 m, latest 20 mostly SMTPRecipientsRefused"
    )
    assert by_usual.judge(look(rows)) == []
    assert by_usual.judge(look(healthy)) == []
    assert len(by_usual.judge(look(rows))) == 3, "it came again"
    more = watch('severity = "warning"\n[[check]]\nqueues = "webhooks"\nwarning = ["dead>400"]\n')
    more.judge(look(healthy))
    assert "webhooks: dead>400" in {f"{one.queue}: {one.reason}" for one in more.judge(look(rows))}
    assert watch("").judge(look(rows)) == [], "what is wrong at the start is on the screen"


def test_the_terminal_gets_a_bell_and_a_notification_and_no_escape_of_a_name() -> None:
    written: list[str] = []
    notify_terminal(written.append, "mail: 3 dead", frozenset({"bell", "osc9"}))
    assert "".join(written) == "\x1b]9;redisq: mail: 3 dead\x07\x07"
    written.clear()
    notify_terminal(written.append, "x", frozenset())
    assert written == []


def test_an_alert_is_shown_whatever_view_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redisq_ops.tui.alerts.EVERY_S", 0.01)

    calm = [True]

    async def body(app: Top, source: Seeded, pilot: Pilot[Exception]) -> None:
        seen = source.look

        async def look(viewport: Viewport) -> Snapshot:
            found = await seen(viewport)
            rows = tuple(replace(row, activity=None) for row in found.overview)
            looks.append(viewport)
            return replace(found, overview=rows) if calm[0] else found

        looks: list[Viewport] = []
        monkeypatch.setattr(source, "look", look)
        await pilot.press("5")
        while sum(viewport.view == "overview" for viewport in looks) < 3:
            await pilot.pause(0.02)
        calm[0] = False
        while not any("geo-import: no worker" in one.message for one in app._notifications):
            await pilot.pause(0.02)
        assert app.view == "dead"

    show(body, read_settings({"alerts": {}}, "D"))


def test_an_alert_counts_the_dead_of_the_minutes_that_its_rules_name(
    url: str, client: redis.Redis
) -> None:
    queue = bury(client, "r1", 20)
    dead = queue.keys["dead"]
    for id in client.zrange(dead, 0, 14):
        assert isinstance(id, bytes)
        client.zincrby(dead, -600_000, id)  # ten minutes ago
    source = Live(lambda: Connected(url, Deployment(aconnect(url, "top"))))

    async def reasons(rules: str) -> str:
        judge = watch(rules)
        judge._known = set()
        return alert_text(await judge.look(source))

    async def body() -> None:
        await source.look(Viewport())
        table = "[[check]]\nqueues = 'mail'\nminutes = {}\ndead = 15"
        assert "20 dead in 15 m" in await reasons(table.format(15))
        assert "dead in" not in await reasons(table.format(5))
        await source.close()

    asyncio.run(body())
