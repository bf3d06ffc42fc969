"""JSON Schemas (draft 2020-12) of what commands print with ``--json`` and of files they write.

The files are generated (``make reference``). An object may have more fields in a later release.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def schema_names() -> list[str]:
    """The names of all schemas, such as ``queue-details``."""
    found = (path.name for path in files(__name__).iterdir())
    return sorted(name.removesuffix(".json") for name in found if name.endswith(".json"))


def schema(name: str) -> dict[str, Any]:
    """A schema by its name; `KeyError` if there is none."""
    try:
        text = files(__name__).joinpath(f"{name}.json").read_text("utf-8")
    except FileNotFoundError:
        raise KeyError(name) from None
    found: dict[str, Any] = json.loads(text)
    return found
