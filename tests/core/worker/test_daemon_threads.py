"""Threads for functions that may never return."""

import gc
import threading
from concurrent.futures import Future
from threading import Barrier, Event

import pytest

from redisq_ops.core.worker.daemon_threads import DaemonThreads


def ours(name: str = "ours-") -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


def test_as_many_run_at_a_time_as_there_are_threads_and_results_and_errors_come_back() -> None:
    threads, together, later = DaemonThreads(3, "ours"), Barrier(3), Event()
    assert ours() == [], "none before it is needed"

    def meet(n: int, plus: int) -> int:
        together.wait(60)
        later.wait(60)
        return n + plus

    met = [threads.submit(meet, n, plus=1) for n in range(3)]
    waiting: Future[None] = threads.submit(later.wait)  # type: ignore[arg-type]
    assert waiting.cancel(), "it hasn't begun"
    leaving = threads.submit(exit, 3)
    later.set()
    assert [future.result(60) for future in met] == [1, 2, 3]
    with pytest.raises(SystemExit):
        leaving.result(60)
    assert len(ours()) == 3 and all(thread.daemon for thread in ours())
    assert threads.submit(str, 5).result(60) == "5", "each thread goes on"


def test_threads_end_with_their_executor() -> None:
    threads = DaemonThreads(2, "ending")
    assert threads.submit(str, 5).result(60) == "5"
    (thread,) = ours("ending-")
    del threads
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()
