"""What was told survives a restart; two checks at once don't tell twice."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from redisq_ops.ops.check.standing import Standing
from redisq_ops.ops.notify.episode import Checked
from redisq_ops.ops.notify.message import Message
from redisq_ops.ops.notify.notifier import Notifier
from redisq_ops.ops.notify.sending import Sender
from redisq_ops.ops.notify.settings import Recipient
from redisq_ops.ops.notify.told_file import locked, told_path
from redisq_ops.ops.trouble.finding import Severity

from ...hook import Hook

TROUBLE = Standing("mail", "no-worker", Severity.CRITICAL, "no worker for 8 m")
BROKEN = Checked([TROUBLE], births={"mail": 1})
FINE = Checked([Standing("mail", "no-worker", Severity.CRITICAL, None)], births={"mail": 1})


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    yield hook
    hook.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "redisq" / "notify.json"


def notifier(hook: Hook, path: Path, now_ms: int = 0, patience_s: float = 30) -> Notifier:
    recipient = Recipient("team", webhook=hook.url)
    return Notifier((recipient,), "prod", path, lambda: now_ms, Sender(patience_s))


def test_what_was_told_survives_a_restart_in_a_private_file(hook: Hook, path: Path) -> None:
    for at in (0, 1, 300_000, 300_001):
        assert notifier(hook, path, at).tell(BROKEN) == []
    assert [each["findings"][0]["news"] for each in hook.got] == ["new", "still"]
    assert [file.stat().st_mode & 0o777 for file in path.parent.iterdir()] == [0o600, 0o600]
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_target_that_fails_is_one_line_and_is_told_by_the_next_check(
    hook: Hook, path: Path
) -> None:
    hook.answer = 500
    line = "notify team: it answered 500; tried again with the next check"
    assert [notifier(hook, path).tell(BROKEN) for _ in range(2)] == [[line], [line]]
    hook.answer = 200
    assert [notifier(hook, path).tell(BROKEN) for _ in range(2)] == [[], []]
    assert [each["findings"][0]["news"] for each in hook.got] == ["new"] * 3


def test_one_target_that_fails_leaves_the_others_alone(hook: Hook, path: Path) -> None:
    bad = Hook(500)
    recipients = (Recipient("bad", webhook=bad.url), Recipient("good", webhook=hook.url))
    for _ in range(2):
        (line,) = Notifier(recipients, "prod", path, lambda: 0).tell(BROKEN)
        assert line.startswith("notify bad: ")
    assert (len(hook.got), len(bad.got)) == (1, 2)
    bad.close()


TELL = """
import sys
from pathlib import Path
from tests.ops.notify.test_notifier import BROKEN, Notifier, Recipient
recipient = Recipient("team", webhook=sys.argv[1])
sys.stdin.readline()
Notifier((recipient,), "prod", Path(sys.argv[2]), lambda: 0).tell(BROKEN)
"""


@pytest.mark.slow
def test_checks_at_the_same_time_tell_once(hook: Hook, path: Path) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", TELL, hook.url, str(path)], stdin=subprocess.PIPE, text=True
        )
        for _ in range(6)
    ]
    for each in racers:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    assert [each.wait(60) for each in racers] == [0] * 6
    for each in racers:
        assert each.stdin is not None
        each.stdin.close()
    assert len(hook.got) == 1


def test_a_check_while_another_one_tells_is_silent(hook: Hook, path: Path) -> None:
    with locked(path) as alone:
        assert alone
        assert notifier(hook, path).tell(BROKEN) == []
    assert hook.got == []
    notifier(hook, path).tell(BROKEN)
    assert len(hook.got) == 1


@pytest.mark.parametrize(
    "damage",
    [b"{", b"\xff", b"[" * 100_000, b"[]", b'{"team": [{}]}', b'{"team": 5}'],
)
def test_a_damaged_file_is_named_and_all_is_told_again(
    damage: bytes, hook: Hook, path: Path
) -> None:
    notifier(hook, path).tell(BROKEN)
    path.write_bytes(damage)
    (line,) = notifier(hook, path).tell(BROKEN)
    assert line.startswith(f"notify: {path} is damaged: ") and line.endswith("told again")
    assert notifier(hook, path).tell(BROKEN) == []
    assert len(hook.got) == 2


def test_a_severity_that_there_is_not_is_damage(hook: Hook, path: Path) -> None:
    notifier(hook, path).tell(BROKEN)
    kept = json.loads(path.read_text())
    kept["recipients"]["team"][0]["severity"] = 7
    path.write_text(json.dumps(kept))
    assert "is damaged" in notifier(hook, path).tell(BROKEN)[0]


def test_without_a_file_to_write_nobody_is_told_every_minute(hook: Hook, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    (line,) = notifier(hook, tmp_path / "state" / "redisq" / "notify.json").tell(BROKEN)
    assert line.startswith(f"notify: {tmp_path / 'state'}") and line.endswith("nobody was told")
    (tmp_path / "notify.json").mkdir()
    (line,) = notifier(hook, tmp_path / "notify.json").tell(BROKEN)
    assert line.endswith("nobody was told") and hook.got == []


def test_each_deployment_has_a_file_of_its_own(tmp_path: Path) -> None:
    there = {"XDG_STATE_HOME": str(tmp_path)}
    one, other = told_path("redis://a redisq", there), told_path("redis://b redisq", there)
    assert one != other and one.parent == other.parent == tmp_path / "redisq"


def test_targets_of_another_configuration_are_kept(hook: Hook, path: Path) -> None:
    notifier(hook, path).tell(BROKEN)
    Notifier((Recipient("other", webhook=hook.url),), "prod", path, lambda: 0).tell(BROKEN)
    notifier(hook, path).tell(BROKEN)
    assert len(hook.got) == 2


@pytest.mark.parametrize("spoilt", [False, True])
def test_a_daemon_tells_once_also_while_its_file_cannot_be_written(
    spoilt: bool, hook: Hook, tmp_path: Path
) -> None:
    """``spoilt``: the file was fine before."""
    path, clock = tmp_path / "state" / "notify.json", iter(range(0, 1_000_000, 20_000))
    to = (Recipient("team", webhook=hook.url),)
    daemon = Notifier(to, "prod", path, lambda: next(clock), Sender(30), lasting=True)
    if spoilt:
        daemon.tell(BROKEN)
        shutil.rmtree(path.parent)
    path.parent.write_text("no folder")
    said = [line for _ in range(3) for line in daemon.tell(BROKEN)]
    assert len(said) == 3 and all("forgotten when this process ends" in line for line in said)
    for _ in range(5):
        daemon.tell(FINE)
    assert [each["findings"][0]["news"] for each in hook.got] == ["new", "resolved"]


def test_what_cannot_be_written_down_after_it_was_sent_is_not_called_untold(
    hook: Hook, path: Path
) -> None:
    class Removing(Sender):
        def send(self, messages: Mapping[Recipient, Message]) -> dict[str, str | None]:
            failed = super().send(messages)
            shutil.rmtree(path.parent)
            return failed

    one = Notifier((Recipient("team", webhook=hook.url),), "prod", path, lambda: 0, Removing(30))
    (line,) = one.tell(BROKEN)
    assert line.endswith("what was told now may be told again") and len(hook.got) == 1


def test_a_file_that_was_removed_is_begun_anew(hook: Hook, path: Path) -> None:
    for _ in range(2):
        assert notifier(hook, path).tell(BROKEN) == []
        path.unlink()
    assert len(hook.got) == 2
