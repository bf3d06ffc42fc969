"""What became of a queue: nothing, all of an operation, or a half of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from redisq_ops.core.model.errors import RedisqError

from ..model.wire import Picture
from .corruptions import GARBAGE, Corruption, corruptions
from .database import Database, Digests
from .stages import Stage

TOKEN = re.compile(rb"payload-\d+")
"""in each entry's payload, one of its own"""
RESERVED = (b"fence", b"gen", b"laps")
"""numbers of `stat` that are never given back"""


def tokens(image: Picture) -> set[bytes]:
    """The entries whose payload is anywhere but in lists of what could be undone, and in records of
    purged entries, which name their neighbours."""
    found: set[bytes] = set()
    for key, value in image.items():
        if not any(part in key for part in (b":undo:", b":callers", b":hist", b":was")):
            found |= set(TOKEN.findall(repr(value).encode()))
    return found


def known(image: Picture) -> Picture:
    """Without numbers that are never given back."""
    return {
        key: {f: v for f, v in value.items() if f not in RESERVED}
        if key.endswith(b":stat") and isinstance(value, dict)
        else value
        for key, value in image.items()
    }


@dataclass
class Verdict:
    """``word``: refused (nothing changed), complete (as without the corruption), sound (something
    else, and nothing is lost by it), half (some of it is done), raw (no error of ours), unclear
    (its message), lost (an entry is nowhere), flawed (`invariants` says so)."""

    word: str
    why: str = ""


CALLS = {"EVALSHA", "EVALSHA_RO", "EVAL", "EVAL_RO"}
"""declare keys; the commands of their scripts follow"""
NAMING: dict[type[Any], set[str]] = {
    dict: {"HGET", "HMGET", "HSET", "HSETNX", "HDEL", "HEXISTS", "HINCRBY", "HSTRLEN", "HLEN"},
    list: {"ZADD", "ZINCRBY", "ZREM", "ZSCORE", "ZMSCORE", "ZCARD"},
}
"""commands that depend on no field of a hash, and on no member of a sorted set, but those they
name; what a value is spoilt to changes neither the type nor how many there are"""
UNMOVED = {"TYPE", "EXISTS", "UNLINK", "DEL"}
PLAIN = re.compile(rb"[!#-\[\]-~]+")
"""words that the server's monitor prints as they are"""


@dataclass
class Reference:
    """What an operation does to the sound queue, and the commands that did it."""

    digests: Digests
    image: Picture
    ended: set[bytes]
    commands: Sequence[list[str]]
    naming: dict[bytes, list[list[str]]] = field(default_factory=dict)
    """those that name a key"""

    def touches(self, spoilt: Corruption, value: Any) -> bool:
        """Whether a command depends on what is spoilt of the key, which holds ``value``: without
        one the operation does what it does to the sound queue."""
        key, name = spoilt.key, spoilt.field
        if not key.isascii():
            return True
        if key not in self.naming:
            told = [words for words in self.commands if any(key.decode() in word for word in words)]
            self.naming[key] = [words for words in told if words[0].upper() not in CALLS]
        told = self.naming[key]
        if name is None or not PLAIN.fullmatch(name):
            return bool(told)
        assert name in dict(value), "what is there is spoilt, or garbage added"
        one_by_one = NAMING[type(value)] | UNMOVED
        return any(words[0].upper() not in one_by_one or name.decode() in words for words in told)


