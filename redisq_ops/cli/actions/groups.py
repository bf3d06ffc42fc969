"""`redisq dlq groups` and `redisq dlq group`: dead letters by error."""

from __future__ import annotations

from functools import partial
from typing import Any

from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import NotFound
from redisq_ops.core.model.exit_codes import DONE, PARTLY_DONE
from redisq_ops.core.model.states import Verb
from redisq_ops.ops.change.allowed import only_shown
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.groups.error_groups import ErrorGroup, Grouping
from redisq_ops.ops.groups.heavy_hitters import DistinctNames
from redisq_ops.ops.groups.traits import GroupComparison, Trait, trait_sentence
from redisq_ops.ops.hint import hint
from redisq_ops.ops.terminal import percent

from ..filter_options import pages
from ..options import Selecting
from ..output import age, count, emit, reading, say, table, tell, when
from ..rows import entries_found, entry_row, tell_unread
from ..session import Session
from .entries import targets_to_read, unknown_state

STATE: State = "dead"
VERBS: tuple[Verb, ...] = ("replay", "purge")
SHOWN = 30
"""groups shown to a person; programs get all"""


def grouped(s: Session, selecting: Selecting) -> int:
    """Print the groups of the selected dead letters, largest first."""
    broken = False
    for target in targets_to_read(s, (STATE,), selecting):
        queue, now = target.queue, s.run(target.queue.now.op())
        grouping = Grouping(queue, target.state, target.filter, now)
        for page in pages(s, grouping.scan, selecting.conditions.scan_rate):
            grouping.groups.add([entry for entry in page if not entry.problem])
        broken = tell_unread([grouping.scan]) or broken
        if s.json:
            for row in _rows(grouping):
                emit(row)
        if unknown := unknown_state(s, grouping.scan):
            say(unknown)
        elif not s.json:
            _print(grouping)
    return PARTLY_DONE if broken else DONE


def _rows(grouping: Grouping) -> list[dict[str, Any]]:
    groups = grouping.groups
    looked = {"total": groups.total, "scanned": grouping.scanned, "complete": grouping.complete}
    rows = [
        {"queue": grouping.queue.name, "state": grouping.state, **_row(group), **looked}
        for group in groups.ranked()
    ]
    if groups.others.count:
        rows.append(
            {
                "queue": grouping.queue.name,
                "state": grouping.state,
                "group": None,
                "groups": groups.others.groups,
                "entries": groups.others.count,
                "form": None,
                "error": None,
                "lost": None,
                "reasons": {},
                "first_ms": None,
                "last_ms": None,
                "sample": None,
                "clients": None,
                "requests": None,
                "top_clients": {},
                "top_requests": {},
                "at_least": ["groups"],
                **looked,
            }
        )
    return rows


def _row(group: ErrorGroup) -> dict[str, Any]:
    """A group with stable JSON names; the numbers listed in ``at_least`` are lower bounds."""
    counted = {
        "entries": group.exact,
        "clients": not group.clients.more,
        "requests": not group.requests.more,
    }
    return {
        "group": group.fingerprint,
        "groups": 1,
        "entries": group.count,
        "form": group.form,
        "error": {"type": group.type, "message": group.message},
        "lost": group.lost,
        "reasons": group.reasons,
        "first_ms": group.first_ms,
        "last_ms": group.last_ms,
        "sample": group.sample,
        "clients": len(group.clients),
        "requests": len(group.requests),
        "top_clients": dict(group.clients.top(5)),
        "top_requests": dict(group.requests.top(5)),
        "at_least": [name for name, exact in counted.items() if not exact],
    }


def _print(grouping: Grouping) -> None:
    groups, total = grouping.groups, grouping.groups.total
    ranked = groups.ranked()
    whose = "clients" if any(len(group.clients) for group in ranked) else "requests"
    rows: list[list[Any]] = [
        [
            group.fingerprint,
            _many(group.count, group.exact),
            percent(group.count / total),
            group.lost,
            group.last_ms and age(grouping.now_ms - group.last_ms),
            _different(group.clients if whose == "clients" else group.requests),
            _error(group),
        ]
        for group in ranked[:SHOWN]
    ]
    hidden = groups.others.count + sum(group.count for group in ranked[SHOWN:])
    left = len(ranked[SHOWN:]) + groups.others.groups
    if hidden:
        more = f"in {_many(left, not groups.others.groups)} more groups"
        rows.append(["others", count(hidden), percent(hidden / total), None, None, None, more])
    if rows:
        table(["group", "entries", "share", "lost", "last", whose, "error"], rows)
    seen = f"; {grouping.scan.window_text}" if grouping.scan.window_text else ""
    number = len(ranked) + groups.others.groups
    in_ = f" in {_many(number, not groups.others.groups)} {'group' if number == 1 else 'groups'}"
    say(f"{grouping.queue.name}: {entries_found(grouping.scan)}{in_ if number else ''}{seen}")


