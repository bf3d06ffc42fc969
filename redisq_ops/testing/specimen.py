"""A small queue of a kind, by which `conform` judges how redisq reads and changes the kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from redisq_ops.core.model.entry import State
from redisq_ops.core.model.states import Verb


@dataclass(frozen=True, slots=True)
class Specimen:
    """A queue of a kind, what is in it, and what its program does."""

    queue: str
    """its name in redisq, such as ``rq:low``"""
    fill: Callable[[Any], Mapping[State, Sequence[str]]]
    """fills an empty database; returns the ids in each state, in the order in which they are taken
    or shown. A state that is left out has none, or isn't shown"""
    unordered: frozenset[State] = frozenset()
    """states that the program keeps in no order"""
    matters: str = ".*"
    """regex for the whole of `Interference.what`: after such a change a verb must skip the entry,
    after any other it must still work"""
    matters_to_edits: str = "(?!)"
    """the same for an edit, beside ``matters``: what it replaces"""
    follows: str = "(?!)"
    """regex for changes that an undo may overwrite, because the program never makes them alone"""
    own_verbs: Mapping[tuple[Verb | Literal["edit"], State], Callable[[Any, str], object]] = field(
        default_factory=dict
    )
    """the program's own verb for an entry, called with a client and the id"""
    differs: Mapping[str, str] = field(default_factory=dict)
    """regex for ``key part`` -> why a verb of redisq may differ there from the program's own"""
    logs: str = "(?!)"
    """pattern for keys to which the program adds, whatever happens: an undo leaves them"""
    fixed: frozenset[str] = frozenset()
    """ids that nobody may change now, such as those that wait for others"""
    unedited: str = "(?!)"
    """regex for ids of entries whose arguments can't be changed: they are in a pickle, or a lock is
    made of them"""
    meanwhile: Mapping[str, Callable[[Any, str], object]] = field(default_factory=dict)
    """what else may happen to an entry after the look so that nobody may touch it (a worker takes
    it, for example): called with a client and the id"""
    ours: str = "lease|body|meta"
    """regex for redisq's own keys that hold entries, without the part up to the queue's name. The
    checks watch and change them like the program's. By default what redisq's workers hold"""
    by_bytes: bool = True
    """whether undo and restore bring back every byte of the keys; False, for redisq's own kinds:
    each entry in its place, as it is shown"""
    again: Callable[[Any, str], object] | None = None
    """adds an entry of an id, if the program can, while one of that id is in the trash; by default
    the entry is written as it was"""
    payloads: Callable[[Any], Mapping[str, bytes]] = lambda client: {}
    """of some entries, by their ids, the payload: the very bytes, or the same JSON"""
    times: Callable[[Any], Mapping[str, int | None]] = lambda client: {}
    """of some entries the time (ms since 1970) that is shown, `Entry.at_ms`; None: none is kept"""
    skips: Mapping[str, str] = field(default_factory=dict)
    """a check of `CHECKS` that the kind doesn't promise to pass -> why"""
