"""Entries that wait for each other: one goes on only when others have ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from ..model.entry import State

if TYPE_CHECKING:
    from .queue import Queue


@dataclass(frozen=True, slots=True)
class Linked:
    """An entry for which another one waits, or that waits for another one."""

    role: str
    """what its program calls it: ``child``, ``parent``, ``dependency``, ``dependent``, ``batch``"""
    queue: Queue[Any]
    id: str
    ended: State | None = None
    """how it ended, as the other one remembers: ``done`` or ``dead``; None: it has not"""
    there: bool = True
    """whether its record exists"""
    holds: bool = False
    """whether the other one can't go on before it has ended, or, if it is dead, was replayed"""
    group: bool = False
    """it is no entry, but a group of entries that something waits for, such as a batch: ``id`` is
    its program's name for it"""
    known: Known | None = None
    """not None: this is all that is known of it, so that it isn't looked for; always of a group"""


@dataclass(frozen=True, slots=True)
class Links:
    """The first entries for which one waits, and the first that wait for it."""

    waits_for: tuple[Linked, ...] = ()
    awaited_by: tuple[Linked, ...] = ()
    number: int = 0
    """of all for which it waits, or did"""
    awaiting: int = 0
    """of all that wait for it, or did"""
    counts: Mapping[str, int] | None = None
    """of all for which it waits: ``open`` (still waited for), ``done`` and ``dead`` -> number;
    None: not kept"""
    note: str = ""
    """what else its program keeps of it, in words"""


NO_LINKS: Final = Links()


@dataclass(frozen=True, slots=True)
class Known:
    """What the reader of a relation knows of an entry or a group already."""

    state: State | Literal["gone"] | None
    """None: unknown; a group that exists has none either"""
    called: str = ""
    """its program's word for the state"""
    links: Links = NO_LINKS
