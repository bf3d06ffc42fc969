"""What the history and the dead letters say, as tables: each a function of DataFrames alone.

Nothing here reads or writes, and nothing needs more than Spark Connect has. Hours and minutes are
those of UTC whatever the session's zone is. ``accuracy``: percentiles are exact without one, and
with one the rank is off by 1/accuracy of all values at most, in bounded memory.
"""

from .anomalies import anomalies
from .clients import demanded, fairness
from .dead_letters import contrasts, dead_groups, fingerprinted, payload_fields
from .events import attempts, occurrences
from .paths import critical_paths, requests
from .rates import latency, retries, throughput

__all__ = [
    "anomalies", "attempts", "contrasts", "critical_paths", "dead_groups", "demanded", "fairness",
    "fingerprinted", "latency", "occurrences", "payload_fields", "requests", "retries",
    "throughput",
]  # fmt: skip
