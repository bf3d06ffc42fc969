"""What is shown of an entry, without a terminal: lazily made, harmless, and true."""

import base64
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from redisq_ops.core.model.entry import Entry
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.ops.filter.parser import parse
from redisq_ops.ops.inspect.details import EntryDetails
from redisq_ops.ops.inspect.flow import FlowMember
from redisq_ops.ops.inspect.history import EntryHistory
from redisq_ops.ops.inspect.snapshot import Snapshot, Viewport
from redisq_ops.ops.payload_content import BEGINNING, payload_content
from redisq_ops.ops.redaction import Redaction
from redisq_ops.ops.terminal import printable
from redisq_ops.tui.outline.entry_outline import outline_sections
from redisq_ops.tui.outline.outline import GROUP, OutlineItem, Parts, matches, text_parts
from redisq_ops.tui.outline.payload_outline import payload_parts
from redisq_ops.tui.outline.traceback_lines import LAST, LINES, traceback_lines

OSC_52 = "\x1b]52;c;aGk=\x07"
TRACEBACK = f"""Traceback (most recent call last):
  File "/srv/mail.py", line 88, in deliver
    raise [b]ValueError[/b]("\u202e{OSC_52}")
ValueError: 5.1.1"""


def payload_outline(payload: bytes, width: int = 60, wraps: bool = False) -> tuple[str, Parts]:
    content = payload_content(payload)
    return content.what, payload_parts(content, width, wraps)


def walked(parts: Parts) -> Iterator[OutlineItem]:
    for item in parts.folded():
        yield item
        yield from walked(item.parts)


@pytest.mark.parametrize(
    ("payload", "what", "first"),
    [
        (b'{"a": 1.10}', "11 B, JSON", "a  1.1"),
        (b"[1e400, null]", "13 B, JSON", "[0]  1e400"),
        (b'"\xc3\xa4"', "4 B, JSON", '"ä"'),
        (b'{"a": NaN}', "10 B, text", '{"a": NaN}'),
        (b"one\ntwo", "7 B, text", "one"),
        (b"almost all text \xff", "17 B, text", "almost all text \\xff"),
        (b"\x80\x04\x95\x00\x1f", "5 B, binary", "0000  80 04 95 00 1f"),
        (bytes(range(128, 256)), "128 B, binary", "0000  80 81 82"),
        (b"[" * 100_000, "97.7 KiB, text", "[" * 100),
        (b"", "empty", ""),
    ],
)
def test_a_payload_is_shown_as_what_it_is(payload: bytes, what: str, first: str) -> None:
    words, parts = payload_outline(payload)
    assert words == what
    leaves = (item.label.plain for item in walked(parts) if not item.parts.number)
    assert next(leaves, "").startswith(first)


def test_hexadecimal_rows_have_offset_bytes_and_signs() -> None:
    _, parts = payload_outline(b"\0" * 8 + b"\x89PNG[\x1b")
    assert [item.label.plain for item in parts.folded()] == [
        "0000  00 00 00 00 00 00 00 00  ........",
        "0008  89 50 4e 47 5b 1b        .PNG[.",
    ]


@pytest.mark.parametrize(("width", "bytes_"), [(20, 8), (75, 16), (76, 16), (120, 24), (220, 48)])
def test_hexadecimal_is_as_wide_as_the_screen(width: int, bytes_: int) -> None:
    _, parts = payload_outline(b"\0" * 2048, width)
    assert parts.make(1).label.plain.startswith(f"{bytes_:04x}  00 ")
    assert width == 20 or parts.make(0).label.cell_len <= width - 4


def test_wrapped_no_line_is_longer_than_the_screen_and_all_is_there() -> None:
    text = "日本 long, \u202e 👩‍👩‍👧" * 40
    document = {"short": "x" * 20, "key": text, "deep": [{"key": "y" * 500}]}
    for payload in (text.encode(), json.dumps(document).encode()):
        items = list(walked(payload_outline(payload, 50, True)[1]))
        shown = [item.label for item in items]
        assert max(label.cell_len for label in shown) <= 46
        assert printable(text) in "".join(label.plain for label in shown)
        assert text in "".join(str(item.value) for item in items), "what y copies"
    assert any(label.plain == 'short  "' + "x" * 20 + '"' for label in shown)
    _, parts = payload_outline(text.encode(), 50)
    assert [item.label.plain for item in walked(parts)] == [printable(text)]


