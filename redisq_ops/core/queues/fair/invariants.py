"""What must add up in a fair queue; used by the tests after every step and by ``fsck``.

On a live queue the parts are read one after another while workers go on, so one check may
report a violation by mistake: repeat it. Reads by pages only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ...engine.entry_results import misplaced_results
from ...engine.reads import QueueReads
from ...model.entry import State
from ...model.keys import Keys
from ...model.quoting import text
from ...model.states import ZSETS
from ...redis.operation import Call, together
from ...redis.parsers import integers
from ...redis.whole_keys import elements, fields, members, scores, types_of
from .account import Account


async def violations(queue: QueueReads[Any]) -> list[str]:
    """Every broken rule, in words."""
    keys = queue.keys
    zsets, hashes, ring, resting = await together(
        together(members(keys[part]) for part in (*ZSETS.values(), "clients")),
        together(fields(keys[part]) for part in ("owner", "body", "holes", "accounts")),
        scores(keys["ring"]),
        scores(keys["resting"]),
    )
    *states, by_name = zsets
    owner, body, holes, lines = hashes
    turns = dict(ring)
    placed: dict[State, list[str]] = dict(zip(ZSETS, states, strict=True))
    seen = Counter(id for ids in states for id in ids)
    accounts = {name: Account.read(line) for name, line in lines.items()}
    problems: list[str] = []
    pending = Counter(text(owner.get(id, b"?")) for id in placed["pending"])
    spent = Counter(hole.partition("/")[0] for hole, mark in holes.items() if mark == b"1")
    named = Counter(hole.partition("/")[0] for hole in holes)
    hidden = await _hidden(keys, list(accounts))
    problems += [f"key {key} is a {is_} where a list belongs" for key, is_ in hidden.values()]
    waiting = sum(
        account.waiting for name, account in accounts.items() if name in hidden and account
    )
    seen_of = [name for name in accounts if name not in hidden]
    parts = await together(
        together(elements(keys["f_"] + name), elements(keys["c_"] + name)) for name in seen_of
    )
    for name, (packed, rest) in zip(seen_of, parts, strict=True):
        account = accounts[name]
        assert account is not None
        listed = packed + rest
        live = [id for id in listed if f"{name}/{id}" not in holes]
        for id in live:
            if (whose := _client(body.get(id, b""))) != name:
                problems.append(f"{id} waits with {name} and is {whose or 'nobody'}'s")
        seen.update(live)
        waiting += len(live)
        for what, have, should in (
            ("waiting", account.waiting, len(live)),
            ("pending", account.pending, pending[name]),
            ("holes", account.holes, len(listed) - len(live)),
            ("holes named", named[name], account.holes),
            ("spent holes", account.spent, spent[name]),
            ("packed", account.packed, len(packed)),
        ):
            if have != should:
                problems.append(f"client {name}: {what} is {have}, counted {should}")
        if account.servable != (name in turns):
            where = "in" if name in turns else "not in"
            problems.append(f"client {name} is {where} the ring")
        elif account.servable and turns[name] != account.turn:
            problems.append(
                f"client {name} has its turn at {account.turn}, {turns[name]:.0f} in ring"
            )
    problems += [f"{id} is in {n} states" for id, n in seen.items() if n > 1]
    problems += [f"{id} has no payload" for id in sorted(set(seen) - set(body))]
    lost = {id for id in set(body) - set(seen) if _client(body[id]) not in hidden}
    problems += [f"{id} has a payload and no state" for id in sorted(lost)]
    problems += [
        f"{id} is {state} and nobody's"
        for state, ids in placed.items()
        for id in ids
        if owner.get(id) != body.get(id, b"").partition(b" ")[0]
    ]
    problems += [f"{id} is owned and not there" for id in sorted(set(owner) - set(body))]
    strangers = (set(turns) | set(named) | {n for n, k in pending.items() if k}) - set(accounts)
    problems += [f"client {name} has no account" for name in sorted(strangers)]
    rests = {name: account.rest for name, account in accounts.items() if account and account.rest}
    if dict(resting) != rests:
        problems.append("clients that rest are not those whose accounts say so")
    if by_name != sorted(accounts):
        problems.append("clients by name are not those with accounts")
    stat = keys["stat"]
    known, resting_known = await Call(("HMGET", stat, "waiting", "resting"), integers, key=stat)
    if resting_known != len(resting):
        problems.append(f"queue: {resting_known} clients rest, counted {len(resting)}")
    if known != waiting:
        problems.append(f"queue: waiting is {known}, counted {waiting}")
    return problems + await misplaced_results(queue)


def _client(content: bytes) -> str:
    return text(content.partition(b" ")[0])


async def _hidden(keys: Keys, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Clients whose list is a key of another type: name -> the key and its type."""
    place_of = {keys[part] + name: name for name in names for part in ("c_", "f_")}
    types = await types_of(place_of)
    return {place_of[key]: (key, is_) for key, is_ in types.items() if is_ not in ("none", "list")}
