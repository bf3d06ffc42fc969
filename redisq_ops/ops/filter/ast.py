"""The syntax tree of a filter expression, and what follows from it.

A missing field never matches: if a field is unknown, or a payload is not JSON or lacks the path, no
comparison holds, not even ``!=`` and ``!~``. ``not`` inverts any result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from typing import cast

from redisq_ops.core.model.entry import STATES, Entry, State

from .comparison import Test
from .fields import FIELDS, NO_CONTEXT, EntryContext, EntryFields, Field, FilterValue, Need, Path

States = frozenset[State]
_ANY: States = frozenset(STATES)


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Node, ...]

    def holds(self, entry: EntryFields) -> bool:
        return all(part.holds(entry) for part in self.parts)

    def __str__(self) -> str:
        return " ".join(f"({p})" if isinstance(p, Or) else str(p) for p in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Node, ...]

    def holds(self, entry: EntryFields) -> bool:
        return any(part.holds(entry) for part in self.parts)

    def __str__(self) -> str:
        return " or ".join(map(str, self.parts))


@dataclass(frozen=True, slots=True)
class Not:
    part: Node

    def holds(self, entry: EntryFields) -> bool:
        return not self.part.holds(entry)

    def __str__(self) -> str:
        return f"-({self.part})" if isinstance(self.part, (And, Or)) else f"-{self.part}"


@dataclass(frozen=True, slots=True)
class Compare:
    """``field operator values``."""

    field: Field
    operator: str
    values: tuple[FilterValue, ...]
    holds: Test = attribute(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.field.name}{self.operator}{','.join(map(str, self.values))}"


@dataclass(frozen=True, slots=True)
class Has:
    """``has:field``: whether the entry has it."""

    field: Field

    def holds(self, entry: EntryFields) -> bool:
        return self.field.among(entry)

    def __str__(self) -> str:
        return f"has:{self.field.name}"


@dataclass(frozen=True, slots=True)
class Word:
    """A regular expression searched for in id, error type and message."""

    value: FilterValue
    holds: Test = attribute(repr=False, compare=False)

    def __str__(self) -> str:
        return str(self.value)


Node = And | Or | Not | Compare | Has | Word


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed expression. Two are equal if they mean the same, however they are written."""

    node: Node
    text: str = attribute(compare=False)
    """the source text"""
    needs: frozenset[Need] = attribute(compare=False)
    """what has to be read besides the entries' records"""
    states: States | None = attribute(compare=False)
    """the only states that can match; None: any"""
    ids: tuple[str, ...] | None = attribute(compare=False)
    """the only ids that can match; None: any"""
    requests: tuple[str, ...] | None = attribute(compare=False)
    """the only requests that can match; None: any"""
    has_fields: bool = attribute(compare=False)
    """whether it uses fields, which only entries have"""
    compared: tuple[Field, ...] = attribute(compare=False)
    """the fields that it compares with a value: no entry without them matches"""
    negated: tuple[Field, ...] = attribute(compare=False)
    """the fields below a ``not``, which holds for an entry without them"""

    @classmethod
    def of(cls, node: Node, text: str) -> Query:
        """The query for a syntax tree; ``text`` is its source."""
        leaves = list(_leaves(node))
        fields = [leaf.field for leaf in leaves if isinstance(leaf, (Compare, Has))]
        states, _ = _possible(node)
        top = node.parts if isinstance(node, And) else (node,)
        return cls(
            node,
            text,
            frozenset(f.need for f in fields if f.need is not None),
            None if states == _ANY else states,
            _named(top, "id"),
            _named(top, "request"),
            bool(fields),
            tuple(dict.fromkeys(leaf.field for leaf in leaves if isinstance(leaf, Compare))),
            tuple(
                FIELDS["error"] if isinstance(leaf, Word) else leaf.field
                for leaf in _leaves(node, negated=True)
            ),
        )

    def accepts(self, entry: Entry, now_ms: int, context: EntryContext = NO_CONTEXT) -> bool:
        """Whether an entry matches; ``context`` is its queue and the priorities of requests."""
        return self.node.holds(EntryFields(entry, now_ms, context))

    def unsure(self, entry: EntryFields) -> bool:
        """Whether it may match an entry, of which a part was not read, only because of that."""
        return any(each.need == "payload" or not each.among(entry) for each in self.negated)

    def accepts_text(self, words: Sequence[str]) -> bool:
        """Whether a row that is no entry matches; it has only ``words`` to search."""
        return self.node.holds(EntryFields(Entry("", "waiting"), 0, NO_CONTEXT, words))

    def masked(self, hides: Callable[[Path], bool], mask: str) -> str:
        """As `str`, with ``mask`` for values compared with a hidden place in payloads."""
        return str(_masked(self.node, hides, mask))

    def __str__(self) -> str:
        """The canonical form, which parses to an equal query."""
        return str(self.node)


def _masked(node: Node, hides: Callable[[Path], bool], mask: str) -> Node:
    if isinstance(node, Not):
        return Not(_masked(node.part, hides, mask))
    if isinstance(node, (And, Or)):
        return replace(node, parts=tuple(_masked(part, hides, mask) for part in node.parts))
    if isinstance(node, Compare) and any(map(hides, node.field.places)):
        return replace(node, values=(FilterValue(mask),))
    return node


def _leaves(node: Node, negated: bool = False) -> Iterator[Compare | Has | Word]:
    """The comparisons in a tree; ``negated``: only those below a ``not``."""
    if isinstance(node, Not):
        yield from _leaves(node.part)
    elif isinstance(node, (And, Or)):
        for part in node.parts:
            yield from _leaves(part, negated)
    elif not negated:
        yield node


def _possible(node: Node) -> tuple[States, States]:
    """The states in which it can be true, and those in which it can be false."""
    if isinstance(node, Not):
        holds, fails = _possible(node.part)
        return fails, holds
    if isinstance(node, (And, Or)):
        pairs = [_possible(part) for part in node.parts]
        all_, none = (_ANY, frozenset[State]())
        if isinstance(node, And):
            return all_.intersection(*(p[0] for p in pairs)), none.union(*(p[1] for p in pairs))
        return none.union(*(p[0] for p in pairs)), all_.intersection(*(p[1] for p in pairs))
    if isinstance(node, Compare) and node.field.kind == "state":
        # The parser accepts only names of states here.
        named = cast("States", frozenset(value.text for value in node.values))
        return (named, _ANY - named) if node.operator == "=" else (_ANY - named, named)
    return _ANY, _ANY


def _named(parts: Sequence[Node], name: str) -> tuple[str, ...] | None:
    """The only values that the field ``name`` can have, if a comparison lists them."""
    for part in parts:
        if not isinstance(part, Compare) or any(value.glob for value in part.values):
            continue
        if (part.field.name, part.operator) == (name, "="):
            return tuple(dict.fromkeys(value.text for value in part.values))
    return None
