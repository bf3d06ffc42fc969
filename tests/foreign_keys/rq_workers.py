"""RQ's own workers for one burst in a test."""

import rq


class _InTest:
    """Without the thread that listens for RQ's commands, which takes a second to end, and without
    handlers of signals, which would stay in the test's process."""

    def _install_signal_handlers(self) -> None: ...

    def subscribe(self) -> None: ...

    def unsubscribe(self) -> None: ...


class Worker(_InTest, rq.Worker):
    """Runs each job in a process of its own, its work horse."""


class SimpleWorker(_InTest, rq.SimpleWorker):
    """Runs jobs in the test's process."""
