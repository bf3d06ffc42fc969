"""Whether a verb does what the program would do, completely or not at all, and can be undone."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from secrets import token_hex
from typing import Any

import redis

from redisq_ops.core.engine.optional_features import HasOwnersPause
from redisq_ops.core.model.errors import RedisqError
from redisq_ops.core.model.quoting import text
from redisq_ops.core.model.states import Verb
from redisq_ops.core.redis.operation import run

from .stage import EDITED, TRASH, Stage, Step

NEAR_MS = 60_000
"""times of expiry that two calls set, one after the other, may differ by less than this"""
OTHERS: Mapping[str, Sequence[Verb]] = {
    "restored": ("restore",),
    "removed for good": ("hard",),
    "restored and purged again": ("restore", "purge"),
}
"""what another operator may do to an entry in the trash"""


def undo(stage: Stage) -> Iterator[str]:
    """A step sent twice is done once, and its undo restores each byte and place."""
    before = stage.all_ids()
    for verb, state, ids in stage.groups():
        what = f"{verb} of {len(ids)} {state} entries"
        stage.put_back()
        said = run(stage.client, stage.step(verb, state, ids))
        after = stage.look()
        if said != ["moved"] * len(ids):
            yield f"{what}: {said}"
        elif run(stage.client, stage.step(verb, state, ids)) != said:
            yield f"{what}, sent again, says something else"
        elif stage.changed(after):
            yield f"{what}, sent again, is done again: {stage.changed(after)}"
        elif verb != "hard":
            back = stage.undo(verb)
            if left := stage.changed(stage.picture):
                yield f"undo of {what} leaves {left}"
            if back != len(ids) or stage.all_ids() != before:
                yield f"undo of {what} puts {back} back, not all into their places"


def restored(stage: Stage) -> Iterator[str]:
    """What was purged and is restored is where it was, byte for byte, in whichever order."""
    before = stage.all_ids()
    for verb, state, ids in stage.groups():
        if verb != "purge" or state == "pending":  # its holder is gone: it waits again
            continue
        for order in (1, -1):
            stage.put_back()
            run(stage.client, stage.step(verb, state, ids))
            trash = stage.ids("trash")[::order]
            said = run(stage.client, stage.step("restore", "trash", trash, op="op-2"))
            if said != ["moved"] * len(ids):
                yield f"restore of {len(ids)} {state} entries: {said}"
            if stage.specimen.by_bytes and (left := stage.changed(stage.picture)):
                yield f"purge and restore of {len(ids)} {state} entries leave {left}"
            if stage.all_ids() != before:
                yield f"purge and restore of {len(ids)} {state} entries change their places"


def own_verbs(stage: Stage) -> Iterator[str]:
    """A verb leaves what the program's own verb leaves, entry by entry."""
    for verb, state, ids in stage.groups():
        own = stage.specimen.own_verbs.get((verb, state))
        if own is None:
            continue
        what = f"{verb} of {len(ids)} {state} entries"
        stage.put_back()
        for id in ids:
            own(stage.client, id)
        theirs, places = stage.look(), stage.all_ids()
        stage.put_back()
        said = run(stage.client, stage.step(verb, state, ids))
        if said != ["moved"] * len(ids):
            yield f"{what}: {said}"
        for where, there in stage.all_ids().items():
            if there != places[where] and where != "trash":
                yield f"{what} has another order of the {where} entries"
        for part in stage.changed(theirs, near_ms=NEAR_MS):
            named = reduce(lambda text, id: text.replace(id, "{id}"), ids, part)
            if not any(re.fullmatch(allowed, named) for allowed in stage.specimen.differs):
                yield f"{what} leaves another {named} than the program's own"


def waits(stage: Stage) -> Iterator[str]:
    """What a verb lets wait is shown as waiting since then, or since an unknown time. What a worker
    held may go back as it was."""
    time.sleep(1.1)  # a program may keep whole seconds
    for step in (step for step in stage.steps if step.verb in ("replay", "requeue")):
        if step.state == "pending":
            continue
        stage.put_back(step.begin)
        there, begin_ms = stage.ids("waiting"), stage.queue.now() - 1000
        run(stage.client, stage.step(step.verb, step.state, [step.entry.id]))
        for entry in stage.queue.page("waiting", max=1000).entries:
            since_ms = entry.since_ms
            if entry.id not in there and since_ms is not None and since_ms < begin_ms:
                yield f"{step}: it waits since {begin_ms - since_ms} ms before it was put there"