def _error(group: ErrorGroup) -> str:
    return group.form if group.type is None else f"{group.type}: {group.form}"


def _many(n: int, exact: bool) -> str:
    return f"{'' if exact else '≥'}{n:,}"


def _different(names: DistinctNames) -> str | None:
    return _many(len(names), not names.more) if len(names) else None


def compared(s: Session, at: str, fingerprint: str) -> int:
    """Print a group, what its entries have in common, and the commands that change only them."""
    queue = s.run(s.deployment.queue(at))
    name, redaction = fingerprint.lower(), s.redaction
    now = s.run(queue.now.op())
    contrast = GroupComparison(queue, STATE, Filter(), name, now, redaction)
    with reading(f"looking through {queue.name}") as meter:
        while not contrast.over:
            s.run(contrast.step())
            meter(contrast.scanned, contrast.total)
    if (group := contrast.group) is None:
        raise NotFound(
            f"no group {name} among the {count(contrast.scanned)} dead entries of {queue.name} "
            f"({hint('dlq', 'groups', queue.name)} lists them)"
        )
    (_emit if s.json else _describe)(s, contrast, group)
    return 0


def _emit(s: Session, contrast: GroupComparison, group: ErrorGroup) -> None:
    queue = contrast.queue.name
    here, rest = contrast.here, contrast.rest
    emit(
        {
            "queue": queue,
            "state": contrast.state,
            **_row(group),
            "total": here.total + rest.total,
            "contrast": [
                {
                    "field": t.field,
                    "value": t.value,
                    "share": round(t.here, 4),
                    "rest": round(t.rest, 4),
                }
                for t in contrast.traits()
            ],
            "payloads": here.looked,
            "rest_payloads": rest.looked,
            "samples": [entry_row(queue, e) for e in contrast.samples],
        }
    )


def _describe(s: Session, contrast: GroupComparison, group: ErrorGroup) -> None:
    queue, redaction, now = contrast.queue, s.redaction, contrast.now_ms
    here, rest = contrast.here, contrast.rest
    total = here.total + rest.total
    tell(
        f"group {group.fingerprint} of {queue.name}: {count(group.count)} of {count(total)} dead "
        f"entries ({percent(group.count / total)})"
    )
    lines = [("error", _error(group))]
    if group.reasons:
        reasons = (f"{count(n)} {reason}" for reason, n in group.reasons.items())
        lines.append(("reason", ", ".join(reasons)))
    if group.first_ms is not None and group.last_ms is not None:
        lines += [
            ("first", f"{when(group.first_ms, s.utc)} ({age(now - group.first_ms)} ago)"),
            ("last", f"{when(group.last_ms, s.utc)} ({age(now - group.last_ms)} ago)"),
        ]
    for what, names in (("clients", group.clients), ("requests", group.requests)):
        if len(names):
            most = ", ".join(f"{name} {percent(n / group.count)}" for name, n in names.top(3))
            lines.append((what, f"{_different(names)}: {most}"))
    for what, text in lines:
        tell(f"  {what:<9} {text}")
    tell("the latest:")
    for entry in contrast.samples:
        error = entry.error
        message = redaction.text(error.message)[:200] if error is not None else entry.reason
        tell(f"  {queue.name}/{entry.id}  {message}")
    _describe_traits(s, contrast, contrast.traits())
    shown = s.run(only_shown(queue))
    tell("just this group:" if shown is None else f"the queue is only shown: {shown}")
    for verb in VERBS if shown is None else ():
        if contrast.state in queue.actions.get(verb, ()):
            tell("  " + hint("dlq", verb, queue.name, where=f"group={group.fingerprint}"))


def _describe_traits(s: Session, contrast: GroupComparison, traits: list[Trait]) -> None:
    here, rest = contrast.here, contrast.rest
    moment = partial(when, utc=s.utc)
    if traits:
        tell("more frequent here than elsewhere:")
    elif rest.total:
        tell("nothing known is more frequent here than elsewhere")
    else:
        tell("all dead entries are of this group: there is nothing to compare them with")
    for trait in traits:
        sentence = trait_sentence(trait.field, trait.value, trait.here, trait.rest, moment)
        tell(f"  {sentence}")
    if here.looked:
        tell(
            f"  (payloads of {count(here.looked)} of {count(here.total)} looked at, and of "
            f"{count(rest.looked)} of {count(rest.total)} others)"
        )
