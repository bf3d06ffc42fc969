"""Pictures of the dashboard, compared with those kept in `snapshots/`.

Some are kept as SVG; the others as frames: the words on the screen, and below them what is drawn in
a colour that means something. `make pictures` keeps what is drawn, without comparing.
"""

import html
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher, unified_diff
from functools import lru_cache
from itertools import groupby
from pathlib import Path

import pytest
import resvg_py
from rich.style import Style
from textual.color import Color

from redisq_ops.tui import theme
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import strips, text

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "snapshots"
REDRAW = os.environ.get("REDISQ_PICTURES") == "redraw"

TONES = {
    "ok": theme.OK,
    "warn": theme.WARN,
    "bad": theme.BAD,
    "error": theme.DARK.error or "",
    "dead": theme.DEAD,
    "delayed": theme.DELAYED,
}
"""colours of text that a frame names"""
GROUNDS = {
    "on cursor": theme.DARK.variables["primary-muted"],
    "on chosen": theme.HELD,
    "on found": theme.WARN,
    "on focus": theme.DARK.primary,
}
"""colours behind text that a frame names"""
PNG = {
    "readme/programs": "programs",
    "tour-1-trouble": "overview",
    "tour-2-groups": "tour-2-groups",
    "tour-3-preview": "tour-3-preview",
    "tour-4-replay": "tour-4-replay",
    "tour-5-charts": "tour-5-charts",
    "tour-6-undo": "tour-6-undo",
    "dead": "dead",
    "dead-all": "all-dead",
    "preview-160x45": "preview",
    "explain": "explain",
    "overview-light": "light",
}
"""SVG -> its name in `docs/pictures/`"""

LINES = re.compile("[\u2500-\u257f]+|[\u2800-\u28ff]+")
"""parts of borders, and of charts"""


class Pictures:
    """What one test draws. Frames go into one file of `snapshots/frames/`."""

    def __init__(self, file: str = "") -> None:
        self._path = KEPT / "frames" / f"{file}.txt"
        self._frames: dict[str, list[str]] = {}
        self._first: dict[tuple[int, int], tuple[str, list[str]]] = {}
        """size -> the first frame of this size, and its lines"""
        self._differences: list[str] = []

    def svg(self, name: str, app: Top) -> None:
        """A picture that is kept as SVG."""
        drawn = app.export_screenshot(title="redisq-top", simplify=True)
        if REDRAW and (png := PNG.get(name)):
            image = resvg_py.svg_to_bytes(
                svg_string=drawn, zoom=1.5, monospace_family="DejaVu Sans Mono"
            )
            (ROOT / "docs" / "pictures" / f"{png}.png").write_bytes(bytes(image))
        drawn, path = normal(drawn), KEPT / f"{name}.svg"
        if REDRAW:
            path.write_text(drawn, encoding="utf-8")
        kept = path.read_text(encoding="utf-8") if path.exists() else ""
        if kept != drawn:
            self._differ(f"{name}.svg", readable(kept), readable(drawn))

    def frame(self, name: str, app: Top, base: tuple[str, list[str]] | None = None) -> None:
        """A picture that is kept as text. Lines as in ``base``, or else as in the first frame of
        this size, are named only."""
        drawn, size = lines(app), (app.size.width, app.size.height)
        base = base or self._first.setdefault(size, (name, drawn))
        self._frames[f"{name}, {size[0]}x{size[1]}"] = (
            short(drawn) if base[1] is drawn else short(drawn, *base)
        )

    def check(self) -> None:
        """Fail with what looks different."""
        if self._frames:
            drawn = "".join(
                f"== {title}\n" + "".join(f"{line}\n" for line in found)
                for title, found in self._frames.items()
            )
            self.table(self._path, drawn)
        if self._differences:
            pytest.fail(
                "\n\n".join(["make pictures, if this is meant:", *self._differences]), False
            )

    def table(self, path: Path, drawn: str) -> None:
        """A whole file of text."""
        if REDRAW:
            path.parent.mkdir(exist_ok=True)
            path.write_text(drawn, encoding="utf-8")
        before = sections(path.read_text(encoding="utf-8") if path.exists() else "")
        after = sections(drawn)
        for title in {**before, **after}:
            if before.get(title) != after.get(title):
                name = f"{path.relative_to(KEPT)} {title}".rstrip()
                self._differ(name, before.get(title, []), after.get(title, []))

    def _differ(self, name: str, kept: Sequence[str], drawn: Sequence[str]) -> None:
        changed = list(unified_diff(kept, drawn, f"{name}, kept", f"{name}, drawn", "", "", 1, ""))
        self._differences.append("\n".join(changed) or f"{name} has the same words elsewhere")


# --- frames ----------------------------------------------------------------------------------


def lines(app: Top) -> list[str]:
    """The screen's words, then each tone with its words."""
    found = defaultdict[str, list[str]](list)
    for strip in strips(app):
        for words, style, _ in strip:
            word = LINES.sub(lambda line: line[0][0], words.strip())
            for name in tones(style) if word and style else ():
                found[name].append(word)
    told = [f"{name}: {told_once(found[name])}" for name in (*TONES, *GROUNDS) if name in found]
    return [*text(app).splitlines(), *told]


