"""A change goes forward through the files of `cli` and `ops`, and so does who reads it.

Changes are traced. Files are stations in the order in which their functions are first called; the
core's files are left out, since its descriptions of operations run in a loop.
"""

import sys
from collections import defaultdict
from collections.abc import Callable
from inspect import CO_GENERATOR
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
import redis

import redisq_ops
from redisq_ops.core.queues.request import RequestQueue

from ...command_line import Redisq, dead_letters

ROOT = Path(redisq_ops.__file__).parent
VISITS = 4
"""how often a file may be entered by the first call of one of its functions"""
STORE = "ops/change/audit_log.py"
"""entered more often: an operation is found, read, recorded and ended there"""


class Trace:
    """The calls between files of `cli` and `ops`, and the order of first calls."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.order: list[tuple[str, str]] = []
        self._seen: set[CodeType] = set()

    def __enter__(self) -> "Trace":
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or (file := _place(frame)) is None:
            return
        code, caller = frame.f_code, frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(str(ROOT)):
            caller = caller.f_back
        before = None if caller is None else _place(caller)
        if caller is not None and before not in (None, file):
            self.calls[str(before), file].add(f"{caller.f_code.co_name} > {code.co_name}")
        # Constructors and comprehensions are part of the function that uses them. So are
        # generators, which are called once more when nobody needs them any longer.
        part = code.co_name.startswith(("<", "__")) or code.co_flags & CO_GENERATOR
        if code not in self._seen and not part:
            self._seen.add(code)
            self.order.append((file, code.co_name))

    def visits(self) -> dict[str, list[list[str]]]:
        """The functions first called at each visit of a file."""
        found: dict[str, list[list[str]]] = defaultdict(list)
        last = None
        for file, function in self.order:
            if file != last:
                found[file].append([])
            found[file][-1].append(function)
            last = file
        return found


def _place(frame: FrameType) -> str | None:
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(ROOT / "cli") and not path.is_relative_to(ROOT / "ops"):
        return None
    return str(path.relative_to(ROOT))


def replay(redisq: Redisq, client: redis.Redis, name: str) -> list[str]:
    dead_letters(client, 5, name)
    return ["dlq", "replay", name, "--where", "error~mailbox"]


def purge(redisq: Redisq, client: redis.Redis, name: str) -> list[str]:
    dead_letters(client, 5, name)
    return ["dlq", "purge", name]


def undo(redisq: Redisq, client: redis.Redis, name: str) -> list[str]:
    (outcome,) = redisq.rows(*purge(redisq, client, name), "--yes")
    return ["undo", outcome["op"]]


def import_(redisq: Redisq, client: redis.Redis, name: str) -> list[str]:
    dead_letters(client, 5, name)
    redisq("export", name, "-o", f"{name}.ndjson")
    return ["import", f"{name}.ndjson", "--queue", f"{name}-2", "--as-waiting"]


def remove(redisq: Redisq, client: redis.Redis, name: str) -> list[str]:
    queue = RequestQueue(client, name)
    queue.submit([b"x"] * 5, id="r1", limit=5)
    queue.take(5, consumer="gone")
    return ["workers", "rm", name, "gone"]


@pytest.mark.parametrize("change", [replay, purge, undo, import_, remove])
def test_a_change_is_followed_from_file_to_file(
    redisq: Redisq,
    client: redis.Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Redisq, redis.Redis, str], list[str]],
) -> None:
    monkeypatch.chdir(tmp_path)
    redisq(*change(redisq, client, "warm"), "--yes")  # loads modules and fills caches
    words = change(redisq, client, "mail")
    with Trace() as trace:
        out = redisq(*words, "--yes")
    assert "5 of 5" in out
    both_ways = {
        f"{a} and {b} call each other": sorted(calls | trace.calls[b, a])
        for (a, b), calls in list(trace.calls.items())
        if a < b and trace.calls.get((b, a))
    }
    assert not both_ways
    often = {
        file: parts
        for file, parts in trace.visits().items()
        if len(parts) > VISITS and file != STORE
    }
    assert not often, f"entered more than {VISITS} times, by first calls of: {often}"
    assert {"cli/confirm_and_run.py", "ops/change/runner.py"} <= trace.visits().keys()
