"""Pages of waiting entries: clients by name, each client's list by absolute place.

The place of an id doesn't change while it waits: pops and pushes change the list's `head`. So a
cursor ``client/place`` continues exactly after the last id. After a list was packed, ids before a
hole have higher places than before and may be returned again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...engine.reads import QueueReads
from ...engine.state_scan import Unread, WaitingIds
from ...model.entry import PageQuery
from ...model.errors import Refused
from ...model.queue_position import DEPTH, Ahead, QueuePosition
from ...redis.operation import Call, attempt, together
from ...redis.parsers import number
from .account import Account, accounts

NEAR, FAR = 100, 1_000
"""clients read in one round; `FAR` is for a window by rank that is far away"""
ROUNDS = 12
"""rounds after which a page is returned as it is"""
_MARGINS = (0, 100, 1_000, 10_000)
"""ids that may leave a list while we read it; the next margin is tried when more did"""
_PASSED = 2**62
"""a place after all ids of a client; for one whose account or list can't be read"""


@dataclass(frozen=True, slots=True)
class ListWindow:
    """A part of one client's list."""

    live: tuple[tuple[int, bytes], ...] = ()
    """(place, id) of each waiting entry"""
    last: int | None = None
    """the last place that was read"""
    more: bool = False
    """there are more ids after it"""


@dataclass(frozen=True, slots=True)
class Position:
    """A position after a place of a client's list, or before the whole list."""

    client: str
    behind: int | None = None

    @classmethod
    def read(cls, text: str) -> Position:
        client, _, place = text.partition("/")
        return cls(client, int(place) if place else None)

    def __str__(self) -> str:
        return f"{self.client}/{'' if self.behind is None else self.behind}"


async def window(
    queue: QueueReads[Any], client: str, behind: int | None, most: int, skip: int = 0
) -> ListWindow:
    """Up to ``most`` places behind one, or from ``skip`` places after the front.

    Raises `Refused` for a list that is shorter than its account says: no page could be its last.
    """
    client.encode()  # raises for a name that isn't text
    account = (await accounts(queue.keys, [client]))[client]
    for margin in _MARGINS:
        if account is None:
            return ListWindow()
        wanted = account.head + skip if behind is None else behind + 1
        first = max(0, wanted - account.head - margin)
        before, ids, after = await _elements(queue, client, account, first, most + 2 * margin)
        if before is None or after is None:
            return ListWindow()
        steady = account.packed == before.packed == after.packed and before.head == after.head
        wanted = max(wanted, before.head)
        offset = wanted - before.head - first
        if steady and (0 <= offset < len(ids) or wanted >= before.end):
            return await _seen(queue, client, before, wanted, ids[offset:][:most])
        if account == before == after:
            raise Refused(f"the list of client {client} is shorter than its account says")
        account = after
    # The list changes faster than it is read: the caller tries again.
    return ListWindow((), behind, True)


async def _seen(
    queue: QueueReads[Any], client: str, account: Account, first: int, ids: Sequence[bytes]
) -> ListWindow:
    """The waiting entries among ids from a place on."""
    if not ids:
        return ListWindow()
    marks: Sequence[bytes | None] = [None] * len(ids)
    if account.holes:
        key = queue.keys["holes"]
        names = [b"%b/%b" % (client.encode(), id) for id in ids]
        marks = await Call(("HMGET", key, *names), list[bytes | None], key=key)
    places = enumerate(ids, first)
    live = tuple(row for row, mark in zip(places, marks, strict=True) if mark is None)
    last = first + len(ids) - 1
    return ListWindow(live, last, last + 1 < account.end)


async def _elements(
    queue: QueueReads[Any], client: str, account: Account, first: int, length: int
) -> tuple[Account | None, list[bytes], Account | None]:
    """The account before and after, and the ids from an index on, in one round trip."""
    accounts = queue.keys["accounts"]
    calls: list[Call[Any]] = [Call(("HGET", accounts, client), Account.read, key=accounts)]
    for part, low in (("f_", first), ("c_", first - account.packed)):
        if (part == "c_" or account.packed) and low + length > 0:
            key = queue.keys[part] + client
            last = low + length - 1
            calls.append(Call(("LRANGE", key, max(0, low), last), list[bytes], key=key))
    before, *parts, after = await together([*calls, calls[0]])
    return before, [id for part in parts for id in part], after


