"""Keys of ours beside those of another program."""

from __future__ import annotations

from collections.abc import Mapping

from ..model.keys import Keys
from ..model.quoting import stored


class ForeignKeys(Keys):
    """Our keys ``<at><prefix>:<name>:<part>`` and, as ``t_…``, the owner's.

    They begin like the owner's, so a hash tag there (``{app}:``) holds for both. Without one, a
    Cluster spreads the owner's own keys, and neither program can work on it.
    """

    __slots__ = ("_names", "at", "theirs")

    def __init__(self, at: str, name: str, prefix: str, theirs: Mapping[str, str]) -> None:
        super().__init__(name, prefix)
        self.base = f"{at}{prefix}:{stored(name)}:"
        self._names: dict[str, str] = {}
        self.at = at
        self.theirs = theirs
        """part -> the owner's name for it, where they differ. Keys of entries begin with a part
        ``t_x_``: a ``_`` at the end of its name stands for ``:``, another separator for itself."""

    def __getitem__(self, part: str) -> str:
        if part not in self._names:  # a list of jobs asks for each
            self._names[part] = self._name(part)
        return self._names[part]

    def _name(self, part: str) -> str:
        if not part.startswith("t_"):
            return super().__getitem__(part)
        theirs = self.theirs.get(part, part[2:])
        is_start = part.endswith("_") and theirs.endswith("_")
        return self.at + (theirs[:-1] + ":" if is_start else theirs)
