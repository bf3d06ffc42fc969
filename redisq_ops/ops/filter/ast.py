"""What an expression of the selections' language is made of, and what is known of one read.

A comparison is about what is known: where a field is unknown, or a payload isn't JSON or lacks the
path, none holds, neither ``!=`` nor ``!~``. ``not`` turns the answer round, whatever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from redisq_ops.core.model.entry import STATES, Entry, State

from .fields import MISSING, NOWHERE, EntryContext, EntryFields, Field, FilterValue, Need, Path

Test = Callable[[EntryFields], bool]
States = frozenset[State]
_ANY: States = frozenset(STATES)


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Node, ...]

    def holds(self, seen: EntryFields) -> bool:
        return all(part.holds(seen) for part in self.parts)

    def __str__(self) -> str:
        return " ".join(f"({p})" if isinstance(p, Or) else str(p) for p in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Node, ...]

    def holds(self, seen: EntryFields) -> bool:
        return any(part.holds(seen) for part in self.parts)

    def __str__(self) -> str:
        return " or ".join(map(str, self.parts))


@dataclass(frozen=True, slots=True)
class Not:
    part: Node

    def holds(self, seen: EntryFields) -> bool:
        return not self.part.holds(seen)

    def __str__(self) -> str:
        return f"-({self.part})" if isinstance(self.part, (And, Or)) else f"-{self.part}"


@dataclass(frozen=True, slots=True)
class Compare:
    """``field operator values``."""

    asked: Field
    operator: str
    values: tuple[FilterValue, ...]
    holds: Test = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.asked.name}{self.operator}{','.join(map(str, self.values))}"


@dataclass(frozen=True, slots=True)
class Has:
    """``has:field``: whether it is known."""

    asked: Field

    def holds(self, seen: EntryFields) -> bool:
        # In JSON null is something that is there.
        return self.asked.read(seen) is not (MISSING if self.asked.kind == "json" else None)

    def __str__(self) -> str:
        return f"has:{self.asked.name}"


@dataclass(frozen=True, slots=True)
class Word:
    """A text without a field."""

    value: FilterValue
    holds: Test = field(repr=False, compare=False)

    def __str__(self) -> str:
        return str(self.value)


Node = And | Or | Not | Compare | Has | Word


@dataclass(frozen=True, slots=True)
class Query:
    """An expression that was read. Equal where it says the same, however it was written."""

    node: Node
    text: str = field(compare=False)
    """as it was written"""
    needs: frozenset[Need] = field(compare=False)
    """what has to be fetched to answer it, besides entries' own records"""
    states: States | None = field(compare=False)
    """the states its entries can be in; None: any"""
    ids: tuple[str, ...] | None = field(compare=False)
    """the only entries it can be about, where it names them"""
    requests: tuple[str, ...] | None = field(compare=False)
    """the only requests, where it names those"""
    asks: bool = field(compare=False)
    """whether it asks for fields, which only entries have"""

    @classmethod
    def of(cls, node: Node, text: str) -> Query:
        """``node``, as ``text`` was read, and all that follows from it."""
        leaves = list(_leaves(node))
        asked = [leaf.asked for leaf in leaves if isinstance(leaf, (Compare, Has))]
        states, _ = _possible(node)
        top = node.parts if isinstance(node, And) else (node,)
        return cls(
            node,
            text,
            frozenset(f.need for f in asked if f.need is not None),
            None if states == _ANY else states,
            _named(top, "id"),
            _named(top, "request"),
            bool(asked),
        )

    def accepts(self, entry: Entry, now_ms: int, place: EntryContext = NOWHERE) -> bool:
        """Whether an entry is meant. ``place`` knows its queue and the priorities of requests."""
        return self.node.holds(EntryFields(entry, now_ms, place))

    def speaks_of(self, words: Sequence[str]) -> bool:
        """The same for something that is no entry and has words only."""
        return self.node.holds(EntryFields(Entry("", "waiting"), 0, NOWHERE, words))

    def words(self, hides: Callable[[Path], bool], mask: str) -> str:
        """As `str`, with ``mask`` for what is compared with a place in payloads that is hidden."""
        return str(_masked(self.node, hides, mask))

    def __str__(self) -> str:
        """The one way to write it; it reads back as the same."""
        return str(self.node)


def _masked(node: Node, hides: Callable[[Path], bool], mask: str) -> Node:
    if isinstance(node, Not):
        return Not(_masked(node.part, hides, mask))
    if isinstance(node, (And, Or)):
        return replace(node, parts=tuple(_masked(part, hides, mask) for part in node.parts))
    if isinstance(node, Compare) and hides(node.asked.path):
        return replace(node, values=(FilterValue(mask),))
    return node


def _leaves(node: Node) -> Iterator[Node]:
    if isinstance(node, Not):
        yield from _leaves(node.part)
    elif isinstance(node, (And, Or)):
        for part in node.parts:
            yield from _leaves(part)
    else:
        yield node


def _possible(node: Node) -> tuple[States, States]:
    """The states in which it can hold, and those in which it can fail to."""
    if isinstance(node, Not):
        holds, fails = _possible(node.part)
        return fails, holds
    if isinstance(node, (And, Or)):
        pairs = [_possible(part) for part in node.parts]
        all_, none = (_ANY, frozenset[State]())
        if isinstance(node, And):
            return all_.intersection(*(p[0] for p in pairs)), none.union(*(p[1] for p in pairs))
        return none.union(*(p[0] for p in pairs)), all_.intersection(*(p[1] for p in pairs))
    if isinstance(node, Compare) and node.asked.kind == "state":
        named = cast("States", frozenset(value.text for value in node.values))
        return (named, _ANY - named) if node.operator == "=" else (_ANY - named, named)
    return _ANY, _ANY


def _named(parts: Sequence[Node], name: str) -> tuple[str, ...] | None:
    """The values that are the only ones ``name`` can have, where an expression lists them."""
    for part in parts:
        if not isinstance(part, Compare) or any(value.glob for value in part.values):
            continue
        if (part.asked.name, part.operator) == (name, "="):
            return tuple(dict.fromkeys(value.text for value in part.values))
    return None
