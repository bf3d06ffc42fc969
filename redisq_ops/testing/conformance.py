"""Whether redisq reads and changes a kind of queue as its program does: shown on a real server.

A `Specimen` is a small queue of the kind, filled by the program itself where it can be. `conform`
knows no kind: it compares a kind with what its specimen states, and with what the program's own
verbs do. A kind's test is:

    def test_it_conforms() -> None:
        with redis.Redis(port=...) as client:
            assert [*conform(client, SPECIMEN)] == []
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import redis

from redisq_ops.core.model.errors import BadInput

from . import change_checks, reading_checks
from .specimen import Specimen
from .stage import Stage

__all__ = ["CHECKS", "Specimen", "conform"]

CHECKS: Mapping[str, Callable[[Stage], Iterator[str]]] = {
    "statements": lambda stage: reading_checks.statements(stage, CHECKS),
    "recognition": reading_checks.recognition,
    "states": reading_checks.states,
    "shown": reading_checks.shown,
    "scores": reading_checks.scores,
    "odd bytes": reading_checks.odd_bytes,
    "looks": reading_checks.writes_nothing,
    "undo": change_checks.undo,
    "restored": change_checks.restored,
    "own verbs": change_checks.own_verbs,
    "waits": change_checks.waits,
    "races": change_checks.races,
    "purged": change_checks.purged,
    "again": change_checks.again,
    "edited": change_checks.edited,
    "touched": change_checks.touched,
    "paused": change_checks.paused,
    "types": change_checks.types,
    "rights": change_checks.rights,
    "vanishing": reading_checks.vanishing,
}


def conform(client: Any, specimen: Specimen) -> Iterator[str]:
    """One sentence for each fault of the kind; none: it conforms.

    ``client`` is of an empty database of a server for tests: the database is emptied at the end,
    the server's statistics are reset, and a user ``redisq-conformance-…`` comes and goes. Raises
    `BadInput` if the database isn't empty, the specimen leaves nothing in it, or the client is
    async or decodes replies.
    """
    if not isinstance(client, redis.Redis) or client.get_encoder().decode_responses:
        raise BadInput("a specimen needs a client of redis.Redis that doesn't decode replies")
    if client.dbsize():
        raise BadInput("a specimen needs an empty database: this one has keys")
    try:
        try:
            stage = Stage(client, specimen)
        except BadInput:
            raise
        except Exception as error:
            yield f"specimen: {type(error).__name__}: {error}"
            return
        for name, check in CHECKS.items():
            if name in specimen.skips:
                continue
            try:
                stage.put_back()
                yield from (f"{name}: {finding}" for finding in check(stage))
            except Exception as error:
                yield f"{name}: {type(error).__name__}: {error}"
    finally:
        client.flushdb()
