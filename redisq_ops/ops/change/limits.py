"""What a configuration lets changes do: how many entries, how fast, and what is typed first.

A guard protects users from their own mistakes; it is no access control. The server's ACL decides
who may write (docs/how-to/limit-what-users-may-do.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redisq_ops.core.model.errors import BadInput, Refused, Unconfirmed

from ..terminal import a_second, count

_AS_A_WHOLE = {"undo", "import", "cancel", "rm"}
"""verbs of which no part can be chosen"""


@dataclass(frozen=True, slots=True)
class Guard:
    """Limits of every change made through it, and where each limit comes from."""

    read_only: bool = False
    read_only_from: str = "default"
    max_entries: int | None = None
    max_entries_from: str = "default"
    max_rate: float | None = None
    """entries per second"""
    max_rate_from: str = "default"
    word: str | None = None
    """the context's name, where that is typed to confirm each change"""

    def writable(self) -> None:
        """Refuse every change where the configuration says read-only."""
        if self.read_only:
            origin = self.read_only_from
            raise Refused(f"read-only: nothing can be changed (read_only, {origin})")

    def checked(self, facts: Sequence[Mapping[str, Any]]) -> None:
        """Refuse changes that together touch more entries than allowed.

        ``facts``: of each plan. A plan touches its ``entries`` if it is about something that has
        entries (a request, a queue), else its ``matched``.
        """
        number = sum(int(each.get("entries", each.get("matched")) or 0) for each in facts)
        if self.max_entries is not None and number > self.max_entries:
            fewer = ": choose fewer, with --max or a filter"
            raise Refused(
                f"that is {count(number)} entries, and one change may touch "
                f"{count(self.max_entries)} (max_entries, {self.max_entries_from})"
                + ("" if {each.get("verb") for each in facts} & _AS_A_WHOLE else fewer)
            )

    def rate(self, asked: float | None) -> float | None:
        """The rate of a change: what was asked for, else the limit; one above it is refused."""
        if self.max_rate is None:
            return asked
        if asked is not None and asked > self.max_rate:
            raise Refused(
                f"{a_second(asked)} is faster than {a_second(self.max_rate)} "
                f"(max_rate, {self.max_rate_from})"
            )
        return self.max_rate if asked is None else asked

    def named(self, name: str | None, asked: bool) -> None:
        """Refuse a wrong name, and a missing name unless a person will be ``asked`` for it."""
        if name is not None and name != self.word:
            of = f"this is context {self.word}" if self.word else "nothing here asks for a name"
            raise BadInput(f"--confirm {name}: {of}")
        if self.word is not None and name is None and not asked:
            raise Unconfirmed(f"context {self.word} asks for its name: add --confirm {self.word}")

    def typed(self, name: str | None, typed: str | None) -> str | None:
        """What a person types to confirm: the text of the plan, the context's name, or both.

        ``name``: the value of ``--confirm``.
        """
        word = self.word if name is None else None
        return " ".join(filter(None, (typed, word))) or None


FREE = Guard()
"""nothing is limited"""
