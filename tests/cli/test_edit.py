"""Payloads put right from the command line: in an editor, given, or patched over many."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import Unfit
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.ops.change import edit
from redisq_ops.ops.change.json_patch import Patch

from ..command_line import ERROR, Redisq

pytestmark = pytest.mark.alike

PAYLOADS = [
    b'{"to": "ann", "region": "us", "n": 1}',
    b'{"to":"b\xc3\xb6b","region":"us","n":2}',
    b"not JSON",
    b'{"to": "eve", "n": 3}',
    b"\x00\xff",
]
PATCH = json.dumps([{"op": "replace", "path": "/region", "value": "eu"}])


@pytest.fixture
def queue(client: redis.Redis) -> RequestQueue[redis.Redis]:
    """A request with five dead entries."""
    queue = RequestQueue(client, "mail")
    queue.submit(PAYLOADS, id="r1", limit=10)
    taken = queue.take(10, consumer="w").deliveries
    queue.settle([Settlement(one, "reject", ERROR.encoded()) for one in taken])
    return queue


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the editor a program of these lines; `text` is the file's content."""

    def runs(*lines: str) -> None:
        script = tmp_path / "editor.py"
        body = "\n".join(lines)
        script.write_text(
            "import pathlib, sys\npath = pathlib.Path(sys.argv[1])\ntext = path.read_text()\n"
            f"{body}\npath.write_text(text)\n"
        )
        monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
        monkeypatch.delenv("VISUAL", raising=False)

    return runs


def payloads(queue: Any, state: Any = "dead") -> list[bytes]:
    return [entry.payload for entry in queue.page(state, None, 500, payloads=True).entries]


def test_an_editor_changes_one_payload(redisq: Redisq, queue: Any, editor: Any) -> None:
    editor("text = text.replace('us', 'eu') + chr(10)")
    out = redisq("dlq", "edit", "mail/r1/1", "--yes", "--reason", "wrong region")
    assert "1 of 1" in out
    assert payloads(queue)[0] == b'{"to": "ann", "region": "eu", "n": 1}'
    assert '-  "region": "us"' in redisq.err and '+  "region": "eu"' in redisq.err
    assert "wrong region" in redisq("log")
    redisq("undo", "--yes")
    assert payloads(queue) == PAYLOADS


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        (["text += chr(10)"], 0, ""),
        (["sys.exit(3)"], 1, "ended with 3: nothing was changed"),
        (
            ["import os, signal, time", "os.kill(os.getppid(), signal.SIGINT)", "time.sleep(60)"],
            130,
            "interrupted, nothing was changed",
        ),
    ],
)
def test_an_editor_that_changes_nothing(
    redisq: Redisq,
    queue: Any,
    editor: Any,
    lines: list[str],
    code: int,
    said: str,
) -> None:
    editor(*lines)
    redisq("dlq", "edit", "mail/r1/1", "--yes", code=code)
    assert said in redisq.err
    assert payloads(queue) == PAYLOADS
    assert not redisq.rows("log")


@pytest.mark.slow
@pytest.mark.usefixtures("on_path")
def test_an_edit_that_was_made_meanwhile_is_not_overwritten(
    redisq: Redisq, queue: Any, editor: Any, url: str
) -> None:
    words = "dlq edit mail/r1/1 --payload fixed-by-a-colleague --yes --url"
    theirs = [*words.split(), url]
    editor(
        "import subprocess",
        f"subprocess.run(['redisq', *{theirs!r}], check=True)",
        "text = text.replace('us', 'eu')",
    )
    out = redisq("dlq", "edit", "mail/r1/1", "--yes", code=1)
    assert "nothing would change" in out and "1 changed" in out
    assert payloads(queue) == [b"fixed-by-a-colleague", *PAYLOADS[1:]]


@pytest.mark.parametrize(
    ("named", "said"),
    [("vi '", "EDITOR=vi '"), ("/no/such", "No such"), ("rm", "no file to read: No")],
)
def test_an_editor_that_is_none(
    redisq: Redisq, queue: Any, monkeypatch: pytest.MonkeyPatch, named: str, said: str
) -> None:
    monkeypatch.setenv("EDITOR", named)
    monkeypatch.delenv("VISUAL", raising=False)
    assert said in redisq.refusal("dlq", "edit", "mail/r1/1", "--yes", code=1)
    assert payloads(queue) == PAYLOADS


