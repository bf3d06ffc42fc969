"""`:` runs every command of `redisq`; keys begin the common ones."""

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import redis
from textual.pilot import Pilot
from textual.widgets import Input

from redisq_ops.cli.main import root_command
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.tui.app import Top
from redisq_ops.tui.command import command_line
from redisq_ops.tui.command.command_line import NOT_HERE, RowAddresses, parsed

from .test_app import bury, drive_in, press, see_line
from .test_real_terminal import Terminal, terminal

__all__ = ["terminal"]
pytestmark = pytest.mark.alike


def verbs() -> list[tuple[str, ...]]:
    """Every command that does something, as it is typed behind `redisq`."""
    found: list[tuple[str, ...]] = []

    def walk(command: Any, path: tuple[str, ...]) -> None:
        children = getattr(command, "commands", {})
        for name, child in children.items():
            walk(child, (*path, name))
        if not children:
            found.append(path)

    walk(root_command(), ())
    return found


@pytest.mark.parametrize("path", verbs(), ids=" ".join)
def test_every_verb_has_a_form_behind_the_colon(path: tuple[str, ...]) -> None:
    if path[0] in ("work", "top", "demo"):  # these take the terminal for good
        with pytest.raises(ValueError, match=NOT_HERE[path[0]]):
            parsed(shlex.join(path), RowAddresses())
    else:
        assert parsed(shlex.join(["redisq", *path, "%"]), RowAddresses(("q/1",))) == [*path, "q/1"]
    assert set(NOT_HERE) == {"work", "top", "demo"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("log", ["log"]),
        ("request limit % 20", ["request", "limit", "mail/r1", "mail/r2", "20"]),
        ("client cap %q acme 3", ["client", "cap", "mail", "acme", "3"]),
        ("purge --reason 'of no use' %", ["purge", "--reason", "of no use", "mail/r1", "mail/r2"]),
        ("dlq ls mail --where error~5%", ["dlq", "ls", "mail", "--where", "error~5%"]),
    ],
)
def test_signs_stand_for_rows_and_queue(line: str, words: list[str]) -> None:
    assert parsed(line, RowAddresses(("mail/r1", "mail/r2"), "mail")) == words


@pytest.mark.parametrize(
    ("line", "why"), [("replay %", "none"), ("ls %q", "none"), ("ls 'x", "No closing quotation")]
)
def test_what_stands_for_nothing_is_refused(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parsed(line, RowAddresses())


@pytest.mark.slow
def test_a_command_or_key_without_a_use_here_says_why(url: str, client: redis.Redis) -> None:
    bury(client, "r", 2)

    async def body(app: Top, pilot: Pilot[Exception]) -> None:
        line = app.query_one("#command", Input)
        await press(pilot, "5", "L")
        await see_line(pilot, "L Limit: it is for requests (2, 3) and clients (c).")
        await press(pilot, "T")
        await see_line(pilot, "only for delayed entries (view 6).")
        await press(pilot, "colon", *"top", "enter")
        await see_line(pilot, "the dashboard is open already")
        await press(pilot, "colon", "up")
        assert line.value == "top"

    drive_in(url, body, "5", queue="mail")


def test_it_is_run_with_the_same_server_and_rights(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\necho "$REDISQ_READ_ONLY $@" > {tmp_path}/ran\nexit 3\n')
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    monkeypatch.setattr(sys, "stdin", fake.open())
    command_line.run_in_terminal(["ls"], ["--url", "redis://h"], True)
    assert (tmp_path / "ran").read_text() == "true -P -m redisq_ops --url redis://h ls\n"


@pytest.mark.slow
def test_a_command_asks_in_the_terminal_and_the_dashboard_shows_what_it_did(
    terminal: Terminal, url: str, client: redis.Redis
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 9, id="r1", limit=4)
    terminal.start(url)
    terminal.send("3")
    terminal.see("0/4")
    terminal.send(":")
    terminal.send("-l", "request limit % 20")
    terminal.send("Enter")
    terminal.see("$ redisq request limit mail/r1 20", "[y/N]")
    assert terminal.modes == "0 0"
    terminal.send("y", "Enter")
    terminal.see("Enter goes back")
    terminal.send("Enter")
    terminal.see("0/20", "held/limit", "3 req", "Help")
    assert terminal.modes == "1 1"
    terminal.send(":")
    terminal.send("-l", "pending ls %q")
    terminal.send("Enter")
    terminal.see("ended with 0")
    terminal.send("C-c")  # for the command alone
    terminal.send("Enter")
    terminal.see("held/limit")