def edited(stage: Stage) -> Iterator[str]:
    """An edited entry is shown in its place with its new arguments and nothing else changed; one
    that can't be edited stays as it is, and so does the rest of what was asked for."""
    for state in stage.deeds.get("edit", ()):
        for id in stage.movable(state):
            stage.put_back()
            begin = stage.look()
            (row,) = stage.rows([id])
            at = stage.ids(state).index(id)
            (would,) = run(stage.client, stage.queue.would_edit.op([row], source=state))
            (said,) = run(stage.client, stage.step("edit", state, [id]))
            if (said == "moved") is not stage.can_be_edited(id) or said != (would or "moved"):
                yield f"edit of the {state} entry {id}: {said}, and a look says {would or 'moved'}"
            elif said != "moved" and (left := stage.changed(begin)):
                yield f"edit of the {state} entry {id} is refused, and changes {left}"
            elif said == "moved":
                ids = stage.ids(state)
                entry = stage.queue.get(id if id in ids else ids[at])  # its id may be of its bytes
                shown = json.loads(entry.payload or b"{}") if entry else {}
                if any(shown.get(name) != EDITED[name] for name in stage.queue.arguments):
                    yield f"edit of the {state} entry {id}: then it has {shown}"
        for value in (b"[]", b"no JSON", b'{"redisq": NaN}'):
            rows = [(id, was, value) for id, was, _ in stage.rows(stage.of_deed("edit", state)[:1])]
            for said in run(stage.client, stage.queue.would_edit.op(rows, source=state)):
                if not said:
                    yield f"edit of a {state} entry to {value!r} is possible"


def races(stage: Stage) -> Iterator[str]:
    """An entry that another program changes after the look is left alone."""
    for step in stage.steps:
        if step.state == "trash":
            continue
        changes = stage.changes(step, step.begin)
        if not (changes or stage.specimen.meanwhile):
            yield f"no key has the id or payload of a {step.state} entry"
        for change in changes:
            race = stage.raced(step, change)
            yield from (f"{part}, after {change.what}" for part in race.half_done)
            matters = re.fullmatch(stage.matters(step.verb), change.what) is not None
            if matters is (race.word == "moved"):
                should = "another entry" if matters else "the same entry"
                yield f"{step}: {race.word} after {change.what}: it is {should}"
        for what, happens in stage.specimen.meanwhile.items():
            race = stage.raced(step, partial(_to, happens, step.entry.id))
            yield from race.half_done
            if race.word == "moved":
                yield f"{step} is done although it is {what}"


def purged(stage: Stage) -> Iterator[str]:
    """An entry in the trash that another operator changes after the look is left alone."""
    for step in stage.steps:
        if step.state != "trash":
            continue
        for what, verbs in OTHERS.items():
            if not all(verb in stage.queue.actions for verb in verbs):
                continue
            race = stage.raced(step, partial(_by_others, stage, step, verbs))
            yield from race.half_done
            if race.word in ("moved", "refused"):
                yield f"{step} is {race.word} although it was {what} meanwhile"


def _by_others(stage: Stage, step: Step, verbs: Sequence[Verb], client: Any) -> None:
    for n, verb in enumerate(verbs):
        time.sleep(0.002)  # so that a second purge has another time
        entry = stage.queue.get(step.entry.id)
        if entry is not None and entry.state in stage.queue.actions.get(verb, ()):
            run(client, stage.step(verb, entry.state, [entry.id], f"other-{n}"))


def again(stage: Stage) -> Iterator[str]:
    """Where an entry of the same id comes while one is in the trash, its undo and its restore keep
    both, or are refused."""
    for step in (step for step in stage.steps if step.verb == "restore"):
        id = step.entry.id
        for comes in filter(None, (stage.write_again, stage.specimen.again)):
            for what in ("undo", "restore"):
                stage.put_back(step.begin)
                comes(stage.client, id)
                begin, before = stage.look(), _entries(stage)
                if what == "undo":
                    more = stage.undo("purge", "op-0")
                else:
                    more = run(stage.client, stage.step("restore", "trash", [id])).count("moved")
                if _entries(stage) != before + more:
                    yield f"{what}: {_entries(stage)} entries, of {before}, when one's id was back"
                if more and what == "restore":
                    stage.undo("restore")
                left = stage.changed(begin, "(?!)" if more else TRASH)
                if left and not (more and what == "undo"):
                    yield f"{what} of an entry whose id came again is half done, or loses {left}"


def _entries(stage: Stage) -> int:
    return sum(len(ids) for state, ids in stage.all_ids().items() if state != "trash")


def _to(happens: Callable[[Any, str], object], id: str, client: Any) -> None:
    happens(client, id)


