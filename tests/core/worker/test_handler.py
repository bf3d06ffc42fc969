import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from redisq_ops.core.model.entry import Delivery, Failure, Settlement
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.retry_policy import RetryPolicy
from redisq_ops.core.model.settings import MAX_RESULT
from redisq_ops.core.worker.handler import (
    Handler,
    Work,
    as_handler,
    exec_handler,
    load_handler,
    perform,
)
from redisq_ops.core.worker.retry import Reject, Retry, decided
from redisq_ops.tasks import Tasks


def work(payload: bytes = b"payload", failures: int = 0) -> Work:
    delivery = Delivery("mail", "r1/3", payload, "7-1", 0, failures, 1, "me")
    return Work(delivery, lambda works: [True for _ in works])


def done(function: Callable[[Work], Any] | Handler, given: Work | None = None) -> Settlement:
    return perform(as_handler(function), given or work())


def error(settlement: Settlement) -> Failure:
    found = Failure.decoded(settlement.value)
    assert found is not None
    return found


def raising(error: BaseException) -> Callable[[Work], None]:
    def handle(_: Work) -> None:
        raise error

    return handle


def shell(script: str) -> Handler:
    return exec_handler(["/bin/sh", "-c", script])


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (b"\x00\xff", b"\x00\xff"),
        (bytearray(b"ab"), b"ab"),
        ("grün", "grün".encode()),
        ("", b""),
        ({"n": [1, None]}, b'{"n": [1, null]}'),
        (False, b"false"),
        (0, b"0"),
    ],
)
def test_a_result_is_bytes_text_or_json(value: Any, kept: bytes) -> None:
    settlement = done(lambda _: value)
    assert (settlement.outcome, settlement.value) == ("result", kept)


def test_none_keeps_nothing() -> None:
    assert done(lambda _: None) == Settlement(work().delivery, "ack")


def test_a_handler_is_told_what_it_works_on() -> None:
    seen = work()
    told = (seen.payload, seen.id, seen.number, seen.request, seen.queue, seen.attempt)
    assert told == (b"payload", "r1/3", 3, "r1", "mail", 2)
    assert seen.extend()


def test_a_result_over_the_limit_is_a_failure() -> None:
    assert done(lambda _: b"x" * MAX_RESULT).outcome == "result"
    settlement = done(lambda _: b"x" * (MAX_RESULT + 1))
    assert (settlement.outcome, error(settlement).type) == ("fail", "TooLarge")


def test_a_result_that_json_cannot_say_is_a_failure() -> None:
    assert error(done(lambda _: {1, 2})).type == "TypeError"


def test_a_failure_has_type_message_and_the_handlers_own_traceback() -> None:
    failure = error(done(raising(ValueError("no such colour"))))
    assert (failure.type, failure.message) == ("ValueError", "no such colour")
    frames = [line for line in failure.traceback.splitlines() if line.startswith("  File")]
    assert len(frames) == 1
    assert "test_handler.py" in frames[0]


def test_an_exception_that_cannot_be_shown_is_still_a_failure() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    settlement = done(raising(Mute()))
    assert (settlement.outcome, error(settlement).type) == ("fail", "Mute")


@pytest.mark.parametrize("error_", [SystemExit(3), asyncio.CancelledError()])
def test_no_handler_ends_its_worker(error_: BaseException) -> None:
    settlement = done(raising(error_))
    assert (settlement.outcome, error(settlement).type) == ("fail", type(error_).__name__)


def test_retry_says_when_and_reject_never() -> None:
    later = done(raising(Retry(after=2.5, reason="busy")))
    assert (later.outcome, later.delay, error(later).message) == ("fail", 2.5, "busy")
    assert done(raising(Retry(after=0))).delay == 0
    assert done(raising(Retry()), work(failures=3)).delay is None, "as the policy says"
    never = done(raising(Reject("no such account")))
    assert (never.outcome, error(never)) == ("reject", Failure("Reject", "no such account"))


def test_back_off_doubles_from_a_second_to_a_quarter_of_an_hour() -> None:
    assert [RetryPolicy().wait_s(n) for n in (1, 2, 3, 10, 11, 999)] == [1, 2, 4, 512, 900, 900]
    failed = done(raising(ValueError()), work(failures=3))
    many = [failed._replace(delivery=failed.delivery._replace(id=f"e{n}")) for n in range(200)]
    waits: list[Any] = [decided(each, None, None).delay for each in many]
    assert 7.2 <= min(waits) < 7.3 and 8.7 < max(waits) <= 8.8, "± 10 %"
    assert waits == [decided(each, None, None).delay for each in many], "the same each time"


def test_async_handlers_are_known_in_every_shape() -> None:
    async def handle(_: Work) -> None: ...

    class Both:
        async def __call__(self, _: Work) -> None: ...

    async def more(_: Work, extra: int) -> None: ...

    assert as_handler(handle).is_async
    assert as_handler(Both()).is_async
    assert as_handler(partial(more, extra=1)).is_async
    assert not as_handler(lambda _: None).is_async


class Shapes:
    def method(self, work: Work) -> None: ...

    @staticmethod
    async def stream(work: Work) -> AsyncIterator[int]:
        yield 1

    @staticmethod
    def generator(work: Work) -> Iterator[int]:
        yield 1


async def coroutine() -> None: ...


jobs = Tasks("jobs")


