"""How a kind that another package brings takes part in a scan, without breaking it."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Coroutine, Mapping
from itertools import chain
from typing import Any, ClassVar, TypeVar

from ..engine.queue_classes import plug_in_class
from ..model.errors import RedisqError, Refused
from ..redis.key_scan import Lane
from .plug_ins import plug_ins, refused
from .recogniser import Find, KeyLook, Recogniser, recognisers_in
from .watched_code import Watched, watched

T = TypeVar("T")


class Guarded(Recogniser):
    """The recognisers of a kind of another package; their first error removes all of them."""

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
        found = await self._asked(lambda one: one.finds())
        return self._told(lambda: [self._checked(find) for find in chain.from_iterable(found)], [])

    def _checked(self, found: Any) -> Find:
        if isinstance(found, Find) and found.kind == self._kind:
            return found
        raise TypeError(f"its recogniser finds {found!r}, and no queue of kind {self._kind}")

    def owns(self, key: bytes) -> bool:
        return self._told(lambda: any(one.owns(key) for one in self._own), False)

    def unread(self) -> Mapping[str, Collection[bytes]]:
        return self._told(lambda: dict(ChainMap(*(dict(one.unread()) for one in self._own))), {})

    async def _asked(self, ask: Callable[[Recogniser], Coroutine[Any, Any, T]]) -> list[T]:
        try:
            return [await Watched(ask(one)) for one in self._own]
        except RedisqError:  # the key or the server is at fault
            raise
        except (Exception, SystemExit) as error:
            self._fails(error)
            return []

    def _told(self, tell: Callable[[], T], instead: T) -> T:
        try:
            with watched():
                return tell()
        except (Exception, SystemExit) as error:
            self._fails(error)
            return instead

    def _fails(self, error: BaseException) -> None:
        self._own = []
        if not isinstance(error, Refused):
            error = refused(plug_ins()[self._kind], f"{type(error).__name__}: {error}")
        self.problem = str(error)


def _recognisers_of(kind: str) -> list[Recogniser]:
    made = plug_in_class(kind)
    return [] if made is None else [each() for each in recognisers_in(f"{made.package}.recogniser")]
