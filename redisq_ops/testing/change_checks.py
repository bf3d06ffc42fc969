"""Whether a verb does what the program itself would do, wholly or not at all, and is undone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial, reduce
from secrets import token_hex
from typing import Any

import redis

from redisq_ops.core.model.errors import RedisqError
from redisq_ops.core.model.quoting import raw_of, text
from redisq_ops.core.redis.operation import run

from .interference import interferences
from .picture import Picture
from .stage import Stage


def undo(stage: Stage) -> Iterator[str]:
    """A step sent twice is done once, and its undo restores each byte and place."""
    before = stage.all_ids()
    for verb, state, ids in stage.groups():
        what = f"{verb} of {len(ids)} {state} entries"
        stage.put_back()
        said = run(stage.client, stage.step(verb, state, ids))
        after = Picture.of(stage.client)
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
        if verb != "purge" or state == "pending":  # who had it is gone: it waits again
            continue
        for order in (1, -1):
            stage.put_back()
            run(stage.client, stage.step(verb, state, ids))
            trash = stage.ids("trash")[::order]
            said = run(stage.client, stage.step("restore", "trash", trash, op="op-2"))
            if said != ["moved"] * len(ids):
                yield f"restore of {len(ids)} {state} entries: {said}"
            if left := stage.changed(stage.picture):
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
        theirs, places = Picture.of(stage.client), stage.all_ids()
        stage.put_back()
        said = run(stage.client, stage.step(verb, state, ids))
        if said != ["moved"] * len(ids):
            yield f"{what}: {said}"
        for where, there in stage.all_ids().items():
            if there != places[where] and where != "trash":
                yield f"{what} has another order of the {where} entries"
        for part in stage.changed(theirs):
            named = reduce(lambda text, id: text.replace(id, "{id}"), ids, part)
            if not any(re.fullmatch(allowed, named) for allowed in stage.specimen.differs):
                yield f"{what} leaves another {named} than the program's own"


def races(stage: Stage) -> Iterator[str]:
    """An entry that another program changes after the look is left alone."""
    for verb, state, entry in stage.steps():
        changes = [*interferences(stage.theirs, entry, raw_of(entry.id))]
        if not changes and stage.queue.states.get(state):
            yield f"no key of the program's has the id or payload of a {state} entry"
        for change in changes:
            race = stage.raced(verb, state, entry.id, change)
            yield from (f"{part}, after {change.what}" for part in race.half_done)
            matters = re.fullmatch(stage.specimen.matters, change.what) is not None
            if matters is (race.word == "moved"):
                should = "another entry" if matters else "the same entry"
                yield f"{verb} of a {state} entry: {race.word} after {change.what}: it is {should}"
        for what, happens in stage.specimen.meanwhile.items():
            race = stage.raced(verb, state, entry.id, partial(_to, happens, entry.id))
            yield from race.half_done
            if race.word == "moved":
                yield f"{verb} of a {state} entry is done although it is {what}"


def _to(happens: Callable[[Any, str], object], id: str, client: Any) -> None:
    happens(client, id)


def touched(stage: Stage) -> Iterator[str]:
    """An undo leaves an entry alone that another program changed meanwhile, or puts it back once
    without overwriting the change."""
    follows = stage.specimen.follows
    for verb, state, entry in stage.steps():
        if verb == "hard":
            continue
        stage.put_back()
        run(stage.client, stage.step(verb, state, [entry.id]))
        moved = Picture.of(stage.client)
        for change in interferences(stage.of_program(moved), entry, raw_of(entry.id)):
            moved.put_back(stage.client)
            change(stage.client)
            before = Picture.of(stage.client)
            if stage.undo(verb):
                if stage.ids(state).count(entry.id) != 1:
                    yield f"undo of {verb} after {change.what}: the {state} entry isn't there once"
                elif not (stage.changed(stage.picture) or re.fullmatch(follows, change.what)):
                    yield f"undo of {verb} of a {state} entry overwrites {change.what}"
            elif left := stage.changed(before):
                yield f"undo of {verb} after {change.what} is half done: {left}"


def types(stage: Stage) -> Iterator[str]:
    """Where a key gets another type after the look, a step does nothing, or all of it."""
    for verb, state, entry in stage.steps():
        for key, was in stage.theirs.keys.items():
            race = stage.raced(
                verb, state, entry.id, partial(_change_type, key=key, type_=was.type)
            )
            yield from (f"{part}, where {text(key)} is of another type" for part in race.half_done)
            if race.said and text(key) not in race.said:
                yield f"{verb} of a {state} entry doesn't name {text(key)}: {race.said}"
            if race.word == "moved" and verb != "hard":
                stage.undo(verb)
                if left := stage.changed(race.before):
                    yield f"undo of {verb} leaves {left}, where {text(key)} is of another type"


def _change_type(client: Any, key: bytes, type_: bytes) -> None:
    client.delete(key)
    client.rpush(key, b"x") if type_ == b"string" else client.set(key, b"x")


def rights(stage: Stage) -> Iterator[str]:
    """A user who lacks the right to one of the commands does nothing, or all of it."""
    admin, user = stage.client, f"redisq-conformance-{token_hex(4)}"
    pool = admin.connection_pool
    words = pool.connection_kwargs | {"username": user, "password": ""}
    own = redis.ConnectionPool(connection_class=pool.connection_class, **words)
    try:
        admin.acl_setuser(user, enabled=True, nopass=True, reset=True, keys=["*"], channels=["*"])
        with redis.Redis.from_pool(own) as limited:
            for verb, state, entry in stage.steps():
                stage.put_back()
                admin.config_resetstat()
                run(admin, stage.step(verb, state, [entry.id]))
                for command in admin.info("commandstats"):
                    name = command.removeprefix("cmdstat_")
                    admin.execute_command("ACL", "SETUSER", user, "+@all", f"-{name}")
                    stage.put_back()
                    step, word = stage.step(verb, state, [entry.id]), "refused"
                    with suppress(RedisqError):  # it says which right is missing
                        (word,) = run(limited, step)
                    if word != "moved" and (left := stage.changed(stage.picture)):
                        yield f"{verb} of a {state} entry is half done without {name}: {left}"
    finally:
        admin.acl_deluser(user)
