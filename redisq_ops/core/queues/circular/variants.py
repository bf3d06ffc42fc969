"""The article's variants of a circular queue: chosen when it is created, for all processes."""

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
    """How a circular queue is laid out; stored in its ``cfg`` when it is created."""

    residence: Residence = "list"
    """``list``: the list has the ids that wait; ``rotate``: the article's rotating list, which has
    an id until it is processed"""
    completed: Completed = "set"
    """how an id leaves the middle of the list: ``set``: it is marked, and removed when a take meets
    it; ``eager``: it is removed at once, unless that takes long (it is O(N))"""
    repeats: Repeats = "merge"
    """``merge``: several pushes of a waiting id are one run; ``each``: every push is a run"""
    idle: Idle = "wake"
    """how idle workers notice new ids: ``wake``: producers wake them; ``sleep``, ``lap``: they look
    again after some empty takes, or after one empty lap"""

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
    """The options that aren't None; raises `BadInput` for values that aren't possible."""
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name, value in options.items():
        if value not in _CHOICES[name]:
            raise BadInput(f"{name} is {' or '.join(_CHOICES[name])}, not {value!r:.60}")
    if options.get("idle") == "lap" and options.get("residence") != "rotate":
        raise BadInput("idle='lap' needs residence='rotate': a list that is emptied has no laps")
    return options


def recorded(keys: Keys) -> Call[Shape | None]:
    """The shape that is stored with a queue; None: the queue was never used."""

    def read(reply: bytes | None) -> Shape | None:
        return None if reply is None else Shape.decoded(reply.decode())

    return Call(("HGET", keys["cfg"], "circle"), read, key=keys["cfg"])


def agreed(name: str, shape: Shape, options: Mapping[str, str]) -> Shape:
    """Return the queue's shape; raises `WrongKind` where it isn't what ``options`` ask for."""
    for option, wanted in options.items():
        if (has := getattr(shape, option)) != wanted:
            raise WrongKind(f"queue {name} has {option}={has}, and here is asked for {wanted}")
    return shape
