"""The table ``[notify]`` of the configuration: whom to tell of which trouble, and when.

    [notify]                          # for all targets; a target may say otherwise
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
from typing import Any, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from redisq_ops.core.model.errors import BadInput

from ..config.file import filled, table
from ..filter.time import duration_ms
from ..trouble.finding import Severity

_SECRETS: Final = ("url", "webhook", "token")
_ALIKE: Final = ("severity", "steps", "calm", "resolved", "quiet", "zone")
"""what can be said for all targets, too"""
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_QUIET: Final = re.compile(r"(\d\d:\d\d)-(\d\d:\d\d)")


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
class Target:
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


def read_targets(given: Any, where: str, environment: Mapping[str, str]) -> tuple[Target, ...]:
    """The targets of a table ``[notify]``; `BadInput` names the place of a bad value."""
    notify = dict(table(given, where))
    targets = table(notify.pop("to", {}), f"{where}.to")
    _only(notify, _ALIKE, where)
    if not targets:
        raise BadInput(f"{where}: nobody to tell: add a table [notify.to.NAME]")
    return tuple(
        _target(name, notify, table(own, f"{where}.to.{name}"), f"{where}.to.{name}", environment)
        for name, own in targets.items()
    )


def _target(
    name: str,
    alike: Mapping[str, Any],
    own: Mapping[str, Any],
    where: str,
    environment: Mapping[str, str],
) -> Target:
    if not _NAME.fullmatch(name):
        raise BadInput(f"{where}: use up to 64 letters, digits, . _ and - in a name")
    _only(own, (*_SECRETS, *_ALIKE), where)
    found: dict[str, Any] = {
        key: _secret(own[key], where, key, environment) for key in _SECRETS if key in own
    }
    if len(found.keys() & {"url", "webhook"}) != 1:
        raise BadInput(f"{where}: expected url or webhook, one of them")
    if "token" in found and "webhook" not in found:
        raise BadInput(f"{where}: token is for a webhook")
    if hook := found.get("webhook"):
        _check_webhook(hook, f"{where}: webhook")
    values = {**alike, **own}
    if "severity" in values:
        if values["severity"] not in ("warning", "critical"):
            raise BadInput(f"{where}: severity: expected warning or critical")
        found["severity"] = Severity[values["severity"].upper()]
    if "steps" in values:
        found["steps"] = _steps(values["steps"], f"{where}: steps")
    if "calm" in values:
        found["calm_ms"] = _span(values["calm"], f"{where}: calm")
    if "resolved" in values:
        if not isinstance(values["resolved"], bool):
            raise BadInput(f"{where}: resolved: expected true or false")
        found["resolved"] = values["resolved"]
    if values.get("quiet"):  # "" ends the quiet hours of all
        found["quiet"] = _quiet(values["quiet"], values.get("zone"), where)
    return Target(name, **found)


def _secret(value: Any, where: str, key: str, environment: Mapping[str, str]) -> str:
    if not isinstance(value, str) or not value:
        raise BadInput(f"{where}: {key}: expected a text")
    return filled(value, where, key, environment)[0]


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


def _steps(value: Any, where: str) -> tuple[int, ...]:
    expected = 'expected growing time spans, as ["0s", "5m", "1h"]'
    if not isinstance(value, list) or not value:
        raise BadInput(f"{where}: {expected}")
    spans = tuple(_span(each, where) for each in value)
    if list(spans) != sorted(set(spans)):
        raise BadInput(f"{where}: {expected}")
    return spans


def _span(value: Any, where: str) -> int:
    if not isinstance(value, str):
        raise BadInput(f'{where}: expected a time span in quotes, as "5m"')
    try:
        return duration_ms(value)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error


def _quiet(value: Any, zone: Any, where: str) -> QuietHours:
    found = _QUIET.fullmatch(value) if isinstance(value, str) else None
    try:
        begin, end = map(time.fromisoformat, found.groups() if found else ())
    except ValueError:
        raise BadInput(f'{where}: quiet: expected two times of day, as "22:00-07:00"') from None
    try:
        return QuietHours(begin, end, ZoneInfo(zone))
    except (TypeError, ValueError, LookupError, OSError):
        raise BadInput(f'{where}: zone: name the time zone of quiet, as "Europe/Berlin"') from None


def _only(values: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for name in values:
        if name not in names:
            raise BadInput(f"{where}: {name!r} is none of {', '.join(names)}")
