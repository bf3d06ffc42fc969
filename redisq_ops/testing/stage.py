"""A specimen on a server: its entries, and changes of them, each from the same start."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from redisq_ops.core.foreign.edits import HasEdits
from redisq_ops.core.model.entry import STATES, Entry, State
from redisq_ops.core.model.errors import BadInput, NotFound, RedisqError
from redisq_ops.core.model.keys import PREFIX, registry_key
from redisq_ops.core.model.quoting import raw_of, text
from redisq_ops.core.model.states import EDIT, VERBS, Verb
from redisq_ops.core.redis.operation import Description, run
from redisq_ops.ops.deployment import Deployment

from .interference import Interference, interferences, raced
from .picture import Key, Known, Picture
from .specimen import Specimen

OP = "op-1"
LATER_MS = 7_200_000
SOON_MS = 3_600_000
Deed = Verb | Literal["edit"]
"""what `conform` does to entries"""
EDITED: Mapping[str, Any] = {"args": ["redisq"], "kwargs": {"redisq": 1}, "data": {"redisq": [1]}}
"""member of a payload -> its value after an edit"""
MOST_PAGES = 10_000
"""a specimen is small"""
SHOWN = b" entries"
TRASH = "trash|was|purged"
"""redisq's own keys of purged entries"""


@dataclass(frozen=True, slots=True)
class Step:
    """A verb's change of one entry."""

    verb: Deed
    state: State
    entry: Entry
    begin: Picture
    """the keys before the step; for an entry in the trash, after it was purged from some state"""

    def __str__(self) -> str:
        return f"{self.verb} of a {self.state} entry"


@dataclass(frozen=True, slots=True)
class Race:
    word: str
    """what became of the entry"""
    said: str
    """the error, if there was one"""
    before: Picture
    """the keys after the write of others, before the script"""
    half_done: Sequence[str]


