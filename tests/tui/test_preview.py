"""`p` and Enter: an entry's payload, error and history, beside its list or on the whole screen."""

import asyncio
import gzip
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
import redis
from textual.pilot import Pilot

from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.ops.change.limits import Guard
from redisq_ops.ops.inspect.snapshot import Snapshot, Viewport
from redisq_ops.ops.redaction import Redaction
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import strips, text
from redisq_ops.tui.outline.entry_outline import READ_ONCE
from redisq_ops.tui.screens.detail_screen import DetailScreen
from redisq_ops.tui.screens.explain_screen import ExplainScreen
from redisq_ops.tui.screens.preview_pane import PreviewPane

from .test_app import drive_in, press, see, see_line, told, until
from .test_snapshots import MAIL, Clock, Seeded, settled
from .test_toolkit import limited, under

pytestmark = [pytest.mark.alike, pytest.mark.slow]

OSC_52 = "\x1b]52;c;aGk=\x07"
LARGE = {
    "region": "eu",
    "items": [{"sku": f"A-{n}", "price": 1.5, "in": True, "n": n} for n in range(840)],
}


class Payloads(Seeded):
    """The seeded server, all of whose entries have one payload; remembers what was asked."""

    def __init__(self, payload: bytes) -> None:
        super().__init__()
        self.payload = payload
        self.asked: list[str | None] = []

    async def look(self, viewport: Viewport) -> Snapshot:
        self.asked.append(viewport.detail)
        seen = await super().look(viewport)
        if seen.entry is None:
            return seen
        entry = replace(seen.entry.entry, payload=self.payload)
        return replace(seen, entry=replace(seen.entry, entry=entry))


def previewed(
    payload: bytes,
    body: Callable[[Top, Pilot[Exception], Payloads], Awaitable[None]],
    size: tuple[int, int] = (160, 45),
) -> None:
    """Open the preview of the first dead letter of `mail`."""
    source = Payloads(payload)
    app = Top(source, interval=3600, clock=Clock())

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await settled(app, pilot)
            for step in (*MAIL, "5", "p"):
                if isinstance(step, str):
                    await pilot.press(step)
                else:
                    await step(app, source)
                await settled(app, pilot)
            await body(app, pilot, source)

    asyncio.run(run())


def shown(app: Top) -> str | None:
    """The id of the entry whose sections are in the preview."""
    entry = app.preview.entry
    return entry.about if entry.outline.root.children else None


def test_a_preview_of_five_thousand_lines_makes_only_what_is_seen() -> None:
    payload = json.dumps(LARGE, indent=1).encode()
    assert len(payload.splitlines()) > 5_000

    async def body(app: Top, pilot: Pilot[Exception], source: Payloads) -> None:
        outline = app.preview.entry.outline
        await see(pilot, "payload", "JSON", "items  [840]", 'region  "eu"')
        assert outline.made < 100
        await press(pilot, "enter", "slash", *"a-808", "enter")
        await see(pilot, "/a-808/ 1 of 1", 'sku  "A-808"')
        assert outline.made < 300
        await press(pilot, "full_stop")
        assert app.clipboard == "payload.items[808].sku"
        await press(pilot, "left", "y")
        assert json.loads(app.clipboard) == LARGE["items"][808]

    previewed(payload, body)


def test_few_rows_leave_room_for_a_preview_that_reads_each_entry_once() -> None:
    async def body(app: Top, pilot: Pilot[Exception], source: Payloads) -> None:
        async def go(*keys: str) -> list[str | None]:
            source.asked.clear()
            await press(pilot, *keys)
            await settled(app, pilot)
            await settled(app, pilot)
            return source.asked

        await go("p")  # what the caller opened
        app.preview.mode = "auto"
        assert set(await go("5")) == {None} and not app.preview.display  # 1,240 rows
        asked = await go("0")
        first = app.current.table.identity
        assert app.preview.display and shown(app) == first
        assert asked.count(first) == 1
        assert len(app.current.table.in_sight) == 12
        assert (await go("j")).count(shown(app)) == 1 and shown(app) != first
        await pilot.resize_terminal(160, 26)
        await go("k")
        assert not app.preview.display
        await pilot.resize_terminal(160, 45)
        await go()
        assert set(await go("p", "7")) == {None}  # closed for all lists

    previewed(b"{}", body)


def test_while_the_cursor_moves_on_entries_are_read_at_rest_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PreviewPane, "settle_s", 3600)

    async def body(app: Top, pilot: Pilot[Exception], source: Payloads) -> None:
        first = shown(app)
        assert first == app.current.table.identity and set(source.asked[-2:]) == {first}
        await pilot.press(*"jjjjjjjj")
        await settled(app, pilot)
        assert set(source.asked) == {None, first}
        under = app.current.table.identity
        assert f"{under} …" in text(app)  # what was there is of another entry
        assert shown(app) is None
        app.preview._settled()  # an hour later
        await settled(app, pilot)
        assert set(source.asked) == {None, first, under}
        assert shown(app) == under

    previewed(b"{}", body)


