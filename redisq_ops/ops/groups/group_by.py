"""What groups are made by: the error, and fields such as the task or a release in the payload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from redisq_ops.core.model.entry import Entry
from redisq_ops.core.model.errors import BadInput

from ..filter.fields import FIELDS, MISSING, EntryFields, Field, Need, quoted
from ..filter.parser import FilterError, parse_field
from ..redaction import Redaction
from .value_counts import shown

_OTHER = ("task", "error", "queue", "kind")
NAMED = (
    *("task", "release"),
    *(
        name
        for name, field in FIELDS.items()
        if field.kind in ("text", "state") and name not in _OTHER
    ),
)
"""fields by which groups can be made, beside those with a path: fields whose values are texts"""
TEXT = 80
"""characters of a value; longer ones that begin alike are one value"""


class GroupValue(NamedTuple):
    """What the entries of a group have in one field."""

    text: str | None
    """redacted; None: they have no such field, or it is unknown"""
    where: str | None
    """the filter that selects them; None: a filter can't, or may not, name the value"""


@dataclass(frozen=True, slots=True)
class GroupBy:
    """The error's fingerprint, unless ``error`` is False, and fields."""

    error: bool = True
    names: tuple[str, ...] = ()
    """of the fields, as they were asked for"""
    fields: tuple[Field, ...] = ()

    @property
    def words(self) -> list[str]:
        """``error`` and the names."""
        return [*(["error"] if self.error else []), *self.names]

    @property
    def needs(self) -> frozenset[Need]:
        """What has to be read of entries besides their records."""
        return frozenset(field.need for field in self.fields if field.need is not None)

    def values(self, entry: Entry, redaction: Redaction) -> tuple[GroupValue, ...]:
        """The entry's value of each field."""
        whole, seen = EntryFields(entry, 0), EntryFields(redaction.entry(entry), 0)
        return tuple(_value(field, whole, seen) for field in self.fields)


def _value(field: Field, whole: EntryFields, seen: EntryFields) -> GroupValue:
    found = field.read(whole)
    if found is (MISSING if field.kind == "json" else None):
        return GroupValue(None, f"-has:{field.name}")
    text, masked = _text(found), _text(field.read(seen))
    where = None if masked != text or len(text) > TEXT else _comparison(field, found)
    cut = masked if len(masked) <= TEXT else masked[: TEXT - 1] + "…"
    return GroupValue(cut or None, where)


BY_ERROR = GroupBy()


def _comparison(field: Field, found: Any) -> str | None:
    if isinstance(found, (dict, list)):
        return None
    named = quoted(_text(found))
    if field.kind != "json" or isinstance(found, str):
        return f"{field.name}={named}"
    # Without quotes it is the number, but also the text of its digits.
    return f"{field.name}={_text(found)} -{field.name}={named}"


def _text(found: Any) -> str:
    text = shown(int(found) if isinstance(found, float) and found.is_integer() else found)
    return "null" if text is None else text


def group_by(text: str) -> GroupBy:
    """Read ``task,error,payload.region``, the fields of filters; `BadInput` says what is wrong."""
    words = [word.strip() for word in text.split(",")]
    names = tuple(dict.fromkeys(word for word in words if word != "error"))
    return GroupBy("error" in words, names, tuple(map(_field, names)))


def _field(name: str) -> Field:
    try:
        field = parse_field(name)
    except FilterError as error:
        raise BadInput(f"{name!r}: {error.problem}") from error
    if field.kind != "json" and field.name not in NAMED:
        known = ", ".join(("error", *NAMED))
        raise BadInput(f"{name!r}: group by {known}, payload.KEY or arg.NAME")
    return field
