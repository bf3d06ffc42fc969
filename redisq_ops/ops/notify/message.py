"""The words of a message: the verb, the queue, the reason, the command to type.

    Fix 71 queues: no worker for 8 m (api, billing, cart and 68 more). Type: redisq ls
    Look at mail, in trouble for 1 h: 37 dead, mostly SMTP. Type: redisq explain mail
    Resolved mail after 12 m: no worker for 11 m
    Lost mail after 12 m, the data is gone. Before: no worker for 11 m. Type: redisq doctor

Queues of the same trouble are one line, as in the dashboard.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, get_args

from ..hint import hint
from ..terminal import count, printable, quantity, rough_age
from ..trouble.finding import Severity, Trouble
from ..trouble.shared import FOLDED_FROM, Likeness, likeness, shared_trouble
from .episode import End, Episode, News, Word

LINES: Final = 12
"""of a message; Discord takes 2,000 characters, and cuts none"""
FINDINGS: Final = 500
"""of a webhook's message"""
_REASON: Final = 90
"""cells of a reason; a queue's name has up to 128 characters"""
_NAMED: Final = 3
"""queues of a fold that are named"""
_CHARACTERS: Final = 1_800
_ENDS: Final[tuple[End, ...]] = get_args(End)
_GOOD: Final = ("resolved", "acknowledged", "eased")


@dataclass(frozen=True, slots=True)
class Message:
    """What a recipient is told at once."""

    deployment: str
    at_ms: int
    title: str
    lines: tuple[str, ...]
    findings: tuple[dict[str, Any], ...] = ()
    omitted: int = 0
    """findings that are left out"""
    severity: Severity | None = None
    """the worst of what is wrong; None: nothing is"""

    @property
    def document(self) -> dict[str, Any]:
        """The JSON of a webhook."""
        return {name: value for name, value in asdict(self).items() if name != "severity"}


def test_message(where: str, now_ms: int) -> Message:
    """What tells a recipient that it can be reached."""
    line = "Ignore this test: it shows that this recipient can be told of trouble."
    return Message(where, now_ms, f"redisq {where}: test", (line,))


def message(found: Sequence[News], where: str, now_ms: int) -> Message:
    """Word some news; ``where`` names the deployment."""
    news = sorted(found, key=lambda one: (_place(one), -one.episode.severity))
    wrong = [one.episode.severity for one in news if one.word not in _GOOD]
    said = Counter(one.word if one.word in _ENDS else _severity(one.episode) for one in news)
    numbers = [
        quantity(n, word) if word == "warning" else f"{count(n)} {word}" for word, n in said.items()
    ]
    title = f"redisq {where}: {', '.join(numbers)}"
    lines = [_line(alike, now_ms) for alike in _folded(news)]
    kept = lines[:LINES]
    while sum(map(len, kept)) > _CHARACTERS:
        kept.pop()
    if more := len(lines) - len(kept):
        kept.append(f"See {count(more)} more. Type: {hint('check', explain=None)}")
    findings = tuple(_fields(one) for one in news[:FINDINGS])
    worst = Severity(max(wrong)) if wrong else None
    return Message(where, now_ms, title, tuple(kept), findings, len(news) - len(findings), worst)


def _place(one: News) -> int:
    """What is wrong comes first, then what was lost, then what is better."""
    return (one.word in _ENDS) + (one.word in _GOOD)


def _folded(news: Sequence[News]) -> list[list[News]]:
    """The news, those that are the same of several queues together."""
    alike = defaultdict[tuple[Word, Likeness], list[News]](list)
    for one in news:
        alike[one.word, likeness((_trouble(one.episode),))].append(one)
    groups = list[list[News]]()
    for same in alike.values():
        groups += [same] if len(same) >= FOLDED_FROM else [[one] for one in same]
    return groups


def _line(alike: Sequence[News], now_ms: int) -> str:
    first, episodes = alike[0], [one.episode for one in alike]
    names = sorted(one.queue or "the server" for one in episodes)
    (trouble,) = shared_trouble([(_trouble(one),) for one in episodes])
    lasted = rough_age(max((one.gone_ms or now_ms) - one.since_ms for one in episodes))
    whose, among = names[0], ""
    if len(names) > 1:
        whose = quantity(len(names), "queue")
        more = f" and {count(len(names) - _NAMED)} more" if len(names) > _NAMED else ""
        among = f" ({', '.join(names[:_NAMED])}{more})"
    verb = "Fix" if trouble.severity is Severity.CRITICAL else "Look at"
    begin = {
        "new": f"{verb} {whose}",
        "still": f"{verb} {whose}, in trouble for {lasted}",
        "worse": f"{verb} {whose}, now {_severity(first.episode)}",
        "resolved": f"Resolved {whose} after {lasted}",
        "acknowledged": f"Acknowledged {whose} after {lasted}",
        "eased": f"No longer critical {whose} after {lasted}",
        "lost": f"Lost {whose} after {lasted}, the data is gone. Before",
        "unchecked": f"No longer checked {whose} after {lasted}",
    }[first.word]
    silent = first.word in _ENDS and first.word != "lost"
    command = "" if silent else f". Type: {_command(episodes)}"
    reason = printable(trouble.reason, _REASON).rstrip(".")
    return f"{printable(begin)}: {reason}{printable(among)}{command}"


def _command(episodes: Sequence[Episode]) -> str:
    queue = episodes[0].queue
    if queue is None or episodes[0].end == "lost":
        return hint("doctor")
    return hint("explain", queue) if len(episodes) == 1 else hint("ls")


def _fields(one: News) -> dict[str, Any]:
    episode = one.episode
    return {
        "news": one.word,
        "severity": _severity(episode),
        "queue": episode.queue,
        "rule": episode.rule,
        "reason": episode.reason,
        "since_ms": episode.since_ms,
        "command": _command([episode]),
    }


def _severity(episode: Episode) -> str:
    return Severity(episode.severity).name.lower()


def _trouble(episode: Episode) -> Trouble:
    return Trouble(Severity(episode.severity), episode.rule, episode.reason)
