"""The dashboard in a real terminal (tmux): what it reads, and how it leaves the terminal behind."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import redis

from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change import control
from redisq_ops.ops.change.audit_log import Author

from .test_app import bury

pytestmark = [pytest.mark.alike, pytest.mark.slow]

WAIT_S = 30


class Terminal:
    """A shell in a tmux server of its own, 120 by 30 cells."""

    def __init__(self, home: Path) -> None:
        self._tmux = ("tmux", "-u", "-L", f"redisq-{os.getpid()}-{home.name}", "-f", "/dev/null")
        shell = "env -u COLUMNS -u LINES PS1='$ ' sh"
        self.run("new-session", "-d", "-x", "120", "-y", "30", shell)

    def run(self, *words: str) -> str:
        done = subprocess.run((*self._tmux, *words), check=True, capture_output=True, text=True)
        return done.stdout

    def send(self, *keys: str) -> None:
        """Keys that arrive in one piece."""
        self.run("send-keys", *keys)

    def type(self, command: str) -> None:
        self.run("send-keys", "-l", command)
        self.send("Enter")

    def start(self, url: str, *words: str) -> None:
        """Open the dashboard, and wait for its first picture."""
        python = shlex.quote(sys.executable)
        self.type(f"{python} -m redisq_ops --url {url} top {' '.join(words)}; echo ended with $?")
        self.see(" 1 of ")

    @property
    def screen(self) -> str:
        return self.run("capture-pane", "-p")

    @property
    def modes(self) -> str:
        """Whether the alternate screen is shown, and whether the mouse is reported."""
        words = "#{alternate_on} #{mouse_any_flag} #{bracket_paste_flag}"
        return self.run("display-message", "-p", words).strip()[:3]

    @property
    def child(self) -> int:
        """The process that the shell runs."""
        shell = self.run("display-message", "-p", "#{pane_pid}").strip()
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def until(self, true: Callable[[], object]) -> None:
        end = time.monotonic() + WAIT_S
        while not true():
            assert time.monotonic() < end, f"it never came to that:\n{self.screen}"
            time.sleep(0.05)

    def see(self, *words: str) -> None:
        self.until(lambda: all(word in self.screen for word in words))


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.fail("these tests need tmux: apt-get install tmux")
    terminal = Terminal(tmp_path)
    try:
        yield terminal
    finally:
        subprocess.run((*terminal._tmux, "kill-server"), capture_output=True)


def test_keys_that_arrive_together_act_in_order(
    terminal: Terminal, url: str, client: redis.Redis
) -> None:
    for name in ("docs", "docs5", "mail"):
        bury(client, f"of-{name}", 2, name=name)
    terminal.start(url)
    terminal.see("3 queues")
    terminal.send("/", "d", "o", "c", "s", "Enter", "5")
    terminal.see("of-docs/1", "of-docs/2")
    terminal.send("/", "2", "Enter", "A", "X")
    terminal.see("Purge 1 dead entry of docs?")
    terminal.send("n", "1")
    terminal.see("/docs/ in 2 of 3")
    terminal.send("Escape")  # alone: with another key behind it, it would be Alt and that key
    terminal.see("mail")
    terminal.send("G", "Enter", "5", "/", "1", "Enter", "Space")
    terminal.see("of-mail/1", "/1/ in 1 of 2", "1 marked")
    assert "of-mail/2" not in terminal.screen


def test_a_stuck_queue_flows_after_t_enter_y(
    terminal: Terminal, url: str, client: redis.Redis
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 3, id="r1")
    run(client, control.pause(queue, Author("ada", "desk", "smtp is down")))
    assert queue.take(3, consumer="w1").deliveries == ()
    terminal.start(url)
    terminal.send("t")
    terminal.see("smtp is down", "redisq queue resume mail")
    terminal.send("Enter")
    terminal.see("Resume queue mail?")
    terminal.send("y")
    terminal.see("queue mail  open")
    assert len(queue.take(3, consumer="w1").deliveries) == 3


def test_a_payload_is_searched_and_filtered_by_beside_the_list(
    terminal: Terminal, url: str, client: redis.Redis
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b'{"at": {"region": "%b"}}' % name for name in (b"eu",) * 3], id="r1")
    for delivery in queue.take(3, consumer="w1").deliveries:
        queue.settle([Settlement(delivery, "reject", Failure("T", "m").encoded())])
    terminal.start(url)
    terminal.send("Enter", "5")
    terminal.see("r1/1", "r1/2")
    terminal.send("p")
    terminal.see("preview:", "payload", "region")
    terminal.send("Enter", "/", "r", "e", "g", "i", "o", "n", "Enter", "F")
    terminal.see('payload.at.region="eu"', "in 3 of 3")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_restores_the_terminal(
    terminal: Terminal, url: str, client: redis.Redis, number: signal.Signals
) -> None:
    bury(client, "r", 2)
    terminal.start(url)
    assert terminal.modes == "1 1"
    os.kill(terminal.child, number)
    terminal.see(f"ended with {128 + number}")
    assert terminal.modes == "0 0"
    terminal.type("echo $((6 * 7))")  # the shell reads and echoes as before
    terminal.see("echo $((6 * 7))", "42")


def test_a_crash_restores_the_terminal_and_prints_no_payload(
    terminal: Terminal, url: str, client: redis.Redis, tmp_path: Path
) -> None:
    bury(client, "r", 1)
    script = tmp_path / "crash.py"
    script.write_text(
        f"""
