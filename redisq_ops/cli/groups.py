"""`redisq dlq groups` and `redisq dlq group`: dead letters by error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import NotFound, Refused, Unreachable
from redisq_ops.core.model.exit_codes import DONE, PARTLY_DONE
from redisq_ops.core.model.states import Verb
from redisq_ops.ops.change.allowed import only_shown
from redisq_ops.ops.change.wording import state_entries
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.scan import Scan, at_least
from redisq_ops.ops.groups.error_groups import ErrorGroup, ErrorGroups, Grouping
from redisq_ops.ops.groups.group_by import BY_ERROR, GroupBy, group_by
from redisq_ops.ops.groups.heavy_hitters import DistinctNames
from redisq_ops.ops.groups.traits import GroupComparison, Trait, trait_sentence
from redisq_ops.ops.hint import hint
from redisq_ops.ops.terminal import percent

from .address import tell_unread_queues
from .entries import targets_to_list, tell_mismatch, unknown_state
from .filter_options import pages
from .options import Selecting
from .output import age, count, emit, printable, quantity, reading, say, table, tell, when
from .output_types.entries import ErrorGroupFields
from .rows import entries_found, entry_row, tell_unread
from .session import Session

STATE: State = "dead"
VERBS: tuple[Verb, ...] = ("replay", "purge")
SHOWN = 30
"""groups shown to a person; programs get all"""


def grouped(s: Session, selecting: Selecting, by: str | None) -> int:
    """Print the groups of the selected dead letters, largest first."""
    targets, refused = targets_to_list(s, STATE, selecting, everything=True)
    names = [*(selecting.addresses or ()), *([selecting.queue] if selecting.queue else ())]
    everything = not names and s.config.values["queue"].origin == "default"
    several = len(targets) != 1 or everything or any("*" in name for name in names)
    groups = ErrorGroups(redaction=s.redaction, by=BY_ERROR if by is None else group_by(by))
    most, looked = selecting.conditions.max, list[Grouping]()
    broken = tell_unread_queues(refused)
    for target in targets:
        tell_mismatch(target)
        queue, now = target.queue, s.run(target.queue.now.op())
        left = None if most is None else most - groups.total
        if left == 0:
            break
        filter = replace(target.filter, max=left)
        grouping = Grouping(queue, target.state, filter, now, groups=groups)
        try:
            for page in pages(s, grouping.scan, selecting.conditions.scan_rate):
                groups.add([entry for entry in page if not entry.problem], queue.name)
        except Unreachable:
            raise
        except Refused as refusal:
            if not several:
                raise
            broken = True
            say(printable(f"{queue.name}: {refusal}"))
            continue
        looked.append(grouping)
    scans = [grouping.scan for grouping in looked]
    broken = tell_unread(scans) or broken
    unknown = [text for scan in scans if (text := unknown_state(s, scan))]
    for text in unknown:
        say(text)
    ranked = groups.ranked()
    read = [scan.absent for scan in scans if scan.scanned]
    if not ranked and read:
        for name in set.intersection(*map(set, read)):
            say(printable(f"no dead entry that was read has {name}"))
    for at, name in enumerate(groups.by.names if ranked and not groups.others.count else ()):
        if all(group.values[at] is None for group in ranked):
            say(printable(f"no dead entry that was read has {name}"))
    if s.json:
        for row in _rows(looked, groups):
            emit(row)
    elif len(unknown) < len(scans) or several:
        _print(looked, groups, several)
    return PARTLY_DONE if broken else DONE


def _rows(looked: Sequence[Grouping], groups: ErrorGroups) -> list[dict[str, Any]]:
    covers = {
        "total": groups.total,
        "scanned": sum(grouping.scanned for grouping in looked),
        "complete": all(grouping.complete for grouping in looked),
    }
    rows = [{"state": STATE, **_row(group, groups.by), **covers} for group in groups.ranked()]
    if groups.others.count:
        names = ErrorGroupFields.__annotations__
        rows.append(
            dict.fromkeys(names)
            | {
                "queue": looked[0].queue.name if len(looked) == 1 else None,
                "state": STATE,
                "groups": groups.others.groups,
                "entries": groups.others.count,
                "by": groups.by.words,
                **{name: {} for name in ("values", "reasons", "top_clients", "top_requests")},
                "at_least": ["groups"],
                **covers,
            }
        )
    return rows


def _row(group: ErrorGroup, by: GroupBy = BY_ERROR) -> dict[str, Any]:
    """A group with stable JSON names; the numbers listed in ``at_least`` are lower bounds."""
    counted = {
        "entries": group.exact,
        "tasks": not group.tasks.more,
        "errors": not group.errors.more,
        "clients": not group.clients.more,
        "requests": not group.requests.more,
    }
    return {
        "queue": group.queue,
        "group": group.fingerprint or None,
        "groups": 1,
        "entries": group.count,
        "by": by.words,
        "values": dict(zip(by.names, group.values, strict=True)),
        "where": group.where,
        "task": group.task,
        "tasks": len(group.tasks),
        "errors": 1 if by.error else len(group.errors),
        "form": group.form if by.error else None,
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


def _print(looked: Sequence[Grouping], groups: ErrorGroups, several: bool) -> None:
    by, total = groups.by, groups.total
    now = max((grouping.now_ms for grouping in looked), default=0)
    ranked = groups.ranked()
    whose = "clients" if any(len(group.clients) for group in ranked) else "requests"
    what = [*(["group"] if by.error else []), *(["queue"] if several else []), *by.names]
    times = ["first", "last"] if several else ["last"]
    rows: list[list[Any]] = [
        [
            *([group.fingerprint] if by.error else []),
            *([group.queue] if several else []),
            *(_value(*pair) for pair in zip(by.names, group.values, strict=True)),
            _many(group.count, group.exact),
            percent(group.count / total),
            group.lost,
            *([group.first_ms and age(now - group.first_ms)] if several else []),
            group.last_ms and age(now - group.last_ms),
            _different(group.clients if whose == "clients" else group.requests),
            _error(group) if by.error else _different(group.errors),
        ]
        for group in ranked[:SHOWN]
    ]
    hidden = groups.others.count + sum(group.count for group in ranked[SHOWN:])
    left = len(ranked[SHOWN:]) + groups.others.groups
    if hidden:
        more = f"in {_many(left, not groups.others.groups)} more groups"
        others = ["others", *[None] * (len(what) - 1), count(hidden), percent(hidden / total)]
        rows.append([*others, None, *[None] * len(times), None, more])
    if rows:
        last = "error" if by.error else "errors"
        table([*what, "entries", "share", "lost", *times, whose, last], rows)
    number = len(ranked) + groups.others.groups
    in_ = f" in {_many(number, not groups.others.groups)} {'group' if number == 1 else 'groups'}"
    found = in_ if number else ""
    if several:
        windows = _windows([grouping.scan for grouping in looked])
        say(f"{quantity(len(looked), 'queue')}: {state_entries(total, STATE)}{found}{windows}")
    else:
        scan = looked[0].scan
        seen = f"; {scan.window_text}" if scan.window_text else ""
        say(f"{scan.queue.name}: {entries_found(scan)}{found}{seen}")


def _windows(scans: Sequence[Scan]) -> str:
    """How far the window of each queue reached, in one sentence; '' without a window."""
    window = scans[0].filter.window if scans else None
    if window is None:
        return ""
    which = f"{'latest' if window < 0 else 'first'} {count(abs(window))} of each queue"
    total = at_least(sum(scan.total for scan in scans), all(scan.exact for scan in scans))
    return f"; examined {count(sum(scan.scanned for scan in scans))} of {total}: the {which}"


def _value(name: str, value: str | None) -> str | None:
    return "unknown" if value is None and name == "task" else value


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
            **_row(group),
            "queue": queue,
            "state": contrast.state,
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
            state = {} if verb == "replay" else {"state": contrast.state}
            where = f"group={group.fingerprint}"
            tell("  " + hint(verb, queue.name, **state, where=where))


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
