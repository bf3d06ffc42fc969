"""What an expression means on a real server: the same entries shown, counted and acted on."""

import json
import os
import pty
import select as polling
import signal
import subprocess
import time
from typing import Any

import pytest
import redis

from redisq_ops.cli.output import rate_limited
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Failure, Settlement, State
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet, ShardedDelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.sharded import ShardedRequestQueue
from redisq_ops.core.redis.operation import Call, Round, run
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.scope import select_entries
from redisq_ops.ops.filter.filter import Filter, match_pattern
from redisq_ops.ops.filter.parser import parse
from redisq_ops.ops.filter.scan import PAGE, Scan
from redisq_ops.ops.filter.selection import select

from ...changes import entry_change
from ...command_line import Redisq, dead_letters, everywhere
from ...model.wire import picture

REGIONS = ("eu", "us", "ap")


def orders(client: redis.Redis, name: str = "mail") -> RequestQueue[redis.Redis]:
    """Two requests of 30 dead letters, priorities 10 and 60; payloads JSON but for the last."""
    queue = RequestQueue(client, name)
    for id, priority in (("fast", 10), ("slow", 60)):
        rows = [
            json.dumps({"region": REGIONS[n % 3], "n": n, "pad": "x" * n}).encode()
            for n in range(1, 30)
        ]
        queue.submit([*rows, b"no json \xff"], id=id, limit=1000, priority=priority)
    nth = 0
    while taken := queue.take(500, consumer="w1").deliveries:
        ends = []
        for delivery in taken:
            nth += 1
            error = Failure("Timeout" if nth % 2 else "Disk", f"entry {delivery.id} failed")
            ends.append(Settlement(delivery, "reject", error.encoded()))
        queue.settle(ends)
    return queue


def chosen(
    client: redis.Redis, queue: Any, text: str, state: State = "dead", **more: Any
) -> set[str]:
    return set(run(client, select(queue, state, Filter(where=parse(text), **more))).ids())


def commands(client: Any, description: Any) -> list[Call[Any]]:
    """Run it, and write down what was asked of the server."""
    asked: list[Call[Any]] = []
    coroutine = description
    calls: Round = coroutine.send(None)
    try:
        while True:
            asked += calls
            replies = []
            for call in calls:
                replies.append(client.execute_command(*call.command, NEVER_DECODE=True))
            calls = coroutine.send(replies)
    except StopIteration:
        return asked


def names(asked: list[Call[Any]]) -> set[str]:
    return {str(call.command[0]) for call in asked}


# --- what it means -------------------------------------------------------------------------------


def test_expressions_over_payloads_priorities_and_errors(client: redis.Redis) -> None:
    queue = orders(client)
    every = {f"{id}/{n}" for id in ("fast", "slow") for n in range(1, 31)}
    eu = {f"{id}/{n}" for id in ("fast", "slow") for n in range(3, 30, 3)}
    fast = {id for id in every if id.startswith("fast")}
    last = {"fast/30", "slow/30"}
    assert chosen(client, queue, "state:dead") == every
    assert chosen(client, queue, "payload.region=eu") == eu
    assert chosen(client, queue, "payload.region!=eu") == every - eu - last
    assert chosen(client, queue, "-payload.region=eu") == every - eu
    assert chosen(client, queue, "payload.n>=28") == {"fast/28", "fast/29", "slow/28", "slow/29"}
    assert chosen(client, queue, "payload~json -has:payload.n") == last
    assert chosen(client, queue, "priority<50") == fast
    assert chosen(client, queue, "priority=60 payload.n=1") == {"slow/1"}
    assert chosen(client, queue, "request=slow number>28") == {"slow/29", "slow/30"}
    assert chosen(client, queue, "size<12") == last
    assert chosen(client, queue, "queue=mail kind=request") == every
    assert chosen(client, queue, "queue=news") == set()
    timeouts = chosen(client, queue, "error.type=Timeout")
    assert len(timeouts) == 30
    assert chosen(client, queue, 'error~"^Disk"') == every - timeouts
    assert chosen(client, queue, "Timeout") == timeouts
    assert chosen(client, queue, "Timeout", match=match_pattern("fast")) == timeouts & fast
    assert chosen(client, queue, "age<1h attempts=1 lost=0") == every
    assert chosen(client, queue, "reason=rejected age>1h") == set()


