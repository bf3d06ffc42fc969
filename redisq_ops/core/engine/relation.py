"""Entries that depend on each other, of kinds where one waits until others have ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .queue import Queue


@dataclass(frozen=True, slots=True)
class Related:
    """Another entry that has to end, or to be dealt with, before or after one."""

    role: Literal["child", "parent"]
    """what it is of that one"""
    queue: Queue[Any]
    id: str
    state: Literal["dead", "open", "gone"]
    """``open``: it is neither dead nor gone, or went on"""
