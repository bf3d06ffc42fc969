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

    __slots__ = ("at", "theirs")

    def __init__(self, at: str, name: str, prefix: str, theirs: Mapping[str, str]) -> None:
        super().__init__(name, prefix)
        self.base = f"{at}{prefix}:{stored(name)}:"
        self.at = at
        self.theirs = theirs
        """part ``t_…`` -> the owner's key, where that isn't the part without ``t_``"""

    def __getitem__(self, part: str) -> str:
        if not part.startswith("t_"):
            return super().__getitem__(part)
        theirs = self.theirs.get(part, part[2:])
        return self.at + (theirs[:-1] + ":" if part.endswith("_") else theirs)
