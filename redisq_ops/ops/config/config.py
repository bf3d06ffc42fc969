"""All settings of one invocation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from redisq_ops.core.model.bounded_read import bounded_read
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import PREFIX
from redisq_ops.core.redis.client import ServerAddress

from ..change.limits import Guard
from ..redaction import NO_REDACTION, Redaction
from .file import check_keys, config_path, read_file, table
from .settings import SETTINGS, TRUE
from .sources import ConfigValue, Sources


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one invocation."""

    values: Mapping[str, ConfigValue]
    context: str | None = None
    context_from: str = "flag"
    redaction: Redaction = NO_REDACTION
    """what is hidden in payloads and errors"""
    redact_from: tuple[str, ...] = ()
    """places of the ``[redact]`` tables"""
    dashboard: Mapping[str, Any] = field(default_factory=dict)
    """the table ``[dashboard]``, which the dashboard checks"""
    notify: Any = None
    """the table ``[notify]``, which `ops.notify` checks; that of the context comes first"""
    notify_from: str = ""
    """its place"""

    def __getitem__(self, name: str) -> str | None:
        return self.values[name].value

    @property
    def read_only(self) -> bool:
        return (self["read_only"] or "").lower() in TRUE

    @property
    def guard(self) -> Guard:
        """The limits of changes."""
        most, rate = self["max_entries"], self["max_rate"]
        return Guard(
            self.read_only,
            self.values["read_only"].origin,
            int(most) if most else None,
            self.values["max_entries"].origin,
            float(rate) if rate else None,
            self.values["max_rate"].origin,
            self.context if self["confirm"] == "name" else None,
        )

    @property
    def prefix(self) -> str:
        """What all our keys begin with."""
        return self["prefix"] or PREFIX

    def server_address(self) -> ServerAddress:
        """Where to connect; reads the password file if there is one."""
        password = self["password"]
        if path := self["password_file"]:
            try:
                with Path(path).expanduser().open("rb") as file:
                    password = bounded_read(file, f"password file {path}").decode().strip()
            except OSError as error:
                raise BadInput(f"can't read password file {path}: {error.strerror}") from error
            except UnicodeDecodeError:  # the error's text quotes the content
                raise BadInput(f"password file {path} is not UTF-8 text") from None
        return ServerAddress(
            self["url"] or "",
            password,
            self["username"],
            self["tls_ca"],
            self["tls_cert"],
            self["tls_key"],
            self["sentinel_username"],
            self["sentinel_password"],
        )

    def display_values(self) -> list[ConfigValue]:
        """Every setting with its origin, secrets masked."""
        values = [
            ConfigValue("context", self.context, self.context_from if self.context else "default")
        ]
        for value in self.values.values():
            text = value.value
            if value.name in ("password", "sentinel_password") and text is not None:
                text = "***"
            elif value.name == "url" and text is not None:
                text = without_password(text)
            values.append(replace(value, value=text))
        origin = ", ".join(self.redact_from) or "default"
        values.append(ConfigValue("redact", str(self.redaction) or None, origin))
        told = self.notify.get("to") if isinstance(self.notify, dict) else None
        names = ", ".join(told) if isinstance(told, dict) else None
        values.append(
            ConfigValue("notify", names or None, self.notify_from if names else "default")
        )
        return values


def load(
    flags: Mapping[str, str | None],
    context: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Config:
    """Read every setting from its sources; `BadInput` names the place of an invalid value.

    ``context``: the flag's value; ``REDISQ_CONTEXT`` if it is None.
    """
    context_from = "flag"
    if context is None and environment.get("REDISQ_CONTEXT"):
        context, context_from = environment["REDISQ_CONTEXT"], "REDISQ_CONTEXT"
    path = config_path(environment)
    file, contexts = read_file(path)
    dashboard = table(file.pop("dashboard", {}), f"{path} dashboard")
    chosen: Mapping[str, Any] = {}
    if context is not None:
        if context not in contexts:
            names = f"; its contexts are {', '.join(contexts)}" if contexts else ""
            raise BadInput(f"there is no context {context!r} in {path}{names}")
        chosen = contexts[context]
    sources = Sources(flags, context, chosen, environment, file, path)
    own = "notify" in chosen
    notify = (chosen if own else file).get("notify")
    notify_from = f"{sources.context_place if own else path} notify"
    redact = []
    for each, where in ((file, str(path)), (chosen, sources.context_place)):
        check_keys(each, where)
        if "redact" in each:
            redact.append((table(each["redact"], f"{where} redact"), where))
    values = {name: sources.value(name) for name in SETTINGS}
    if values["confirm"].value == "name" and context is None:
        raise BadInput(
            f'{values["confirm"].origin}: confirm = "name" needs a context, whose name is '
            "typed: set it in a context or choose one with --context"
        )
    # A bad pattern is an error of every command, before it connects.
    redaction = Redaction.read(redact)
    redacted = tuple(where for _, where in redact)
    return Config(
        values, context, context_from, redaction, redacted, dashboard, notify, notify_from
    )


def without_password(url: str) -> str:
    try:
        return str(ServerAddress(url))
    except ValueError:  # not a URL, and so perhaps a secret
        return "***"
