"""What a check found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["ok", "warning", "wrong", "unknown"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of one check, and what to do about it."""

    check: str
    verdict: Verdict
    """wrong: work may be lost or stand still; unknown: it can't be read"""
    sentence: str
    advice: str | None = None
    node: str | None = None
    """the node of a Cluster, by its address"""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """the numbers behind the sentence"""
