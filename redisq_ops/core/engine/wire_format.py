"""Deliveries as they come and go: a take's reply, and how their ends are told.

These are most of what a busy server hears, and a word of a command or reply of its own costs it
about as much as one of the changes behind it. So what has no blanks in it shares one word, and what
is alike for all is said once.
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
"""(ids, receipts, payloads, deadline in ms) -> deliveries that neither failed nor were lost"""
QUOTED = b" "
"""in front of a take's ids, when one of them has what none of ours can have in it"""
GONE = "*"
"""in the place of an id that, when a take is sent again, isn't its caller's any more"""


def taken(reply: Sequence[Any], make: Make) -> TakeResult:
    """A take's reply: when to look again, whether there is more, the deadline, and if anything was
    taken the first receipt, the ids, failures and losses of those that had any, the payloads."""
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
    """Refuse to take no number of entries, or too many in one call."""
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MAX_BATCH:
        raise BadInput(f"a take is for 1 to {MAX_BATCH} entries, not {n}")


def _checked(settlement: Settlement) -> None:
    """Refuse what says no end: a word that is none would be taken for one, and a job be gone."""
    if settlement.outcome not in OUTCOMES:
        raise BadInput(f"outcome {settlement.outcome!r}: one of {', '.join(OUTCOMES)}")
    if not isinstance(settlement.value, bytes):
        raise BadInput(
            f"the value of a settlement must be bytes, not {type(settlement.value).__name__}"
        )


def ends(
    settlements: Sequence[Settlement], row: Callable[[Settlement], tuple[Arg, ...]]
) -> tuple[str, list[tuple[Arg, ...]]]:
    """What a settle is told: ids and receipts in one word, and rows for those that aren't plainly
    acknowledged, whose receipts have the row's number behind a bar."""
    if len(settlements) > MAX_BATCH:
        raise BadInput(f"settle: {len(settlements)} at once, {MAX_BATCH} at most")
    pairs: list[str] = []
    rows: list[tuple[Arg, ...]] = []
    for settlement in settlements:
        delivery, outcome, _, delay_ms = settlement
        if outcome != "ack" or delay_ms:
            _checked(settlement)
            rows.append(row(settlement))
            pairs.append(f"{delivery.id} {delivery.receipt}|{len(rows)}")
        else:
            pairs.append(f"{delivery.id} {delivery.receipt}")
    told = " ".join(pairs)
    blanks, bars = told.count(" "), told.count("|")
    if (
        not told.isascii()
        or blanks != 2 * len(settlements) - 1
        or bars != len(rows)
        or "  " in f" {told} "
    ):
        return " " + " ".join(map(_quoted, settlements, pairs)), rows  # what no take handed out
    return told, rows


def _quoted(settlement: Settlement, pair: str) -> str:
    """A pair of `ends` whose words may have anything in them."""
    id, receipt = settlement.delivery.id, settlement.delivery.receipt
    row = pair[len(id) + len(receipt) + 1 :]
    return f".{quote(bytes_of(id), '')} .{quote(bytes_of(receipt), '')}{row}"