def test_what_is_encoded_is_not_offered_to_filters() -> None:
    payload = json.dumps({"a": 1, "b": {"c": "x"}}).encode()
    for encoded in (payload, gzip.compress(payload)):
        found = [
            (item.place, item.condition)
            for item in walked(payload_outline(encoded)[1])
            if item.place or item.condition
        ]
        assert bool(found) == (encoded is payload)


def test_a_text_in_base64_within_json_unfolds_to_what_it_holds() -> None:
    inner = base64.urlsafe_b64encode(gzip.compress(b'{"to": "ann", "password": "hunter2"}'))
    payload = json.dumps({"id": "0123456789abcdef", "body": inner.decode()}).encode()
    content = payload_content(payload, Redaction.read([({"keys": ["password"]}, "")]))
    id_, body = payload_parts(content, 60, False).folded()
    assert id_.label.plain == 'id  "0123456789abcdef"' and not id_.parts.number
    assert body.label.plain == f"body  base64, gzip, {len(inner)} B → 36 B, JSON"
    to, password = body.parts.folded()
    assert (to.label.plain, password.label.plain) == ('to  "ann"', 'password  "***"')
    assert (to.condition, body.value) == ("", inner.decode())  # filters compare what is stored


def test_nothing_in_a_payload_or_a_traceback_reaches_the_terminal_as_it_is() -> None:
    nasty = f"[red]x[/red]{OSC_52}\u202eRTL\u200b שלום 👩‍👩‍👧 \ud800 e\u0301"
    document = {nasty: [nasty, {nasty: nasty * 30}], "\x00": nasty}
    payloads = [
        json.dumps(document).encode(),
        nasty.encode("utf-8", "replace"),
        b"\0" + OSC_52.encode(),
    ]
    shown: list[str] = [line.label.plain for line in traceback_lines(TRACEBACK)]
    for payload in payloads:
        for item in walked(payload_outline(payload)[1]):
            shown += [item.label.plain, str(item.summary)]
    assert any("[red]x[/red]\\x1b]52;c" in line for line in shown)
    assert any("שלום" in line for line in shown)
    assert [line for line in shown if printable(line) != line] == []


@pytest.mark.slow
def test_of_many_members_a_hundred_are_made_at_a_time() -> None:
    _, parts = payload_outline(json.dumps([1] * 300_000).encode())
    made: list[int] = []

    def make(at: int) -> OutlineItem:
        made.append(at)
        return parts.make(at)

    top = Parts(parts.number, make).folded()
    assert [item.label.plain for item in top[:2]] == ["0 … 9,999", "10,000 … 19,999"]
    assert len(top) == 30
    inner = top[7].parts.folded()
    assert len(inner) == GROUP and made == []
    assert inner[1].parts.folded()[2].label.plain == "[70102]  1"
    assert made == list(range(70_100, 70_200))


def test_a_payload_of_ten_megabytes_shows_its_beginning() -> None:
    payload = json.dumps(["x" * 100] * 100_000).encode()
    words, parts = payload_outline(payload)
    assert words == "9.9 MiB, text, the first 64.0 KiB"
    shown = sum(len(str(parts.make(at).value)) for at in range(parts.number))
    assert shown == BEGINNING
    words, parts = payload_outline(b"\0" + payload)
    assert words == "9.9 MiB, binary, the first 64.0 KiB"
    assert parts.number == BEGINNING // 8


