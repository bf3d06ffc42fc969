"""Adds the help of every command to the page about the command line, from the program itself."""

import re
from collections.abc import Iterator
from typing import Any

import typer.main

from redisq_ops.cli.app import app

MARK = "<!-- commands: added by the site -->"


def on_page_markdown(markdown: str, **given: Any) -> str:
    """Called by mkdocs for each page."""
    if MARK not in markdown:
        return markdown
    return markdown.replace(MARK, "\n".join(["## All commands", "", *sections(_command(), "")]))


def _command() -> Any:
    return typer.main.get_command(app)


def sections(command: Any, path: str) -> Iterator[str]:
    """A heading, the usage, what it does, its options and examples, of each command."""
    if hasattr(command, "list_commands"):
        within = command.context_class(command)
        for name in sorted(command.list_commands(within)):
            yield from sections(command.get_command(within, name), f"{path} {name}".strip())
        return
    if command.hidden:
        return
    words = [each.metavar or each.name.upper() for each in command.params if _argument(each)]
    yield from (f"### redisq {path}", "", "```text", " ".join(["redisq", path, *words]), "```", "")
    yield from (_escaped(" ".join((command.help or "").split())), "")
    options = [each for each in command.params if not _argument(each) and not each.hidden]
    if options:
        yield from ("| option | |", "|---|---|")
        yield from (f"| `{_written(each)}` | {_escaped(each.help or '')} |" for each in options)
        yield ""
    if lines := re.findall(r"^  +(redisq.*)$", command.epilog or "", re.M):
        yield from ("```sh", *lines, "```", "")


def _argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _written(param: Any) -> str:
    names = ", ".join((*param.opts, *param.secondary_opts))
    return names if param.is_flag else f"{names} {param.metavar or param.type.name.upper()}"


def _escaped(text: str) -> str:
    return re.sub(r"([|<*\[\]])", r"\\\1", text)
