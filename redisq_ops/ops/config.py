"""Where each setting comes from: flag > environment > configuration file > default.

The file is ``$XDG_CONFIG_HOME/redisq/config.toml``: plain keys for everybody, and
``[contexts.NAME]`` tables chosen by ``--context``. Secrets are never kept as plain values in
it by us and never shown; ``password_file`` names a file instead.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redisq_ops.core.connect import DEFAULT_URL, Target
from redisq_ops.core.errors import BadInput
from redisq_ops.core.keys import PREFIX

_KNOWN: dict[str, tuple[str, str | None]] = {
    # setting -> (environment variable, default)
    "url": ("REDIS_URL", DEFAULT_URL),
    "username": ("REDISQ_USERNAME", None),
    "password": ("REDISQ_PASSWORD", None),
    "password_file": ("REDISQ_PASSWORD_FILE", None),
    "tls_ca": ("REDISQ_TLS_CA", None),
    "tls_cert": ("REDISQ_TLS_CERT", None),
    "tls_key": ("REDISQ_TLS_KEY", None),
    "prefix": ("REDISQ_PREFIX", PREFIX),
    "queue": ("REDISQ_QUEUE", "default"),
    "read_only": ("REDISQ_READ_ONLY", "false"),
}


@dataclass(frozen=True, slots=True)
class Value:
    """A setting, its value, and where that came from."""

    name: str
    value: str | None
    origin: str


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one invocation."""

    values: Mapping[str, Value]

    def __getitem__(self, name: str) -> str | None:
        return self.values[name].value

    @property
    def read_only(self) -> bool:
        return (self["read_only"] or "").lower() in ("1", "true", "yes", "on")

    def target(self) -> Target:
        """Where to connect; reads the password file, if one is named."""
        password = self["password"]
        if path := self["password_file"]:
            try:
                password = Path(path).expanduser().read_text(encoding="utf-8").strip()
            except OSError as error:
                raise BadInput(f"password file {path}: {error.strerror}") from error
        return Target(
            self["url"] or DEFAULT_URL, password, self["username"],
            self["tls_ca"], self["tls_cert"], self["tls_key"],
        )  # fmt: skip

    def shown(self) -> list[Value]:
        """Every value with its origin, without secrets."""
        shown = []
        for value in self.values.values():
            text = value.value
            if value.name == "password" and text is not None:
                text = "***"
            elif value.name == "url" and text is not None:
                text = str(Target(text))
            shown.append(Value(value.name, text, value.origin))
        return shown


def config_path(environment: Mapping[str, str] = os.environ) -> Path:
    base = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "redisq" / "config.toml"


def load(
    flags: Mapping[str, str | None],
    context: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Config:
    """Gather every setting; unknown keys in the file are refused, with the line that says so."""
    path = config_path(environment)
    file: dict[str, Any] = {}
    if path.is_file():
        try:
            file = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            raise BadInput(f"{path}: {error}") from error
    contexts = file.pop("contexts", {})
    chosen: dict[str, Any] = {}
    if context is not None:
        if context not in contexts:
            raise BadInput(f"no context {context!r} in {path}")
        chosen = contexts[context]
    for table, where in ((file, str(path)), (chosen, f"{path} [contexts.{context}]")):
        for key in table:
            if key not in _KNOWN:
                raise BadInput(f"{where}: unknown setting {key!r}")
    values = {}
    for name, (variable, default) in _KNOWN.items():
        if flags.get(name) is not None:
            values[name] = Value(name, flags[name], "flag")
        elif name in chosen and context is not None:
            values[name] = Value(name, _text(chosen[name]), f"context {context}")
        elif environment.get(variable):
            values[name] = Value(name, environment[variable], variable)
        elif name in file:
            values[name] = Value(name, _text(file[name]), str(path))
        else:
            values[name] = Value(name, default, "default")
    return Config(values)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