async def page(queue: QueueReads[Any], query: PageQuery) -> WaitingIds:
    """Ids of clients by name, each in the order of its list.

    A bounded number of round trips: a page may be short, even empty, and still have a cursor.
    """
    rows: list[tuple[str, bytes]] = []
    unread: list[Unread] = []

    def read(cursor: str | None) -> WaitingIds:
        clients = [client for client, _ in rows]
        return WaitingIds([id for _, id in rows], cursor, clients, tuple(unread))

    at = None if query.cursor is None else Position.read(query.cursor)
    most, skip = query.max, query.start or 0
    for _ in range(ROUNDS):
        most_names = FAR if skip else NEAR
        names = await _names(queue, at, most_names)
        found = await _accounts(queue, names)
        plan, skip, rest = _planned(found, at, most - len(rows), skip)
        seen = await together(attempt(window(queue, *stretch)) for stretch in plan)
        for (client, behind, *_), stretch in zip(plan, seen, strict=True):
            if isinstance(stretch, Exception):
                unread.append(Unread("client", _encoded(client), stretch))
                at = Position(client, _PASSED)
                continue
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
                    return read(None)
                if at is None or at.client != names[-1]:  # nothing waits there
                    at = Position(names[-1])
        if len(rows) >= most:
            break
    return read(None if at is None else str(at))


async def queue_position(
    queue: QueueReads[Any], client: str, id: str, known: QueuePosition
) -> QueuePosition:
    """What comes before an entry of a client: clients with an earlier turn, and its own list."""
    keys = queue.keys
    lists = [keys["f_"] + client, keys["c_"] + client]
    account_of, rank, found = await together(
        accounts(queue.keys, [client]),
        Call(("ZRANK", keys["ring"], client), number, key=keys["ring"]),
        together(Call(("LPOS", key, id, "MAXLEN", DEPTH), number, key=key) for key in lists),
    )
    account = account_of[client]
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
        # For each turn of its client all other clients have one too.
        others = max(1, known.open or 1) - 1
        before = int(rank) + int(own) + int(own) * others // account.weight
    return replace(
        known,
        here=True,
        client=account.shown(client),
        ahead=tuple(ahead),
        before=before,
        before_exact=not own,
    )


def _names(queue: QueueReads[Any], at: Position | None, most: int) -> Call[list[str]]:
    """Clients by name, from a position on; bytes that aren't UTF-8 are escaped."""
    key = queue.keys["clients"]
    low = b"-" if at is None else b"[" + _encoded(at.client)

    def names(reply: list[bytes]) -> list[str]:
        return [name.decode("utf-8", "surrogateescape") for name in reply]

    return Call(("ZRANGE", key, low, "+", "BYLEX", "LIMIT", 0, most), names, key=key)


def _encoded(client: str) -> bytes:
    return client.encode("utf-8", "surrogateescape")


async def _accounts(
    queue: QueueReads[Any], names: Sequence[str]
) -> dict[str, Account | Exception | None]:
    """Accounts of clients; an exception in the place of one that can't be read."""
    if not names:
        return {}
    key = queue.keys["accounts"]
    lines = await Call(("HMGET", key, *map(_encoded, names)), list[bytes | None], key=key)
    return {name: _account(line) for name, line in zip(names, lines, strict=True)}


def _account(line: bytes | None) -> Account | Exception | None:
    try:
        return Account.read(line)
    except (TypeError, ValueError) as error:
        return error


def _planned(
    found: dict[str, Account | Exception | None], at: Position | None, need: int, skip: int
) -> tuple[list[tuple[str, int | None, int, int]], int, bool]:
    """Stretches to read (client, behind, how many, skipped before), what is still to be skipped,
    and whether clients are left for another look."""
    plan: list[tuple[str, int | None, int, int]] = []
    for client, account in found.items():
        behind = at.behind if at is not None and at.client == client else None
        if account is None:
            continue
        if isinstance(account, Exception):
            here = int(behind is None)  # one read of it reports the problem
        elif behind is None:
            here = account.waiting
        else:
            here = min(account.waiting, account.end - behind - 1)
        if here <= 0:
            continue
        if behind is None and skip >= here:
            skip -= here
            continue
        if need <= 0:
            return plan, skip, True
        plan.append((client, behind, need, skip))
        need -= here - skip
        skip = 0
    return plan, skip, False
