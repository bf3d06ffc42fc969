"""The rate at which a queue's or a client's entries are handed out, as its setting has it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil
from typing import Literal, TypeAlias, cast

from .errors import BadInput

Unit: TypeAlias = Literal["s", "m", "h"]
MOST = 1_000_000
_FORM = re.compile(r"([1-9]\d*)/([smh])")
_SPAN_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000}
_AT_ONCE_MS = 100
"""the pause whose worth may be handed out at once: `take_rate.lua` has it, too"""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """``number`` entries per second, minute or hour, evenly spread.

    >>> str(RateLimit.read("600/m")), RateLimit.read("off")
    ('600/m', None)
    """

    number: int
    unit: Unit

    @classmethod
    def read(cls, text: str) -> RateLimit | None:
        """The rate in words such as ``10/s``; None for ``off``, ``0`` and an empty text. Raises
        `BadInput`."""
        if text in ("", "0", "off"):
            return None
        found = _FORM.fullmatch(text)
        if found is None or int(found[1]) > MOST:
            raise BadInput(
                f"a rate is 10/s, 600/m or 5/h (at most {MOST:,}), or off, not {text!r:.60}"
            )
        return cls(int(found[1]), cast(Unit, found[2]))

    @classmethod
    def kept(cls, text: str) -> RateLimit | None:
        """The rate in a stored value; None where scripts find none in it."""
        try:
            return cls.read(text)
        except BadInput:
            return None

    @classmethod
    def of_hour(cls, number: int) -> RateLimit | None:
        """The rate of so many entries per hour; None for 0.

        >>> [str(RateLimit.of_hour(n)) for n in (36_000, 5_400, 5)]
        ['10/s', '90/m', '5/h']
        """
        if not number:
            return None
        if number % 3600 == 0:
            return cls(number // 3600, "s")
        return cls(number, "h") if number % 60 else cls(number // 60, "m")

    @property
    def per_hour(self) -> int:
        return self.number * _SPAN_MS["h"] // _SPAN_MS[self.unit]

    def __str__(self) -> str:
        return f"{self.number}/{self.unit}"

    @property
    def each_ms(self) -> float:
        """Milliseconds per entry."""
        return _SPAN_MS[self.unit] / self.number

    def next_ms(self, earned_us: int, now_ms: int, shards: int = 1) -> int:
        """When the next entry may be handed out (ms; ``now_ms`` or before: now) by a queue, or by
        one of its ``shards``. ``earned_us``: when it has earned the earlier ones (`take_rate.lua`).
        """
        each = self.each_ms * shards
        burst = max(1, _AT_ONCE_MS * self.number // (_SPAN_MS[self.unit] * shards))
        at = earned_us / 1000
        # Later than that only if the clock fell back, or the rate was lower: the next take sees it.
        return now_ms if at > now_ms + (burst + 1) * each else ceil(at - (burst - 1) * each)
