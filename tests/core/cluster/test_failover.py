"""Past one server: slots that move and nodes that die under load, Sentinel, TLS, ACL users.

What is counted: lost = accepted − done at the end. While slots move it must be 0; when a master
dies it is at most what its replica had not heard of.
"""

import asyncio
import os
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
import trustme

from redisq_ops.cli.main import run
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.model.errors import RedisqError, Unreachable
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis import connection as lines
from redisq_ops.core.redis.client import ServerAddress, aconnect, connect
from redisq_ops.core.redis.operation import BlockingClient
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work
from redisq_ops.demo.server import HOST, EmbeddedServer, ServerFailed, binaries, cluster

from ...command_line import Redisq, dead_letters
from ...ports import free_port

pytestmark = pytest.mark.slow

BINARIES = sorted(binaries())
EACH = 5
Clients = Callable[[], BlockingClient]


def until(true: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.01)


class GroupLoad:
    """A producer and two workers on one queue, until the block ends."""

    def __init__(self, clients: Clients, kind: str) -> None:
        self.clients, self.kind = clients, kind
        self.accepted: list[str] = []
        self.executed: Counter[str] = Counter()
        self.over = threading.Event()
        self.failures: list[BaseException] = []
        self.workers = [
            Worker(self.queue(), self.handle, batch=5, consumer=f"w{n}", lease=2) for n in range(2)
        ]
        targets = [self.produce, *(worker.run for worker in self.workers)]
        self.threads = [threading.Thread(target=self.kept(target)) for target in targets]

    def queue(self) -> Queue[BlockingClient]:
        client = self.clients()
        return RequestQueue(client, "q") if self.kind == "request" else DelaySet(client, "q")

    def kept(self, target: Callable[[], object]) -> Callable[[], None]:
        def kept() -> None:
            try:
                target()
            except BaseException as error:
                self.failures.append(error)

        return kept

    def __enter__(self) -> "GroupLoad":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for worker in self.workers:
            worker.stop()
        for thread in self.threads:
            thread.join()

    def handle(self, work: Work) -> None:
        self.executed[work.id] += 1

    def produce(self) -> None:
        queue = self.queue()
        while not self.over.wait(0.002):
            id = f"r{len(self.accepted)}"
            try:
                if isinstance(queue, RequestQueue):
                    queue.submit([b"x"] * EACH, id=id)
                elif isinstance(queue, DelaySet):
                    queue.schedule([(id, b"x")])
            except Unreachable:
                continue  # the same again, under the same id: it goes in once
            self.accepted.append(id)

    def finished(self) -> bool:
        assert self.failures == []
        counts = self.queue().counts()
        return counts.waiting + counts.pending + counts.delayed == 0

    def settle(self) -> None:
        """No new work; wait until what there is was done."""
        self.over.set()
        self.threads[0].join()

        def quiet() -> bool:
            try:
                return self.finished()
            except RedisqError:
                return False

        until(quiet)

    def units(self, ids: Sequence[str]) -> list[str]:
        if self.kind == "delay":
            return list(ids)
        return [f"{id}/{n}" for id in ids for n in range(1, EACH + 1)]


def migrate(key: str, nodes: Sequence[EmbeddedServer]) -> None:
    """Move a key's slot from its node to the next, a few keys at a time."""
    with ExitStack() as stack:
        links = [
            stack.enter_context(redis.Redis.from_url(node.url, decode_responses=True))
            for node in nodes
        ]
        slot: Any = links[0].execute_command("CLUSTER", "KEYSLOT", key)
        ids = [str(link.execute_command("CLUSTER", "MYID")) for link in links]
        owned = [node.command("CLUSTER", "NODES") for node in nodes]
        own = next(i for i, text in enumerate(owned) if _owns(text, slot))
        to = (own + 1) % len(nodes)
        links[to].execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[own])
        links[own].execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to])
        while True:
            keys: Any = links[own].execute_command("CLUSTER", "GETKEYSINSLOT", slot, 3)
            if not keys:
                break
            links[own].execute_command("MIGRATE", HOST, nodes[to].port, "", 0, 5_000, "KEYS", *keys)
            time.sleep(0.01)  # half a slot here and half there, for some time
        for i in (to, own, *range(len(nodes))):
            links[i].execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[to])


