"""`redisq client`: the clients of a fair queue, their entries and their rules."""

from __future__ import annotations

from dataclasses import asdict

from redisq_ops.ops.change import control
from redisq_ops.ops.change.control_preview import client_preview
from redisq_ops.ops.required_features import with_clients

from ..confirm_and_run import confirm_and_run
from ..options import Go
from ..output import emit, say, table
from ..rows import client_row
from ..session import Session


def listed(s: Session, name: str, start: int, most: int) -> int:
    queue = s.run(s.deployment.queue(name))
    found = s.run(with_clients(queue).clients.op(start, most))
    rows = [asdict(client) for client in found.clients]
    if s.json:
        for client in found.clients:
            emit(client_row(queue.name, client))
        return 0
    if rows:
        table(list(rows[0]), [list(row.values()) for row in rows])
    if len(rows) < found.total:
        say(f"{len(rows)} of {found.total:,} shown")
    return 0


def change(s: Session, verb: str, at: str, name: str, go: Go, typed: int | None = None) -> int:
    queue = s.run(s.deployment.queue(at))
    rule, value = control.client_rule(verb, typed)
    now = s.run(control.client_changeable(queue, name, rule, value))
    preview = client_preview(queue, now, verb, value)
    return confirm_and_run(
        s, preview, go, lambda author: control.change_client(queue, name, verb, author, value)
    )
