"""The contestants: pinned packages, settings, numbers of jobs, and target ratios.

The number of jobs gives a second or two of work, so it differs between peers; figures are rates.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .environment import Environment, Language, environment
from .kinds import KINDS

HERE = Path(__file__).parent
HIREDIS = "hiredis==3.5.0"  # redis-py's fast parser; whoever uses redis-py is given it
REDIS_PY = ("redis==8.1.0", HIREDIS)
UVLOOP = "uvloop==0.23.0"


@dataclass(frozen=True, slots=True)
class PeerSetting:
    """One way to run a peer: a mode of its script, and the number of jobs."""

    mode: str
    jobs: int


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    language: Language
    pins: tuple[str, ...]
    work: tuple[PeerSetting, ...]
    default: tuple[PeerSetting, ...]
    """the worker as it starts without options"""
    work_goal: float | None = None
    """target: our worker's rate divided by the peer's"""
    default_goal: float | None = None
    submit: tuple[PeerSetting, ...] = ()
    submit_goal: float | None = None

    @property
    def script(self) -> Path:
        suffix = "py" if self.language == "python" else "cjs"
        program = self.name.partition("+")[0].replace("-", "_")
        return HERE / f"with_{program}.{suffix}"


python = partial(Peer, language="python")
node = partial(Peer, language="node")


def chunks(jobs: int) -> tuple[PeerSetting, ...]:
    return tuple(PeerSetting(f"chunks of {size}", jobs) for size in (500, 5000))


PEERS = (
    node(
        name="bullmq", pins=("bullmq@6.7.0", "ioredis@6.0.0"),
        work=(PeerSetting("concurrency 100", 20_000),), work_goal=3.5,
        default=(PeerSetting("default, concurrency 1", 4_000),), default_goal=1,
        submit=chunks(20_000),
    ),
    node(
        name="bee-queue", pins=("bee-queue@2.0.0",),
        work=(PeerSetting("concurrency 100", 30_000),), work_goal=3.5,
        default=(PeerSetting("default, concurrency 1", 4_000),),
        submit=chunks(50_000), submit_goal=1,
    ),
    python(
        name="huey", pins=("huey==3.5.4", *REDIS_PY),
        work=(PeerSetting("1 thread", 5_000), PeerSetting("4 threads", 7_000)), work_goal=10,
        default=(PeerSetting("default, 1 thread", 5_000),),
    ),
    python(
        name="taskiq", pins=("taskiq==0.13.0", "taskiq-redis==1.2.4", *REDIS_PY, UVLOOP),
        work=(
            PeerSetting("list, 100 tasks", 5_000), PeerSetting("list, 100 tasks, uvloop", 6_000),
            PeerSetting("stream, 100 tasks, uvloop", 6_000),
        ), work_goal=25,
        default=(PeerSetting("default, list, 100 tasks", 4_000),),
    ),
    python(
        name="dramatiq", pins=("dramatiq[redis]==2.2.1", *REDIS_PY),
        work=(PeerSetting("8 threads", 4_000), PeerSetting("8 threads, prefetch 100", 8_000)),
        work_goal=25, default=(PeerSetting("default, 8 threads", 3_000),),
    ),
    python(
        name="saq",
        # typing_extensions: imported, though not declared.
        pins=("saq[redis]==0.26.4", "redis==7.4.1", HIREDIS, "typing_extensions==4.16.0", UVLOOP),
        work=(PeerSetting("100 jobs", 4_000), PeerSetting("100 jobs, uvloop", 4_000)), work_goal=25,
        default=(PeerSetting("default, 10 jobs", 3_000),),
    ),
    python(
        name="arq", pins=("arq==0.28.0", "redis==5.3.1", HIREDIS, UVLOOP),
        work=(PeerSetting("100 jobs", 4_000), PeerSetting("100 jobs, uvloop", 4_000)), work_goal=25,
        default=(PeerSetting("default, 10 jobs, poll 0.5 s", 400),),
    ),
    python(
        name="streaq", pins=("streaq==7.2.0", "coredis==6.9.0"),
        work=(PeerSetting("16 tasks", 2_500), PeerSetting("100 tasks", 2_500)),
        default=(PeerSetting("default, 16 tasks", 2_000),),
    ),
    python(
        name="celery", pins=("celery[redis]==5.7.0", *REDIS_PY),
        work=(
            PeerSetting("solo", 2_000), PeerSetting("prefork 1", 1_500),
            PeerSetting("threads 10", 2_500),
        ),
        work_goal=50, default=(PeerSetting("default, prefork 1", 1_200),),
    ),
    python(
        name="rq", pins=("rq==3.0.0", *REDIS_PY),
        work=(PeerSetting("SimpleWorker", 600),), work_goal=100,
        default=(PeerSetting("default, a fork per job", 150),),
        submit=chunks(10_000), submit_goal=8,
    ),
    python(
        name="bullmq-py", pins=("bullmq==3.4.4", *REDIS_PY),
        work=(PeerSetting("concurrency 100", 4_000),),
        default=(PeerSetting("default, concurrency 1", 2_000),),
        submit=chunks(15_000), submit_goal=5,
    ),
)  # fmt: skip

OURS = Peer(
    name="redisq-ops",
    language="python",
    pins=(),
    work=(
        *(PeerSetting(f"{kind}, batch 100", 50_000) for kind in KINDS),
        PeerSetting("request, batch 500", 50_000),
    ),
    default=tuple(PeerSetting(f"{kind}, default", 4_000) for kind in KINDS),
    submit=tuple(PeerSetting(kind, 50_000) for kind in KINDS),
)
FASTER = replace(
    OURS,
    name="redisq-ops+hiredis",
    pins=(*REDIS_PY, "cronsim==2.8"),
    work=(PeerSetting("request, batch 100", 50_000),),
    default=(PeerSetting("request, default", 4_000),),
    submit=(PeerSetting("request", 50_000),),
)
"""with hiredis, which we do not require; ratios are without it"""

EVERYBODY = (OURS, FASTER, *PEERS)


def environment_of(peer: Peer) -> Environment:
    """Raises `NotInstalled`. Ours use this tree's package, the plain one in this environment."""
    if peer.name == OURS.name:
        found = {package: _version(package) for package in ("redis", "hiredis")}
        versions = ", ".join(f"{package} {version}" for package, version in found.items())
        made = Environment((sys.executable,), {}, f"this tree, {versions}")
    else:
        made = environment(peer.name, peer.language, peer.pins)
    if peer.script == OURS.script:
        return replace(made, variables={"PYTHONPATH": str(HERE.parents[1])})
    return made


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
