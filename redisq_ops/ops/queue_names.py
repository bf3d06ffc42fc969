"""Which queues a command means: names, or patterns with ``*``, ``?`` and ``[…]``; none stand for
all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from redisq_ops.core.model.errors import NotFound

from .hint import hint


def has_pattern(names: Iterable[str]) -> bool:
    """Whether one of the names may stand for several queues."""
    return any(not {*name}.isdisjoint("*?[") for name in names)


def is_named(queue: str, names: Sequence[str]) -> bool:
    """Whether a queue is meant."""
    return not names or any(queue == name or fnmatchcase(queue, name) for name in names)


def check_named(names: Sequence[str], queues: Iterable[str]) -> None:
    """Raises `NotFound` for a name or pattern that means none of these queues."""
    known = list(queues)
    for name in names:
        if not any(is_named(queue, (name,)) for queue in known):
            near = similar(name, known)
            raise NotFound(f"no queue matches {name!r}{near} ({hint('ls')} shows what there is)")


def similar(name: str, queues: Iterable[str]) -> str:
    """``; did you mean NAME?`` if one of these queues has a similar name, else ''."""
    near = get_close_matches(name, list(queues), 1)
    return f"; did you mean {near[0]}?" if near else ""
