"""Entries that depend on each other, of kinds where one waits until others have ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .queue import Queue


@dataclass(frozen=True, slots=True)
class Related:
    """An entry that has to end, or to be replayed, before or after another one."""

    role: Literal["child", "parent"]
    """what it is to the other entry"""
    queue: Queue[Any]
    id: str
    state: Literal["dead", "open", "gone"]
    """``open``: neither dead nor gone; it may be done"""
