"""Every key of the dashboard: only keys with Shift change something on the server."""

from __future__ import annotations

from textual.binding import Binding

from redisq_ops.ops.terminal import printable
from redisq_ops.tui.views import numbered

_WRITTEN = (
    "slash / colon : comma , full_stop . exclamation_mark ! question_mark ? asterisk * plus + "
    "minus - equals_sign = right → left ← left_square_bracket [ right_square_bracket ] "
    "apostrophe ' less_than_sign < greater_than_sign > alt+left Alt+← alt+right Alt+→ "
    "ctrl+p Ctrl+P escape Esc enter Enter space Space tab Tab shift+tab Shift+Tab down ↓ up ↑ "
    "pagedown PgDn pageup PgUp home Home end End ctrl+c Ctrl+C ctrl+z Ctrl+Z"
)
"""each key, and its sign"""
_PAIRS = _WRITTEN.split()
_SIGNS = dict(zip(_PAIRS[::2], _PAIRS[1::2], strict=True))
_NAMES = {sign: name for name, sign in _SIGNS.items()}


def sign(key: str, character: str | None = None) -> str:
    """The sign on a key, to show to the user; ``character``: the character it types, if any."""
    if key in _SIGNS:
        return _SIGNS[key]
    return character if character and printable(character) == character else key


def _hidden(key: str, action: str, words: str, tooltip: str = "", first: bool = False) -> Binding:
    """A key that is in the help but not in the footer; ``first``: before any widget's own keys."""
    name = _name(action)
    return Binding(key, action, words, show=False, tooltip=tooltip, priority=first, id=name)


def _shown(key: str, action: str, words: str, tooltip: str, first: bool = False) -> Binding:
    return Binding(key, action, words, tooltip=tooltip, priority=first, id=_name(action))


def _name(action: str) -> str:
    """The name of a binding in the configuration file: ``view-dead``, ``replay``, ``explain``."""
    name, _, parameter = action.rstrip(")").partition("(")
    parameter = parameter.strip("'").replace(" ", "-")
    if name == "queue":
        return "next-queue" if parameter == "1" else "previous-queue"
    parts = {"move": [parameter], "begin": ["begin", parameter]}.get(name, [name, parameter])
    return "-".join(filter(None, parts)).replace("_", "-")


def key_name(sign: str) -> str:
    """Textual's name of a key, from that name or from the sign on the key."""
    return _NAMES.get(sign, sign)


LOOK = (
    *(
        _hidden(_NAMES.get(key, key), f"view('{view.name_}')", view.about)
        for key, view in numbered()
    ),
    _hidden("tab,right_square_bracket", "queue(1)", "Next queue", first=True),
    _hidden("shift+tab,left_square_bracket", "queue(-1)", "Previous queue", first=True),
    # First: else letters typed right after it would reach the table and act as commands.
    _shown("slash", "filter", "Filter", "Show only what matches", first=True),
    _hidden("colon", "command", "Command", "A redisq command; % = row", first=True),
    _hidden("exclamation_mark", "only_trouble", "Trouble", "Only queues in trouble"),
    _hidden("s", "sort", "Sort", "Sort by the next column"),
    _hidden("r", "turn", "Reverse", "Reverse the order"),
    _hidden("p", "preview", "Preview", "Preview beside the list"),
    _shown("t", "explain", "Explain", "Why it waits, what helps"),
    _shown("f", "scan", "Search all", "Group or search all of it"),
    _hidden("plus,equals_sign", "zoom(1)", "Zoom in", "Charts: a shorter time"),
    _hidden("minus", "zoom(-1)", "Zoom out", "Charts: a longer time"),
    _hidden("a", "all_queues", "All queues", "Charts of all queues"),
    _hidden("i", "server", "Server", "The server: memory, load"),
    _hidden("w", "export", "Export", "Write the list to a file"),
    _hidden("o", "page", "Pager", "Show all of it in $PAGER"),
    _hidden("z", "freeze", "Freeze", "Freeze, or go on"),
    _hidden("apostrophe", "saved_filter", "Saved filters", "Use a saved filter"),
    _hidden("less_than_sign,alt+left", "go_back", "Back", "Back to the place before"),
    _hidden("greater_than_sign,alt+right", "go_forward", "Forward", "Forward again"),
    _hidden("ctrl+p", "command_palette", "Palette", "Find key, queue, command"),
    _hidden("asterisk", "marked", "Marked", "What is marked, anywhere"),
    _hidden("y", "yank", "Copy", "Copy the id"),
    _hidden("escape", "leave", "Back", "Stop, drop filter, back"),
)
CHANGE = (
    _shown("A", "everything", "All", "Next key: all that match"),
    _shown("R", "move('requeue')", "Requeue", "Requeue → waiting"),
    _shown(
        "C",
        "move('claim')",
        "Claim",
        "Claim → other consumer",
    ),
    _shown("P", "move('replay')", "Replay", "Replay: dead → waiting"),
    _shown("X", "move('purge')", "Purge", "Purge → trash"),
    _shown("E", "edit", "Edit", "Edit payload in $EDITOR"),
    _shown("H", "hold", "Hold", "Hold or resume"),
    _hidden("M", "begin('move')", "Move", "Move to another queue"),
    _hidden("T", "begin('delay reschedule')", "Reschedule", "Change the ready time"),
    _shown("B", "begin('trash restore')", "Restore", "Restore from the trash"),
    _shown("K", "begin('request cancel')", "Cancel", "Cancel a request"),
    _shown("L", "begin('request limit')", "Limit", "Set a request's limit"),
    _shown("O", "begin('request priority')", "Priority", "Set a request's priority"),
    _hidden("N", "acknowledge", "Known", "Dead letters known: until"),
    _shown("U", "undo", "Undo", "Undo a latest change"),
)
LEAVE = (
    _shown("question_mark", "help", "Help", "These keys"),
    _shown("q,ctrl+c", "quit", "Quit", "Leave the dashboard"),
    _hidden("ctrl+z", "suspend_process", "Suspend", "Suspend; `fg` comes back", True),
)
ALL = (*LOOK, *CHANGE, *LEAVE)
TABLE = (
    *("j", "k", "g", "G", "down", "up", "pagedown", "pageup", "home", "end", "space", "enter"),
    *("left", "right"),
)
"""keys of every table; the configuration file can't use them for another action"""
