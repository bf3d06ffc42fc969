"""Completion, as the shells ask for it: by the program itself, with what was typed."""

import os
import pty
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from redisq_ops.cli.main import run
from redisq_ops.core.queues.delay import DelaySet, Periodic
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue

from ..command_line import Redisq

pytestmark = pytest.mark.usefixtures("on_path")

HEAVY = {"redis", "rich.console", "textual", "asyncio", "tomllib"}


def completed(line: str, shell: str = "bash", code: str = "", **environment: str) -> list[str]:
    """What is offered for the last word of a line."""
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    asked = {
        "bash": {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    run = [sys.executable, "-c", f"{code}\nfrom redisq_ops.cli.main import main; main([])"]
    done = subprocess.run(
        run if code else ["redisq"],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, **asked, "_REDISQ_COMPLETE": f"complete_{shell}", **environment},
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.slow
def test_commands_and_their_options() -> None:
    assert completed("redisq rep") == ["report", "replay"]
    assert completed("redisq dlq ") == ["ls", "groups", "group", "acknowledge"]
    assert completed("redisq dlq replay --older") == ["--older-than"]
    assert completed("redisq requeue --state ") == ["pending", "delayed"]
    assert {"--dry-run", "--yes", "--rate"} <= set(completed("redisq purge --"))
    assert completed("redisq request re") == ["resume"]
    assert set(completed("redisq purge mail --state de")) == {"dead", "delayed"}
    assert completed("redisq --cont") == ["--context"]
    assert completed("redisq schema entry-d") == ["entry-details"]
    assert completed("redisq acl w") == ["worker"]
    assert completed("redisq --log-format j") == ["json"]
    assert completed("redisq dlq ls mail --where ta") == ["task="]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_every_shell_is_answered_in_its_own_words(shell: str) -> None:
    offered = "\n".join(completed("redisq expo", shell))
    assert "export" in offered and "explain" not in offered
    assert "JSON Lines" in offered  # what it does, where the shell can show that


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_is_told_to_ask(shell: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "redisq_ops", "--show-completion", shell],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0
    mark = {"bash": "COMPREPLY", "zsh": "#compdef redisq", "fish": "--no-files"}[shell]
    assert "_REDISQ_COMPLETE=complete_" in done.stdout and mark in done.stdout


class Shell:
    """A shell that thinks a person sits at it, with the completion that is installed for it."""

    def __init__(self, name: str, home: Path, url: str) -> None:
        program = home / "redisq"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m redisq_ops "$@"\n')
        program.chmod(0o755)
        environment = {
            **os.environ,
            "HOME": str(home),
            "PATH": f"{home}:{os.environ['PATH']}",
            "TERM": "dumb",
            "PS1": "> ",
            "REDIS_URL": url,
        }
        subprocess.run(
            ["redisq", "--install-completion", name],
            check=True,
            timeout=90,
            capture_output=True,
            env=environment,
        )
        self._pid, self._fd = pty.fork()
        if not self._pid:
            os.chdir(home)
            os.execvpe(name, [name, "-i"], environment)
        self._seen = ""
        os.write(self._fd, b"echo rea''dy\n")  # the line itself reads otherwise
        self._until("ready")

    def __enter__(self) -> "Shell":
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._fd)

    def tab(self, typed: str, expected: str) -> None:
        """Type it and TAB: the line becomes what is expected."""
        os.write(self._fd, typed.encode())
        self._until(expected, "\t")
        os.write(self._fd, b"\x15")  # an empty line again

    def _until(self, text: str, pressed: str = "") -> None:
        """``pressed`` now, and again after 5 s: a busy server's answer may come too late."""
        deadline = time.monotonic() + 60
        os.write(self._fd, pressed.encode())
        while text not in self._seen:
            assert time.monotonic() < deadline, self._seen
            if select.select([self._fd], [], [], 5)[0]:
                self._seen += os.read(self._fd, 65536).decode(errors="replace")
            else:
                os.write(self._fd, pressed.encode())
        self._seen = ""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ("bash", "zsh") if shutil.which(name)])
