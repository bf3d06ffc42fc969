"""A message of article 004's layout, and faults that the data shows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2s
from typing import Any

from ...model.entry import Entry, State
from ...model.quoting import bytes_of, legal
from ...model.record import without_cut

ATTEMPTS = 4
"""the article's limit: a message with more becomes a dead letter"""


@dataclass(frozen=True, slots=True)
class Message:
    """An element; ``client`` and ``attempts`` are None where it isn't what the article writes."""

    raw: bytes
    client: str | None
    attempts: int | None
    same: bool
    """whether Python encodes it to the same bytes, so that an acknowledgement removes it"""

    @classmethod
    def read(cls, raw: bytes) -> Message:
        try:
            found: Any = json.loads(raw)
            client, attempts = found["client_id"], found["attempts"]
            same = json.dumps(found).encode() == raw
        except (ValueError, KeyError, TypeError, RecursionError):
            return cls(raw, None, None, False)
        fit = isinstance(client, str) and isinstance(attempts, int)
        return cls(raw, client, attempts, same) if fit else cls(raw, None, None, False)

    @property
    def id(self) -> str:
        client = "?" if self.client is None else legal(bytes_of(self.client))
        return f"{client}:{blake2s(self.raw, digest_size=8).hexdigest()}"

    def entry(self, state: State) -> Entry:
        called = {"pending": "processing", "dead": "dead"}.get(state)
        return without_cut(
            Entry(
                self.id,
                state,
                payload=self.raw,
                failures=self.attempts or 0,
                client=self.client,
                called=called,
            )
        )


def flaws(rows: Sequence[Message], where: str) -> list[str]:
    """What is wrong with messages ``in processing`` or ``in clients' lists``."""
    held = where == "in processing"
    stops = "recovery stops at the first, every time"
    takes = "who takes one leaves all it took with it in processing"
    wrong = (
        (sum(one.client is None for one in rows), f"are no messages: {stops if held else takes}"),
        (
            sum(one.client is not None and not one.same for one in rows),
            "were not written as Python writes them: their acknowledgement removes nothing",
        ),
        (
            sum(n for n in Counter(one.raw for one in rows).values() if n > 1),
            "equal another: one acknowledgement removes them together",
        ),
        (
            sum((one.attempts or 0) > ATTEMPTS for one in rows),
            "have no attempts left" if held else "have one attempt left",
        ),
    )
    return [f"{n:,} of {len(rows):,} {where} {what}" for n, what in wrong if n]
