import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from itertools import count

import pytest
import redis

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import BadInput, Unreachable
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work
from redisq_ops.core.worker.health import Endpoint, parse_address
from redisq_ops.core.worker.lease_reclaimer import LeaseReclaimer, Ping, answers

GONE = "10.0.0.7:7001"


class Net:
    """Who answers pings, and who was asked."""

    def __init__(self, *alive: str) -> None:
        self.alive = set(alive)
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> bool:
        self.asked.append(f"{host}:{port}")
        return f"{host}:{port}" in self.alive


@pytest.fixture
def queue(client: redis.Redis) -> RequestQueue[redis.Redis]:
    queue = RequestQueue(client, "mail")
    queue.submit([b""] * 10, id="r1", limit=100)
    return queue


def _monitor(queue: RequestQueue[redis.Redis], ping: Ping) -> LeaseReclaimer:
    """A monitor for which ten seconds pass at each look at the clock."""
    return LeaseReclaimer(queue, ping, count(0, 10).__next__)


def pending(queue: RequestQueue[redis.Redis]) -> dict[str, str | None]:
    return {entry.id: entry.consumer for entry in queue.page("pending").entries}


def test_the_work_of_the_dead_is_brought_back_before_its_lease_ends(
    queue: RequestQueue[redis.Redis], caplog: pytest.LogCaptureFixture
) -> None:
    queue.take(3, consumer=GONE)
    monitor = _monitor(queue, Net())
    assert [monitor.look() for _ in range(3)] == [{}, {}, {GONE: 3}]
    assert queue.counts().waiting == 10
    again = queue.take(10, consumer="other")
    attempts = {delivery.id: (delivery.lost, delivery.attempt) for delivery in again.deliveries}
    assert [attempts[f"r1/{n}"] for n in (1, 2, 3, 4)] == [(1, 2)] * 3 + [(0, 1)]
    assert queue.invariants() == []
    assert [r.getMessage() for r in caplog.records] == [f"{GONE} is gone: 3 entries brought back"]


def test_its_late_result_changes_nothing(queue: RequestQueue[redis.Redis]) -> None:
    (delivery,) = queue.take(1, consumer=GONE).deliveries
    monitor = _monitor(queue, Net())
    for _ in range(3):
        monitor.look()
    queue.take(10, consumer="other")
    assert queue.settle([Settlement(delivery, "ack")]) == ["stale"]


def test_an_entry_that_kills_its_workers_is_dead_in_the_end(
    queue: RequestQueue[redis.Redis],
) -> None:
    monitor = _monitor(queue, Net())
    for _ in range(3):
        queue.take(10, consumer=GONE)
        for _ in range(3):
            monitor.look()
    assert (queue.counts().dead, queue.counts().waiting) == (10, 0)


def test_who_answers_once_starts_afresh(queue: RequestQueue[redis.Redis]) -> None:
    queue.take(3, consumer=GONE)
    net = Net()
    monitor = _monitor(queue, net)
    monitor.look()
    monitor.look()
    net.alive = {GONE}
    monitor.look()
    net.alive = set()
    assert [monitor.look() for _ in range(3)] == [{}, {}, {GONE: 3}]


@pytest.mark.parametrize("sign", ["renewed", "settled", "taken"])
def test_any_sign_of_life_counts(queue: RequestQueue[redis.Redis], sign: str) -> None:
    first, *_ = queue.take(3, consumer=GONE).deliveries
    monitor = _monitor(queue, Net())
    monitor.look()
    monitor.look()
    if sign == "renewed":
        time.sleep(0.002)
        assert queue.extend([first]) == [True]
    elif sign == "settled":
        queue.settle([Settlement(first, "ack")])
    else:
        queue.take(1, consumer=GONE)
    assert [monitor.look() for _ in range(2)] == [{}, {}]
    assert len(monitor.look()) == 1


def test_others_are_left_alone(queue: RequestQueue[redis.Redis]) -> None:
    queue.take(2, consumer="laptop.4711")
    queue.take(2, consumer="10.0.0.8:7001")
    queue.take(2, consumer=GONE)
    net = Net("10.0.0.8:7001")
    monitor = _monitor(queue, net)
    for _ in range(4):
        monitor.look()
    assert sorted(pending(queue).values(), key=str) == ["10.0.0.8:7001"] * 2 + ["laptop.4711"] * 2
    assert set(net.asked) == {"10.0.0.8:7001", GONE}


def test_what_another_has_taken_meanwhile_is_left_to_it(queue: RequestQueue[redis.Redis]) -> None:
    class Meanwhile(Net):
        """While the last ping is out, the entry comes back and is taken anew."""

        def __call__(self, host: str, port: int) -> bool:
            if super().__call__(host, port) is False and len(self.asked) == 3:
                time.sleep(0.002)
                queue.move(
                    "op", 1, ["r1/1"], source="pending", target="waiting", high_water_ms=2**52
                )
                queue.take(10, consumer="other")
            return False

    queue.take(1, consumer=GONE)
    monitor = _monitor(queue, Meanwhile())
    assert [monitor.look() for _ in range(3)] == [{}, {}, {}]
    assert pending(queue)["r1/1"] == "other"