def test_the_shell_itself_completes(
    name: str, tmp_path: Path, url: str, client: redis.Redis
) -> None:
    client.sadd("resque:queues", "low")
    RequestQueue(client, "mail").submit([b"x"], id="r1")
    assert run(["--url", url, "discover", "--register", "--yes"]) == 0
    with Shell(name, tmp_path, url) as shell:
        shell.tab("redisq set", "redisq settings")  # the first one of a session
        shell.tab("redisq inspect resque:l", "resque:low")
        shell.tab("redisq dlq ls --queue=m", "--queue=mail")
        shell.tab('redisq dlq ls --where "error~a b" --old', "--older-than")
        (tmp_path / "plan.ndjson").touch()
        shell.tab("redisq apply pl", "plan.ndjson")


def test_what_is_in_the_program_loads_nothing_heavy() -> None:
    told = "import atexit, sys; atexit.register(lambda: print('|', *sys.modules))"
    loaded = completed("redisq purge --", code=told)[-1].split()
    assert loaded[0] == "|" and "typer" in loaded
    assert not set(loaded) & HEAVY


@pytest.mark.slow
def test_queues_come_from_the_server(url: str, client: redis.Redis) -> None:
    RequestQueue(client, "mail").submit([b"x"], id="r1")
    RequestQueue(client, "maps").submit([b"x"], id="r1")
    DelaySet(client, "later").schedule([("e1", b"x")])
    for line in (
        "purge --queue m",
        "inspect m",
        "queue pause m",
        "history m",
        "dlq ls m",
        "select m",
        "explain m",
        "workers ls m",
        "client ls m",
        "top --queue m",
    ):
        assert completed(f"redisq {line}", REDIS_URL=url) == ["mail", "maps"], line
    assert completed(f"redisq --url {url} settings l") == ["later"]
    assert completed(f"redisq dlq ls --url={url} l") == ["later"]
    assert completed("redisq purge mail/r", REDIS_URL=url) == ["mail/r1"]
    RequestQueue(client, "mail").take(1, consumer="w1")
    assert completed("redisq workers claim mail ", REDIS_URL=url) == ["w1"]
    FairQueue(client, "fair").submit("acme", [b"x"])
    assert completed("redisq client block fair a", REDIS_URL=url) == ["acme"]
    assert completed("redisq settings mail max_l") == ["max_lost="]
    DelaySet(client, "later").set_periodic(Periodic("report", "0 6 * * *", b""))
    assert completed("redisq periodic pause later/r", REDIS_URL=url) == ["later/report"]


@pytest.mark.slow
def test_what_can_be_undone_comes_from_the_server(
    url: str, client: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    RequestQueue(client, "mail").submit([b"x"] * 3, id="r1")
    redisq = Redisq(url, capsys)
    ops = [redisq.rows("purge", f"mail/r1/{n}", "--yes")[0]["op"] for n in (1, 2, 3)]
    redisq("undo", ops[2], "--yes")
    assert set(completed("redisq undo pur", REDIS_URL=url)) == set(ops[:2])
    assert completed(f"redisq undo {ops[0]}", REDIS_URL=url) == [ops[0]]


@pytest.mark.slow
def test_a_name_that_the_shell_would_act_on_is_not_offered(url: str, client: redis.Redis) -> None:
    """zsh evaluates the answer: two such names side by side are a command."""
    for name in ("mail", "mails\\", "mail;reboot;", "mail$(id)", "mail[a-z]"):
        RequestQueue(client, name).submit([b"x"], id="r1")
    assert completed("redisq history m", REDIS_URL=url) == ["mail"]
    assert "reboot" not in "".join(completed("redisq history m", "zsh", REDIS_URL=url))


@pytest.mark.slow
def test_contexts_come_from_the_file(configuration: Path) -> None:
    configuration.write_text(
        '[contexts.prod]\nurl = "${NOT_SET}"\n[contexts.staging]\n[contexts.paper]\n'
    )
    assert completed("redisq --context p") == ["paper", "prod"]
    configuration.write_text("not toml")
    assert completed("redisq --context p") == []


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.slow
def test_a_server_that_is_not_there_is_no_answer(silent: str) -> None:
    """The silent one is left alone in good time: far sooner than its connection times out."""
    assert completed("redisq history m", REDIS_URL="redis://127.0.0.1:1") == []
    before = time.monotonic()
    assert completed("redisq history m", REDIS_URL=silent) == []
    assert time.monotonic() - before < 10
    assert completed("redisq history m", REDIS_URL="nonsense://") == []
