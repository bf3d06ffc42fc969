"""The table of what can be changed in queues of other programs is made from the code."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest

from redisq_ops.core.engine.optional_features import (
    HasDoneEntries,
    HasOwnersPause,
    HasTaskMetrics,
)
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.queue_classes import foreign_class
from redisq_ops.core.foreign import LAYOUTS
from redisq_ops.core.foreign.base import ForeignQueue
from redisq_ops.core.foreign.schedules import HasSchedules, ScheduleProgram
from redisq_ops.core.model.states import VERBS
from redisq_ops.core.model.worker_command import WorkerWord

from ..foreign_keys.installed_releases import releases as listed
from .reader import DOCS

PAGE = DOCS / "how-to" / "inspect-other-queues.md"
COMMANDS: dict[WorkerWord, str] = {
    "quiet": "workers quiet",
    "stop": "workers stop",
    "stop-job": "pending stop",
}
MADE = re.compile(r"(<!-- made from the code by [^\n]*-->\n).*?(<!-- end -->)", re.S)


def table() -> str:
    kinds = {name: foreign_class(name) for name in LAYOUTS}
    changed = {name: kind for name, kind in kinds.items() if kind and kind.actions}
    verbs = [verb for verb in VERBS if any(verb in kind.actions for kind in changed.values())]
    rows = [
        f"| `{verb}` | "
        + " | ".join(", ".join(kind.actions.get(verb, ())) or "–" for kind in changed.values())
        + " |"
        for verb in verbs
    ]
    edits = (", ".join(kind.editable_states) or "–" for kind in changed.values())
    rows.append("| `edit` of arguments as JSON | " + " | ".join(edits) + " |")
    orphans = (", ".join(kind.orphan_states) or "–" for kind in changed.values())
    rows.append("| `purge` of ids without a record, also | " + " | ".join(orphans) + " |")
    rows += [
        f"| `{command}` | "
        + " | ".join(
            "–" if word in kind.no_commands else "by its own command" for kind in changed.values()
        )
        + " |"
        for word, command in COMMANDS.items()
    ]
    rows.append("| `queue pause` | " + " | ".join(map(paused, changed.values())) + " |")
    rows += [
        f"| `periodic {verb}` | "
        + " | ".join(
            ", ".join(one.name for one in programs(kind) if verb not in one.refusals) or "–"
            for kind in changed.values()
        )
        + " |"
        for verb in ("ls", "pause", "rm", "run")
    ]
    rows.append("| rates in `ls` | " + " | ".join(map(rates, changed.values())) + " |")
    rows.append("| `tasks`, from | " + " | ".join(map(tasks, changed.values())) + " |")
    why = [
        f"- {kind.owner}, {what}: {reason}."
        for kind in changed.values()
        for what, reason in kind.refusals.items()
    ]
    for kind in changed.values():
        why += [f"- {kind.owner}, {COMMANDS[w]}: {no}." for w, no in kind.no_commands.items()]
        asked = {
            "queue pause": kind.no_pause,
            "periodic": kind.no_schedules,
            "tasks": kind.task_figures,
        }
        why += [f"- {kind.owner}, {what}: {reason}." for what, reason in asked.items() if reason]
        why += [
            f"- {one.name}, periodic {verb}: {reason}."
            for one in programs(kind)
            for verb, reason in one.refusals.items()
        ]
    head = "| | " + " | ".join(f"`{name}`" for name in changed) + " |"
    rule = "|---|" + "---|" * len(changed)
    return "\n".join(
        [
            "",
            head,
            rule,
            *rows,
            "",
            "Why not, and what to do instead:",
            "",
            *why,
            "",
            *releases(),
            "",
        ]
    )


def paused(kind: type[Queue[Any]]) -> str:
    """Whose workers a pause from here stops."""
    if issubclass(kind, HasOwnersPause):
        return "its own workers" if kind.pause_heeded else "its own workers (Pro), redisq's"
    return "redisq's workers" if kind.has_settings else "–"


def rates(kind: type[Queue[Any]]) -> str:
    """What the owner counts by the minute, or in totals that grow."""
    return "–" if kind.rates is ForeignQueue.rates else "out, failed"


def tasks(kind: type[Queue[Any]]) -> str:
    """What the runs of tasks are known from."""
    if issubclass(kind, HasTaskMetrics):
        return kind.metrics_name
    return "done and dead entries" if issubclass(kind, HasDoneEntries) else "dead entries"


def programs(kind: type[Queue[Any]]) -> Sequence[ScheduleProgram]:
    """The programs whose schedules put jobs into queues of a kind."""
    return kind.schedule_programs if issubclass(kind, HasSchedules) else ()


def releases() -> list[str]:
    """Which releases of each program can be changed, by its kind's declaration."""
    kinds = [kind for name in LAYOUTS if (kind := foreign_class(name)) and kind.releases]
    rows = [
        f"| {kind.owner} | {kind.releases.bounds} | {', '.join(kind.releases.tried) or '–'} "
        f"| {', '.join(kind.releases.known) or '–'} | {kind.releases.told or 'nowhere'} |"
        for kind in kinds
        if kind.releases
    ]
    head = (
        "| program | changed | tried with | known from its source | where Redis says the release |"
    )
    return ["Releases of each program:", "", head, "|---|---|---|---|---|", *rows]


def test_every_kind_that_changes_queues_declares_its_releases() -> None:
    for name in LAYOUTS:
        kind = foreign_class(name)
        assert kind is None or bool(kind.actions) is (kind.releases is not None)


def run_by_tests(name: str, kind: type[ForeignQueue[Any]]) -> list[str]:
    """The releases within the bounds that have a folder of packages, and the one installed here."""
    there = listed(name)
    with suppress(PackageNotFoundError):
        there.append(version(name))
    assert kind.releases
    inside = [release for release in there if kind.releases.other([release]) is None]
    return [".".join(release.split(".")[:2]) for release in inside]


@pytest.mark.parametrize("name", ["rq", "arq", "bullmq", "bull", "celery", "dramatiq"])
def test_the_releases_that_were_tried_are_those_that_tests_run_and_pages_name(name: str) -> None:
    kind = foreign_class(name)
    assert kind and kind.releases and list(kind.releases.tried) == run_by_tests(name, kind)
    page = " ".join((DOCS / "how-to" / f"work-with-{name}.md").read_text().split())
    *first, last = kind.releases.tried
    said = f"{', '.join(first)} and {last}" if first else last
    assert f"redisq's tests run {kind.owner} {said}" in page
    assert re.search(rf"You run \[{kind.owner}\]\(\S+\) {kind.releases.bounds}\b", page)


def test_the_table_of_verbs_is_current() -> None:
    page = PAGE.read_text()
    made = MADE.sub(lambda found: f"{found[1]}{table()}\n{found[2]}", page)
    if os.environ.get("REDISQ_DOCS") == "redraw":
        PAGE.write_text(made)
    assert PAGE.read_text() == made


def test_every_kind_can_be_paused_or_says_what_does() -> None:
    for name in LAYOUTS:
        kind = foreign_class(name)
        if kind and kind.actions:
            assert (paused(kind) == "–") is bool(kind.no_pause)
            assert bool(programs(kind)) is not bool(kind.no_schedules) or kind.kind == "resque"


def test_what_is_refused_is_no_action() -> None:
    for name in LAYOUTS:
        kind = foreign_class(name)
        for what in kind.refusals if kind else ():
            verb, _, state = what.partition(" ")
            assert verb in VERBS
            assert not (state in kind.actions.get(verb, ()) if state else verb in kind.actions)  # type: ignore[union-attr]