class Stage:
    """The specimen on a server, to which it is put back after each step."""

    def __init__(self, client: Any, specimen: Specimen) -> None:
        self.client, self.specimen = client, specimen
        self._known: Known = {}
        self.stated = specimen.fill(client)
        if not any(self.stated.values()):
            raise BadInput(f"the specimen of {specimen.queue} has no entries")
        _put_off(client)
        self.queue = self._opened()
        if self.queue.actions:
            run(client, self.queue._ensure_registered())
        self.own = self.queue.keys["op_"].removesuffix("op:").encode()
        """what redisq's own keys beside the program's begin with"""
        self.picture = self.look()
        self.deeds: dict[Deed, Sequence[State]] = dict(self.queue.actions)
        if isinstance(self.queue, HasEdits):
            self.deeds["edit"] = self.queue.editable_states
        self._pauses = 0
        self._shown_first: dict[str, bytes] = {}

    @property
    def theirs(self) -> Picture:
        """The keys that hold the entries."""
        return self.of_program(self.picture)

    def of_program(self, picture: Picture, more: str = "(?!)") -> Picture:
        """The keys that hold the entries; ``more``: like `Specimen.ours`, for further keys."""
        keys = picture.keys.items()
        return Picture({k: key for k, key in keys if key.dump and self.holds(k, more)})

    def holds(self, key: bytes, more: str = "(?!)") -> bool:
        """Whether a key holds entries: the program's, or one of ours in ``Specimen.ours``."""
        if not key.startswith(self.own):
            return key != registry_key(PREFIX).encode()
        ours = f"{self.specimen.ours}|{more}".encode()
        return re.fullmatch(ours, key.removeprefix(self.own)) is not None

    def _opened(self) -> Any:
        return run(self.client, Deployment(self.client).queue(self.specimen.queue))

    def compares(self, key: bytes, more: str = "(?!)") -> bool:
        """Whether a key's content is compared (see `Specimen.by_bytes`)."""
        if self.specimen.by_bytes:
            return self.holds(key, more)
        return key.endswith(SHOWN) and (more == TRASH or b"trash" not in key)

    def look(self) -> Picture:
        """All keys; and the entries of each state as they are shown, if these are compared."""
        picture = Picture.of(self.client, self._known)
        return picture if self.specimen.by_bytes else Picture({**picture.keys, **self._shown()})

    def _shown(self) -> dict[bytes, Key]:
        found = dict[bytes, Key]()
        for state in STATES:
            try:
                shown = self.queue.page(state, max=1000, payloads=True).entries
            except RedisqError as error:
                shown = (error,)
            content = {b"elements": tuple(repr(entry).encode() for entry in shown)}
            found[self.own + state.encode() + SHOWN] = Key(b"list", content, -1, b"")
        return found

    def put_back(self, picture: Picture | None = None) -> None:
        (picture or self.picture).put_back(self.client)
        self.queue = self._opened()
        self._shown_first = self._shown_first or {
            entry.id: entry.payload or b""
            for state in self.deeds.get("edit", ())
            for entry in self.queue.page(state, max=1000, payloads=True).entries
        }

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
        """The ids of every state; sorted for a state that has no order."""
        found = {state: self.ids(state) for state in STATES}
        return {s: sorted(ids) if s in self.specimen.unordered else ids for s, ids in found.items()}

    def changed(self, was: Picture, more: str = "(?!)", near_ms: int = 0) -> list[str]:
        """What differs by now in the keys that hold the entries (``more``: as in `of_program`). The
        program's own logs don't count, nor times of expiry less than ``near_ms`` off."""
        return [
            f"{text(key)} {part}"
            for key, part in was.changed(self.look(), near_ms)
            if self.compares(key, more) and not re.fullmatch(self.specimen.logs, text(key))
        ]

    def movable(self, state: State) -> list[str]:
        """The stated ids of a state that a verb may change."""
        return [id for id in self.stated.get(state, ()) if id not in self.specimen.fixed]

    def of_deed(self, deed: Deed, state: State) -> list[str]:
        """The stated ids that it may change."""
        ids = self.movable(state)
        return ids if deed != "edit" else [id for id in ids if self.can_be_edited(id)]

    def can_be_edited(self, id: str) -> bool:
        return not re.fullmatch(self.specimen.unedited, id)

    def matters(self, deed: Deed) -> str:
        """`Specimen.matters`, for what is done."""
        specimen = self.specimen
        more = f"|{specimen.matters_to_edits}" if deed == "edit" else ""
        return f"{specimen.matters}{more}"

    def rows(self, ids: Sequence[str]) -> list[tuple[str, bytes, bytes]]:
        """What an edit of entries is given: each gets the arguments `EDITED`."""
        return [(id, self._shown_first[id], self._edited(self._shown_first[id])) for id in ids]

    def _edited(self, payload: bytes) -> bytes:
        arguments = {name: EDITED[name] for name in self.queue.arguments}
        return json.dumps(json.loads(payload) | arguments).encode()

    def groups(self) -> list[tuple[Deed, State, list[str]]]:
        """Every verb and state, with ids for one step: the last one; the first one; and the three
        behind the first, in either order."""
        found = []
        for verb, states in self.deeds.items():
            for state in states:
                ids = self.of_deed(verb, state)
                groups = {tuple(group) for group in (ids[-1:], ids[:1], ids[1:4], ids[3:0:-1])}
                found += [(verb, state, [*group]) for group in sorted(groups) if group]
        return found

    @cached_property
    def steps(self) -> list[Step]:
        """A step for every verb and state, on the last entry of the state. For the trash: on the
        last entry of a state, which was purged before the step."""
        self.put_back()
        found = [
            Step(verb, state, self._entry(state, ids[-1]), self.picture)
            for verb, states in self.deeds.items()
            for state in states
            if (ids := self.of_deed(verb, state))
        ]
        for state in filter(self.movable, self.queue.actions.get("purge", ())):
            self.put_back()
            run(self.client, self.step("purge", state, self.movable(state)[-1:], "op-0"))
            begin = self.look()
            for id in self.ids("trash")[:1]:
                entry = self._entry("trash", id)
                known = {step.verb for step in found if step.state == "trash"} - {"restore"}
                verbs = [v for v, states in self.queue.actions.items() if "trash" in states]
                found += [Step(v, "trash", entry, begin) for v in verbs if v not in known]
        return found

    def _entry(self, state: State, id: str) -> Entry:
        entry: Entry | None = self.queue.get(id)
        if entry is None:
            raise NotFound(f"the {state} entry {id} isn't found by its id")
        return entry

    def is_of_others(self, key: bytes, entry: Entry) -> bool:
        """Whether a key's name has another entry's id, and not this one's."""
        ids = {raw_of(id) for ids in self.stated.values() for id in ids}
        parts = re.split(rb"[^\w-]", key)
        return raw_of(entry.id) not in parts and not ids.isdisjoint(parts)

    def write_again(self, client: Any, id: str) -> None:
        """Write all of the program's keys as they were."""
        both = [*self.picture.keys.items()], [*self.look().keys.items()]
        keys = [(k, v) for n in (0, 1) for k, v in both[n] if k.startswith(self.own) is bool(n)]
        Picture(dict(keys)).put_back(client)

    def changes(self, step: Step, picture: Picture) -> list[Interference]:
        """What others may write to an entry as it is in a picture. In redisq's own keys, elements
        only go or get another score: no other program writes these keys."""
        theirs, entry = self.of_program(picture), step.entry
        held: list[Any] = [
            key.content
            for name, key in theirs.keys.items()
            if name.startswith(self.own) and key.type == b"hash" and entry.payload
        ]
        tickets = [f for content in held for f, value in content.items() if value == entry.payload]
        found = interferences(theirs, entry, [raw_of(entry.id), *tickets])
        ours = (" gone", " score")
        return [c for c in found if c.what.endswith(ours) or not c.command[1].startswith(self.own)]

    def step(
        self,
        verb: Deed,
        state: State,
        ids: Sequence[str],
        op: str = OP,
        selected: Entry | None = None,
    ) -> Description[list[str]]:
        """The description of a verb's change of some entries; ``selected``: one of them, as it was
        when it was chosen."""
        now = self.queue.now()
        made: Description[list[str]]
        if verb == "edit":
            made = self.queue.edit.op(op, 1, self.rows(ids), source=state, high_water_ms=now)
            return made
        until_ms = LATER_MS if VERBS[verb][1] == "pending" else now + LATER_MS
        words: dict[str, Any] = {"source": state, "target": VERBS[verb][1], "consumer": "me"}
        if selected is not None and selected.at_ms:
            words["times"] = {selected.id: selected.at_ms}
        if selected and (stamp := self.queue.selected_stamp(selected, words["target"], now)):
            words["stamps"] = {selected.id: stamp}
        made = self.queue.move.op(op, 1, ids, high_water_ms=now, lease_ms=until_ms, **words)
        return made

    def raced(self, step: Step, happens: Callable[[Any], object]) -> Race:
        """Carry out a step; ``happens`` is called between the look at the entry and the script."""
        self.put_back(step.begin)
        was: list[Picture] = []

        def meanwhile() -> None:
            happens(self.client)
            was.append(self.look())

        word, said = "refused", ""
        move = self.step(step.verb, step.state, [step.entry.id], selected=step.entry)
        try:
            (word,) = raced(self.client, move, meanwhile)
        except RedisqError as error:
            said = str(error)
        before = was[-1] if was else step.begin
        left = self.changed(before, TRASH) if word != "moved" else []
        return Race(word, said, before, [f"{step} is half done: {part}" for part in left])

    def pause(self, paused: bool) -> None:
        """Begin or end the owner's pause; nothing happens where it is so already."""
        self._pauses += 1
        run(self.client, self.queue.set_owners_pause.op(f"pause-{self._pauses}", 1, paused))

    def undo(self, verb: Deed, op: str = OP) -> int:
        """How many entries the undo of a step put back."""
        target = EDIT if verb == "edit" else VERBS[verb][1]
        back: int = self.queue.undo(op, 1, target=target, by=f"undo-{op}", seq=1)[0]
        return back


def _put_off(client: Any) -> None:
    """Let keys that expire within the hour, and so perhaps during a check, expire an hour later."""
    for name, key in Picture.of(client, {}).keys.items():
        if key.until_ms >= 0 and client.pttl(name) < SOON_MS:
            client.pexpireat(name, key.until_ms + SOON_MS)
