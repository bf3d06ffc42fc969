"""URLs as they may be shown."""

from __future__ import annotations

import re

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