def test_a_lease_renewed_during_the_last_ping_is_left_alone(
    queue: RequestQueue[redis.Redis],
) -> None:
    (delivery,) = queue.take(1, consumer=GONE).deliveries

    class Late(Net):
        def __call__(self, host: str, port: int) -> bool:
            if super().__call__(host, port) is False and len(self.asked) == 3:
                time.sleep(0.002)
                assert queue.extend([delivery]) == [True]
            return False

    monitor = _monitor(queue, Late())
    assert [monitor.look() for _ in range(5)] == [{}] * 5
    assert monitor.look() == {GONE: 1}


def test_a_worker_behind_a_firewall_has_time_to_renew_a_long_lease(
    queue: RequestQueue[redis.Redis],
) -> None:
    """It renews a lease of a minute after 20 s, later than three pings take."""
    queue.take(1, consumer=GONE, lease=60)
    # Two looks at the clock each time: for the silence, and whether it is long enough.
    monitor = LeaseReclaimer(queue, Net(), iter((0, 0, 6, 12, 18, 24, 31)).__next__)
    assert [monitor.look() for _ in range(6)] == [{}] * 5 + [{GONE: 1}]


def test_a_monitor_outlives_an_outage_of_the_server(
    queue: RequestQueue[redis.Redis], caplog: pytest.LogCaptureFixture
) -> None:
    stop = threading.Event()

    class Down(LeaseReclaimer):
        looks = 0

        def look(self) -> dict[str, int]:
            self.looks += 1
            if self.looks == 3:
                stop.set()
            raise Unreachable("connection refused")

    monitor = Down(queue)
    monitor.run(stop, 0.001)
    assert monitor.looks == 3
    assert {r.getMessage() for r in caplog.records} == {
        "can't look for dead workers: connection refused"
    }


def test_more_than_a_page_is_brought_back(client: redis.Redis) -> None:
    queue = RequestQueue(client, "many")
    queue.submit([b""] * 250, id="r1", limit=1000)
    queue.take(250, consumer=GONE)
    monitor = _monitor(queue, Net())
    assert [monitor.look() for _ in range(3)] == [{}, {}, {GONE: 250}]
    assert queue.counts().waiting == 250


# --- a worker's endpoint --------------------------------------------------------------------------


@pytest.fixture
def held(queue: RequestQueue[redis.Redis]) -> Iterator[Worker]:
    """A worker with an endpoint, holding an entry until the test ends."""
    go, began = threading.Event(), threading.Event()

    def handle(_: Work) -> None:
        began.set()
        go.wait()

    worker = Worker(queue, handle, ping="127.0.0.1:0")
    thread = threading.Thread(target=worker.run)
    thread.start()
    began.wait()
    yield worker
    go.set()
    worker.stop()
    thread.join()


def test_a_worker_is_found_under_its_name(held: Worker, queue: RequestQueue[redis.Redis]) -> None:
    monitor = _monitor(queue, answers)
    assert [monitor.look() for _ in range(4)] == [{}] * 4
    assert pending(queue) == {"r1/1": held.consumer}
    connection = HTTPConnection(held.consumer, timeout=5)
    connection.request("GET", "/healthz")
    reply = connection.getresponse()
    body = reply.read()
    assert (reply.status, body.count(b"\n")) == (200, 1)
    said = {"consumer": held.consumer, "queues": ["mail"], "held": 1}
    assert json.loads(body) == said
    connection.request("GET", "/")
    assert connection.getresponse().status == 404
    connection.close()


def test_a_port_where_nobody_listens_is_silent(queue: RequestQueue[redis.Redis]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        name = f"127.0.0.1:{taken.getsockname()[1]}"
    queue.take(2, consumer=name)
    monitor = _monitor(queue, answers)
    assert [monitor.look() for _ in range(3)] == [{}, {}, {name: 2}]


def test_rude_callers_do_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = Endpoint("127.0.0.1:0", lambda: {"ok": True})
    address = endpoint.address
    with caplog.at_level(logging.DEBUG):
        socket.create_connection(address).close()
        with socket.create_connection(address) as caller:
            caller.sendall(b"\xff" * 5000 + b"\n")
            assert caller.recv(100).startswith(b"HTTP/1.0 404")
    endpoint.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_an_endpoint_that_cannot_be_had_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match="Address already in use"):
            Endpoint(f"127.0.0.1:{port}", dict)
    with pytest.raises(BadInput, match="host:port"):
        Endpoint("7001:here", dict)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("10.0.0.7:7001", ("10.0.0.7", 7001)),
        ("web-1.example.org:80", ("web-1.example.org", 80)),
        ("[::1]:7001", ("::1", 7001)),
        ("laptop.4711", None),
        ("laptop:70000", None),
        ("a:b:1", None),
        ("laptop:", None),
    ],
)
def test_which_consumers_are_addresses(name: str, address: tuple[str, int] | None) -> None:
    assert parse_address(name) == address
