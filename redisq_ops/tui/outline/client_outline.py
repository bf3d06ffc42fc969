"""What is known of a client of a queue, as sections of foldable lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Final

from rich.text import Text

from redisq_ops.core.model.entry import Client, Entry
from redisq_ops.core.model.rate_limit import RateLimit
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import age, count, printable
from redisq_ops.tui.outline.outline import (
    LABEL,
    LINE,
    Line,
    OutlineSection,
    aligned,
    fact,
    fact_section,
)
from redisq_ops.tui.theme import BAD, DIM, HELD, OK, WARN
from redisq_ops.tui.views.delayed import moment
from redisq_ops.tui.views.entry_view import error_cell

if TYPE_CHECKING:
    from redisq_ops.ops.change.audit_log import Operation
    from redisq_ops.ops.inspect.client_details import ClientDetails

_PENDING: Final = 8
"""pending entries of the client that are listed"""


def client_sections(
    details: ClientDetails, snapshot: Snapshot, zone: tzinfo | None
) -> list[OutlineSection]:
    """A client's turns, rules and their changes, its first waiting and its pending entries."""
    client, now = details.client, snapshot.now_ms
    first, held = list(details.waiting), list(details.pending)
    rules = [fact("turns", *_turns(client, snapshot)), *_rules(details.changes, now, zone)]
    found = [fact_section("client", client.client, rules)]
    if client.waiting:
        title = f"waiting  the first {count(len(first))} of {count(client.waiting)}"
        found.append(fact_section("waiting", title, list(_waiting(first, now))))
    if client.pending:
        title = f"held  {count(len(held))} of {count(client.pending)}, the next deadline first"
        found.append(fact_section("held", title, list(_held(held[:_PENDING], now))))
    return found


def is_served(client: Client) -> bool:
    """Whether a worker could take the client's next entry now."""
    full = client.cap is not None and client.pending >= client.cap
    return bool(client.waiting) and not (client.blocked or client.rests or full)


def _turns(client: Client, snapshot: Snapshot) -> tuple[str, str]:
    """The client's share of the entries taken, in words, and a style."""
    if client.blocked:
        return "none: it is blocked; U undoes that, :client unblock ends it", BAD
    if not client.waiting:
        return "none: nothing of it waits", DIM
    if client.rests:
        return f"none for a while: it is limited to {RateLimit.of_hour(client.rate)}", WARN
    if not is_served(client):
        return f"none until one of its {count(client.pending)} held entries ends: at its cap", WARN
    rivals = [one for one in snapshot.clients if is_served(one) and one.client != client.client]
    whole = len(snapshot.clients) >= snapshot.total
    if not rivals and whole:
        return "all that is taken: no other client can be served now", OK
    of = client.weight + sum(one.weight for one in rivals)
    among = f"{count(len(rivals) + 1)} clients{'' if whole else ' listed here'}"
    weight = f"its weight is {client.weight} of {count(of)}"
    share = f"{100 * client.weight / of:.0f} % of what is taken"
    return f"about {share}: {weight}, of the {among} that can be served now", OK


def _rules(changes: Sequence[Operation], now_ms: int, zone: tzinfo | None) -> Iterator[Line]:
    """Who set the client's rules and when; the latest change first."""
    for change in changes[:5]:
        to = change.what.partition(" to ")[2]
        words = f"by {change.by}, {age(max(0, now_ms - change.started_ms))} ago"
        words += f" ({moment(change.started_ms, zone)})"
        words += f"  “{change.why}”" if change.why else ""
        words += "  (undone)" if change.taken_back else ""
        yield fact(f"{change.verb} {to}".strip(), words)


def _waiting(entries: Sequence[Entry], now_ms: int) -> Iterator[Line]:
    for id, entry in zip(aligned([entry.id for entry in entries]), entries, strict=True):
        waits = "" if entry.since_ms is None else f"for {age(max(0, now_ms - entry.since_ms))}"
        text = Text.assemble((f"{waits:<{LABEL}}", DIM), id)
        if entry.attempts:
            text.append(f"  attempt {count(entry.attempts + 1)}", DIM)
        yield Line(_with_error(text, entry), entry.id)


def _held(entries: Sequence[Entry], now_ms: int) -> Iterator[Line]:
    ids = aligned([entry.id for entry in entries])
    consumers = aligned([entry.consumer or "-" for entry in entries])
    for entry, id, consumer in zip(entries, ids, consumers, strict=True):
        since = "" if entry.since_ms is None else f"for {age(max(0, now_ms - entry.since_ms))}"
        left = (entry.at_ms or now_ms) - now_ms
        lease = f"lease {age(left)}" if left >= 0 else f"lease over for {age(-left)}"
        text = Text.assemble(
            (f"{since:<{LABEL}}", DIM),
            id,
            (f"  {consumer}", HELD),
            (f"  {lease:<22}", OK if left >= 0 else BAD),
        )
        yield Line(_with_error(text, entry), entry.id)


def _with_error(text: Text, entry: Entry) -> Text:
    words = str(error_cell(entry))
    return text.append(f"  {printable(words, LINE)}", BAD) if words else text
