"""Files from others, mutated: each ends in a result or in one clear sentence, and soon.

``REDISQ_FUZZ=500 pytest tests/ops/files/test_fuzz.py`` tries as many mutations of each format; the
suite tries a few. Number k of a format is always the same.
"""

import json
import os
import random
import signal
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import redis

from redisq_ops.cli.outcome_report import OutcomeReport
from redisq_ops.core.model.errors import BadInput, Unfit
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change.json_patch import Patch
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.recording.file import RecordingFile, span_ms
from redisq_ops.ops.recording.history import RecordedHistory
from redisq_ops.ops.recording.sampler import Sampler

from ...command_line import Redisq, dead_letters, everywhere
from ...sealed_files import rows_of, warped_row

pytestmark = pytest.mark.slow

TRIES = int(os.environ.get("REDISQ_FUZZ", "12"))
SECONDS = 20
"""for one try: a hang, not slowness, takes that long"""
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 10**14, 2**63, 10**30, 0.5, -1e300, float("nan"), "", "x", "é",
    "\ud800", "\udc80", "a b", "../x", "{}", "0", "-", "x" * 5000, [], [[]], [None], {}, {"x": 1},
    {"": None}, [1, "x", None], "\x1b[2J", "0" * 400,
]  # fmt: skip
PUT_IN = [b"\0", b"[" * 100_000, b'"', b"\n", b"\xff", b"9" * 5000]
ENDS = {0, 1, 2, 3, 5}
"""exit codes that a bad file may have; 5: it was good, and would be confirmed"""


class Hang(BaseException):
    """It took too long."""


