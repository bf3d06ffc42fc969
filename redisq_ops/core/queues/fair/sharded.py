"""The fair queue over several shards: a client's home is crc16(its name) mod N.

Turns are exact within a shard. Between shards a take is shared out by how many clients each can
serve, so that one alone in its shard doesn't get what many get together; exact in the mean.

When N changes, a client's new entries go to its new home at once, its rules with them; what waits
in the old place is served from there, and the change is complete when nothing does any more.
Nothing is carried over, so whoever holds, purges or replays an entry meanwhile is not disturbed;
everything about an entry asks all shards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, TypeVar

from ...model.entry import Client, Clients
from ...model.errors import Refused
from ...model.keys import checked_name
from ...model.settings import BATCH
from ...redis.operation import C_co, Call, Description, both, operation, together
from ...redis.parsers import members, scored
from ...sharding.sharded_queue import NEVER, Head, ShardedQueue, home
from .account import Account, accounts
from .queue import Deleted, FairQueue, Rule, SubmittedEntry, together_with

_ATTEMPTS = 4
USUAL: dict[Rule, int] = {"weight": 1, "cap": 0, "blocked": 0}
_RULES = tuple(USUAL)

T = TypeVar("T")


class ShardedFairQueue(ShardedQueue[C_co, FairQueue[None]], FairQueue[C_co]):
    """A fair queue over several hash slots, used like one: see `FairQueue`.

    ``shards`` (1 to 256): how many a new queue gets; an existing one keeps its number until
    `resize`. Each client is whole in one shard, so clients
    take turns within a shard.
    """

    part: ClassVar[Any] = FairQueue

    def _homes_of(self, client: str) -> list[FairQueue[None]]:
        """A client's home, and while the number changes the one it had, the new one first."""
        known = [home(client, n) for n in (self.shards, self.old_shards) if n]
        return [self._shard(k) for k in dict.fromkeys(known)]

    def _holders(self) -> Sequence[FairQueue[Any]]:
        return self._all_shards()

    async def _shards_of(self, ids: Sequence[str]) -> dict[str, set[int]]:
        """An id doesn't say whose it is: every shard is asked."""
        await self._refresh()
        everywhere = {part.shard for part in self._all_shards()}
        return dict.fromkeys(ids, everywhere)

    # --- producers -----------------------------------------------------------------------------

    async def _submit(
        self, client: str, pairs: Sequence[tuple[str, bytes]], given: Collection[str]
    ) -> list[SubmittedEntry]:
        """Who doesn't know of a change is told ``elsewhere``, learns of it and asks again.

        The home guards its ids; those of other shards are looked for before. Two clients that use
        one id in the same moment for the first time can both be told ``ok``.
        """
        said: dict[int, SubmittedEntry] = {}
        for _ in range(_ATTEMPTS):
            left = [i for i in range(len(pairs)) if i not in said]
            at = self._homes_of(client)[0]
            if given:
                said |= await self._known(
                    client, pairs, [i for i in left if pairs[i][0] in given], at
                )
                left = [i for i in left if i not in said]
            if left:
                for i, one in zip(left, await at._submit(client, [pairs[i] for i in left], ()),
                                  strict=True):  # fmt: skip
                    if one.word != "elsewhere":
                        said[i] = one
            if len(said) == len(pairs):
                return [said[i] for i in range(len(pairs))]
            await self._refresh()
        raise Refused(f"the shards of queue {self.name} keep changing; try again")

    async def _known(
        self,
        client: str,
        pairs: Sequence[tuple[str, bytes]],
        which: Sequence[int],
        at: FairQueue[None],
    ) -> dict[int, SubmittedEntry]:
        """What shards other than the home say of ids."""
        others = [part for part in self._all_shards() if part.shard != at.shard]
        found = await together(part._bodies([pairs[i][0] for i in which]) for part in others)
        said: dict[int, SubmittedEntry] = {}
        for bodies in found:
            for i, body in zip(which, bodies, strict=True):
                if body is not None:
                    same = body == together_with(client, pairs[i][1])
                    said[i] = SubmittedEntry(pairs[i][0], "same" if same else "exists")
        return said

    # --- clients -------------------------------------------------------------------------------

    @operation
    async def clients(self, start: int = 0, max: int = BATCH) -> Clients:
        """The first ``start + max`` names of every shard are read for it."""
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

    async def _set_rule(self, rule: Rule, client: str, value: int) -> int:
        checked_name(client, "client name")
        await self._ensure_registered()
        said = await self._ruled(client, lambda part: part._set_rule(rule, client, value))
        return next((before for before in said if before != USUAL[rule]), USUAL[rule])

    @operation
    async def control(
        self, op: str, seq: int, rule: Rule, client: str, value: int, since: int | None = None
    ) -> tuple[str, int]:
        said = await self._ruled(
            client, lambda part: part.control.op(op, seq, rule, client, value, since)
        )
        befores = [before for _, before in said if before != USUAL[rule]]
        heard = {word for word, _ in said}
        word = next((word for word in ("ok", "changed") if word in heard), "same")
        return word, befores[0] if befores else USUAL[rule]

    async def _ruled(
        self, client: str, ask: Callable[[FairQueue[None]], Description[T]]
    ) -> list[T]:
        """Change a rule wherever a client may be served; the answers of its homes, the new first.

        Once the number was changed that is every shard: a former home may have dead letters of the
        client, and when these are replayed they wait there. The home is last: `_strays`, which
        brings rules there from elsewhere, looks again at what it has copied.
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
        servable, firsts = await both(
            Call(("ZCARD", ring), int, key=ring),
            together(scored(part.keys[zset], "0", "0") for zset in ("delay", "lease")),
        )
        due = min((score for rows in firsts for _, score in rows), default=NEVER)
        return 0 if servable else due, -servable

    def _share_out(self, n: int, ready: Sequence[int], heads: Sequence[Head]) -> dict[int, int]:
        """By the clients each shard can serve; what doesn't divide goes by chance."""
        weights = [max(1.0, -heads[k][1]) for k in ready]
        shares: dict[int, int] = {}
        reached, given = self._random.random(), 0
        for k, weight in zip(ready, weights, strict=True):
            reached += n * weight / sum(weights)
            share = min(n, int(reached)) - given
            given += share
            if share:
                shares[k] = share
        if given < n and ready:  # the last digit of a sum of fractions
            shares[ready[-1]] = shares.get(ready[-1], 0) + n - given
        return shares

    # --- another number of shards --------------------------------------------------------------

    async def _rebalance_step(self) -> int:
        """Rules move at once. What waits, is pending or delayed in an old place is left there."""
        left = 0
        for part in self._all_shards():
            left += await self._strays(part)
            states = ["delay", "dead", "trash"] if part.shard >= self.shards else ["delay"]
            for state in states:
                ids = await members(part.keys[state])
                left += sum(home(name, self.shards) != part.shard for name in
                            await _owners(part, ids))  # fmt: skip
        return left

    async def _strays(self, part: FairQueue[None]) -> int:
        """Bring the rules of clients that have another home now there; how much they have here.

        They stay here too: dead letters may be replayed here. In a shard that is given up they go
        with it.
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

    async def _bring_rules(
        self, part: FairQueue[None], client: str, own: tuple[int, int, int]
    ) -> None:
        there = self._shard(home(client, self.shards))
        known = (await accounts(there.keys, [client]))[client] or _NOBODY
        usual = _rules(_NOBODY)
        lacking = [n for n, rule in enumerate(_rules(known)) if rule == usual[n]]
        copied = usual
        # What is changed meanwhile is changed here first, so a look back misses nothing.
        while changes := [(_RULES[n], own[n]) for n in lacking if own[n] != copied[n]]:
            await together(there._set_rule(rule, client, value) for rule, value in changes)
            copied = own
            own = _rules((await accounts(part.keys, [client]))[client] or _NOBODY)

    async def _clear_given_up(self, parts: Sequence[FairQueue[None]]) -> None:
        """Before the rest goes, clients go: a page of their lists and accounts in a call."""
        left = list(parts)
        while left:
            gone = await together(
                part._script("forget_clients").call(
                    part.keys, self.clock, int, layout=self.layout, max=BATCH
                )
                for part in left
            )
            left = [part for part, n in zip(left, gone, strict=True) if n]
        await ShardedQueue._clear_given_up(self, parts)


_NOBODY = Account(0, 0, 0, 0)


def _rules(account: Account) -> tuple[int, int, int]:
    return account.weight, account.cap, account.blocked


def _joined(one: Client | None, other: Client) -> Client:
    """A client that is in two places while the number of shards changes."""
    if one is None:
        return other
    return Client(
        one.client, one.waiting + other.waiting, one.pending + other.pending,
        max(one.weight, other.weight), one.blocked or other.blocked, one.cap or other.cap,
    )  # fmt: skip


async def _owners(part: FairQueue[None], ids: Sequence[str]) -> list[str]:
    found: list[str] = []
    key = part.keys["owner"]
    for low in range(0, len(ids), BATCH):
        page = ids[low : low + BATCH]
        owners = await Call(("HMGET", key, *page), list[bytes | None], key=key)
        found += [owner.decode() for owner in owners if owner]
    return found
