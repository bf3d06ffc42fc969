"""Chords: a last task is sent when all tasks of a group have ended; the server counts these.

Which tasks a group has is in no key, but for those that have ended: so only numbers are shown.
"""

from __future__ import annotations

from ...engine.relation import NO_LINKS, Links
from ...model.entry import Entry
from ...model.quoting import bytes_of
from ...redis.operation import Call, attempt, together
from ..json_text import decoded
from .task import Result

GROUP = "celery-taskset-meta-"


async def links(at: str, entry: Entry) -> Links:
    """How far the chord of a task came, by the keys of `RedisBackend.on_chord_part_return`: ``.s``
    and ``.t`` say how many tasks it has, ``.j`` has the results of those that have ended."""
    if not (group := _group_of(entry)):
        return NO_LINKS
    begin = bytes_of(f"{at}{GROUP}{group}")
    size, more, ended = (begin + part for part in (b".s", b".t", b".j"))
    sizes, results = await together(
        together(Call(("GET", key), _number, key=key) for key in (size, more)),
        together(
            attempt(Call((verb, ended), int, key=ended))
            for verb in ("ZCARD", "LLEN")  # a list without `result_chord_ordered`
        ),
    )
    counts = [n for n in results if isinstance(n, int)]
    if not sizes[0] or not counts:
        return NO_LINKS
    known = f"{max(counts):,} of {sum(sizes):,} tasks of its chord have ended"
    return Links(note=f"{known}; when all have, Celery sends the chord's last task")


def _number(found: bytes | None) -> int:
    return int(found) if found and found.isdigit() and len(found) < 16 else 0


def _group_of(entry: Entry) -> str | None:
    if isinstance(entry.record, Result):
        found = entry.record.fields.get("group_id")
    else:
        shown = decoded(entry.payload or b"null")
        found = shown.get("group") if isinstance(shown, dict) else None
    return found if isinstance(found, str) else None
