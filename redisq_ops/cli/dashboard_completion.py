"""Completion of a command that is typed in the dashboard, by the commands' own declarations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import typer

from redisq_ops.tui.host import Completion, KnownNames

from .completion import known_names

_OF_SHELLS = ("format_completion", "get_completion_args", "source_vars")


def completions(words: Sequence[str], incomplete: str, known: KnownNames) -> list[Completion]:
    """Words that begin with ``incomplete`` and can follow ``words`` (the words after `redisq`).

    ``known``: names that can be completed; no server is asked.
    """
    from .main import hoisted, root_command

    root = root_command()
    # Typer bundles click or uses the installed one: take the module of its exception.
    click = typer.BadParameter.__module__.rpartition(".")[0]
    shell: Any = import_module(f"{click}.shell_completion")
    # Click finds completions in the same way for all shells, but the class is abstract.
    finder = type("Finder", (shell.ShellComplete,), dict.fromkeys(_OF_SHELLS))
    with known_names(known):
        found = finder(root, {}, "redisq", "").get_completions(hoisted(words), incomplete)
    return [Completion(item.value, item.help or "") for item in found if item.type == "plain"]


def commands() -> Iterator[Completion]:
    """Every command that does something, with its path and the first line of its help."""
    from .main import root_command

    root = root_command()
    yield from _leaves(root, root.make_context("redisq", [], resilient_parsing=True), ())


def _leaves(command: Any, context: Any, path: tuple[str, ...]) -> Iterator[Completion]:
    if not hasattr(command, "list_commands"):
        yield Completion(" ".join(path), command.get_short_help_str(90))
        return
    for name in command.list_commands(context):
        if not (found := command.get_command(context, name)).hidden:
            yield from _leaves(found, context, (*path, name))
