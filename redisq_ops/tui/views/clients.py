"""`c`: the clients of a fair queue, and their rules."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from redisq_ops.core.model.entry import Client
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import count
from redisq_ops.tui.table.table_model import Cell
from redisq_ops.tui.theme import BAD, DIM, HELD, WARN

from .base import Items, QueueView, SortOrder
from .columns import Column, numbers, texts


def _rule(client: Client, _: object) -> Cell:
    full = client.cap is not None and client.pending >= client.cap
    if client.blocked:
        return "blocked", BAD
    return ("at cap", WARN) if full else ("at rate", WARN) if client.rests else ""


def _cap(client: Client, _: object) -> Cell:
    return ("-", DIM) if client.cap is None else count(client.cap)


def _weight(client: Client, _: object) -> Cell:
    return str(client.weight), "" if client.weight != 1 else DIM


class ClientsView(QueueView):
    BINDINGS: ClassVar[list[BindingType]] = [  # the dashboard's keys, in the words of this view
        Binding("K", "app.begin('request cancel')", "Block", id="begin-request-cancel"),
        Binding("L", "app.begin('request limit')", "Cap", id="begin-request-limit"),
        Binding("O", "app.begin('request priority')", "Weight", id="begin-request-priority"),
    ]
    name_ = "clients"
    title = "clients"
    short = "clients"
    about = "Clients: waiting, blocked"
    needs = "HasClients"
    named_rows = True
    read_by_row = True
    explains_rows = False
    columns = (
        texts("client", "client", 20, lambda c: c.client, flex=1),
        Column("rule", "rule", 8, _rule, lambda c: not c.blocked),
        numbers("waiting", "waiting", 8, lambda c: c.waiting),
        numbers("pending", "pending", 8, lambda c: c.pending, HELD),
        Column("cap", "cap", 6, _cap, lambda c: c.cap, align="right"),
        Column("weight", "weight", 6, _weight, lambda c: c.weight, align="right", falls=True),
    )
    usual = SortOrder("client", words="by name", back="by name, from the end")
    empty = "no client has entries or rules: each is listed once it has some"

    def items(self, snapshot: Snapshot) -> Items:
        return Items(snapshot.start, snapshot.total, snapshot.clients)

    def words(self, item: Any) -> tuple[str, ...]:
        return (item.client, "blocked" if item.blocked else "")

    def identity(self, item: Any) -> str:
        return str(item.client)
