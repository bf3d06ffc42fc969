"""A specimen on a server: its entries, and changes of them, each from the same beginning."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from redisq_ops.core.model.entry import STATES, Entry, State
from redisq_ops.core.model.errors import BadInput, NotFound, RedisqError
from redisq_ops.core.model.keys import PREFIX, registry_key
from redisq_ops.core.model.quoting import text
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis.operation import Description, run
from redisq_ops.ops.deployment import Deployment

from .interference import raced
from .picture import Picture
from .specimen import Specimen

OP = "op-1"
LATER_MS = 7_200_000
MOST_PAGES = 10_000
"""a specimen is small"""


@dataclass(frozen=True, slots=True)
class Race:
    word: str
    """what became of the entry"""
    said: str
    """the error, if there was one"""
    before: Picture
    """after what happened, and before the script"""
    half_done: Sequence[str]


class Stage:
    """The specimen on a server, to which it is put back after each step."""

    def __init__(self, client: Any, specimen: Specimen) -> None:
        self.client, self.specimen = client, specimen
        self.stated = specimen.fill(client)
        if not any(self.stated.values()):
            raise BadInput(f"the specimen of {specimen.queue} has no entries")
        self.queue = self._opened()
        if self.queue.actions:
            run(client, self.queue._ensure_registered())
        self.picture = Picture.of(client)
        self.own = self.queue.keys["op_"].removesuffix("op:").encode()
        """what redisq's own keys beside the program's begin with"""

    @property
    def theirs(self) -> Picture:
        """The program's own keys."""
        return self.of_program(self.picture)

    def of_program(self, picture: Picture) -> Picture:
        keys = picture.keys.items()
        ours = self.own, registry_key(PREFIX).encode()
        return Picture({key: value for key, value in keys if not key.startswith(ours)})

    def _opened(self) -> Any:
        return run(self.client, Deployment(self.client).queue(self.specimen.queue))

    def put_back(self) -> None:
        self.picture.put_back(self.client)
        self.queue = self._opened()

    def ids(self, state: State, size: int = 1000) -> list[str]:
        """The ids of a state, by pages of ``size``; raises `RedisqError` if they don't end."""
        found: list[str] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = self.queue.page(state, cursor, size)
            if len(page.entries) > size:
                raise RedisqError(
                    f"a page of {size} of the {state} entries has {len(page.entries)}"
                )
            found += [entry.id for entry in page.entries]
            cursor = page.cursor
            if cursor is None:
                return found
        raise RedisqError(f"the pages of the {state} entries don't end")

    def all_ids(self) -> dict[State, list[str]]:
        """Of every state, in order where it has one."""
        found = {state: self.ids(state) for state in STATES}
        return {s: sorted(ids) if s in self.specimen.unordered else ids for s, ids in found.items()}

    def changed(self, was: Picture) -> list[str]:
        """What of the program's is otherwise: its own logs and redisq's own keys don't count."""
        changes = was.changed(Picture.of(self.client))
        return [
            f"{text(key)} {part}"
            for key, part in changes
            if not key.startswith(self.own) and not re.fullmatch(self.specimen.logs, text(key))
        ]

    def movable(self, state: State) -> list[str]:
        """The stated ids of a state that a verb may change."""
        return [id for id in self.stated.get(state, ()) if id not in self.specimen.fixed]

    def groups(self) -> list[tuple[Verb, State, list[str]]]:
        """Every verb and state with entries that one step changes: the last; the first; and
        neighbours behind it, from both sides."""
        found = []
        for verb, states in self.queue.actions.items():
            for state in states:
                ids = self.movable(state)
                groups = {tuple(group) for group in (ids[-1:], ids[:1], ids[1:4], ids[3:0:-1])}
                found += [(verb, state, [*group]) for group in sorted(groups) if group]
        return found

    def steps(self) -> list[tuple[Verb, State, Entry]]:
        """Every verb and state with the last of its entries."""
        self.put_back()
        found = []
        for verb, states in self.queue.actions.items():
            for state in filter(self.movable, states):
                id = self.movable(state)[-1]
                entry = self.queue.get(id)
                if entry is None:
                    raise NotFound(f"the {state} entry {id} isn't found by its id")
                found.append((verb, state, entry))
        return found

    def step(
        self, verb: Verb, state: State, ids: Sequence[str], op: str = OP
    ) -> Description[list[str]]:
        """The description of a verb's change of some entries."""
        now = self.queue.now()
        made: Description[list[str]] = self.queue.move.op(
            op,
            1,
            ids,
            source=state,
            target=VERBS[verb][1],
            consumer="me",
            high_water_ms=now + 60_000,
            lease_ms=now + LATER_MS,
        )
        return made

    def raced(self, verb: Verb, state: State, id: str, happens: Callable[[Any], object]) -> Race:
        """A change of an entry to which something happens after the look."""
        self.put_back()
        was: list[Picture] = []

        def meanwhile() -> None:
            happens(self.client)
            was.append(Picture.of(self.client))

        word, said = "refused", ""
        try:
            (word,) = raced(self.client, self.step(verb, state, [id]), meanwhile)
        except RedisqError as error:
            said = str(error)
        before = was[-1] if was else self.picture
        left = self.changed(before) if word != "moved" else []
        parts = [f"{verb} of a {state} entry is half done: {part}" for part in left]
        return Race(word, said, before, parts)

    def undo(self, verb: Verb) -> int:
        """How many entries the undo of a step put back."""
        back: int = self.queue.undo(OP, 1, target=VERBS[verb][1], by="undo-1", seq=1)[0]
        return back
