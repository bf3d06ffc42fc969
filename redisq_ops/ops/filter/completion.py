"""Completion of a field's name in a filter expression."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .fields import FIELDS, OPERATORS, PLACES, Field

_LAST = re.compile(r"(?:^|[\s(]-?|has:)(\w[\w.]*)$")


def completed(
    text: str, fields: Mapping[str, Field] = FIELDS, places: Sequence[str] = tuple(PLACES)
) -> list[str]:
    """The expression with its last name completed: once for each field that begins with that name,
    followed by the first operator of the field. ``places``: fields with a path behind them."""
    last = _LAST.search(text)
    if last is None:
        return []
    asked = text[: last.start(1)].endswith("has:")
    names = [f"{name}." for name in places]
    names += [name if asked else name + OPERATORS[one.kind][0] for name, one in fields.items()]
    return [text[: last.start(1)] + name for name in sorted(names) if name.startswith(last[1])]
