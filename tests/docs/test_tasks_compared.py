"""The programs of the page that compares six libraries run, and have as many lines as it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from ..foreign_keys import arq_program
from ..foreign_keys.installed_releases import packages
from .reader import DOCS

pytestmark = pytest.mark.slow

PROGRAMS = DOCS / "examples/tasks"
PAGE = (DOCS / "explanation/tasks-compared.md").read_text()
MODULES = {"redisq": "redisq_ops", "rq": "rq.cli", "huey_consumer": "huey.bin.huey_consumer"}
"""what `python -m` calls a command, where that isn't its name"""


@pytest.mark.parametrize("name", re.findall(r'--8<-- "(\w+)_shop\.py"', PAGE))
def test_a_program_runs_as_printed(name: str, url: str, tmp_path: Path) -> None:
    program = PROGRAMS / f"{name}_shop.py"
    first, *lines = program.read_text().splitlines()
    row = re.search(rf"^\| (?:{name}|{name}-ops) \| (\d+) \|", PAGE, re.M | re.I)
    assert row and int(row[1]) == len(list(filter(None, lines)))
    paths = [str(Path(__file__).parents[2])]
    if name == "arq":
        paths.append(str(packages("arq", arq_program.VERSION)))
    elif find_spec(name) is None and name != "redisq":
        pytest.skip(f"{name} is not installed")
    shutil.copy(program, tmp_path / "shop.py")
    env = os.environ | {"REDIS_URL": url, "PYTHONPATH": os.pathsep.join(paths[::-1])}
    command, *words = re.findall(r"`(.+)`", first)[0].split()
    worker = subprocess.Popen(
        [sys.executable, "-m", MODULES.get(command, command), *words],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    main = [sys.executable, "-c", "import shop; shop.main()"]
    try:
        done = subprocess.run(main, cwd=tmp_path, env=env, capture_output=True, text=True)
    finally:
        worker.terminate()
        worker.wait(90)
    assert done.stdout.split() == ["[100,", "75]", "invoice", "17"], done.stderr
