"""Transforms of the history and the dead letters into report tables, as functions of DataFrames.

They read and write nothing and work with Spark Connect. Hours and minutes are in UTC, whatever the
session's time zone. ``accuracy``: None computes exact percentiles; otherwise ranks are off by at
most 1/accuracy of all values, in bounded memory.
"""

from .anomalies import anomalies
from .dead_letters import contrasts, dead_groups, payload_fields
from .delivery_stats import latency, retries, workers
from .events import attempts, changes, entry_events, readable
from .fairness import client_submissions, fairness
from .requests import critical_paths, requests
from .throughput import event_counts, open_entries, throughput, window_totals

__all__ = [
    "anomalies",
    "attempts",
    "changes",
    "client_submissions",
    "contrasts",
    "critical_paths",
    "dead_groups",
    "entry_events",
    "event_counts",
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
