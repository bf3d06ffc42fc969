"""URLs of servers: the options they may have, and how they are shown."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import SplitResult, parse_qs, unquote

_DATABASE = re.compile(r"/?|/[0-9]{1,9}/?")
_RANGES: dict[str, tuple[float, float]] = {
    "db": (0, 10**9 - 1),
    "health_check_interval": (0, 86_400),
    "max_connections": (1, 65_535),
    "protocol": (2, 3),
    "socket_connect_timeout": (0.001, 86_400),
    "socket_read_size": (1, 2**30),
    "socket_timeout": (0.001, 86_400),
    "ssl_min_version": (769, 772),
}
_OPTIONS = {
    *_RANGES, "client_name", "decode_responses", "legacy_responses", "lib_name", "lib_version",
    "password", "retry_on_timeout", "socket_keepalive", "username", "ssl_ca_certs", "ssl_ca_data",
    "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_ciphers",
    "ssl_exclude_verify_flags", "ssl_include_verify_flags", "ssl_keyfile", "ssl_password",
}  # fmt: skip
"""those that redis-py can make of a text: others it takes as well, and fails later"""


_CERTIFICATES = ("required", "optional", "none")


def check_database(path: str) -> None:
    """`ValueError` for the path of a URL that is no number of a database (redis-py takes 0)."""
    if not _DATABASE.fullmatch(unquote(path)):
        raise ValueError(f"{path[1:]!r} is not the number of a database: write …/0")


def check_options(parts: SplitResult, more: Collection[str] = ()) -> None:
    """`ValueError` for an option in the query that there is not, or a value out of its range.

    ``more``: names of options that are not for redis-py.
    """
    for name, values in parse_qs(parts.query, keep_blank_values=True).items():
        if name in more:
            continue
        if name not in _OPTIONS:
            raise ValueError(f"{name!r} is no option")
        if name in _RANGES:
            _check_number(name, values[0])
        elif name == "ssl_cert_reqs" and values[0] not in _CERTIFICATES:
            raise ValueError(f"{name}={values[0]}: {', '.join(_CERTIFICATES)}")


def _check_number(name: str, text: str) -> None:
    least, most = _RANGES[name]
    try:
        number = float(text) if "timeout" in name else int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise ValueError(f"{name}={text}: a number from {least:g} to {most:,}")


_PASSWORD = re.compile(r"(?<=://)([^:/?#@]*:)[^/?#]*(?=@)")
_RAW = re.compile(r"(?<=://)(:|[^:/?#@\[]*:(?!\d+(?:[/?#,]|$)))\S*(?=@)")
"""one with a / ? or # that isn't percent-encoded, so that what follows the colon is no port"""
_SECRET = re.compile(r"([?&][^&=]*password=)[^&#]*", re.IGNORECASE)
"""in the query, where redis-py takes any option: ``password``, ``ssl_password``"""


_PORT = re.compile(
    r"(?<=://)((?:\[[^\]]*\]|[^:/?#@\[\],]*):)(?!\d*(?:[/?#,]|$))[^/?#@]+(?=[/?#]|$)"
)
"""where a URL has no @, what should be a port and is no number: half of a user and password"""
_HOST_PORT = re.compile(r"[^:]*(?::\d*(?:[/?#].*)?)?", re.DOTALL)


def masked_url(url: str) -> str:
    """What was given as a server's URL, without passwords, however wrong it is."""
    if "://" not in url:
        before, at, host = url.rpartition("@")
        name, colon, _ = (before if at else url).partition(":")
        if at:
            url = f"{name}:***@{host}" if colon else f"***@{host}"
        elif not _HOST_PORT.fullmatch(url):
            url = f"{name}:***"
        return _SECRET.sub(r"\1***", url)
    return _PORT.sub(r"\1***", masked(url))


def masked(text: str) -> str:
    """A word of a command line that may have a URL in it, without passwords."""
    if "://" not in text:
        return text
    shown, n = _PASSWORD.subn(r"\1***", text)
    return _SECRET.sub(r"\1***", shown if n else _RAW.sub(r"\1***", text))
