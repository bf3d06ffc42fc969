"""When a step of a queue is called unusual: the numbers of `queries/anomalies.sql`."""

from __future__ import annotations

from typing import Final

THRESHOLD: Final = 3.5
"""robust standard deviations (Iglewicz and Hoaglin, "How to Detect and Handle Outliers", 1993)"""
BASELINE: Final = 30
"""minimum number of steps before any of them is called unusual"""
FLOORS: Final = {"submitted": 5.0, "done": 5.0, "failed": 5.0, "wait_ms": 10.0, "run_ms": 10.0}
"""metric -> minimum distance from the median"""
MIN_SHARE: Final = 0.5
"""minimum distance from the median, as a share of it"""
MAX_GAP_STEPS: Final = 5
"""unusual steps with at most this many steps between them form one span"""
SAMPLES: Final = 5
"""minimum number of entries in a step for its wait or run time to count"""

VALUES: Final[dict[str, str | int | float]] = {
    "threshold": THRESHOLD,
    "baseline": BASELINE,
    "floors": " ".join(f"when metric = '{name}' then {floor}" for name, floor in FLOORS.items()),
    "min_share": MIN_SHARE,
    "max_gap": MAX_GAP_STEPS,
    "samples": SAMPLES,
}