@contextmanager
def soon() -> Iterator[None]:
    def late(number: int, frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, cut out, doubled, or put in."""
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at, end = sorted((rng.randrange(len(found) + 1), rng.randrange(len(found) + 1)))
        match rng.randrange(6):
            case 0 | 1 | 2 if at < len(found):
                found[at] ^= 1 << rng.randrange(8)
            case 3:
                del found[at : at + rng.choice([1, 4, 50, 10**6])]
            case 4:
                found[at:at] = found[at : min(end, at + 200)]
            case _:
                found[at:at] = rng.choice(
                    [b"\0", b"[" * 100_000, b'"', b"\n", b"\xff", b"9" * 5000]
                )
    return bytes(found)


def warped(value: Any, rng: random.Random) -> Any:
    """JSON with one part changed to something odd, left out, or added."""
    if not isinstance(value, (dict, list)) or not value or rng.random() < 0.15:
        return rng.choice(ODD)
    if isinstance(value, list):
        at = rng.randrange(len(value))
        return [warped(each, rng) if k == at else each for k, each in enumerate(value)]
    key = rng.choice(sorted(value))
    kept = {name: each for name, each in value.items() if name != key}
    match rng.randrange(8):
        case 0:
            return kept
        case 1:
            return value | {rng.choice(["x", "", "redisq", "\ud800"]): rng.choice(ODD)}
        case _:
            return kept | {key: warped(value[key], rng)}


def warped_line(data: bytes, rng: random.Random) -> bytes:
    """One line of NDJSON changed, still JSON."""
    rows = data.splitlines()
    at = rng.randrange(len(rows))
    rows[at] = json.dumps(warped(json.loads(rows[at]), rng)).encode()
    return b"\n".join(rows) + b"\n"


def each(name: str) -> Iterator[tuple[int, random.Random]]:
    for k in range(TRIES):
        yield k, random.Random(f"{name} {k}")


def ends_well(redisq: Redisq, k: int, *words: str) -> int:
    """The exit code; fails for a traceback, a hang, or an error that nobody expected."""
    with soon():
        redisq(*words, code=None)
    assert redisq.code in ENDS, (k, redisq.code, redisq.err)
    assert "unexpected error" not in redisq.err and "Traceback" not in redisq.err, (k, redisq.err)
    if redisq.code == 2:
        assert redisq.err.count("\n") == 1 and len(redisq.err) < 1500, (k, redisq.err)
    return redisq.code


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- recordings ----------------------------------------------------------------------------------


@pytest.fixture
def recording(client: redis.Redis, here: Path) -> Path:
    everywhere(client)
    DelaySet(client, "later").schedule([("e1", b"x")], after=60)
    sampler = Sampler(Deployment(client))
    path = here / "r"
    with closing(RecordingFile(str(path), 1 << 30)) as file:
        for _ in range(6):
            file.add(run(client, sampler.sample()))
    return path


def played_back(redisq: Redisq, k: int, path: Path) -> set[int]:
    looks = [
        ("recording", "show", str(path)),
        ("recording", "show", str(path), "workers"),
        ("recording", "show", str(path), "log", "--diff", "1s"),
        ("recording", "show", str(path), "--diff", "5s", "--json"),
    ]
    codes = {ends_well(redisq, k, *words) for words in looks}
    with soon(), suppress(BadInput):
        for at_ms in span_ms(path):
            assert 0 <= at_ms < 10**14
            RecordedHistory(path).rates(None, at_ms + 1000, 60)
    return codes


@pytest.mark.alike
def test_recordings(redisq: Redisq, recording: Path) -> None:
    data = recording.read_bytes()
    codes = set[int]()
    for k, rng in each("recording"):
        recording.write_bytes(mutated(data, rng))
        codes |= played_back(redisq, k, recording)
    assert codes


@pytest.mark.alike
def test_recordings_that_somebody_made(redisq: Redisq, recording: Path) -> None:
    """Whole ones, with other samples."""
    data = recording.read_bytes()
    for k, rng in each("lines"):
        recording.write_bytes(data)
        with closing(sqlite3.connect(recording)) as db, db:
            id, packed = rng.choice(db.execute("SELECT id, line FROM sample").fetchall())
            line = json.dumps(warped(json.loads(zlib.decompress(packed)), rng))
            put = "UPDATE sample SET line = ? WHERE id = ?"
            db.execute(put, (zlib.compress(line.encode()), id))
            if not k % 3:
                field, odd = rng.choice(["at_ms", "whole", "line"]), rng.choice(ODD[:7])
                db.execute(f"UPDATE sample SET {field} = ? WHERE id = ?", (odd, id))
        played_back(redisq, k, recording)


def test_a_small_recording_does_not_unpack_to_anything(redisq: Redisq, recording: Path) -> None:
    pack = zlib.compressobj(1)
    bomb = b"".join(pack.compress(b" " * (1 << 20)) for _ in range(80)) + pack.flush()
    with closing(sqlite3.connect(recording)) as db, db:
        db.execute("UPDATE sample SET line = ?", (bomb,))
    assert "is damaged: sample 1" in redisq.refusal("recording", "show", str(recording), code=2)


# --- plans ---------------------------------------------------------------------------------------


@pytest.mark.alike
@pytest.mark.parametrize("whole", [False, True])
def test_plans(redisq: Redisq, client: redis.Redis, here: Path, whole: bool) -> None:
    dead_letters(client, 3)
    redisq("replay", "mail", "--plan", "p")
    data, codes = Path("p").read_bytes(), set[int]()
    rows = rows_of(Path("p"))
    for k, rng in each("plan"):
        Path("p").write_bytes(warped_row(rows, rng, warped) if whole else mutated(data, rng))
        codes.add(ends_well(redisq, k, "apply", "p"))
        codes.add(ends_well(redisq, k, "apply", "p", "--dry-run", "--json"))
    assert 2 in codes
    assert client.zcard("redisq:{mail}:dead") == 3


@pytest.mark.alike
@pytest.mark.parametrize("change", [mutated, warped_line])
def test_reports(
    redisq: Redisq,
    client: redis.Redis,
    here: Path,
    change: Callable[[bytes, random.Random], bytes],
) -> None:
    """A later run continues a report from its last entry."""
    dead_letters(client, 3)
    redisq("replay", "mail", "--plan", "p")
    redisq("apply", "p", "--yes", "--report", "r")
    data = Path("r").read_bytes()
    for k, rng in each("report"):
        Path("r").write_bytes(change(data, rng))
        ends_well(redisq, k, "apply", "p", "--yes", "--report", "r")


@pytest.mark.parametrize(
    "line", [b"5", b"[" * 50_000, b'{"said": 1}'], ids=["number", "deep", "no id"]
)
def test_a_report_continues_behind_a_line_that_is_no_entry(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "r"
    path.write_bytes(
        b'{"redisq": "report", "version": 1, "op": "o"}\n{"id": "a", "said": "moved"}\n%s\n' % line
    )
    report = OutcomeReport(str(path), "o")
    report.close()
    assert report.last == "a"


# --- exports, submissions ------------------------------------------------------------------------


@pytest.mark.alike
@pytest.mark.parametrize("change", [mutated, warped_line])
def test_exports(
    redisq: Redisq,
    client: redis.Redis,
    here: Path,
    change: Callable[[bytes, random.Random], bytes],
) -> None:
    everywhere(client)
    DelaySet(client, "later").schedule([("e1", b"x"), ("e2", b"\xff")], after=60)
    redisq("export", "mail", "later", "--raw-payloads", "-o", "x")
    data, codes = Path("x").read_bytes(), set[int]()
    for k, rng in each("export"):
        client.flushall()
        Path("x").write_bytes(change(data, rng))
        codes.add(ends_well(redisq, k, "import", "x", "--as-waiting", "--yes"))
    assert codes >= {0, 2}


@pytest.mark.alike
def test_submissions(redisq: Redisq, client: redis.Redis, here: Path) -> None:
    for k, rng in each("submit"):
        Path("s").write_bytes(mutated(b"one\ntwo\n\nthree\r\n\xff\0\n", rng))
        for more in ([], ["--per-line"], ["--split", "2"]):
            ends_well(redisq, k, "submit", "s", "--dry-run", "--max-payload", "4096", *more)


# --- configuration, patches, undo records --------------------------------------------------------

CONFIG = b"""
queue = "mail"
read_only = false
redact.keys = ["iban"]

[contexts.prod]
url = "redis://127.0.0.1:1/0"
max_rate = 10

[dashboard]
theme = "light"
refresh = "2s"
preview = "closed"

[dashboard.keys]
explain = "u"

[dashboard.columns]
dead = ["id", "error", "since"]

[dashboard.filters]
1 = "error~timeout age>2h"

[dashboard.alerts]
notify = ["bell", "osc9"]

[[dashboard.alerts.check]]
queues = "mail*"
critical = ["dead>100"]
"""


@pytest.mark.alike
def test_configurations(redisq: Redisq, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from redisq_ops.ops.config.file import config_path, read_file
    from redisq_ops.tui.settings_file import read_settings

    monkeypatch.setenv("XDG_CONFIG_HOME", str(here))
    (here / "redisq").mkdir()
    codes = set[int]()
    for k, rng in each("config"):
        text = mutated(CONFIG, rng)
        if rng.random() < 0.6:  # a value of another type
            lines = CONFIG.splitlines()
            at = rng.choice([n for n, line in enumerate(lines) if b" = " in line])
            odd = rng.choice(
                [
                    "1",
                    "-1",
                    "true",
                    '""',
                    '"x"',
                    "[]",
                    "[1]",
                    "{}",
                    "{x=1}",
                    "nan",
                    "1979-05-27",
                    '["x", 1]',
                    "9" * 30,
                    '"\\u0000"',
                    "inf",
                ]
            )
            lines[at] = lines[at].partition(b" = ")[0] + b" = " + odd.encode()
            text = b"\n".join(lines)
        config_path().write_bytes(text)
        codes.add(ends_well(redisq, k, "config"))
        with soon():
            try:
                read_settings(read_file(config_path())[0].get("dashboard", {}), "here")
            except BadInput as error:
                assert "\n" not in str(error), k
    assert codes >= {0, 2}


PATCH = b"""[
{"op": "test", "path": "/a/0", "value": 1}, {"op": "add", "path": "/a/-", "value": {"x": 2}},
{"op": "move", "from": "/b", "path": "/c"}, {"op": "copy", "from": "/c", "path": "/d~1~0"},
{"op": "replace", "path": "/a/1", "value": [1.5]}, {"op": "remove", "path": "/c"}]"""


def test_patches() -> None:
    payload = b'{"a": [1, 2], "b": {"y": null}}'
    for k, rng in each("patch"):
        text = (
            mutated(PATCH, rng)
            if k % 3 == 0
            else json.dumps(warped(json.loads(PATCH), rng)).encode()
        )
        with soon():
            try:
                patch = Patch.parse(text.decode())
                patch(payload)
            except (BadInput, Unfit, UnicodeDecodeError) as error:
                assert "\n" not in str(error), k


@pytest.mark.alike
def test_undo_records(redisq: Redisq, client: redis.Redis, here: Path) -> None:
    """What undoes a change is kept in Redis, where others may have written."""
    for k, rng in each("undo"):
        client.flushall()
        DelaySet(client, "q").schedule([("e1", b"x")])
        redisq("export", "q", "-o", "x")
        client.flushall()
        (outcome,) = redisq.rows("import", "x", "--yes")
        key = f"redisq:{{q}}:op:{outcome['op']}"
        known: dict[bytes, bytes] = client.hgetall(key)  # type: ignore[assignment]
        field = rng.choice(sorted(known))
        value = mutated(known[field], rng) if rng.random() < 0.7 else b"set x"
        client.hset(key, field, value)
        ends_well(redisq, k, "undo", outcome["op"], "--yes")
        ends_well(redisq, k, "log")
