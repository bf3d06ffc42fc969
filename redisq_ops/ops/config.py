"""Where each setting comes from: flag > context > environment > configuration file > default.

The file is ``$XDG_CONFIG_HOME/redisq/config.toml``: plain keys for everybody, and
``[contexts.NAME]`` tables chosen by ``--context``. A context goes before the environment: who asks
for production gets it, whatever ``REDIS_URL`` says in that shell. Settings that protect (`STRICT`)
combine: the strictest of all sources holds. ``${NAME}`` in a text of the file
is the environment's; ``password_file`` names a file. Secrets are never shown.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import PREFIX, checked_prefix
from redisq_ops.core.redis.client import DEFAULT_URL, ServerAddress

from .change.limits import Guard
from .filter.time import per_second

if TYPE_CHECKING:
    from .redaction import Redaction

COLORS = ("red", "yellow", "green", "cyan", "blue", "magenta")
_LABEL = 16
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")
_VARIABLE = re.compile(r"\$\$|\$\{([^{}]*)\}")
_CONTEXT = re.compile(r"[A-Za-z0-9._-]{1,64}")

Kind = Literal[
    "text", "file", "prefix", "yes or no", "number", "rate", "confirm", "color", "label"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setting:
    """One that can be set: its environment variable, what it is without, and what it says."""

    variable: str
    default: str | None
    kind: Kind
    what: str


KNOWN: dict[str, Setting] = {
    "url": Setting("REDIS_URL", DEFAULT_URL, "text", "the server"),
    "username": Setting("REDISQ_USERNAME", None, "text", "who we are there"),
    "password": Setting("REDISQ_PASSWORD", None, "text", "its password; better by a file"),
    "password_file": Setting("REDISQ_PASSWORD_FILE", None, "file", "a file with the password"),
    "tls_ca": Setting("REDISQ_TLS_CA", None, "file", "the authority's certificate"),
    "tls_cert": Setting("REDISQ_TLS_CERT", None, "file", "our certificate"),
    "tls_key": Setting("REDISQ_TLS_KEY", None, "file", "its key"),
    "sentinel_username": Setting("REDISQ_SENTINEL_USERNAME", None, "text", "the Sentinels' user"),
    "sentinel_password": Setting("REDISQ_SENTINEL_PASSWORD", None, "text", "their password"),
    "prefix": Setting("REDISQ_PREFIX", PREFIX, "prefix", "what all keys begin with"),
    "queue": Setting("REDISQ_QUEUE", "default", "text", "the queue where none is named"),
    "read_only": Setting("REDISQ_READ_ONLY", "false", "yes or no", "change nothing"),
    "max_entries": Setting(
        "REDISQ_MAX_ENTRIES", None, "number", "entries one change may touch; more is refused"
    ),
    "max_rate": Setting(
        "REDISQ_MAX_RATE", None, "rate", "entries per second of a change; the rate where none is "
        "given",
    ),
    "confirm": Setting(
        "REDISQ_CONFIRM", "plain", "confirm", "`name`: the context's name is typed to confirm a "
        "change",
    ),
    "label": Setting("REDISQ_LABEL", None, "label", "a word in the dashboard's header"),
    "color": Setting("REDISQ_COLOR", None, "color", "of that word: " + ", ".join(COLORS)),
}  # fmt: skip


STRICT: dict[str, Callable[[str], float]] = {
    "read_only": lambda text: text != "true",
    "max_entries": float,
    "max_rate": float,
    "confirm": lambda text: text != "name",
}
"""settings of which the strictest holds, whatever its source: the one for which this is lowest"""


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A setting, its value, and where that came from."""

    name: str
    value: str | None
    origin: str
    others: tuple[tuple[str, str], ...] = ()
    """(value, origin) of sources that say less strict; only of `STRICT` settings"""


