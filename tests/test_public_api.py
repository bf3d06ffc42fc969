"""What a user of the library sees: names, help, signatures and completions."""

from __future__ import annotations

import inspect
import pydoc
import re
from pathlib import Path
from typing import Any

import grimp
import pytest

import redisq_ops
from redisq_ops import CircularQueue, DelaySet, RequestQueue, aconnect, connect
from redisq_ops.core.engine.optional_features import FEATURES, features
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.queue_classes import queue_class, sharded_class
from redisq_ops.core.engine.queue_types import KINDS, LAYOUTS
from redisq_ops.tui.views import ALL

URL = "redis://127.0.0.1:1/0"
SUBMIT = (
    "(payloads: Iterable[bytes], *, id: str, priority: int = 50, limit: int = 100, "
    "max_payload: int = 1048576, traceparent: str = '', follows: str = '') -> SubmittedRequest"
)
CLASSES: list[type[Queue[Any]]] = [
    *filter(None, map(queue_class, dict.fromkeys([*KINDS, *LAYOUTS]))),
    *map(sharded_class, KINDS),
]


def shown(thing: object) -> str:
    return pydoc.plain(pydoc.render_doc(thing))


@pytest.mark.parametrize(
    ("queue", "how"),
    [
        (RequestQueue(connect(URL), "mail"), "blocking"),
        (RequestQueue(aconnect(URL), "mail"), "async"),
    ],
)
def test_an_operation_looks_like_the_method_it_is(queue: Any, how: str) -> None:
    assert repr(queue) == f"<RequestQueue 'mail' ({how})>"
    assert repr(queue.submit) == f"<submit{SUBMIT} of {queue!r}>"
    assert str(inspect.signature(queue.submit)) == SUBMIT
    # Described by a `Call[...]` in the source; a user gets what it reads.
    assert str(inspect.signature(queue.extend)).endswith("-> list[bool]")
    assert queue.submit.__doc__.startswith("Submit a whole request")
    assert queue.request.__doc__.startswith("One request's record"), "from the class it overrides"
    help_ = shown(queue.submit)
    assert f"submit{SUBMIT}\n    Submit a whole request" in help_ and "Exists" in help_


def test_help_of_a_queue_class_begins_with_what_a_user_does() -> None:
    help_ = shown(RequestQueue)
    before_methods = help_.partition("Methods defined here")[0]
    assert 'queue.submit([b"one", b"two"], id="monday"' in before_methods
    assert "Worker(queue" in before_methods and "queue.results(" in before_methods
    assert f"submit(self, {SUBMIT.removeprefix('(')}" in help_
    assert "async " not in help_.replace("async def", ""), "what it returns hangs on the client"
    assert "Call[" not in help_ and "Description[" not in help_
    order = re.search(r"Method resolution order:\n(.*?)\n \|  \n", help_, re.DOTALL)
    assert order is not None and not re.search(r"[ .]_", order[1]), "a private class"
    assert not re.findall(r"^ \|  (_[a-z]\w*)\(", help_, re.MULTILINE), "a private method"


PAGE = (Path(__file__).parent.parent / "docs/reference/python.md").read_text()
MEMBERS = {
    name: {word.strip() for word in words.split(",")}
    for name, words in re.findall(r"^::: \S+\.(\w+)\n(?: .*\n)*? +members: \[(.*)\]", PAGE, re.M)
}
SHOWN = [
    getattr(redisq_ops, name) for name in redisq_ops.__all__ if name.endswith(("Queue", "Set"))
]


@pytest.mark.parametrize("cls", SHOWN, ids=lambda cls: cls.__name__)
def test_help_and_completion_show_what_programs_call_and_the_page_has_the_same(
    cls: type[Queue[Any]],
) -> None:
    own = {name for name in dir(cls) if not name.startswith("_")}
    whole = MEMBERS[cls.__name__.removeprefix("Sharded")] | MEMBERS["Queue"] | {"client"}
    assert own == whole | ({"resize"} if cls.__name__.startswith("Sharded") else set())
    completions = set(dir(cls(None, getattr(cls, "kind", "") + ":q")))
    assert own | {"keys", "name", "prefix"} == completions


def test_every_public_name_is_documented() -> None:
    for name in redisq_ops.__all__:
        assert (inspect.getdoc(getattr(redisq_ops, name)) or "").strip(), name


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_public_method_of_a_queue_is_documented(cls: type[Queue[Any]]) -> None:
    names = {name for base in cls.__mro__[:-1] for name in vars(base) if name[0] != "_"}
    methods = [name for name in names if callable(getattr(cls, name))]
    bare = [name for name in methods if not inspect.getdoc(getattr(cls, name))]
    assert len(methods) > 20 and bare == []


def test_a_feature_is_a_class_that_a_queue_is_an_instance_of() -> None:
    assert features(RequestQueue) == {"HasRequests", "HasPriorityLevels"}
    assert features(DelaySet) == {"HasTimeline", "HasPeriodicEntries", "TakesEntries"}
    assert features(CircularQueue) == {"TakesEntries"}
    known = {feature.__name__ for feature in FEATURES}
    assert {name for cls in CLASSES for name in features(cls)} == known, "some kind has each"
    assert {view.needs for view in ALL} - {None} <= known, "what a view of the dashboard needs"


def test_no_import_circle_in_core_has_more_than_three_files() -> None:
    """With the imports that only a type checker sees, and those inside functions."""
    graph = grimp.build_graph("redisq_ops", cache_dir=None)
    core = [name for name in graph.modules if name.startswith("redisq_ops.core")]
    behind = {name: graph.find_upstream_modules(name) for name in core}
    circles = {
        frozenset({name, *(other for other in behind[name] if name in behind.get(other, ()))})
        for name in core
    }
    assert [sorted(circle) for circle in circles if len(circle) > 3] == []
