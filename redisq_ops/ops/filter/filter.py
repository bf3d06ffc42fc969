"""Filters: conditions on the entries of a state, as options and expressions give them."""

from __future__ import annotations

from dataclasses import dataclass, field

from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import BadInput

from ..redaction import MASK, NO_REDACTION, Redaction
from ..terminal import age, count
from .ast import Query
from .fields import NO_CONTEXT, EntryContext, EntryFields
from .regex import BadRegex, Regex, regex


def match_pattern(text: str) -> Regex:
    """The regular expression of ``--match``; `BadInput` in one line if it is invalid."""
    if not text:  # probably an unset variable of a script
        raise BadInput("--match '' matches every entry: leave --match out to select all")
    try:
        return regex(text)
    except BadRegex as error:
        raise BadInput(f"--match {text!r} is no regular expression: {error.located}") from error


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions on the entries of a state, all of which must hold. An empty filter accepts all.

    ``ids`` and ``requests``: entries by id, and all entries of requests; either is enough.
    ``match``: a regular expression on id, error type and message.
    ``older_than_ms``: the least time in the present state; an entry that never left waiting has no
    such time and is not accepted.
    ``where``: an expression. ``max``: at most this many entries.
    ``window``: only the first entries of the state, or the latest if negative, are examined.
    ``redaction`` masks the filter's text, which is stored in plans, exports and the audit log.
    """

    ids: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    match: Regex | None = None
    older_than_ms: int | None = None
    max: int | None = None
    where: Query | None = None
    window: int | None = None
    redaction: Redaction = field(default=NO_REDACTION, compare=False, repr=False)

    def accepts(self, entry: Entry, now_ms: int, context: EntryContext = NO_CONTEXT) -> bool:
        if self.ids or self.requests:
            request = entry.id.rpartition("/")[0]
            if entry.id not in self.ids and request not in self.requests:
                return False
        if self.older_than_ms is not None and (
            entry.since_ms is None or now_ms - entry.since_ms < self.older_than_ms
        ):
            return False
        if self.match is not None and not any(map(self.match.search, EntryFields(entry, 0).words)):
            return False
        return self.where is None or self.where.accepts(entry, now_ms, context)

    def state_mismatch(self, state: State) -> str:
        """Why no entry of a state can match the expression; '' if one can."""
        states = None if self.where is None else self.where.states
        if states is None or state in states:
            return ""
        if not states:
            return "the expression never matches: an entry is in one state at a time"
        return (
            f"the expression matches only {' or '.join(sorted(states))} entries, not {state} ones"
        )

    def __str__(self) -> str:
        parts = []
        for what, names in (("", self.ids), ("request ", self.requests)):
            if names:
                parts.append(what + ", ".join(names[:3]) + (", …" if len(names) > 3 else ""))
        if self.where is not None:
            text = self.where.masked(self.redaction.hides, MASK)
            parts.append(f"where {self.redaction.text(text)}")
        if self.match is not None:
            parts.append(f"match {self.redaction.text(self.match.pattern)!r}")
        if self.older_than_ms is not None:
            parts.append(f"older than {age(self.older_than_ms)}")
        if self.window is not None:
            which = "latest" if self.window < 0 else "first"
            parts.append(f"among the {which} {count(abs(self.window))}")
        if self.max is not None:
            parts.append(f"at most {self.max:,}")
        return ", ".join(parts) or "all"
