"""Sets and hashes as places of entries: pages of a key that the server keeps in no order."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.keys import ForeignKeys
from redisq_ops.core.model.entry import State

from ...queue_steps import ids, paged_ids, pages
from . import shelf

SIZES = [5, 100, 900]
"""as the server packs small ones, and as tables"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "max"),
    [(size, max) for size in SIZES for max in (1, 7, 100) if size / max < 200],
)
def test_each_entry_is_in_one_page(client: redis.Redis, size: int, max: int) -> None:
    queue = shelf.fill(client, pending=size, dead=size)
    of: list[tuple[State, str]] = [("pending", "p"), ("dead", "d")]
    for state, first in of:
        found = [ids(page.entries) for page in pages(queue, state, max)]
        assert {len(page) <= max for page in found} == {True}
        seen = [id for page in found for id in page]
        assert len(seen) == len(set(seen)) and all(id.startswith(first) for id in seen)
        assert queue.counts().of(state) == queue.page(state).total == len(seen)


def test_what_stays_is_shown_while_others_come_and_go(client: redis.Redis) -> None:
    queue = shelf.fill(client, pending=0, dead=1000)
    stays = {f"d{n}" for n in range(500)}
    shown: set[str] = set()
    for n, page in enumerate(pages(queue, "dead", 30), 1):
        shown |= {entry.id for entry in page.entries}
        if page.cursor is None:
            break
        client.hdel("shelf:low.failed", f"d{500 + n}")
        client.hset("shelf:low.failed", mapping={f"new{n}-{k}": "x" for k in range(20)})
    assert shown >= stays


@pytest.mark.slow
def test_an_entry_is_found_by_its_id_with_its_value(client: redis.Redis) -> None:
    queue = shelf.fill(client, pending=2000, dead=2000)
    client.hset("shelf:low.failed", "", "no name")
    assert queue.get("d1999").payload == b"message 1999"
    assert (queue.get("p1998").state, queue.get("p1998").called) == ("pending", "fetched")
    assert queue.get("d2000") is None
    (empty,) = [e for e in queue.page("dead", max=5000).entries if e.payload == b"no name"]
    assert queue.get(empty.id).payload == b"no name"


def test_a_window_goes_on_where_the_one_before_ended(client: redis.Redis) -> None:
    queue = shelf.fill(client, pending=300, dead=300)
    for state in ("pending", "dead"):
        rows = [
            e.id
            for start in range(0, 300, 50)
            for e in queue.page(state, start=start, max=50).entries
        ]
        assert sorted(rows) == sorted(paged_ids(queue, state, 100))


def test_a_worker_s_set_of_another_type_is_named(client: redis.Redis) -> None:
    queue = shelf.fill(client)
    client.sadd("shelf:workers", "odd")
    client.set("shelf:acks.odd.low", "x")
    page, counts = queue.page("pending"), queue.counts()
    assert len(page.entries) == 9 and not page.exact
    assert "pending" in counts.unknown and counts.dead == 7 and counts.waiting == 6


@pytest.mark.parametrize(("state", "id"), [("waiting", "w0"), ("pending", "p0")])
@pytest.mark.parametrize("how", ["page", "window", "get"])
def test_a_job_that_ends_between_the_two_reads_of_it_is_not_called_corrupt(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch, state: State, id: str, how: str
) -> None:
    queue = shelf.fill(client)
    read = shelf.ShelfQueue.read

    async def ends_before(self: Any, *args: Any) -> Any:
        client.lrem("shelf:low", 1, id)
        client.srem("shelf:acks.one-0.low", id)
        client.hdel("shelf:low.msgs", id)
        return await read(self, *args)

    monkeypatch.setattr(shelf.ShelfQueue, "read", ends_before)
    if how == "get":
        assert queue.get(id) is None
        return
    page = queue.page(state, **({"start": 0} if how == "window" else {}))
    assert page.entries and id not in {entry.id for entry in page.entries}
    assert {entry.problem for entry in page.entries} == {None}


@pytest.mark.parametrize(("state", "id"), [("waiting", "w3"), ("pending", "p3")])
def test_a_job_whose_record_is_missing_stays_in_sight(
    client: redis.Redis, state: State, id: str
) -> None:
    queue = shelf.fill(client)
    client.hdel("shelf:low.msgs", id)
    (broken,) = [entry for entry in queue.page(state).entries if entry.problem]
    assert (broken.id, broken.problem) == (id, "its message is gone")


@pytest.mark.alike
def test_a_key_declared_as_list_and_sorted_set_is_read_as_what_it_is(client: redis.Redis) -> None:
    queue = shelf.fill(client)
    found = [ids(page.entries) for page in pages(queue, "waiting", 4)]
    assert found == [["w0", "w1", "w2", "w3"], ["w4", "w5"]]
    assert queue.page("waiting").entries[0].called == "queued"
    client.delete("shelf:low")
    assert queue.counts().waiting == 0
    shelf.fill(client, ranked=True)
    found = [ids(page.entries) for page in pages(queue, "waiting", 4)]
    assert found == [["w0", "w1", "w2", "w3"], ["w4", "w5"]]
    assert queue.page("waiting").entries[0].called == "sorted"
    assert queue.counts().waiting == 6 and not queue.checkup(thorough=True).flaws
    client.delete("shelf:low")
    client.set("shelf:low", "of another program")
    assert queue.counts().of("waiting") is None


def test_keys_of_an_owner_have_its_own_separator() -> None:
    keys = ForeignKeys(
        "shop:", "mugs", "redisq", {"t_job_": "t_", "t_lock_": "lock-", "t_beats": "__beats__"}
    )
    names = ("t_job_", "t_lock_", "t_result_", "t_beats")
    assert [keys[name] for name in names] == [
        "shop:t:",
        "shop:lock-",
        "shop:result:",
        "shop:__beats__",
    ]
