"""The documentation is run: examples, commands, tables."""

import ast
import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from redisq_ops.cli.app import app
from redisq_ops.core import settings

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S)


@pytest.mark.parametrize("nth", range(len(blocks(ROOT / "README.md", "python"))))
def test_readme_examples_run(nth: int, url: str) -> None:
    code = blocks(ROOT / "README.md", "python")[nth]
    if "connect" not in code:
        compile(code, "README.md", "exec")
        return
    code = code.replace("redis://127.0.0.1:6379", url)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    expected = {"RequestQueue": "done\n[b'ANN', b'BOB', b'EVE']\n", "DelaySet": "call-ann"}
    wanted = next(text for name, text in expected.items() if name in code)
    assert wanted in done.stdout


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in block.splitlines():
                line = line.split("#")[0].strip()
                if line.startswith("redisq "):
                    yield page.name, line


@pytest.mark.parametrize(("page", "line"), sorted(set(commands())))
def test_documented_commands_exist(page: str, line: str) -> None:
    command: Any = typer.main.get_command(app)
    words = shlex.split(line)[1:]
    while words and hasattr(command, "get_command"):
        within = command.context_class(command)
        command = command.get_command(within, words.pop(0))
        assert command is not None, f"{page}: no such command: {line}"
    assert not hasattr(command, "get_command"), f"{page}: not a whole command: {line}"
    known = {option for param in command.params for option in param.opts}
    known |= {option for param in typer.main.get_command(app).params for option in param.opts}
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in known, f"{page}: {line}: {word}"


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
    tree = ast.parse((ROOT / "redisq_ops/core/settings.py").read_text())
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
