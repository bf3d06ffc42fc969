"""The configuration file: its tables, and its values as text."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from redisq_ops.core.model.bounded_read import bounded_read
from redisq_ops.core.model.errors import BadInput

from .settings import SETTINGS

_VARIABLE = re.compile(r"\$\$|\$\{([^{}]*)\}")
_CONTEXT_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def config_path(environment: Mapping[str, str] = os.environ) -> Path:
    base = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "redisq" / "config.toml"


def read_file(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The settings of the file outside of contexts, and the table of each context."""
    file: dict[str, Any] = {}
    try:
        with path.open("rb") as given:
            file = tomllib.loads(bounded_read(given, str(path)).decode())
    except FileNotFoundError:
        pass
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from error
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    found = table(file.pop("contexts", {}), f"{path} contexts")
    for name in found:
        if not _CONTEXT_NAME.fullmatch(name):
            raise BadInput(
                f"{path} [contexts]: bad name {name!r}: use up to 64 letters, digits, . _ and -"
            )
    return file, {name: table(t, f"{path} contexts.{name}") for name, t in found.items()}


def table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(f"{where} must be a table, not {_kind(value)}")
    return value


def check_keys(table: Mapping[str, Any], where: str) -> None:
    for key in table:
        if key not in SETTINGS and key not in ("redact", "notify"):
            raise BadInput(f"{where}: unknown setting {key!r}")


def text_of(value: Any, where: str, name: str) -> str:
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


def filled(
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