import sys
from redisq_ops.tui.outline import entry_tree
def broken(snapshot, *_):
    payload = snapshot.entry.entry.payload
    raise ZeroDivisionError("planted")
entry_tree.outline_sections = broken
from redisq_ops.cli.commands.top import main
sys.argv[1:] = ["--url", {url!r}]
main()
"""
    )
    terminal.type(f"{shlex.quote(sys.executable)} {script}; echo ended with $?")
    terminal.see("mail")
    terminal.send("Enter", "5")
    terminal.see("r/1")
    terminal.send("Enter")
    terminal.see("ended with 1", "planted")
    assert terminal.modes == "0 0"
    shown = terminal.run("capture-pane", "-p", "-S", "-500")
    assert "payload 0" not in shown and "crash.py" in shown


def test_suspended_it_leaves_the_terminal_and_comes_back(
    terminal: Terminal, url: str, client: redis.Redis
) -> None:
    bury(client, "r", 2)
    terminal.type("set -m")
    terminal.start(url)
    terminal.send("C-z")
    terminal.until(lambda: terminal.modes == "0 0")
    terminal.see("Stopped")
    terminal.type("fg")
    terminal.until(lambda: terminal.modes == "1 1")
    terminal.see("1 all", "waiting", "mail", "worst first", "Help")
    terminal.send("5")
    terminal.see("r/1")


def test_a_terminal_that_is_gone_does_not_keep_it(
    terminal: Terminal, url: str, client: redis.Redis
) -> None:
    bury(client, "r", 2)
    terminal.start(url)
    process = Path(f"/proc/{terminal.child}")
    terminal.run("kill-server")
    end = time.monotonic() + WAIT_S
    while process.exists() and "zombie" not in (process / "status").read_text():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_500_keys_in_all_views_leave_no_memory_behind(
    terminal: Terminal, url: str, client: redis.Redis
) -> None:
    """With Textual's own footer each key cost half a megabyte."""
    bury(client, "of-mail", 3, name="mail")
    terminal.start(url)
    terminal.see("mail")
    terminal.send("Enter")
    views = (*"234678905", "j", "k", "5") * 3

    def is_gone(words: str) -> bool:
        return words not in terminal.screen

    def round() -> int:
        terminal.send(*views)
        terminal.see("of-mail/1")
        for key, seen in (("t", "what helps"), ("/", "age>2h")):
            terminal.send(key)
            terminal.see(seen)
            terminal.send(
                "Escape"
            )  # alone: with another key behind it, it would be Alt and that key
            terminal.until(partial(is_gone, seen))
        return len(views) + 4

    def resident_mb() -> float:
        status = Path(f"/proc/{terminal.child}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    pressed = sum(round() for _ in range(2))
    before = resident_mb()
    pressed = sum(round() for _ in range(13))
    assert pressed > 500 and resident_mb() - before < 60
