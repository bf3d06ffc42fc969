"""What a recipient knows of each trouble, and what it is told next; no I/O.

A trouble is told when it has lasted as long as a step of the recipient says, and at once when it
gets worse. Its end is told when it has been gone for `Recipient.calm_ms`, if the trouble was told.
Only a check that reads the same queue, judges the rule and finds it kept resolves a trouble; if the
data is gone, or the rule is not checked any more, that is told instead. In quiet hours nothing is
told: what still holds afterwards is told then. What can't be judged now, because the server, a
queue or a number can't be read, neither ends nor begins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ..check.evaluation import broken_rules
from ..check.standing import Standing
from ..queue_names import is_named
from ..terminal import quantity
from ..trouble.finding import Severity
from .settings import Recipient

UNREAD = "unread"
"""the rule that a check could read everything"""
GONE = "gone"
"""the rule that not all queues go: who has lost everything has nothing else that is in trouble"""
_ALWAYS = (UNREAD, "registry")
"""rules of the server that every check judges; it says nothing of those that hold"""
End = Literal["resolved", "acknowledged", "eased", "lost", "unchecked"]
Word = Literal["new", "still", "worse", End]


@dataclass(frozen=True, slots=True)
class Checked:
    """What one check found of the queues of these names and patterns; without any, of all."""

    found: Sequence[Standing]
    names: tuple[str, ...] = ()
    acknowledged: Collection[str] = frozenset()
    """queues whose dead letters are known"""
    births: Mapping[str, int] = field(default_factory=dict)
    """when each queue that has its data was created, ms; 0: unknown"""
    complete: bool = True
    """False: it failed, and ``found`` says why"""

    @property
    def queues(self) -> int:
        """How many of these queues have their data."""
        return sum(is_named(queue, self.names) for queue in self.births)

    @classmethod
    def failed(cls, why: str) -> Checked:
        """A check that could not read what it needs."""
        return cls([Standing(None, UNREAD, Severity.CRITICAL, why)], complete=False)


@dataclass(frozen=True, slots=True)
class Episode:
    """A trouble from its first sight to its end, as one recipient knows it; times in ms."""

    queue: str | None
    """None: the server"""
    rule: str
    condition: str
    """the text of a condition; empty for other rules"""
    severity: int
    """a `Severity`, as the file has it"""
    reason: str
    """the latest"""
    since_ms: int
    gone_ms: int | None = None
    """since when it is gone"""
    steps: int = 0
    """how many steps of the recipient are told"""
    told: int = 0
    """the worst severity that was told; 0: none. Once it was milder for `Recipient.calm_ms`, the
    milder one: as bad as before is then worse again"""
    milder_ms: int | None = None
    """since when it is milder than what was told"""
    birth: int | None = None
    """when the queue was created: one of that name that was created later is another one"""
    end: End | None = None
    """how it ended, when it is gone"""

    @property
    def identity(self) -> tuple[str | None, str, str]:
        return self.queue, self.rule, self.condition


@dataclass(frozen=True, slots=True)
class News:
    """Something to tell of a trouble."""

    word: Word
    episode: Episode


def seen(
    before: Sequence[Episode], checked: Checked, recipient: Recipient, now_ms: int
) -> list[Episode]:
    """The episodes after a check; those of whose end nobody needs to be told are left out."""
    # A clock that was set back: a time to come would keep an episode from its steps and its end.
    known = {one.identity: _past(one, now_ms) for one in before}
    after = list[Episode]()
    broken = {one.identity: one for one in reversed(broken_rules(checked.found))}
    for one in reversed(broken.values()):  # the worst first
        if one.severity >= recipient.severity:
            begun = known.pop(one.identity, None)
            episode = begun or Episode(*one.identity, one.severity, "", now_ms)
            severity, reason = one.severity, one.reason or ""
            birth = checked.births.get(one.queue or "")
            episode = replace(episode, severity=severity, reason=reason, birth=birth)
            episode = replace(episode, gone_ms=None, end=None)
            after.append(_with_milder(episode, recipient, now_ms))
    standings = {one.identity: one for one in checked.found}
    for episode in known.values():
        if not _over(episode, recipient, now_ms) and (end := _end(episode, checked, standings)):
            gone_ms = now_ms if episode.gone_ms is None else episode.gone_ms
            episode = replace(episode, gone_ms=gone_ms, end=end)
        if not _over(episode, recipient, now_ms) or (episode.steps and recipient.resolved):
            after.append(episode)
    return after


def any_left(checked: Checked, before: int) -> Standing:
    """How the rule stands that not all queues go; ``before``: how many an earlier check found."""
    names = " ".join(checked.names)
    gone = f"{quantity(before, 'queue')} gone, none{names and f' named {names}'} is left"
    reason = gone if before and not checked.queues else None
    return Standing(None, GONE, Severity.CRITICAL, reason, condition=names)


def news(episodes: Sequence[Episode], recipient: Recipient, now_ms: int) -> list[News]:
    """What to tell the recipient now."""
    if recipient.quiet is not None and recipient.quiet.has(now_ms):
        return []
    found = ((_word(one, recipient, now_ms), one) for one in episodes)
    return [News(word, one) for word, one in found if word is not None]


def told(episodes: Sequence[Episode], recipient: Recipient, now_ms: int) -> list[Episode]:
    """The episodes once their `news` were sent."""
    after = []
    for one in episodes:
        reached = _reached(one, recipient, now_ms)
        if one.gone_ms is None and reached:
            one = replace(one, steps=reached, told=max(one.told, one.severity))
        if not _over(one, recipient, now_ms):
            after.append(one)
    return after


def _with_milder(one: Episode, recipient: Recipient, now_ms: int) -> Episode:
    if one.severity >= one.told:
        return replace(one, milder_ms=None)
    since_ms = now_ms if one.milder_ms is None else one.milder_ms
    if now_ms - since_ms < recipient.calm_ms:
        return replace(one, milder_ms=since_ms)
    return replace(one, told=one.severity, milder_ms=None)


def _past(one: Episode, now_ms: int) -> Episode:
    gone_ms = one.gone_ms and min(one.gone_ms, now_ms)
    milder_ms = one.milder_ms and min(one.milder_ms, now_ms)
    since_ms = min(one.since_ms, now_ms)
    return replace(one, since_ms=since_ms, gone_ms=gone_ms, milder_ms=milder_ms)


def _end(
    episode: Episode,
    checked: Checked,
    standings: Mapping[tuple[str | None, str, str], Standing],
) -> End | None:
    """How this trouble, which the check did not find, ended; None: the check does not know."""
    queue, found = episode.queue, standings.get(episode.identity)
    if not checked.complete or (found is not None and not found.known):
        return None
    if queue is None:
        return "resolved" if found is not None or episode.rule in _ALWAYS else None
    if not is_named(queue, checked.names):
        return None
    birth = checked.births.get(queue)
    if birth is None or (birth and episode.birth and birth != episode.birth):
        return "lost"
    if found is None or found.ignored:
        return "unchecked"
    if found.reason is not None:  # the recipient is told of worse only
        return "eased"
    known = episode.rule == "dead" and queue in checked.acknowledged
    return "acknowledged" if known else "resolved"


def _word(one: Episode, recipient: Recipient, now_ms: int) -> Word | None:
    if one.gone_ms is not None:
        return one.end if _over(one, recipient, now_ms) and recipient.resolved else None
    if one.steps and one.severity > one.told:
        return "worse"
    if _reached(one, recipient, now_ms) > one.steps:
        return "still" if one.steps else "new"
    return None


def _reached(one: Episode, recipient: Recipient, now_ms: int) -> int:
    return sum(step <= now_ms - one.since_ms for step in recipient.steps)


def _over(one: Episode, recipient: Recipient, now_ms: int) -> bool:
    return one.gone_ms is not None and now_ms - one.gone_ms >= recipient.calm_ms
