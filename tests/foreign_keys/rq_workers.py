"""RQ's own workers for one burst in a test."""

import rq


class _NoCommands:
    """Without the thread that listens for RQ's commands: it takes a second to end."""

    def subscribe(self) -> None: ...

    def unsubscribe(self) -> None: ...


class Worker(_NoCommands, rq.Worker):
    """Runs each job in a process of its own, its work horse."""


class SimpleWorker(_NoCommands, rq.SimpleWorker):
    """Runs jobs in the test's process."""
