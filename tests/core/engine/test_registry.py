"""The registry needs no script, so a fake server is faithful to it (others: fakeredis can't load
scripts with a `#!lua` line)."""

from collections.abc import Iterator

import fakeredis
import pytest
from redis.exceptions import ResponseError

from redisq_ops.core.engine.registry import Registered, all_queues, ensure_registered, find, forget
from redisq_ops.core.model.errors import BadInput, SchemaTooNew, WrongKind
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.core.redis.server_errors import translate


@pytest.fixture
def fake() -> Iterator[fakeredis.FakeRedis]:
    with fakeredis.FakeRedis() as client:
        yield client


def test_the_first_enrols_and_the_next_finds(fake: fakeredis.FakeRedis) -> None:
    first = run(fake, ensure_registered("mail", "request", 1))
    assert first == run(fake, ensure_registered("mail", "request", 1)) == run(fake, find("mail"))
    assert first.created_ms > 0 and first.shards == 1


def test_queues_are_listed_by_name_and_forgotten(fake: fakeredis.FakeRedis) -> None:
    for name in ("b", "c", "a"):
        run(fake, ensure_registered(name, "delay", 1))
    assert [entry.name for entry in run(fake, all_queues())] == ["a", "b", "c"]
    run(fake, forget(run(fake, ensure_registered("b", "delay", 1))))
    assert [entry.name for entry in run(fake, all_queues())] == ["a", "c"]


def test_prefixes_are_worlds_apart(fake: fakeredis.FakeRedis) -> None:
    run(fake, ensure_registered("mail", "request", 1, "one"))
    assert run(fake, all_queues("two")) == []


@pytest.mark.parametrize(
    ("kind", "schema", "error"), [("delay", 1, WrongKind), ("request", 0, SchemaTooNew)]
)
def test_what_another_wrote_is_refused(
    fake: fakeredis.FakeRedis, kind: str, schema: int, error: type[Exception]
) -> None:
    run(fake, ensure_registered("mail", "request", 1))
    before = fake.hgetall("redisq:registry")
    with pytest.raises(error):
        run(fake, ensure_registered("mail", kind, schema))
    assert fake.hgetall("redisq:registry") == before


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a{b}", "a*", "a|b", "ä", "x" * 129, "a\n"])
def test_bad_names_write_nothing(fake: fakeredis.FakeRedis, name: str) -> None:
    with pytest.raises(BadInput):
        run(fake, ensure_registered(name, "request", 1))
    assert fake.keys() == []


@pytest.mark.parametrize(("name", "kind"), [("sidekiq:mail", "request"), ("stream:x", "delay")])
def test_no_queue_of_ours_hides_another_programs(
    fake: fakeredis.FakeRedis, name: str, kind: str
) -> None:
    with pytest.raises(BadInput, match="other programs'"):
        run(fake, ensure_registered(name, kind, 1))
    assert fake.keys() == []
    run(fake, ensure_registered("carmine:mail", "carmine", 1))
    run(fake, ensure_registered("mail:eu", kind, 1))


def test_an_entry_reads_back_as_written() -> None:
    entry = Registered("mail", "request", 1, 1_700_000_000_000, 12)
    assert Registered.decoded("mail", entry.encoded().encode()) == entry


def test_a_server_that_can_not_run_our_scripts_is_named(fake: fakeredis.FakeRedis) -> None:
    with pytest.raises(BadInput, match="fakeredis can't; for tests start a real server: pip inst"):
        RequestQueue(fake, "mail").submit([b"x"], id="r1")
    unknown = ResponseError("unknown command 'evalsha', with args beginning with: ")
    assert "fakeredis can't" in str(translate(unknown))
