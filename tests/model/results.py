"""The part of the book about what handlers returned."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.model.entry import Settlement

from .model import Model, Unit


class KeepingModel(Model):
    """A queue that keeps results for the setting ``keep_ms``."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.results: dict[str, tuple[bytes, int]] = {}  # what handlers returned, and when
        super().__init__(*args, **options)

    def shift(self, unit: Unit, to: str, at: int) -> None:
        super().shift(unit, to, at)
        if to in ("done", "gone"):  # an earlier run's is not this one's
            self.results.pop(unit.id, None)

    def finish(self, unit: Unit, s: Settlement) -> None:
        super().finish(unit, s)
        if s.outcome == "result":
            self.results[unit.id] = (s.value, self.now)

    def check_room(self) -> None:
        kept = {k.decode(): v for k, v in self.client.hgetall(self.key("result")).items()}
        first = self.now - self.setting("keep_ms")
        young = {id for id, (_, at) in self.results.items() if at > first}
        assert young <= kept.keys() <= self.results.keys()
        assert all(value == self.results[id][0] for id, value in kept.items())
