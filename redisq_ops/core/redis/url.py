"""URLs of servers: which options they can have, and how to show them without passwords."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

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
    *_RANGES,
    "client_name",
    "decode_responses",
    "legacy_responses",
    "lib_name",
    "lib_version",
    "password",
    "retry_on_timeout",
    "socket_keepalive",
    "username",
    "ssl_ca_certs",
    "ssl_ca_data",
    "ssl_ca_path",
    "ssl_cert_reqs",
    "ssl_certfile",
    "ssl_check_hostname",
    "ssl_ciphers",
    "ssl_exclude_verify_flags",
    "ssl_include_verify_flags",
    "ssl_keyfile",
    "ssl_password",
}
"""options that redis-py can read from text; it accepts others as well and fails later"""


_CERTIFICATES = ("required", "optional", "none")


def check_database(path: str) -> None:
    """Raise ValueError for a path that is no database number (redis-py would use 0)."""
    if not _DATABASE.fullmatch(unquote(path)):
        raise ValueError(f"{path[1:]!r} is not the number of a database: write …/0")


def check_options(parts: SplitResult, more: Collection[str] = ()) -> None:
    """Raise ValueError for an unknown option in the query, or a value out of its range.

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


def unverified(url: str) -> bool:
    """Whether an option in the URL switches off the check of the TLS certificate or its name."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    given = parse_qs(parts.query)
    checks_name = given.get("ssl_check_hostname", ["true"])[0].lower() in ("true", "yes", "1")
    certified = given.get("ssl_cert_reqs", ["required"])[0] != "none"
    return parts.scheme.startswith(("rediss", "valkeys")) and not (certified and checks_name)


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
"""a password with a / ? or # that isn't percent-encoded, so that no port follows the colon"""
_SECRET = re.compile(r"([?&][^&=]*password=)[^&#]*", re.IGNORECASE)
"""passwords in the query: ``password``, ``ssl_password``"""


_PORT = re.compile(
    r"(?<=://)((?:\[[^\]]*\]|[^:/?#@\[\],]*):)(?!\d*(?:[/?#,]|$))[^/?#@]+(?=[/?#]|$)"
)
"""without an @, a port that is no number: probably a user and password"""
_HOST_PORT = re.compile(r"[^:]*(?::\d*(?:[/?#].*)?)?", re.DOTALL)


def masked_url(url: str) -> str:
    """A server's URL without passwords, however malformed it is."""
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
    """A command-line word that may contain a URL, without passwords."""
    if "://" not in text:
        return text
    shown, n = _PASSWORD.subn(r"\1***", text)
    return _SECRET.sub(r"\1***", shown if n else _RAW.sub(r"\1***", text))