@dataclass(frozen=True, slots=True)
class NamedContext:
    """A context of the file, without secrets; what protects, as strict as it is when in use."""

    name: str
    url: str | None
    """as it is written, variables unfilled; None: that of everybody"""
    read_only: bool
    max_entries: int | None
    confirm: str
    label: str | None


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one invocation."""

    values: Mapping[str, ConfigValue]
    context: str | None = None
    redact: tuple[tuple[Mapping[str, Any], str], ...] = ()
    """tables of what isn't to be shown, and where they stand"""
    context_from: str = "flag"

    def __getitem__(self, name: str) -> str | None:
        return self.values[name].value

    @property
    def read_only(self) -> bool:
        return (self["read_only"] or "").lower() in _TRUE

    @property
    def guard(self) -> Guard:
        """What changes may do here."""
        most, rate = self["max_entries"], self["max_rate"]
        return Guard(
            self.read_only,
            int(most) if most else None,
            self.values["max_entries"].origin,
            float(rate) if rate else None,
            self.values["max_rate"].origin,
            self.context if self["confirm"] == "name" else None,
        )

    @property
    def redaction(self) -> Redaction:
        """What isn't to be shown; a bad pattern is `BadInput`, with its place."""
        from .redaction import Redaction

        return Redaction.read(self.redact)

    def target(self) -> ServerAddress:
        """Where to connect; reads the password file, if one is named."""
        password = self["password"]
        if path := self["password_file"]:
            try:
                password = Path(path).expanduser().read_text(encoding="utf-8").strip()
            except OSError as error:
                raise BadInput(f"password file {path}: {error.strerror}") from error
            except UnicodeDecodeError:  # which says some of what is in it
                raise BadInput(f"password file {path}: not UTF-8") from None
        return ServerAddress(
            self["url"] or "", password, self["username"],
            self["tls_ca"], self["tls_cert"], self["tls_key"],
            self["sentinel_username"], self["sentinel_password"],
        )  # fmt: skip

    def shown(self) -> list[ConfigValue]:
        """Every value with its origin, without secrets."""
        shown = [
            ConfigValue("context", self.context, self.context_from if self.context else "default")
        ]
        for value in self.values.values():
            text = value.value
            if value.name in ("password", "sentinel_password") and text is not None:
                text = "***"
            elif value.name == "url" and text is not None:
                text = _without_password(text)
            shown.append(replace(value, value=text))
        redaction = self.redaction
        origin = ", ".join(where for _, where in self.redact) or "default"
        shown.append(ConfigValue("redact", str(redaction) or None, origin))
        return shown


def config_path(environment: Mapping[str, str] = os.environ) -> Path:
    base = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "redisq" / "config.toml"


