"""What is imported when, seen from outside: only another process can tell."""

import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, is_dataclass
from typing import Any

import pytest

from redisq_ops.cli.session import Session

HEAVY = {
    "redis",
    "rich.console",
    "textual",
    "pyspark",
    "pyarrow",
    "pandas",
    "pydantic",
    "asyncio",
    "cronsim",
    "re2",
    "jinja2",
}


def loaded(code: str) -> set[str]:
    """Modules a fresh interpreter has after running ``code``."""
    tail = "; import sys; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code + tail], capture_output=True, check=True, text=True
    )
    return set(done.stderr.split())


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


def test_the_list_of_commands_has_the_beginning_of_each_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from redisq_ops.cli.commands import COMMANDS, load
    from redisq_ops.cli.main import run

    assert run(["--help"]) == 0
    shown = capsys.readouterr().out.splitlines()
    widest = max(map(len, COMMANDS))
    for name, (_, line) in COMMANDS.items():
        assert f"  {name:<{widest + 2}}{line}" in shown
        assert " ".join(load(name).help.split()).startswith(line.rstrip("."))


def commands(found: Any) -> Iterator[Any]:
    """A command, or those of a group and its groups."""
    if not hasattr(found, "list_commands"):
        yield found
        return
    context = found.context_class(found)
    for name in found.list_commands(context):
        yield from commands(found.get_command(context, name))


def test_every_command_is_a_function_whose_typed_parameters_are_its_options() -> None:
    from redisq_ops.cli.main import root_command

    acts = set()
    for command in commands(root_command()):
        act = command.callback.act
        acts.add(act)
        assert inspect.isfunction(act) and act.__doc__, command.name
        declared = dict(parameters(act))
        assert Any not in declared.values(), act
        typed = {param.name for param in command.params} - {"help", "every"}
        assert typed <= declared.keys(), (act, typed - declared.keys())
    assert len(acts) > 70


def parameters(of: Any) -> Iterator[tuple[str, Any]]:
    """Names and types of the options of a command or group, also of those in its groups."""
    for name, kind in inspect.get_annotations(of, eval_str=True).items():
        if is_dataclass(kind) and kind is not Session:
            yield from parameters(kind)
        else:
            yield name, kind


def test_options_cannot_be_changed() -> None:
    from redisq_ops.cli.options import Go

    go: Any = Go()
    with pytest.raises(FrozenInstanceError):
        go.yes = True


def test_modules_that_declare_commands_load_nothing_heavy() -> None:
    found = loaded("from redisq_ops.cli.commands import COMMANDS, load; list(map(load, COMMANDS))")
    assert "typer" in found
    assert not found & HEAVY
