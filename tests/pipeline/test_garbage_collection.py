"""Garbage collection: paused while rows are read, and objects frozen in Spark workers."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import partial

import pytest
import redis
from pyspark import TaskContext
from pyspark.sql import datasource as ds

from redisq_ops.core.model.errors import BadInput
from redisq_ops.pipeline.session import data_source
from redisq_ops.pipeline.source.connection import gc_paused
from redisq_ops.pipeline.source.options import parse_options

from ..command_line import dead_letters
from .rows import reading


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """The generations that were looked through so far."""
    seen: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            seen.append(info["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


def test_garbage_collection_is_paused_while_a_page_is_read(
    client: redis.Redis, url: str, collections: list[int]
) -> None:
    queue = dead_letters(client, 3000)
    made, page = reading(url, "dead"), partial(queue.page.op, "dead", None, 3000)
    made.run(page)
    gc.collect()
    collections.clear()
    assert len(made.run(page).entries) == 3000
    assert len(collections) <= 1  # of what is left over, when it is allowed again
    queue.page("dead", None, 3000)
    assert len(collections) > 3


def test_garbage_collection_is_restored_to_its_previous_state() -> None:
    with pytest.raises(BadInput), gc_paused():
        assert not gc.isenabled()
        raise BadInput("no")
    assert gc.isenabled()
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_objects_are_frozen_once_per_spark_worker_only(
    client: redis.Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letters(client, 3)
    reader = data_source.TableDataSourceReader(parse_options({"table": "dead", "url": url}))
    (partition,) = reader.partitions()
    before = gc.get_freeze_count()

    def rows() -> int:
        return sum(batch.num_rows for batch in reader.read(partition))

    assert rows() == 3 and gc.get_freeze_count() == before
    monkeypatch.setattr(TaskContext, "get", lambda: object())
    data_source._freeze_objects.cache_clear()
    try:
        assert rows() == 3
        settled = gc.get_freeze_count()
        assert settled > before + 10_000
        assert rows() == 3 and list(reader.read(ds.InputPartition(None))) == []
        assert gc.get_freeze_count() <= settled
    finally:
        gc.unfreeze()
        data_source._freeze_objects.cache_clear()
