"""Text for a terminal: nothing in a payload acts on it, figures are short and right."""

import random

import pytest
from rich.cells import cell_len

from redisq_ops.ops.terminal import age, count, printable, short_count, size


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"plain", "plain"),
        ("Grüße, 世界 🙂".encode(), "Grüße, 世界 🙂"),
        (b"[red]x[/red]", "[red]x[/red]"),
        (b"\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
        ("\x9b31m", r"\x9b31m"),
        (b"a\x7f\x00b", r"a\x7f\x00b"),
        (b"one\ntwo\tthree\r\n", r"one⏎two\tthree\r⏎"),
        (b"\xff\xfe\xc3(", r"\xff\xfe\xc3("),
        (b"\xe4\xb8", r"\xe4\xb8"),
        ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
        ("a\u200bb\ufeffc\u2028d\u2029e", r"a\u200bb\ufeffc\u2028d\u2029e"),
        ("tag \U000e0041", r"tag \U000e0041"),
        ("\ud800", r"\ud800"),
        ("no\u00a0break\u3000wide", "no\u00a0break\u3000wide"),
        ("fill\u3164er\uffa0\u115f\u1160", r"fill\u3164er\uffa0\u115f\u1160"),
        ("braille\u2800\u2801", "braille\\u2800\u2801"),
        ("join\u034fer\u180b\u17b4\ufe00", r"join\u034fer\u180b\u17b4\ufe00"),
        ("select\U000e0100\u00ad\u061c\u2060", r"select\U000e0100\xad\u061c\u2060"),
        ("private\ue000 unassigned\u0378", r"private\ue000 unassigned\u0378"),
        ("❤\ufe0f e\u0301", "❤\ufe0f e\u0301"),
        (
            "👩\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 🧑🏽\u200d⚕\ufe0f",
            "👩\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 🧑🏽\u200d⚕\ufe0f",
        ),
        ("a\u200db 👩\u200d \u200d👩", r"a\u200db 👩\u200d \u200d👩"),
        (
            "👩\u200d\u202e👩 👩\u200d\u200d👧 \ufe0f\u200d\ufe0f",
            "👩\\u200d\\u202e👩 👩\\u200d\\u200d👧 \ufe0f\\u200d\ufe0f",
        ),
        (b"", ""),
    ],
)
def test_values_are_shown_and_never_obeyed(value: bytes | str, shown: str) -> None:
    assert printable(value) == shown
    assert printable(shown) == shown


@pytest.mark.parametrize(
    ("value", "limit", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日 …"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
        ("", 0, ""),
        ("日本語".encode() * 10, 7, "日本語…"),
    ],
)
def test_long_values_are_cut_to_cells(value: bytes | str, limit: int, shown: str) -> None:
    assert printable(value, limit) == shown


def test_any_bytes_fit_their_cells_and_hold_no_control() -> None:
    dice = random.Random(7)
    for _ in range(2000):
        value = dice.randbytes(dice.randrange(60))
        limit = dice.randrange(30)
        assert cell_len(printable(value, limit)) <= limit
        for text in (printable(value), printable(value, limit)):
            assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in text)


def test_a_cut_in_the_middle_of_a_character_is_not_an_invalid_byte() -> None:
    # Combining marks take bytes and no cells: the text is cut before the cells run out.
    for lead in range(4):
        text = "x" * lead + "e" + "\u0301" * 1000
        shown = printable(text.encode(), 20)
        assert "\\x" not in shown
        assert shown.endswith("…")
        assert len(shown) < 200


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "0s"),
        (999, "0s"),
        (12_000, "12s"),
        (59_999, "59s"),
        (60_000, "1m 00s"),
        (243_000, "4m 03s"),
        (7_800_000, "2h 10m"),
        (86_399_999, "23h 59m"),
        (86_400_000, "1d 0h"),
        (273_600_000, "3d 4h"),
        (999 * 86_400_000 + 82_800_000, "999d 23h"),
        (1_000 * 86_400_000, "3 years"),
        (14_599 * 86_400_000, "40 years"),
        (-14_599 * 86_400_000, "-40 years"),
        (2_000_000 * 31_556_952_000, "2,000,000 years"),
        (-999, "0s"),
        (-243_999, "-4m 03s"),
    ],
)
def test_ages_show_two_units(ms: int, shown: str) -> None:
    assert age(ms) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0K"),
        (1_250_000, "1.2M"),
        (12_345_678, "12.3M"),
        (99_949, "99.9K"),
        (99_950, "100K"),
        (999_499, "999K"),
        (999_500, "1.0M"),
        (999_999, "1.0M"),
        (10**9, "1.0G"),
        (10**16, "10000T"),
        (-1500, "-1.5K"),
    ],
)
def test_short_counts(number: int, shown: str) -> None:
    assert short_count(number) == shown


def test_counts_and_sizes() -> None:
    assert count(1_234_567) == "1,234,567"
    assert [size(n) for n in (0, 1023, 1024, 1536, 1 << 20, 64 << 20, (1 << 30) - 1)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "1.0 MiB",
        "64.0 MiB",
        "1.0 GiB",
    ]