def load(
    flags: Mapping[str, str | None],
    context: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Config:
    """Gather every setting. What can't be used is `BadInput`, in a line that says where it stands.

    ``context`` is a flag's word, else ``REDISQ_CONTEXT``.
    """
    came = "flag"
    if context is None and environment.get("REDISQ_CONTEXT"):
        context, came = environment["REDISQ_CONTEXT"], "REDISQ_CONTEXT"
    path = config_path(environment)
    file, contexts = _read(path)
    chosen: Mapping[str, Any] = {}
    if context is not None:
        if context not in contexts:
            known = f"; there are {', '.join(contexts)}" if contexts else ""
            raise BadInput(f"no context {context!r} in {path}{known}")
        chosen = contexts[context]
    redact = []
    for table, where in ((file, str(path)), (chosen, f"{path} [contexts.{context}]")):
        _checked_keys(table, where)
        if "redact" in table:
            redact.append((_table(table["redact"], f"{where} redact"), where))
    values = {}
    for name, known_ in KNOWN.items():
        values[name] = _value(name, known_, flags, chosen, context, environment, file, path)
    if values["confirm"].value == "name" and context is None:
        raise BadInput(
            f'{values["confirm"].origin}: confirm = "name" is for a context: it is the context\'s '
            "name that is typed"
        )
    config = Config(values, context, tuple(redact), came)
    if redact:  # refused before anything is connected to, by commands that show no payload as well
        _ = config.redaction
    return config


def contexts(environment: Mapping[str, str] = os.environ) -> list[NamedContext]:
    """The contexts of the file, by name; of their URLs nothing is filled in."""
    path = config_path(environment)
    named = []
    file, found = _read(path)
    for name, table in found.items():
        _checked_keys(table, f"{path} [contexts.{name}]")
        have = {
            key: _value(key, KNOWN[key], {}, table, name, environment, file, path).value
            for key in ("read_only", "max_entries", "confirm")
        }
        label = None
        if "label" in table:
            where = f"{path} [contexts.{name}]"
            label = _checked("label", KNOWN["label"], _text(table["label"], where, "label"), where)
        url = table.get("url")
        most = have["max_entries"]
        named.append(
            NamedContext(
                name,
                None if url is None else _without_password(str(url)),
                have["read_only"] == "true",
                int(most) if most else None,
                have["confirm"] or "plain",
                label,
            )
        )
    return sorted(named, key=lambda one: one.name)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The file's own table, and those of its contexts."""
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
        if not _CONTEXT.fullmatch(name):
            raise BadInput(f"{path} [contexts]: {name!r}: a name is letters, digits, . _ and -")
    return file, {name: _table(t, f"{path} contexts.{name}") for name, t in found.items()}


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(f"{where} is a table, not {_kind(value)}")
    return value


def _checked_keys(table: Mapping[str, Any], where: str) -> None:
    for key in table:
        if key not in KNOWN and key != "redact":
            raise BadInput(f"{where}: unknown setting {key!r}")


def _value(
    name: str,
    known: Setting,
    flags: Mapping[str, str | None],
    chosen: Mapping[str, Any],
    context: str | None,
    environment: Mapping[str, str],
    file: Mapping[str, Any],
    path: Path,
) -> ConfigValue:
    stated = _stated(name, known, flags, chosen, context, environment, file, path)
    if name not in STRICT:
        text, origin = next(stated, (known.default, "default"))
        return ConfigValue(name, text, origin)
    said = list(stated)
    if not said:
        return ConfigValue(name, known.default, "default")
    strictest = min(said, key=lambda one: STRICT[name](one[0]))
    others = tuple(one for one in said if one is not strictest)
    return ConfigValue(name, *strictest, others)


def _stated(
    name: str,
    known: Setting,
    flags: Mapping[str, str | None],
    chosen: Mapping[str, Any],
    context: str | None,
    environment: Mapping[str, str],
    file: Mapping[str, Any],
    path: Path,
) -> Iterator[tuple[str, str]]:
    """What the sources that have a setting say, and their names, first who goes before others."""
    if (text := flags.get(name)) is not None:
        yield _checked(name, known, text, f"--{name}"), "flag"
    if name in chosen:
        where = f"{path} [contexts.{context}]"
        text, used = _filled(_text(chosen[name], where, name), where, name, environment)
        yield _checked(name, known, text, where), ", ".join([f"context {context}", *used])
    if text := environment.get(known.variable):
        yield _checked(name, known, text, known.variable), known.variable
    if name in file:
        where = str(path)
        text, used = _filled(_text(file[name], where, name), where, name, environment)
        yield _checked(name, known, text, where), ", ".join([where, *used])


def _text(value: Any, where: str, name: str) -> str:
    """A setting as it would stand in the environment."""
    if isinstance(value, bool):
        said = str(value).lower()
    elif isinstance(value, (str, int, float)):
        said = str(value)
    else:
        raise BadInput(f"{where}: {name} is one value, not {_kind(value)}")
    kind = KNOWN[name].kind
    if kind != "yes or no" and isinstance(value, bool):
        raise BadInput(f"{where}: {name} is not {said}: it is no yes or no")
    return said


def _kind(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "a table" if isinstance(value, dict) else "a list"
    return f"{value!r}"


def _filled(
    text: str, where: str, name: str, environment: Mapping[str, str]
) -> tuple[str, list[str]]:
    """A text with its ``${VARIABLE}``s filled in, and their names; ``$$`` is a dollar sign."""
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


def _checked(name: str, known: Setting, text: str, where: str) -> str:
    """The value in its one form, or a line that says what it may be."""
    if known.kind != "file":
        try:
            text.encode()
        except UnicodeEncodeError:
            raise BadInput(f"{where}: {name} is not UTF-8") from None
    match known.kind:
        case "prefix":
            try:
                return checked_prefix(text)
            except BadInput as error:
                raise BadInput(f"{where}: {error}") from None
        case "yes or no":
            if text.lower() not in _TRUE + _FALSE:
                raise BadInput(f"{where}: {name} is true or false, not {text!r}")
            return str(text.lower() in _TRUE).lower()
        case "number":
            if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) > 0):
                raise BadInput(f"{where}: {name} is a number from 1, not {text!r}")
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
            if not text.isprintable() or not 0 < len(text) <= _LABEL:
                raise BadInput(f"{where}: {name} is a word of up to {_LABEL} characters")
            return text
        case _:
            return text
    if text not in choices:
        raise BadInput(f"{where}: {name} is {' or '.join(choices)}, not {text!r}")
    return text


def _without_password(url: str) -> str:
    try:
        return str(ServerAddress(url))
    except ValueError:  # not a URL at all, and so perhaps a secret
        return "***"
