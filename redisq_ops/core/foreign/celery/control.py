"""Celery's control messages: what its workers do without a key in Redis (``kombu/pidbox.py``,
``celery/worker/control.py``, and `_put_fanout` of ``kombu/transport/redis.py``).

A message is published to the workers of one broker database. A worker that answers pushes the
answer into the list that the message names.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from ...redis.operation import Call
from ..json_text import decoded

ANSWER_S = 3
"""how long the next answer is waited for: Celery's own tools wait a second for all of them, which
a machine under load takes"""
MOST = 1000
"""answers that are read"""


@dataclass(frozen=True, slots=True)
class Answers:
    heard: int
    """how many clients got the message: all workers, whoever was meant"""
    said: Mapping[str, Any] = field(default_factory=dict)
    """what each worker answered, by its name"""


def channel_of(at: str, client: Any) -> str:
    """Where workers listen, unless `fanout_prefix` of the broker's options is changed."""
    pool = getattr(client, "connection_pool", None)
    database = getattr(pool, "connection_kwargs", {}).get("db") or 0
    return f"{at}/{database}.celery.pidbox"


def control(
    method: str, arguments: Mapping[str, Any], to: Collection[str] = (), reply_to: str = ""
) -> bytes:
    """A message to the workers of these names, or to all; ``reply_to``: a list for the answers,
    which is named as a queue of kombu's nameless exchange."""
    body: dict[str, Any] = {
        "method": method,
        "arguments": arguments,
        "destination": [*to] or None,
        "pattern": None,
        "matcher": None,
    }
    if reply_to:
        body |= {"ticket": reply_to, "reply_to": {"exchange": "", "routing_key": reply_to}}
    sent = {
        "body": base64.b64encode(json.dumps(body).encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"clock": 0, "expires": 0},
        "properties": {
            "delivery_mode": 2,
            "delivery_info": {"exchange": "celery.pidbox", "routing_key": ""},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": str(uuid4()),
        },
    }
    return json.dumps(sent).encode()


async def ask(
    at: str, client: Any, method: str, arguments: Mapping[str, Any], to: Collection[str] = ()
) -> Answers:
    """Send a message and wait for the answers: of those named in ``to``, or of all that heard it.
    A worker that is too slow leaves its answer in a list, as Celery's own tools do."""
    name = f"{uuid4()}.reply.celery.pidbox"
    key, channel = at + name, channel_of(at, client)
    message = control(method, arguments, to, name)
    heard = await Call(("PUBLISH", channel, message), int, key=key)
    said: dict[str, Any] = {}
    for _ in range(min(len(to) or heard, heard, MOST)):
        found = await Call(("BRPOP", key, ANSWER_S), _answer, key=key, cut=True)
        if found is None:
            break
        said |= found
    await Call(("UNLINK", key), int, key=key)
    return Answers(heard, said)


def _answer(reply: Any) -> dict[str, Any] | None:
    """What one worker said, by its name; empty where it isn't JSON. None: nobody said anything."""
    if reply is None:
        return None
    found: Any = None
    with suppress(ValueError, KeyError, TypeError):  # whatever else somebody pushed there
        found = decoded(base64.b64decode(decoded(reply[1])["body"]))
    return found if isinstance(found, dict) else {}
