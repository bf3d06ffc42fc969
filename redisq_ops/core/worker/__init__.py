"""The worker: takes entries, runs a handler for each, renews leases, settles, stops gracefully."""

from .loop import Worker
from .processes import run_processes

__all__ = ["Worker", "run_processes"]
