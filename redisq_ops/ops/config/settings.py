"""The settings: environment variables, defaults, and the check of a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import PREFIX, checked_prefix
from redisq_ops.core.redis.client import DEFAULT_URL

from ..filter.time import per_second

COLORS = ("red", "yellow", "green", "cyan", "blue", "magenta")
TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off", "")
_LABEL_LENGTH = 16

Kind = Literal["text", "file", "prefix", "yes or no", "number", "rate", "confirm", "color", "label"]


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
        "REDISQ_MAX_RATE",
        None,
        "rate",
        "most entries per second of a change; also the default rate",
    ),
    "confirm": Setting(
        "REDISQ_CONFIRM",
        "plain",
        "confirm",
        "`name`: confirm a change by typing the context's name",
    ),
    "label": Setting("REDISQ_LABEL", None, "label", "word in the dashboard's header"),
    "color": Setting("REDISQ_COLOR", None, "color", "its color: " + ", ".join(COLORS)),
}


STRICTEST_WINS: dict[str, Callable[[str], float]] = {
    "read_only": lambda text: text != "true",
    "max_entries": float,
    "max_rate": float,
    "confirm": lambda text: text != "name",
}
"""settings of which the strictest value of all sources holds: the one with the lowest number"""


def checked_value(name: str, text: str, where: str) -> str:
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
            if text.lower() not in TRUE + _FALSE:
                raise BadInput(f"{where}: {name} must be true or false, not {text!r}")
            return str(text.lower() in TRUE).lower()
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
