"""A client's account: its counts and rules in one line, in the format that `storage.lua` writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...model.entry import Client
from ...model.errors import Unreadable
from ...model.keys import Keys
from ...redis.operation import Call


@dataclass(frozen=True, slots=True)
class Account:
    """Counts and rules of one client, and the place where its list begins."""

    waiting: int
    pending: int
    head: int
    """the place of the first id in its list, counted from the list's beginning"""
    turn: int
    """virtual time of its next turn"""
    holes: int = 0
    """ids in the list that don't wait any more"""
    spent: int = 0
    """holes whose entries have ended"""
    packed: int = 0
    """ids in the front part of the list, while it is packed"""
    weight: int = 1
    cap: int = 0
    blocked: int = 0
    rate: int = 0
    """entries per hour that it is handed at most; 0: no limit"""
    earned: int = 0
    """when all that it was handed will have been earned, µs"""
    rest: int = 0
    """until when (ms) it isn't served because of its rate; 0: it is"""

    @classmethod
    def read(cls, line: bytes | None) -> Account | None:
        if line is None:
            return None
        try:
            return cls(*map(int, line.split(b" ")))
        except (TypeError, ValueError) as spoilt:
            raise Unreadable("a client's account can't be read") from spoilt

    @property
    def end(self) -> int:
        """The place behind the last id in its list."""
        return self.head + self.waiting + self.holes

    @property
    def servable(self) -> bool:
        """Whether it can have a turn."""
        held = self.blocked or self.rest or 0 < self.cap <= self.pending
        return self.waiting > 0 and not held

    def shown(self, name: str) -> Client:
        return Client(
            name,
            self.waiting,
            self.pending,
            self.weight,
            bool(self.blocked),
            self.cap or None,
            self.rate,
            bool(self.rest),
        )


async def accounts(keys: Keys, names: Sequence[str]) -> dict[str, Account | None]:
    """Client -> its account; None: it has none."""
    if not names:
        return {}
    key = keys["accounts"]
    lines = await Call(("HMGET", key, *names), list[bytes | None], key=key)
    return {name: Account.read(line) for name, line in zip(names, lines, strict=True)}