@jobs.task()
def a_task(x: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda: None, "handler <lambda>() is called with one argument, the entry: too many"),
        (lambda work, config: None, "(work, config) is called with one argument, the entry: miss"),
        (Shapes.method, "handler method(self, work) is called with one argument, the entry: miss"),
        (partial(print, sep=""), ""),
        (Shapes().method, ""),
        (len, ""),
        (Shapes, "Shapes is a class: a handler is a function, or an object with __call__"),
        (Shapes.stream, "handler stream yields: a handler returns its result"),
        (Shapes.generator, "handler generator yields: a handler returns its result"),
        (7, "a handler must be callable; a int is not"),
        (jobs, "Tasks is no handler: its tasks run by TASKS.worker(), or redisq work MODULE:TASKS"),
        (a_task, "<task a_task of jobs> is no handler: it runs by TASKS.worker(), or redisq work"),
    ],
)
def test_a_handler_that_would_always_fail_is_refused_at_the_start(function: Any, said: str) -> None:
    if not said:
        as_handler(function)
        return
    with pytest.raises(BadInput) as refused:
        as_handler(function)
    assert said in str(refused.value)


def test_a_forgotten_await_is_named() -> None:
    made = coroutine()
    failure = error(done(lambda work: made))
    made.close()
    assert failure.message == "the handler returned a coroutine: write async def, or await"


# --- importing ------------------------------------------------------------------------------------


def test_a_handler_is_imported_by_name_also_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "colours.py").write_text(
        "class Box:\n    @staticmethod\n    def paint(delivery): return b'red'\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    handler = load_handler("colours:Box.paint")
    assert isinstance(handler, Handler) and done(handler).value == b"red"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("colours", "module:function"),
        ("no_such_colours:paint", "ModuleNotFoundError: No module named 'no_such_colours'"),
        ("json:no_such_name", "no attribute 'no_such_name'"),
        ("queue:paint", "queue.py, not the queue.py of this folder: rename yours"),
        ("broken_colours:paint", "ZeroDivisionError: first second (broken_colours.py, line 1)"),
        ("leaving_colours:paint", "SystemExit: 0"),
        ("json:__doc__", "a handler must be callable; a str is not"),
    ],
)
def test_a_handler_that_cannot_be_had_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, words: str
) -> None:
    (tmp_path / "broken_colours.py").write_text("raise ZeroDivisionError('first\\nsecond')")
    (tmp_path / "leaving_colours.py").write_text("raise SystemExit(0)")
    (tmp_path / "queue.py").write_text("def paint(delivery): ...")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(BadInput) as refused:
        load_handler(spec)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


# --- programs -------------------------------------------------------------------------------------


def test_a_program_reads_the_payload_and_writes_the_result() -> None:
    payload = bytes(range(256)) * 1000
    assert done(exec_handler(["cat"]), work(payload)).value == payload


def test_a_program_that_writes_nothing_has_an_empty_result() -> None:
    settlement = done(exec_handler(["true"]))
    assert (settlement.outcome, settlement.value) == ("result", b"")


def test_a_program_gets_its_arguments_without_a_shell() -> None:
    assert done(exec_handler(["echo", "$HOME", "a;b"])).value == b"$HOME a;b\n"


def test_a_failing_program_is_known_by_its_code_and_its_last_words() -> None:
    settlement = done(shell("printf 'x%.0s' $(seq 5000) >&2; echo ' the end' >&2; exit 7"))
    failure = error(settlement)
    assert (settlement.outcome, failure.type) == ("fail", "exit 7")
    assert failure.message.endswith("xxx the end")
    assert 4000 < len(failure.message) <= 4096


def test_exit_100_is_dead_at_once() -> None:
    settlement = done(shell("echo no account >&2; exit 100"))
    assert (settlement.outcome, error(settlement).message) == ("reject", "no account")


def test_a_program_that_is_gone_fails_and_says_so(tmp_path: Path) -> None:
    program = tmp_path / "convert"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    failure = error(done(exec_handler([str(program)])))
    assert failure == Failure("FileNotFoundError", "it can't be run: No such file or directory")


def test_a_killed_program_is_named_by_its_signal() -> None:
    assert error(done(shell("kill -9 $$"))).type == "SIGKILL"


def test_a_program_that_says_too_much_fails() -> None:
    settlement = done(exec_handler(["head", "-c", str(MAX_RESULT + 1), "/dev/zero"]))
    assert error(settlement).type == "TooLarge"


def test_a_child_left_behind_does_not_hold_the_entry(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    settlement = done(shell(f"sleep 60 & echo $! > {pid}; echo done"))
    assert settlement.value == b"done\n"
    os.kill(int(pid.read_text()), signal.SIGKILL)  # still there: nobody waited for it


def test_ending_a_program_ends_its_whole_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    handler = shell(f"sleep 60 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; wait")
    given, said = work(), list[Settlement]()
    thread = threading.Thread(target=lambda: said.append(done(handler, given)))
    thread.start()
    while not pids.exists():
        time.sleep(0.01)
    assert handler.abort is not None
    handler.abort(given)
    thread.join()
    assert error(said[0]).type == "SIGKILL"
    for pid in pids.read_text().split():
        while running(int(pid)):
            time.sleep(0.01)


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("argv", [[], ["/no/such/program"], ["/etc/passwd"]])
def test_a_program_that_cannot_be_run_is_refused_before_any_work(argv: list[str]) -> None:
    with pytest.raises(BadInput):
        exec_handler(argv)


def test_failures_are_json_that_anybody_can_read() -> None:
    data = json.loads(done(raising(ValueError("\ud800 lone"))).value)
    assert set(data) == {"type", "message", "traceback"}
