"""Types of JSON fields that say more than Python's: the unit, and what may change.

Declarations are TypedDicts; the docstring below a field is its meaning in the reference; a field
without one means what its name says. A field without one of these types is stable: its name and
type stay in all releases of a major version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a number."""

    name: str


@dataclass(frozen=True, slots=True)
class Wording:
    """A text for people, which may change."""


@dataclass(frozen=True, slots=True)
class Base64Field:
    """If the bytes are not valid UTF-8, the field is called ``NAME_b64`` and holds Base64."""


@dataclass(frozen=True, slots=True)
class Unstable:
    """The field may change or disappear in any release."""


Time = Annotated[int, Unit("ms UTC")]
Duration = Annotated[int, Unit("ms")]
FractionalDuration = Annotated[float, Unit("ms")]
Size = Annotated[int, Unit("bytes")]
Share = Annotated[float, Unit("0 to 1")]
Text = Annotated[str, Wording()]
Bytes = Annotated[bytes, Base64Field()]
FileInternal = Annotated[int | str | None, Unstable()]
