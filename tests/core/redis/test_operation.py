"""One description, three ways to run it: the same values, the same errors, no more round trips."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import warnings
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
import redis
import redis.asyncio
import redis.exceptions as rx
from redis.backoff import NoBackoff
from redis.retry import Retry

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.errors import (
    Forbidden,
    LoginRefused,
    NotFound,
    Refused,
    Unreachable,
    WrongKind,
)
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import aconnect
from redisq_ops.core.redis.operation import (
    BlockingOperation,
    Bound,
    Call,
    DescribedOperation,
    Description,
    apart,
    arun,
    attempt,
    operation,
    run,
    together,
)
from redisq_ops.core.redis.server_errors import translate
from redisq_ops.core.worker.reconnect import ReconnectingConnection
from redisq_ops.demo.server import EmbeddedServer

from ...proxy import FlakyProxy

Aclient = Callable[[], redis.asyncio.Redis]
ONCE = Retry(NoBackoff(), 0)


def get(key: str) -> Call[Any]:
    return Call(("GET", key), lambda reply: reply, key=key)


def put(key: str, value: str) -> Call[Any]:
    return Call(("SET", key, value), lambda _: value, key=key)


async def copy(source: str, target: str) -> Any:
    """Two rounds, the second made of the first's reply."""
    value = await get(source)
    await put(target, (value or b"").decode())
    return value


WRONG: Call[Any] = Call(("LPUSH", "text", "x"), int, key="text")


def test_a_call_reads_its_own_reply(client: redis.Redis) -> None:
    assert run(client, put("a", "1")) == "1"
    assert run(client, Call(("INCRBY", "a", 4), lambda n: n * 10)) == 50


def test_replies_are_bytes_whatever_the_client_would_make_of_them(url: str) -> None:
    with redis.Redis.from_url(url, decode_responses=True) as client:
        client.execute_command("SET", "a", b"\xff\x00")
        assert run(client, get("a")) == b"\xff\x00"
        assert run(client, together([get("a"), get("b")])) == [b"\xff\x00", None]


def test_blocking_awaited_and_gathered_are_one(client: redis.Redis, aclient: Aclient) -> None:
    run(client, put("a", "1"))
    assert run(client, copy("a", "b")) == b"1"

    async def awaited() -> tuple[Any, Any]:
        async with aclient() as connection:
            alone = await arun(connection, copy("b", "c"))
            beside = await arun(connection, together([copy("c", "d"), copy("none", "e")]))
            return alone, beside

    assert asyncio.run(awaited()) == (b"1", [b"1", None])
    assert [client.get(key) for key in "bcde"] == [b"1", b"1", b"1", b""]


def test_a_method_runs_by_the_client_it_was_given(client: redis.Redis, aclient: Aclient) -> None:
    class Box(Bound[Any]):
        @operation
        async def content(self, key: str) -> bytes | None:
            """What is in it."""
            found: bytes | None = await get(key)
            return found

    run(client, put("a", "1"))
    assert Box(client).content("a") == b"1"
    assert run(client, Box(None).content.op("a")) == b"1"
    assert isinstance(Box(client).content, BlockingOperation)
    assert isinstance(Box(None).content, DescribedOperation)
    assert Box.content.__doc__ == "What is in it."

    async def awaited() -> bytes | None:
        async with aclient() as connection:
            box: Any = Box(connection)
            found: bytes | None = await box.content("a")
            return found

    assert asyncio.run(awaited()) == b"1"
    with pytest.raises(TypeError, match="together"):
        Box(client.pipeline())


