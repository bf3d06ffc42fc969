"""A peer's packages, in an environment of its own outside the repository.

Created once under ``$XDG_CACHE_HOME/redisq-ops/peers`` (``~/.cache`` by default) and reused while
the pins are the same. Each Python peer has a virtual environment, because their pins of redis-py
conflict; Node peers have a folder with ``node_modules``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

INSTALL_TIMEOUT_S = 300

Language = Literal["python", "node"]

_VERSIONS = """
import importlib.metadata, sys
for name in sys.argv[1:]:
    print(name, importlib.metadata.version(name))
"""


class NotInstalled(Exception):
    """The peer can't be installed here; the message is one line with the reason."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The command that starts the peer's scripts, and the installed versions."""

    command: tuple[str, ...]
    variables: dict[str, str]
    versions: str
    """``huey 3.5.4, redis 8.1.0``: versions of the pinned packages"""


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "redisq-ops" / "peers"


def environment(name: str, language: Language, pins: Sequence[str]) -> Environment:
    """The environment of ``name``, created if necessary. Raises `NotInstalled`."""
    return (_python if language == "python" else _node)(cache_folder() / name, pins)


def _python(directory: Path, pins: Sequence[str]) -> Environment:
    python = str(directory / "bin" / "python")
    if _outdated(directory, pins):
        _run([sys.executable, "-m", "venv", str(directory)])
        _run([python, "-m", "pip", "install", "--quiet", *pins])
        _stamp(directory, pins)
    names = [pin.split("==")[0].split("[")[0] for pin in pins]
    versions = _run([python, "-c", _VERSIONS, *names]).splitlines()
    return Environment((python,), {}, ", ".join(versions))


def _node(directory: Path, pins: Sequence[str]) -> Environment:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NotInstalled("no node and npm on this machine")
    if _outdated(directory, pins):
        directory.mkdir(parents=True)
        quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error")
        _run([npm, "install", "--prefix", str(directory), *quiet, *pins])
        _stamp(directory, pins)
    modules = directory / "node_modules"
    versions = [f"node {_run([node, '--version']).strip().removeprefix('v')}"]
    for package in (pin.rpartition("@")[0] for pin in pins):
        manifest = json.loads((modules / package / "package.json").read_text())
        versions.append(f"{package} {manifest['version']}")
    return Environment((node,), {"NODE_PATH": str(modules)}, ", ".join(versions))


def _outdated(directory: Path, pins: Sequence[str]) -> bool:
    """Whether it must be created; removes an incomplete or different one."""
    stamp = directory / "pins"
    if stamp.is_file() and stamp.read_text().split() == [sys.version.split()[0], *pins]:
        return False
    shutil.rmtree(directory, ignore_errors=True)
    return True


def _stamp(directory: Path, pins: Sequence[str]) -> None:
    (directory / "pins").write_text("\n".join([sys.version.split()[0], *pins]))


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{Path(command[0]).name}: {error.__class__.__name__}") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise NotInstalled(f"{Path(command[0]).name}: {lines[-1][:200]}")
    return done.stdout
