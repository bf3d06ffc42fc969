"""Settings and their sources: flag > context > environment > configuration file > default.

The file is ``$XDG_CONFIG_HOME/redisq/config.toml``, with keys for all commands and
``[contexts.NAME]`` tables for ``--context NAME``. A context comes before the environment, so that
``--context production`` is production whatever ``REDIS_URL`` the shell has. Of a setting that
protects (`STRICTEST_WINS`) the strictest value of all sources holds. ``${NAME}`` in a text of the
file is an environment variable; ``password_file`` names a file. Secrets are never shown.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import PREFIX, checked_prefix
from redisq_ops.core.redis.client import DEFAULT_URL, ServerAddress

from .change.limits import Guard
from .filter.time import per_second
from .redaction import NO_REDACTION, Redaction

COLORS = ("red", "yellow", "green", "cyan", "blue", "magenta")
_LABEL_LENGTH = 16
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")
_VARIABLE = re.compile(r"\$\$|\$\{([^{}]*)\}")
_CONTEXT_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")

Kind = Literal[
    "text", "file", "prefix", "yes or no", "number", "rate", "confirm", "color", "label"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: its environment variable, default, type and description."""

    variable: str
    default: str | None
    kind: Kind
    what: str


SETTINGS: dict[str, Setting] = {
    "url": Setting("REDIS_URL", DEFAULT_URL, "text", "URL of the server"),
    "username": Setting("REDISQ_USERNAME", None, "text", "user name on the server"),
    "password": Setting("REDISQ_PASSWORD", None, "text", "password on the server; safer in a file"),
    "password_file": Setting("REDISQ_PASSWORD_FILE", None, "file", "file with the password"),
    "tls_ca": Setting("REDISQ_TLS_CA", None, "file", "CA certificate"),
    "tls_cert": Setting("REDISQ_TLS_CERT", None, "file", "client certificate"),
    "tls_key": Setting("REDISQ_TLS_KEY", None, "file", "key of the client certificate"),
    "sentinel_username": Setting(
        "REDISQ_SENTINEL_USERNAME", None, "text", "user name on the Sentinels"
    ),
    "sentinel_password": Setting(
        "REDISQ_SENTINEL_PASSWORD", None, "text", "password on the Sentinels"
    ),
    "prefix": Setting("REDISQ_PREFIX", PREFIX, "prefix", "prefix of all keys"),
    "queue": Setting("REDISQ_QUEUE", "default", "text", "queue of commands that name none"),
    "read_only": Setting("REDISQ_READ_ONLY", "false", "yes or no", "refuse all changes"),
    "max_entries": Setting(
        "REDISQ_MAX_ENTRIES", None, "number", "most entries of one change; a larger one is refused"
    ),
    "max_rate": Setting(
        "REDISQ_MAX_RATE", None, "rate", "most entries per second of a change; also the "
        "default rate",
    ),
    "confirm": Setting(
        "REDISQ_CONFIRM", "plain", "confirm", "`name`: confirm a change by typing the context's "
        "name",
    ),
    "label": Setting("REDISQ_LABEL", None, "label", "word in the dashboard's header"),
    "color": Setting("REDISQ_COLOR", None, "color", "its color: " + ", ".join(COLORS)),
}  # fmt: skip


