"""A user who lacks one right: each operation on each kind changes nothing, or does all of it.

The right is withdrawn while the user is connected, as an administrator does it. Cases are an
operation and a command that it runs; an operation and channels; an operation and a queue's key.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.entry import STATES
from redisq_ops.core.model.errors import Forbidden
from redisq_ops.core.redis import acl_rights

from ..command_line import Redisq
from ..conftest import WANTED
from .database import Database, Digests
from .foreign_stages import PROGRAMS, program_stage
from .stages import KINDS, Stage, stage

ALL = "reset on nopass allchannels allkeys allcommands"
SOME = {"take", "take of what is due", "ack", "fail", "put", "replay", "undo", "sweep", "cancel"}
RULE = {"command": r"ACL SETUSER limited \+", "key": "ACL SETUSER limited (%R)?~"}


@pytest.fixture
def user(url: str, client: redis.Redis) -> Iterator[redis.Redis]:
    """A client of a user with all rights, to be limited."""
    client.execute_command("ACL", "SETUSER", "limited", *ALL.split())  # type: ignore[no-untyped-call]
    with redis.Redis.from_url(url, username="limited", password="", protocol=3) as limited:
        yield limited
    client.acl_deluser("limited")


@dataclass
class Cases:
    """Operations of a stage by a user who lacks something, and what became of them."""

    admin: redis.Redis
    stage: Stage
    counted: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.database = Database(self.admin)
        self.database.save()
        self.database.restore()
        self.before = self.database.digests()

    def allow(self, *rules: str) -> None:
        self.admin.execute_command("ACL", "SETUSER", "limited", *rules)  # type: ignore[no-untyped-call]

    def complete(self, name: str) -> tuple[Digests, list[str]]:
        """What the operation does with all rights, and the commands that it runs."""
        self.allow(*ALL.split())
        self.database.restore()
        self.admin.config_resetstat()
        self.stage.run(name)
        stats = self.admin.info("commandstats")
        after = self.database.digests()
        self.database.restore()
        ran = [name.removeprefix("cmdstat_") for name in stats]
        return after, [name for name in ran if name not in ("config|resetstat", "info", "eval")]

    def run(self, name: str, lacks: str, after: Digests, kind: str = "command") -> None:
        said: Exception | None = None
        try:
            self.stage.run(name)
        except Exception as error:
            said = error
        now = self.database.digests()
        word = "half" if now != after and now != self.before else "done"
        if now != self.before:
            self.database.restore()
        if said is not None:
            clear = isinstance(said, Forbidden) and "\n" not in str(said)
            word = "half" if now != self.before else "refused" if clear else "unclear"
            if word == "refused" and not re.search(RULE[kind], str(said)):
                word = "without a rule"
        self.counted[word] += 1
        if word not in ("refused", "done"):
            self.bad.append(f"{name} without {lacks}: {word}: {said!r:.300}")


@pytest.fixture
def cases(
    request: pytest.FixtureRequest,
    client: redis.Redis,
    user: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> Cases:
    monkeypatch.setattr(SidekiqQueue, "random", staticmethod(lambda: 0.5))
    kind = request.param
    return Cases(client, program_stage(user, kind) if kind in PROGRAMS else stage(user, kind))


SOMEWHERE = [(kind, WANTED[0]) for kind in KINDS] + [(KINDS[0], server) for server in WANTED[1:]]
"""the first kind on every server: what a script does without a right is the server's alone"""
every_kind = pytest.mark.parametrize(("cases", "server"), SOMEWHERE, indirect=True)
every_program = pytest.mark.parametrize(
    ("cases", "server"), [(kind, WANTED[0]) for kind in PROGRAMS], indirect=True
)


@pytest.mark.slow
@every_kind
def test_without_a_command_or_channels_nothing_is_half_done(cases: Cases) -> None:
    for name in cases.stage.operations:
        after, commands = cases.complete(name)
        for command in commands:
            cases.allow(f"-{command}")
            cases.run(name, command, after)
            cases.allow(f"+{command}")
        cases.allow("resetchannels")
        cases.run(name, "channels", after)
        cases.allow("allchannels")
    assert not cases.bad, f"{cases.counted}\n" + "\n".join(cases.bad)
    assert cases.counted["refused"] > 10


