"""The clients of a fair queue and their rules: weight, cap, and whether a client is blocked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, cast

from ...engine.operator_changes import ChangeUndo
from ...engine.optional_features import HasClients
from ...engine.queue import Queue
from ...model.entry import Client, Clients, Entry, Limit
from ...model.errors import BadInput
from ...model.keys import checked_name
from ...model.quoting import text
from ...model.rate_limit import MOST, RateLimit
from ...model.settings import BATCH
from ...redis.operation import C_co, Call, Description, operation, together
from ...redis.parsers import words
from .account import accounts
from .waiting_pages import window

MAX_WEIGHT = 100
Rule = Literal["weight", "cap", "rate", "blocked"]


class ClientRules(HasClients[C_co]):
    """Reads of clients, and changes of their rules."""

    client_rules: ClassVar[Mapping[str, range]] = {
        "weight": range(1, MAX_WEIGHT + 1),
        "cap": range(10**9),
        "rate": range(MOST * 3600 + 1),
        "blocked": range(2),
    }

    @operation
    async def clients(self, start: int = 0, max: int = BATCH) -> Clients:
        """Up to ``max`` clients by name from rank ``start`` on: those that have entries waiting or
        pending, or rules."""
        key = self.keys["clients"]
        names, total = await together(
            Call(("ZRANGE", key, start, start + max - 1), words, key=key),
            Call(("ZCARD", key), int, key=key),
        )
        found = await accounts(self.keys, names)
        return Clients(tuple(a.shown(name) for name, a in found.items() if a is not None), total)

    async def _limits_reached(self, max: int) -> list[Limit]:
        found = (await self.clients.op(0, max)).clients
        held = [one for one in found if one.waiting and not one.blocked]
        capped = [
            Limit("client", one.client, one.cap, one.waiting)
            for one in held
            if one.cap and one.pending >= one.cap
        ]
        rated = [
            Limit("client", one.client, rate.number, one.waiting, str(rate))
            for one in held
            if one.rests and (rate := RateLimit.of_hour(one.rate))
        ]
        return capped + rated

    @operation
    async def get_client(self, client: str) -> Client | None:
        """One client; None when it has no entries waiting or pending and no rules."""
        found = (await accounts(self.keys, [client]))[client]
        return None if found is None else found.shown(client)

    @operation
    async def first_waiting(self, client: str, max: int) -> list[Entry]:
        """Up to ``max`` waiting entries of a client, the next first, without payloads."""
        line = await window(self, client, None, max)
        rows: list[tuple[str, float | None]] = [(text(id), None) for _, id in line.live]
        return await self._entries("waiting", rows, payloads=False)

    @operation
    async def length(self, client: str) -> int:
        """Number of a client's waiting entries."""
        found = await self.get_client.op(client)
        return 0 if found is None else found.waiting

    @operation
    async def weigh(self, client: str, weight: int) -> int:
        """Set a client's weight: its number of turns for each turn of a client of weight 1.

        ``weight``: 1 to 100. Returns the weight before. Clients can have rules before their first
        entry. Raises `BadInput`.
        """
        if weight not in self.client_rules["weight"]:
            raise BadInput(f"weight {weight}: must be 1 to {MAX_WEIGHT}")
        return await self._set_rule("weight", client, weight)

    @operation
    async def limit(self, client: str, cap: int) -> int:
        """Set how many of a client's entries may be pending at a time; 0: no cap.

        Returns the cap before. Entries that are pending already stay pending. Raises `BadInput`.
        """
        if cap not in self.client_rules["cap"]:
            raise BadInput(f"cap {cap}: must be 0 (none) or more")
        return await self._set_rule("cap", client, cap)

    @operation
    async def rate(self, client: str, rate: str) -> str:
        """Set how many entries a client is handed: ``10/s``, ``600/m``, ``5/h``; ``off``: no limit.

        In any second (minute, hour) it is handed at most that many and those of a tenth of a
        second, or one; others take its turns meanwhile. Returns the rate before. Raises `BadInput`.
        """
        limit = RateLimit.read(rate)
        before = await self._set_rule("rate", client, limit.per_hour if limit else 0)
        return str(RateLimit.of_hour(before) or "off")

    @operation
    async def block(self, client: str) -> bool:
        """Stop handing out a client's entries; it can still submit. False: it was blocked."""
        return not await self._set_rule("blocked", client, 1)

    @operation
    async def unblock(self, client: str) -> bool:
        """Hand out a client's entries again, from the present turn on. False: it wasn't blocked."""
        return bool(await self._set_rule("blocked", client, 0))

    async def _set_rule(self, rule: Rule, client: str, value: int) -> int:
        checked_name(client, "client name")
        await self._ensure_registered()
        replies: list[str] = await self._call_idempotent(
            "set_client_rule", words, rule=rule, client=client, value=value, was=""
        )
        return int(replies[1])

    @operation
    def control(
        self, op: str, seq: int, rule: Rule, client: str, value: int, since: int | None = None
    ) -> Description[tuple[str, int]]:
        """Set a rule of a client (weight, cap, rate per hour, blocked) as step ``seq`` of ``op``.

        With ``since`` only where that is the present value. Returns (word, the value before):
        ``ok``; ``same``: it had that value; ``changed``: it isn't ``since``.
        """
        checked_name(client, "client name")
        return self._call_registered(
            "set_client_rule",
            lambda reply: (reply[0].decode(), int(reply[1])),
            caller=op,
            seq=seq,
            rule=rule,
            client=client,
            value=value,
            was="" if since is None else since,
        )

    @operation
    async def set_client_rule(
        self, op: str, seq: int, rule: str, client: str, value: int
    ) -> tuple[str, int]:
        return await self.control.op(op, seq, cast(Rule, rule), client, value)

    async def _undo_change(self, undo: ChangeUndo) -> int:
        if undo.verb not in self.client_rules:
            return await Queue._undo_change(self, undo)
        client, value, *since = undo.args
        word, _ = await self.control.op(
            undo.op, undo.seq, cast(Rule, undo.verb), client, int(value), *map(int, since)
        )
        if word == "changed":
            undo.left([client])
        return int(word == "ok")
