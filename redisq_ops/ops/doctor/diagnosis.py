"""What a check found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from redisq_ops.core.model.row_fields import Text

Verdict = Literal["ok", "warning", "wrong", "unknown"]
"""wrong: work may be lost or stand still; unknown: it can't be read"""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of one check, and what to do about it."""

    check: str
    """[check](../how-to/check-a-server.md)"""
    verdict: Verdict
    """what the check found"""
    sentence: Text
    """what was found"""
    advice: Text | None = None
    """what to do"""
    node: str | None = None
    """node of a Cluster; `null`: the only one"""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """numbers behind the sentence; names depend on the check"""
