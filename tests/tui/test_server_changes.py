"""The header names what happens to the server while the dashboard shows it."""

from __future__ import annotations

import pytest
import redis
from textual.pilot import Pilot

from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.inspect import server_state
from redisq_ops.ops.inspect.server_state import ServerHistory, ServerState
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import text

from .test_app import drive, press, until


@pytest.mark.slow
def test_a_replica_a_password_and_an_empty_server_are_named_in_the_header(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_state, "EVERY_S", 0.0)
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
        RequestQueue(client, "mail").submit([b"x"] * 3, id="r")

        async def body(app: Top, pilot: Pilot[Exception]) -> None:
            async def header(words: str) -> None:
                await until(pilot, lambda: words in text(app).splitlines()[0])

            await press(pilot, "3")
            # A replica that doesn't reach its primary keeps its data.
            client.replicaof("127.0.0.1", "1")
            await header("replica")
            client.replicaof("NO", "ONE")
            await until(pilot, lambda: "replica" not in text(app).splitlines()[0])
            client.config_set("requirepass", "secret")
            client.client_kill_filter(_type="normal", skipme=True)
            await header("LOGIN REFUSED")
            await header("stale")
            await until(pilot, lambda: "the server asks for a password" in text(app))
            assert " r " in text(app)
            client.config_set("requirepass", "")
            await until(pilot, lambda: "LOGIN" not in text(app).splitlines()[0])
            server.kill()
            await header("stale")
            server.restart()  # without a file: it is as empty as another server
            await header("REPLACED: its queues are gone")
            await until(pilot, lambda: "no queue 'mail' here" in text(app))
            assert " r " not in text(app)

        drive(server.url, body)


def test_a_restart_is_named_for_a_minute_and_lost_queues_until_one_is_back() -> None:
    now = [100.0]
    history = ServerHistory(lambda: now[0])
    assert history.due
    history.record(ServerState("a", False), ["mail", "jobs"])
    assert not history.due and history.sign == ""
    now[0] += 5
    assert history.due
    history.record(ServerState("b", False), ["mail"])
    now[0] += 12
    assert history.sign == "server changed 12s ago"
    now[0] += 60
    assert history.sign == ""
    history.record(None, ["mail"])  # not readable this time
    history.record(ServerState("c", True), [])
    now[0] += 3600
    assert history.sign == "replica · REPLACED: its queues are gone"
    history.record(ServerState("c", False), ["mail"])
    assert history.sign == ""
