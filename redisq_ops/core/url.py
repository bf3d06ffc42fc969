"""URLs as they may be shown."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"(?<=://)([^:/?#@]*:)[^/?#]*(?=@)")
_RAW = re.compile(r"(?<=://)(:|[^:/?#@\[]*:(?!\d+(?:[/?#,]|$)))\S*(?=@)")
"""one with a / ? or # that isn't percent-encoded, so that what follows the colon is no port"""
_SECRET = re.compile(r"([?&][^&=]*password=)[^&#]*", re.IGNORECASE)
"""in the query, where redis-py takes any option: ``password``, ``ssl_password``"""


def masked(text: str) -> str:
    """A URL, or a word of a command line that has one in it, without passwords."""
    if "://" not in text:
        return text
    shown, n = _PASSWORD.subn(r"\1***", text)
    return _SECRET.sub(r"\1***", shown if n else _RAW.sub(r"\1***", text))
