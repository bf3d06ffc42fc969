"""The documentation is run: examples, commands, tables."""

import ast
import itertools
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from redisq_ops.cli.app import app
from redisq_ops.cli.main import _GLOBAL as TAKES
from redisq_ops.cli.main import hoisted
from redisq_ops.core.model import settings
from redisq_ops.ops.config import SETTINGS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


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


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for language in ("sh", "console", "bash", "shell"):
            for block in blocks(page, language):
                for line in typed(block):
                    yield page.name, line


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


@pytest.mark.parametrize(("page", "line"), sorted(set(commands())) + _HELPS)
def test_documented_commands_exist(page: str, line: str) -> None:
    command: Any = _APP
    program, *words = shlex.split(line)
    everywhere = {option for param in command.params for option in param.opts}
    words = hoisted(["top", *words] if program == "redisq-top" else words)
    front: list[str] = []
    while words and words[0].startswith("-"):
        front.append(words.pop(0))
        if "=" not in front[-1] and TAKES.get(front[-1]):
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
        "redisq ls", "redisq-top --once",
    ]  # fmt: skip
    assert {"README.md", "command-line.md", "export-import.md"} <= {page for page, _ in commands()}


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


CONSTANTS = {
    "LEASE_MS": "lease of a delivery, ms",
    "RENEW_MS": "a worker renews its leases this often, ms",
    "LIMIT": "sub-requests of a request worked on at once (`--limit`)",
    "PRIORITY": "priority of a request, 0 first (`--priority`)",
    "MAX_LIMIT": "the highest limit",
    "MAX_PAYLOAD": "bytes of a payload (`--max-payload`)",
    "MAX_RESULT": "bytes of a result",
    "MAX_RESULTS": "bytes of all results of a request",
    "BATCH": "entries one call handles",
    "MAX_BATCH": "entries one call may be asked to handle",
    "IDLE_BLOCK_MS": "an idle worker looks again after, ms",
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
            "# Defaults",
            "",
            "Made from the code by `tests/test_docs.py`.",
            "",
            "`redisq retention QUEUE` shows a queue's settings, `… NAME=VALUE` changes them:",
            "",
            "| setting | default | what |",
            "|---|---|---|",
            *rows,
            "",
            "Chosen per call, or fixed:",
            "",
            "| what | value |",
            "|---|---|",
            *fixed,
            "",
        ]
    )


def test_the_defaults_page_is_what_the_code_does() -> None:
    page = ROOT / "docs" / "defaults.md"
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
    page = ROOT / "docs" / "configuration.md"
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
    from redisq_ops.ops.config import contexts, load

    read = 0
    for page in PAGES:
        for block in blocks(page, "toml"):
            if "[tool." in block or "[project" in block:
                continue
            configuration.write_text(block)
            environment = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block), "redis://h")
            environment["XDG_CONFIG_HOME"] = str(configuration.parent.parent)
            for name in [None, *(one.name for one in contexts())]:
                load({}, name, environment).display_values()
                read += 1
    assert read > 3
