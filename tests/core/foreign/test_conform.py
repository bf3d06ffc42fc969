"""Every kind of another program's queues passes the public conformance test, which finds liars."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.dramatiq import DramatiqQueue
from redisq_ops.core.model.errors import BadInput
from redisq_ops.testing.conformance import CHECKS, conform

from ..own_specimens import OWN
from ..test_conformance import CHANGED
from .specimens import AS_JSON, DRAMATIQ, EDITS, SPECIMENS, Stated, texts

pytestmark = pytest.mark.slow


def test_every_kind_that_can_be_changed_is_tried() -> None:
    assert {*SPECIMENS, *OWN} == {*CHANGED}


@pytest.mark.alike
@pytest.mark.parametrize("kind", SPECIMENS | OWN)
def test_a_kind_conforms(client: redis.Redis, kind: str) -> None:
    found = [*conform(client, (SPECIMENS | OWN)[kind])]
    assert not found, "\n" + "\n".join(found)
    assert not client.dbsize()


@pytest.mark.alike
@pytest.mark.parametrize("kind", AS_JSON)
def test_arguments_as_json_can_be_edited(client: redis.Redis, kind: str) -> None:
    others = dict.fromkeys(CHECKS.keys() - EDITS, "shown with the program's usual arguments")
    found = [*conform(client, replace(AS_JSON[kind], skips=others))]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.alike
def test_a_specimen_that_lies_is_told(client: redis.Redis) -> None:
    def lies(client: Any) -> Stated:
        stated = DRAMATIQ.fill(client)
        return {**stated, "waiting": stated["waiting"][::-1], "dead": [*stated["dead"], "x"]}

    def leaves(client: Any, id: str) -> None:
        client.set("more", id)

    liar = replace(DRAMATIQ, fill=lies, own_verbs={("replay", "dead"): leaves})
    found = "\n".join(conform(client, liar))
    assert "states: waiting has" in found and "4 dead entries are counted" in found
    assert "statements: NotFound: the dead entry x isn't found" in found
    useless = replace(DRAMATIQ, own_verbs={("claim", "dead"): leaves}, fixed=frozenset({"zz"}))
    found = "\n".join(islice(conform(client, useless), 2))
    assert "own_verbs has claim of dead" in found and "unordered has zz" in found
    nowhere = replace(DRAMATIQ, queue="dramatiq:none")
    assert next(conform(client, nowhere)).startswith("specimen: NotFound: no queue")
    honest = replace(DRAMATIQ, own_verbs={("replay", "dead"): leaves})
    assert any(
        "another more new" in each or "more gone" in each for each in conform(client, honest)
    )


@pytest.mark.alike
def test_a_wrong_statement_is_told(client: redis.Redis) -> None:
    def ids(client: Any) -> list[str]:
        return texts(client.zrange("dramatiq:low.XQ", 0, 0))

    wrong = replace(
        DRAMATIQ,
        times=lambda client: dict.fromkeys(ids(client), 7),
        skips={"zz": "no reason"},
        payloads=lambda client: dict.fromkeys(ids(client), b"{}"),
    )
    found = [*islice(conform(client, wrong), 3)]
    assert "skips has zz" in found[0]
    assert "and should be b'{}'" in found[1] and "and should be 7" in found[2]


@pytest.mark.alike
def test_what_expires_soon_is_no_fault(client: redis.Redis) -> None:
    def soon(client: Any) -> Stated:
        stated = DRAMATIQ.fill(client)
        client.pexpire("dramatiq:low.DQ.msgs", 900)
        client.pexpire("dramatiq:low.DQ", 900)
        return stated

    assert [*conform(client, replace(DRAMATIQ, fill=soon))] == []


@pytest.mark.alike
def test_a_kind_that_raises_is_told(client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks(*_: object, **__: object) -> object:
        raise ZeroDivisionError("no")

    monkeypatch.setattr(DramatiqQueue, "read", breaks)
    assert "states: ZeroDivisionError: no" in [*conform(client, DRAMATIQ)]


@pytest.mark.alike
def test_only_an_empty_database_is_used(client: redis.Redis) -> None:
    client.set("mine", 1)
    with pytest.raises(BadInput, match="empty database"):
        next(conform(client, DRAMATIQ))
    assert client.get("mine") == b"1"
    client.delete("mine")
    with pytest.raises(BadInput, match="doesn't decode"):
        next(conform(redis.Redis(decode_responses=True), DRAMATIQ))
    with pytest.raises(BadInput, match="has no entries"):
        next(conform(client, replace(DRAMATIQ, fill=lambda client: {})))
