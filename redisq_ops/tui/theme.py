"""The dashboard's colours: one Textual theme, and the styles its cells use by meaning.

The constants are Rich style strings, readable on the theme's background and on its cursor line.
No state is told by colour alone: the words beside it say the same.
"""

from typing import Final

from textual.theme import Theme

OK: Final = "#7fd1a0"
WARN: Final = "#e8c37a"
BAD: Final = "#ff8078"
HELD: Final = "#79bfff"
DELAYED: Final = "#c4abff"
DEAD: Final = "bold #ff86b5"
DIM: Final = "#94a1b0"
PART: Final = "#6fa8dc"
INK: Final = "#0b1016"
"""text on a bright ground"""

HEAT: Final = (
    "#a9bdd1 on #13212f",
    "#bcd3e8 on #163a59",
    "#e3f0fb on #1d5480",
    "bold #ffffff on #2b6ea3",
    "bold #0b1016 on #8fd0ff",
)
"""Few to many, dark to bright; each a text colour on its own background."""

REDISQ: Final = Theme(
    name="redisq",
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