def told_once(words: list[str]) -> str:
    counted = ((word, len(list(alike))) for word, alike in groupby(words))
    return " · ".join(word if n == 1 else f"{word} ×{n}" for word, n in counted)


@lru_cache
def tones(style: Style) -> tuple[str, ...]:
    """The names of a style's colours that mean something."""

    def near(one: Color, other: str) -> bool:
        """Also if a widget blends it a bit with the colour of its own."""
        return max(abs(a - b) for a, b in zip(one.rgb, Color.parse(other).rgb, strict=True)) < 9

    pairs = ((style.color, TONES), (style.bgcolor, GROUNDS))
    return tuple(
        name
        for drawn, names in pairs
        if drawn is not None and drawn.triplet is not None
        for name, color in names.items()
        if near(Color.from_rich_color(drawn), color)
    )


def short(drawn: list[str], name: str = "", base: Sequence[str] = ()) -> list[str]:
    """Lines that repeat, and lines as in ``base``, are counted only."""
    match = SequenceMatcher(None, base, drawn, autojunk=False)
    same = {block.b: block for block in match.get_matching_blocks() if block.size > 1}
    found, at = [], 0
    while at < len(drawn):
        if block := same.get(at):
            found.append(f"⋮ lines {block.a + 1} to {block.a + block.size} of {name}")
            at += block.size
            continue
        found.append(drawn[at])
        end = min((start for start in same if start > at), default=len(drawn))
        more = len(list(next(groupby(drawn[at:end]))[1])) - 1
        if more > 1:
            found.append(f"⋮ {more} more like it")
            at += more
        at += 1
    return found


def sections(kept: str) -> dict[str, list[str]]:
    """The frames of a file, by title."""
    start, *parts = re.split(r"^== (.*)\n", kept, flags=re.M)
    return {
        title: body.splitlines()
        for title, body in zip(["", *parts[::2]], [start, *parts[1::2]], strict=True)
    }


# --- SVG -------------------------------------------------------------------------------------


def normal(svg: str) -> str:
    """Without what differs between equal pictures, without fonts from elsewhere, and without the
    clip path of each line, which cuts off nothing but the edge of a glyph."""
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)
    svg = re.sub(r'<clipPath id="terminal-line-\d+">.*?</clipPath>\s*', "", svg, flags=re.S)
    svg = re.sub(r' clip-path="url\(#terminal-line-\d+\)"', "", svg)
    return re.sub(r"[ \t]+$", "", svg, flags=re.M)


def readable(svg: str) -> list[str]:
    """An SVG's rows, each piece behind its style, and the grounds."""
    styles = dict(re.findall(r"\.terminal-(r\d+) \{ fill: ([^}]*) \}", svg))
    rows = defaultdict[str, str](str)
    piece = r'<text class="terminal-(r\d+)" x="[^"]*" y="([^"]*)"[^>]*>([^<]*)</text>'
    for style, y, words in re.findall(piece, svg):
        rows[y] += f"[{styles[style]}]{html.unescape(words)}".replace("\xa0", " ").rstrip("\n")
    ground = r'<rect fill="([^"]*)" x="([^"]*)" y="([^"]*)" width="([^"]*)"'
    return [*rows.values(), *(" ".join(found) for found in re.findall(ground, svg))]


# --- colours ---------------------------------------------------------------------------------


Row = tuple[str, list[str]]
"""a line of the screen, and the style of each of its characters"""


def styled_rows(app: Top) -> list[Row]:
    """The screen with its styles."""
    rows = []
    for strip in strips(app):
        pieces = [(words, style or Style()) for words, style, _ in strip]
        styles = [styled(style, char == " ") for words, style in pieces for char in words]
        rows.append(("".join(words for words, _ in pieces), styles))
    return rows


@lru_cache
def styled(style: Style, blank: bool) -> str:
    """A style in words; of a blank only what can be seen."""
    marks = ("bold", "dim", "italic", "underline", "reverse")
    words = [mark for mark in marks if getattr(style, mark) and (not blank or mark != "bold")]
    if style.color is not None and not blank:
        words.append(style.color.name)
    if style.bgcolor is not None:
        words += ["on", style.bgcolor.name]
    return " ".join(words)


class Colours:
    """Which styles the themes draw for the same words."""

    def __init__(self, themes: Sequence[str]) -> None:
        self._themes = themes
        self._seen: dict[tuple[str, ...], str] = {}
        """style in each theme -> where it is seen first"""

    def add(self, name: str, looks: Mapping[str, Sequence[Row]]) -> None:
        """One screen in some themes."""
        for rows in zip(*looks.values(), strict=True):
            drawn = {words for words, _ in rows}
            assert len(drawn) == 1, f"{name} has other words in another theme: {drawn}"
            styles = zip(*(styles for _, styles in rows), strict=True)
            pieces = groupby(zip(rows[0][0], styles, strict=True), lambda piece: piece[1])
            for found, piece in pieces:
                by_theme = dict(zip(looks, found, strict=True))
                row = tuple(by_theme.get(theme, "-") for theme in self._themes)
                words = "".join(char for char, _ in piece).strip()
                self._seen.setdefault(row, f"{name}: {words}".rstrip(": "))

    def __str__(self) -> str:
        rows = [
            (*self._themes, "seen first"),
            *sorted((*row, at) for row, at in self._seen.items()),
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "".join("  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in rows)