def _owns(nodes_text: str, slot: int) -> bool:
    (mine,) = (line for line in nodes_text.splitlines() if "myself" in line)
    spans = [word for word in mine.split(" ")[8:] if not word.startswith("[")]
    return any(
        int(low) <= slot <= int(high or low)
        for low, _, high in (span.partition("-") for span in spans)
    )


def turned_away(nodes: Sequence[EmbeddedServer]) -> int:
    """How many calls met a slot that was elsewhere, or half here and half there."""
    lines = [line for node in nodes for line in node.command("INFO", "errorstats").split()]
    told = (line for line in lines if line.startswith(("errorstat_ASK", "errorstat_TRYAGAIN")))
    return sum(int(line.rpartition("=")[2]) for line in told)


@pytest.mark.parametrize("kind", ["request", "delay"])
@pytest.mark.parametrize("binary", BINARIES)
def test_a_slot_that_moves_under_load_loses_and_doubles_nothing(binary: str, kind: str) -> None:
    with cluster(binaries()[binary]) as nodes:
        url = nodes.urls[0].replace("://", "+cluster://")
        with GroupLoad(lambda: connect(url), kind) as load:
            key = load.queue().keys["wake"]
            for _ in range(3):
                before = len(load.accepted)
                until(lambda n=before: len(load.accepted) > n + 100)  # type: ignore[misc]
                migrate(key, nodes.nodes)
            load.settle()
            assert turned_away(nodes.nodes) > 0
            queue = load.queue()
            assert queue.invariants() == []
            assert set(load.executed) == set(load.units(load.accepted))
            again = sum(n - 1 for n in load.executed.values())
            print(f"{binary} {kind}: {len(load.executed):,} executed, {again} of them again")
            assert queue.counts().dead == 0
            assert queue.counts().done == len(load.executed)


@pytest.mark.parametrize("binary", BINARIES)
def test_a_promoted_replica_goes_on_with_all_it_had_heard_of(binary: str) -> None:
    with cluster(binaries()[binary], replicas=True, timeout_ms=1_500) as nodes:
        url = nodes.urls[1].replace("://", "+cluster://")
        with GroupLoad(lambda: connect(url), "request") as load:
            client: Any = load.clients()
            slot = client.execute_command("CLUSTER", "KEYSLOT", "{q}")
            owned = [node.command("CLUSTER", "NODES") for node in nodes.nodes]
            own = next(i for i, text in enumerate(owned) if _owns(text, slot))
            certain = 0
            with redis.Redis.from_url(nodes.replicas[own].url) as replica:
                replica.execute_command("READONLY")
                until(lambda: len(load.accepted) > 200)
                # A mark that stands behind the accepted requests in the replication stream.
                while certain < 200:
                    client.set("mark:{q}", len(load.accepted))
                    certain = int(replica.get("mark:{q}") or 0)
            nodes.nodes[own].kill()
            until(lambda: leads(nodes.replicas[own]))
            before = len(load.accepted)
            until(lambda: len(load.accepted) > before + 100)
            load.settle()
            queue = load.queue()
            assert isinstance(queue, RequestQueue)
            assert queue.invariants() == []
            states = {id: queue.request(id) for id in load.accepted}
            lost = [id for id, request in states.items() if request is None]
            print(f"{binary}: {len(states):,} accepted, {len(lost)} lost, unreplicated when killed")
            assert not set(lost) & set(load.accepted[:certain])
            assert {request.state for request in states.values() if request} == {"done"}
            done = [id for id in load.accepted if id not in lost]
            assert set(load.units(done)) <= set(load.executed)