STRICTEST_WINS: dict[str, Callable[[str], float]] = {
    "read_only": lambda text: text != "true",
    "max_entries": float,
    "max_rate": float,
    "confirm": lambda text: text != "name",
}
"""settings of which the strictest value of all sources holds: the one with the lowest number"""


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A setting, its value and the source of the value."""

    name: str
    value: str | None
    origin: str
    others: tuple[tuple[str, str], ...] = ()
    """(value, origin) of less strict sources, for settings of `STRICTEST_WINS`"""


@dataclass(frozen=True, slots=True)
class NamedContext:
    """A context of the file, without secrets; protections are those in force when it is used."""

    name: str
    url: str | None
    """as written, variables not replaced; None: the URL without a context"""
    read_only: bool
    max_entries: int | None
    confirm: str
    label: str | None


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

    def __getitem__(self, name: str) -> str | None:
        return self.values[name].value

    @property
    def read_only(self) -> bool:
        return (self["read_only"] or "").lower() in _TRUE

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

    def server_address(self) -> ServerAddress:
        """Where to connect; reads the password file if there is one."""
        password = self["password"]
        if path := self["password_file"]:
            try:
                password = Path(path).expanduser().read_text(encoding="utf-8").strip()
            except OSError as error:
                raise BadInput(f"can't read password file {path}: {error.strerror}") from error
            except UnicodeDecodeError:  # its text quotes the content
                raise BadInput(f"password file {path} is not UTF-8 text") from None
        return ServerAddress(
            self["url"] or "", password, self["username"],
            self["tls_ca"], self["tls_cert"], self["tls_key"],
            self["sentinel_username"], self["sentinel_password"],
        )  # fmt: skip

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
                text = _without_password(text)
            values.append(replace(value, value=text))
        origin = ", ".join(self.redact_from) or "default"
        values.append(ConfigValue("redact", str(self.redaction) or None, origin))
        return values


def config_path(environment: Mapping[str, str] = os.environ) -> Path:
    base = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "redisq" / "config.toml"


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
    file, contexts = _read(path)
    dashboard = _table(file.pop("dashboard", {}), f"{path} dashboard")
    chosen: Mapping[str, Any] = {}
    if context is not None:
        if context not in contexts:
            names = f"; its contexts are {', '.join(contexts)}" if contexts else ""
            raise BadInput(f"there is no context {context!r} in {path}{names}")
        chosen = contexts[context]
    sources = _Sources(flags, context, chosen, environment, file, path)
    redact = []
    for table, where in ((file, str(path)), (chosen, sources.context_place)):
        _check_keys(table, where)
        if "redact" in table:
            redact.append((_table(table["redact"], f"{where} redact"), where))
    values = {name: sources.value(name) for name in SETTINGS}
    if values["confirm"].value == "name" and context is None:
        raise BadInput(
            f'{values["confirm"].origin}: confirm = "name" needs a context, whose name is '
            "typed: set it in a context or choose one with --context"
        )
    # A bad pattern is an error of every command, before it connects.
    redaction = Redaction.read(redact)
    redacted = tuple(where for _, where in redact)
    return Config(values, context, context_from, redaction, redacted, dashboard)


def contexts(environment: Mapping[str, str] = os.environ) -> list[NamedContext]:
    """The contexts of the file in order of name, the variables of their URLs not replaced."""
    path = config_path(environment)
    named = []
    file, found = _read(path)
    for name, table in sorted(found.items()):
        sources = _Sources({}, name, table, environment, file, path)
        where = sources.context_place
        _check_keys(table, where)
        read_only, most, confirm = (
            sources.value(key).value for key in ("read_only", "max_entries", "confirm")
        )
        label, url = table.get("label"), table.get("url")
        named.append(
            NamedContext(
                name,
                None if url is None else _without_password(str(url)),
                read_only == "true",
                int(most) if most else None,
                confirm or "plain",
                None if label is None else _checked("label", _text(label, where, "label"), where),
            )
        )
    return named


def _read(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The settings of the file outside of contexts, and the table of each context."""
    file: dict[str, Any] = {}
    try:
        file = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        pass
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from error
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    found = _table(file.pop("contexts", {}), f"{path} contexts")
    for name in found:
        if not _CONTEXT_NAME.fullmatch(name):
            raise BadInput(
                f"{path} [contexts]: bad name {name!r}: use up to 64 letters, digits, . _ and -"
            )
    return file, {name: _table(t, f"{path} contexts.{name}") for name, t in found.items()}


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(f"{where} must be a table, not {_kind(value)}")
    return value


def _check_keys(table: Mapping[str, Any], where: str) -> None:
    for key in table:
        if key not in SETTINGS and key != "redact":
            raise BadInput(f"{where}: unknown setting {key!r}")