def test_a_traceback_keeps_its_end_and_colours_its_error() -> None:
    frames = "\n".join(f'  File "/srv/{n}.py", line {n}, in f' for n in range(LINES + 50))
    lines = traceback_lines(f"Traceback (most recent call last):\n{frames}\nValueError: bad")
    assert lines[0].label.plain == f"traceback, {LINES + 52 - LAST} lines before"
    assert len(lines) == LAST + 1 and lines[0].parts.number == LINES - LAST + 1
    assert lines[0].parts.make(0).label.plain == "… 52 lines before"
    last = lines[-1].label
    assert last.plain == "ValueError: bad"
    assert [last.plain[span.start : span.end] for span in last.spans][:1] == ["ValueError"]
    ruby = traceback_lines("app/mail.rb:88:in `deliver'\napp/worker.rb:3:in `perform'")
    assert [line.label.plain for line in ruby] == [
        "app/mail.rb:88:in `deliver'",
        "app/worker.rb:3:in `perform'",
    ]


# --- search ------------------------------------------------------------------------------------


def test_a_search_finds_keys_and_values_in_the_order_of_the_lines() -> None:
    document = {"Region": "eu", "items": [{"region": n} for n in range(150)], "to": "a.Region"}
    top = payload_outline(json.dumps(document).encode())[1].folded()
    found, all_ = matches(top, "region", 1000)
    assert len(found) == 152 and all_
    assert found[0] == (0,) and found[-1] == (2,)
    assert found[1] == (1, 0, 0, 0)  # items, 0 … 99, [0], region
    assert found[101] == (1, 1, 0, 0)  # items, 100 … 149, [100], region
    some, all_ = matches(top, "region", 10)
    assert some == found[:10] and not all_
    assert matches(top, "nowhere", 10) == ([], True)


def test_a_search_looks_at_all_lines_of_a_text() -> None:
    text = "\n".join(f"line {n}" for n in range(5_000))
    assert matches(text_parts(text).folded(), "LINE 4321", 10) == ([(43, 21)], True)


# --- conditions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "eu",
        "",
        'a "b" \\ c',
        "*",
        "two words",
        "5",
        "null",
        "שלום 👍",
        5,
        -1.5,
        0,
        10**20,
        True,
        None,
        ["x"],
        {"a": 1},
    ],
)
@pytest.mark.parametrize("key", ["region", "odd key", 'a"b', "", "0", "ключ", "a.b"])
def test_a_condition_matches_its_own_entry_and_no_other(key: str, value: Any) -> None:
    payload = json.dumps({"in": [{key: value}]}).encode()
    _, parts = payload_outline(payload)
    member = parts.make(0).parts.make(0).parts.make(0)
    query = parse(member.condition)
    other = json.dumps({"in": [{key + "x": value}]}).encode()
    assert query.accepts(Entry("r1/1", "dead", payload=payload), 0)
    assert not query.accepts(Entry("r1/2", "dead", payload=other), 0)
    if not isinstance(value, (list, dict)):
        unlike = json.dumps({"in": [{key: "something else"}]}).encode()
        assert not query.accepts(Entry("r1/3", "dead", payload=unlike), 0)


def test_there_is_no_condition_for_what_a_filter_line_can_not_hold() -> None:
    hidden, lines, long = "***", "a\nb", "x" * 1000
    _, parts = payload_outline(json.dumps([hidden, lines, long, OSC_52]).encode())
    assert [item.condition for item in parts.folded()] == [""] * 4


def test_a_flow_is_drawn_from_the_top_and_says_what_it_does_not_show() -> None:
    queue = DelaySet(None, "mail")
    members = (
        FlowMember(-1, "parent", queue, "p", "dead", "failed", False, 2, 0, 0, {"dead": 2}),
        FlowMember(0, "", queue, "e\x1b[2J", "dead", "", False, 10_000, 1, 1, {"done": 9_999}),
        FlowMember(1, "child", queue, "c", None, "", True, 0, 1, 0, {}),
    )
    details = EntryDetails(queue, 0, Entry("e", "dead"), None, EntryHistory(), flow=members)
    sections = outline_sections(Snapshot(Viewport(), 0, entry=details), None)
    (flow,) = (one for one in sections if one.name == "flow")
    assert [line.label.plain for line in flow.title.parts.folded()] == [
        "parent mail/p  dead (failed); 2 below: 2 dead",
        "  mail/e\\x1b[2J  dead; 10,000 below, 9,999 read: 9,999 done; 1 shown",
        "    child mail/c  unknown; the one above waits for it",
    ]
