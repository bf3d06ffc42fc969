"""The keys of states, and the operators' verbs that lead from one state to another."""

from __future__ import annotations

from typing import Literal

from .entry import State

Verb = Literal["requeue", "claim", "replay", "purge", "hard", "restore", "reschedule", "move"]
EDIT = "edit"
"""the target of an edit, which moves entries nowhere"""
EDITABLE: tuple[State, ...] = ("waiting", "delayed", "dead")
"""states whose payloads can be edited, as far as the kind of queue can (`Queue.editable_states`)"""
ZSETS: dict[State, str] = {"pending": "lease", "delayed": "delay", "dead": "dead", "trash": "trash"}
# the keys every queue has, with their types
FIXED = {
    **dict.fromkeys(("lease", "delay", "dead", "trash", "ops", "unfinished"), "zset"),
    **dict.fromkeys(("meta", "err", "cfg", "stat", "callers"), "hash"),
    "hist": "stream",
    "wake": "list",
}
# verb -> (states it can start from, state it ends in), for every user interface
VERBS: dict[Verb, tuple[tuple[State, ...], str]] = {
    "requeue": (("pending", "delayed"), "waiting"),
    "claim": (("pending",), "pending"),
    "replay": (("dead", "done"), "waiting"),
    "purge": (("waiting", "pending", "delayed", "dead", "done"), "trash"),
    "hard": (("waiting", "pending", "delayed", "dead", "done", "trash"), "gone"),
    "restore": (("trash",), "restore"),
    "reschedule": (("delayed",), "delayed"),
    "move": (("waiting", "delayed", "dead"), "trash"),  # and from there to another queue
}
