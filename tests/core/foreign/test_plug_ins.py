"""A kind of queue in a package of its own, installed by pip beside redisq."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

HERE = Path(__file__).parent
SHOP = HERE / "shop"
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def installed(project: Path, at: Path) -> Path:
    """Build a project's wheel, and install it into a folder."""
    subprocess.run([*PIP, "wheel", "--no-deps", "-w", str(at), str(project)], check=True)
    (wheel,) = at.glob("*.whl")
    site = at / "site"
    subprocess.run([*PIP, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    return site


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    project = folder / "project"
    shutil.copytree(SHOP, project)
    return installed(project, folder)


@pytest.fixture
def ran(url: str, tmp_path: Path) -> Run:
    def run(site: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False,
            env=os.environ | {"PYTHONPATH": str(site), "REDIS_URL": url},
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


@pytest.mark.slow
@pytest.mark.alike
def test_it_conforms_and_is_changed_as_any_other(
    client: redis.Redis, url: str, shop: Path, ran: Run
) -> None:
    assert ran(shop, str(SHOP / "specimen.py"), url).stdout == ""

    def redisq(*words: str) -> list[dict[str, Any]]:
        found = ran(shop, "-m", "redisq_ops", "--json", *words)
        return [json.loads(line) for line in found.stdout.splitlines()]

    found, *_ = redisq("discover", "--register", "--yes")
    assert (found["name"], found["kind"], found["dead"]) == ("shop:mugs", "shop", 5)
    (row,) = redisq("ls")
    assert (row["waiting"], row["dead"]) == (5, 5)
    before = client.dump("shop:broken:mugs")
    done = redisq("dlq", "replay", "shop:mugs", "--yes")[-1]
    assert done["done"] == 5 and client.llen("shop:orders:mugs") == 10
    back = redisq("undo", done["op"], "--yes")[-1]
    assert back["done"] == 5 and client.dump("shop:broken:mugs") == before
    assert "mugs" in ran(shop, "-m", "redisq_ops", "top", "--once").stdout
    assert [each["name"] for each in redisq("discover")] == ["shop:mugs"], "our keys are no queues"
    (group,) = redisq("dlq", "groups", "shop:mugs")
    assert group["entries"] == 5


BROKEN: dict[str, tuple[str, str, str]] = {
    "raises": ("queue.py", "import json\n", "import json\n1 / 0\n"),
    "another interface": ("queue.py", "ClassVar[int] = 1", "ClassVar[int] = 2"),
    "another kind": ("queue.py", 'ClassVar[str] = "shop"', 'ClassVar[str] = "store"'),
    "no class": ("queue.py", "class ShopQueue", "ShopQueue = 7\nclass Other"),
    "recogniser raises": ("recogniser.py", "for part in PARTS:", "for part in NO_SUCH_NAME:"),
}  # fmt: skip
SAID = {
    "raises": "ZeroDivisionError: division by zero", "another interface": "interface 2",
    "another kind": "its class is of kind store", "no class": "is no class of queues",
    "recogniser raises": "NameError",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.alike
@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_one_is_named_and_breaks_nothing_else(
    client: redis.Redis, url: str, shop: Path, ran: Run, tmp_path: Path, fault: str
) -> None:
    site = tmp_path / "site"
    shutil.copytree(shop, site)
    file, good, bad = BROKEN[fault]
    text = (site / "shop_redisq" / file).read_text()
    assert good in text
    (site / "shop_redisq" / file).write_text(text.replace(good, bad))
    client.lpush("queue:low", '{"class":"A","args":[],"jid":"1"}')
    client.sadd("queues", "low")
    client.rpush("shop:orders:mugs", '{"order": "w"}')
    done = ran(site, "-m", "redisq_ops", "discover", "--register", "--yes")
    assert "sidekiq:low" in done.stdout
    (line,) = [line for line in done.stderr.splitlines() if "kind shop of package" in line]
    assert line.startswith("not looked for: kind shop of package shop-redisq 1.0 can't be used: ")
    assert SAID[fault] in line
    if fault != "recogniser raises":
        asked = ran(site, "-m", "redisq_ops", "waiting", "ls", "shop:mugs", code=1)
        assert SAID[fault] in asked.stderr and asked.stderr.count("\n") == 1
    assert "sidekiq:low" in ran(site, "-m", "redisq_ops", "ls").stdout
