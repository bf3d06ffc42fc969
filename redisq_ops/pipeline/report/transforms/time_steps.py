"""Time steps: a timestamp rounded down to the beginning of its step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

MINUTE = 60_000


def step_start_ms(at: str, step_ms: int) -> Column:
    return F.expr(f"unix_millis({at}) - pmod(unix_millis({at}), {int(step_ms)})")


def step_start(at: str, step_ms: int) -> Column:
    return F.timestamp_millis(step_start_ms(at, step_ms))
