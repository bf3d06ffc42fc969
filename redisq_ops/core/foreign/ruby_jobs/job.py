"""Job records as both programs write them: JSON objects, of which we touch only what is ours.

A record is bytes that belong to the application. What we add (why it failed, how often) replaces
or follows members by name; every other member keeps its exact bytes, so `1.0`, `1e3`, long integers
and escapes arrive as they were sent. Bytes that are no UTF-8 survive too.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from ...model.errors import BadInput, TooLarge
from ...model.keys import _FORBIDDEN, _NAME
from ...model.settings import MAX_PAYLOAD
from ...model.validation import listed, mistaken
from ..json_members import BROKEN, members_of

UNREADABLE = "Redisq::Unreadable"
"""the class of a record of ours in Sidekiq's dead set, around bytes that are no record"""
IdOf = Callable[[bytes], str]
"""a job's id, by its record"""
LOST = "Redisq::LostLease"
"""the error class of a job whose worker was lost too often"""


@dataclass(frozen=True, slots=True)
class Job:
    """A job to put in. ``klass`` is what the other program runs; ``options`` are further members of
    its record (``retry``, ``tags``, …)."""

    klass: str
    args: Sequence[Any] = ()
    jid: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def encoded(self, **members: Any) -> bytes:
        """The record: ``members`` first, then those of the job."""
        if not self.klass or not isinstance(self.klass, str):
            raise BadInput("a job names a class (str): nobody could run it without")
        if isinstance(self.args, (str, bytes, Mapping)) or not isinstance(self.args, Iterable):
            raise BadInput(
                f"job {self.klass}: its arguments are given as a list, not as "
                f"{type(self.args).__name__}"
            )
        whole = {**members, "class": self.klass, "args": list(self.args), **self.options}
        if self.jid is not None:
            whole["jid"] = self.jid
        try:
            text = json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            data = text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise BadInput(f"job {self.klass}: {error}") from error
        if len(data) > MAX_PAYLOAD:
            raise TooLarge(f"job {self.klass} has {len(data):,} bytes, over {MAX_PAYLOAD:,}")
        return data


def jobs_of(given: Iterable[Job]) -> list[Job]:
    """The jobs that a producer passes, as a list; anything else is an error."""
    jobs = listed(given, "jobs")
    for nth, one in enumerate(jobs, 1):
        if not isinstance(one, Job):
            raise mistaken(one, nth, "a Job")
        if not isinstance(one.options, Mapping) or not all(isinstance(o, str) for o in one.options):
            raise BadInput(f"job {nth}: options must be a dict of members by their names")
        if one.jid is not None and not isinstance(one.jid, str):
            raise BadInput(f"job {nth}: jid must be a str, not {type(one.jid).__name__}")
    return jobs


def fields(payload: bytes) -> dict[str, Any] | None:
    """The members of a record; None if it isn't a JSON object."""
    try:
        found = json.loads(payload.decode("utf-8", "surrogateescape"))
    except BROKEN:
        return None
    return found if isinstance(found, dict) else None


def opened(payload: bytes, without: Collection[str]) -> bytes | None:
    """The record without these members and its closing brace: other members can be appended."""
    text = payload.decode("utf-8", "surrogateescape")
    members = members_of(text)
    if members is None:
        return None
    kept = [text[begin:end] for name, begin, _, end in members if name not in without]
    return ("{" + ",".join(kept) + ("," if kept else "")).encode("utf-8", "surrogateescape")


def value(of: Any) -> bytes:
    """A value as JSON for a record; lone surrogates become question marks."""
    text = json.dumps(of, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def digest(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


def unread(record: dict[str, Any] | None) -> bytes | None:
    """The bytes that are no job, out of our record around them; None: the record isn't ours."""
    kept = (record or {}).get("raw_hex")
    try:
        return bytes.fromhex(kept) if isinstance(kept, str) else None
    except ValueError:
        return None


def times_lost(message: Any) -> int:
    """How often the worker of a job was lost, by the message of the error `LOST`."""
    found = re.match(r"its worker was lost (\d{1,9}) times", str(message))
    return int(found[1]) if found else 1


def legal(name: Any) -> TypeGuard[str]:
    """Whether it can be an id, by the rule of `checked_name`."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name)) and not _FORBIDDEN & set(name)


def ms(stamp: Any) -> int | None:
    """A time of a record as ms: seconds with a fraction (Sidekiq up to 7), or integer ms (8)."""
    if isinstance(stamp, bool) or not isinstance(stamp, (int, float)) or not 0 < stamp < 1e14:
        return None
    return int(stamp if stamp > 1e11 else stamp * 1000)


def packed_backtrace(lines: Sequence[str]) -> str:
    """A backtrace as Sidekiq keeps it since 6.0."""
    return base64.b64encode(zlib.compress(value(list(lines)))).decode()


def unpacked_backtrace(kept: Any) -> str:
    """The lines of such a backtrace, or of a list; empty if it can't be read."""
    if isinstance(kept, list):
        return "\n".join(map(str, kept))
    try:
        plain = zlib.decompressobj().decompress(base64.b64decode(kept), 256 * 1024)
        lines = json.loads(plain)
    except (*BROKEN, TypeError, zlib.error):
        return ""
    return "\n".join(map(str, lines)) if isinstance(lines, list) else ""