def test_what_is_no_text_needs_another_way(redisq: Redisq, queue: Any, tmp_path: Path) -> None:
    assert "no terminal for an editor" in redisq.refusal("dlq", "edit", "mail/r1/5", code=2)
    file = tmp_path / "new"
    file.write_bytes(b"\x01\xfe")
    redisq("dlq", "edit", "mail/r1/5", "--payload", f"@{file}", "--yes")
    assert payloads(queue)[4] == b"\x01\xfe"
    assert "No such file" in redisq.refusal(
        "dlq", "edit", "mail/r1/5", "--payload", "@/no/file", "--yes", code=2
    )


@pytest.mark.parametrize(
    "words",
    [
        "dlq edit mail/r1/5 --yes --payload @FILE",
        "dlq edit mail/r1/5 --yes --payload -",
        "dlq edit mail/r1/5 --yes --patch @FILE",
        "delay add later/a - --in 1h",
        "periodic add later/a - --every 1h",
        "--config FILE ls",
    ],
)
def test_a_file_that_is_given_is_read_up_to_a_length(
    redisq: Redisq, queue: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setattr("redisq_ops.core.model.bounded_read.LARGEST_FILE", 1 << 20)
    file = tmp_path / "long"
    file.write_bytes(b"#" * (1 << 20) + b"#")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=file.open("rb"), isatty=lambda: False))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    if words.startswith("--config"):
        (tmp_path / "none" / "redisq").mkdir(parents=True)
        file.rename(tmp_path / "none" / "redisq" / "config.toml")
        words = "ls"
    said = redisq.refusal(*words.replace("FILE", str(file)).split(), code=2)
    assert "has more than 1 MiB" in said
    assert payloads(queue) == PAYLOADS


def test_rules_of_a_check_are_read_up_to_a_length(redisq: Redisq, tmp_path: Path) -> None:
    file = tmp_path / "long"
    with file.open("wb") as sparse:
        sparse.truncate((64 << 20) + 1)
    said = redisq("check", "--rules", str(file), code=3)
    assert f"UNKNOWN: {file} has more than 64 MiB" in said


def test_a_patch_changes_those_it_fits(redisq: Redisq, queue: Any) -> None:
    shown = redisq("dlq", "edit", "mail", "--patch", PATCH, "--dry-run")
    assert '-  "region": "us"' in shown and "(not JSON: stays as it is)" in shown
    assert "edit 2 of 5 dead entries of mail (filter: all)\n" in shown
    assert "  3 stay as they are: 2 not JSON, 1 the patch doesn't apply\n" in shown
    (plan,) = redisq.rows("dlq", "edit", "mail", "--patch", PATCH, "--dry-run")
    assert (plan["matched"], plan["changes"]) == (5, 2)
    assert payloads(queue) == PAYLOADS
    (ended,) = redisq.rows("dlq", "edit", "mail", "--patch", PATCH, "--yes", code=3)
    assert (ended["matched"], ended["done"]) == (5, 2)
    assert ended["skipped"] == {"not JSON": 2, "the patch doesn't apply": 1}
    assert payloads(queue) == [
        b'{"to": "ann", "region": "eu", "n": 1}',
        b'{"to":"b\xc3\xb6b","region":"eu","n":2}',
        *PAYLOADS[2:],
    ]
    redisq("dlq", "replay", "mail/r1/2", "--yes")
    (taken,) = queue.take(1, consumer="w").deliveries
    assert json.loads(taken.payload)["region"] == "eu"
    # Replayed since: that one keeps what it was given.
    (back,) = redisq.rows("undo", ended["op"], "--yes", code=3)
    assert (back["done"], back["skipped"]) == (1, {"changed": 1})
    assert payloads(queue)[0] == PAYLOADS[0]


def test_where_nothing_would_change_nothing_is_asked_or_written(
    redisq: Redisq, queue: Any, client: redis.Redis
) -> None:
    none = ("dlq", "edit", "mail", "--match", "zzz", "--patch", PATCH)
    assert redisq(*none).startswith("0 matched: edit 0 dead entries of mail (filter: match 'zzz')")
    assert redisq.rows(*none, "--dry-run")[0]["changes"] == redisq.rows(*none)[0]["matched"] == 0
    fits_none = '[{"op": "remove", "path": "/nowhere"}]'
    said = redisq("dlq", "edit", "mail", "--patch", fits_none, code=1)  # nor has it asked for --yes
    assert said.startswith("nothing would change: edit 0 of 5 dead entries of mail")
    redisq("dlq", "edit", "mail", "--patch", "[]", code=1)  # two aren't JSON, and nothing was done
    same = '[{"op": "replace", "path": "/n", "value": 1}]'
    (row,) = redisq.rows("dlq", "edit", "mail/r1/1", "--patch", same)
    assert (row["matched"], row["done"], row["skipped"]) == (1, 0, {"same": 1})
    assert redisq.rows("log") == [] and payloads(queue) == PAYLOADS


