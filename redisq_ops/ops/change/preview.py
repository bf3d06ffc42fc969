"""What a change will do, in words, before it is done: the same for every user interface."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.states import Verb

from ..filter.selection import Selection
from ..terminal import a_second, age, count, size
from .confirmation import typed
from .scope import WholeState
from .wording import HELD, SKIPPED, meaning, past, what


@dataclass(frozen=True, slots=True)
class Preview:
    """What a change will do. Nothing was changed yet."""

    what: str
    """``replay 3 dead entries of mail``"""
    lines: tuple[str, ...] = ()
    """its consequences and its cost, a line each"""
    typed: str | None = None
    """what a person types to confirm; None: yes is enough"""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """the same for programs"""
    filter: str = ""
    reasons: str = ""
    """``2 failed, 1 lost``: why the entries are in their state"""
    ids: Sequence[str] = ()
    """of the first entries"""
    past: str = ""
    """what was done, once it is carried out: ``replayed dead entries of mail``"""

    @property
    def title(self) -> str:
        """The change, its filter and the reasons of the entries, in one line."""
        filter = f" (filter: {self.filter})" if self.filter else ""
        return f"{self.what}{filter}" + (f": {self.reasons}" if self.reasons else "")

    @property
    def question(self) -> str:
        """``Replay 3 dead entries of mail?``"""
        return f"{self.what[:1].upper()}{self.what[1:]}?"

    @property
    def text(self) -> list[str]:
        """For people: the title, the first ids and the consequences, a line each."""
        more = ", …" if self.facts.get("matched", 0) > len(self.ids) else ""
        return [self.title, *([", ".join(self.ids) + more] if self.ids else []), *self.lines]

    def __str__(self) -> str:
        return "; ".join(self.text)


def preview(
    selection: Selection | WholeState,
    verb: Verb,
    *,
    rate: float | None = None,
    means: str = "",
    impact: Mapping[str, Any] | None = None,
    into: str = "",
    shown: Callable[[str], str] = str,
) -> Preview:
    """What a change of entries will do: to how many, which, and what that means.

    ``means`` is the meaning of the verb where it depends on the request, ``impact`` the facts of
    `Consequences`, ``into`` the target of a move; ``shown`` redacts reasons.
    """
    n, queue, state = selection.count, selection.queue.name, selection.state
    title, filter = what(verb, n, state, queue, into), str(selection.filter)
    carried_out = past(verb, state, queue, into)
    means = means or meaning(verb, selection.queue, state)
    ids = [entry.id for entry in selection.sample]
    reasons = Counter[str]()  # some are the same once they are redacted
    for reason, k in selection.reasons.items():
        reasons[shown(reason)] += k
    lines = effects(selection.queue, verb, state, n, rate, means)
    lines += consequences(impact, verb) if impact else []
    lines += [f"{e.id} is {e.state}, not {state}: left out" for e in selection.elsewhere[:3]]
    lines += selection.remarks
    facts = {
        "verb": verb,
        "queue": queue,
        "state": state,
        "filter": filter,
        "matched": n,
        "reasons": dict(reasons),
        "sample": ids,
    }
    if into:
        facts["into"] = into
    if selection.remarks:
        facts["remarks"] = selection.remarks
    if impact is not None:
        facts["consequences"] = impact
    return Preview(
        title,
        tuple(lines),
        typed(verb, n, queue),
        facts,
        filter,
        reasons=", ".join(f"{count(k)} {reason}" for reason, k in reasons.items()) if n else "",
        ids=ids[:3] if n else (),
        past=carried_out,
    )


def effects(
    queue: Queue[Any], verb: Verb, state: State, n: int, rate: float | None, means: str
) -> list[str]:
    """What a change of ``n`` entries means for each of them, and how long it takes at its rate."""
    if not n:
        return []
    if state == "pending" and verb in ("purge", "hard") and not queue.owner:
        means = f"{means}; {HELD}"
    return [means, f"about {age(int(1000 * n / rate))} at {a_second(rate)}"] if rate else [means]


def consequences(facts: Mapping[str, Any], verb: Verb) -> list[str]:
    """The facts of `Consequences` for people: a few lines, the most frequent values first."""
    if not facts["count"]:
        return []
    return [*_skips(facts, "remove" if verb == "hard" else verb), *_loads(facts)]


def _skips(facts: Mapping[str, Any], verb: str) -> list[str]:
    skips, asked = facts["skips"], facts["asked"]
    if not skips:
        return []
    part = f"of the first {count(asked)}: " if asked < facts["count"] else ""
    number, words = sum(skips.values()), (f"{count(n)} {word}" for word, n in skips.items())
    would = f"would {verb} {count(asked - number)}, skip {count(number)}: {', '.join(words)}"
    why = (f"{word}: such entries {SKIPPED[word]}" for word in skips if word in SKIPPED)
    return [part + would, *why]


def _loads(facts: Mapping[str, Any]) -> list[str]:
    types = facts["error_types"]
    errors = {
        group if group == "other" else f"{group} {types.get(group) or 'without an error'}": n
        for group, n in facts["errors"].items()
    }
    part = facts["scanned"] < facts["count"]
    lines = [f"of the first {count(facts['scanned'])} of {count(facts['count'])}:"] if part else []
    for label, shown in (
        ("clients", facts["clients"]),
        ("priorities", facts["priorities"]),
        ("error groups", errors),
        ("in this state for", facts["ages"]),
    ):
        if shown:
            top = sorted(shown.items(), key=lambda item: (item[0] == "other", -item[1]))
            more = f", {len(top) - 4} more" if len(top) > 4 else ""
            values = ", ".join(f"{name} ({count(n)})" for name, n in top[:4])
            lines.append(f"{label}: {values}{more}")
    if facts["fairness"]:
        lines.append(facts["fairness"])
    if facts["drain_ms"]:
        pace = (
            f"{facts['settled_a_minute']:,.{0 if facts['settled_a_minute'] >= 10 else 1}f} a minute"
        )
        lines.append(f"the queue drains in ≈ {age(facts['drain_ms'])} (lately {pace})")
    calls = "1 call" if facts["calls"] == 1 else f"≈ {count(facts['calls'])} calls"
    cost = f"server: {calls}, ≈ {count(facts['server_ms'])} ms"
    if facts["bytes"] is not None:
        about = "" if facts["weighed"] == facts["count"] else "≈ "
        cost += f"; payloads {about}{size(facts['bytes'])}"
    return [*lines, cost]
