"""How a rule of `redisq check` stands."""

from __future__ import annotations

from dataclasses import dataclass, field

from redisq_ops.core.model.row_fields import UNPRINTED, Text

from ..trouble.finding import Severity, Trouble


@dataclass(frozen=True, slots=True)
class Standing:
    """How a rule stands for a queue, or for the server."""

    queue: str | None
    """queue; `null`: the server"""
    rule: str
    """[rule](../how-to/check-with-a-monitor.md#the-rules)"""
    severity: Severity
    """how bad it is"""
    reason: Text | None
    """what broke it; `null`: it holds, or is unknown"""
    ignored: bool = False
    """whether the rules say to ignore it, or give no threshold"""
    known: bool = True
    """whether the queue shows the numbers that the rule needs"""
    condition: str | None = None
    """text of a condition of the rules; `null`: another rule"""
    work: int = field(default=0, metadata=UNPRINTED)
    """how many entries are affected, as far as is known"""
    for_ms: int = field(default=0, metadata=UNPRINTED)
    """for how long, as far as is known"""

    @property
    def trouble(self) -> Trouble:
        return Trouble(self.severity, self.rule, self.reason or "", self.work, self.for_ms)

    @property
    def identity(self) -> tuple[str | None, str, str]:
        """Queue, rule, and the text of a condition: the same while the figures change."""
        return self.queue, self.rule, self.condition or ""
