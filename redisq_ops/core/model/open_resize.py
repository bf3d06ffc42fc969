"""A change of the number of shards that is not complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .entry import State


@dataclass(frozen=True, slots=True)
class OpenResize:
    """From how many shards to how many, and what is left in the shards that it removes."""

    old: int
    new: int
    left: Mapping[State, int]
    """state -> entries, of states that have any"""

    @property
    def held(self) -> bool:
        """Whether it waits for dead or purged entries, which no worker takes."""
        return bool(self.left.keys() & {"dead", "trash"})

    def __str__(self) -> str:
        spelt = [f"{n:,} {'in the trash' if s == 'trash' else s}" for s, n in self.left.items()]
        where = f": {', '.join(spelt)} in shards that it removes" if spelt else ""
        return f"still on its way from {self.old} to {self.new} shards{where}"
