"""Paging through what waits: clients by name, and each one's list by absolute place.

The place of an id doesn't change while it waits: pops and pushes move the list's `head` along. So a
cursor ``client/place`` goes on exactly behind what was seen. When a list is packed, ids in front of
what went are at higher places than before, and may be seen again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..io import Call, both, together
from ..reply import number, words
from ..standing import DEPTH, Ahead, Standing
from .account import Account

if TYPE_CHECKING:
    from .queue import FairQueue

NEAR, FAR = 100, 1_000
"""clients looked at in one round; the latter when a window by rank is far away"""
ROUNDS = 12
"""rounds after which a page is handed out as it is"""
_MARGINS = (0, 100, 1_000, 10_000)
"""ids that may leave a list while we read it; the next margin is tried when more did"""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of one client's list."""

    live: tuple[tuple[int, str], ...] = ()
    """place and id of each that waits"""
    last: int | None = None
    """the last place looked at"""
    more: bool = False
    """there are ids behind it"""


@dataclass(frozen=True, slots=True)
class Position:
    """Behind a place of a client's list, or before all of it."""

    client: str
    behind: int | None = None

    @classmethod
    def read(cls, text: str) -> Position:
        client, _, place = text.partition("/")
        return cls(client, int(place) if place else None)

    def __str__(self) -> str:
        return f"{self.client}/{'' if self.behind is None else self.behind}"


async def window(
    queue: FairQueue[Any], client: str, behind: int | None, most: int, skip: int = 0
) -> Window:
    """Up to ``most`` places behind one, or from ``skip`` places after the front."""
    account = (await queue._accounts([client]))[client]
    for margin in _MARGINS:
        if account is None:
            return Window()
        wanted = account.head + skip if behind is None else behind + 1
        first = max(0, wanted - account.head - margin)
        before, ids, after = await _elements(queue, client, account, first, most + 2 * margin)
        if before is None or after is None:
            return Window()
        steady = account.packed == before.packed == after.packed and before.head == after.head
        wanted = max(wanted, before.head)
        offset = wanted - before.head - first
        if steady and (0 <= offset < len(ids) or wanted >= before.end):
            return await _seen(queue, client, before, wanted, ids[offset:][:most])
        account = after
    return Window((), behind, True)  # it moves faster than we read; whoever asked asks again


async def _seen(
    queue: FairQueue[Any],
    client: str,
    account: Account,
    first: int,
    ids: Sequence[str],
) -> Window:
    """What waits of the ids from a place on."""
    if not ids:
        return Window()
    marks: Sequence[bytes | None] = [None] * len(ids)
    if account.holes:
        key = queue.keys["holes"]
        names = [f"{client}/{id}" for id in ids]
        marks = await Call(("HMGET", key, *names), list[bytes | None], key=key)
    places = enumerate(ids, first)
    live = tuple(row for row, mark in zip(places, marks, strict=True) if mark is None)
    last = first + len(ids) - 1
    return Window(live, last, last + 1 < account.end)


async def _elements(
    queue: FairQueue[Any], client: str, account: Account, first: int, length: int
) -> tuple[Account | None, list[str], Account | None]:
    """The account before and after, and the ids from an index on, in one round trip."""
    accounts = queue.keys["accounts"]
    calls: list[Call[Any]] = [Call(("HGET", accounts, client), Account.read, key=accounts)]
    for part, low in (("f_", first), ("c_", first - account.packed)):
        if (part == "c_" or account.packed) and low + length > 0:
            key = queue.keys[part] + client
            calls.append(Call(("LRANGE", key, max(0, low), low + length - 1), words, key=key))
    before, *parts, after = await together([*calls, calls[0]])
    return before, [id for part in parts for id in part], after


async def page(
    queue: FairQueue[Any], cursor: str | None, most: int, start: int | None
) -> tuple[list[tuple[str, str]], str | None]:
    """Up to ``most`` (client, id) rows, and the cursor behind them; None at the end.

    A bounded number of round trips: a page may be short, even empty, and still have a cursor.
    """
    rows: list[tuple[str, str]] = []
    at = None if cursor is None else Position.read(cursor)
    skip = start or 0
    for _ in range(ROUNDS):
        most_names = FAR if skip else NEAR
        names = await _names(queue, at, most_names)
        found = await queue._accounts(names)
        plan, skip, rest = _planned(found, at, most - len(rows), skip)
        seen = await together(window(queue, *stretch) for stretch in plan)
        for (client, behind, *_), stretch in zip(plan, seen, strict=True):
            kept = stretch.live[: most - len(rows)]
            rows += [(client, id) for _, id in kept]
            cut = len(kept) < len(stretch.live)
            last = (kept[-1][0] if kept else None) if cut else stretch.last
            at = Position(client, behind if last is None else last)
            if cut or stretch.more:
                break
        else:
            if not rest:
                if len(names) < most_names:
                    return rows, None
                if at is None or at.client != names[-1]:  # nothing waits there
                    at = Position(names[-1])
        if len(rows) >= most:
            break
    return rows, None if at is None else str(at)


async def standing(queue: FairQueue[Any], client: str, id: str, known: Standing) -> Standing:
    """What comes before an entry of a client: those whose turn is earlier, and its own list."""
    keys = queue.keys
    lists = [keys["f_"] + client, keys["c_"] + client]
    accounts, (rank, found) = await both(
        queue._accounts([client]),
        both(
            Call(("ZRANK", keys["ring"], client), number, key=keys["ring"]),
            together(Call(("LPOS", key, id, "MAXLEN", DEPTH), number, key=key) for key in lists),
        ),
    )
    account = accounts[client]
    if account is None:
        return known
    packed, rest = found
    own = packed if packed is not None else rest if rest is None else account.packed + rest
    ahead, before = [], None
    if rank:
        ahead.append(Ahead("clients whose turn comes first", int(rank)))
    if own is None and account.waiting:
        ahead.append(Ahead("entries of its client", min(account.waiting, DEPTH), False))
    elif own:
        ahead.append(Ahead("entries of its client", int(own), not account.holes))
    if own is not None and rank is not None:
        # Every turn of its own is one of all the others too.
        before = int(rank) + int(own) * max(1, known.open or 1) // account.weight
    return replace(
        known, here=True, client=account.shown(client), ahead=tuple(ahead), before=before,
        before_exact=not own,
    )  # fmt: skip


def _names(queue: FairQueue[Any], at: Position | None, most: int) -> Call[list[str]]:
    """Clients by name, from that one on."""
    key = queue.keys["clients"]
    low = "-" if at is None else f"[{at.client}"
    return Call(("ZRANGE", key, low, "+", "BYLEX", "LIMIT", 0, most), words, key=key)


def _planned(
    found: dict[str, Account | None], at: Position | None, need: int, skip: int
) -> tuple[list[tuple[str, int | None, int, int]], int, bool]:
    """Stretches to read (client, behind, how many, skipped before), what is still to be skipped,
    and whether clients are left for another look."""
    plan: list[tuple[str, int | None, int, int]] = []
    for client, account in found.items():
        if account is None or not account.waiting:
            continue
        behind = at.behind if at is not None and at.client == client else None
        here = account.waiting
        if behind is not None:
            here = min(here, account.end - behind - 1)
        elif skip >= here:
            skip -= here
            continue
        if here <= 0:
            continue
        if need <= 0:
            return plan, skip, True
        plan.append((client, behind, need, skip))
        need -= here - skip
        skip = 0
    return plan, skip, False
