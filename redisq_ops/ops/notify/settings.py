"""The table ``[notify]`` of the configuration: whom to tell of which trouble, and when.

    [notify]                          # for all recipients; a recipient may say otherwise
    severity = "warning"
    steps = ["0s", "5m", "1h"]

    [notify.to.team]
    url = "${TEAM_CHAT}"              # as apprise writes it: slack://…, mailtos://…

    [notify.to.incidents]
    webhook = "https://hooks.example.org/redisq"
    token = "${INCIDENTS_TOKEN}"
    quiet = "22:00-07:00"
    zone = "Europe/Berlin"

Values of ``url``, ``webhook`` and ``token`` are secrets: no error quotes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from typing import Any, Final, Literal, NotRequired, TypedDict
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from redisq_ops.core.model.errors import BadInput

from ..config.file import filled, table
from ..filter.time import duration_ms
from ..trouble.finding import Severity
from ..typed_json import typed

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_QUIET: Final = re.compile(r"(\d\d:\d\d)-(\d\d:\d\d)")


class _Alike(TypedDict):
    """What can be said for all recipients, too."""

    severity: NotRequired[Literal["warning", "critical"]]
    steps: NotRequired[list[str]]
    calm: NotRequired[str]
    resolved: NotRequired[bool]
    quiet: NotRequired[str]
    zone: NotRequired[str]


class _Own(_Alike):
    url: NotRequired[str]
    webhook: NotRequired[str]
    token: NotRequired[str]


@dataclass(frozen=True, slots=True)
class QuietHours:
    """The hours of each day, by the clocks of a time zone, in which nothing is sent."""

    begin: time
    end: time
    zone: ZoneInfo

    def has(self, now_ms: int) -> bool:
        """Whether this moment is one of them."""
        now = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(self.zone).time()
        if self.begin <= self.end:
            return self.begin <= now < self.end
        return now >= self.begin or now < self.end


@dataclass(frozen=True, slots=True)
class Recipient:
    """Somebody to tell, by ``url`` (for apprise) or by ``webhook``; times in ms."""

    name: str
    url: str | None = field(default=None, repr=False)
    webhook: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    severity: Severity = Severity.WARNING
    """the least severity that is told"""
    steps: tuple[int, ...] = (0, 300_000, 3_600_000)
    """a trouble is told once it has lasted so long"""
    calm_ms: int = 60_000
    """a trouble that is gone for less is the same one when it comes back"""
    resolved: bool = True
    """whether the end of what was told is told"""
    quiet: QuietHours | None = None
    fault: str | None = None
    """why it can't be told anything, as its table or the environment is; the others can"""


def read_recipients(
    given: Any, where: str, environment: Mapping[str, str]
) -> tuple[Recipient, ...]:
    """The recipients of a table ``[notify]``; `BadInput` names the place of a bad value.

    What is bad of one recipient is its `Recipient.fault`.
    """
    notify = dict(table(given, where))
    recipients = table(notify.pop("to", {}), f"{where}.to")
    if not recipients:
        raise BadInput(f"{where}: nobody to tell: add a table [notify.to.NAME]")
    alike = typed(_Alike, notify, where)
    return tuple(
        _recipient_or_fault(name, alike, own, f"{where}.to.{name}", environment)
        for name, own in recipients.items()
    )


def _recipient_or_fault(
    name: str, alike: _Alike, own: Any, where: str, environment: Mapping[str, str]
) -> Recipient:
    try:
        return _recipient(name, alike, typed(_Own, own, where), where, environment)
    except BadInput as error:
        return Recipient(name, fault=str(error))


def _recipient(
    name: str, alike: _Alike, own: _Own, where: str, environment: Mapping[str, str]
) -> Recipient:
    if not _NAME.fullmatch(name):
        raise BadInput(f"{where}: use up to 64 letters, digits, . _ and - in a name")
    values: dict[str, Any] = {**alike, **own}
    found: dict[str, Any] = {
        key: filled(values[key], where, key, environment)[0]
        for key in ("url", "webhook", "token")
        if key in values
    }
    if ("url" in found) == ("webhook" in found) or ("token" in found and "url" in found):
        raise BadInput(f"{where}: expected url, or webhook with or without token")
    if "webhook" in found:
        _check_webhook(found["webhook"], f"{where}.webhook")
    if "severity" in values:
        found["severity"] = Severity[values["severity"].upper()]
    if "steps" in values:
        found["steps"] = tuple(_span(each, f"{where}.steps") for each in values["steps"])
        if not values["steps"] or list(found["steps"]) != sorted(set(found["steps"])):
            raise BadInput(f'{where}.steps: expected growing time spans, as ["0s", "5m", "1h"]')
    if "calm" in values:
        found["calm_ms"] = _span(values["calm"], f"{where}.calm")
    if "resolved" in values:
        found["resolved"] = values["resolved"]
    if values.get("quiet"):  # "" ends the quiet hours of all
        found["quiet"] = _quiet(values["quiet"], values.get("zone", ""), where)
    return Recipient(name, **found)


def _check_webhook(hook: str, where: str) -> None:
    try:
        parts = urlsplit(hook)
        port_is_good = parts.port != 0
    except ValueError:
        port_is_good = False
    if not port_is_good or parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(f"{where}: expected an address that begins with http:// or https://")
    if "@" in parts.netloc:
        raise BadInput(f"{where}: write the password as token, not in the address")


def _span(text: str, where: str) -> int:
    try:
        return duration_ms(text)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error


def _quiet(text: str, zone: str, where: str) -> QuietHours:
    found = _QUIET.fullmatch(text)
    try:
        begin, end = map(time.fromisoformat, found.groups() if found else ())
    except ValueError:
        begin = end = time()
    if begin == end:
        raise BadInput(f'{where}.quiet: expected two times of day, as "22:00-07:00"')
    try:
        return QuietHours(begin, end, ZoneInfo(zone))
    except (ValueError, LookupError, OSError):
        raise BadInput(f'{where}.zone: name the time zone of quiet, as "Europe/Berlin"') from None