@pytest.mark.slow
@every_program
def test_nor_in_queues_of_other_programs(cases: Cases) -> None:
    test_without_a_command_or_channels_nothing_is_half_done(cases)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cases", "server"), [(kind, WANTED[0]) for kind in (*KINDS[7:], *PROGRAMS)], indirect=True
)
def test_a_missing_right_is_never_called_corruption(cases: Cases) -> None:
    """Each read command of each look is withdrawn: the look shows the same, or names the right."""
    cases.stage.operations = looks(cases.stage.made)
    for name in cases.stage.operations:
        _, commands = cases.complete(name)
        shown = str(cases.stage.run(name))
        for command in commands:
            cases.allow(f"-{command}")
            said = ""
            try:
                said = str(cases.stage.run(name))
            except Exception as error:
                said = str(error)
            cases.allow(f"+{command}")
            if said != shown and f"ACL SETUSER limited +{command}" not in said:
                cases.bad.append(f"{name} without {command}: {said:.300}, not {shown:.300}")
    assert not cases.bad, "\n".join(cases.bad)


def looks(queue: Any) -> dict[str, Any]:
    """What is shown of a queue, without times."""

    def page(state: Any) -> Any:
        return lambda q: [(e.id, e.problem) for e in q.page(state).entries]

    def counts(queue: Any) -> Any:
        found = queue.counts()
        return {state: found.of(state) for state in STATES}, found.problem, found.paused

    states = getattr(queue, "states", ("waiting", "pending"))
    found: dict[str, Any] = {f"page of {state}": page(state) for state in states}
    return found | {"counts": counts, "checkup": lambda queue: queue.checkup(thorough=True)}


@pytest.mark.slow
@every_program
def test_a_refused_change_leaves_no_audit_record(cases: Cases, redisq: Redisq, url: str) -> None:
    redisq.url = url.replace("redis://", "redis://limited:@")
    name = cases.stage.made.name
    begun = len(cases.admin.zrange(cases.stage.made.keys["ops"], 0, -1))
    for verb, states in cases.stage.made.actions.items():
        if verb not in ("replay", "requeue", "purge"):
            continue
        words = (verb, name, *(("--state", states[0]) if verb != "replay" else ()), "--yes")
        cases.allow(*ALL.split())
        cases.database.restore()
        cases.admin.config_resetstat()
        redisq(*words, code=None)
        ran = [name.removeprefix("cmdstat_") for name in cases.admin.info("commandstats")]
        for command in ran:
            cases.database.restore()
            cases.allow(f"-{command}")
            out = redisq(*words, code=None)
            cases.allow(f"+{command}")
            logged = cases.admin.zrange(cases.stage.made.keys["ops"], 0, -1)
            refused = "ACL SETUSER" in redisq.err and redisq.code == 1
            if refused and len(logged) > begun:
                cases.bad.append(f"{words} without {command} left {logged}: {redisq.err}")
            if "corrupt" in out + redisq.err:
                cases.bad.append(f"{words} without {command}: {out}{redisq.err}")
    assert not cases.bad, "\n".join(cases.bad)


@pytest.mark.slow
@every_kind
def test_without_writing_one_key_nothing_is_half_done(cases: Cases) -> None:
    patterns = dict(keys(cases.stage.made))
    for name in cases.stage.operations.keys() & SOME:
        after, _ = cases.complete(name)
        for part, pattern in patterns.items():
            others = [f"~{other}" for other in patterns.values() if other != pattern]
            cases.allow("resetkeys", "~redisq:registry", *others, f"%R~{pattern}")
            cases.run(name, f"writing {part}", after, "key")
    assert not cases.bad, f"{cases.counted}\n" + "\n".join(cases.bad)
    assert cases.counted["refused"] > 10 or cases.stage.kind == "stream"


def keys(queue: Any) -> Iterator[tuple[str, str]]:
    """Parts of a queue's keys, and a pattern of the keys of each."""
    for name in (*acl_rights.PUT, *acl_rights.WORK, "move", "undo", "record_operation"):
        with suppress(FileNotFoundError):
            for part in queue._script(name).header.keys:
                yield part, queue.keys[part] + ("*" if part.endswith("_") else "")
