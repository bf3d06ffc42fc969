"""What a kind declares: in which lists, sorted sets, sets and hashes its states are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal


@dataclass(frozen=True, slots=True)
class Declared:
    """A place where a state's entries are. In ``key``, ``{q}`` is the owner's name for the queue,
    and ``{worker}`` each of `workers_of`."""

    type: ClassVar[Literal["list", "zset", "set", "hash"]]
    key: str
    called: str
    """the state's name for the owner's users"""


@dataclass(frozen=True, slots=True)
class List(Declared):
    type = "list"
    next: Literal["LEFT", "RIGHT"] = "LEFT"
    """the end where the next entry is taken"""


@dataclass(frozen=True, slots=True)
class Zset(Declared):
    type = "zset"
    ready: bool = False
    """whether scores are the times at which the entries become ready"""
    died: bool = False
    """whether scores are the times at which the entries died"""
    unit_ms: float = 1000
    """milliseconds in one unit of these times: 1000 for seconds, 1 for milliseconds"""


@dataclass(frozen=True, slots=True)
class Set(Declared):
    type = "set"


@dataclass(frozen=True, slots=True)
class Hash(Declared):
    """An entry for each field; `Row.value` is the field's value."""

    type = "hash"
