"""Who only looks: the user whom the docs propose sees all of every kind of queue, and runs no
script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest
import redis

from redisq_ops.core.engine.optional_features import HasClients
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.circular import ShardedCircularQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.snapshot import ExplainSubject, View, Viewport
from redisq_ops.ops.inspect.snapshot_reader import fetch

from ..command_line import Redisq
from ..core.cluster.test_failover import users
from ..dead_entries import ERROR, KINDS, Make
from ..tui.test_app import written

STATES = ("waiting", "pending", "delay", "dlq", "trash")
EVERY: dict[str, tuple[Make, Any]] = KINDS | {
    "circular, 3 shards": (
        lambda *a, **k: ShardedCircularQueue(*a, shards=3, **k),
        lambda queue: queue.push([f"e{k}" for k in range(25)]),
    )
}
LOOKS = (
    "ls", "top --once", "fsck", "fsck {}", "inspect {}", "explain {}", "history {}", "log",
    "waiting ls {}", "pending ls {}", "delay ls {}", "dlq ls {}", "trash ls {}", "settings {}",
    "dlq ls {} --where attempts>=1", "select {} --where attempts>=1 --count", "dlq groups {}",
    "workers ls {}", "periodic ls", "export {} -o -",
    "wait {} --until dead>0 --timeout 5s",
    "dlq replay {} --dry-run", "dlq purge {} --dry-run", "pending requeue {} --dry-run",
    "pending claim {} --consumer me --dry-run", "trash restore {} --dry-run", "undo --dry-run",
    "workers claim {} w --to v --dry-run", "dlq replay {} --plan p", "apply p --dry-run",
)  # fmt: skip


@pytest.fixture
def viewer(client: redis.Redis, url: str, capsys: pytest.CaptureFixture[str]) -> Iterator[Redisq]:
    (line,) = [line for line in users() if "redisq-viewer" in line]
    admin: Any = client
    admin.execute_command(*line.split(" "), "%R~carmine:*")  # of its layout the keys are another's
    yield Redisq(url.replace("//", "//redisq-viewer:change-me@"), capsys)
    client.acl_deluser("redisq-viewer")


def scripts(client: redis.Redis) -> set[str]:
    ran = {name.removeprefix("cmdstat_").partition("|")[0] for name in client.info("commandstats")}
    return {name for name in ran if name.startswith(("eval", "fcall", "script"))}


@pytest.fixture(params=EVERY)
def queue(request: pytest.FixtureRequest, client: redis.Redis, redisq: Redisq) -> Any:
    """A queue with entries in all states that its kind has, changed and looked at by others."""
    make, fill = EVERY[request.param]
    queue = make(client, "mail")
    fill(queue)
    for n, one in enumerate(queue.take(18, consumer="w", lease=3600).deliveries[:14]):
        queue.settle([Settlement(one, *(("fail", ERROR, 600) if n < 3 else ("reject", ERROR)))])
    for words in ("dlq purge {} --max 2 --yes", "dlq replay {} --max 2 --yes"):
        redisq(*words.format(queue.name).split())
    client.config_resetstat()
    return queue


@pytest.mark.slow
def test_read_commands_run_no_script(
    client: redis.Redis, viewer: Redisq, queue: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("redisq_ops.cli.commands.overview.MOMENT_S", 0)
    for look in LOOKS:
        viewer(*look.format(queue.name).split())
        assert not scripts(client) | written(client), look
    rows = [row for state in STATES for row in viewer.rows(state, "ls", queue.name, "--max", "2")]
    assert {row["state"] for row in rows} >= {"waiting", "pending", "dead", "trash"}
    for row in rows:
        for verb in (["explain"], ["inspect"]):
            viewer(*verb, row["address"])
    if queue.kind == "request":
        for verb in (["explain"], ["inspect"], ["results"]):
            viewer(*verb, f"{queue.name}/r1")
    if isinstance(queue, HasClients):
        viewer("client", "ls", queue.name)
    assert not scripts(client) | written(client)


@pytest.mark.slow
@pytest.mark.alike
def test_dashboard_runs_no_script(client: redis.Redis, viewer: Redisq, queue: Any) -> None:
    viewports = [Viewport(view, queue.name, 0, 60) for view in get_args(View)]
    for state in ("waiting", "pending", "delayed", "dead"):
        for entry in queue.page(state, max=1).entries:
            viewports.append(Viewport("dead", queue.name, 0, 60, detail=entry.id))
            viewports.append(
                Viewport("dead", queue.name, 0, 60, explain=ExplainSubject(queue.name, entry.id))
            )
    client.config_resetstat()
    with closing(connect(viewer.url)) as looking:
        for viewport in viewports:
            assert run(looking, fetch(Deployment(looking), viewport)).problem is None, viewport
    assert not scripts(client) | written(client)


@pytest.mark.alike
def test_undo_preview_needs_read_permission_only(
    client: redis.Redis, redisq: Redisq, viewer: Redisq
) -> None:
    make, fill = KINDS["delay, 3 shards"]
    queue = make(client, "mail")
    fill(queue)
    make(client, "other").schedule([("e", b"x")])
    for one in queue.take(5, consumer="w").deliveries:
        queue.settle([Settlement(one, "reject", ERROR)])
    redisq("dlq", "move", "mail", "--to", "other", "--yes")
    assert "5 dead entries" in viewer("undo", "--dry-run")
    assert "mail" in viewer("log")
    viewer("undo", "--yes", code=1)
    assert "ACL says no" in viewer.err
