"""Worker throughput and bulk submit, compared with other programs on the same servers.

All figures of a round are taken within minutes on one server (emptied each time), ours first, and
ratios are taken within a round. Each contestant runs in a process and an environment of its own
(`environment`), by a script of its own (``with_*``; `timing` defines what they measure), with each
setting in `roster`: those that its documentation recommends for speed in one process, and the one
it has without options. The ratio is to a peer's best setting, by the median, and to its default by
ours.

Handlers do nothing, and payloads have 100 bytes. Ours takes and settles with lease, fence and guard
against repeated calls, and keeps no result. The peers keep none either, and delete done jobs, where
they can.

A peer that can't be installed, or fails, has a row with the reason.
"""

from __future__ import annotations

import json
import os
import select
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import redis

from ..measure import ROUNDS, empty, servers, url_of
from .environment import Environment, NotInstalled, cache_folder
from .roster import EVERYBODY, OURS, PEERS, Peer, PeerSetting, environment_of

TIMEOUT_S = 60
BUDGET_S = {"work": 330, "default": 240, "submit": 90}
"""per server: no round begins that would not end within it; five do on an idle machine"""


class PeerFailed(Exception):
    """A script gave no figure; the message is one line with the reason."""


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant with one setting, for one of the two tasks."""

    peer: Peer
    task: str
    setting: PeerSetting

    def __str__(self) -> str:
        return f"{self.peer.name} ({self.setting.mode})"


def rows(task: str, peers: Sequence[Peer]) -> list[Row]:
    return [Row(peer, task, setting) for peer in peers for setting in getattr(peer, task)]


def rate(row: Row, environment: Environment, url: str) -> float:
    """Jobs per second. Raises `PeerFailed`."""
    setting = row.setting
    what = "submit" if row.task == "submit" else "work"
    words = [what, setting.mode, url, str(setting.jobs)]
    values = figures(environment, row.peer.script, words)
    return values["jobs"] / values["seconds"]


def figures(environment: Environment, script: Path, words: Sequence[str]) -> dict[str, float]:
    """What a script reports. Raises `PeerFailed`."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*environment.command, str(script), *words],
            env={**os.environ, **environment.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            for line in _lines(process.stdout.fileno()):
                with suppress(ValueError, AttributeError, TypeError):
                    return {name: float(value) for name, value in json.loads(line).items()}
        finally:
            # Kill the group: celery's child reports the figure, and its parent would live on.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
        outcome = f"nothing within {TIMEOUT_S} s" if process.returncode == -9 else "ended"
        raise PeerFailed(f"{outcome}: {lines[-1][:160] if lines else 'without a word'}")


def _lines(stdout: int) -> Iterator[bytes]:
    """Output lines of a process until it closes its output, or until the timeout."""
    deadline, rest = time.monotonic() + TIMEOUT_S, b""
    while (remaining := deadline - time.monotonic()) > 0:
        if not select.select([stdout], [], [], remaining)[0] or not (
            read := os.read(stdout, 65536)
        ):
            return
        *lines, rest = (rest + read).split(b"\n")
        yield from lines


def measure_rows(
    client: redis.Redis,
    environments: Mapping[str, Environment | NotInstalled],
    rows_of_task: Sequence[Row],
) -> tuple[dict[Row, list[float]], dict[Row, str]]:
    """Rates of each row in each round, and reasons of failed rows, which are not tried again."""
    rates: dict[Row, list[float]] = {row: [] for row in rows_of_task}
    failures: dict[Row, str] = {}
    start = time.monotonic()
    for round_number in range(ROUNDS):
        if (
            round_number
            and (time.monotonic() - start) / round_number * (round_number + 1)
            > BUDGET_S[rows_of_task[0].task]
        ):
            break
        for row in rows_of_task:
            if row in failures:
                continue
            environment = environments[row.peer.name]
            if isinstance(environment, NotInstalled):
                failures[row] = f"not installed, {environment}"
                continue
            empty(client)
            try:
                rates[row].append(rate(row, environment, url_of(client)))
            except PeerFailed as error:
                failures[row] = f"failed, {error}"
    return {
        row: values for row, values in rates.items() if row not in failures and values
    }, failures


def show(
    title: str, task: str, rates: Mapping[Row, list[float]], failures: Mapping[Row, str]
) -> None:
    """Print a table of every setting, and the ratio to each peer's best one."""
    rounds = max(map(len, rates.values()), default=0)
    print(f"  {title}, {rounds} rounds: jobs/s, median (min to max); jobs a round")
    own_rates = rates.get(rows(task, [OURS])[0])
    best: dict[str, Row] = {}
    for row, values in rates.items():
        other = best.get(row.peer.name)
        if other is None or statistics.median(values) > statistics.median(rates[other]):
            best[row.peer.name] = row
    for row in rows(task, EVERYBODY):
        if row in failures:
            print(f"    {row!s:44} {failures[row]}")
        if row not in rates:
            continue
        values = rates[row]
        spread = f"{statistics.median(values):9,.0f} ({min(values):,.0f} to {max(values):,.0f})"
        text = f"    {row!s:44} {spread:32} {row.setting.jobs:6,}"
        if own_rates and row.peer in PEERS and best[row.peer.name] == row:
            text += _ratio(own_rates, values, task, row.peer)
        print(text)


def _ratio(ours: Sequence[float], peer_rates: Sequence[float], task: str, peer: Peer) -> str:
    ratio = statistics.median(a / b for a, b in zip(ours, peer_rates, strict=True))
    goal: float | None = getattr(peer, f"{task}_goal")
    return f"  ours x {ratio:.1f}" + (f" (goal {goal:g})" if goal else "")


def main() -> None:
    """Takes fifteen to twenty minutes."""
    start = time.monotonic()
    environments: dict[str, Environment | NotInstalled] = {}
    for peer in EVERYBODY:
        try:
            environments[peer.name] = values = environment_of(peer)
            print(f"  {peer.name}: {values.versions}")
        except NotInstalled as error:
            environments[peer.name] = error
            print(f"  {peer.name}: not installed, {error}")
    with servers() as each:
        for name, client in each:
            print(f"{name}, load {os.getloadavg()[0]:.1f} before:", flush=True)
            for task, title in (
                ("work", "a worker in one process, no-op handler"),
                ("default", "the same with the worker's default settings"),
                ("submit", "bulk submit"),
            ):
                rows_of_task = rows(task, EVERYBODY)
                rates, failures = measure_rows(client, environments, rows_of_task)
                show(title, task, rates, failures)
            print(f"  load {os.getloadavg()[0]:.1f} after", flush=True)
    print(f"took {time.monotonic() - start:.0f} s; environments in {cache_folder()}")
