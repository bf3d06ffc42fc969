"""Mutants of how other programs' queues are read and changed: `conform` alone finds each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module

import pytest
import redis

from redisq_ops.testing.conformance import CHECKS, Specimen, conform

from ...mutants import Mutant, by_turns, looked_up, mutants, planted
from ..own_specimens import OWN
from .specimens import AS_JSON, SPECIMENS

LISTS = (*("asynq", "bull", "bullmq", "celery", "dramatiq", "laravel", "resque", "rq", "sidekiq"),)
"""kinds with neighbours in a list"""
JOBS = ("resque", "sidekiq")
KINDS: Mapping[str, tuple[str, ...]] = {
    **{f"foreign.{kind}": (kind,) for kind in SPECIMENS},
    "engine/score ignored": tuple(OWN),
    "engine/undo forgets the score": tuple(OWN),
    "foreign/undo": LISTS,
    "foreign/move": LISTS,
    "foreign/renamed unseen": ("bull",),
    "foreign/list renamed unseen": ("bull",),
    "foreign/marks left behind": (),
    "foreign/another's in the trash": (
        *("arq", "bull", "bullmq", "celery", "dramatiq", "resque", "rq", "sidekiq"),
    ),
    "foreign/remove_from_list": LISTS,
    "foreign/kept_keys": ("bullmq", "rq"),
    "foreign/edited with another score": ("sidekiq",),
    "foreign/edited unread": ("rq-json",),
    "foreign/another's entry edited": ("bullmq",),
    "foreign/an edit undone though touched": ("dramatiq", "rq-json"),
    "foreign/score ignored": ("asynq", "bull", "bullmq", "dramatiq", "laravel", "rq"),
    "foreign/undo of another score": ("bull", "bullmq", "laravel", "rq"),
    "foreign/undo at the wrong place": (
        *("asynq", "bull", "bullmq", "celery", "dramatiq", "laravel"),
    ),
    "foreign/undo forgets the score": ("asynq", "laravel", "rq"),
    "foreign.bullmq/moves": ("bullmq", "bull"),
    "foreign.bullmq/undo forgets the mark": ("bull",),
    "foreign.bullmq/record left": ("bullmq", "bull"),
    "foreign.bullmq/type check off": ("bullmq", "bull"),
    # The models of our workers have the rest.
    "foreign.sidekiq/promote": (),
    "foreign.ruby_jobs/job_lists": ("sidekiq",),
    "foreign.ruby_jobs/moves": ("sidekiq",),
    "foreign.ruby_jobs/settled, and moved": JOBS,
    "foreign.ruby_jobs/settled, and undone": JOBS,
    "foreign.ruby_jobs/type check off": JOBS,
    "foreign.ruby_jobs/undo at the wrong place": JOBS,
    "foreign.ruby_jobs/an older change undone over a newer one": (),
    "foreign.ruby_jobs/requeued to the end": (),
    "foreign.ruby_jobs/undone but not what was seen": (),
}
"""in which kinds the mutants of a folder are found; of a file there; and one alone"""
LIKELY = {
    ".*type check off": "types",
    ".*renamed unseen": "paused",
    "another's in the trash": "purged",
    "id that came again": "again",
    "restored in disorder": "restored",
    "undo of .*|an edit undone .*": "touched",
    "edited .*|.* (off|ignored|not compared)|another's .*|settled, .*": "races",
    "wrong end|(?!record).* left|another .*|nobody is woken|retry .*": "own verbs",
    ".*": "undo",
}
"""a pattern for mutants -> the check that finds them, if one does: all together take long"""
CASES = [
    pytest.param(kind, mutant, id=f"{kind}-{mutant.name}")
    for mutant in mutants()
    for kind in by_turns(mutant, looked_up(KINDS, mutant) or ())
]


def conform_by(client: redis.Redis, specimen: Specimen, first: str) -> Iterator[str]:
    """`conform`, one check before all others."""
    for checks in ({first}, CHECKS.keys() - {first}):
        skips = dict.fromkeys(CHECKS.keys() - checks, "not now")
        yield from conform(client, replace(specimen, skips={**specimen.skips, **skips}))


@pytest.mark.slow
@pytest.mark.alike
@pytest.mark.parametrize(("kind", "mutant"), CASES)
def test_a_fault_is_found(client: redis.Redis, kind: str, mutant: Mutant) -> None:
    likely = next(check for name, check in LIKELY.items() if re.fullmatch(name, mutant.name))
    with planted(mutant):
        found = next(conform_by(client, (SPECIMENS | OWN | AS_JSON)[kind], likely), "")
    assert found and "compiling" not in found, "what doesn't run at all would be noticed anyway"


RECOGNISERS = [
    (kind, method)
    for kind in SPECIMENS
    for method in ("by_name", "finds")
    if (kind, method) != ("arq", "by_name")  # its set is recognised by its content, too
]


@pytest.mark.slow
@pytest.mark.alike
@pytest.mark.parametrize(("kind", "method"), RECOGNISERS)
def test_a_fault_of_a_recogniser_is_found(
    client: redis.Redis, kind: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no(*_: object) -> bool:
        return False

    async def nothing(*_: object) -> list[object]:
        return []

    module = import_module(f"redisq_ops.core.foreign.{kind}.recogniser")
    name = "JobRecogniser" if kind in ("sidekiq", "resque") else f"{kind.title()}Recogniser"
    recogniser = getattr(module, name)
    spoiled = {"by_name": no, "finds": nothing}[method]
    monkeypatch.setattr(recogniser, method, spoiled)
    assert next(conform(client, SPECIMENS[kind]), None)
