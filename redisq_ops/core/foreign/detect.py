"""By which keys other programs' queues are told: names, types, and a cheap look at the content.

Names first, as the server's own patterns (`LANES`); what no name tells is told by content, of which
a fixed little is read: a plain stream by its groups, a turning list by the marks at its ends, a
delay set by how many of its scores are times. Payloads of sorted sets are not read, but for the
first of one that is called like Sidekiq's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..redis.key_scan import Lane
from ..redis.operation import Call, both, together
from .streams.groups import ConsumerGroup, groups

LANES = (
    Lane("stream"),
    Lane("zset"),
    Lane("list"),
    Lane("set", b"*queues"),
    Lane("set", b"bqueues:dead:*"),
    Lane("hash", b"carmine:mq:*"),
    Lane("string", b"counter:{*}"),
)
"""What to scan for; a lane without a pattern is for what may have any name."""

REQUEST_TOKENS = re.compile(rb"\{req\}:\d+")
REQUEST_PART = re.compile(rb"(?:sub|counter):\{(.*)\}", re.DOTALL)
FAIR = b"bqueues:"
CARMINE = b"carmine:mq:"
_CARMINE_PARTS = (
    b"messages|locks|backoffs|nattempts|mid-circle|done|requeue|messages-rq|lock-times"
    b"|lock-times-rq|udts|mids-ready|isleep-[ab]"
)
CARMINE_PART = re.compile(CARMINE + rb"(.+):(?:" + _CARMINE_PARTS + rb")", re.DOTALL)
CARMINE_4 = re.compile(
    rb"(carmine:mq:v4:\{[0-9a-f]{16}\}:)(.+):(?:config|seq|payloads|meta|successor-payloads"
    rb"|successor-meta|ready-high|ready-normal|ready-low|scheduled|leased|lease-tokens|dead"
    rb"|dead-payloads|failures|signal)",
    re.DOTALL,
)
"""a queue of Carmine 4's preview: what its keys begin with, and its name"""
JOB_LIST = re.compile(rb"((?:.*?:)?)queue:(.+)", re.DOTALL)
JOB_QUEUES = re.compile(rb"((?:.*:)?)queues", re.DOTALL)
JOB_SET = re.compile(rb"((?:.*:)?)(?:schedule|retry|dead)", re.DOTALL)
OURS = re.compile(rb"(.+?):\{[^{}]+\}:", re.DOTALL)
"""keys of a deployment of ours, under whatever prefix"""

_FRAMEWORKS = {
    # A queue of ours may have the prefix `rq` as well: its keys have braces.
    "RQ": rb"rq:(?!\{|[^:{}]+:\{|registry\Z).+",
    "Celery": rb"celery(?:-task-meta-.+)?|.+\x06\x16\d+|_kombu\..+|unacked(?:_index|_mutex)?",
    "BullMQ": rb"(?:bull|\{bull\}):.+",
    "Dramatiq": rb"dramatiq:.+",
    "arq": rb"arq:.+",
    "Huey": rb"huey\..+",
    "SAQ": rb"saq:.+",
}
_FRAMEWORK = re.compile(
    b"|".join(b"(?P<%b>%b)" % (name.encode(), sign) for name, sign in _FRAMEWORKS.items()),
    re.DOTALL,
)


def framework(key: bytes) -> str | None:
    """The framework whose keys are called so, of those that can't be read here."""
    found = _FRAMEWORK.fullmatch(key)
    return None if found is None else found.lastgroup


Jobs = Literal["sidekiq", "resque"]
JOB_SIGNS: dict[Jobs, dict[bytes, bytes]] = {
    "sidekiq": {b"schedule": b"zset", b"retry": b"zset", b"dead": b"zset", b"processes": b"set"},
    "resque": {b"workers": b"set", b"failed": b"list", b"delayed_queue_schedule": b"zset"},
}
"""what stands beside the lists, by type, where the lists are all empty"""

