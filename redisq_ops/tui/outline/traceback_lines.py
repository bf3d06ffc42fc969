"""Tracebacks of Python in colours, of other programs without."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from rich.text import Text

from redisq_ops.ops.terminal import count, printable
from redisq_ops.tui.outline.outline import Line, Parts
from redisq_ops.tui.theme import BAD, DELAYED, DIM, HELD, OK

LINES: Final = 200
"""last lines of a traceback to keep: the cause of the error is at the end"""
LAST: Final = 8
"""last lines in sight; the others are folded"""
_LONGEST: Final = 400
"""characters of a line"""


@lru_cache(2)  # every refresh reads the same again
def traceback_lines(traceback: str) -> list[Line]:
    """The last `LINES` lines, escaped; those before the last `LAST` folded."""
    lines = traceback.rstrip().split("\n")
    escaped = [printable(line[:_LONGEST]) or " " for line in lines[-LINES:]]
    coloured = list(map(Line, _coloured(escaped)))
    if len(lines) <= LAST + 1:
        return coloured
    left = len(lines) - len(escaped)
    cut = [Line(Text(f"… {count(left)} lines before", DIM))] if left else []
    before = Parts.of([*cut, *coloured[:-LAST]])
    title = Text(f"traceback, {count(len(lines) - LAST)} lines before", DIM)
    return [Line(title, parts=before), *coloured[-LAST:]]


def _coloured(lines: list[str]) -> list[Text]:
    if not any(line.lstrip().startswith(("File ", "Traceback (")) for line in lines):
        return [Text(line, DIM) for line in lines]
    # Loaded with the first traceback: no other part of the dashboard needs Pygments.
    from pygments.token import Comment, Generic, Keyword, Name, Number, String
    from rich.style import Style
    from rich.syntax import ANSISyntaxTheme, Syntax

    theme = ANSISyntaxTheme(
        {
            kind: Style.parse(style)
            for kind, style in (
                (Generic.Error, BAD),
                (Generic.Traceback, DIM),
                (Name.Builtin, HELD),
                (Name.Exception, BAD),
                (Name.Class, BAD),
                (Name.Function, DELAYED),
                (Keyword, DELAYED),
                (Number, HELD),
                (String, OK),
                (Comment, DIM),
            )
        }
    )
    code = "\n".join(lines)
    text = Syntax(code, "pytb", theme=theme).highlight(code)
    text.style = ""  # else it has the background of Pygments' style
    return list(text.split("\n", allow_blank=True))[: len(lines)]
