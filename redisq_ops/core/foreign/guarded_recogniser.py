"""How a kind that another package brings takes part in a scan, without breaking it."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Awaitable, Callable, Collection, Mapping
from itertools import chain
from typing import ClassVar, TypeVar

from ..engine.queue_classes import plug_in_class
from ..model.errors import RedisqError, Refused
from ..redis.key_scan import Lane
from .plug_ins import plug_ins, refused
from .recogniser import Find, KeyLook, Recogniser, recognisers_in

T = TypeVar("T")


class Guarded(Recogniser):
    """The recognisers of a kind of another package: from their first error on there are none."""

    lanes: ClassVar[tuple[Lane, ...]] = ()

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.problem: str | None = None
        """why the kind isn't looked for"""
        self._own: list[Recogniser] = []
        self._own = self._told(lambda: _recognisers_of(kind), [])

    def wanted(self) -> tuple[Lane, ...]:
        return tuple(lane for one in self._own for lane in one.wanted())

    async def by_name(self, look: KeyLook) -> bool:
        return any(await self._asked(lambda one: one.by_name(look)))

    async def by_content(self, look: KeyLook) -> bool:
        return any(await self._asked(lambda one: one.by_content(look)))

    async def finds(self) -> list[Find]:
        found = chain.from_iterable(await self._asked(lambda one: one.finds()))
        return [find for find in found if find.kind == self._kind]

    def owns(self, key: bytes) -> bool:
        return self._told(lambda: any(one.owns(key) for one in self._own), False)

    def unread(self) -> Mapping[str, Collection[bytes]]:
        return self._told(lambda: dict(ChainMap(*(dict(one.unread()) for one in self._own))), {})

    async def _asked(self, ask: Callable[[Recogniser], Awaitable[T]]) -> list[T]:
        try:
            return [await ask(one) for one in self._own]
        except RedisqError:  # of the key, or of the server
            raise
        except Exception as error:
            self._fails(error)
            return []

    def _told(self, tell: Callable[[], T], instead: T) -> T:
        try:
            return tell()
        except Exception as error:
            self._fails(error)
            return instead

    def _fails(self, error: Exception) -> None:
        self._own = []
        if not isinstance(error, Refused):
            error = refused(plug_ins()[self._kind], f"{type(error).__name__}: {error}")
        self.problem = str(error)


def _recognisers_of(kind: str) -> list[Recogniser]:
    made = plug_in_class(kind)
    return [] if made is None else [each() for each in recognisers_in(f"{made.package}.recogniser")]
