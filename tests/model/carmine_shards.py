"""The book of a Carmine queue of several shards: an id is guarded wherever its home is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from redisq_ops.core.model.keys import Keys
from redisq_ops.core.queues.carmine import ShardedCarmineQueue
from redisq_ops.core.queues.carmine.keys import CarmineKeys

from ..core.queues import carmine_reader
from .carmines import CarmineModel
from .delay_shards import InTime
from .model import Unit
from .shards import MOST


class ShardedCarmineModel(InTime, CarmineModel):
    name = "carmine:q"
    id_hashes = ("messages", "body")

    def make(self) -> Any:
        self.over, self.due = {}, []
        self.dry, self.counting = 0, False  # which shards a vain look goes to is chance
        return super().make()

    def opened(self, random: Random) -> ShardedCarmineQueue[Any]:
        return ShardedCarmineQueue(
            self.client, self.name, shards=self.number, clock=self.clock, random=random
        )

    def rules(self) -> Iterable[tuple[int, Callable[[], None]]]:
        return [*super().rules(), (4, self.resize), (4, self.stop_a_mover)]

    def may_be_delivered(self, unit: Unit) -> None:
        self.brought(unit)  # newer content may have taken its place, and is due at once
        CarmineModel.may_be_delivered(self, self.units[unit.id])

    def put_again(self, ids: list[str]) -> None:
        self.put([(id, self.content()) for id in ids])

    # --- the checks ----------------------------------------------------------------------------

    def places(self) -> list[CarmineKeys]:  # type: ignore[override]
        return [CarmineKeys(self.name, shard=k) for k in range(MOST)]

    def keys_of(self, keys: Keys) -> Iterable[bytes]:
        assert isinstance(keys, CarmineKeys)
        yield from super().keys_of(keys)
        yield from self.client.scan_iter(f"{keys.theirs}*", count=1000)

    def raw(self) -> carmine_reader.Raw:
        """All shards together, no message in two of them."""
        found: dict[str, Any] = {}
        for k in range(MOST):
            self.carmines = f"q/{k}" if k else "q"
            for part, value in super().raw().items():
                if isinstance(value, dict):
                    assert not set(value) & set(found.setdefault(part, {})), "in two shards"
                    found[part] |= value
                elif isinstance(value, (list, set)):
                    found[part] = [*found.get(part, ()), *value]
        return found

    def rows(self, part: str) -> dict[str, bytes]:
        found: Counter[str] = Counter(id for rows in self.hashes(part) for id in rows)
        assert set(found.values()) <= {1}
        return {id: value for rows in self.hashes(part) for id, value in rows.items()}

    def check_contents(self) -> None:
        CarmineModel.check_room(self)

    def check_room(self) -> None:
        InTime.check_room(self)
