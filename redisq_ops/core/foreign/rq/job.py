"""A job's record as RQ keeps it: read, and never loaded."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ...model.entry import Failure, State
from ..python_errors import failure_of

MOST = 256 * 1024
"""bytes of a traceback that are unpacked"""
_LOST = re.compile(r"Moved to FailedJobRegistry, due to AbandonedJobError|[Ww]ork-horse terminated")
_SHOWN = ("description", "origin", "status", "timeout", "retries_left", "worker_name")


@dataclass(frozen=True, slots=True)
class Record:
    """Some fields of a job's hash, the size of its pickle, and its latest result."""

    values: Mapping[str, bytes | None]
    size: int
    results: list[Any]

    def text(self, field: str) -> str:
        return (self.values[field] or b"").decode("utf-8", "backslashreplace")

    def number(self, field: str) -> int:
        value = self.values[field] or b""
        return int(value) if value.isdigit() and len(value) < 10 else 0

    def ms(self, field: str) -> int | None:
        return time_ms(self.values[field])

    def shown(self) -> bytes:
        """Shown as the payload: readable fields, and the size of the pickle."""
        fields: dict[str, Any] = {name: self.text(name) for name in _SHOWN if self.values[name]}
        return json.dumps(fields | {"data_bytes": self.size}, ensure_ascii=False).encode()

    def traceback(self) -> str:
        """Of the latest result, or of the job itself (before RQ 1.12)."""
        result = self.results[0][1] if self.results else {}
        packed = result.get(b"exc_string")
        try:
            data = base64.b64decode(packed) if packed else self.values["exc_info"] or b""
            return zlib.decompressobj().decompress(data, MOST).decode("utf-8", "backslashreplace")
        except (ValueError, zlib.error):
            return ""

    def error(self) -> Failure | None:
        found = self.traceback()
        return Failure("AbandonedJobError", found) if _LOST.match(found) else failure_of(found)

    def failures(self, state: State) -> tuple[int, int]:
        """How often it failed, and was lost with its worker."""
        retried, dead = self.number("number_of_retries"), state == "dead"
        lost = int(dead and _LOST.match(self.traceback()) is not None)
        return retried + dead - lost, lost


def time_ms(value: bytes | None) -> int | None:
    """A time, as RQ writes it: UTC, with a fraction or (before 1.0) without."""
    text = (value or b"").decode("utf-8", "backslashreplace")
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return int(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000)
