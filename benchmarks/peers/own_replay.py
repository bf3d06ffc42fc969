"""Replay of all failed jobs by the program that owns them: its own command or bulk call."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import redis

from ..measure import empty, url_of
from .environment import Environment, NotInstalled, environment
from .roster import PEERS

SCRIPTS = {"rq": "replay_rq.py", "bullmq": "replay_bullmq.cjs", "sidekiq": "replay_sidekiq.rb"}


@dataclass(frozen=True, slots=True)
class Replayed:
    """Wall time of the call, and CPU time of the server, both for a job; the versions."""

    wall_us: float
    server_us: float
    versions: str


def replay(name: str, client: redis.Redis, jobs: int, step: int) -> Replayed:
    """One round. ``step``: jobs that BullMQ moves at a time. Raises `NotInstalled`."""
    environment = _environment(name)
    script = Path(__file__).parent / SCRIPTS[name]
    empty(client)
    done = subprocess.run(
        [*environment.command, str(script), "replay", str(step), url_of(client), str(jobs)],
        env={**os.environ, **environment.variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if "Error" in line), done.stderr)
        raise NotInstalled(said.strip()[:200])
    answer = json.loads(done.stdout.splitlines()[-1])
    wall_us, server_us = (1e6 * answer[key] / jobs for key in ("seconds", "server_seconds"))
    return Replayed(wall_us, server_us, environment.versions)


def _environment(name: str) -> Environment:
    if name != "sidekiq":
        peer = next(peer for peer in PEERS if peer.name == name)
        return environment(name, peer.language, peer.pins)
    ruby = shutil.which("ruby")
    asked = [ruby or "ruby", "-e", "require 'sidekiq'; print 'sidekiq ', Sidekiq::VERSION"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False) if ruby else None
    if found is None or found.returncode:
        raise NotInstalled("no Ruby with the gem sidekiq on this machine")
    return Environment((asked[0],), {}, found.stdout)
