"""What `contrib/` has to deploy redisq: files that their programs accept, commands that run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import redis
import yaml

from redisq_ops.cli.commands.watch import STOP_S
from redisq_ops.cli.output_types.json_schema import schema_names, schema_text
from redisq_ops.core.queues.delay import DelaySet

from .command_line import Redisq

ROOT = Path(__file__).parent.parent
CONTRIB = ROOT / "contrib"
COMPOSE = yaml.safe_load((CONTRIB / "docker" / "compose.yaml").read_text())
MANIFESTS: list[Any] = list(
    yaml.safe_load_all((CONTRIB / "kubernetes" / "worker.yaml").read_text())
)
GRACE_S = 25
"""default of `redisq work --grace`"""


def units() -> Iterator[tuple[str, list[str]]]:
    for unit in sorted((CONTRIB / "systemd").iterdir()):
        line = re.search(r"^ExecStart=\S+/redisq (.*)$", unit.read_text(), re.M)
        assert line is not None
        yield unit.name, shlex.split(line[1].replace("%i", "mail"))


def containers() -> Iterator[tuple[str, list[str]]]:
    for name, service in COMPOSE["services"].items():
        if "build" in service:
            yield f"compose {name}", service["command"]
    for manifest in MANIFESTS:
        for container in manifest["spec"]["template"]["spec"]["containers"]:
            yield f"kubernetes {container['name']}", container["args"]


COMMANDS = dict([*units(), *containers()])


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_runs(
    name: str, redisq: Redisq, client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [word for word in COMMANDS[name] if word not in ("--ping", "0.0.0.0:8080")]
    if words[0] == "metrics":
        assert "redisq_up 1.0" in redisq(*words, "--once")
        return
    if words[0] == "watch":
        places = {"0.0.0.0:9808": "127.0.0.1:0", words[-1]: str(tmp_path / "queues.rec")}
        listen = [] if "--listen" in words else ["--listen", "127.0.0.1:0"]
        words = [places.get(word, word) for word in words]
        assert redisq(*words, *listen, "--for", "500ms").startswith("UNKNOWN: no queue")
        assert (tmp_path / "queues.rec").stat().st_size
        return
    (tmp_path / "jobs.py").write_text("def handle(delivery): return None\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "jobs", raising=False)
    queue = DelaySet(client, "mail")
    queue.schedule([("e", b"x")])
    redisq(*words, "--burst")
    assert queue.counts().done == 1


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None and not os.environ.get("REDISQ_REQUIRE_SYSTEMD"),
    reason="systemd is not installed",
)
@pytest.mark.parametrize("unit", [name for name, _ in units()])
def test_systemd_accepts_the_units(unit: str, tmp_path: Path) -> None:
    text = (CONTRIB / "systemd" / unit).read_text()
    copy = tmp_path / unit
    copy.write_text(text.replace("/opt/redisq/venv/bin/redisq", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["metadata"]["name"])
def test_kubernetes_accepts_the_manifests(manifest: Any) -> None:
    kubernetes_validate.validate(manifest, "1.31", strict=True)


def test_a_worker_is_given_longer_to_stop_than_it_takes() -> None:
    unit = (CONTRIB / "systemd" / "redisq-worker@.service").read_text()
    stop = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M)
    assert stop is not None and int(stop[1]) > GRACE_S
    assert int(COMPOSE["services"]["worker"]["stop_grace_period"].removesuffix("s")) > GRACE_S
    worker = MANIFESTS[0]["spec"]["template"]["spec"]
    assert worker["terminationGracePeriodSeconds"] > GRACE_S


def test_a_watch_is_given_longer_to_stop_than_a_message_may_take() -> None:
    unit = (CONTRIB / "systemd" / "redisq-watch.service").read_text()
    stop = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M)
    assert stop is not None and int(stop[1]) > STOP_S
    assert int(COMPOSE["services"]["watch"]["stop_grace_period"].removesuffix("s")) > STOP_S


def test_the_image_is_made_of_what_there_is() -> None:
    """It can't be built here. Its state is kept where the service `watch` mounts a volume."""
    dockerfile = (CONTRIB / "docker" / "Dockerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (command,) = json.loads(re.findall(r"^ENTRYPOINT (.*)$", dockerfile, re.M)[0])
    extras = re.findall(r"(?:\.|redisq-ops)\[(\w+)\]'", dockerfile)
    assert command in project["scripts"]
    assert len(extras) == 2 and set(extras) <= project["optional-dependencies"].keys()
    for words in re.findall(r"^COPY (?!--from)(.*)$", dockerfile, re.M):
        assert all((ROOT / file).exists() for file in words.split()[:-1])
    watch = COMPOSE["services"]["watch"]
    state = f"{watch['environment']['XDG_STATE_HOME']}/redisq"
    (user,) = re.findall(r"^USER (\d+)$", dockerfile, re.M)
    assert f"install -d -o {user} -m 700 {state}" in dockerfile
    assert f"state:{state}" in watch["volumes"] and watch["command"][-1].startswith(f"{state}/")
    for service in COMPOSE["services"].values():
        if "build" in service:
            context = CONTRIB / "docker" / service["build"]["context"]
            assert (context / service["build"]["dockerfile"]).is_file()


@pytest.mark.slow
@pytest.mark.alike
def test_the_wheel_has_everything_that_the_program_reads(url: str, tmp_path: Path) -> None:
    dockerfile = (CONTRIB / "docker" / "Dockerfile").read_text()
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    for words in re.findall(r"^COPY (?!--from)(.*)$", dockerfile, re.M):
        *files, target = words.split()
        for file in files:
            if (ROOT / file).is_dir():
                shutil.copytree(ROOT / file, source / target)
            else:
                shutil.copy(ROOT / file, source / target)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*build, str(source)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(site), "REDIS_URL": url, "COLUMNS": "100"}

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "redisq_ops", *words],
            cwd=tmp_path,
            env=environment,
            input="one\ntwo\n",
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    where = "import redisq_ops; print(redisq_ops.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith(str(site))
    files = {file.stem: file.read_text() for file in (site / "redisq_ops/schemas").glob("*.json")}
    assert files == {name: schema_text(name) + "\n" for name in run("schema").split()}
    assert files["queue-details"] == run("schema", "queue-details")
    run("submit", "-", "--queue", "mail", "--id", "r1")
    run("work", "--exec", "cat", "--queue", "mail", "--burst")
    (row,) = [json.loads(line) for line in run("ls", "--json").splitlines()]
    assert row["done"] == 2
    assert "mail" in run("top", "--once")


@pytest.mark.slow
def test_the_source_archive_builds_the_same_wheel(tmp_path: Path) -> None:
    def built(target: str, source: Path) -> Path:
        folder = tmp_path / target / source.name
        hatchling = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
        subprocess.run(hatchling, cwd=source, check=True, capture_output=True)
        (file,) = folder.iterdir()
        return file

    with tarfile.open(built("sdist", ROOT)) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("redisq_ops-*")
    with (
        zipfile.ZipFile(built("wheel", ROOT)) as ours,
        zipfile.ZipFile(built("wheel", source)) as theirs,
    ):
        names = sorted(ours.namelist())
        assert sorted(theirs.namelist()) == names
        assert f"redisq_ops/schemas/{schema_names()[0]}.json" in names
        page = ("charts.js", "report_page.css", "report_page.html", "queries/latency.sql")
        assert {f"redisq_ops/pipeline/report/{name}" for name in page} <= set(names)
        assert "redisq_ops/pipeline/session/log4j2.properties" in names
        assert all(theirs.read(name) == ours.read(name) for name in names)