def test_a_large_selection_goes_in_bounded_steps(
    redisq: Redisq,
    client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(edit, "STEP_BYTES", 100)
    queue = DelaySet(client, "later")
    queue.schedule([(f"e{n}", b'{"n": %d}' % n) for n in range(120)], after=3600)
    patch = json.dumps([{"op": "add", "path": "/seen", "value": True}])
    (ended,) = redisq.rows("delay", "edit", "later", "--patch", patch, "--yes")
    assert ended["done"] == 120
    assert set(payloads(queue, "delayed")) == {b'{"n": %d, "seen": true}' % n for n in range(120)}
    (back,) = redisq.rows("undo", "--yes")
    assert back["done"] == 120
    assert set(payloads(queue, "delayed")) == {b'{"n": %d}' % n for n in range(120)}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["mail", "--patch", "{"], 2, "--patch is not JSON"),
        (["mail", "--patch", "[" * 100_000], 2, "--patch is not JSON"),
        (
            ["mail", "--patch", '[{"op": "add", "path": "/a", "value": NaN}]'],
            2,
            "--patch is not JSON: NaN is no number",
        ),
        (["mail", "--patch", '{"op": "add"}'], 2, "--patch is a list of operations"),
        (["mail", "--patch", '[{"op": "turn", "path": "/a"}]'], 2, "--patch: "),
        (["mail", "--patch", '[{"op": "add", "path": "a", "value": 1}]'], 2, "--patch: "),
        (["mail", "--patch", PATCH, "--payload", "x"], 2, "either --patch or --payload"),
        (["mail", "--payload", "x"], 2, "5 entries: name one, or use --patch"),
        (["mail/r1/1", "--payload", "x"], 5, "no terminal to ask on"),
        (["mail/r1/9", "--payload", "x", "--yes"], 1, "no entry r1/9"),
    ],
)
def test_bad_input_changes_nothing(
    redisq: Redisq,
    queue: Any,
    words: list[str],
    code: int,
    said: str,
) -> None:
    redisq("dlq", "edit", *words, code=code)
    assert said in redisq.err.splitlines()[-1]
    assert payloads(queue) == PAYLOADS


def test_keys_that_are_there_twice_are_left_alone() -> None:
    with pytest.raises(Unfit, match="not JSON"):
        Patch.parse(PATCH)(b'{"region": 1, "region": 2}')


def test_numbers_and_text_come_through_a_patch() -> None:
    patch = Patch.parse('[{"op": "add", "path": "/a", "value": "\\u00e9"}]')
    assert patch(b'{"big": 123456789012345678901234567890}') == (
        b'{"big": 123456789012345678901234567890, "a": "\xc3\xa9"}'
    )


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        (b'{"a": 1}', "true", b'{"a": true}'),
        (b'{"a": true}', "1", b'{"a": 1}'),
        (b'{"a":1}', "1.0", b'{"a":1.0}'),
        (b'{"a":1}', '"\\ud800"', b'{"a": "\\ud800"}'),
        (b'{"a": 1, "x": 0.10000000000000001}', "2", b'{"a": 2, "x": 0.1}'),
    ],
)
def test_a_patch_changes_what_it_says(before: bytes, value: str, after: bytes) -> None:
    text = f'[{{"op": "replace", "path": "/a", "value": {value}}}]'
    assert Patch.parse(text)(before) == after


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b'{"a": 1, "sum": 1234567890.123456789012345678}', "lose digits"),
        (b'{"a": 1, "sum": 1e400}', "lose digits"),
        (b'{"a": 1, "x": ' + b"[" * 600 + b"]" * 600 + b"}", "nested too deeply"),
        ('{"a": 1}'.encode("utf-16"), "not JSON"),
        (b"\xef\xbb\xbf" + b'{"a": 1}', "not JSON"),
    ],
)
def test_what_would_come_back_spoilt_is_left_alone(payload: bytes, why: str) -> None:
    with pytest.raises(Unfit, match=why):
        Patch.parse('[{"op": "add", "path": "/b", "value": 2}]')(payload)


def test_a_patch_is_the_same_for_every_entry() -> None:
    patch = Patch.parse(
        '[{"op": "add", "path": "/m", "value": []}, {"op": "add", "path": "/m/-", "value": 1}]'
    )
    assert [patch(b"{}") for _ in range(3)] == [b'{"m":[1]}'] * 3
