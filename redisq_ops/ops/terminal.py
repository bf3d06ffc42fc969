"""Formats values for a terminal: escaped text, ages, dates, counts, sizes.

The result is plain text and may contain square brackets: pass it on as text (Rich ``Text``, Textual
``Strip`` or ``markup=False``), never as markup.
"""

import codecs
import re
import unicodedata
from datetime import UTC, datetime, tzinfo

from rich.cells import cell_len, set_cell_size

from redisq_ops.core.model.quoting import INVISIBLE

ELLIPSIS = "…"
_YEAR_MS = 31_556_952_000
_MANY_DAYS = 1_000

# `str.isprintable` refuses the categories Cc, Cf, Cs, Co, Cn, Zl, Zp and Zs.
_ASCII_CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F)}
_ASCII_CONTROL |= {ord("\n"): "⏎", ord("\t"): "\\t", ord("\r"): "\\r"}
_EMOJI = r"\u2194\u2195\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_JOINED = rf"(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])"
"""a joiner between two emojis, which makes one of them: a family, a profession"""
_NOT_ASCII = re.compile(rf"(?!{_JOINED})[^\x00-\x7f]")


def printable(value: bytes | str, limit: int | None = None) -> str:
    r"""The value as text without effect on a terminal, at most ``limit`` cells wide.

    Control, format (bidi, zero-width), unassigned, private and other invisible characters and
    invalid UTF-8 become ``\x1b``, ``\u202e``, ``\U000e0041``; a newline ``⏎``, a tab ``\t``. The
    joiner between two emojis stays. Text that is cut ends with an ellipsis. Escaped text stays the
    same when it is escaped again.
    """
    if limit is None:
        return _escape(_decode(value, len(value)))
    # Decode only what can be shown of a payload of up to a mebibyte. Eight units per cell leave
    # room for combining marks.
    most = 8 * limit + 8
    text = _escape(_decode(value, most))
    if len(value) <= most and cell_len(text) <= limit:
        return text
    return set_cell_size(text, limit - 1) + ELLIPSIS if limit > 0 else ""


def rough_age(ms: int) -> str:
    """A duration (ms) in its leading unit: ``13 m``, ``4 h``."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)):
        if ms >= size:
            return f"{ms // size} {unit}"
    return f"{max(0, ms) // 1000} s"


def age(ms: int) -> str:
    """A duration (ms) by its two leading units: ``12s``, ``4m 03s``, ``3d 4h``; of 1,000 days or
    more in years, rounded: ``40 years``."""
    sign, seconds = ("-" if ms <= -1000 else ""), abs(ms) // 1000
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days >= _MANY_DAYS:
        return f"{sign}{round(abs(ms) / _YEAR_MS):,} years"
    if days:
        return f"{sign}{days}d {hours % 24}h"
    if hours:
        return f"{sign}{hours}h {minutes % 60:02}m"
    if minutes:
        return f"{sign}{minutes}m {seconds % 60:02}s"
    return f"{sign}{seconds}s"


def took(ms: int) -> str:
    """A duration as `age` says it, below a second in ms: ``340 ms``."""
    return age(ms) if ms >= 1000 else f"{ms} ms"


def kind_of(kind: str) -> str:
    """A kind of queue with its article: ``an arq queue``."""
    return f"{'an' if kind.startswith(('a', 'e', 'i', 'o', 'u', 'rq')) else 'a'} {kind} queue"


def no_list(kind: str, state: str, may: str | None) -> str:
    """What is said where nothing is found of a state that the queue's owner lists nowhere; ``may``:
    where its entries may be."""
    why = f". {may}" if may else ""
    return f"unknown: {kind_of(kind)} keeps no list of its {state} entries{why}"


def count(number: int) -> str:
    """A number with thousands separated: ``1,234,567``."""
    return f"{number:,}"


def quantity(number: int, noun: str) -> str:
    """``1 row``, ``1,234 rows``: of a noun whose plural ends in s."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def entries(number: int) -> str:
    """``1 entry``, ``1,234 entries``."""
    return f"{count(number)} {'entry' if number == 1 else 'entries'}"


def percent(share: float) -> str:
    """``61 %``; a positive share is never 0 %, a share below 1 never 100 %."""
    number = round(100 * share)
    if share > 0 and number == 0:
        return "<1 %"
    return ">99 %" if share < 1 and number == 100 else f"{number} %"


def a_second(rate: float) -> str:
    """A rate with three digits: ``2,500/s``, ``0.0278/s``."""
    return f"{rate:,.0f}/s" if rate >= 100 else f"{rate:.3g}/s"


def short_count(number: int) -> str:
    """A number in at most five cells up to 999T: ``999``, ``1.2M``, ``12.3M``, ``123M``."""
    return _scaled(number, 1000, ("", "K", "M", "G", "T"))


def size(bytes_: int) -> str:
    """A size in bytes in binary units: ``512 B``, ``1.5 KiB``, ``64.0 MiB``."""
    return _scaled(bytes_, 1024, (" B", " KiB", " MiB", " GiB", " TiB"))


def _decode(value: bytes | str, most: int) -> str:
    if isinstance(value, str):
        return value[:most]
    # If it was cut (not final), half a character at the end is not an invalid byte.
    return codecs.utf_8_decode(value[:most], "surrogateescape", len(value) <= most)[0]


def _escape(text: str) -> str:
    if text.isascii():
        return text if text.isprintable() else text.translate(_ASCII_CONTROL)
    if text.isprintable() and INVISIBLE.search(text) is None:
        return text
    return _NOT_ASCII.sub(_escape_one, text.translate(_ASCII_CONTROL))


def _escape_one(match: re.Match[str]) -> str:
    char = match[0]
    # Wide and no-break spaces are text, but not printable for Python.
    category = unicodedata.category(char)
    if (char.isprintable() and not INVISIBLE.match(char)) or category == "Zs":
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # an invalid byte in surrogateescape form
        code -= 0xDC00
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _scaled(number: int, step: int, units: tuple[str, ...]) -> str:
    if abs(number) < step:
        return f"{number}{units[0]}"
    value = float(number)
    for unit in units[1:]:
        value /= step
        # Compare the rounded value: 999,999 is 1.0M, not 1000K.
        if round(abs(value)) < step or unit == units[-1]:
            break
    return f"{value:.1f}{unit}" if abs(value) < 99.95 else f"{value:.0f}{unit}"


def date(ms: int, zone: tzinfo | None = None, *, offset: bool = True) -> str:
    """A time (ms since 1970) as a date in ``zone`` (None: local), to the second.

    Another program may store any number as a time: beyond the calendar only the year is shown.
    """
    try:
        at = datetime.fromtimestamp(ms / 1000, UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return f"year {1970 + ms // _YEAR_MS}"
    return (at if offset else at.replace(tzinfo=None)).isoformat(sep=" ", timespec="seconds")
