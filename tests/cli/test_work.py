"""submit, work, wait and results, as a person at a shell uses them."""

import base64
import fcntl
import json
import os
import pty
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
import termios
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any
from urllib.parse import urlsplit

import pytest
import redis

import redisq_ops
from redisq_ops.cli import main as cli
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue, stream
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import EmbeddedServer

from ..command_line import Redisq
from ..core.foreign.specimens import SPECIMENS
from ..proxy import FlakyProxy
from ..queue_steps import eventually

pytestmark = pytest.mark.alike

OWN_PROCESS = (sys.executable, "-m", "redisq_ops")
"""begun anew, not forked: what it is and uses is the process's own"""


@pytest.fixture(autouse=True)
def here(url: str, tmp_path: Path, on_path: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory and a server of one's own; no configuration but this."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PYTHONPATH", str(Path(redisq_ops.__file__).parents[1]))


@pytest.fixture
def queue(client: redis.Redis) -> RequestQueue[redis.Redis]:
    return RequestQueue(client)


def redisq(*words: str, input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, in a process of its own."""
    return subprocess.run(["redisq", *words], input=input, capture_output=True, check=False)


def ok(*words: str, input: bytes = b"") -> str:
    """What it printed, provided that it went well."""
    done = redisq(*words, input=input)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts commands; what still runs in the end is killed."""
    running: list[subprocess.Popen[bytes]] = []

    def start(
        *words: str, program: Sequence[str] = ("redisq",), **more: Any
    ) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        running.append(subprocess.Popen([*program, *words], **{**pipes, **more}))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def content(queue: RequestQueue[redis.Redis], id: str) -> list[bytes]:
    rows = run(queue.client, stream.entries(queue.keys["s_"] + id, "-", "+", 10**6))
    assert [number for number, _ in rows] == list(range(1, len(rows) + 1))
    return [payload for _, payload in rows]


def total(queue: RequestQueue[redis.Redis], id: str) -> int:
    found = queue.request(id)
    return found.total if found else 0


def numbers(path: Path, count: int) -> list[bytes]:
    lines = [b"%d" % n for n in range(count)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return lines


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# --- the whole way --------------------------------------------------------------------------------


@pytest.mark.slow
def test_from_a_file_to_its_results(queue: RequestQueue[redis.Redis]) -> None:
    Path("in.txt").write_bytes(b"one\n\n\xff\xfe\nfour")
    id = ok("submit", "in.txt").strip()
    assert len(id) == 26
    assert ok("work", "--exec", "tr a-z A-Z", "--burst") == ""
    assert ok("wait", id) == f"{id} done: 4 done\n"
    assert json_lines(ok("results", id)) == [
        {"n": 1, "state": "done", "result": "ONE"},
        {"n": 2, "state": "done", "result": ""},
        {"n": 3, "state": "done", "result_b64": base64.b64encode(b"\xff\xfe").decode()},
        {"n": 4, "state": "done", "result": "FOUR"},
    ]
    assert redisq("results", id, "--raw").stdout == b"ONE\n\n\xff\xfe\nFOUR\n"
    assert json.loads(ok("submit", "in.txt", "--id", id, "--json")) == {
        "id": id,
        "queue": "default",
        "word": "same",
        "total": 4,
        "state": "done",
        "refused": 0,
        "purged": 0,
    }
    assert queue.invariants() == []


@pytest.mark.slow
def test_submit_and_wait_in_one(started: Callable[..., subprocess.Popen[bytes]]) -> None:
    started("work", "--exec", "cat", "--queue", "mail", "--queue", "other", "--concurrency", "2")
    for queue in ("mail", "other"):
        said = ok("submit", "-", "--queue", queue, "--id", "r", "--wait", input=b"a\nb\n")
        assert said == "r\nr done: 2 done\n"


def test_help_lists_the_commands_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from redisq_ops.cli.main import run; "
        "run(['--help']); run(['submit', '--help']);"
        "print({m for m in ('redis', 'rich.console', 'textual', 'asyncio') if m in sys.modules})"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.endswith("set()\n")
    for command in ("submit", "work", "wait", "results"):
        assert f"\n  {command} " in said.stdout


# --- submit ---------------------------------------------------------------------------------------


class Held(FlakyProxy):
    """Holds back the nth script call, until `release` says what becomes of it."""

    def __init__(self, port: int, nth: int) -> None:
        super().__init__(port)
        self.nth = nth
        self.id_hashes = threading.Event()
        self._arrives: SimpleQueue[bool] = SimpleQueue()

    def note(self, names: list[bytes]) -> bool:
        doomed = super().note(names)
        if self.seen[b"EVALSHA"] >= self.nth and not self.id_hashes.is_set():
            self.id_hashes.set()
            if not self._arrives.get():
                raise ConnectionResetError
        return doomed

    def release(self, arrives: bool) -> None:
        self._arrives.put(arrives)


@pytest.mark.slow
def test_killed_anywhere_and_run_again_nothing_is_doubled_or_missing(
    queue: RequestQueue[redis.Redis], url: str, started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    count = 60_000
    payloads = numbers(Path("in.txt"), count)
    dice = random.Random(2024)
    before = 0
    for nth in dice.sample(range(3, 90), 6):  # chunks of 100, together too few for all
        arrives = dice.random() < 0.5  # the server may have carried out what was being sent
        with Held(urlsplit(url).port or 0, nth) as proxy:
            process = started("submit", "in.txt", "--id", "big", "--url", proxy.url)
            proxy.id_hashes.wait()
            process.kill()
            process.wait()
            proxy.release(arrives)
        there = total(queue, "big")
        assert before < there < count
        before = there
    assert ok("submit", "in.txt", "--id", "big") == "big\n"
    assert content(queue, "big") == payloads
    found = queue.request("big")
    assert found is not None
    assert (found.state, found.total, found.waiting) == ("sealed", count, count)
    assert queue.invariants() == []


@pytest.mark.slow
def test_stdin_is_resumed_by_reading_it_again(
    queue: RequestQueue[redis.Redis], started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    payloads = numbers(Path("in.txt"), 5_000)
    whole = Path("in.txt").read_bytes()
    process = started("submit", "-", "--id", "r")
    feed(process).write(whole[:9_000])
    feed(process).flush()
    eventually(lambda: total(queue, "r") > 0)
    process.kill()
    assert 0 < total(queue, "r") < 5_000
    assert ok("submit", "-", "--id", "r", input=whole) == "r\n"
    assert content(queue, "r") == payloads


def feed(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


def unread(pipe: IO[bytes]) -> int:
    """Bytes that whoever reads from the pipe has not fetched yet."""
    room = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, room)
    return room[0]


@pytest.mark.slow
def test_ctrl_c_names_the_open_request_and_how_to_go_on(
    queue: RequestQueue[redis.Redis], started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    payloads = numbers(Path("in.txt"), 3_000)
    process = started("submit", "-", "--queue", "default", "--limit", "9", program=OWN_PROCESS)
    for some in (payloads[:1_250], payloads[1_250:1_260]):
        feed(process).writelines(b"%b\n" % line for line in some)
        feed(process).flush()
        eventually(lambda: unread(feed(process)) == 0)
    # It fetches the last lines when it has sent what it could of the others, and heard of all that.
    (open_,) = queue.requests()
    id = open_.id
    assert 1_000 <= open_.total < 1_260
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, b"")
    assert f"request {id} stays open with {open_.total:,} sub-requests" in err.decode().splitlines()
    said = commands(err.decode())
    words = shlex.split(said["continue"].removeprefix("… | redisq "))
    assert ok(*words, input=Path("in.txt").read_bytes()) == f"{id}\n"
    assert content(queue, id) == payloads
    found = queue.request(id)
    assert found is not None
    assert (found.state, found.limit) == ("sealed", 9)


def commands(err: str) -> dict[str, str]:
    lines = [line.partition(":") for line in err.splitlines()]
    return {name: rest.strip() for name, colon, rest in lines if colon}


@pytest.mark.slow
def test_a_payload_over_the_limit_far_in_a_pipe(queue: RequestQueue[redis.Redis]) -> None:
    """A pipe is read once: what came before the line is there already."""
    good = numbers(Path("in.txt"), 2_000)
    fed = b"\n".join([*good, b"x" * 101, b"end"])
    words = ("submit", "-", "--id", "r", "--max-payload", "100")
    done = redisq(*words, input=fed)
    err = done.stderr.decode()
    assert (done.returncode, done.stdout) == (1, b"")
    assert err.splitlines()[-1] == (
        "redisq: line 2,001 is over the limit of 100 bytes (--max-payload)"
    )
    found = queue.request("r")
    assert found is not None
    assert found.state == "open"
    assert content(queue, "r") == good[: found.total]
    assert 1_500 < found.total <= 2_000

    told = json.loads(redisq(*words, "--json", input=fed).stderr)
    assert told["exit"] == 1
    assert "line 2,001" in told["error"]["message"]
    assert "continue: … | redisq submit -" in told["error"]["message"]

    said = commands(err)
    mended = b"\n".join([*good, b"x" * 100, b"end"])
    assert ok(*shlex.split(said["continue"])[3:], input=mended) == "r\n"
    assert content(queue, "r") == [*good, b"x" * 100, b"end"]
    ok(*shlex.split(said["cancel"])[1:], "--yes")
    found = queue.request("r")
    assert found is not None
    assert found.state == "cancelled"


@pytest.mark.slow
def test_a_lost_server_leaves_a_request_that_goes_on(
    started: Callable[..., subprocess.Popen[bytes]],
) -> None:
    payloads = numbers(Path("in.txt"), 4_000)
    whole = Path("in.txt").read_bytes()
    with EmbeddedServer(appendonly=True) as own:
        process = started("submit", "-", "--id", "r", "--url", own.url)
        feed(process).write(whole[:9_000])
        feed(process).flush()
        with redis.Redis.from_url(own.url) as client:
            eventually(lambda: total(RequestQueue(client), "r") > 1_000)
            own.kill()
            _, err = process.communicate(whole[9_000:])
            assert process.returncode == 4
            assert "stays open with at least" in err.decode()
            assert "can't reach the server" in err.decode()
            own.restart()
            words = shlex.split(commands(err.decode())["continue"].removeprefix("… | redisq "))
            assert ok(*words, input=whole) == "r\n"
            assert content(RequestQueue(client), "r") == payloads


def test_other_content_under_the_same_id(
    queue: RequestQueue[redis.Redis], capfd: pytest.CaptureFixture[str]
) -> None:
    payloads = numbers(Path("in.txt"), 300)
    assert cli.run(["submit", "in.txt", "--id", "r"]) == 0
    numbers(Path("in.txt"), 299)
    assert cli.run(["submit", "in.txt", "--id", "r"]) == 1
    assert cli.run(["submit", "in.txt", "--id", "r", "--split", "2", "--json"]) == 1
    out, err = capfd.readouterr()
    assert out == "r\n"
    plain, as_json = err.splitlines()
    assert plain == "redisq: request r exists with other content (or limit, or priority)"
    error = {"type": "Exists", "message": plain.removeprefix("redisq: "), "column": None}
    assert json.loads(as_json) == {"error": error, "exit": 1}
    assert content(queue, "r") == payloads


def test_chunks_of_lines(queue: RequestQueue[redis.Redis]) -> None:
    Path("in.txt").write_bytes(b"1\n2\n3\n4\n5\n")
    assert cli.run(["submit", "in.txt", "--id", "r", "--split", "2"]) == 0
    assert content(queue, "r") == [b"1\n2", b"3\n4", b"5"]


@pytest.mark.slow
def test_a_request_per_line_and_its_memory(
    queue: RequestQueue[redis.Redis],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers(Path("in.txt"), 1_000)
    monkeypatch.setattr("redisq_ops.cli.commands.submit._MANY", 1_000)
    words = ["submit", "in.txt", "--id", "e", "--per-line", "--priority", "3"]
    assert cli.run(words) == 0
    assert capfd.readouterr() == ("e\n", "a request per line: e-1, e-2, …\n")
    assert queue.requests_total() == 1_000
    assert content(queue, "e-1000") == [b"999"]
    monkeypatch.setattr("redisq_ops.cli.commands.submit._MANY", 999)
    assert cli.run([*words, "--json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out) == {
        "id": "e",
        "queue": "default",
        "word": "same",
        "total": 1_000,
        "state": "sealed",
        "refused": 0,
        "purged": 0,
    }
    assert err.startswith("1,000 requests take about 4.9 MiB of the server's memory;")
    with Path("in.txt").open("rb") as file:
        piped = subprocess.run(["cat"], stdin=file, capture_output=True, check=True).stdout
    assert ok("submit", "-", "--id", "e", "--per-line", "--priority", "3", input=piped) == "e\n"


def test_a_dry_run_counts_and_writes_nothing(
    client: redis.Redis, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("in.txt").write_bytes(b"one\n\nthree")
    assert cli.run(["submit", "in.txt", "--dry-run"]) == 0
    assert cli.run(["submit", "in.txt", "--dry-run", "--split", "2", "--id", "r", "--json"]) == 0
    assert cli.run(["submit", "in.txt", "--dry-run", "--max-payload", "4"]) == 1
    out, err = capfd.readouterr()
    text, as_json, short = out.splitlines()
    assert short == "3 lines, 3 bytes: 2 sub-requests of one request, not sent"
    assert text == "3 lines, 8 bytes: 3 sub-requests of one request, not sent"
    assert json.loads(as_json) == {
        "id": "r",
        "queue": "default",
        "word": "dry-run",
        "total": 2,
        "state": None,
        "lines": 3,
        "bytes": 9,
        "refused": 0,
        "purged": 0,
    }
    assert err.startswith("1 line would be refused, and all with it, the first: in.txt, row 3, ")
    assert client.dbsize() == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["empty.txt"], "empty.txt is empty: nothing to submit"),
        (["none.txt"], "none.txt: No such file or directory"),
        (["."], ".: Is a directory"),
        (["in.txt", "--id", "a b"], "request id 'a b' can't be used"),
        (["in.txt", "--id", "x" * 128, "--per-line"], "can't be used"),
        (["in.txt", "--queue", "{x}"], "queue name '{x}' can't be used"),
        (["in.txt", "--limit", "0"], "limit 0: must be 1 to 1000"),
        (["in.txt", "--priority", "100"], "priority 100: must be 0 (first) to 99"),
        (["in.txt", "--split", "0"], "--split"),
        (["in.txt", "--per-line", "--split", "2"], "--split"),
        (["in.txt", "--limit", "x"], "--limit"),
    ],
)
def test_input_that_cannot_be_submitted(
    words: list[str], said: str, client: redis.Redis, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("empty.txt").touch()
    Path("in.txt").write_bytes(b"one\n")
    DelaySet(client, "later").schedule([("e", b"")], after=0)
    before = sorted(client.keys())
    assert cli.run(["submit", *words]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err
    assert sorted(client.keys()) == before


@pytest.mark.slow
def test_a_terminal_sees_a_bar_and_stdout_only_the_id() -> None:
    numbers(Path("in.txt"), 150_000)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["redisq", "submit", "in.txt", "--id", "r"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            seen += os.read(ours, 65536)
        except OSError:  # Linux says EIO when the other side is closed
            break
    os.close(ours)
    out, _ = process.communicate()
    assert (process.returncode, out) == (0, b"r\n")
    assert b"submitting r" in seen
    assert b"/150000" in seen


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(queue: RequestQueue[redis.Redis]) -> None:
    peaks = []
    for count in (3_000, 300_000):
        with Path("in.txt").open("wb") as file:
            file.writelines(b"%0100d\n" % n for n in range(count))
        process = subprocess.Popen([*OWN_PROCESS, "submit", "in.txt", "--id", f"r{count}"])
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        assert total(queue, f"r{count}") == count
        peaks.append(usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
    assert peaks[1] - peaks[0] < 8 << 20  # the file has 30 MB
    assert resource.getpagesize() < peaks[0]


# --- work -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_program_says_by_its_exit_what_became_of_an_entry() -> None:
    Path("in.txt").write_bytes(b"good\nbad\nworse\n")
    Path("job.sh").write_text(
        'read -r word; case "$word" in\n'
        "bad) echo $word is odd >&2; exit 100;;\n"
        "worse) echo try later >&2; exit 7;;\n"
        "esac; echo $word $0 $1"
    )
    ok("submit", "in.txt", "--id", "r")
    worked = redisq("work", "--exec", "sh job.sh 'two words'", "--burst")
    said = worked.stderr.decode()
    assert worked.returncode == 3
    command = "sh job.sh 'two words'"
    assert f"after attempt 1: {command} (exit 100): Reject: bad is odd\n" in said
    assert f" s: {command}: exit 7: try later\n" in said
    assert "Traceback" not in said and ".py" not in said
    good, bad, worse = json_lines(ok("results", "r"))
    assert good == {"n": 1, "state": "done", "result": "good job.sh two words\n"}
    assert bad["state"] == "dead"
    assert bad["error"] == {"reason": "rejected", "type": "Reject", "message": "bad is odd"}
    assert worse == {"n": 3, "state": "delayed", "result": None}
    assert ok("wait", "default", "--until", "delayed==1 and dead==1").startswith(
        "default: 0 waiting,"
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_function_handles_deliveries(kind: str) -> None:
    Path("jobs.py").write_text(
        "from redisq_ops import Reject\n"
        f"{kind} handle(delivery):\n"
        "    word = delivery.payload.decode()\n"
        "    if word == 'dead': raise Reject('for a reason')\n"
        "    if word == 'none': return None\n"
        "    if word == 'json': return {'n': delivery.number, 'attempt': delivery.attempt}\n"
        "    return delivery.payload * 2\n"
    )
    Path("in.txt").write_bytes(b"bytes\njson\nnone\ndead\n")
    ok("submit", "in.txt", "--id", "r")
    words = ("work", "jobs:handle", "--burst", "--concurrency", "3", "--batch", "2")
    assert redisq(*words).returncode == 3
    assert json_lines(ok("results", "r")) == [
        {"n": 1, "state": "done", "result": "bytesbytes"},
        {"n": 2, "state": "done", "result": '{"n": 2, "attempt": 1}'},
        {"n": 3, "state": "done", "result": None},
        {
            "n": 4,
            "state": "dead",
            "error": {"reason": "rejected", "type": "Reject", "message": "for a reason"},
        },
    ]


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["1", "2"])
def test_once_leaves_nothing_it_could_take_and_says_what_else_there_is(
    client: redis.Redis, processes: str
) -> None:
    queues = [RequestQueue(client, name) for name in ("ba", "bb", "paused")]
    for queue in queues:
        queue.submit([b"2"] * 300 + [b"no number"], id="r1", limit=4)
    queues[0].submit([b"1"], id="held", priority=0)
    queues[0].take(1, consumer="other")
    queues[2].configure("op", 1, {"paused": "smtp is down"})
    words = [word for queue in queues for word in ("--queue", queue.name)]
    many = ("--concurrency", "8", "--batch", "20", "--processes", processes)
    Path("numbers_only.py").write_text("def handle(delivery): int(delivery.payload)\n")
    done = redisq("--utc", "work", "numbers_only:handle", "--burst", *words, *many)
    assert (done.returncode, done.stdout) == (3, b"")  # an entry of each failed
    assert [queue.counts().waiting for queue in queues] == [0, 0, 301]
    log = done.stderr.decode().splitlines()
    told = [line.partition("redisq_ops.worker: ")[2] for line in log if "stopped, " not in line]
    told = [line for line in told if line.startswith("queue ") and "is dead after" not in line]
    told = [line for line in told if " is at its limit of " not in line]
    due = r"the first is due at 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\+00:00"
    late = "1 entry is delayed \\(for a retry, or by a schedule\\), "
    expected = [
        f"queue ba: {late}{due}",
        "queue ba: 1 entry is pending at other workers",
        f"queue bb: {late}{due}",
        "queue paused: paused \\(smtp is down\\), 301 entries are waiting; resume with: "
        "redisq queue resume paused",
    ]
    assert len(told) == len(expected)
    assert all(re.fullmatch(*pair) for pair in zip(expected, told, strict=True))


def test_what_a_worker_logs_is_redacted(
    configuration: Path, client: redis.Redis, capfd: pytest.CaptureFixture[str]
) -> None:
    configuration.write_text("[redact.patterns]\nemail = '[a-z]+@[a-z.]+'\n")
    Path("mailing.py").write_text(
        "def send(delivery): raise ValueError('no mailbox ' + delivery.payload.decode())\n"
    )
    RequestQueue(client).submit([b"ann@example.org"], id="r1")
    assert cli.run(["-vv", "work", "mailing:send", "--burst"]) == 1
    err = capfd.readouterr().err
    assert "WARNING redisq_ops.worker: retry: default/r1/1 in " in err
    assert " s: ValueError: no mailbox ***\n    Traceback (most recent call last):\n" in err
    assert "    ValueError: no mailbox ***\n" in err
    assert "ann@example.org" not in err


ONE_STREAM = """
import logging, sys
from redisq_ops import Reject
log = logging.getLogger("shop")
def handle(work):
    log.info("price of %s\\nis 7", "ann")
    if work.payload == b"secret bad":
        raise Reject("no such price")
    return b"7"
"""


@pytest.mark.parametrize(
    ("format", "payloads", "code"),
    [
        ("json", [], 0),
        ("json", [b"secret"], 0),
        ("json", [b"secret", b"secret bad"], 3),
        ("json", [b"secret bad"], 1),
        ("text", [b"secret", b"secret bad"], 3),
    ],
)
def test_a_burst_has_exit_codes_for_cron_and_one_log(
    queue: RequestQueue[redis.Redis],
    payloads: list[bytes],
    code: int,
    format: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    Path("prices.py").write_text(ONE_STREAM)
    queue.submit(payloads, id="r")
    assert cli.run(["--log-format", format, "work", "prices:handle", "--burst"]) == code
    out, err = capfd.readouterr()
    assert (out, "secret" in err) == ("", False)
    lines = err.splitlines()
    if format == "text":
        assert [line for line in lines if not re.match(r"20\d\d-\d\d-\d\d |    ", line)] == []
        assert sum(line.endswith("INFO shop [default/r/1]: price of ann") for line in lines) == 1
        assert any(" ERROR redisq_ops.worker: dead letter: default/r/2 " in line for line in lines)
        assert "    redisq_ops.core.worker.retry.Reject: no such price" in lines
        return
    rows = json_lines(err)
    own = [
        (row["message"], row["entry"], row["attempt"]) for row in rows if row["logger"] == "shop"
    ]
    assert own == [("price of ann\nis 7", f"r/{n + 1}", 1) for n in range(len(payloads))]
    for row in rows:
        if row["level"] == "error":
            assert (row["queue"], row["task"], row["error"]) == ("default", None, "Reject")
            assert row["duration_ms"] >= 0 and "in handle" in row["traceback"]
    assert [row["level"] for row in rows].count("error") == payloads.count(b"secret bad")


RELOADED = "import time\nfrom pathlib import Path\ndef handle(work):\n    %s\n    return b'%s'\n"
BUSY = "Path('began').touch()\n    while not Path('go').exists(): time.sleep(0.01)"


@pytest.mark.slow
def test_a_changed_handler_is_loaded_again_and_loses_nothing(
    queue: RequestQueue[redis.Redis], started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    def saved(text: str) -> None:
        Path("new").write_text(text)
        Path("new").replace("live.py")

    def said(words: bytes) -> None:
        assert worker.stderr is not None
        eventually(lambda: words in worker.stderr.readline())  # type: ignore[union-attr]

    saved(RELOADED % (BUSY, "one"))
    queue.submit([b"a", b"b"], id="r", limit=1)
    worker = started("work", "live:handle", "--reload", "--batch", "2", program=OWN_PROCESS)
    eventually(Path("began").exists)
    saved("def handle(work) return 1\n")
    said(b"stopping, source files changed: 1 running")
    Path("go").touch()  # what runs is finished by the old code, the rest isn't begun
    said(b"SyntaxError: expected ':' (live.py, line 1); waiting for a change")
    said(b"def handle(work) return 1")
    assert queue.counts().waiting == 1
    saved("def handle(): ...\n")
    said(b"handler handle() is called with one argument, the entry: ")
    saved(RELOADED % ("pass", "two"))
    eventually(lambda: queue.counts().done == 2)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert [row["result"] for row in json_lines(ok("results", "r"))] == ["one", "two"]
    attempts = [entry.attempts for n in (1, 2) if (entry := queue.get(f"r/{n}"))]
    assert attempts == [0, 0]  # none failed


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_asked_to_stop_a_worker_ends_what_it_has_begun(
    queue: RequestQueue[redis.Redis],
    started: Callable[..., subprocess.Popen[bytes]],
    processes: str,
    number: signal.Signals,
    code: int,
) -> None:
    Path("job.sh").write_text("touch begun.$$; sleep 0.5; cat")
    queue.submit([b"%d" % n for n in range(100)], id="r", limit=1)
    worker = started("work", "--exec", "sh job.sh", "--processes", processes, "--consumer", "w")
    eventually(lambda: any(Path().glob("begun.*")))
    worker.send_signal(number)
    _, err = worker.communicate()
    said = [line for line in err.splitlines() if b" INFO " not in line]
    said = [line for line in said if b" is at its limit of 1: 1 of 1 " not in line]
    assert (worker.returncode, said) == (code, [])
    found = queue.request("r")
    assert found is not None
    begun = len(list(Path().glob("begun.*")))
    assert (found.done, found.waiting, found.pending) == (begun, 100 - begun, 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere:handle"], "handler 'nowhere:handle' can't be imported: ModuleNotFoundError"),
        (["json:nothing"], "handler 'json:nothing' can't be imported: AttributeError"),
        (["jobs.py:handle"], "write it as module:function, such as jobs:handle"),
        (["--exec", "no-such-program"], "program 'no-such-program' can't be found"),
        (["json:loads", "--exec", "cat"], "give either a handler"),
        ([], "MODULE:FUNCTION, or --exec CMD"),
        (["json:loads", "--lease", "soon"], "'soon' is not a time span"),
        (["json:loads", "--concurrency", "0"], "concurrency"),
        (["json:loads", "--processes", "0"], "processes 0"),
        (["json:loads", "--processes", "2", "--batch", "501"], "batch"),
        (["--exec", "cat", "--reload"], "--reload is for one process, and for handlers in Python"),
        (["json:loads", "--reload", "--concurrency", "0"], "concurrency"),
        (["json:loads", "--consumer", "~x"], "names that begin with ~ are reserved"),
    ],
)
def test_a_worker_that_cannot_work_says_why(
    words: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["work", *words]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


def test_a_read_only_context_neither_submits_nor_works(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REDISQ_READ_ONLY", "yes")
    numbers(Path("in.txt"), 3)
    assert cli.run(["submit", "in.txt"]) == 1
    assert cli.run(["work", "json:loads", "--burst"]) == 1
    assert [line.split(" (")[0] for line in capfd.readouterr().err.splitlines()] == [
        "redisq: read-only: nothing can be changed"
    ] * 2
    assert client.dbsize() == 0


# --- wait -----------------------------------------------------------------------------------------


def ended(queue: RequestQueue[redis.Redis], id: str, outcome: Any) -> None:
    """A request of two that has ended."""
    queue.submit([b"1", b"2"], id=id)
    if outcome == "cancel":
        queue.control(f"op-{id}", 1, "cancel", id)
        return
    taken = queue.take(2, consumer="w").deliveries
    queue.settle([Settlement(taken[0], "ack"), Settlement(taken[1], outcome)])


@pytest.mark.parametrize(
    ("outcomes", "code", "said"),
    [
        (["ack"], 0, "r0 done: 2 done\n"),
        (["ack", "ack"], 0, "r0 done: 2 done\nr1 done: 2 done\n"),
        (["reject", "ack"], 3, "r0 done: 1 done, 1 dead\nr1 done: 2 done\n"),
        (["cancel"], 1, "r0 cancelled: 0 done\n"),
        (["ack", "cancel", "reject"], 1, ""),
    ],
)
def test_waiting_for_what_has_ended_returns_at_once(
    queue: RequestQueue[redis.Redis],
    outcomes: list[str],
    code: int,
    said: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for nth, outcome in enumerate(outcomes):
        ended(queue, f"r{nth}", outcome)
    ids = [f"r{nth}" for nth in range(len(outcomes))]
    assert cli.run(["wait", *ids, "--timeout", "60s"]) == code
    out = capfd.readouterr().out
    assert sorted(out.splitlines()) == sorted(said.splitlines()) or not said
    assert out.count("\n") == len(ids)
    assert cli.run(["wait", *ids, "--json"]) == code
    rows = json_lines(capfd.readouterr().out)
    assert {(row["id"], row["total"]) for row in rows} == {(id, 2) for id in ids}


@pytest.mark.slow
def test_waiting_too_long_for_nothing_and_interrupted(
    queue: RequestQueue[redis.Redis],
    started: Callable[..., subprocess.Popen[bytes]],
    capfd: pytest.CaptureFixture[str],
) -> None:
    queue.submit([b"1"], id="r")
    assert cli.run(["wait", "r", "--timeout", "50ms"]) == 124
    assert cli.run(["wait", "default", "--until", "waiting==0", "--timeout", "50ms"]) == 124
    assert cli.run(["wait", "nothing"]) == 1
    assert cli.run(["wait", "default/nothing"]) == 1
    assert cli.run(["wait", "nowhere", "--until", "waiting==0"]) == 1
    told = capfd.readouterr().err
    assert told.count("\n") == 5 and "not waiting==0 in queue default: 1 waiting, 0 pe" in told
    client = queue.client

    def looks() -> int:
        stats: dict[str, dict[str, int]] = client.info("commandstats")
        return stats.get("cmdstat_zcard", {}).get("calls", 0) // 4

    waits: dict[tuple[str, ...], Callable[[], bool]] = {
        ("default/r",): lambda: bool(client.pubsub_channels()),
        ("default", "--until", "waiting==0"): lambda: looks() > 1,
    }
    for words, it_waits in waits.items():
        client.config_resetstat()
        process = started("wait", *words)
        eventually(it_waits)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.slow
def test_waiters_hear_of_the_end(
    queue: RequestQueue[redis.Redis], started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    queue.submit([b"1", b"2"], id="r", limit=2)
    request = started("wait", "default/r")
    when = started("wait", "default", "--until", "waiting==0 and pending==0", "--json")
    eventually(lambda: len(queue.client.pubsub_channels()) == 1)
    for delivery in queue.take(2, consumer="w").deliveries:
        queue.settle([Settlement(delivery, "ack")])
    assert request.communicate() == (b"r done: 2 done\n", b"")
    out, err = when.communicate()
    assert (request.returncode, when.returncode, err) == (0, 0, b"")
    row = json.loads(out)
    assert (row["name"], row["waiting"], row["done"]) == ("default", 0, 2)


WAITS = {
    "request": ("default/r",),
    "queue": ("default", "--until", "waiting==0 and pending==0"),
}


def is_waiting(client: redis.Redis) -> bool:
    stats: dict[str, dict[str, int]] = client.info("commandstats")
    looks = stats.get("cmdstat_zcard", {}).get("calls", 0) // 4
    return looks > 1 or bool(client.pubsub_channels())


@pytest.mark.slow
@pytest.mark.parametrize("words", WAITS.values(), ids=WAITS)
def test_waiters_go_on_through_a_restart_of_the_server(
    words: tuple[str, ...], started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    with EmbeddedServer(appendonly=True, args=["--appendfsync", "always"]) as own:
        with redis.Redis.from_url(own.url) as client:
            queue = RequestQueue(client)
            queue.submit([b"1"], id="r")
            process = started("wait", *words, "--url", own.url)
            eventually(lambda: is_waiting(client))
            own.kill()
            assert process.stderr is not None
            said = process.stderr.readline()
            assert said.startswith(b"connection lost: can't reach the server: ")
            assert said.endswith(b"; retrying\n")
            own.restart()
            for delivery in queue.take(1, consumer="w").deliveries:
                queue.settle([Settlement(delivery, "ack")])
            out, err = process.communicate()
        assert (process.returncode, err) == (0, b"the server answers again\n")
        assert b"1 done" in out


Loss = Callable[[RequestQueue[redis.Redis]], object]
LOSSES: dict[str, Loss] = {
    "flushed": lambda queue: queue.client.flushall(),
    "removed": lambda _: cli.run(["queue", "rm", "default", "--hard", "--yes"]),
    "keys lost": lambda queue: queue.client.delete(*queue.client.scan_iter("redisq:{default}*")),
    "created again": lambda queue: (
        queue.client.flushall(),
        RequestQueue(queue.client).submit([], id="other"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("until", [(), ("--until", "done>5")], ids=["default", "until"])
def test_a_queue_that_is_gone_is_not_done(
    until: Sequence[str],
    loss: Loss,
    queue: RequestQueue[redis.Redis],
    started: Callable[..., subprocess.Popen[bytes]],
) -> None:
    queue.submit([b"1"], id="r")
    queue.client.config_resetstat()
    process = started("wait", "default", "--timeout", "20s", *until)
    eventually(lambda: is_waiting(queue.client))
    loss(queue)
    out, err = process.communicate()
    assert (process.returncode, out) == (1, b"")
    assert err.startswith(b"redisq: queue default is gone, or was created again: ")


def test_a_queue_whose_keys_were_lost_before_is_not_done(
    queue: RequestQueue[redis.Redis], redisq: Redisq
) -> None:
    queue.submit([b"1"], id="r")
    LOSSES["keys lost"](queue)
    assert "is gone" in redisq.refusal("wait", "default", "--timeout", "5s", code=1)


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 1], ids=["emptied", "gone"])
def test_a_registered_queue_of_another_program_is_done_when_emptied_and_not_when_gone(
    code: int,
    queue: RequestQueue[redis.Redis],
    started: Callable[..., subprocess.Popen[bytes]],
) -> None:
    client = queue.client
    SPECIMENS["resque"].fill(client)
    assert cli.run(["discover", "--register", "--yes"]) == 0
    client.config_resetstat()
    process = started("wait", "resque:low", "--until", "waiting=0", "--timeout", "20s")
    eventually(lambda: client.info("commandstats").get("cmdstat_llen", {}).get("calls", 0) > 2)
    if code:
        client.flushall()
    else:
        client.delete("resque:queue:low")
    out, err = process.communicate()
    assert process.returncode == code, (out, err)


@pytest.mark.slow
@pytest.mark.parametrize("words", WAITS.values(), ids=WAITS)
def test_waiters_of_a_server_that_is_gone_time_out(
    words: tuple[str, ...], started: Callable[..., subprocess.Popen[bytes]]
) -> None:
    with EmbeddedServer() as own:
        with redis.Redis.from_url(own.url) as client:
            RequestQueue(client).submit([b"1"], id="r")
            process = started("wait", *words, "--timeout", "1s", "--url", own.url)
            eventually(lambda: is_waiting(client))
        own.kill()
        out, err = process.communicate()
    assert (process.returncode, out) == (124, b"")
    lost, late = err.decode().splitlines()
    assert lost.startswith("connection lost: ") and late.startswith("redisq: timed out; ")


def test_a_bad_expression_is_pointed_at(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["wait", "default", "--until", "waiting==0 and ded>1"]) == 2
    err = capfd.readouterr().err
    assert "waiting==0 and ded>1 (column 16: there is no count 'ded'" in err


# --- results --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_closed_pipe_is_quiet(queue: RequestQueue[redis.Redis]) -> None:
    queue.submit([b"x" * 1000] * 3_000, id="r")
    for more in ([], ["--raw"]):
        taken = queue.take(500, consumer="w").deliveries
        queue.settle([Settlement(d, "result", d.payload * 20) for d in taken])
        process = subprocess.Popen(
            ["redisq", "results", "r", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_a_sub_request_has_a_result_of_its_own(
    queue: RequestQueue[redis.Redis], capfd: pytest.CaptureFixture[str]
) -> None:
    queue.submit([b"one", b"two"], id="r")
    for delivery in queue.take(2, consumer="w").deliveries:
        queue.settle([Settlement(delivery, "result", delivery.payload)])
    assert cli.run(["results", "default/r/2"]) == 0
    assert json_lines(capfd.readouterr().out) == [{"n": 2, "state": "done", "result": "two"}]
    assert cli.run(["results", "default/r/3"]) == 1
    assert cli.run(["wait", "default/r/2"]) == 2
    assert "is a part of default/r: wait for that" in capfd.readouterr().err


@pytest.mark.slow
def test_results_that_were_too_much_are_said(
    queue: RequestQueue[redis.Redis], capfd: pytest.CaptureFixture[str]
) -> None:
    queue.submit([b""] * 66, id="r", limit=100)
    for delivery in queue.take(66, consumer="w").deliveries:
        queue.settle([Settlement(delivery, "result", b"x" * (1 << 20))])
    assert cli.run(["results", "default/r"]) == 0
    out, err = capfd.readouterr()
    rows = json_lines(out)
    assert [row["state"] for row in rows] == ["done"] * 66
    assert [row["n"] for row in rows if row["result"] is None] == [65, 66]
    assert err == "2 results weren't kept: over 64 MiB in this request\n"


def test_results_of_nothing(
    queue: RequestQueue[redis.Redis], capfd: pytest.CaptureFixture[str]
) -> None:
    queue.submit([], id="none")
    assert cli.run(["results", "none"]) == 0
    assert cli.run(["results", "other"]) == 1
    assert cli.run(["results", "default/other"]) == 1
    assert cli.run(["results", "default"]) == 2
    assert capfd.readouterr().out == ""


def test_a_worker_says_that_its_queue_is_paused(
    queue: RequestQueue[redis.Redis], capfd: pytest.CaptureFixture[str]
) -> None:
    queue.submit([b"1", b"2"], id="r")
    assert cli.run(["queue", "pause", "default", "--reason", "smtp is down", "--yes"]) == 0
    capfd.readouterr()
    work = ["work", "--exec", "cat", "--burst"]
    assert cli.run(work) == 0
    assert capfd.readouterr().err.endswith(
        " INFO redisq_ops.worker: queue default: paused (smtp is down), 2 entries are waiting; "
        "resume with: redisq queue resume default\n"
    )
    assert cli.run(["queue", "resume", "default", "--yes"]) == 0
    capfd.readouterr()
    assert cli.run(work) == 0
    assert "paused" not in capfd.readouterr().err
    assert queue.counts().done == 2
