"""The documentation is run: examples, commands, tables."""

import ast
import itertools
import os
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from redisq_ops.cli.app import app
from redisq_ops.cli.main import global_options, hoisted
from redisq_ops.core.model import settings
from redisq_ops.ops.config.settings import SETTINGS

from .reader import DOCS, PAGES, ROOT, transcript


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S)


def typed(text: str) -> Iterator[str]:
    """The `redisq …` commands in a block of shell: after a prompt, a pipe or an assignment too."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.strip().removeprefix("$ "), comments=True)
        for _, group in itertools.groupby(words, lambda word: word in ("|", "&&", "||", ";", "&")):
            command = list(group)
            while command and re.fullmatch(r"[A-Z_]+=.*", command[0]):
                command.pop(0)
            if command and command[0] in ("redisq", "redisq-top"):
                yield shlex.join(command)


def commands(page: Path) -> Iterator[str]:
    for language in ("sh", "console", "text"):
        for block in blocks(page, language):
            if language == "text":
                block = "\n".join(re.findall(r"^redisq .*", block, re.M))
            if language == "console":
                block = "\n".join(command for command, _ in transcript(block))
            yield from typed(block)


def helps(command: Any, path: str = "redisq") -> Iterator[tuple[str, str]]:
    """The examples in the help of every command."""
    for line in typed("\n".join(re.findall(r"^  +(redisq.*)$", command.epilog or "", re.M))):
        yield f"{path} --help", line
    if hasattr(command, "list_commands"):
        within = command.context_class(command)
        for name in command.list_commands(within):
            yield from helps(command.get_command(within, name), f"{path} {name}")


_APP: Any = typer.main.get_command(app)
_HELPS = sorted(set(helps(_APP)))


def test_documented_commands_exist() -> None:
    for name, page in PAGES.items():
        for line in commands(page):
            exists(name, line)


def test_the_examples_of_helps_exist() -> None:
    for path, line in _HELPS:
        exists(path, line)


def exists(page: str, line: str) -> None:
    """As typed in a shell, the command is one of ours, with its own options and arguments."""
    command: Any = _APP
    program, *words = shlex.split(line)
    everywhere = {option for param in command.params for option in param.opts}
    words = hoisted(["top", *words] if program == "redisq-top" else words)
    front: list[str] = []
    while words and words[0].startswith("-"):
        front.append(words.pop(0))
        if "=" not in front[-1] and global_options().get(front[-1]):
            words.pop(0)
    if set(front) & {"--help", "-h"} or not words:
        return
    while words and hasattr(command, "get_command"):
        within = command.context_class(command)
        command = command.get_command(within, words.pop(0))
        assert command is not None, f"{page}: no such command: {line}"
    if "--help" in words or "-h" in words:
        return
    assert not hasattr(command, "get_command"), f"{page}: not a whole command: {line}"
    own = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    for word in itertools.takewhile(lambda word: word != "--", words):
        if re.match(r"--?[a-zA-Z]", word):
            name = word.partition("=")[0]
            assert name in own | everywhere, f"{page}: {line}: {word}"
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    needed = sum(param.required for param in arguments)
    assert len(words) >= needed, f"{page}: {line}: lacks {needed - len(words)} words"


def test_the_examples_are_found() -> None:
    """What checks them would say nothing of none."""
    lines = {line for _, line in _HELPS}
    assert "redisq export mail -o mail.ndjson" in lines and len(_HELPS) > 60
    assert list(typed("$ X=1 redisq ls | redisq-top --once && ls  # redisq no")) == [
        "redisq ls",
        "redisq-top --once",
    ]
    for name in ("README.md", "how-to/export-and-import.md"):
        assert list(commands(PAGES[name]))


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as Markdown's table of contents makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    words = (re.sub(r"[^\w\s-]", "", re.sub(r"\]\([^)]*\)", "", each)) for each in titles)
    return {re.sub(r"[-\s]+", "-", each.strip().lower()) for each in words}


def test_links_lead_somewhere() -> None:
    """Pages, pictures and headings; a heading is checked on the page that a link names."""
    for name, page in PAGES.items():
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
        links = re.findall(r"\]\(([^)\s]+)\)", text)
        for target, _, anchor in (link.partition("#") for link in links):
            there = (page.parent / target).resolve() if target else page
            if "://" in target:
                continue
            assert there.exists(), f"{name}: {target}"
            assert not anchor or anchor in anchors(there), f"{name}: {target}#{anchor}"


CONSTANTS = {
    "LEASE_S": "lease of a delivery, seconds",
    "RENEW_MS": "interval at which a worker renews its leases, ms",
    "LIMIT": "sub-requests of a request that may be pending at a time (`--limit`)",
    "PRIORITY": "priority of a request, 0 first (`--priority`)",
    "MAX_LIMIT": "the highest limit",
    "MAX_PAYLOAD": "bytes of a payload (`--max-payload`)",
    "MAX_RESULT": "bytes of a result",
    "MAX_RESULTS": "bytes of all results of a request",
    "BATCH": "entries per call, default",
    "MAX_BATCH": "entries per call, at most",
    "IDLE_BLOCK_MS": "interval at which an idle worker polls, ms",
}


def defaults_page() -> str:
    """The defaults as a page, read from the code that uses them."""
    tree = ast.parse((ROOT / "redisq_ops/core/model/settings.py").read_text())
    table = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Settings")
    rows = []
    for field, text in itertools.pairwise(table.body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            name, said = ast.unparse(field.target), ast.literal_eval(text.value).replace("|", "\\|")
            rows.append(f"| `{name}` | {getattr(settings.DEFAULTS, name)} | {said} |")
    fixed = [f"| {said} | {getattr(settings, name):,} |" for name, said in CONSTANTS.items()]
    return "\n".join(
        [
            "# Queue settings and limits",
            "",
            "This page lists the settings of a queue, their defaults, and fixed limits. It is",
            "generated from the code (`REDISQ_DOCS=redraw pytest tests/docs/test_docs.py`).",
            "",
            "`redisq settings QUEUE` shows the settings of a queue, `redisq settings QUEUE",
            "NAME=VALUE` changes them, and an empty value restores the default. Durations may be",
            "written `90s`, `5m`, `2h`, `3d`.",
            "",
            "| setting | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
            "Chosen per call, or fixed:",
            "",
            "| limit | value |",
            "|---|---|",
            *fixed,
            "",
        ]
    )


def test_the_defaults_page_is_what_the_code_does() -> None:
    page = DOCS / "reference/settings.md"
    if os.environ.get("REDISQ_DOCS") == "redraw":
        page.write_text(defaults_page())
    assert page.read_text() == defaults_page()


def settings_table() -> str:
    """Every setting of the configuration, read from the code that uses it."""
    shown = {"rate": "like `100/s`", "yes or no": "`true` or `false`"}
    rows = []
    for name, known in SETTINGS.items():
        default = "" if known.default is None else f"`{known.default}`"
        kind = shown.get(known.kind, "")
        what = known.what + (f"; {kind}" if kind else "")
        rows.append(f"| `{name}` | `{known.variable}` | {default} | {what} |")
    return "\n".join(["| setting | environment | default | what |", "|---|---|---|---|", *rows])


def test_the_table_of_settings_is_what_the_code_has() -> None:
    page = DOCS / "reference/configuration.md"
    begin, end = "<!-- settings -->\n", "<!-- end -->"
    before, _, rest = page.read_text().partition(begin)
    table, found, after = rest.partition(end)
    assert found
    if os.environ.get("REDISQ_DOCS") == "redraw":
        page.write_text(before + begin + settings_table() + "\n" + end + after)
        return
    assert table == settings_table() + "\n"


def test_every_configuration_in_the_docs_can_be_read(
    configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from redisq_ops.ops.check.rules import read_rules
    from redisq_ops.ops.config.config import load
    from redisq_ops.ops.config.contexts import contexts
    from redisq_ops.ops.notify.settings import read_recipients
    from redisq_ops.tui.settings_file import read_settings

    read = 0
    for page in PAGES.values():
        for block in blocks(page, "toml"):
            if "[tool." in block or "[project" in block:
                continue
            configuration.write_text(block)
            if "[[check]]" in block:
                assert read_rules(configuration).tables
                continue
            environment = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block), "redis://h")
            environment["XDG_CONFIG_HOME"] = str(configuration.parent.parent)
            for name in [None, *(one.name for one in contexts())]:
                config = load({}, name, environment)
                config.display_values()
                read_settings(config.dashboard, "[dashboard]")
                if config.notify is not None:
                    assert read_recipients(config.notify, config.notify_from, environment)
                read += 1
    assert read > 3