def test_a_large_payload_is_read_once_and_the_list_goes_on() -> None:
    payload = json.dumps(["x" * 100] * 100_000).encode()  # ten megabytes
    assert len(payload) > READ_ONCE

    async def body(app: Top, pilot: Pilot[Exception], source: Payloads) -> None:
        await see(pilot, "history", "payload  9.9 MiB, text, the first 64.0 KiB, read once")
        first = shown(app)
        asked = len(source.asked)
        for _ in range(3):
            await settled(app, pilot)
        assert set(source.asked[asked:]) == {None}
        await press(pilot, "enter", "y")
        await told(pilot, "9.9 MiB is too much for a clipboard")
        await press(pilot, "escape", "j")
        await until(pilot, lambda: shown(app) not in (None, first))

    previewed(payload, body, (80, 24))


def test_the_whole_screen_does_not_wait_for_the_next_refresh() -> None:
    async def body(app: Top, pilot: Pilot[Exception], source: Payloads) -> None:
        await press(pilot, "p", "enter")  # the next refresh is in an hour
        assert isinstance(app.screen, DetailScreen)
        await see(pilot, 'region  "eu"')
        await press(pilot, "q")
        assert app.viewport().detail is None

    previewed(b'{"region": "eu"}', body)


def test_the_preview_follows_from_list_to_list_and_has_what_each_knows() -> None:
    async def body(app: Top, pilot: Pilot[Exception], source: Payloads) -> None:
        for key, seen in (
            ("8", "holds 2, the oldest first"),
            ("m", "as of its last heartbeat"),
            ("l", "smtp-3"),
        ):
            await press(pilot, key)
            await settled(app, pilot)
            await see(pilot, "preview: Enter", seen)
        await press(pilot, "v")
        await settled(app, pilot)
        assert "preview:" not in text(app)
        await press(pilot, "p")
        assert "charts have none" in text(app)
        await press(pilot, "1")
        await settled(app, pilot)
        await see(pilot, "mail: p closes", "failed")
        await press(pilot, "5")
        await settled(app, pilot)
        await see(pilot, "preview: Enter scrolls and searches it")
        await press(pilot, "3")
        await settled(app, pilot)
        await see(pilot, "holders  the first 5", "newsletter-3120  sealed")
        await press(pilot, "enter", "p")  # from inside too
        assert "preview:" not in text(app) and app.focused is app.current.table

    previewed(b"{}", body)


# --- on real servers ---------------------------------------------------------------------------


def bury(client: redis.Redis, payloads: list[bytes], error: Failure | None = None) -> None:
    """Dead letters r1/1 …"""
    queue = RequestQueue(client, "mail")
    queue.submit(payloads, id="r1", limit=1000)
    encoded = (error or Failure("ValueError", "bad")).encoded()
    for delivery in queue.take(len(payloads), consumer="w1").deliveries:
        queue.settle([Settlement(delivery, "reject", encoded)])


async def on(pilot: Pilot[Exception], app: Top, id: str) -> None:
    """With the cursor on this row and its entry in the preview."""
    await until(pilot, lambda: app.current.table.position)
    app.current.table.go_to(id)
    await until(pilot, lambda: shown(app) == id)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True], ids=["preview", "screen"])
def test_a_value_is_found_copied_and_filtered_by(
    url: str, client: redis.Redis, whole: bool
) -> None:
    regions = ["eu", "us", "eu", "ap"]
    bury(
        client,
        [
            json.dumps({"to": f"u{n}@x", "at": {"region": region}}).encode()
            for n, region in enumerate(regions)
        ],
    )

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        if whole:
            await until(pilot, lambda: app.current.table.position)
            app.current.table.go_to("r1/1")
            await press(pilot, "enter")
            assert isinstance(app.screen, DetailScreen)
        else:
            await press(pilot, "p")
            await on(pilot, app, "r1/1")
            await press(pilot, "enter")
        await see(pilot, "u0@x", "ValueError", "bad", "dead rejected")
        await press(pilot, "y")
        assert json.loads(app.clipboard) == {"to": "u0@x", "at": {"region": "eu"}}
        await press(pilot, "slash", *"region", "enter", "y")
        assert app.clipboard == "eu"
        await press(pilot, "n", "full_stop")
        assert app.clipboard == "payload.at.region"
        await press(pilot, "F")
        await see_line(pilot, '/payload.at.region="eu"/ in 2 of 4')
        assert not isinstance(app.screen, DetailScreen)
        await until(pilot, lambda: app.current.table.identity == "r1/1")
        if not whole:
            await press(pilot, "slash", "escape", "g", "F")  # one more condition: its id
            await see_line(pilot, 'id="r1/1"/ in 1 of')
            await press(pilot, "escape")  # into the list
        if whole:
            await press(pilot, "k", "t")  # of what is under the cursor now
            assert isinstance(app.screen, ExplainScreen)
            assert app.screen.about.id == app.current.table.identity == "r1/3"
            await press(pilot, "escape", "j")
        await press(pilot, "escape")
        await see(pilot, "r1/2", "r1/4", "of 4")
        assert app.current.table.identity == "r1/1"

    drive_in(url, body, "5")


