"""JSON with its numbers as they are written: `json` would turn ``1e400`` into ``Infinity``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


class JsonNumber(str):
    """A number of JSON in its own notation."""

    __slots__ = ()


_quoted: Callable[[str], str] = json.encoder.encode_basestring
_CONSTANTS = {None: "null", True: "true", False: "false"}


def dumps(value: Any) -> str:
    """Like `json.dumps`, with numbers as they were written and characters as they are."""
    if isinstance(value, JsonNumber):
        return value
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        rows = [f"{_quoted(key)}: {dumps(item)}" for key, item in value.items()]
        return f"{{{', '.join(rows)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(dumps, value))}]"
    return _CONSTANTS[value]