@contextmanager
def sentinel(binary: Path, config: Path, *more: str) -> Iterator[int]:
    """A Sentinel process; its port. It never says it is ready, and keeps notes in its file."""
    port = free_port()
    words = [str(binary), str(config), "--sentinel", "--port", str(port), "--bind", HOST, *more]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        with redis.Redis(HOST, port) as asked:
            until(lambda: answers(asked))
        yield port
    finally:
        process.kill()
        process.wait()


def answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.AuthenticationError:
        return True
    except redis.ConnectionError:
        return False


@contextmanager
def watched(binary: Path) -> Iterator[tuple[EmbeddedServer, EmbeddedServer, str]]:
    """A master, its replica, and the URL of a Sentinel that watches over both."""
    with ExitStack() as stack:
        master = stack.enter_context(EmbeddedServer(binary))
        replica = stack.enter_context(
            EmbeddedServer(binary, args=("--replicaof", f"{HOST} {master.port}"))
        )
        until(lambda: "master_link_status:up" in replica.command("INFO", "replication"))
        config = master.directory / "sentinel.conf"
        config.write_text(
            f"sentinel monitor mymaster {HOST} {master.port} 1\n"
            "sentinel down-after-milliseconds mymaster 500\n"
            "sentinel failover-timeout mymaster 5000\n"
        )
        port = stack.enter_context(sentinel(binary, config))
        with redis.Redis(HOST, port, decode_responses=True) as asked:
            until(lambda: asked.execute_command("SENTINEL", "REPLICAS", "mymaster"))
        yield master, replica, f"redis+sentinel://{HOST}:{port}/mymaster"


def leads(server: EmbeddedServer) -> bool:
    """Is this the master? A server whose role changes closes its connections, this one's too."""
    try:
        return "role:master" in server.command("INFO", "replication")
    except (ServerFailed, OSError):
        return False


@pytest.mark.parametrize("binary", BINARIES)
def test_sentinel_names_a_new_master_and_work_goes_on(
    binary: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        watched(binaries()[binary]) as (master, replica, url),
        GroupLoad(lambda: connect(url), "request") as load,
    ):
        until(lambda: len(load.accepted) > 100)
        assert master.pid is not None
        master.kill()
        until(lambda: leads(replica))
        before = len(load.accepted)
        until(lambda: len(load.accepted) > before + 50)
        load.settle()
        assert load.queue().invariants() == []
        # A Sentinel may take its new master for a dead one for a moment, and then names none.
        until(lambda: run(["--url", url, "ls", "--json"]) == 0)
        assert '"name": "q"' in capsys.readouterr().out


USERS = Path(__file__).parents[3] / "docs" / "how-to" / "limit-what-users-may-do.md"


def users() -> list[str]:
    """The users that the docs propose, a command each."""
    lines = USERS.read_text().splitlines()
    return [line for line in lines if line.startswith("ACL SETUSER ")]


def certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a server is started with to ask for certificates; ours is in the environment."""
    if "redis" not in BINARIES:
        if os.environ.get("REDISQ_REQUIRE_REDIS_SERVER"):
            pytest.fail("no redis server on this machine, and the tests need one")
        pytest.skip("the embedded server has no TLS")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for name in ("server", "client"):
        issued = authority.issue_cert("localhost", HOST, common_name=name)
        issued.private_key_pem.write_to_path(tmp_path / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(tmp_path / f"{name}.pem")
    args = ["--tls-ca-cert-file", "ca.pem", "--tls-cert-file", "server.pem"]
    args = [str(tmp_path / word) if word.endswith("pem") else word for word in args]
    args += ["--tls-key-file", str(tmp_path / "server.key"), "--tls-auth-clients", "yes"]
    monkeypatch.setenv("REDISQ_TLS_CA", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("REDISQ_TLS_CERT", str(tmp_path / "client.pem"))
    monkeypatch.setenv("REDISQ_TLS_KEY", str(tmp_path / "client.key"))
    return args


@contextmanager
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedServer]:
    """A server that takes TLS only, from those who show a certificate, with the docs' users."""
    args = certified(tmp_path, monkeypatch)
    with EmbeddedServer(binaries()["redis"], args=args) as server:
        secure = free_port()
        server.command("CONFIG", "SET", "tls-port", str(secure))
        for line in users():
            server.command(*line.split(" "))
        server.command("ACL", "SETUSER", "default", "off")
        server.port = secure  # from here on, nothing else is spoken to
        yield server


