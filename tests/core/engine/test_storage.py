"""The storage interface names every hook that a kind of ours implements, and no other."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from redisq_ops import CarmineQueue, CircularQueue, DelaySet, FairQueue, RequestQueue
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.storage import Storage
from redisq_ops.core.engine.timed_queue import TimedQueue

KINDS: tuple[type[Storage], ...] = (
    RequestQueue,
    DelaySet,
    CircularQueue,
    FairQueue,
    CarmineQueue,
)
HOOKS = {name for name, _ in inspect.getmembers(Storage, inspect.isfunction) if name[1] != "_"}


def implemented(kind: type) -> Iterator[str]:
    """Private methods of the engine's classes that a kind implements or replaces."""
    for cls in kind.__mro__:
        if ".core.queues." in cls.__module__ or cls is TimedQueue:
            for name, value in vars(cls).items():
                if inspect.isfunction(value) and name[0] == "_" != name[1] and hasattr(Queue, name):
                    yield name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_kind_implements_hooks_of_the_storage_interface_only(kind: type[Storage]) -> None:
    assert set(implemented(kind)) <= HOOKS


def test_each_hook_is_implemented_by_a_kind() -> None:
    assert {name for kind in KINDS for name in implemented(kind)} == HOOKS


def test_a_required_hook_is_abstract_and_any_other_has_a_default() -> None:
    required = {"_page_waiting", "_get_waiting"}
    missing = {name for name in HOOKS if getattr(getattr(Queue, name), "__isabstractmethod__", 0)}
    assert missing == required