def touched(stage: Stage) -> Iterator[str]:
    """An undo leaves an entry alone that another program changed meanwhile, or puts it back once
    without overwriting the change."""
    follows = stage.specimen.follows
    for step in stage.steps:
        verb, id = step.verb, step.entry.id
        if verb == "hard":
            continue
        stage.put_back(step.begin)
        run(stage.client, stage.step(verb, step.state, [id]))
        moved = stage.look()
        for change in stage.changes(step, moved):
            moved.put_back(stage.client)
            change(stage.client)
            before = stage.look()
            if stage.undo(verb):
                if stage.ids(step.state).count(id) != 1:
                    yield f"undo of {step} after {change.what}: it isn't there once"
                was = step.begin
                if verb == "restore":  # what came back is purged again, as it is now
                    was = moved
                    run(stage.client, stage.step(verb, "trash", [id], "op-2"))
                if not (stage.changed(was) or re.fullmatch(follows, change.what)):
                    yield f"undo of {step} overwrites {change.what}"
            elif left := stage.changed(before):
                yield f"undo of {step} after {change.what} is half done: {left}"


def paused(stage: Stage) -> Iterator[str]:
    """Where the owner's pause begins or ends between a step and its undo, each byte and place
    comes back."""
    queue = stage.queue
    if not isinstance(queue, HasOwnersPause) or run(stage.client, queue.pause_refused()):
        return
    for step in (step for step in stage.steps if step.verb != "hard"):
        trash = step.state == "trash"
        ids = [step.entry.id] if trash else stage.of_deed(step.verb, step.state)[:3]
        stage.put_back(step.begin)
        stage.pause(True)
        stage.pause(False)
        picture, usual = stage.look(), None
        for was, then in ((False, False), (False, True), (True, False)):
            stage.put_back(picture)
            stage.pause(was)
            said = run(stage.client, stage.step(step.verb, step.state, ids))
            stage.pause(then)
            back = stage.undo(step.verb)
            stage.pause(False)
            found, left = (said, back, stage.all_ids()), {*stage.changed(picture)}
            usual = usual or (found, left)
            if found != usual[0] or left - usual[1]:
                event = "a pause" if then else "the end of a pause"
                yield f"{step}, {event}, undo: {found}, left {left}; without a pause {usual}"


def types(stage: Stage) -> Iterator[str]:
    """Where a key gets another type after the look, a step does nothing, or all of it."""
    for step in stage.steps:
        keys = stage.of_program(step.begin, TRASH).keys
        others = [key for key in keys if stage.is_of_others(key, step.entry)]
        for changed in filter(None, (others, *([key] for key in keys if key not in others))):
            where = f"where {' or '.join(map(text, changed))} is of another type"
            is_string = {key: keys[key].type == b"string" for key in changed}
            race = stage.raced(step, partial(_change_types, is_string=is_string))
            yield from (f"{part}, {where}" for part in race.half_done)
            if race.said and not any(text(key) in race.said for key in changed):
                yield f"{step} doesn't name it, {where}: {race.said}"
            if race.word == "moved" and step.verb != "hard":
                with suppress(RedisqError):  # it names the key
                    stage.undo(step.verb)
                    if left := stage.changed(race.before):
                        yield f"undo of {step} leaves {left}, {where}"


def _change_types(client: Any, is_string: Mapping[bytes, bool]) -> None:
    for key, was in is_string.items():
        client.delete(key)
        client.rpush(key, b"x") if was else client.set(key, b"x")


def rights(stage: Stage) -> Iterator[str]:
    """A user who lacks the right to one of the commands does nothing, or all of it."""
    admin, user = stage.client, f"redisq-conformance-{token_hex(4)}"
    pool = admin.connection_pool
    words = pool.connection_kwargs | {"username": user, "password": ""}
    own = redis.ConnectionPool(connection_class=pool.connection_class, **words)
    try:
        admin.acl_setuser(user, enabled=True, nopass=True, reset=True, keys=["*"], channels=["*"])
        with redis.Redis.from_pool(own) as limited:
            for step in stage.steps:
                moves, id = partial(stage.step, step.verb, step.state), step.entry.id
                stage.put_back(step.begin)
                admin.config_resetstat()
                run(admin, moves([id]))
                for command in admin.info("commandstats"):
                    name = command.removeprefix("cmdstat_")
                    admin.execute_command("ACL", "SETUSER", user, "+@all", f"-{name}")
                    stage.put_back(step.begin)
                    move, word = moves([id]), "refused"
                    with suppress(RedisqError):  # it says which right is missing
                        (word,) = run(limited, move)
                    if word != "moved" and (left := stage.changed(step.begin, TRASH)):
                        yield f"{step} is half done without {name}: {left}"
    finally:
        admin.acl_deluser(user)
