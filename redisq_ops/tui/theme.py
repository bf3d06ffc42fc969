"""The dashboard's colours: the styles of its cells by meaning, and a theme for each kind of screen.

The constants are Rich style strings with the colours of the dark theme. The other themes replace
each of these colours while a line is drawn (`ThemeColors`). No state is shown by colour alone:
words beside it say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from rich.segment import Segment
from rich.style import Style
from textual.filter import LineFilter
from textual.theme import BUILTIN_THEMES, Theme

if TYPE_CHECKING:
    from textual.color import Color

OK: Final = "#7fd1a0"
WARN: Final = "#e8c37a"
BAD: Final = "#ff8078"
HELD: Final = "#79bfff"
DELAYED: Final = "#c4abff"
DEAD: Final = "#ff86b5"
DIM: Final = "#94a1b0"
PART: Final = "#6fa8dc"
INK: Final = "#0b1016"
"""text on a bright background"""

MANY: Final = 1000
"""from this number on, a number is bold"""


def weighted(number: int, style: str) -> str:
    """The style of a number by its magnitude, which also holds without colours."""
    return f"bold {style}".rstrip() if number >= MANY else style if number else DIM


HEAT: Final = (
    "#a9bdd1 on #13212f",
    "#bcd3e8 on #163a59",
    "#e3f0fb on #1d5480",
    "bold #ffffff on #2b6ea3",
    "bold #0b1016 on #8fd0ff",
)
"""Few to many, dark to bright; each a text colour on its own background."""

DARK: Final = Theme(
    name="dark",
    dark=True,
    primary="#4d9de0",
    secondary="#7d8fa3",
    accent=DELAYED,
    success=OK,
    warning=WARN,
    error="#e5534b",
    foreground="#dde4ec",
    background="#0e1217",
    surface="#141a21",
    panel="#1c242d",
    variables={
        "primary-muted": "#1a3753",
        "footer-key-foreground": HELD,
        "footer-description-foreground": DIM,
        "scrollbar": "#3a4958",
        "scrollbar-hover": "#4d6175",
        "scrollbar-active": "#6d86a0",
        "scrollbar-background": "#0e1217",
        "scrollbar-background-hover": "#0e1217",
        "scrollbar-background-active": "#0e1217",
        "border": "#3a4958",
        "border-blurred": "#28333e",
    },
)
LIGHT: Final = Theme(
    name="light",
    dark=False,
    primary="#0b5cad",
    secondary="#4c5a68",
    accent="#6b3fc0",
    success="#1a6b33",
    warning="#7a4f00",
    error="#b3261e",
    foreground="#17202a",
    background="#fbfcfd",
    surface="#f1f4f7",
    panel="#e4eaf0",
    variables={
        "primary-muted": "#cfe3f7",
        "footer-key-foreground": "#0b5cad",
        "footer-description-foreground": "#4c5a68",
        "scrollbar": "#a9b8c6",
        "scrollbar-hover": "#8699ab",
        "scrollbar-active": "#667b8f",
        "scrollbar-background": "#fbfcfd",
        "scrollbar-background-hover": "#fbfcfd",
        "scrollbar-background-active": "#fbfcfd",
        "border": "#8a9bab",
        "border-blurred": "#b9c5d0",
    },
)
HIGH_CONTRAST: Final = Theme(
    name="high-contrast",
    dark=True,
    primary="#9fd4ff",
    secondary="#d5dde5",
    accent="#e0d0ff",
    success="#6dff9b",
    warning="#ffd75f",
    error="#ffb0aa",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#101010",
    variables={
        "primary-muted": "#00265c",
        "footer-key-foreground": "#9fd4ff",
        "footer-description-foreground": "#ffffff",
        "scrollbar": "#ffffff",
        "scrollbar-hover": "#ffffff",
        "scrollbar-active": "#ffffff",
        "scrollbar-background": "#000000",
        "scrollbar-background-hover": "#000000",
        "scrollbar-background-active": "#000000",
        "border": "#ffffff",
        "border-blurred": "#ffffff",
    },
)
_TERMINAL: Final = BUILTIN_THEMES["ansi-dark"]
ANSI: Final = Theme(
    name="ansi",
    ansi=True,
    dark=True,
    primary="ansi_blue",
    secondary="ansi_default",
    accent="ansi_magenta",
    success="ansi_green",
    warning="ansi_yellow",
    error="ansi_red",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    variables={
        **_TERMINAL.variables,
        "primary-muted": "ansi_default",
        "footer-key-foreground": "ansi_cyan",
        "footer-description-foreground": "ansi_default",
        "border": "ansi_default",
        "border-blurred": "ansi_default",
    },
)
"""the terminal's own 16 colours, on its own background"""
THEMES: Final = {theme.name: theme for theme in (DARK, LIGHT, ANSI, HIGH_CONTRAST)}


NO_COLOR: Final = "no-color"
"""added to a dark theme where colours become greys: critical would be darker than a warning"""


def _colors(styles: str) -> dict[str, str]:
    """The dark theme's colours -> ``styles``, another theme's colours in the same order."""
    meanings = (OK, WARN, BAD, HELD, DELAYED, DEAD, DIM, PART, INK)
    heat = [word for style in HEAT for word in style.split() if word.startswith("#")]
    # Without heat[8]: the text of the last HEAT style has the colour INK, listed above.
    return dict(zip([*meanings, *heat[:8], heat[9]], styles.split(), strict=True))


COLORS: Final[Mapping[str, Mapping[str, str]]] = {
    "light": _colors(
        "#1a6b33 #7a4f00 #b3261e #0b5cad #6b3fc0 #a0105f #4c5a68 #2b5f94 #ffffff #2b4257 "
        "#eaf1f8 #1d3850 #cfe2f3 #10293d #9fc7ea #ffffff #2b6ea3 #123d63"
    ),
    "high-contrast": _colors(
        "#6dff9b #ffd75f #ffb0aa #9fd4ff #e0d0ff #ffb8da #d5dde5 #9fd4ff #000000 #ffffff "
        "#13212f #ffffff #12304a #ffffff #123f66 #ffffff #15507f #9fd4ff"
    ),
    "ansi": _colors(
        "green yellow red cyan magenta bright_magenta dim cyan black cyan default bright_cyan "
        "default black cyan black green yellow"
    ),
    NO_COLOR: {BAD: "#ffffff"},
}
"""theme -> colour of the dark theme -> its replacement: a colour, or ``dim``"""


class ThemeColors(LineFilter):
    """Replaces the colours of the constants by those of another theme."""

    def __init__(self, theme: str) -> None:
        super().__init__()
        self._styles = {color: Style.parse(other) for color, other in COLORS[theme].items()}
        self._restyled = lru_cache(1024)(self._restyle)

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        restyled = self._restyled
        return [
            Segment(text, style and restyled(style), control) for text, style, control in segments
        ]

    def _restyle(self, style: Style) -> Style:
        text = self._styles.get(style.color.name) if style.color else None
        ground = self._styles.get(style.bgcolor.name) if style.bgcolor else None
        if text is not None:
            color = text.color or Style.parse("default").color
            style += Style(color=color, dim=True if text.dim else None)
        if ground is not None:
            style += Style(bgcolor=ground.color)
        return style
