"""The compact form of a take's reply and of a settle's arguments.

A busy server spends most of its time on these two, and each argument or element of a reply costs it
about as much as one of the changes. So values without spaces share one word, and what is the same
for all entries is sent once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from ..model.entry import OUTCOMES, Delivery, Settlement, TakeResult
from ..model.errors import BadInput
from ..model.quoting import bytes_of, text
from ..model.settings import MAX_BATCH
from ..redis.operation import Arg

Make = Callable[[Sequence[str], Sequence[str], Sequence[bytes], int], list[Delivery]]
"""(ids, receipts, payloads, deadline in ms) -> deliveries without failures or lost leases"""
QUOTED = b" "
"""in front of a take's ids if they are percent-quoted, since one isn't a legal id of ours"""
GONE = "*"
"""in the reply to a repeated take: replaces an id that the caller doesn't hold any more"""


def taken(reply: Sequence[Any], make: Make) -> TakeResult:
    """Read a take's reply: when to take again, whether there is more, the deadline; and if anything
    was taken the first receipt, the ids, the counts of those that failed before, the payloads."""
    look, more, deadline, *rest = reply
    made: list[Delivery] = []
    if rest:
        first, names, odd, payloads = rest
        quoted = names.startswith(QUOTED)
        ids = text(names.removeprefix(QUOTED)).split("\n")
        if quoted:
            ids = [text(unquote_to_bytes(word)) for word in ids]
        number, _, caller = first.decode().partition("-")
        start = int(number)
        receipts = [f"{fence}-{caller}" for fence in range(start, start + len(ids))]
        if None in payloads:  # evicted, or removed by hand
            payloads = [payload or b"" for payload in payloads]
        if GONE in ids and not quoted:
            here = [place for place, id in enumerate(ids) if id != GONE]
            ids = [ids[place] for place in here]
            receipts = [receipts[place] for place in here]
        made = make(ids, receipts, payloads, int(deadline))
        counts = map(int, odd.split())
        for place, failures, lost in zip(counts, counts, counts, strict=True):
            one = made[place - 1]
            made[place - 1] = one._replace(failures=one.failures + failures, lost=lost)
    return TakeResult(tuple(made), int(look) or None, more == b"1")


def checked_take(n: int) -> None:
    """Raise `BadInput` unless a take can be for ``n`` entries."""
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MAX_BATCH:
        raise BadInput(f"a take is for 1 to {MAX_BATCH} entries, not {n}")


def _checked(settlement: Settlement) -> None:
    """Raise `BadInput` for an unknown outcome or a value that isn't bytes."""
    if settlement.outcome not in OUTCOMES:
        raise BadInput(f"outcome {settlement.outcome!r:.60}: one of {', '.join(OUTCOMES)}")
    if not isinstance(settlement.value, bytes):
        raise BadInput(
            f"the value of a settlement must be bytes, not {type(settlement.value).__name__}"
        )


def ends(
    settlements: Sequence[Settlement], row: Callable[[Settlement], tuple[Arg, ...]]
) -> tuple[str, list[tuple[Arg, ...]]]:
    """The arguments of a settle: ids and receipts in one word, and a row for each settlement that
    isn't a plain ack; its receipt has the row's number after a bar."""
    if len(settlements) > MAX_BATCH:
        raise BadInput(f"settle: {len(settlements)} at once, {MAX_BATCH} at most")
    pairs: list[str] = []
    rows: list[tuple[Arg, ...]] = []
    for settlement in settlements:
        delivery, outcome, _, delay = settlement
        if outcome != "ack" or delay:
            _checked(settlement)
            rows.append(row(settlement))
            pairs.append(f"{delivery.id} {delivery.receipt}|{len(rows)}")
        else:
            pairs.append(f"{delivery.id} {delivery.receipt}")
    pairs_word = " ".join(pairs)
    blanks, bars = pairs_word.count(" "), pairs_word.count("|")
    if (
        not pairs_word.isascii()
        or blanks != 2 * len(settlements) - 1
        or bars != len(rows)
        or "  " in f" {pairs_word} "
    ):
        # Some id or receipt is not one that a take returned.
        return " " + " ".join(map(_quoted, settlements, pairs)), rows
    return pairs_word, rows


def _quoted(settlement: Settlement, pair: str) -> str:
    """An (id, receipt) pair of `ends` with any characters, percent-quoted."""
    id, receipt = settlement.delivery.id, settlement.delivery.receipt
    row = pair[len(id) + len(receipt) + 1 :]
    return f".{quote(bytes_of(id), '')} .{quote(bytes_of(receipt), '')}{row}"