@dataclass(frozen=True, slots=True)
class _Sources:
    """The sources of settings."""

    flags: Mapping[str, str | None]
    context: str | None
    chosen: Mapping[str, Any]
    """the context's table"""
    environment: Mapping[str, str]
    file: Mapping[str, Any]
    path: Path

    @property
    def context_place(self) -> str:
        return f"{self.path} [contexts.{self.context}]"

    def value(self, name: str) -> ConfigValue:
        """The value in force: the first one, or the strictest for settings that protect."""
        stated, default = self._stated(name), (SETTINGS[name].default, "default")
        if name not in STRICTEST_WINS:
            return ConfigValue(name, *next(stated, default))
        if not (found := list(stated)):
            return ConfigValue(name, *default)
        strictest = min(found, key=lambda pair: STRICTEST_WINS[name](pair[0]))
        return ConfigValue(name, *strictest, tuple(pair for pair in found if pair is not strictest))

    def _stated(self, name: str) -> Iterator[tuple[str, str]]:
        """The (value, origin) of every source that has the setting, in order of precedence."""
        variable = SETTINGS[name].variable
        if (text := self.flags.get(name)) is not None:
            yield _checked(name, text, f"--{name}"), "flag"
        if name in self.chosen:
            place, origin = self.context_place, f"context {self.context}"
            yield self._from_file(name, self.chosen[name], place, origin)
        if text := self.environment.get(variable):
            yield _checked(name, text, variable), variable
        if name in self.file:
            yield self._from_file(name, self.file[name], str(self.path), str(self.path))

    def _from_file(self, name: str, value: Any, where: str, origin: str) -> tuple[str, str]:
        text, used = _filled(_text(value, where, name), where, name, self.environment)
        return _checked(name, text, where), ", ".join([origin, *used])


def _text(value: Any, where: str, name: str) -> str:
    """A value of the file as the environment would have it."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, (str, int, float)):
        text = str(value)
    else:
        raise BadInput(f"{where}: {name} must be one value, not {_kind(value)}")
    if SETTINGS[name].kind != "yes or no" and isinstance(value, bool):
        raise BadInput(f"{where}: {name} can't be {text}: it is not a yes-or-no setting")
    return text


def _kind(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "a table" if isinstance(value, dict) else "a list"
    return repr(value)


def _filled(
    text: str, where: str, name: str, environment: Mapping[str, str]
) -> tuple[str, list[str]]:
    """A text with its ``${VARIABLE}``s replaced, and their names; ``$$`` is a dollar sign."""
    used: list[str] = []

    def fill(match: re.Match[str]) -> str:
        variable = match[1]
        if variable is None:
            return "$"
        if not environment.get(variable):
            raise BadInput(f"{where}: {name}: environment variable {variable!r} is not set")
        used.append(variable)
        return environment[variable]

    return _VARIABLE.sub(fill, text), used


def _checked(name: str, text: str, where: str) -> str:
    """The value in canonical form; `BadInput` names the valid values."""
    kind = SETTINGS[name].kind
    if kind != "file":
        try:
            text.encode()
        except UnicodeEncodeError:
            raise BadInput(f"{where}: {name} must be UTF-8 text") from None
    match kind:
        case "prefix":
            try:
                return checked_prefix(text)
            except BadInput as error:
                raise BadInput(f"{where}: {error}") from None
        case "yes or no":
            if text.lower() not in _TRUE + _FALSE:
                raise BadInput(f"{where}: {name} must be true or false, not {text!r}")
            return str(text.lower() in _TRUE).lower()
        case "number":
            if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) > 0):
                raise BadInput(f"{where}: {name} must be a whole number from 1, not {text!r}")
            return str(int(text))
        case "rate":
            try:
                return str(per_second(text)).removesuffix(".0")
            except BadInput as error:
                raise BadInput(f"{where}: {name}: {error}") from error
        case "confirm":
            choices: tuple[str, ...] = ("plain", "name")
        case "color":
            choices = COLORS
        case "label":
            if not text.isprintable() or not 0 < len(text) <= _LABEL_LENGTH:
                raise BadInput(
                    f"{where}: {name} must have 1 to {_LABEL_LENGTH} printable characters"
                )
            return text
        case _:
            return text
    if text not in choices:
        raise BadInput(f"{where}: {name} must be {' or '.join(choices)}, not {text!r}")
    return text


def _without_password(url: str) -> str:
    try:
        return str(ServerAddress(url))
    except ValueError:  # not a URL, and so perhaps a secret
        return "***"
