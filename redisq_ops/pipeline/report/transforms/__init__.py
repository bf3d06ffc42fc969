"""Transforms of the history and the dead letters into report tables, as functions of DataFrames.

They read and write nothing and work with Spark Connect. Hours and minutes are in UTC, whatever the
session's time zone. ``accuracy``: None computes exact percentiles; otherwise ranks are off by at
most 1/accuracy of all values, in bounded memory.
"""

from .anomalies import anomalies
from .dead_letters import contrasts, dead_groups, payload_fields
from .delivery_stats import latency, open_entries, retries, throughput, window_totals, workers
from .events import attempts, changes, entry_events, readable
from .fairness import client_submissions, fairness
from .requests import critical_paths, requests

__all__ = [
    "anomalies",
    "attempts",
    "changes",
    "client_submissions",
    "contrasts",
    "critical_paths",
    "dead_groups",
    "entry_events",
    "fairness",
    "latency",
    "open_entries",
    "payload_fields",
    "readable",
    "requests",
    "retries",
    "throughput",
    "window_totals",
    "workers",
]