@pytest.mark.slow
def test_a_preview_stays_with_its_entry_and_says_when_it_goes(
    url: str, client: redis.Redis
) -> None:
    bury(client, [b'{"n": 1}', b'{"n": 2}'])
    queue = RequestQueue(client, "mail")

    def moved(id: str) -> list[str]:
        return queue.move(
            "x", int(id[-1]), [id], source="dead", target="waiting", high_water_ms=2**50
        )

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "p")
        await on(pilot, app, "r1/2")
        app.current.table.stay()
        assert await asyncio.to_thread(moved, "r1/1") == ["moved"]
        await see(pilot, "1 of 1")
        assert shown(app) == "r1/2"
        assert await asyncio.to_thread(moved, "r1/2") == ["moved"]
        await see(pilot, "The list does not show this entry any more.", "n  2")

    drive_in(url, body, "5")


@pytest.mark.slow
def test_nothing_in_a_payload_acts_on_the_terminal(url: str, client: redis.Redis) -> None:
    nasty = f"[red]x[/red]{OSC_52}\u202e\u200b שלום 👩‍👩‍👧"
    error = Failure(f"[b]{OSC_52}", nasty, f"Traceback (most recent call last):\n{nasty}")
    bury(client, [json.dumps({nasty: nasty}, ensure_ascii=False).encode()], error)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "p")
        await on(pilot, app, "r1/1")
        await press(pilot, "enter", "slash", *"[red]", "enter")
        await see(pilot, r"[red]x[/red]\x1b]52;c;aGk=\x07\u202e\u200b שלום", "/[red]/ 1 of")
        raw = "".join(s.text for strip in strips(app) for s in strip)
        assert not {"\x1b", "\x07", "\u202e", "\u200b"} & set(raw)

    drive_in(url, body, "5")


@pytest.mark.slow
def test_what_is_redacted_is_not_previewed_and_not_filtered_by(
    url: str, client: redis.Redis
) -> None:
    bury(
        client,
        [b'{"password": "hunter2", "user": "ada"}'],
        Failure("LoginError", "bad", 'Traceback:\n  {"password": "hunter2"}'),
    )

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "p")
        await on(pilot, app, "r1/1")
        await see(pilot, 'password  "***"', 'user  "ada"')
        await press(pilot, "enter", "j", "F")
        await told(pilot, "A filter can't name this")
        assert "hunter2" not in text(app) and app.current.filter is None

    hidden = Redaction.read([({"keys": ["password"]}, "")])
    under(url, limited(url, Guard(), hidden), body, "5")


def test_an_opened_payload_is_decoded_and_copied_as_it_is_stored(
    url: str, client: redis.Redis
) -> None:
    payload = gzip.compress(json.dumps({"to": "ann", "note": "Dear Ann, " * 20}).encode())
    bury(client, [payload])

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "enter")
        await see(pilot, f"gzip, {len(payload)} B → 225 B, JSON", "note  200 characters", "b Wrap")
        await press(pilot, "y")
        assert b64decode(app.clipboard) == payload
        await press(pilot, "b")
        await see(pilot, 'note  "Dear Ann, Dear')
        await press(pilot, "b")
        await see(pilot, "note  200 characters", "      Dear Ann, Dear")

    drive_in(url, body, "5")


def test_a_secret_in_an_encoded_payload_is_masked_where_it_is_decoded(
    url: str, client: redis.Redis
) -> None:
    bury(client, [gzip.compress(b'{"password": "hunter2", "user": "ada"}')])

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "enter")
        await see(pilot, 'password  "***"', 'user  "ada"')
        await press(pilot, "y")
        assert app.clipboard == "***"

    hidden = Redaction.read([({"keys": ["password"]}, "")])
    under(url, limited(url, Guard(), hidden), body, "5")


@pytest.mark.slow
def test_what_can_not_be_done_in_a_preview_says_why(url: str, client: redis.Redis) -> None:
    bury(client, [b"\x80\x04\x95\x00binary"])

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        await press(pilot, "p")
        await on(pilot, app, "r1/1")
        await see(pilot, "10 B, binary", "80 04 95 00 62 69 6e 61 72 79  ")
        await press(pilot, "enter", "n")
        await told(pilot, "There is no search")
        await press(pilot, "j", "full_stop")
        await told(pilot, "Only a payload's members have a path")
        await press(pilot, "k", "y")
        assert b64decode(app.clipboard) == b"\x80\x04\x95\x00binary"
        await told(pilot, "copied the payload as base64")
        await press(pilot, "slash", *"nothing", "enter")
        await see(pilot, "/nothing/ 0 found")

    drive_in(url, body, "5")
