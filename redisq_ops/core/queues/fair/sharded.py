"""The fair queue over several shards: a client's home is shard crc16(its name) mod N.

Turns are exact within a shard. Between shards a take is shared out by the number of clients that
each can serve, so a client alone in its shard gets no more than others, on average.

When N changes, new entries of a client go to its new home at once, and so do its rules. Entries in
the old home are served from there, and the change is complete when none is left. No entry moves, so
nobody who holds, purges or replays one is disturbed; an operation on an entry asks all shards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, TypeVar

from ...engine.entry_results import ShardedEntryResults
from ...model.entry import Client, Clients, Entry
from ...model.errors import Refused
from ...model.keys import checked_name
from ...model.settings import BATCH
from ...redis.operation import C_co, Call, Description, operation, together
from ...redis.parsers import scored
from ...redis.whole_keys import members
from ...sharding.shard_map import Head, home, next_due
from .account import Account, accounts
from .client_rules import Rule
from .queue import Deleted, FairQueue, SubmittedEntry, packed

_ATTEMPTS = 4
USUAL: dict[Rule, int] = {"weight": 1, "cap": 0, "rate": 0, "blocked": 0}
_RULES = tuple(USUAL)

T = TypeVar("T")


class ShardedFairQueue(ShardedEntryResults[C_co, FairQueue[None]], FairQueue[C_co]):
    """A fair queue over several hash slots, used like one: see `FairQueue`.

    ``shards`` (1 to 256): how many a new queue gets; an existing one keeps its number until
    `resize`. Each client is whole in one shard, so clients take turns within a shard.
    """

    part: ClassVar[Any] = FairQueue

    def _homes_of(self, client: str) -> list[FairQueue[None]]:
        """A client's home, and during a resize also the old one; the new one first."""
        known = [home(client, n) for n in (self.shards, self.old_shards) if n]
        return [self._shard(k) for k in dict.fromkeys(known)]

    def _holders(self) -> Sequence[FairQueue[Any]]:
        return self._all_shards()

    async def _shards_of(self, ids: Sequence[str]) -> dict[str, set[int]]:
        """All shards: an id doesn't name its client."""
        await self._refresh()
        everywhere = {part.shard for part in self._all_shards()}
        return dict.fromkeys(ids, everywhere)

    # --- producers -----------------------------------------------------------------------------

    async def _submit(
        self, client: str, pairs: Sequence[tuple[str, bytes]], given: Collection[str]
    ) -> list[SubmittedEntry]:
        """Submit to the client's home; again where a reply is ``elsewhere`` (N has changed).

        The home checks its own ids; other shards are read before. Two clients that use one id for
        the first time at the same moment can both get ``ok``.
        """
        replies: dict[int, SubmittedEntry] = {}
        for _ in range(_ATTEMPTS):
            left = [i for i in range(len(pairs)) if i not in replies]
            at = self._homes_of(client)[0]
            if given:
                replies |= await self._known(
                    client, pairs, [i for i in left if pairs[i][0] in given], at
                )
                left = [i for i in left if i not in replies]
            if left:
                answers = await at._submit(client, [pairs[i] for i in left], ())
                here = zip(left, answers, strict=True)
                replies |= {i: one for i, one in here if one.word != "elsewhere"}
            if len(replies) == len(pairs):
                return [replies[i] for i in range(len(pairs))]
            await self._refresh()
        raise Refused(f"the shards of queue {self.name} keep changing; try again")

    async def _known(
        self,
        client: str,
        pairs: Sequence[tuple[str, bytes]],
        which: Sequence[int],
        at: FairQueue[None],
    ) -> dict[int, SubmittedEntry]:
        """Replies for ids that shards other than the home have."""
        others = [part for part in self._all_shards() if part.shard != at.shard]
        ids = [pairs[i][0] for i in which]
        if not ids:
            return {}
        found = await together(together(part._bodies(ids), _in_trash(part, ids)) for part in others)
        replies: dict[int, SubmittedEntry] = {}
        for bodies, purged in found:
            for i, body, trash in zip(which, bodies, purged, strict=True):
                if body is not None:
                    same = body == packed(client, pairs[i][1])
                    word = ("trash" if trash else "same") if same else "exists"
                    replies[i] = SubmittedEntry(pairs[i][0], word)
        return replies

    # --- clients -------------------------------------------------------------------------------

    @operation
    async def clients(self, start: int = 0, max: int = BATCH) -> Clients:
        """Reads the first ``start + max`` clients of every shard."""
        found = await self._on_each_shard(lambda part: part.clients.op(0, start + max))
        shown: dict[str, Client] = {}
        for part in found:
            for one in part.clients:
                shown[one.client] = _joined(shown.get(one.client), one)
        twice = sum(len(part.clients) for part in found) - len(shown)
        names = sorted(shown)[start : start + max]
        return Clients(tuple(shown[n] for n in names), sum(part.total for part in found) - twice)

    @operation
    async def get_client(self, client: str) -> Client | None:
        found = await self._on_each_shard(lambda part: part.get_client.op(client))
        shown: Client | None = None
        for one in found:
            shown = shown if one is None else _joined(shown, one)
        return shown

    @operation
    async def first_waiting(self, client: str, max: int) -> list[Entry]:
        """During a resize, those in the former home come first."""
        found = await self._on_each_shard(lambda part: part.first_waiting.op(client, max))
        return [entry for part in found for entry in part][:max]

    async def _set_rule(self, rule: Rule, client: str, value: int) -> int:
        checked_name(client, "client name")
        await self._ensure_registered()
        replies = await self._ruled(client, lambda part: part._set_rule(rule, client, value))
        return next((before for before in replies if before != USUAL[rule]), USUAL[rule])

    @operation
    async def control(
        self, op: str, seq: int, rule: Rule, client: str, value: int, since: int | None = None
    ) -> tuple[str, int]:
        replies = await self._ruled(
            client, lambda part: part.control.op(op, seq, rule, client, value, since)
        )
        befores = [before for _, before in replies if before != USUAL[rule]]
        words = {word for word, _ in replies}
        word = next((word for word in ("ok", "changed") if word in words), "same")
        return word, befores[0] if befores else USUAL[rule]

    async def _ruled(
        self, client: str, ask: Callable[[FairQueue[None]], Description[T]]
    ) -> list[T]:
        """Change a rule in all shards that may serve a client; replies of its homes, the new first.

        Once N was changed these are all shards: a former home may have dead letters of the client,
        which wait there after a replay. The home is changed last, because `_strays` copies rules to
        it from elsewhere and then checks what it copied.
        """

        async def everywhere() -> list[T]:
            homes = self._homes_of(client)
            near = {part.shard for part in homes}
            far = [p for p in self._all_shards() if p.shard not in near] if self.layout else []
            others = await together(ask(part) for part in [*homes[1:], *far])
            return [await ask(homes[0]), *others[: len(homes) - 1]]

        return await self._until_shards_stable(everywhere)

    @operation
    async def delete(self, client: str, op: str, max: int = BATCH) -> Deleted:
        await self._refresh()  # another process may have given the client a new home
        return await FairQueue.delete(self, client, op, max)

    # --- workers -------------------------------------------------------------------------------

    async def _peek(self, part: FairQueue[None]) -> Head:
        ring = part.keys["ring"]
        servable, due, resting = await together(
            Call(("ZCARD", ring), int, key=ring),
            next_due(part.keys),
            scored(part.keys["resting"], "0", "0"),
        )
        return 0 if servable else min([due, *(at for _, at in resting)]), -servable

    def _share_out(self, n: int, ready: Sequence[int], heads: Sequence[Head]) -> dict[int, int]:
        """By the number of clients each shard can serve; the remainder is random."""
        weights = [max(1.0, -heads[k][1]) for k in ready]
        shares: dict[int, int] = {}
        reached, given = self._random.random(), 0
        for k, weight in zip(ready, weights, strict=True):
            reached += n * weight / sum(weights)
            share = min(n, int(reached)) - given
            given += share
            if share:
                shares[k] = share
        if given < n and ready:  # a rounding error of the sum
            shares[ready[-1]] = shares.get(ready[-1], 0) + n - given
        return shares

    # --- another number of shards --------------------------------------------------------------

    async def _rebalance_step(self) -> int:
        """Move rules at once; returns the waiting, pending and delayed entries in old homes."""
        left = 0
        for part in self._all_shards():
            left += await self._strays(part)
            states = ["delay", "dead", "trash"] if part.shard >= self.shards else ["delay"]
            for state in states:
                ids = await members(part.keys[state])
                left += sum(
                    home(name, self.shards) != part.shard for name in await _owners(part, ids)
                )
        return left

    async def _strays(self, part: FairQueue[None]) -> int:
        """Copy rules of clients to their new homes; returns how many entries they have here.

        The rules stay here too, because dead letters may be replayed here; they are deleted with a
        shard that is given up.
        """
        names = [
            n for n in await members(part.keys["clients"]) if home(n, self.shards) != part.shard
        ]
        left = 0
        for low in range(0, len(names), BATCH):
            for name, account in (await accounts(part.keys, names[low : low + BATCH])).items():
                if account is None:
                    continue
                left += account.waiting + account.pending
                if _rules(account) != _rules(_NOBODY):
                    await self._bring_rules(part, name, _rules(account))
        return left

    async def _bring_rules(self, part: FairQueue[None], client: str, own: tuple[int, ...]) -> None:
        there = self._shard(home(client, self.shards))
        known = (await accounts(there.keys, [client]))[client] or _NOBODY
        usual = _rules(_NOBODY)
        lacking = [n for n, rule in enumerate(_rules(known)) if rule == usual[n]]
        copied = usual
        # A concurrent change is made here first, so a second read finds it.
        while changes := [(_RULES[n], own[n]) for n in lacking if own[n] != copied[n]]:
            await together(there._set_rule(rule, client, value) for rule, value in changes)
            copied = own
            own = _rules((await accounts(part.keys, [client]))[client] or _NOBODY)

    async def _clear_given_up(self, parts: Sequence[FairQueue[None]]) -> None:
        """Delete clients' lists and accounts first, a page per call."""
        left = list(parts)
        while left:
            gone = await together(
                part._call_script("forget_clients", int, layout=self.layout, max=BATCH)
                for part in left
            )
            left = [part for part, n in zip(left, gone, strict=True) if n]
        await super()._clear_given_up(parts)


_NOBODY = Account(0, 0, 0, 0)


def _rules(account: Account) -> tuple[int, ...]:
    return account.weight, account.cap, account.rate, account.blocked


def _in_trash(part: FairQueue[None], ids: Sequence[str]) -> Call[list[bool]]:
    key = part.keys["trash"]
    return Call(("ZMSCORE", key, *ids), lambda reply: [at is not None for at in reply], key=key)


def _joined(one: Client | None, other: Client) -> Client:
    """One client from its parts in two shards."""
    if one is None:
        return other
    return Client(
        one.client,
        one.waiting + other.waiting,
        one.pending + other.pending,
        max(one.weight, other.weight),
        one.blocked or other.blocked,
        one.cap or other.cap,
        one.rate or other.rate,
        one.rests or other.rests,
    )


async def _owners(part: FairQueue[None], ids: Sequence[str]) -> list[str]:
    found: list[str] = []
    key = part.keys["owner"]
    for low in range(0, len(ids), BATCH):
        page = ids[low : low + BATCH]
        owners = await Call(("HMGET", key, *page), list[bytes | None], key=key)
        found += [owner.decode() for owner in owners if owner]
    return found
