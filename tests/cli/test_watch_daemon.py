"""`redisq watch` as a process: it checks, tells, serves, records, and outlives its server."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
import redis

from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.recording.file import state_at

from ..command_line import Redisq, dead_letters
from ..conftest import BINARIES
from ..hook import Hook, until

pytestmark = pytest.mark.alike


@pytest.fixture
def hook(configuration: Path) -> Iterator[Hook]:
    hook = Hook()
    configuration.write_text(
        f'notify = {{calm = "1ms", to.team = {{webhook = "http://127.0.0.1:{hook.port}/"}}}}\n'
    )
    yield hook
    hook.close()


class Daemon:
    """The process, and what it has printed so far."""

    def __init__(self, process: subprocess.Popen[str], out: Path, err: Path) -> None:
        self.process, self._out, self._err = process, out, err

    @property
    def lines(self) -> list[str]:
        return self._out.read_text().splitlines()

    @property
    def said(self) -> str:
        return self._err.read_text()

    @property
    def address(self) -> str:
        until(lambda: "/metrics\n" in self.said)
        found = re.search(r"http://\S+", self.said)
        assert found is not None
        return found[0]

    @property
    def resident(self) -> int:
        """KiB of memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0])


@contextmanager
def watching(url: str, folder: Path, *options: str) -> Iterator[Daemon]:
    words = ["--url", url, "watch", "--interval", "1s", "--listen", "127.0.0.1:0", *options]
    with open(folder / "out", "w") as out, open(folder / "err", "w") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "redisq_ops", *words], stdout=out, stderr=err, text=True
        )
    try:
        yield Daemon(process, folder / "out", folder / "err")
    finally:
        process.kill()
        process.wait()
        print((folder / "out").read_text(), (folder / "err").read_text())  # of a test that fails


RULES = ("--set", "dead=100", "--set", "no_worker=1d")


@pytest.mark.slow
def test_it_does_all_in_one_process_and_sigterm_ends_it(
    url: str, client: redis.Redis, hook: Hook, tmp_path: Path
) -> None:
    recording = tmp_path / "queues.rec"
    with watching(url, tmp_path, *RULES, "--recording", str(recording)) as daemon:
        until(lambda: daemon.lines)
        dead_letters(client, 3)
        until(lambda: len(daemon.lines) == 2 and hook.got)
        with urlopen(daemon.address, timeout=30) as reply:
            metrics = reply.read().decode()
        until(lambda: (state := state_at(recording, 10**14)) is not None and "mail" in state.queues)
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(90) == 0
        assert daemon.lines[0].startswith("UNKNOWN: no queue is registered")
        assert daemon.lines[1].startswith("WARNING: mail: 3 dead, mostly SMTP | ")
        said = f"Look at mail: 3 dead, mostly SMTP. Type: redisq explain mail --url {url}"
        assert hook.lines == [said]
        assert 'redisq_queue_entries{kind="request",queue="mail",state="dead"} 3.0' in metrics
        assert not Path(f"{recording}-wal").exists()  # closed in order
        assert daemon.said.count("\n") == 1  # the address


@pytest.mark.slow
def test_it_says_that_everything_is_gone_though_nothing_was_in_trouble(
    url: str, client: redis.Redis, hook: Hook, tmp_path: Path
) -> None:
    DelaySet(client, "later").schedule([("e", b"x")], after=3600)
    with watching(url, tmp_path) as daemon:
        until(lambda: daemon.lines)
        assert daemon.lines[0].startswith("OK: 1 queue")
        client.flushall()
        until(lambda: len(daemon.lines) == 2 and hook.got)
        assert daemon.lines[1].startswith("UNKNOWN: no queue is registered")
        assert hook.lines[0].startswith("Fix the server: 1 queue gone, none is left. Type: ")


@pytest.mark.slow
def test_a_queue_that_is_gone_hides_no_later_trouble_of_the_others(
    url: str, client: redis.Redis, tmp_path: Path
) -> None:
    for name in ("mail", "web"):
        RequestQueue(client, name).submit([], id="r")
    with watching(url, tmp_path, "mail", "web", *RULES) as daemon:
        until(lambda: daemon.lines)
        client.delete(*client.scan_iter("redisq:{mail}*"))
        client.hdel("redisq:registry", "mail")
        until(lambda: len(daemon.lines) == 2)
        assert daemon.lines[1].startswith("UNKNOWN: no queue matches 'mail' (")
        dead_letters(client, 1, "web")
        until(lambda: len(daemon.lines) == 3)
        assert daemon.lines[2].startswith("WARNING: web: 1 dead, mostly SMTP; no queue matches ")


@pytest.mark.slow
def test_its_metrics_and_its_line_have_the_same_rules(
    url: str, client: redis.Redis, tmp_path: Path
) -> None:
    dead_letters(client, 3).configure("op", 1, {"paused": "db migration"})
    rules = tmp_path / "check.toml"
    rules.write_text("""
        [[check]]
        ignore = ["paused"]
        critical = ["dead>2"]
        warning = ["dead>1"]
        dead_letters = 4
        dead = 3
    """)
    with watching(url, tmp_path, "--rules", str(rules)) as daemon:
        with urlopen(daemon.address, timeout=30) as reply:
            metrics = reply.read().decode()
        broken = r'^redisq_queue_trouble{.*rule="(.*)",severity="(.*)"} 1.0$'
        assert sorted(re.findall(broken, metrics, re.M)) == [
            ("condition", "critical"),
            ("dying", "critical"),
        ]
        assert "dead>2" in daemon.lines[0] and "paused" not in daemon.lines[0]