def test_tls_and_users_with_the_rights_the_docs_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "upper.py").write_text("def handle(d):\n    return d.payload.upper()\n")
    (tmp_path / "lines").write_text("one\ntwo\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with private(tmp_path, monkeypatch) as server:

        def redisq(user: str, line: str, code: int = 0) -> str:
            monkeypatch.setenv("REDISQ_USERNAME", user)
            monkeypatch.setenv("REDISQ_PASSWORD", "change-me")
            url = f"rediss://localhost:{server.port}"
            assert run(["--url", url, *line.split(" ")]) == code, line
            said = capsys.readouterr()
            return said.out + said.err

        redisq("redisq-producer", "submit lines --id job")
        redisq("redisq-worker", "work upper:handle --burst")
        redisq("redisq-producer", "wait job")
        assert redisq("redisq-producer", "results job --raw") == "ONE\nTWO\n"
        redisq("redisq-operator", "queue pause default --yes")
        redisq("redisq-operator", "undo --yes")
        assert "default" in redisq("redisq-viewer", "ls")
        redisq("redisq-viewer", "inspect job")
        redisq("redisq-viewer", "top --once")
        assert "job done: 2 done" in redisq("redisq-viewer", "wait job")
        assert "ACL says no" in redisq("redisq-viewer", "work upper:handle", 1)
        assert "ACL says no" in redisq("redisq-viewer", "queue pause default --yes", 1)
        assert "wrong user name or password" in redisq("nobody", "ls", 1)
        assert run(["--url", f"redis://localhost:{server.port}", "ls"]) == 4
        assert capsys.readouterr().err.endswith("; that port speaks TLS: write rediss://…\n")
        monkeypatch.setattr(lines, "PATIENCE_S", 0.1)
        assert server.pid is not None
        os.kill(server.pid, signal.SIGSTOP)
        busy = threading.Timer(1.5, os.kill, (server.pid, signal.SIGCONT))
        busy.start()
        redisq("redisq-viewer", "ls")  # as patient as with any command
        busy.join()
        monkeypatch.delenv("REDISQ_TLS_CERT")
        monkeypatch.delenv("REDISQ_TLS_KEY")
        redisq("redisq-viewer", "ls", 4)
        monkeypatch.delenv("REDISQ_TLS_CA")
        assert "certificate" in redisq("redisq-viewer", "ls", 4)


@contextmanager
def guarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: bool = True
) -> Iterator[tuple[EmbeddedServer, int, int]]:
    """A server whose master's address is one of TLS, or not; the ports where its Sentinel is asked
    with TLS and without."""
    args = certified(tmp_path, monkeypatch)
    binary = binaries()["redis"]
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedServer(binary, args=args))
        at = server.port
        if tls:
            at = free_port()
            server.command("CONFIG", "SET", "tls-port", str(at))
        config = tmp_path / "sentinel.conf"
        config.write_text(
            f"sentinel monitor mymaster {HOST} {at} 1\n"
            "sentinel down-after-milliseconds mymaster 5000\n"
        )
        secure = free_port()
        # As its servers are spoken to, so does it speak to them.
        more = [*args, "--tls-port", str(secure), "--tls-replication", "yes" if tls else "no"]
        yield server, secure, stack.enter_context(sentinel(binary, config, *more))