def test_rounds_side_by_side_cost_what_the_longest_costs(client: redis.Redis) -> None:
    trips = []
    send: Any = redis.Connection.send_packed_command

    def counted(self: Any, command: Any, *args: Any, **kwargs: Any) -> Any:
        trips.append(command)
        return send(self, command, *args, **kwargs)

    run(client, get("warm"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis.Connection, "send_packed_command", counted)
        mixed: list[Description[Any]] = [copy("a", "b"), get("c"), together([get("d")])]
        found = run(client, together(mixed))
    assert found == [None, None, [None]]
    assert len(trips) == 2


def test_several_of_different_types_give_a_tuple_and_many_of_one_a_list(
    client: redis.Redis,
) -> None:
    assert run(client, together(put("a", "1"), Call(("STRLEN", "none"), int))) == ("1", 0)
    assert run(client, together([put("a", "2"), put("b", "3")])) == ["2", "3"]
    assert run(client, together([])) == []


def test_an_error_is_in_our_words_with_the_clients_as_cause(client: redis.Redis) -> None:
    run(client, put("text", "a"))
    for description in (WRONG, together([get("text"), WRONG])):
        with pytest.raises(WrongKind, match="another type") as caught:
            run(client, description)
        assert isinstance(caught.value.__cause__, rx.ResponseError)
        assert caught.value.__notes__ == ["in LPUSH text"]


def test_an_error_is_thrown_in_where_it_was_awaited(client: redis.Redis) -> None:
    run(client, put("text", "a"))
    steps = []

    async def careful() -> Any:
        try:
            await WRONG
        except WrongKind:
            steps.append("caught")
        finally:
            steps.append("finally")
        return await put("b", "2")

    assert run(client, careful()) == "2"
    mixed: list[Description[Any]] = [careful(), get("text")]
    assert run(client, together(mixed)) == ["2", b"a"]
    assert steps == ["caught", "finally"] * 2


def test_one_broken_queue_does_not_hide_the_others(client: redis.Redis) -> None:
    run(client, put("text", "a"))
    found = run(
        client, together([attempt(WRONG), attempt(get("text")), attempt(copy("x", "text"))])
    )
    assert isinstance(found[0], WrongKind)
    assert found[1:] == [b"a", None]


def test_names_of_any_bytes_are_sent_as_they_were(client: redis.Redis, aclient: Aclient) -> None:
    odd = b"odd\xff\xc3\xa9".decode("utf-8", "surrogateescape")
    assert run(client, put(odd, odd)) == odd
    assert client.get(b"odd\xff\xc3\xa9") == b"odd\xff\xc3\xa9"
    assert run(client, together([get(odd), get("none")])) == [b"odd\xff\xc3\xa9", None]

    async def awaited() -> Any:
        async with aclient() as connection:
            return await arun(connection, get(odd))

    assert asyncio.run(awaited()) == b"odd\xff\xc3\xa9"


def test_what_is_apart_is_a_value_or_an_error_too(client: redis.Redis) -> None:
    run(client, put("text", "a"))
    mixed: list[Description[Any]] = [apart(WRONG), get("text"), apart(copy("x", "text"))]
    wrong, *others = run(client, together(mixed))
    assert isinstance(wrong, WrongKind)
    assert others == [b"a", None]


def test_a_server_that_is_gone_is_no_broken_queue(server: EmbeddedServer) -> None:
    gone = redis.Redis(port=1, retry=ONCE)
    for description in (
        attempt(get("a")),
        together([attempt(get("a")), attempt(get("b"))]),
        apart(get("a")),
        together([apart(get("a")), apart(get("b"))]),
    ):
        with pytest.raises(Unreachable, match="can't reach"):
            run(gone, description)


def test_a_line_that_breaks_is_thrown_in_too(server: EmbeddedServer, client: redis.Redis) -> None:
    ended = []

    async def works() -> None:
        try:
            await get("a")
            await put("b", "1")
        finally:
            ended.append(True)

    with (
        FlakyProxy(server.port) as proxy,
        redis.Redis.from_url(proxy.url, retry=ONCE) as connection,
    ):
        for description in (works(), together([works(), works()])):
            proxy.drop_replies(1)
            with pytest.raises(Unreachable):
                run(connection, description)
    assert ended == [True] * 3


class HalfHeard:
    """A client as one of a Cluster: what comes of a lost node stands among a pipeline's replies."""

    def __init__(self, *rounds: list[Any], awaited: bool) -> None:
        self._rounds = list(rounds)
        self._awaited = awaited
        self.sent: list[list[tuple[Any, ...]]] = []

    async def initialize(self) -> None:
        """Nothing is to be learnt."""

    def pipeline(self) -> HalfHeard:
        self.sent.append([])
        return self

    def get_node_from_key(self, key: Any) -> None:
        """There is one."""

    def execute_command(self, *command: Any, **_: Any) -> None:
        self.sent[-1].append(command)

    def execute(self, raise_on_error: bool) -> Any:
        replies = self._rounds.pop(0)

        async def later() -> list[Any]:
            return replies

        return later() if self._awaited else replies

    def run(self, description: Description[Any]) -> Any:
        client: Any = self
        return asyncio.run(arun(client, description)) if self._awaited else run(client, description)


LOST = [
    rx.ConnectionError("reset by peer"),
    rx.TimeoutError("no answer"),
    rx.ClusterDownError("CLUSTERDOWN Hash slot not served"),
]


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("lost", LOST, ids=["reset", "silent", "down"])
def test_a_lost_node_is_not_one_commands_own_failure(awaited: bool, lost: Exception) -> None:
    """Who shrugs at an error of his own would else keep half of a round nobody answered for."""

    async def shrugging(key: str) -> Any:
        try:
            return await get(key)
        except Unreachable:
            return "none of my business"

    for replies in ([b"1", lost, b"3"], [lost, b"2", b"3"], [b"1", b"2", lost]):
        client = HalfHeard(replies, awaited=awaited)
        with pytest.raises(Unreachable):
            client.run(together(map(shrugging, "abc")))


@pytest.mark.parametrize("lost", LOST, ids=["reset", "silent", "down"])
def test_a_worker_sends_a_round_with_a_lost_node_again_whole(
    lost: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisq_ops.core.worker.reconnect.monotonic", lambda: 0.0)
    client = HalfHeard([b"1", b"2"], [b"1", lost], [b"1", b"2"], awaited=False)
    rests: list[float] = []
    connection = ReconnectingConnection(
        cast(Any, client), lambda: 0.0, rests.append, lambda: len(rests) > 0
    )
    asked = [get("a"), get("b")]
    connection.pause_for(connection.ask(asked), work=True)  # only then does it wait for the server
    assert connection.ask(asked) == [b"1", b"2"]
    assert client.sent == [[("GET", "a"), ("GET", "b")]] * 3
    assert len(rests) == 1


@pytest.mark.parametrize("awaited", [False, True])
def test_what_one_command_was_refused_is_its_own_failure(awaited: bool) -> None:
    refused = rx.ResponseError("WRONGTYPE Operation against a key")
    client = HalfHeard([b"1", refused], awaited=awaited)
    mine, other = client.run(together([attempt(get("a")), attempt(get("b"))]))
    assert mine == b"1"
    assert isinstance(other, WrongKind)


def test_a_script_the_server_does_not_have_is_sent_along(client: redis.Redis) -> None:
    queue, later = RequestQueue(client, "q"), DelaySet(client, "later")
    queue.submit([b"a", b"b", b"c"], id="r")
    client.script_flush()
    assert queue.take(1, consumer="w").deliveries[0].payload == b"a"
    assert queue.take(1, consumer="w").deliveries[0].payload == b"b"
    later.schedule([("e", b"")], after=0)
    client.script_flush()
    # In the middle of a round: two of three are unknown, the third must not run again.
    client.script_load(queue._script("take").text)
    taken, swept, entries = run(
        client,
        together(
            [queue.take.op(1, consumer="w"), queue.sweep.op(), later.take.op(1, consumer="w")]
        ),
    )
    assert (taken.deliveries[0].payload, swept) == (b"c", 0)
    assert [d.id for d in entries.deliveries] == ["e"]
    assert queue.invariants() == later.invariants() == []


def test_awaiting_anything_else_is_refused_at_once(client: redis.Redis, aclient: Aclient) -> None:
    async def sleeps() -> Any:
        await asyncio.sleep(0)

    with pytest.raises(TypeError, match="Calls"):
        run(client, sleeps())
    mixed: list[Description[Any]] = [get("a"), sleeps()]
    with pytest.raises(TypeError, match="Calls"):
        run(client, together(mixed))

    async def awaited() -> None:
        async with aclient() as connection:
            with pytest.raises(TypeError, match="Calls"):
                await arun(connection, sleeps())

    asyncio.run(awaited())


def test_what_fails_beside_others_leaves_none_of_them_open(client: redis.Redis) -> None:
    run(client, put("text", "a"))
    closed = []

    async def patient() -> Any:
        try:
            await get("a")
            await get("b")
        finally:
            closed.append(True)

    async def fails() -> Any:
        await get("a")
        raise NotFound("no")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()  # what other tests left
        warnings.simplefilter("error")
        with pytest.raises(NotFound):
            run(client, together([patient(), fails(), patient(), copy("a", "b")]))
        gc.collect()
    assert closed == [True, True]


def test_a_description_nobody_runs_is_told(client: redis.Redis) -> None:
    async def forgets() -> None:
        copy("a", "b")  # type: ignore[unused-coroutine]

    with pytest.warns(RuntimeWarning, match="never awaited"):
        run(client, forgets())
        gc.collect()
    assert not client.exists("b")


def test_a_cancelled_operation_ends_where_it_was(client: redis.Redis, aclient: Aclient) -> None:
    async def story() -> list[str]:
        steps: list[str] = []

        async def slow() -> None:
            try:
                await Call(("BLPOP", "never", 30), list)
            finally:
                steps.append("cleaned up")

        async with aclient() as connection:
            task = asyncio.create_task(arun(connection, slow()))
            while blocked() == 0 and not task.done():  # for 30 s at most, then it is done
                await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.wait({task}, timeout=20)
            assert task.cancelled(), "it goes on though it was cancelled"
        return steps

    def blocked() -> int:
        clients: Any = client.info("clients")
        return int(clients["blocked_clients"])

    assert asyncio.run(story()) == ["cleaned up"]


def test_a_cancelled_task_can_clean_up_with_an_operation_of_several_rounds(
    aclient: Aclient,
) -> None:
    async def story() -> int:
        async def two_rounds() -> int:
            await Call(("INCR", "n"), int)
            return await Call(("INCR", "n"), int)

        async def work(connection: Any) -> int:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                return await arun(connection, two_rounds())
            return 0

        async with aclient() as connection:
            task = asyncio.create_task(work(connection))
            await asyncio.sleep(0)
            task.cancel()
            return await task

    assert asyncio.run(story()) == 2


def test_absent_is_a_value_where_a_call_says_so(client: redis.Redis) -> None:
    command = ("XINFO", "GROUPS", "nothing")
    with pytest.raises(rx.ResponseError):
        run(client, Call(command, lambda reply: reply))
    assert run(client, Call(command, lambda reply: reply, absent="no such key")) is None


@pytest.mark.parametrize("asked", [get, lambda key: copy(key, "c")], ids=["call", "operation"])
def test_what_comes_after_ctrl_c_gets_its_own_reply(
    client: redis.Redis, asked: Callable[[str], Description[Any]]
) -> None:
    """redis-py keeps a connection on which a reply is still to come."""
    run(client, put("a", "mine"))
    run(client, put("b", "another's"))

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis.Redis, "parse_response", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(client, asked("b"))
    assert run(client, get("a")) == b"mine"


INTERRUPTED = """
import faulthandler, signal, sys
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import Call, run

faulthandler.dump_traceback_later(100, exit=True)  # where it stands, should it never end
client = connect(sys.argv[1])
numbers = Call(("EXISTS", *range(2000)), int, key="0")
# As Ctrl+C, but so soon that one would have to be quick.
signal.signal(signal.SIGALRM, signal.default_int_handler)
interrupted = 0
for n in range(150):
    try:
        # Again, should Python ignore one: within the garbage collector it does.
        signal.setitimer(signal.ITIMER_REAL, 0.000_2 + n * 0.000_02, 0.5)
        while True:
            run(client, numbers)
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
        interrupted += 1
    client.connection_pool.disconnect()
print(interrupted, run(client, numbers))
"""


@pytest.mark.slow
def test_ctrl_c_while_a_command_is_packed_does_not_end_the_interpreter(url: str) -> None:
    """hiredis dies of it where it has to make text of a number, also of one in the greeting."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, url], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "150 0\n"), done.stderr


def test_a_server_that_goes_away_is_said_so(url: str) -> None:
    with EmbeddedServer() as server, redis.Redis.from_url(server.url, retry=ONCE) as client:

        async def story() -> None:
            await get("n")
            server.close()
            await get("n")

        with pytest.raises(Unreachable):
            run(client, story())


@pytest.mark.parametrize(
    ("error", "kind", "exit_code"),
    [
        (rx.ConnectionError("refused"), Unreachable, 4),
        (rx.TimeoutError("slow"), Unreachable, 4),
        (rx.AuthenticationError("invalid username-password pair"), LoginRefused, 1),
        (rx.ResponseError("WRONGPASS invalid"), LoginRefused, 1),
        (rx.BusyLoadingError("loading"), Unreachable, 4),
        (rx.OutOfMemoryError("command not allowed"), Refused, 1),
        (rx.ReadOnlyError("You can't write"), Refused, 1),
        (rx.NoPermissionError("no permissions"), Forbidden, 1),
        (rx.ResponseError("NOTFOUND no such request: r"), NotFound, 1),
        (rx.ResponseError("WRONGTYPE Operation against a key"), WrongKind, 1),
    ],
)
def test_every_failure_of_the_server_has_our_name(
    error: Exception, kind: type[Refused], exit_code: int
) -> None:
    ours = translate(error)
    assert type(ours) is kind
    assert ours.__cause__ is error
    assert ours.exit_code == exit_code
    assert "\n" not in str(ours)
    assert translate(ours) is ours


def test_an_error_we_have_no_word_for_stays_itself() -> None:
    error = rx.ResponseError("ERR something new")
    assert translate(error) is error


def test_threads_and_tasks_share_a_queue(client: redis.Redis, aclient: Aclient) -> None:
    """Concurrent calls borrow different slots, so none is taken for another's repetition."""
    name = "shared"
    RequestQueue(client, name).submit([b"%d" % n for n in range(60)], id="r", limit=100)

    async def story() -> list[str]:
        async with aclient() as connection:
            queue = RequestQueue(connection, name, clock=FakeClock())
            calls: list[Coroutine[Any, Any, Any]] = [
                queue.take(2, consumer=f"w{n}") for n in range(30)
            ]
            taken = await asyncio.gather(*calls)
            return [d.id for each in taken for d in each.deliveries]

    ids = asyncio.run(story())
    assert sorted(ids) == sorted(f"r/{n}" for n in range(1, 61))


def test_an_error_reply_keeps_nothing_of_its_round_in_memory(
    client: redis.Redis, aclient: Aclient
) -> None:
    """Until the garbage collector came by, each kept all replies of its round."""
    client.rpush("list", 1)

    def asked(*keys: str) -> tuple[weakref.ref[Any], Description[Any]]:
        def parse(reply: Any) -> Any:
            return reply

        calls = [Call(("ZCARD", key), parse, key=key) for key in keys]
        return weakref.ref(parse), together(map(attempt, calls))

    async def on_asyncio(description: Description[Any]) -> None:
        async with aclient() as connection:
            assert isinstance((await arun(connection, description))[0], WrongKind)

    gc.disable()
    try:
        for keys in (["list"], ["list", "none"]):
            kept, description = asked(*keys)
            assert isinstance(run(client, description)[0], WrongKind)
            del description
            assert kept() is None
            kept, description = asked(*keys)
            asyncio.run(on_asyncio(description))
            del description
            assert kept() is None
    finally:
        gc.enable()


def test_a_client_with_all_its_connections_in_use_says_which_option_allows_more(url: str) -> None:
    async def several() -> None:
        async with aconnect(f"{url}?max_connections=2") as client:
            queue = DelaySet(client, "later")
            await asyncio.gather(*(queue.schedule([(f"e{n}", b"")]) for n in range(9)))

    with pytest.raises(Unreachable, match=r"^all connections .* in use .*\?max_connections="):
        asyncio.run(several())
