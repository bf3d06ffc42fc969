"""The dashboard's own part of the configuration file.

    [dashboard]
    theme = "light"
    refresh = "2s"
    preview = "closed"
    dead_by = "payload.tenant"

    [dashboard.keys]
    explain = "u"

    [dashboard.columns]
    dead = ["id", "error", "since"]

    [dashboard.filters]
    1 = "error~timeout age>2h"

    [dashboard.alerts]
    notify = ["bell", "osc9"]

    [[dashboard.alerts.check]]
    queues = "mail*"
    critical = ["dead>100"]

Everything is checked when the dashboard starts; `BadInput` names the place of a bad value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from redisq_ops.core.model.errors import BadInput
from redisq_ops.ops.inspect.snapshot import View

from .command.dashboard_commands import refresh_seconds
from .dashboard_settings import NOTIFICATIONS, AlertSettings, DashboardSettings
from .keys import keys
from .screens.preview_pane import PREVIEW_MODES
from .theme import THEMES
from .views import ALL, QueueView

_SECTIONS: Final = (
    "theme",
    "refresh",
    "preview",
    "dead_by",
    "keys",
    "columns",
    "filters",
    "alerts",
)


def read_settings(table: Mapping[str, Any], where: str) -> DashboardSettings:
    """The checked settings of a table; ``where`` names it in errors."""
    _only(table, _SECTIONS, where)
    found: dict[str, Any] = {}
    if "theme" in table:
        found["theme"] = _one_of(table["theme"], THEMES, f"{where}: theme")
    if "refresh" in table:
        found["refresh_s"] = _checked(refresh_seconds, str(table["refresh"]), f"{where}: refresh")
    if "preview" in table:
        found["preview"] = _one_of(table["preview"], PREVIEW_MODES, f"{where}: preview")
    if "dead_by" in table:
        found["dead_by"] = _field(table["dead_by"], f"{where}: dead_by")
    if "keys" in table:
        found["keys"] = _keys(_table(table["keys"], f"{where}.keys"), f"{where}.keys")
    if "columns" in table:
        found["columns"] = _columns(_table(table["columns"], f"{where}.columns"), where)
    if "filters" in table:
        found["filters"] = _filters(_table(table["filters"], f"{where}.filters"), where)
    if "alerts" in table:
        found["alerts"] = _alerts(_table(table["alerts"], f"{where}.alerts"), f"{where}.alerts")
    return DashboardSettings(**found)


def _field(value: Any, where: str) -> str:
    from redisq_ops.ops.groups.group_by import group_by

    if not isinstance(value, str):
        raise BadInput(f"{where}: expected a field, as 'payload.tenant'")
    if value:
        _checked(group_by, value, where)
    return value


def _keys(table: Mapping[str, Any], where: str) -> dict[str, str]:
    bindings = {binding.id: binding for binding in keys.ALL if binding.id}
    _only(table, bindings, where)
    found = {}
    for name, key in table.items():
        if not isinstance(key, str) or not key or " " in key:
            raise BadInput(f"{where}: {name}: expected a key, as 'x', 'f5' or 'ctrl+o'")
        for one in (keys.key_name(part) for part in key.split(",")):
            if bindings[name] in keys.CHANGE and len(one) == 1 and not one.isupper():
                raise BadInput(
                    f"{where}: {name}: a key that changes something takes Shift: {one!r}"
                )
        found[name] = ",".join(keys.key_name(part) for part in key.split(","))
    used = Counter(
        key for name, b in bindings.items() for key in found.get(name, b.key).split(",")
    ) + Counter(keys.TABLE)
    if twice := sorted(key for key, number in used.items() if number > 1):
        raise BadInput(f"{where}: {keys.sign(twice[0])!r} would do two things")
    return found


def _columns(table: Mapping[str, Any], where: str) -> dict[View, frozenset[str]]:
    views: dict[str, type[QueueView]] = {view.name_: view for view in ALL}
    _only(table, views, f"{where}.columns")
    found: dict[View, frozenset[str]] = {}
    for name, shown in table.items():
        view = views[name]
        known = [column.key for column in view.columns]
        place = f"{where}.columns: {name}"
        if not isinstance(shown, list) or not shown:
            raise BadInput(f"{place}: expected a list of columns: {', '.join(known)}")
        for column in shown:
            _one_of(column, known, place)
        found[view.name_] = frozenset(shown)
    return found


def _filters(table: Mapping[str, Any], where: str) -> dict[str, str]:
    from redisq_ops.ops.filter.parser import parse

    _only(table, "123456789", f"{where}.filters")
    for digit, expression in table.items():
        place = f"{where}.filters: {digit}"
        if not isinstance(expression, str) or not expression.strip():
            raise BadInput(f"{place}: expected an expression, as 'error~timeout age>2h'")
        _checked(parse, expression, place)
    return dict(table)


def _alerts(table: Mapping[str, Any], where: str) -> AlertSettings:
    from redisq_ops.ops.check.rules import rules_of

    _only(table, ("notify", "severity", "check"), where)
    notify = table.get("notify", list(NOTIFICATIONS))
    if not isinstance(notify, list):
        raise BadInput(f"{where}: notify: expected a list of {', '.join(NOTIFICATIONS)}")
    for one in notify:
        _one_of(one, NOTIFICATIONS, f"{where}: notify")
    severity = _one_of(
        table.get("severity", "critical"), ("warning", "critical"), f"{where}: severity"
    )
    rules = rules_of(table.get("check", []), f"{where}.check")
    return AlertSettings(rules, frozenset(notify), severity)


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(f"{where} must be a table")
    return value


def _only(table: Mapping[str, Any], names: Any, where: str) -> None:
    for name in table:
        if name not in names:
            raise BadInput(f"{where}: {name!r} is none of {', '.join(names)}")


def _one_of(value: Any, choices: Any, where: str) -> str:
    if not isinstance(value, str) or value not in choices:
        raise BadInput(f"{where}: {value!r} is none of {', '.join(choices)}")
    return value


def _checked(read: Any, text: str, where: str) -> Any:
    try:
        return read(text)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error
