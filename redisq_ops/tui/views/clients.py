"""`c`: the clients of a fair queue, and their rules."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from redisq_ops.core.model.entry import Client
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import count
from redisq_ops.tui.table.table_model import TableColumn, TableRow
from redisq_ops.tui.theme import BAD, DIM, HELD, WARN

from .base import Items, QueueView, SortOrder
from .requests import number


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
        TableColumn("client", "client", 20, flex=1),
        TableColumn("rule", "rule", 8),
        TableColumn("waiting", "waiting", 8, align="right"),
        TableColumn("pending", "pending", 8, align="right"),
        TableColumn("cap", "cap", 6, align="right"),
        TableColumn("weight", "weight", 6, align="right"),
    )
    orders = (
        SortOrder("client", words="by name", back="by name, from the end"),
        SortOrder("rule", lambda c: not c.blocked),
        SortOrder("waiting", lambda c: c.waiting, True),
        SortOrder("pending", lambda c: c.pending, True),
        SortOrder("cap", lambda c: c.cap),
        SortOrder("weight", lambda c: c.weight, True),
    )
    empty = "no client has entries or rules: each is listed once it has some"

    def items(self, snapshot: Snapshot) -> Items:
        return Items(snapshot.start, snapshot.total, snapshot.clients)

    def words(self, item: Any) -> tuple[str, ...]:
        return (item.client, "blocked" if item.blocked else "")

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        client: Client = item
        full = client.cap is not None and client.pending >= client.cap
        return TableRow(
            client.client,
            (
                client.client,
                ("blocked", BAD) if client.blocked else ("at cap", WARN) if full else "",
                number(client.waiting, ""),
                number(client.pending, HELD),
                ("-", DIM) if client.cap is None else count(client.cap),
                (str(client.weight), "" if client.weight != 1 else DIM),
            ),
        )
