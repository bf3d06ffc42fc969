"""URLs as they may be shown."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"(?<=://)([^:/?#@]*:)[^/?#]*(?=@)")
_SECRET = re.compile(r"([?&][^&=]*password=)[^&#]*", re.IGNORECASE)
"""in the query, where redis-py takes any option: ``password``, ``ssl_password``"""


def masked(text: str) -> str:
    """A URL, or a word of a command line that has one in it, without passwords."""
    if "://" not in text:
        return text
    return _SECRET.sub(r"\1***", _PASSWORD.sub(r"\1***", text))
