"""Plans that nothing of ours would write: their digests are right, and what they say is not."""

import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from redisq_ops.ops.ndjson import line, sealed


def seal(rows: Iterable[dict[str, Any]]) -> bytes:
    """A file of these rows, whatever digests they had."""
    plain = ({name: row[name] for name in row if name != "digest"} for row in rows)
    return b"".join(sealed(map(line, plain)))


def rows_of(file: Path) -> list[dict[str, Any]]:
    """The rows of a sealed file, without its end."""
    return [json.loads(row) for row in file.read_bytes().splitlines()[:-1]]


def warped_row(
    rows: list[dict[str, Any]], rng: random.Random, warp: Callable[[Any, random.Random], Any]
) -> bytes:
    """The file with one row changed."""
    at = rng.randrange(len(rows))
    other = warp(rows[at], rng)
    return seal([*rows[:at], other if isinstance(other, dict) else {}, *rows[at + 1 :]])
