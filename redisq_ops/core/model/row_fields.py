"""What a row says of its fields. A row is an object that programs read: printed with ``--json``, or
a line of a file.

The type of a row is a frozen dataclass, often the value that the code uses anyway, or a TypedDict.
Its schema and its table in the reference are derived from it: the docstring below a field is the
field's meaning; a field without one means what its name says. `Time`, `Duration` … say more than
Python's types: the unit, and what may change. A field with none of them is stable: its name and
type stay in all releases of a major version.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Annotated, Any, Final, cast


class Unit:
    """The unit of a number."""

    def __init__(self, name: str) -> None:
        self.name = name


class Wording:
    """A text for people, which may change."""


class MoreWords:
    """One of some words, to which a release may add others: a plain text in the schema."""


class Base64Field:
    """If the bytes are not valid UTF-8, the field is called ``NAME_b64`` and holds Base64."""


class Unstable:
    """The field may change or disappear in any release."""


Time = Annotated[int, Unit("ms UTC")]
Duration = Annotated[int, Unit("ms")]
FractionalDuration = Annotated[float, Unit("ms")]
Size = Annotated[int, Unit("bytes")]
Share = Annotated[float, Unit("0 to 1")]
Text = Annotated[str, Wording()]
Bytes = Annotated[bytes, Base64Field()]

INLINE: Final = {"row": "inline"}
"""metadata of a dataclass's field: the row has the fields of this value in place of the value"""
UNPRINTED: Final = {"row": "unprinted"}
"""metadata of a dataclass's field: the row doesn't have it"""
OPTIONAL: Final = {"row": "optional"}
"""metadata of a dataclass's field: some rows leave it out, as its meaning says"""


def row_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that is a row, the values as they are."""
    row, kind = dict[str, Any](), cast("type", type(value))
    for name, mark in row_fields(kind).items():
        own = getattr(value, name)
        row |= row_of(own) if mark == "inline" else {name: own}
    return row


@cache
def row_fields(kind: type) -> dict[str, str]:
    """The fields of a dataclass that rows have, each with ``inline``, ``optional`` or an empty
    text."""
    marks = {each.name: each.metadata.get("row", "") for each in fields(kind)}
    return {name: mark for name, mark in marks.items() if mark != "unprinted"}
