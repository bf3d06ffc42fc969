"""The recognisers of all kinds, and which kinds claim a key."""

from __future__ import annotations

from collections.abc import Iterable

from ..engine.registry import server_ms
from ..model.quoting import bytes_of
from ..redis.whole_keys import types_of
from . import LAYOUTS
from .guarded_recogniser import Guarded
from .plug_ins import plug_ins
from .recogniser import KeyLook, Recogniser, recognisers_in
from .unread_programs import UnreadPrograms


def recognisers() -> list[Recogniser]:
    """A new recogniser of each program, for one scan of a server: first those of kinds that other
    packages bring, then that of programs that can't be read, then the order of `LAYOUTS`."""
    found = dict[type[Recogniser], None]({UnreadPrograms: None})  # packages may share one
    for package, _ in LAYOUTS.values():
        found |= dict.fromkeys(recognisers_in(f"redisq_ops.core.{package}.recogniser"))
    return [*map(Guarded, plug_ins()), *(each() for each in found)]


async def kinds_of(keys: Iterable[str], at: str, what: str) -> set[str]:
    """The kinds that claim a queue by these keys; none if the keys don't exist. ``at``, ``what``:
    as in the queue's `Find`; an empty ``what`` stands for any queue there."""
    found, now_ms = recognisers(), await server_ms()
    for key, type_ in (await types_of(keys)).items():
        look = KeyLook(type_, bytes_of(key), now_ms)
        for one in found:
            if await one.by_name(look):
                break
    finds = [find for one in found for find in await one.finds()]
    here = (bytes_of(at), bytes_of(what))
    return {find.kind for find in finds if (find.at, find.what if what else b"") == here}
