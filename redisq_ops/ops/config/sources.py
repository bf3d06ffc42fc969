"""Where the value of a setting comes from, and which source holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .file import filled, text_of
from .settings import SETTINGS, STRICTEST_WINS, checked_value


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A setting, its value and the source of the value."""

    name: str
    value: str | None
    origin: str
    others: tuple[tuple[str, str], ...] = ()
    """(value, origin) of less strict sources, for settings of `STRICTEST_WINS`"""


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of settings: flags, a context, the environment and the file."""

    flags: Mapping[str, str | None]
    context: str | None
    chosen: Mapping[str, Any]
    """the context's table"""
    environment: Mapping[str, str]
    file: Mapping[str, Any]
    path: Path

    @property
    def context_place(self) -> str:
        return f"{self.path} [contexts.{self.context}]"

    def value(self, name: str) -> ConfigValue:
        """The value in force: the first one, or the strictest for settings that protect."""
        stated, default = self._stated(name), (SETTINGS[name].default, "default")
        if name not in STRICTEST_WINS:
            return ConfigValue(name, *next(stated, default))
        if not (found := list(stated)):
            return ConfigValue(name, *default)
        strictest = min(found, key=lambda pair: STRICTEST_WINS[name](pair[0]))
        return ConfigValue(name, *strictest, tuple(pair for pair in found if pair is not strictest))

    def _stated(self, name: str) -> Iterator[tuple[str, str]]:
        """The (value, origin) of every source that has the setting, in order of precedence."""
        variable = SETTINGS[name].variable
        if (text := self.flags.get(name)) is not None:
            yield checked_value(name, text, f"--{name}"), "flag"
        if name in self.chosen:
            place, origin = self.context_place, f"context {self.context}"
            yield self._from_file(name, self.chosen[name], place, origin)
        if text := self.environment.get(variable):
            yield checked_value(name, text, variable), variable
        if name in self.file:
            yield self._from_file(name, self.file[name], str(self.path), str(self.path))

    def _from_file(self, name: str, value: Any, where: str, origin: str) -> tuple[str, str]:
        text, used = filled(text_of(value, where, name), where, name, self.environment)
        return checked_value(name, text, where), ", ".join([origin, *used])
