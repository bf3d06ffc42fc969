"""Releases of other programs, each with its packages in a folder of its own (`releases.toml`):
installed once, and kept beside pytest's cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from .listening_program import listening

HERE = Path(__file__).parent
_CACHE = HERE.parents[1] / ".pytest_cache"
LISTED: dict[str, dict[str, dict[str, list[str]]]] = tomllib.loads(
    (HERE / "releases.toml").read_text()
)


def releases(program: str) -> list[str]:
    """The releases of a program for which there is a folder, the oldest first."""
    return [release for by in LISTED.values() for release in by.get(program, ())]


@cache
def packages(program: str, release: str) -> Path:
    """The folder of a release's packages. The test is skipped where there is no Node, or no
    registry answers, unless these are required."""
    by = next(by for by, programs in LISTED.items() if program in programs)
    more, python = LISTED[by][program][release], ""
    if by == "npm":
        _need_node()
        words = [f"{program}@{release}", *more]
        install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]
    else:
        python = f"-{sys.version_info.major}.{sys.version_info.minor}"
        words = [f"{program}=={release}", *more]
        install = [sys.executable, "-m", "pip", "install", "--no-deps", "--target"]
    folder = _CACHE / f"{program}-{release}{python}"
    if not folder.exists():
        _CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as fresh:
            command = [*install, f"{fresh}/{program}", *words]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                _without(f"{program} {release} can't be installed", done.stderr)
            with suppress(OSError):  # another process was first
                os.rename(f"{fresh}/{program}", folder)
    return folder / "node_modules" if by == "npm" else folder


def _need_node() -> None:
    if not (shutil.which("npm") and shutil.which("node")):
        if os.environ.get("REDISQ_REQUIRE_NODE"):
            pytest.fail("node and npm are required and not installed")
        pytest.skip("needs node and npm")


def _without(why: str, said: str) -> None:
    if os.environ.get("REDISQ_REQUIRE_OLD_RELEASES"):
        pytest.fail(f"{why}:\n{said}")
    pytest.skip(f"{why} (no registry answers?)")


@dataclass(frozen=True)
class PythonRelease:
    """A release of a program whose module here, ``rq_program`` for example, a process of its own
    runs, with the release's packages and no others."""

    program: str
    release: str

    def __str__(self) -> str:
        return f"{self.program} {self.release}"

    def call(self, function: str, before: Sequence[Any], client: Any, *rest: Any) -> Any:
        """Call a function of the module, with a client of the same server behind the arguments
        ``before``. What it returns is JSON."""
        port = str(client.connection_pool.connection_kwargs["port"])
        environment = os.environ | {"PYTHONPATH": str(packages(self.program, self.release))}
        command = sys.executable, "-S", str(HERE / "listen.py"), f"{self.program}_program", port
        process = listening(*command, environment=tuple(environment.items()))
        answer = process.asked(json.dumps([function, before, rest]))
        try:
            return json.loads(answer)
        except ValueError:
            raise AssertionError(f"{self}: {answer}") from None

    def runs(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the module, to be run by this release."""
        if isinstance(function, partial):
            return partial(self.call, function.func.__name__, function.args)
        return partial(self.call, function.__name__, ())