def answered(url: str, target: ServerAddress) -> None:
    """Every client reaches a master, and by it a worker what was put in."""
    there = replace(target, url=url)
    with connect(there) as client:
        assert client.ping()

    async def awaited() -> None:
        client = aconnect(there)
        queue = DelaySet(client, "later")
        await queue.schedule([("e", b"x")], after=0)
        taken = await queue.take(1, consumer="w")
        assert await queue.settle([Settlement(taken.deliveries[0], "ack")]) == ["done"]
        await client.aclose()

    asyncio.run(awaited())


def test_sentinels_are_asked_with_tls_as_the_servers_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with guarded(tmp_path, monkeypatch) as (_, secure, plain):
        mine = ServerAddress.from_environment(None)
        answered(f"rediss+sentinel://{HOST}:{secure}/mymaster", mine)
        answered(f"valkeys+sentinel://{HOST}:{secure}/mymaster/0?sentinel_tls=yes", mine)
        answered(f"rediss+sentinel://{HOST}:{plain}/mymaster?sentinel_tls=no", mine)
        # A Sentinel that is gone is passed over, whatever it would have spoken.
        answered(f"rediss+sentinel://{HOST}:1,{HOST}:{secure}/mymaster", mine)

        def refused(url: str, code: int = 4) -> str:
            assert run(["--url", url, "ls"]) == code
            return capsys.readouterr().err

        monkeypatch.setattr(lines, "PATIENCE_S", 0.1)
        assert refused(f"rediss+sentinel://{HOST}:{plain}/mymaster").endswith(
            f"{HOST}:{plain} doesn't answer a TLS handshake; that port speaks no TLS: "
            "write rediss+sentinel://…?sentinel_tls=no\n"
        )
        for url in ("redis+sentinel", "rediss+sentinel"):
            said = refused(f"{url}://{HOST}:{secure}/mymaster?sentinel_tls=no")
            assert said.endswith("; that port speaks TLS: write rediss+sentinel://…\n")
        said = refused(f"rediss+sentinel://{HOST}:{secure}/mymaster?sentinel_tls=maybe", 2)
        assert said == "redisq: sentinel_tls=maybe: yes or no\n"
        # Who isn't to be asked has no certificate that we know.
        monkeypatch.delenv("REDISQ_TLS_CA")
        assert "can't be reached" in refused(f"rediss+sentinel://{HOST}:{secure}/mymaster")


def test_sentinels_alone_may_want_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with guarded(tmp_path, monkeypatch, tls=False) as (_, secure, _):
        mine = ServerAddress.from_environment(None)
        answered(f"redis+sentinel://{HOST}:{secure}/mymaster?sentinel_tls=yes", mine)


def test_sentinels_may_ask_for_a_password_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    binary = binaries()["valkey"]
    with EmbeddedServer(binary) as server:
        config = tmp_path / "sentinel.conf"
        config.write_text(
            f"sentinel monitor mymaster {HOST} {server.port} 1\nrequirepass ses=ame\n"
        )
        with sentinel(binary, config) as port:
            url = f"redis+sentinel://{HOST}:{port}/mymaster"
            with redis.Redis(HOST, port, password="ses=ame") as asked:
                until(lambda: asked.execute_command("SENTINEL", "CKQUORUM", "mymaster"))
            answered(url, ServerAddress(sentinel_password="ses=ame"))
            answered(f"{url}/0?sentinel_password=ses%3Dame&socket_timeout=7", ServerAddress())
            answered(
                f"redis+sentinel://[::1]:1,{HOST}:{port}/mymaster",
                ServerAddress(sentinel_username="default", sentinel_password="ses=ame"),
            )
            for mine in (url, f"{url}?sentinel_password=wrong", url.replace("//", "//u:sesame@")):
                assert run(["--url", mine, "ls"]) == 1
                said = capsys.readouterr().err
                assert "a Sentinel asks for a password (REDISQ_SENTINEL_PASSWORD)" in said
                assert said.count("\n") == 1 and "sesame" not in said
            monkeypatch.setenv("REDISQ_SENTINEL_PASSWORD", "ses=ame")
            assert run(["--url", url, "ls"]) == 0
            assert run(["--url", url, "config"]) == 0
            assert "ses=ame" not in capsys.readouterr().out
            assert run(["--url", f"{url}?no_such_option=1", "ls"]) == 2
            assert "'no_such_option' is no option" in capsys.readouterr().err
            # It is no server of queues.
            for words in (["ls"], ["submit", __file__], ["discover"], ["top", "--once"]):
                assert run(["--url", f"redis://:ses%3Dame@{HOST}:{port}", *words]) == 2
                said = capsys.readouterr().err
                assert "is it a Sentinel? write redis+sentinel://…/NAME\n" in said, words
            # One that hangs keeps nobody for long; by itself the client waits half a minute.
            with socket.create_server((HOST, 0)) as hung:
                first = f"redis+sentinel://{HOST}:{hung.getsockname()[1]},{HOST}:{port}/mymaster"
                began = time.monotonic()
                assert run(["--url", first, "ls"]) == 0
                assert time.monotonic() - began < 10


