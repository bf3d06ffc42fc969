"""Worker throughput and bulk submit, beside what people use today, on the same servers.

Every figure of a round is taken within minutes on one server (emptied each time), ours first, and a
ratio is taken within its round. Each contestant runs in a process of its own, in an environment of
its own (`environment`), by a script of its own (``with_*``; `tally` says what they measure), with
each of the settings in `roster`: those their documents give for speed in one process. The ratio
is to a peer's best setting, by its median.

What handlers do, and the jobs: nothing, with a payload of 100 bytes. Ours takes and settles with
lease, fence and re-send guard, and keeps no result. The peers keep none either, and delete what is
done, where they can be told to.

What is not installed and can't be, or fails, has a row that says so.
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

import redis

from ..measure import ROUNDS, empty, servers, url_of
from .environment import Environment, NotInstalled, folder
from .roster import EVERYBODY, OURS, PEERS, Peer, Setting, environment_of

TIMEOUT_S = 60
BUDGET_S = {"work": 330, "submit": 90}
"""on one server: no round begins that wouldn't end within it; five do on an idle machine"""


class Failed(Exception):
    """The script gave no figure; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant with one setting, at one of the two tasks."""

    peer: Peer
    what: str
    setting: Setting

    def __str__(self) -> str:
        return f"{self.peer.name} ({self.setting.mode})"


def rows(what: str, peers: Sequence[Peer]) -> list[Row]:
    return [
        Row(peer, what, setting)
        for peer in peers
        for setting in (peer.work if what == "work" else peer.submit)
    ]


def rate(row: Row, environment: Environment, url: str) -> float:
    """Jobs a second. Raises `Failed`."""
    setting = row.setting
    words = [row.what, setting.mode, url, str(setting.jobs)]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*environment.command, str(row.peer.script), *words],
            env={**os.environ, **environment.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            for line in _lines(process.stdout.fileno()):
                with suppress(ValueError, KeyError, TypeError):
                    found = json.loads(line)
                    return float(found["jobs"] / found["seconds"])
        finally:
            # The group: celery's child gives the figure, and its parent would live on.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines()
        ended = f"nothing within {TIMEOUT_S} s" if process.returncode == -9 else "ended"
        raise Failed(f"{ended}: {said[-1][:160] if said else 'without a word'}")


def _lines(stdout: int) -> Iterator[bytes]:
    """What a process writes until it closes its output, or time is up."""
    deadline, rest = time.monotonic() + TIMEOUT_S, b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([stdout], [], [], left)[0] or not (read := os.read(stdout, 65536)):
            return
        *lines, rest = (rest + read).split(b"\n")
        yield from lines


def measured(
    client: redis.Redis,
    environments: Mapping[str, Environment | NotInstalled],
    every: Sequence[Row],
) -> tuple[dict[Row, list[float]], dict[Row, str]]:
    """What each reached in each round; and of those that failed, why. They are not tried again."""
    rates: dict[Row, list[float]] = {row: [] for row in every}
    why: dict[Row, str] = {}
    began = time.monotonic()
    for nth in range(ROUNDS):
        if nth and (time.monotonic() - began) / nth * (nth + 1) > BUDGET_S[every[0].what]:
            break
        for row in every:
            if row in why:
                continue
            place = environments[row.peer.name]
            if isinstance(place, NotInstalled):
                why[row] = f"not installed, {place}"
                continue
            empty(client)
            try:
                rates[row].append(rate(row, place, url_of(client)))
            except Failed as error:
                why[row] = f"failed, {error}"
    return {row: found for row, found in rates.items() if row not in why and found}, why


def show(title: str, what: str, rates: Mapping[Row, list[float]], why: Mapping[Row, str]) -> None:
    """A table of every setting, and the ratio to each peer's best one."""
    rounds = max(map(len, rates.values()), default=0)
    print(f"  {title}, {rounds} rounds: jobs/s, median (min to max); jobs a round")
    yardstick = rates.get(rows(what, [OURS])[0])
    best: dict[str, Row] = {}
    for row, found in rates.items():
        other = best.get(row.peer.name)
        if other is None or statistics.median(found) > statistics.median(rates[other]):
            best[row.peer.name] = row
    for row in rows(what, EVERYBODY):
        if row in why:
            print(f"    {row!s:44} {why[row]}")
        if row not in rates:
            continue
        found = rates[row]
        spread = f"{statistics.median(found):9,.0f} ({min(found):,.0f} to {max(found):,.0f})"
        text = f"    {row!s:44} {spread:32} {row.setting.jobs:6,}"
        if yardstick and row.peer in PEERS and best[row.peer.name] == row:
            text += _ratio(yardstick, found, what, row.peer)
        print(text)


def _ratio(ours: Sequence[float], theirs: Sequence[float], what: str, peer: Peer) -> str:
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    goal = peer.work_goal if what == "work" else peer.submit_goal
    return f"  ours x {ratio:.1f}" + (f" (goal {goal:g})" if goal else "")


def main() -> None:
    """Some ten minutes, less than fifteen."""
    began = time.monotonic()
    environments: dict[str, Environment | NotInstalled] = {}
    for peer in EVERYBODY:
        try:
            environments[peer.name] = found = environment_of(peer)
            print(f"  {peer.name}: {found.versions}")
        except NotInstalled as error:
            environments[peer.name] = error
            print(f"  {peer.name}: not installed, {error}")
    with servers() as each:
        for name, client in each:
            print(f"{name}, load {os.getloadavg()[0]:.1f} before:", flush=True)
            for what, title in (
                ("work", "a worker in one process, no-op handler"),
                ("submit", "bulk submit"),
            ):
                every = rows(what, EVERYBODY)
                rates, why = measured(client, environments, every)
                show(title, what, rates, why)
            print(f"  load {os.getloadavg()[0]:.1f} after", flush=True)
    print(f"took {time.monotonic() - began:.0f} s; environments in {folder()}")