@pytest.mark.slow
def test_it_outlives_its_server(hook: Hook, tmp_path: Path) -> None:
    with EmbeddedServer(BINARIES["valkey"]) as server, ExitStack() as stack:
        server.kill()
        daemon = stack.enter_context(watching(server.url, tmp_path))
        until(lambda: daemon.lines and hook.got)
        assert daemon.lines[0].startswith("UNKNOWN: can't reach the server: ")
        for life in (1, 2):
            server.restart()
            until(lambda life=life: (len(daemon.lines), len(hook.got)) == (2 * life, 2 * life))
            assert daemon.lines[-1].startswith("UNKNOWN: no queue is registered")
            assert hook.lines[-1].startswith("Resolved the server after ")
            with urlopen(daemon.address, timeout=30) as reply:
                assert b"redisq_up 1.0" in reply.read()
            server.kill()
            until(lambda life=life: (len(daemon.lines), len(hook.got)) == (2 * life + 1,) * 2)
            assert daemon.lines[-1].startswith("UNKNOWN: ")
            assert hook.lines[-1].startswith("Fix the server: ")
        with urlopen(daemon.address, timeout=30) as reply:
            assert b"redisq_up 0.0" in reply.read()
        daemon.process.send_signal(signal.SIGINT)
        assert daemon.process.wait(90) == 0


@pytest.mark.slow
def test_a_recipient_that_hangs_holds_up_neither_checks_nor_the_end(
    url: str, client: redis.Redis, hook: Hook, tmp_path: Path
) -> None:
    hook.answer = "hang"
    dead_letters(client, 1)
    with watching(url, tmp_path, *RULES) as daemon:
        until(lambda: hook.got)
        dead_letters(client, 1, "other")
        until(lambda: len(daemon.lines) == 2)
        assert len(hook.got) == 1
        daemon.process.terminate()
        assert daemon.process.wait(90) == 0
        assert daemon.said.count("no answer within 5 s") == 1


@pytest.mark.slow
def test_its_memory_does_not_grow(
    url: str, client: redis.Redis, hook: Hook, tmp_path: Path
) -> None:
    """Queues come and go, each with trouble: what is known of them goes, too."""
    told = Path(os.environ["XDG_STATE_HOME"]) / "redisq"
    with watching(url, tmp_path, *RULES) as daemon:
        sizes = []
        for round in range(4):
            before = len(daemon.lines)
            for n in range(40):
                dead_letters(client, 1, f"q{round}-{n}")
            until(lambda before=before: len(daemon.lines) > before)
            client.flushall()
            until(lambda: daemon.lines[-1].startswith("UNKNOWN: no queue is registered"))
            sizes.append(daemon.resident)
        (file,) = told.glob("*.json")

        def kept() -> list[str]:
            return [one["rule"] for one in json.loads(file.read_text())["recipients"]["team"]]

        until(lambda: kept() == ["gone"])
        assert sizes[-1] - sizes[0] < 8_000


def test_mistakes_are_one_line_before_it_begins(redisq: Redisq, configuration: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        in_use = redisq.refusal("watch", "--listen", listen, code=2)
    assert in_use == f"--listen {listen}: Address already in use"
    assert "at least 1s" in redisq.refusal("watch", "--interval", "10ms", code=2)
    assert "HOST:PORT" in redisq.refusal("watch", "--listen", "9808", code=2)
    missing = redisq.refusal("watch", "--rules", "absent.toml", code=2)
    assert missing.startswith("absent.toml: ")
    configuration.write_text('[notify.to.chat]\nurl = "nosuch://s3cret"\n')
    said = redisq.refusal("watch", "--listen", "127.0.0.1:0", code=2)
    assert said == "apprise can't use the url of notify.to.chat"


def test_a_wrong_password_ends_it_at_the_start(redisq: Redisq, client: redis.Redis) -> None:
    redisq.url = redisq.url.replace("redis://", "redis://nobody:wrong@")
    redisq("watch", "--listen", "127.0.0.1:0", "--for", "60s", code=1)
    assert redisq.err.endswith("\n") and "wrong user name or password" in redisq.err
    assert "serving" not in redisq.err  # said after the first check


def test_it_ends_after_a_time_and_says_that_nobody_is_told(redisq: Redisq) -> None:
    words = ("watch", "--listen", "127.0.0.1:0", "--for", "1ms")
    assert redisq(*words).startswith("UNKNOWN: no queue is registered")
    assert "nobody is told of trouble" in redisq.err and "\nserving http://127" in redisq.err
    (row,) = redisq.rows(*words)
    assert (row["status"], row["queues"], row["findings"]) == ("unknown", 0, [])
