"""What a change of requests, clients, queues or settings will do, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from redisq_ops.core.engine.optional_features import HasOwnersPause
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Client, Counts, Request

from ..terminal import age, count, kind_of
from .confirmation import typed_number
from .control import CLIENT_RULES, QueueSetting, heeded_by, rule_words, stops_workers
from .destroy import contents
from .preview import Preview

SHOWN = 3
"""reasons of paused queues that are shown"""


def request_preview(
    queue: Queue[Any], requests: Sequence[Request], verb: str, value: str = ""
) -> Preview:
    """What a change of one or more requests of a queue will do."""
    first, ids = requests[0], [request.id for request in requests]
    one = len(ids) == 1
    named = f"request {queue.name}/{first.id}" if one else f"{count(len(ids))} requests"
    title = f"{verb} {named}" + ("" if one else f" of {queue.name}")
    lines, left = [], 0
    if value:
        title = f"change {verb} of {named} from {getattr(first, verb)} to {value}"
    if verb in ("pause", "resume"):
        waiting, pending = (sum(getattr(r, name) for r in requests) for name in _HANDED_OUT)
        lines = handed_out(verb, waiting, pending)
    facts = {
        "verb": verb,
        "queue": queue.name,
        "request": ", ".join(ids),
        "value": int(value) if value else None,
        "matched": len(ids),
    }
    if verb == "cancel":
        left = first.waiting + first.pending + first.delayed
        lines = [f"{count(left)} of its {count(first.total)} entries are not finished"]
        facts["entries"] = left
    return Preview(title, tuple(lines), typed_number(left), facts)


def queue_preview(queues: Sequence[Queue[Any]], counts: Sequence[Counts], verb: str) -> Preview:
    """What pausing, resuming or draining one or more queues will do."""
    one, names = len(queues) == 1, [queue.name for queue in queues]
    title = f"{verb} queue {names[0]}" if one else f"{verb} {count(len(names))} queues"
    facts = {"verb": verb, "queue": ", ".join(names), "matched": len(names)}
    if one and (same := _already(queues[0], counts[0], verb)):
        return Preview(title, (same,), facts={**facts, "matched": 0})
    lines = [contents(counts[0]) or "nothing in it"] if one and verb == "drain" else []
    if verb == "resume":
        reasons = [reason for each in counts if (reason := each.paused or each.closed)]
        lines += [f"paused or drained: {reason}" for reason in reasons[:SHOWN]]
    if verb == "drain":
        lines.append("new requests and entries are refused; workers go on until it is empty")
    else:
        held = [c for queue, c in zip(queues, counts, strict=True) if stops_workers(queue)]
        waiting, pending = (sum(getattr(c, name) or 0 for c in held) for name in _HANDED_OUT)
        lines += handed_out(verb, waiting, pending) if held else []
    lines += dict.fromkeys(filter(None, (heeded_by(queue, verb) for queue in queues)))
    return Preview(title, tuple(lines), facts=facts)


def _already(queue: Queue[Any], now: Counts, verb: str) -> str:
    """Why nothing would change, in words; empty: something would. A pause of our own may get
    another reason."""
    if verb == "resume" and now.paused is None and now.closed is None:
        return "it isn't paused"
    owners = isinstance(queue, HasOwnersPause)
    return f"already paused: {now.paused}" if verb == "pause" and owners and now.paused else ""


_HANDED_OUT = ("waiting", "pending")


def handed_out(verb: str, waiting: int, pending: int) -> list[str]:
    """What a pause, or its end, means for the entries in the queue."""
    if verb == "resume":
        return [f"{count(waiting)} waiting: workers get them again"]
    running = "its worker can finish it" if pending == 1 else "their workers can finish them"
    lines = [f"{count(waiting)} waiting: no worker gets one until it is resumed"]
    return [*lines, f"{count(pending)} pending: {running}"] if pending else lines


def client_preview(queue: Queue[Any], client: Client, verb: str, value: int) -> Preview:
    """What a change of a client's rule will do; ``matched`` is 0 if nothing would change."""
    rule, fixed = CLIENT_RULES[verb]
    before = int(getattr(client, rule) or 0)
    title = f"{verb} client {client.client} of queue {queue.name}"
    if fixed is None:
        words = [rule_words(rule, n) if n or verb == "weight" else "none" for n in (before, value)]
        title = f"change {verb} of client {client.client} of queue {queue.name} from "
        title += " to ".join(words)
    same = before == value
    lines = f"{count(client.waiting)} waiting, {count(client.pending)} pending"
    facts = {
        "verb": verb,
        "queue": queue.name,
        "client": client.client,
        "value": value if fixed is None else None,
        "matched": int(not same),
    }
    return Preview(title, ("nothing would change" if same else lines,), facts=facts)


def setting_text(name: str, value: str) -> str:
    """A setting's value, and of a number of milliseconds how long that is."""
    timed = name.endswith("_ms") and value.isdecimal()
    return f"{value} ({age(int(value))})" if timed else value


def settings_preview(
    queue: Queue[Any],
    settings: Sequence[QueueSetting],
    changes: Mapping[str, str],
    new: bool,
    stated: str,
) -> Preview:
    """What a change of a queue's settings will do; ``new``: it also creates the queue; ``stated``:
    see `Queue.stated_attempts`."""
    before = {setting.name: setting.value for setting in settings}
    usual = {"max_failures": f"{stated}, as the code states"} if stated else {}
    lines = [
        f"{name}: {setting_text(name, before[name])} to "
        f"{setting_text(name, value) or usual.get(name, 'default')}"
        for name, value in changes.items()
    ]
    if new:
        lines.append(f"queue {queue.name} does not exist yet: it becomes {kind_of(queue.kind)}")
    facts = {
        "verb": "settings",
        "queue": queue.name,
        "matched": len(changes),
        "settings": changes,
    }
    return Preview(f"change settings of queue {queue.name}", tuple(lines), facts=facts)