@dataclass
class Judge:
    """Judges operations on one stage's queue; its database has to be saved."""

    database: Database
    stage: Stage
    image: Picture = field(default_factory=dict)
    references: dict[str, Reference] = field(default_factory=dict)
    prepared: tuple[Corruption, Digests] | None = None
    """the last corruption, and what the database held after it"""
    seen: Picture | None = None
    """the same as a picture, once somebody has asked for it"""
    changed: bool = False
    """whether an operation has changed the database since"""

    def __post_init__(self) -> None:
        self.database.restore()
        self.image = self.database.picture()
        for name in self.stage.operations:
            self.database.restore()
            commands = self.database.commands_of(partial(self.stage.run, name))
            after = self.database.picture()
            self.references[name] = Reference(
                self.database.digests(),
                after,
                tokens(self.image) - tokens(after),
                [command.split() for command in commands],
            )

    def judge(self, name: str, corruption: Corruption) -> Verdict:
        again = self.prepared is not None and self.prepared[0] is corruption
        if self.changed or not again:
            self.database.restore()
            corruption.apply(self.database)
        if self.prepared is None or not again:
            self.prepared, self.seen = (corruption, self.database.digests()), None
        before = self.prepared[1]
        try:
            self.stage.run(name)
        except Exception as error:
            self.changed = self.database.digests() != before
            return self._refusal(corruption, error)
        self.changed = True
        return self._done(name, corruption, before)

    def _prepared(self, corruption: Corruption) -> Picture:
        if self.seen is None:
            self.database.restore()
            corruption.apply(self.database)
            self.seen = self.database.picture()
        return self.seen

    def _refusal(self, corruption: Corruption, error: Exception) -> Verdict:
        why = f"{type(error).__name__}: {error!s:.200}"
        if self.changed:
            after = known(self.database.picture())
            seen = known(self._prepared(corruption))
            if after != seen:
                changed = [
                    k.decode() for k in after.keys() | seen.keys() if after.get(k) != seen.get(k)
                ]
                return Verdict("half", f"{why} [{' '.join(sorted(changed))}]")
        if not isinstance(error, RedisqError):
            return Verdict("raw", why)
        text = str(error)
        if "\n" in text or len(text) > 500 or text.count(GARBAGE[:40].decode("latin1")):
            return Verdict("unclear", why)
        return Verdict("refused", why)

    def _done(self, name: str, corruption: Corruption, before: Digests) -> Verdict:
        reference, after = self.references[name], self.database.digests()
        differ = {
            k
            for k in reference.digests.keys() | after.keys()
            if reference.digests.get(k) != after.get(k)
        }
        key = corruption.key
        if not differ or (differ == {key} and self._alike(corruption, reference, before, after)):
            return Verdict("complete")
        image = self.database.picture()
        untouched = before.get(key) == after.get(key)
        field_kept = untouched
        if corruption.field is not None and not untouched:
            field_kept = _cell(image.get(key), corruption.field) == _cell(
                self._prepared(corruption).get(key), corruption.field
            )
        lost = tokens(self._prepared(corruption)) - tokens(image) - reference.ended
        if key.endswith((b":trash", b":retire")):  # a score that is long past: its time is over
            lost = set()
        if corruption.gone and key.endswith(b":unfinished"):  # that said what the trash must keep
            lost = set()
        if corruption.gone and key in self.image:  # what was in that key alone is gone with it
            lost -= tokens({key: self.image[key]})
        if lost:
            return Verdict("lost", " ".join(sorted(t.decode() for t in lost)))
        if corruption.gone or corruption.believable or not field_kept:
            return Verdict("sound")
        self._replay(name, corruption)
        self._mend(corruption, untouched)
        flaws = self.stage.flaws()
        return Verdict("flawed", "; ".join(flaws)[:300]) if flaws else Verdict("sound")

    def _replay(self, name: str, corruption: Corruption) -> None:
        self.database.restore()
        corruption.apply(self.database)
        self.stage.run(name)

    def _mend(self, corruption: Corruption, untouched: bool) -> None:
        """What was spoilt as it was before."""
        key, name = corruption.key, corruption.field
        if untouched:
            self.database.restore_key(key)
            return
        was = self.image[key]
        client = self.database.client
        if isinstance(was, dict):
            client.hset(key, name, was[name])
        elif isinstance(was, set):
            client.srem(key, name)
        elif isinstance(was, list):
            scores = dict(was)
            if name in scores:
                client.zadd(key, {name: scores[name]})
            else:
                client.zrem(key, name)

    def _alike(
        self, corruption: Corruption, reference: Reference, before: Digests, after: Digests
    ) -> bool:
        """Whether the spoilt key differs from what it should be by what was spoilt alone."""
        key, name = corruption.key, corruption.field
        if before.get(key) == after.get(key):
            return reference.image.get(key) == self.image.get(key) or corruption.field is not None
        if name is None:
            return False
        value = self.database.value(key)
        return bool(_without(value, name) == _without(reference.image.get(key), name))


def _cell(value: Any, name: bytes) -> Any:
    if isinstance(value, list):
        return dict(value).get(name)
    return value.get(name) if isinstance(value, dict) else name in (value or ())


def _without(value: Any, name: bytes) -> Any:
    if isinstance(value, dict):
        return {k: v for k, v in value.items() if k != name}
    if isinstance(value, list):
        return [row for row in value if row[0] != name]
    return value - {name} if isinstance(value, set) else value


@dataclass
class Matrix:
    """Verdicts of many cases, as figures and as lines."""

    words: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    causes: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, name: str, corruption: Corruption, verdict: Verdict) -> None:
        self.words[verdict.word] += 1
        if verdict.word not in ("refused", "complete", "sound"):
            self.bad.append(f"{kind}: {name} where {corruption}: {verdict.word} {verdict.why}")
            self.causes[f"{verdict.word}: {corruption}"] += 1

    def __str__(self) -> str:
        shown = ", ".join(f"{n:,} {word}" for word, n in self.words.most_common())
        return f"{self.words.total():,} cases: {shown}"


def cases(judge: Judge) -> list[tuple[str, Corruption]]:
    """All that can be spoilt of a stage, each before all operations that may notice it."""
    image = {key: value for key, value in judge.image.items() if judge.stage.owns(key)}
    spoilt = list(corruptions(image, judge.stage.absent))
    return [
        (name, corruption)
        for corruption in spoilt
        for name in judge.stage.operations
        if judge.references[name].touches(corruption, image.get(corruption.key))
    ]
