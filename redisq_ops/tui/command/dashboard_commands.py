"""The dashboard's own commands behind `:`: they move, choose and show, and change nothing stored.

    dlq mail /timeout      the dead letters of mail, filtered
    go newsletter-7/99     a queue, request or entry, by its address or id
    ctx prod               the server of another context

Every other line is a command of `redisq`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from redisq_ops.ops.inspect.snapshot import View

from ..host import Completion, Host, KnownNames
from ..theme import THEMES
from ..views import ALL
from .command_line import NOT_HERE

OWN: Final[Mapping[str, str]] = {
    "go": "Open a queue, request or entry: ADDRESS or id",
    "ctx": "Show the server of another context: NAME; -: the first one; alone: choose from a list",
    "theme": "Draw in other colours: " + ", ".join(THEMES),
    "refresh": "Look at the server every SPAN: 5s, 1m; seconds without a unit",
    "by": "Group all dead letters by one more field: release, payload.tenant, client; -: by none",
    "back": "Go back to the place before",
    "forward": "Go forward again",
}
"""name -> help"""
_ALIASES: Final[Mapping[str, View]] = {"dlq": "dead", "delay": "delayed", "workers": "processes"}
VIEW_NAMES: Final[Mapping[str, View]] = {
    **{view.title: view.name_ for view in ALL if " " not in view.title},
    **{view.name_: view.name_ for view in ALL},
    **_ALIASES,
}
_LINE = re.compile(r"(\S+)(?:\s+([^\s/]\S*))?(?:\s+/(.*))?", re.S)


@dataclass(frozen=True, slots=True)
class ViewCommand:
    """Opens a view, optionally of another queue and with a filter."""

    view: View
    queue: str | None = None
    filter: str | None = None


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """One of `OWN`, with its argument, which may be empty."""

    name: str
    argument: str


def own_command(line: str, queues: Collection[str]) -> ViewCommand | OwnCommand | None:
    """Parse a line as one of the dashboard's commands; None: it is one of `redisq`.

    Only the name of an existing queue or a filter may follow a view's name: `pending ls` and
    `dlq groups mail` are commands of `redisq`.
    """
    match = _LINE.fullmatch(line.strip())
    if match is None:
        return None
    name, argument, filter = match.groups()
    if name in OWN:
        return OwnCommand(name, argument or "")
    if name in VIEW_NAMES and (argument is None or argument in queues):
        return ViewCommand(VIEW_NAMES[name], argument, filter)
    return None


def refresh_seconds(text: str) -> float:
    """The time between two looks, of ``0.5``, ``5s`` or ``1m``; `BadInput` below 0.1 s."""
    from redisq_ops.core.model.errors import BadInput
    from redisq_ops.ops.filter.time import duration_ms

    try:
        seconds = float(text)
    except ValueError:
        seconds = duration_ms(text) / 1000
    if not 0.1 <= seconds <= 3600:
        raise BadInput(f"{text!r}: from 0.1 seconds to 1 hour")
    return seconds


def completions(line: str, host: Host, known: KnownNames) -> list[Completion]:
    """Completions of the last word of a line, the dashboard's own commands first."""
    if " /" in line:
        return []  # a filter
    head, _, incomplete = line.rpartition(" ")
    words = head.split()
    if words[:1] == ["redisq"]:
        del words[0]
    own: list[Completion] = []
    if not words:
        own = [Completion(name, help) for name, help in OWN.items()]
        own += [Completion(view.name_, view.about) for view in ALL]
    elif words == ["go"]:
        own = [Completion(name) for name in (*known.queues, *known.addresses)]
    elif len(words) == 1 and words[0] in VIEW_NAMES:
        own = [Completion(queue) for queue in known.queues]
    elif words == ["ctx"]:
        own = list(host.contexts())
    elif words == ["theme"]:
        own = [Completion(name) for name in THEMES]
    found = {one.text: one for one in own if one.text.startswith(incomplete)}
    if not words or any(one.text == words[0] for one in host.complete([], words[0], known)):
        for one in host.complete(words, incomplete, known):
            if words or one.text not in NOT_HERE:
                found.setdefault(one.text, one)
    return list(found.values())
