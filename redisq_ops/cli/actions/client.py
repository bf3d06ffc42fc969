"""`redisq client`: the clients of a fair queue, their entries and their rules."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from redisq_ops.ops.change import control
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.preview import Preview

from ..confirm_and_run import agreed, ended, nothing_matched
from ..output import emit, say, table
from ..rows import client_row
from ..session import Session


def listed(s: Session, given: dict[str, Any]) -> int:
    queue = s.run(s.deployment.queue(given["name"]))
    found = s.run(control.with_clients(queue).clients.op(given["start"], given["max"]))
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


def change(s: Session, verb: str, given: dict[str, Any]) -> int:
    queue, name = s.run(s.deployment.queue(given["name"])), given["client"]
    rule, value = control.client_rule(verb, given.get("value"))
    now = s.run(control.client_changeable(queue, name, rule, value))
    before = getattr(now, rule) or 0
    title = f"{verb} client {name} of queue {queue.name}"
    if verb in ("weight", "cap"):
        words = [str(n) if n or verb == "weight" else "none" for n in (before, value)]
        title = f"change {verb} of client {name} of queue {queue.name} from {' to '.join(words)}"
    lines = (f"{now.waiting:,} waiting, {now.pending:,} pending",)
    facts = {"verb": verb, "queue": queue.name, "client": name, "value": given.get("value")}
    if int(before) == value:
        unchanged = Preview(title, ("nothing would change",), facts=facts | {"matched": 0})
        return nothing_matched(s, [unchanged], given["dry_run"])
    if not agreed(s, [Preview(title, lines, facts=facts | {"matched": 1})], given):
        return 0
    author = Author.here(given["reason"])
    outcome = s.run(control.change_client(queue, name, verb, author, value))
    ended(s, outcome, title)
    return outcome.exit_code
