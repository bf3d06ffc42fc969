"""A message as `app.send_task(NAME, ARGS, KWARGS, task_id=ID, queue=NAME)` writes it: protocol 2 of
Celery in a message of kombu, both as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from hashlib import sha1
from typing import Any

ORIGIN = "redisq"
"""who sent it, where Celery names the process"""
_SHOWN = 1024
"""characters of arguments in Celery's logs and events"""


def message(
    task: str, args: Sequence[Any], kwargs: Mapping[str, Any], id: str, queue: str, at_ms: int
) -> bytes:
    """The message, sent at that time (ms). Its delivery tag is made of id and time."""
    options = dict.fromkeys(("callbacks", "errbacks", "chain", "chord"))
    body = json.dumps([args, kwargs, options]).encode()
    headers: dict[str, Any] = {
        "lang": "py",
        "task": task,
        "id": id,
        "shadow": None,
        "eta": None,
        "expires": None,
        "group": None,
        "group_index": None,
        "retries": 0,
        "timelimit": [None, None],
        "root_id": id,
        "parent_id": None,
        "argsrepr": _repr(args or ()),
        "kwargsrepr": _repr(kwargs),
        "origin": ORIGIN,
        "ignore_result": None,
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
    }
    properties = {
        "correlation_id": id,
        "reply_to": "",
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": queue},
        "priority": 0,
        "body_encoding": "base64",
        "delivery_tag": sha1(f"{id} {at_ms}".encode(errors="surrogateescape")).hexdigest(),
    }
    sent = {
        "body": base64.b64encode(body).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": headers,
        "properties": properties,
    }
    return json.dumps(sent).encode()


def again(text: Any, before: Any, after: Any) -> str | None:
    """The text of other arguments; None: the present text isn't made of the present arguments."""
    for kind in (list, tuple) if isinstance(before, list) else (dict,):
        if text == _repr(kind(before)):
            return _repr(kind(after))
    return None


def _repr(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
