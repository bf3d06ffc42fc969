"""Messages of usage errors, with a suggestion of the words to write instead."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final

_SYNONYMS: Final = {
    "retry": ("replay", "requeue"),
    "requeue": ("replay",),
    "replay": ("requeue",),
    "list": ("ls",),
    "ls": ("ls",),
    "stats": ("ls",),
    "status": ("ls",),
    "info": ("inspect",),
    "show": ("inspect",),
    "delete": ("rm", "purge"),
    "remove": ("rm", "purge"),
    "destroy": ("rm", "purge"),
    "forget": ("rm",),
    "clear": ("purge",),
    "flush": ("purge",),
    "worker": ("work",),
    "enqueue": ("submit",),
    "push": ("submit",),
    "stop": ("pause",),
    "start": ("resume",),
    "unpause": ("resume",),
    "monitor": ("top",),
    "dashboard": ("top",),
}
"""name of a command in other tools -> its names here, the likeliest first"""
_VERB_GROUPS: Final = (
    *("queue", "request", "periodic", "client", "waiting", "pending", "delay", "dlq"),
    *("done", "trash", "workers"),
)
"""the groups to look through for a verb that was written without its group: `redisq pause`"""


def usage_message(error: Any, root: Any, words: Sequence[str]) -> str:
    """The message of a usage error of Click, in one line.

    ``root``: all commands; ``words``: those of the command line, the command first.
    """
    message = error.format_message().rstrip(".")
    path, command = _called(root, words)
    if error.ctx is not None:
        path, command = error.ctx.command_path, error.ctx.command
    if more := _suggestion(error, message, path, command, root):
        # Click guesses by spelling: for `pause` it suggests `purge`.
        message = f"{message.partition('. Did you mean')[0]}: {more}"
    return f"{message} (see {path} --help)"


def _called(root: Any, words: Sequence[str]) -> tuple[str, Any]:
    """The path and command of these words: Click has none if an option lacks its value."""
    path, command = "redisq", root
    for word in words:
        if word not in getattr(command, "commands", ()):
            break
        command = command.get_command(None, word)
        path = f"{path} {word}"
    return path, command


def _visible(group: Any) -> set[str]:
    """The commands that the help of a group lists."""
    return {name for name, command in group.commands.items() if not command.hidden}


def _suggestion(error: Any, message: str, path: str, command: Any, root: Any) -> str:
    """A suggestion of what to write; '' without one."""
    if "requires an argument" in message:
        for param in command.params:
            if error.option_name in param.opts:
                return f"{error.option_name} {param.metavar} ({param.help.rstrip('.')})"
    found = re.match("No such command '(.*?)'", message)
    if found:
        names = _SYNONYMS.get(found[1], ())
        for group, of in ((command, path), (root, "redisq")):
            for name in names:
                if name in _visible(group):
                    return f"write {of} {name}"
        verbs = {group: _visible(root.get_command(None, group)) for group in _VERB_GROUPS}
        known = _visible(command).union(*verbs.values())
        # `stop` is a verb of workers, and of other tools' queues.
        for alike in ((*names[:1], found[1]), names[1:], get_close_matches(found[1], known, 1)):
            if not _visible(command).isdisjoint(alike):
                break
            if ways := [
                f"{group} {name}" for name in alike for group, of in verbs.items() if name in of
            ]:
                return "write " + " or ".join(f"redisq {way}" for way in ways)
        if command is not root and "ls" in _visible(command) and "Did you mean" not in message:
            return f"write {path} ls {shlex.quote(found[1])}"
    if "unexpected extra argument" in message and command.name == "ls" and path == "redisq ls":
        return "redisq inspect NAME shows one queue"
    return ""
