"""The article's variants: what a `CircularQueue` is told once, for all its processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from ...model.errors import BadInput, WrongKind
from ...model.keys import Keys
from ...redis.operation import Call

Residence = Literal["list", "rotate"]
Completed = Literal["set", "eager"]
Repeats = Literal["merge", "each"]
Idle = Literal["wake", "sleep", "lap"]


@dataclass(frozen=True, slots=True)
class Shape:
    """How a queue is laid out. Kept with it, in ``cfg``: processes that don't agree are refused."""

    residence: Residence = "list"
    """``list``: an id is in the list while it waits, in a sorted set while it is worked on;
    ``rotate``: the article's list, which turns and keeps an id until it is processed"""
    completed: Completed = "set"
    """what leaves the middle of the list is marked and goes when it is met (``set``), or is
    removed at once (``eager``; where that is much work, as ``set``: removing is O(N))"""
    repeats: Repeats = "merge"
    """``merge``: an id is in the queue once, whatever number of pushes; ``each``: every push is a
    run, one after the other"""
    idle: Idle = "wake"
    """how consumers learn of work: woken by producers, or by looking again after some empty turns
    (``sleep``) or an empty lap (``lap``)"""

    def encoded(self) -> str:
        return ".".join(getattr(self, f.name) for f in fields(self))

    @classmethod
    def decoded(cls, text: str) -> Shape:
        words: Any = text.split(".")
        return cls(*words)


_CHOICES = {
    "residence": get_args(Residence),
    "completed": get_args(Completed),
    "repeats": get_args(Repeats),
    "idle": get_args(Idle),
}


def checked_options(given: Mapping[str, str | None]) -> dict[str, Any]:
    """The options that were given, if there are such and they go together."""
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name, value in options.items():
        if value not in _CHOICES[name]:
            raise BadInput(f"{name} is {' or '.join(_CHOICES[name])}, not {value!r}")
    if options.get("idle") == "lap" and options.get("residence") != "rotate":
        raise BadInput("idle='lap' is for residence='rotate': a list that is emptied has no laps")
    return options


def recorded(keys: Keys) -> Call[Shape | None]:
    """What a queue is, as all its processes have it; None: nobody has used it yet."""

    def read(reply: bytes | None) -> Shape | None:
        return None if reply is None else Shape.decoded(reply.decode())

    return Call(("HGET", keys["cfg"], "circle"), read, key=keys["cfg"])


def agreed(name: str, shape: Shape, options: Mapping[str, str]) -> Shape:
    """The queue's shape, if it is what this process asks for."""
    for option, wanted in options.items():
        if (has := getattr(shape, option)) != wanted:
            raise WrongKind(f"queue {name} has {option}={has}, and here is asked for {wanted}")
    return shape