ENDS = 25
"""elements read at each end of a list"""
SMALL = 512
"""bytes an element of a turning list has at most, on average: they are ids"""
LARGE = 1024 * 1024
SECONDS = (10**9, 41 * 10**8)
"""2001 to 2099: scores of this size are times"""
_SCHEDULE = re.compile(rb"delay|sched|retr|later|timer|due|cron|remind", re.IGNORECASE)
_MARK = re.compile(rb"[^*]{1,128}\*(\d{10}|\d{13})(?:\.\d+)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class JobPreview:
    """What the next element of a list of jobs says: whose it is, and of which client."""

    of: Jobs | None = None
    client: str | None = None


async def stream_groups(key: bytes) -> list[ConsumerGroup]:
    """A plain stream is a queue if it has groups."""
    return await groups(key)


async def is_schedule(key: bytes, now_ms: int) -> bool:
    """Whether a sorted set holds payloads by time.

    Nearly all scores are times, and some are still to come, or the name speaks of it: an index of
    what was when looks the same otherwise. Counts only.
    """
    low, high = SECONDS

    def count(a: float | str, b: float | str) -> Call[int]:
        return Call(("ZCOUNT", key, a, b), int, key=key)

    size, seconds, ms, ahead, ahead_ms = await together(
        [
            count("-inf", "+inf"),
            count(low, f"({high}"),
            count(low * 1000, f"({high * 1000}"),
            count(f"({now_ms / 1000!r}", f"({high}"),
            count(f"({now_ms}", f"({high * 1000}"),
        ]
    )
    times = seconds + ms
    return bool(
        times and times >= 0.9 * size and (ahead or ahead_ms or _SCHEDULE.search(key) is not None)
    )


async def mean_size(key: bytes) -> int:
    """Bytes an element of a list has, about: nothing large is to be read by accident."""
    memory, length = await both(
        Call(("MEMORY", "USAGE", key, "SAMPLES", 5), lambda r: int(r or 0), key=key),
        Call(("LLEN", key), int, key=key),
    )
    return memory // length if length else 0


async def is_turning(key: bytes, size: int) -> bool:
    """Whether a list of small elements has marks ``id*time`` at its ends."""
    if size > SMALL:
        return False
    ends: Sequence[list[bytes]] = await together(
        Call(("LRANGE", key, first, last), list[bytes], key=key)
        for first, last in ((0, ENDS - 1), (-ENDS, -1))
    )
    return any(_MARK.fullmatch(element) for end in ends for element in end)


async def next_job(key: bytes, size: int) -> JobPreview:
    """What a list's first element says of its owner; nothing if it would be large."""
    if size > LARGE:
        return JobPreview()
    element = await Call(("LINDEX", key, 0), bytes_or_none, key=key)
    return job(element or b"")


async def first_job(key: bytes) -> JobPreview:
    """What a sorted set's first member says of its owner; nothing if it would be large."""
    memory, length = await both(
        Call(("MEMORY", "USAGE", key, "SAMPLES", 5), lambda r: int(r or 0), key=key),
        Call(("ZCARD", key), int, key=key),
    )
    if not length or memory // length > LARGE:
        return JobPreview()
    members = await Call(("ZRANGE", key, 0, 0), list[bytes], key=key)
    return job(members[0] if members else b"")


def job(element: bytes) -> JobPreview:
    """Sidekiq's jobs have a ``jid``, Resque's a class and its arguments, article 004's a client."""
    try:
        found: Any = json.loads(element)
    except (ValueError, RecursionError):
        return JobPreview()
    if not isinstance(found, dict):
        return JobPreview()
    client = found.get("client_id")
    if isinstance(client, str) and "attempts" in found:
        return JobPreview(client=client)
    if isinstance(found.get("class"), str) and isinstance(found.get("args"), list):
        return JobPreview("sidekiq" if isinstance(found.get("jid"), str) else "resque")
    return JobPreview()


def bytes_or_none(reply: bytes | None) -> bytes | None:
    return reply