def test_clients_and_times_in_other_kinds(client: redis.Redis) -> None:
    fair: FairQueue[redis.Redis] = FairQueue(client, "mail")
    fair.submit("acme", [b"a", b"b"])
    fair.submit("globex", [b"c"])
    assert len(chosen(client, fair, "client=acme", "waiting")) == 2
    assert len(chosen(client, fair, "client!=acme", "waiting")) == 1
    clock = FakeClock()
    delay: DelaySet[redis.Redis] = DelaySet(client, "later", clock=clock)
    delay.schedule([("e1", b"x")], after=60)
    delay.schedule([("e2", b"x")], after=7200)
    assert chosen(client, delay, "ready<5m", "delayed") == {"e1"}
    assert chosen(client, delay, "ready>1h", "delayed") == {"e2"}
    clock.advance(61)
    assert chosen(client, delay, "ready<0s", "waiting") == {"e1"}


def test_leases(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = RequestQueue(client, "mail", clock=clock)
    queue.submit([b"x"] * 3, id="r1", limit=3)
    queue.take(1, consumer="w1", lease=10)
    clock.advance(9)
    queue.take(1, consumer="w2", lease=60)
    assert chosen(client, queue, "lease<5s", "pending") == {"r1/1"}
    assert chosen(client, queue, "consumer=w2 age<5s", "pending") == {"r1/2"}
    clock.advance(2)
    assert chosen(client, queue, "lease<0s", "pending") == {"r1/1"}


# --- what it costs -------------------------------------------------------------------------------


def test_payloads_are_read_only_if_the_expression_needs_them(client: redis.Redis) -> None:
    queue = orders(client)
    without = commands(client, select(queue, "dead", Filter(where=parse("error~Disk age<9d"))))
    assert "XRANGE" not in names(without)
    with_ = commands(client, select(queue, "dead", Filter(where=parse("payload.n=1"))))
    assert sum(call.command[0] == "XRANGE" for call in with_) == 60


def test_priorities_are_read_once_per_request_and_only_if_needed(client: redis.Redis) -> None:
    queue = orders(client)
    without = commands(client, select(queue, "dead", Filter(where=parse("request~s"))))
    records = {queue.keys["r_"] + id for id in ("fast", "slow")}
    assert not [call for call in without if call.key in records]
    with_ = commands(client, select(queue, "dead", Filter(where=parse("priority=10"))))
    assert sorted(str(call.key) for call in with_ if call.key in records) == sorted(records)


def test_ids_and_requests_are_read_directly(client: redis.Redis) -> None:
    queue = dead_letters(client, 1200)
    queue.submit([b"x"] * 3, id="r2")
    taken = queue.take(3, consumer="w1").deliveries
    queue.settle([Settlement(d, "reject", b"{}") for d in taken[:2]])
    for text, found, scanned in (
        ("id=r1/5,r1/77,r1/9999 age<9d", {"r1/5", "r1/77"}, 3),
        ("request=r2", {"r2/1", "r2/2"}, 3),
        ("(request=r2 number=2) id=r2/1,r2/2", {"r2/2"}, 2),
        ("id=r1/5 or id=r1/6", {"r1/5", "r1/6"}, 1202),
        ("-id=r2/1 request=r2", {"r2/2"}, 3),
        ("request=nope", set(), 0),
        ("id=r1/5,r1/5", {"r1/5"}, 1),
    ):
        picked = run(client, select(queue, "dead", Filter(where=parse(text))))
        assert set(picked.ids()) == found, text
        assert (picked.count, picked.scanned) == (len(found), scanned), text
        assert picked.elsewhere == []
    whole = run(client, select(queue, "dead", Filter(where=parse("request=r1"))))
    assert (whole.count, whole.scanned) == (1200, 1202)  # more than half of it: looked through


def test_reads_by_id_and_scans_find_the_same(client: redis.Redis) -> None:
    queue = everywhere(client)
    queue.submit([b"x"] * 40, id="r2", limit=40)
    taken = queue.take(500, consumer="w9").deliveries
    queue.settle([Settlement(d, "reject", b"{}") for d in taken if d.id.startswith("r2")])
    states: tuple[State, ...] = ("waiting", "pending", "delayed", "dead", "trash")
    for state in states:
        for direct, through in (
            ("request=r1", "request~^r1$"),
            ("id=r1/1,r1/2,r1/3", "^r1/[123]$"),
        ):
            assert chosen(client, queue, direct, state) == chosen(client, queue, through, state)


def test_window_of_first_or_latest_entries(client: redis.Redis) -> None:
    queue = dead_letters(client, 1203)
    order = run(client, select(queue, "dead", Filter())).ids()
    for window, ids, complete in (
        (10, order[:10], False),
        (700, order[:700], False),
        (1203, order, True),
        (9999, order, True),
        (-10, order[-10:], False),
        (-700, order[-700:], False),
        (-1203, order, True),
        (-9999, order, True),
    ):
        picked = run(client, select(queue, "dead", Filter(window=window)))
        assert picked.ids() == ids and picked.complete is complete, window
        assert (picked.scanned, picked.total) == (len(ids), 1203)
        assert picked.remarks == (f"examined {len(ids):,} of 1,203",)
        some = Filter(window=window, where=parse("id=*7 or id=r1/1"))
        some_ids = run(client, select(queue, "dead", some)).ids()
        assert some_ids == [id for id in ids if id.endswith("7") or id == "r1/1"]
    # An id behind the window isn't looked up: the window is what was output.
    named = Filter(window=10, where=parse(f"id={order[-1]}"))
    assert run(client, select(queue, "dead", named)).ids() == []
    with pytest.raises(BadInput, match="waiting entries have no latest ones"):
        run(client, select(queue, "waiting", Filter(window=-10)))


def test_sharded_state_is_scanned_as_one(client: redis.Redis) -> None:
    later = ShardedDelaySet(client, "later", shards=4)
    later.schedule([(f"e{n}", b'{"n": %d}' % n) for n in range(900)], after=60)
    order = run(client, select(later, "delayed", Filter())).ids()
    assert len(set(order)) == 900
    for window in (600, -600):
        picked = run(client, select(later, "delayed", Filter(window=window)))
        assert set(picked.ids()) == set(order[:600] if window > 0 else order[-600:])
        assert (picked.count, picked.total) == (600, 900)
    assert chosen(client, later, "payload.n<3 or id=e77", "delayed") == {"e0", "e1", "e2", "e77"}
    assert chosen(client, later, "id=e5,e899,nope", "delayed") == {"e5", "e899"}
    mail = ShardedRequestQueue(client, "mail", shards=3)
    for n in range(6):
        mail.submit([b"x"] * 20, id=f"r{n}", priority=10 * n, limit=100)
    assert len(chosen(client, mail, "priority>=40", "waiting")) == 40
    assert chosen(client, mail, "request=r5 number<3", "waiting") == {"r5/1", "r5/2"}
    mail.settle([Settlement(d, "reject", b"{}") for d in mail.take(120, consumer="w").deliveries])
    assert chosen(client, mail, "request=r5 number<3", "dead") <= {"r5/1", "r5/2"}


def test_state_mismatch_reads_nothing_and_gives_a_reason(
    client: redis.Redis,
) -> None:
    queue = everywhere(client)
    for text, why in (
        ("state:delayed", "matches only delayed entries, not dead ones"),
        ("state:delayed,pending r1", "matches only delayed or pending entries"),
        ("state:dead state:pending", "the expression never matches"),
    ):
        filter = Filter(where=parse(text))
        scan = Scan(queue, "dead", filter, 0)
        assert scan.over and run(client, scan.step()) == []
        picked = run(client, select(queue, "dead", filter))
        assert picked.count == picked.scanned == 0
        assert why in "".join(picked.remarks)


def test_entries_that_arrive_during_the_scan_are_not_selected(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = RequestQueue(client, "mail", clock=clock)
    queue.submit([b"x"] * (PAGE + 5), id="r1", limit=1000)

    def bury() -> None:
        while taken := queue.take(500, consumer="w1").deliveries:
            queue.settle([Settlement(delivery, "reject", b"{}") for delivery in taken])

    def arrive(scanned: int, total: int | None) -> None:
        """After the first page; the second one has it."""
        if scanned == PAGE:
            clock.advance(1)
            queue.submit([b"x"], id="r2")
            bury()

    bury()
    picked = run(client, select(queue, "dead", Filter(where=parse("^r age<1h")), arrive))
    assert "r2/1" in picked.ids()
    bulk = entry_change(picked, "replay", Author("ada", "desk", ""))
    while run(client, bulk.step()):
        pass
    assert (bulk.outcome.done, bulk.outcome.skipped) == (PAGE + 5, {"late": 1})
    assert [entry.id for entry in queue.page("dead").entries] == ["r2/1"]


def test_scan_rate_limit() -> None:
    now, slept, told = [50.0], [], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    progress = rate_limited(lambda *at: told.append(at), 1000, lambda: now[0], sleep)
    for scanned in (500, 1000, 1203):
        now[0] += 0.1
        progress(scanned, 1203)
    assert told == [(500, 1203), (1000, 1203), (1203, 1203)]
    assert slept == pytest.approx([0.4, 0.4])  # none after the last page


# --- the same set everywhere ---------------------------------------------------------------------

SAME = (
    "error.type=Timeout payload.region=eu",
    "-(payload.n<25) -(priority=60)",
    "request=slow (number<3 or payload~json)",
    "fast/1",
    "id=fast/*9,slow/2",
    'error~"failed$" size>60',
    "has:payload.nothing",
)


@pytest.mark.parametrize("text", SAME)
def test_plan_list_and_change_select_the_same_entries(
    text: str, url: str, client: redis.Redis, redisq: Redisq
) -> None:
    queue = orders(client)
    before = picture(client)
    meant = chosen(client, queue, text)
    assert {row["id"] for row in redisq.rows("dlq", "ls", "mail", "--where", text)} == meant
    assert {row["id"] for row in redisq.rows("select", "mail", "--where", text)} == meant
    counted = redisq.rows("select", "mail", "--where", text, "--count")
    assert {r["state"]: r["matched"] for r in counted}["dead"] == len(meant)
    assert sum(row["matched"] for row in counted) == len(meant)
    shown = redisq("dlq", "ls", "mail", "--where", text)
    assert {line.split()[0].removeprefix("mail/") for line in shown.splitlines()[1:]} == meant
    (plan,) = redisq.rows("replay", "mail", "--where", text, "--dry-run")
    assert plan["matched"] == len(meant)
    assert picture(client) == before
    everything = {entry.id for entry in queue.page("dead", max=500).entries}
    (outcome,) = redisq.rows("replay", "mail", "--where", text, "--yes")
    assert (outcome["matched"], outcome["done"]) == (len(meant), len(meant))
    left = {entry.id for entry in queue.page("dead", max=500).entries}
    assert everything - left == meant
    assert run(client, queue.counts.op()).waiting == len(meant)


def test_dashboard_filter_selects_the_same(url: str, client: redis.Redis) -> None:
    from redisq_ops.ops.deployment import Deployment
    from redisq_ops.ops.inspect.snapshot import Viewport
    from redisq_ops.ops.inspect.snapshot_reader import fetch
    from redisq_ops.tui.views.dead_letters import DeadView

    queue = orders(client)
    for text in SAME:
        query = parse(text)
        viewport = Viewport("dead", "mail", 0, 500, needs=query.needs)
        snapshot = run(client, fetch(Deployment(client), viewport))
        view = DeadView()
        view.filter = query
        shown = {entry.id for entry in snapshot.entries if view.accepts(entry, snapshot)}
        assert shown == chosen(client, queue, text), text


# --- the command line ----------------------------------------------------------------------------


def test_state_in_an_expression_chooses_among_several(client: redis.Redis, redisq: Redisq) -> None:
    queue = everywhere(client)
    assert "--state" in redisq.refusal("purge", "mail", "--where", "r1", "--yes", code=2)
    (plan,) = redisq.rows("purge", "mail", "--where", "state:delayed", "--dry-run")
    assert (plan["state"], plan["matched"]) == ("delayed", 1)
    redisq("requeue", "mail", "--where", "state:pending consumer=w1", "--yes")
    assert (queue.counts().pending, queue.counts().delayed) == (0, 1)
    assert "--state" in redisq.refusal(
        "purge", "mail", "--where", "state:delayed or state:dead", "--yes", code=2
    )


def test_state_that_contradicts_the_command_matches_nothing(
    client: redis.Redis, redisq: Redisq
) -> None:
    everywhere(client)
    before = picture(client)
    for words in (("dlq", "replay"), ("replay",)):
        out = redisq(*words, "mail", "--where", "state:delayed", "--yes")
        assert out.startswith("0 matched")
        assert "matches only delayed entries, not dead ones" in out
        assert redisq.rows(*words, "mail", "--where", "state:delayed", "--yes")[0]["matched"] == 0
        assert "matches only delayed entries, not dead ones" in redisq.err
    assert redisq.rows("dlq", "ls", "mail", "--where", "state:delayed") == []
    assert "matches only delayed entries, not dead ones" in redisq.err
    redisq("purge", "mail", "--where", "state:done", "--yes", code=1)
    assert "can't purge done entries" in redisq.err
    assert picture(client) == before


def test_select_scans_all_states(client: redis.Redis, redisq: Redisq) -> None:
    everywhere(client)
    everywhere(client, "news")
    rows = redisq.rows("select", "mail", "--where", "r1")
    states = [row["state"] for row in rows]
    assert {state: states.count(state) for state in states} == {
        "waiting": 4,
        "pending": 1,
        "delayed": 1,
        "dead": 1,
    }
    assert all(row["payload_b64"] for row in rows)
    rows = redisq.rows("select", "*", "--where", "state:dead,pending")
    assert sorted((row["queue"], row["state"]) for row in rows) == [
        ("mail", "dead"),
        ("mail", "pending"),
        ("news", "dead"),
        ("news", "pending"),
    ]
    counted = redisq.rows("select", "*", "--where", "error~SMTP", "--count")
    assert {(r["queue"], r["state"]): (r["matched"], r["scanned"]) for r in counted} == {
        (queue, state): found
        for queue in ("mail", "news")
        for state, found in (
            ("waiting", (1, 4)),
            ("pending", (0, 1)),
            ("delayed", (1, 1)),
            ("dead", (1, 1)),
            ("trash", (0, 0)),
        )
    }
    out = redisq("select", "mail", "--where", "error~SMTP")
    assert "mail/r1/2" in out and "\x1b" not in out and "dead" in out
    assert "mail: 3 entries, 1 waiting, 1 delayed, 1 dead" in redisq.err
    assert len(redisq.rows("select", "mail", "--max", "2")) == 2
    redisq("select", "mail", "--max", "2")
    assert "--max shows more" in redisq.err
    redisq("select", "mail", "--where", "state:done")
    assert "0 matched: of done entries only the results are kept (redisq results)" in redisq.err
    CircularQueue(client, "circle").push(["x"])
    redisq("select", "circle", "--where", "state:done")
    assert "0 matched: done entries are not listed in a circular queue" in redisq.err
    redisq.refusal("select", "nope", code=1)
    assert "no queue matches 'nope*'" in redisq.refusal("select", "nope*", code=1)


def test_select_counts_entries_by_the_value_of_a_field(client: redis.Redis, redisq: Redisq) -> None:
    everywhere(client)
    rows = redisq.rows("select", "mail", "--by", "error.type")
    assert [(row["value"], row["entries"], row["by_state"]) for row in rows] == [
        (None, 4, {"waiting": 3, "pending": 1}),
        ("SMTP", 3, {"waiting": 1, "delayed": 1, "dead": 1}),
    ]
    assert all(row["complete"] and row["at_least"] == [] for row in rows)
    (half,) = redisq.rows(
        "select", "mail", "--by", "state", "--where", "state:dead,waiting", "--max", "2"
    )
    assert (half["value"], half["entries"], half["complete"]) == ("waiting", 2, False)
    orders = FairQueue(client, "orders")
    orders.submit("acme", [b'{"to": {"region": "eu"}}', b'{"to": {"region": ["eu"]}}', b"[]"])
    orders.submit("zeta", [b'{"to": {"region": "eu"}}'])
    shown = [line.split() for line in redisq("select", "orders", "--by", "payload.to").splitlines()]
    assert shown == [
        ["entries", "share", "waiting", "payload.to"],
        ["2", "50", "%", "2", '{"region":', '"eu"}'],
        ["1", "25", "%", "1", "-"],
        ["1", "25", "%", "1", '{"region":', '["eu"]}'],
    ]
    assert redisq.err == "orders: 4 entries, 3 values\n"
    counted = redisq.rows("select", "*", "--by", "client", "--where", "queue=orders")
    assert [(row["queue"], row["value"], row["entries"]) for row in counted] == [
        (None, "acme", 3),
        (None, "zeta", 1),
    ]
    assert "did you mean task?" in redisq.refusal("select", "mail", "--by", "tasks", code=2)
    assert "count by task" in redisq.refusal("select", "mail", "--by", "age", code=2)
    assert "name one field" in redisq.refusal("select", "mail", "--by", "task client", code=2)


def test_every_command_reports_the_window(client: redis.Redis, redisq: Redisq) -> None:
    queue = dead_letters(client, 30)
    redisq("dlq", "ls", "mail", "--window", "10")
    assert "examined 10 of 30" in redisq.err
    redisq("select", "mail", "--window", "-10", "--where", "state:dead")
    assert "examined 10 of 30" in redisq.err
    redisq("dlq", "ls", "mail", "--window", "10", "--json")
    assert "examined 10 of 30" in redisq.err
    (plan,) = redisq.rows("replay", "mail", "--window", "10", "--where", "-r2", "--dry-run")
    assert plan["remarks"] == ["examined 10 of 30"]
    out = redisq("replay", "mail", "--window", "10", "--where", "id=nope*", "--dry-run")
    assert out.startswith("0 matched") and "examined 10 of 30" in out
    out = redisq("replay", "mail", "--window", "10", "--dry-run")
    assert "replay 10 dead entries" in out and "among the first 10" in out
    assert "examined 10 of 30" in out
    (outcome,) = redisq.rows("replay", "mail", "--window=-10", "--yes")
    assert outcome["done"] == 10 and queue.counts().dead == 20
    redisq.refusal("dlq", "ls", "mail", "--window", "0", code=2)


def test_syntax_error_as_line_and_as_json(client: redis.Redis, redisq: Redisq) -> None:
    everywhere(client)
    before = picture(client)
    text = "state:dead   eror~x"
    for words in (("dlq", "ls"), ("select",), ("replay", "--yes")):
        output = redisq.refusal(*words, "mail", "--where", text, code=2)
        assert output == f"{text} (column 14: there is no field 'eror': did you mean error?)"
        redisq(*words, "mail", "--where", text, "--json", code=2)
        error = {"type": "BadInput", "message": output, "column": 14}
        assert json.loads(redisq.err) == {"error": error, "exit": 2}
    redisq("select", "nope", "--json", code=1)
    assert json.loads(redisq.err)["error"]["type"] == "NotFound"
    redisq.refusal("dlq", "ls", "mail", "--scan-rate", "quick", code=2)
    assert picture(client) == before


@pytest.mark.alike
@pytest.mark.usefixtures("on_path")
def test_terminal_shows_caret_under_the_column(url: str) -> None:
    leader, follower = pty.openpty()
    with subprocess.Popen(
        ["redisq", "--url", url, "select", "--where", "r1 日本 eror~x"],
        stderr=follower,
        stdout=subprocess.DEVNULL,
    ) as process:
        os.close(follower)
        output = b""
        while polling.select([leader], [], [], 30)[0]:
            try:
                piece = os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
            output += piece
            if not piece:
                break
        assert process.wait(90) == 2
    os.close(leader)
    first, second = output.decode().replace("\r\n", "\n").rstrip("\n").split("\n")
    assert first == "redisq: r1 日本 eror~x"
    assert second.index("^") == first.index("eror") + 2  # two wide characters before it
    assert second.lstrip().startswith("^ column 7: there is no field 'eror'")


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.usefixtures("on_path")
def test_ctrl_c_during_the_scan_changes_nothing(url: str, client: redis.Redis) -> None:
    dead_letters(client, 2000)
    before = picture(client)
    client.config_resetstat()
    # At 100 a second there are five seconds between the first page and the second.
    with subprocess.Popen(
        [
            "redisq",
            "--url",
            url,
            "replay",
            "mail",
            "--where",
            "r1",
            "--scan-rate",
            "100/s",
            "--yes",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        while "cmdstat_hmget" not in client.info("commandstats"):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=90)
    assert (process.returncode, out) == (130, b"")
    assert b"interrupted, nothing was changed" in err and err.count(b"\n") == 1
    assert picture(client) == before


@pytest.mark.parametrize("kind", [RequestQueue, DelaySet])
def test_entries_that_begin_to_wait_during_the_scan_are_not_selected(
    client: redis.Redis, kind: type[RequestQueue[redis.Redis]] | type[DelaySet[redis.Redis]]
) -> None:
    clock = FakeClock()
    queue = kind(client, "q", clock=clock)

    def put(ids: list[str]) -> None:
        if isinstance(queue, RequestQueue):
            queue.submit([id.encode() for id in ids], id=ids[0])
        else:
            queue.schedule([(id, b"x") for id in ids])

    put([f"e{n:03}" for n in range(PAGE + 50)])
    looks = 0

    def later(scanned: int, total: int | None) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            clock.advance(0.05)
            put(["new"])

    chosen, weight = run(client, select_entries(queue, "waiting", Filter(), later))
    assert looks > 1 and chosen.count == weight.count == PAGE + 50
    bulk = entry_change(chosen, "purge", Author("me", "here"))
    while run(client, bulk.step()):
        pass
    assert bulk.outcome.done == PAGE + 50
    assert (queue.counts().waiting, queue.counts().trash) == (1, PAGE + 50)


def test_request_from_a_clock_that_was_ahead_is_selected(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = RequestQueue(client, "q", clock=clock)
    clock.advance(60)
    queue.submit([b"x"], id="ahead")
    clock.now_ms -= 60_000  # a failover
    chosen, _ = run(client, select_entries(queue, "waiting", Filter()))
    assert chosen.ids() == ["ahead/1"]
