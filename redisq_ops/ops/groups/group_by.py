"""What groups are made by: the error, and fields such as the task or a release in the payload."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from redisq_ops.core.model.entry import Entry
from redisq_ops.core.model.errors import BadInput

from ..filter.fields import FIELDS, MISSING, PLACES, EntryFields, Field, Need, quoted
from ..filter.parser import FilterError, parse_field
from ..redaction import Redaction
from .value_counts import shown

NAMED = ("task", "client", "request", "consumer", "reason")
"""fields of an entry's record by which groups can be made"""
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
    fields: tuple[tuple[Field, ...], ...] = ()
    """for each name the fields it stands for; the first one that an entry has counts"""

    @property
    def words(self) -> list[str]:
        """``error`` and the names."""
        return [*(["error"] if self.error else []), *self.names]

    @property
    def needs(self) -> frozenset[Need]:
        """What has to be read of entries besides their records."""
        return frozenset(f.need for fields in self.fields for f in fields if f.need is not None)

    def values(self, entry: Entry, redaction: Redaction) -> tuple[GroupValue, ...]:
        """The entry's value of each field."""
        whole, seen = EntryFields(entry, 0), EntryFields(redaction.entry(entry), 0)
        return tuple(self._value(fields, whole, seen) for fields in self.fields)

    def _value(
        self, fields: tuple[Field, ...], whole: EntryFields, seen: EntryFields
    ) -> GroupValue:
        lacks: list[str] = []
        for field in fields:
            found = field.read(whole)
            if found is (MISSING if field.kind == "json" else None):
                # Without a task there are no arguments.
                if whole.entry.task is not None or "task" not in self.names or len(fields) == 1:
                    lacks.append(f"-has:{field.name}")
                continue
            text, masked = _text(found), _text(field.read(seen))
            simple = None if masked != text or len(text) > TEXT else _comparison(field, found)
            cut = masked if len(masked) <= TEXT else masked[: TEXT - 1] + "…"
            return GroupValue(cut or None, simple and " ".join([*lacks, simple]))
        return GroupValue(None, " ".join(lacks) or f"-has:{fields[-1].name}")


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
    """Read ``task,error,payload.release``. A word that names no field is the task's argument of
    that name, or else the member of the payload. `BadInput` says what is wrong."""
    words = [word.strip() for word in text.split(",")]
    names = tuple(dict.fromkeys(word for word in words if word != "error"))
    return GroupBy("error" in words, names, tuple(tuple(_fields(name)) for name in names))


def _fields(name: str) -> Iterator[Field]:
    bare = bool(name) and not any(c in '."[ ' for c in name) and name not in (*FIELDS, *PLACES)
    for written in [f"{place}.{name}" for place in ("arg", "payload")] if bare else [name]:
        try:
            field = parse_field(written)
        except FilterError as error:
            raise BadInput(f"{name!r}: {error.problem}") from error
        if field.kind != "json" and field.name not in NAMED:
            known = ", ".join(("error", *NAMED))
            raise BadInput(f"{name!r}: group by {known}, payload.KEY or arg.NAME")
        yield field
