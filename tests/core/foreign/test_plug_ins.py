"""A kind of queue in a package of its own, as `redisq kind new` writes it, installed by pip."""

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

from ...command_line import Redisq

PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def installed(project: Path, at: Path) -> Path:
    """Build a project's wheel, and install it into a folder."""
    build = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(at)]
    subprocess.run([*build, str(project)], check=True)
    (wheel,) = at.glob("*.whl")
    site = at / "site"
    subprocess.run([*PIP, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    return site


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    redisq = [sys.executable, "-m", "redisq_ops", "kind", "new", "shop"]
    subprocess.run(redisq, cwd=folder, check=True)
    return installed(folder / "shop-redisq", folder)


@pytest.fixture
def ran(url: str, tmp_path: Path, programs: Path) -> Run:
    redisq = str(programs / "redisq")

    def run(
        site: Path, *words: str, code: int = 0, program: str = redisq
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [program, *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": str(site), "REDIS_URL": url},
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


@pytest.mark.slow
@pytest.mark.alike
def test_it_conforms_and_is_changed_as_any_other(
    client: redis.Redis, url: str, shop: Path, ran: Run
) -> None:
    specimen = str(shop.parent / "shop-redisq" / "specimen.py")
    assert ran(shop, specimen, url, program=sys.executable).stdout == ""
    client.rpush("shop:jobs:mugs", *(json.dumps({"id": f"w{n}"}) for n in range(5)))
    client.zadd("shop:failed:mugs", {json.dumps({"id": f"d{n}"}): n + 1 for n in range(5)})

    def redisq(*words: str) -> list[dict[str, Any]]:
        found = ran(shop, "--json", *words)
        return [json.loads(line) for line in found.stdout.splitlines()]

    found, *_ = redisq("discover", "--register", "--yes")
    assert (found["name"], found["kind"], found["dead"]) == ("shop:mugs", "shop", 5)
    (row,) = redisq("ls")
    assert (row["waiting"], row["dead"]) == (5, 5)
    before = client.dump("shop:failed:mugs")
    done = redisq("dlq", "replay", "shop:mugs", "--yes")[-1]
    assert done["done"] == 5 and client.llen("shop:jobs:mugs") == 10
    back = redisq("undo", done["op"], "--yes")[-1]
    assert back["done"] == 5 and client.dump("shop:failed:mugs") == before
    assert "mugs" in ran(shop, "top", "--once").stdout
    assert [each["name"] for each in redisq("discover")] == ["shop:mugs"], "our keys are no queues"
    (group,) = redisq("dlq", "groups", "shop:mugs")
    assert group["entries"] == 5


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.alike
def test_a_package_has_the_name_that_was_given(redisq: Redisq, here: Path) -> None:
    files = [row["file"] for row in redisq.rows("kind", "new", "post2")]
    assert "post2-redisq/post2_redisq/queue.py" in files
    assert not [file for file in files if "shop" in (here / file).read_text().lower()]
    for row in redisq.rows("kind", "new", "workshop"):
        assert "workworkshop" not in (here / row["file"]).read_text().lower()


@pytest.mark.alike
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("rq", "there is a kind rq already"),
        ("request", "there is a kind request already"),
        ("../x", "is no name of a kind"),
        ("Shop", "is no name of a kind"),
    ],
)
def test_a_name_that_is_none_or_taken_writes_nothing(
    redisq: Redisq, here: Path, name: str, why: str
) -> None:
    redisq("kind", "new", name, code=2)
    assert why in redisq.err and not [*here.iterdir()]


@pytest.mark.alike
def test_a_folder_that_exists_is_left_alone(redisq: Redisq, here: Path) -> None:
    (here / "post-redisq").mkdir()
    redisq("kind", "new", "post", code=1)
    assert "post-redisq exists" in redisq.err and not [*(here / "post-redisq").iterdir()]


LANES = "    lanes: "
LOOK = "async def by_name(self, look):"
BROKEN: dict[str, tuple[str, str, str]] = {
    "raises": ("queue.py", "import json\n", "import json\n1 / 0\n"),
    "another interface": ("queue.py", "ClassVar[int] = 1", "ClassVar[int] = 2"),
    "another kind": ("queue.py", 'ClassVar[str] = "shop"', 'ClassVar[str] = "store"'),
    "no class": ("queue.py", "class ShopQueue", "ShopQueue = 7\nclass Other"),
    "recogniser raises": ("recogniser.py", LANES, f"    {LOOK} NO_SUCH_NAME\n{LANES}"),
    "recogniser loops": ("recogniser.py", LANES, f"    {LOOK}\n        while 1: pass\n{LANES}"),
    "recogniser exits": ("recogniser.py", LANES, f"    {LOOK} raise SystemExit(3)\n{LANES}"),
    "finds no queues": ("recogniser.py", LANES, f"    async def finds(self): return [5]\n{LANES}"),
}
SAID = {
    "raises": "ZeroDivisionError: division by zero",
    "another interface": "interface 2",
    "another kind": "its class is of kind store",
    "no class": "is no class of queues",
    "recogniser raises": "NameError",
    "recogniser loops": "for 5 s",
    "recogniser exits": "SystemExit: 3",
    "finds no queues": "finds 5, and no queue of kind shop",
}


def changed(shop: Path, at: Path, file: str, good: str, bad: str) -> Path:
    """An installed package in which other text stands in a file."""
    site = at / "site"
    shutil.copytree(shop, site)
    path = site / "shop_redisq" / file
    text = path.read_text()
    assert good in text
    path.write_text(text.replace(good, bad))
    return site


@pytest.mark.slow
@pytest.mark.alike
@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_one_is_named_and_breaks_nothing_else(
    client: redis.Redis, url: str, shop: Path, ran: Run, tmp_path: Path, fault: str
) -> None:
    site = changed(shop, tmp_path, *BROKEN[fault])
    client.lpush("queue:low", '{"class":"A","args":[],"jid":"1"}')
    client.sadd("queues", "low")
    client.rpush("shop:jobs:mugs", '{"id": "w"}')
    done = ran(site, "discover", "--register", "--yes")
    assert "sidekiq:low" in done.stdout
    (line,) = [line for line in done.stderr.splitlines() if "kind shop of package" in line]
    assert line.startswith("not looked for: kind shop of package shop-redisq 1.0 can't be used: ")
    assert SAID[fault] in line
    if "recogniser" not in fault and fault != "finds no queues":
        asked = ran(site, "waiting", "ls", "shop:mugs", code=1)
        assert SAID[fault] in asked.stderr and asked.stderr.count("\n") == 1
    assert "sidekiq:low" in ran(site, "ls").stdout


@pytest.mark.slow
@pytest.mark.alike
def test_what_a_recogniser_prints_is_no_output(
    client: redis.Redis, shop: Path, ran: Run, tmp_path: Path
) -> None:
    talks = f"    {LOOK}\n        print(look)\n        return await super().by_name(look)\n"
    site = changed(shop, tmp_path, "recogniser.py", LANES, talks + LANES)
    client.rpush("shop:jobs:mugs", '{"id": "w"}')
    done = ran(site, "--json", "discover")
    assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == ["shop:mugs"]
    assert "KeyLook" in done.stderr


@pytest.mark.slow
@pytest.mark.alike
def test_what_its_code_prints_is_no_output(
    client: redis.Redis, shop: Path, ran: Run, tmp_path: Path
) -> None:
    read = "        return [_entry("
    stamp = "print('stamp')\n        return b''"
    talks = f"        print('read')\n{read}"
    site = changed(shop, tmp_path, "queue.py", read, talks)
    queue = site / "shop_redisq" / "queue.py"
    hook = f"    def stamp(self, entry):\n        {stamp}\n\n    async def read("
    queue.write_text(queue.read_text().replace("    async def read(", hook) + "print('import')\n")
    client.rpush("shop:jobs:mugs", '{"id": "w"}')
    asked = ran(site, "--json", "waiting", "ls", "shop:mugs")
    assert [json.loads(line)["id"] for line in asked.stdout.splitlines()] == ["w"]
    assert "import" in asked.stderr and "read" in asked.stderr
    done = ran(site, "--json", "purge", "shop:mugs/w", "--yes")
    assert [json.loads(line) for line in done.stdout.splitlines()]
    assert "stamp" in done.stderr


@pytest.mark.slow
@pytest.mark.alike
def test_what_its_reads_raise_names_the_package(
    client: redis.Redis, shop: Path, ran: Run, tmp_path: Path
) -> None:
    site = changed(shop, tmp_path, "queue.py", "return [_entry(", "return [NO_SUCH_NAME(")
    client.rpush("shop:jobs:mugs", '{"id": "w"}')
    asked = ran(site, "waiting", "ls", "shop:mugs", code=1)
    why = "kind shop of package shop-redisq 1.0 can't be used: NameError"
    assert why in asked.stderr and asked.stderr.count("\n") == 1
