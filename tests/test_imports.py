"""What is imported when, seen from outside: only another process can tell."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

HEAVY = {
    "redis", "rich", "textual", "pyspark", "pyarrow", "pandas", "pydantic", "asyncio", "cronsim",
    "re2",
}  # fmt: skip


def loaded(code: str) -> set[str]:
    """Top-level modules a fresh interpreter has after running ``code``."""
    tail = "; import sys; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code + tail], capture_output=True, check=True, text=True
    )
    return {name.partition(".")[0] for name in done.stderr.split()}


def test_importing_the_package_loads_nothing() -> None:
    assert not loaded("import redisq_ops") & (HEAVY | {"typer", "click"})


@pytest.mark.parametrize(
    "words", [["--help"], ["ls", "--help"], ["replay", "--help"], ["spark", "--help"]]
)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    found = loaded(f"from redisq_ops.cli.main import run; assert run({words}) == 0")
    assert "typer" in found
    assert not found & HEAVY


@pytest.mark.slow
def test_the_core_renders_nothing() -> None:
    found = loaded("import redisq_ops.core.queues.request, redisq_ops.core.queues.delay")
    assert "redis" in found
    assert not found & {"rich", "textual", "typer", "click", "pyspark"}


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    from redisq_ops.cli.main import run

    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    listed = shown.split("Commands:")[1].splitlines()
    names = {line.split()[0] for line in listed if line[2:3].strip()}
    assert names >= {
        "submit", "work", "wait", "results", "ls", "inspect", "log", "history", "config", "fsck",
        "pending", "dlq", "delay", "trash", "replay", "requeue", "claim", "purge", "undo",
        "retention", "request", "queue", "top",
    }  # fmt: skip


def test_every_command_has_a_function_that_performs_it() -> None:
    """Commands name it in words, so that help needn't load it."""
    from redisq_ops.cli.commands import COMMANDS, load

    for name in COMMANDS:
        assert load(name).name == name
    named = set()
    for path in (Path(__file__).parents[1] / "redisq_ops/cli/commands").glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "add":
                named.add(ast.literal_eval(call.args[3]))
    assert len(named) > 40
    for act in named:
        module, _, function = act.partition(".")
        assert callable(getattr(import_module(f"redisq_ops.cli.actions.{module}"), function)), act
