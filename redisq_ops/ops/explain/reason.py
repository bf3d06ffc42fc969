"""Why something doesn't move: the reasons, and the answer that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from redisq_ops.core.model.row_fields import INLINE, UNPRINTED, MoreWords, Text, Time, row_of

Rule: TypeAlias = (
    Literal["batch", "behind", "blocked", "busy", "cancelled", "cap", "children", "client-rate"]
    | Literal[
        "closed",
        "dead",
        "dead-letters",
        "delayed",
        "done",
        "done-dead",
        "due",
        "dying",
        "empty",
        "failing",
    ]
    | Literal["gone", "group", "held", "holder", "limit", "moved", "moving", "next", "no-worker"]
    | Literal["only-shown", "open", "overdue", "parent", "paused", "pending", "periodic"]
    | Literal["periodic-corrupt", "periodic-held", "periodic-overdue", "periodic-paused"]
    | Literal["periodic-run", "poison", "purged", "rate", "removed", "request-paused", "resizing"]
    | Literal["retry", "sealed", "silent", "touched", "trimmed", "turn", "unfinished", "unknown"]
    | Literal["unread", "waiting"]
)
"""the stable names of the rules"""


Subject: TypeAlias = Literal["queue", "request", "entry", "periodic"]


@dataclass(frozen=True, slots=True)
class Reason:
    """One rule that holds an entry, a request or a queue back, or that ended it."""

    rule: Annotated[Rule, MoreWords()]
    """rule that holds it back"""
    sentence: Text
    """the answer"""
    verb: str | None = None
    """verb that helps"""
    command: str | None = None
    """command line that helps; a password in its URL is `***`"""
    eta_ms: Time | None = None
    """when it is expected to be over"""
    estimate: bool = False
    """whether `eta_ms` is computed from a rate, not recorded"""
    basis: Text | None = None
    """what the estimate rests on"""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """numbers behind the sentence; names depend on the rule"""

    @property
    def deed(self) -> str | None:
        """What the command does, the verb first."""
        from .deeds import deed

        return self.command and deed(self.command, self.facts)


@dataclass(frozen=True, slots=True)
class OtherReason:
    """What a row has of a reason that isn't the first one."""

    rule: str
    """another reason"""
    sentence: Text
    """in words"""
    verb: str | None
    """verb that helps"""
    command: str | None
    """command line that helps"""
    facts: Mapping[str, Any]
    """numbers behind it"""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer about a queue, a request or an entry: the first reason, and the others."""

    address: str
    """what was asked about"""
    queue: str
    kind: str
    """kind of the queue"""
    id: str | None
    """entry or request"""
    what: Subject
    """what the address names"""
    state: str | None
    """state; `null`: there is no such thing (exit code 1)"""
    now_ms: Time
    """moment of the answer"""
    reason: Reason = field(metadata=INLINE)
    also: tuple[Reason, ...] = field(default=(), metadata=UNPRINTED)

    @property
    def known(self) -> bool:
        """Whether it exists."""
        return self.state is not None

    def row(self) -> dict[str, Any]:
        """The stable JSON form."""
        others = (OtherReason(r.rule, r.sentence, r.verb, r.command, r.facts) for r in self.also)
        return row_of(self) | {"also": list(map(row_of, others))}