def test_rights_to_sidekiq_s_keys_as_the_docs_name_them(
    client: redis.Redis, url: str, redisq: Redisq
) -> None:
    (line,) = [line for line in users() if "redisq-sidekiq" in line]
    client.execute_command(*line.split(" "))  # type: ignore[no-untyped-call]
    try:
        jobs = SidekiqQueue(client, "sidekiq:mail")
        jobs.push([Job("A", [n]) for n in range(4)])
        one, *_ = jobs.take(1, consumer="w").deliveries
        jobs.settle([Settlement(one, "reject", Failure("E", "x").encoded())])
        client.sadd("processes", "web-1:4711:0a1b2c3d4e5f")
        one_of_us = Redisq(url.replace("//", "//redisq-sidekiq:change-me@"), redisq._capsys)
        for words in (
            "dlq replay sidekiq:mail --yes",
            "undo --yes",
            "purge sidekiq:mail --state dead --yes",
            "trash restore sidekiq:mail --yes",
            "inspect sidekiq:mail",
            "workers rm sidekiq --yes",
            "dlq groups sidekiq:mail",
        ):
            one_of_us(*words.split())
    finally:
        client.acl_deluser("redisq-sidekiq")


def test_who_may_see_some_queues_works_with_these(
    client: redis.Redis, url: str, redisq: Redisq
) -> None:
    (line,) = [line for line in users() if "redisq-operator" in line]
    client.execute_command(*line.split(" "))  # type: ignore[no-untyped-call]
    try:
        dead_letters(client, 3)
        ResqueQueue(client, "resque:low").push([Job("A", [1])])
        one_of_us = Redisq(url.replace("//", "//redisq-operator:change-me@"), redisq._capsys)
        (row,) = one_of_us.rows("dlq", "replay", "mail", "--yes")
        assert row["op"] in one_of_us("log", code=3) and "resque:low: not looked" in one_of_us.err
        assert one_of_us.rows("inspect", "r1")[0]["id"] == "r1"
        assert "ACL says no" in one_of_us.refusal("inspect", "r2", code=1)
        assert one_of_us.rows("undo", "--yes")[0]["done"] == 3
        assert "ACL says no" in one_of_us.refusal("undo", "purge-0123456789", code=1)
        # Another team's queue is not broken, and hides none.
        told = {
            row["queue"]: (row["ok"], row["not_checked"]) for row in one_of_us.rows("fsck", code=3)
        }
        assert told["mail"] == (True, None) and told["resque:low"][0] is None
        assert "ACL says no" in str(told["resque:low"][1])
        problems = {row["name"]: row["problem"] for row in one_of_us.rows("ls", code=3)}
        assert problems["mail"] is None and "ACL says no" in problems["resque:low"]
    finally:
        client.acl_deluser("redisq-operator")
