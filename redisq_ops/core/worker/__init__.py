"""Running a handler against queues: take, keep the leases alive, settle, stop gracefully."""

from .loop import Worker
from .processes import run_processes

__all__ = ["Worker", "run_processes"]
