"""`redisq check`: rules on all queues, for a monitor."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from redisq_ops.core.model.entry import STATES, Counts
from redisq_ops.core.model.errors import BadInput, NotFound, RedisqError
from redisq_ops.ops.hint import hint
from redisq_ops.ops.terminal import quantity
from redisq_ops.ops.trouble.finding import Severity, Trouble
from redisq_ops.ops.trouble.judgement import judged
from redisq_ops.ops.trouble.shared import FOLDED_FROM, Likeness, likeness, shared_trouble

from ..options import QUEUES, command, flag, option, options
from ..output import emit, error_fields, say, table, tell
from ..session import Session

if TYPE_CHECKING:
    from redisq_ops.ops.check.rules import Rules
    from redisq_ops.ops.check.standing import Standing
    from redisq_ops.ops.inspect.overview import Overview
    from redisq_ops.ops.notify.episode import Checked
    from redisq_ops.ops.notify.notifier import Notifier

    Teller = Callable[[Checked], Sequence[str]]

commands = typer.Typer()
WORDS = {0: "OK", 1: "WARNING", 2: "CRITICAL", 3: "UNKNOWN"}
NO_QUEUES = "no queue is registered: {finds} finds queues of other programs"
SHOWN = 5
"""number of broken rules that the line names"""
SUMMED = tuple(state for state in STATES if state not in ("trash", "done"))
"""states whose entries perfdata counts"""


@options
class Judging:
    """Which queues are checked, and by which rules."""

    names: list[str] | None = QUEUES
    rules: Path | None = option("--rules", "FILE", "Rules, in TOML.")
    settings: list[str] | None = option(
        "--set", "NAME=VALUE", "Threshold, as oldest=1h or dead=50; repeatable."
    )
    warning: list[str] | None = option(
        "--warning", "EXPR", "Warn while this holds, as 'waiting>1000'; repeatable."
    )
    critical: list[str] | None = option(
        "--critical", "EXPR", "Critical while this holds, as 'dead>0'; repeatable."
    )
    server: bool = flag("--server", "Check the server's settings, too.")

    def rule_tables(self) -> Rules:
        """The rules of the file and of the options."""
        from redisq_ops.ops.check.rules import Rules, read_rules

        rules = read_rules(self.rules) if self.rules else Rules()
        return rules.with_options(self.settings or (), self.warning or (), self.critical or ())


@command(commands, "check", prints="MonitorCheck RuleStanding NotifiedRecipient")
def check(
    s: Session,
    judging: Judging,
    *,
    explain: bool = flag("--explain", "Show how each rule stands."),
    notify: bool = flag("--notify", "Tell the recipients of [notify] what changed."),
    notify_test: bool = flag("--notify-test", "Send each recipient a test message, and end."),
) -> int:
    """Check all queues against rules, for a monitor: one line and an exit code.

    Exit 0: no rule is broken. 1: warning. 2: critical. 3: unknown, as when the rules can't be
    read, the server can't be reached, or no queue is registered. The dashboard's trouble column
    uses the same rules.
    A recipient of --notify that can't be told is a line on stderr.

    Examples:
      redisq check
      redisq check 'mail*' --set oldest=10m --critical 'dead>100'
      redisq check --rules /etc/redisq/check.toml --server
      redisq check --explain
      redisq check --notify
    """
    if notify_test:
        return _test(s, notifier(s))
    rules = judging.rule_tables()
    teller, fault = _teller(s) if notify else (None, None)
    checked = examined(s, judging, rules, teller)
    if explain:
        _explain(s, checked.found)
        for queues in checked.unused:
            say(f"no queue matches {queues!r}: the rules for it check nothing")
    if fault is not None and not checked.broken:  # a trouble is shown although nobody is told
        raise fault
    checked.print(s.json)
    return checked.code


@dataclass(frozen=True, slots=True)
class Examined:
    """What a check found."""

    seen: Overview
    """of the queues whose name matches"""
    found: list[Standing]
    broken: list[Standing]
    unused: list[str]
    """patterns of rules that match no queue"""
    absent: NotFound | None
    """why a name means no queue"""

    @property
    def code(self) -> int:
        """The exit code; where no queue is registered, nobody knows whether one is in trouble."""
        if not self.seen.rows and not self.broken:
            return 3
        return max((int(one.severity) for one in self.broken), default=0)

    def print(self, as_json: bool) -> None:
        """Print the line, or the object, for a monitor."""
        word = WORDS[self.code]
        if not as_json:
            sentence = NO_QUEUES.format(finds=hint("discover"))
            if self.seen.rows or self.broken:
                sentence = _sentence(self.broken, len(self.seen.rows)) + _unknown_numbers(self.seen)
            sentence += f"; {self.absent}".replace("|", "/") if self.absent else ""
            tell(f"{word}: {sentence} | {_perfdata(self.seen, self.broken)}")
            return
        findings = [
            {
                "severity": one.severity,
                "queue": one.queue,
                "rule": one.rule,
                "reason": one.reason,
            }
            for one in self.broken
        ]
        queues = len(self.seen.rows)
        error = self.absent and error_fields(self.absent, str(self.absent))
        emit({"status": word.lower(), "queues": queues, "findings": findings, "error": error})


def examined(s: Session, judging: Judging, rules: Rules, tell: Teller | None) -> Examined:
    """Check the queues; ``tell`` is called also when the check fails, but for bad input. Raises
    `NotFound` for a name that means no queue, unless other queues are in trouble.

    What goes wrong with telling is a line on stderr, and changes nothing else."""
    from redisq_ops.core.redis.server_errors import translate
    from redisq_ops.ops.notify.birth import births
    from redisq_ops.ops.notify.episode import Checked

    names = tuple(judging.names or ())
    try:
        checked = _examined(s, names, judging.server, rules)
        born = s.run(births(s.deployment, checked.seen.rows)) if tell is not None else {}
    except Exception as error:
        known = translate(error)
        # A queue that isn't there is the caller's mistake: nobody is woken up for it.
        mistake = isinstance(known, (BadInput, NotFound)) or not isinstance(known, RedisqError)
        if tell is not None and not mistake:
            say_each(tell(Checked.failed(" ".join(str(known).split()))))
        raise
    if tell is not None:
        known_dead = {
            row.name
            for row in checked.seen.rows
            if row.acknowledged is not None and row.acknowledged.holds(checked.seen.now_ms)
        }
        say_each(tell(Checked(checked.found, names, known_dead, born)))
    if checked.absent is not None and not checked.broken:
        raise checked.absent
    return checked


def _examined(s: Session, names: Sequence[str], server_too: bool, rules: Rules) -> Examined:
    from redisq_ops.ops.check.evaluation import broken_rules, server_standings, standings
    from redisq_ops.ops.doctor.examination import examine, registry_diagnoses
    from redisq_ops.ops.inspect.overview import overview
    from redisq_ops.ops.queue_names import check_named, is_named

    seen = s.run(overview(s.deployment, lambda name: rules.of(name).limits))
    queues = [row.name for row in seen.rows]
    unused, absent = rules.unused(queues), None
    try:
        check_named(names, queues)
    except NotFound as error:
        absent = error
    seen = replace(seen, rows=tuple(row for row in seen.rows if is_named(row.name, names)))
    server = s.run(examine(s.deployment) if server_too else registry_diagnoses(s.deployment))
    found = [_shown(s, one) for one in standings(seen, rules)] + server_standings(server)
    return Examined(seen, found, broken_rules(found), unused, absent)


def notifier(s: Session, *, lasting: bool = False) -> Notifier:
    """Tells the recipients of the configuration; `BadInput` if it has none, or a bad table."""
    from redisq_ops.ops.config.file import config_path
    from redisq_ops.ops.notify.notifier import Notifier
    from redisq_ops.ops.notify.settings import read_recipients
    from redisq_ops.ops.notify.told_file import told_path

    config = s.config
    if config.notify is None:
        raise BadInput(f"nobody to tell: add a table [notify.to.NAME] to {config_path()}")
    recipients = read_recipients(config.notify, config.notify_from, os.environ)
    address = str(config.server_address())
    path = told_path(f"{address} {config.prefix}")
    return Notifier(recipients, config.context or address, path, lasting=lasting)


def _teller(s: Session) -> tuple[Teller | None, BadInput | None]:
    """What tells the recipients, or why nobody can be told, which is said on stderr."""
    try:
        return notifier(s).tell, None
    except BadInput as error:
        say(f"redisq: nobody is told: {error}")
        return None, error


def _test(s: Session, teller: Notifier) -> int:
    """Exit 0: every recipient was told; 3: some, or none."""
    ends = teller.test()
    for name, why in ends.items():
        if s.json:
            emit({"recipient": name, "reason": why})
        else:
            tell(f"{name}: told" if why is None else f"{name}: not told: {why}")
    return 3 if any(ends.values()) else 0


def say_each(lines: Sequence[str]) -> None:
    for line in lines:
        say(f"redisq: {line}")


def _shown(s: Session, found: Standing) -> Standing:
    """A reason may name the type of an error."""
    return found if found.reason is None else replace(found, reason=s.redaction.text(found.reason))


def unknown(as_json: bool, error: Exception, message: str) -> int:
    """Say that the check failed; returns 3, which means "unknown" to monitors."""
    if as_json:
        emit(
            {
                "status": "unknown",
                "queues": None,
                "findings": [],
                "error": error_fields(error, message),
            }
        )
    else:
        tell(f"UNKNOWN: {message}")
    return 3


def _sentence(broken: list[Standing], queues: int) -> str:
    if not broken:
        return f"{queues:,} {'queue' if queues == 1 else 'queues'}, no rule broken"
    groups = _together(broken)
    named = [f"{whose}: {trouble.reason}" for whose, trouble, _ in groups[:SHOWN]]
    more = sum(number for *_, number in groups[SHOWN:])
    # A monitor reads the text after a bar as data.
    return "; ".join(named).replace("|", "/") + (f"; {more:,} more" if more else "")


def _together(broken: Sequence[Standing]) -> list[tuple[str, Trouble, int]]:
    """The broken rules as the overview shows them, the worst first: whose, what, and how many. The
    same trouble of several queues is one."""
    alike: dict[Likeness, list[Standing]] = {}
    for one in broken:
        alike.setdefault(likeness((one.trouble,)), []).append(one)
    found = list[tuple[str, Trouble, int]]()
    for same in alike.values():
        if len(same) >= FOLDED_FROM:
            (trouble,) = shared_trouble([(one.trouble,) for one in same])
            found.append((quantity(len(same), "queue"), trouble, len(same)))
        else:
            found += [(one.queue or "server", one.trouble, 1) for one in same]
    return sorted(found, key=lambda one: (-one[1].severity, -one[1].work, -one[1].for_ms))


def _perfdata(seen: Overview, broken: list[Standing]) -> str:
    """Numbers in the format of monitors: ``label=value``, seconds with their unit; U: unknown.

    A sum leaves out queues whose number is unknown; it is unknown if all are.
    """
    kinds = Counter(one.severity for one in broken)
    values = {
        "queues": f"{len(seen.rows)}",
        "critical": f"{kinds[Severity.CRITICAL]}",
        "warning": f"{kinds[Severity.WARNING]}",
    }
    for name, numbers in _numbers(seen).items():
        known = [number for number in numbers if number is not None]
        if numbers and not known:
            values[name] = "U"
        elif name == "oldest":
            values[name] = f"{max(known, default=0) / 1000:.0f}s"
        else:
            values[name] = f"{sum(known)}"
    return " ".join(f"{name}={value}" for name, value in values.items())


def _numbers(seen: Overview) -> dict[str, list[int | None]]:
    """The figures of perfdata, with a value per queue; None: unknown. Ages are in ms."""
    from redisq_ops.ops.inspect.overview import summed

    rows = summed(seen.rows)
    found: dict[str, list[int | None]] = {
        state: [row.counts.of(state) if row.counts else None for row in rows] for state in SUMMED
    }
    return found | {"oldest": [_oldest(row.counts, seen.now_ms) for row in rows]}


def _oldest(counts: Counts | None, now_ms: int) -> int | None:
    """How long the oldest entry has waited, in ms; 0 if none waits; None: unknown."""
    if counts is None or counts.of("waiting") is None:
        return None
    if not counts.waiting:
        return 0
    return None if counts.oldest_ms is None else max(0, now_ms - counts.oldest_ms)


def _unknown_numbers(seen: Overview) -> str:
    """The end of a sentence: figures of perfdata that are unknown for some queues, and queues with
    waiting entries of which it is unknown whether a worker asks for them; empty if none."""
    from redisq_ops.ops.inspect.overview import summed

    lacking: dict[str, list[str]] = {}
    rows = summed(seen.rows)
    without = {
        name: [row.name for row, n in zip(rows, numbers, strict=True) if n is None]
        for name, numbers in _numbers(seen).items()
    }
    without["workers"] = [
        row.name
        for row in seen.rows
        if row.counts is not None and row.counts.waiting and "no-worker" not in judged(row)
    ]
    for name, queues in without.items():
        if queues:
            of = queues[0] if len(queues) == 1 else f"{len(queues):,} queues"
            lacking.setdefault(of, []).append(name)
    named = [f"{', '.join(names)} of {of}" for of, names in lacking.items()]
    return f"; unknown: {', '.join(named)}".replace("|", "/") if named else ""


def _explain(s: Session, found: list[Standing]) -> None:
    for one in found if s.json else ():
        emit(one)
    if found and not s.json:
        table(
            ["queue", "rule", "severity", "stands"],
            [
                [one.queue or "server", one.rule, one.severity.name.lower(), _stands(one)]
                for one in found
            ],
        )


def _stands(one: Standing) -> str:
    return "ignored" if one.ignored else one.reason or ("ok" if one.known else "unknown")
