"""Finds the frameworks that are installed, and how to run the script of each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redisq_ops.core.model.errors import BadInput

SCRIPTS = {
    "arq": "arq_jobs.py",
    "bullmq": "bullmq_jobs.cjs",
    "celery": "celery_jobs.py",
    "dramatiq": "dramatiq_jobs.py",
    "rq": "rq_jobs.py",
}
INSTALL = {
    # arq needs an older redis-py than redisq.
    "arq": "python3 -m venv DIR && DIR/bin/pip install arq, then --with arq=DIR",
    "bullmq": "npm install --prefix DIR bullmq ioredis, then --with bullmq=DIR",
    "celery": "pip install 'celery[redis]'",
    "dramatiq": "pip install 'dramatiq[redis]'",
    "rq": "pip install rq",
}


@dataclass(frozen=True, slots=True)
class Framework:
    """An installed framework."""

    name: str
    command: Sequence[str]
    """the command of its script, without the arguments: the server's port, `produce` or `work`"""
    environment: dict[str, str]
    folder: Path
    """the directory in which the command runs"""


def installed(names: str) -> list[Framework]:
    """The frameworks of ``NAME[=DIR],…``; raises `BadInput` for unknown and missing ones.

    ``DIR``: a virtual environment, a folder of Python packages, or one with `node_modules`.
    """
    chosen = dict(each.strip().partition("=")[::2] for each in names.split(","))
    if unknown := [name for name in chosen if name not in SCRIPTS]:
        raise BadInput(f"--with {unknown[0]!r}: choose from {', '.join(SCRIPTS)}")
    found = {name: _find(name, folder) for name, folder in chosen.items()}
    if missing := [f"{name} ({INSTALL[name]})" for name, one in found.items() if one is None]:
        raise BadInput(f"not installed: {'; '.join(missing)}")
    return [one for one in found.values() if one]


def _find(name: str, named_folder: str) -> Framework | None:
    folder = Path(named_folder or ".").expanduser().absolute()
    environment, script = dict(os.environ), str(Path(__file__).with_name(SCRIPTS[name]))
    if name == "bullmq":
        command, probe = ["node", script], ["node", "-e", "require.resolve('bullmq')"]
    else:
        python = folder / "bin" / "python"
        environment["PYTHONSAFEPATH"] = "1"  # don't import modules of the current folder
        if named_folder and not python.exists():
            environment["PYTHONPATH"] = str(folder)
        interpreter = str(python) if named_folder and python.exists() else sys.executable
        search = f"import importlib.util as u, sys; sys.exit(not u.find_spec('{name}'))"
        command, probe = [interpreter, script], [interpreter, "-c", search]
    try:
        answer = subprocess.run(probe, cwd=folder, env=environment, capture_output=True)
    except OSError:  # no such folder, or no Node
        return None
    return None if answer.returncode else Framework(name, command, environment, folder)
