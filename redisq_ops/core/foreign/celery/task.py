"""A task as Celery sends it (a message of kombu, in JSON), and a task's result.

Arguments are read from JSON. For a pickle, they are read from the text that Celery adds, as far as
they can be. A pickled result is followed, and never loaded.
"""

from __future__ import annotations

import base64
import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...model.entry import Failure
from ...model.errors import Unfit
from ...model.quoting import text
from ..call_descriptions import literal
from ..iso_times import iso_ms
from ..json_members import member, replaced
from ..json_text import decoded, encoded
from ..pickled import Unmade, unpickled
from ..python_values import plain
from .message import again

_SHOWN = ("root_id", "parent_id", "group", "expires", "origin")
MOST = 256 * 1024
"""characters of a traceback that are shown"""
_COMPRESSED = b"\0celery-compressed\0"
_PICKLE = b"\x80"
"""how a pickle of protocol 2 or later begins"""
_WRAPPER = "UnpickleableExceptionWrapper"
"""what stands for an exception that can't be pickled (``celery/utils/serialization.py``), with its
module, type, arguments and text"""
MOST_UNPACKED = 1 << 24
"""bytes of a result that are unpacked"""
_CODECS: dict[bytes, Callable[[], Any]] = {
    b"application/x-gzip": lambda: zlib.decompressobj(47),  # zlib's header, or gzip's
    b"application/x-bz2": bz2.BZ2Decompressor,
    b"application/x-lzma": lambda: lzma.LZMADecompressor(memlimit=1 << 27),
}


@dataclass(frozen=True, slots=True)
class Task:
    """A message. ``headers``: what Celery says of the task, wherever it is in the message."""

    headers: dict[str, Any] = field(default_factory=dict)
    message: dict[str, Any] = field(default_factory=dict)
    size: int = 0
    problem: str | None = None

    @classmethod
    def read(cls, data: bytes) -> Task:
        return cls.of(decoded(data), len(data))

    @classmethod
    def of(cls, message: Any, size: int) -> Task:
        headers = message.get("headers") if isinstance(message, dict) else None
        if not isinstance(headers, dict):
            return cls(size=size, problem="not a message of Celery's")
        body = None if "task" in headers else _body(message)
        return cls(body if isinstance(body, dict) else headers, message, size)  # Celery 3: the body

    @property
    def id(self) -> str | None:
        found = self.headers.get("id")
        return found if isinstance(found, str) and found else None

    @property
    def retries(self) -> int:
        found = self.headers.get("retries")
        return found if isinstance(found, int) and 0 <= found < 2**31 else 0

    @property
    def eta_ms(self) -> int | None:
        return iso_ms(self.headers.get("eta"))

    @property
    def arguments(self) -> tuple[Any, Any]:
        """Its args and kwargs, as far as they can be read."""
        if self.headers is not self.message.get("headers"):
            return self.headers.get("args"), self.headers.get("kwargs")
        body = _body(self.message)
        if isinstance(body, list) and len(body) > 1:
            return body[0], body[1]
        return literal(self.headers.get("argsrepr")), literal(self.headers.get("kwargsrepr"))

    def with_arguments(self, data: bytes, values: Mapping[str, bytes]) -> bytes:
        """Its message ``data`` with other arguments, in the body and in the texts that Celery makes
        of them for its logs (``Celery.send_task`` in ``celery/app/base.py``), unless these hide
        them. Raises `Unfit` for a body that can't be read."""
        body = _body(self.message)
        if self.headers is not self.message.get("headers") or not _is_call(body):
            raise Unfit("its arguments are not JSON, or of a protocol before Celery 4")
        named, raw = dict(zip(("args", "kwargs"), body, strict=False)), member(data, "headers")
        new = {name: json.loads(value) for name, value in values.items()}
        texts = {
            f"{name}repr": json.dumps(text).encode()
            for name, value in new.items()
            if (text := again(self.headers.get(f"{name}repr"), named[name], value))
        }
        text = json.dumps([*(named | new).values(), body[2]])
        if self.message["properties"].get("body_encoding") == "base64":
            text = base64.b64encode(text.encode()).decode()
        headers = replaced(raw or b"", texts)
        return replaced(data, {"body": json.dumps(text).encode(), "headers": headers})

    def shown(self) -> bytes:
        """Shown as the payload: the task's name, its arguments, and what Celery says of it."""
        args, kwargs = self.arguments
        shown = {"task": self.headers.get("task"), "args": args, "kwargs": kwargs}
        more = {name: value for name in _SHOWN if (value := self.headers.get(name)) is not None}
        return encoded(shown | {"retries": self.retries} | more | {"data_bytes": self.size})


@dataclass(frozen=True, slots=True)
class Delivered:
    """A field of the hash of delivered messages: a message, and where it was sent to."""

    task: Task
    exchange: str
    routing_key: str

    @classmethod
    def read(cls, data: bytes) -> Delivered:
        match decoded(data):
            case [message, str(exchange), str(routing_key)]:
                return cls(Task.of(message, len(data)), exchange, routing_key)
        return cls(Task(size=len(data), problem="not a message of Celery's"), "", "")


@dataclass(frozen=True, slots=True)
class Result:
    """What a result says: a field that Celery didn't write is None."""

    fields: dict[str, Any]
    problem: str | None = None
    """why it can't be read: then nobody knows whether the task failed"""
    data: bytes = b""
    pickled: bool = False

    @classmethod
    def read(cls, data: bytes | None) -> Result:
        if data is None:
            return cls({})
        kept, problem = unpacked(data)
        pickled = kept.startswith(_PICKLE)
        found = _of_pickle(kept) if pickled else decoded(kept)
        if isinstance(found, dict):
            return cls(found, data=data, pickled=pickled)
        why = problem or ("its pickle can't be followed" if pickled else "it is not JSON")
        return cls({}, f"its result: {why}; whether it failed is unknown")

    @property
    def queue(self) -> str | None:
        found = self.fields.get("queue")
        return found if isinstance(found, str) else None

    @property
    def call(self) -> tuple[str, list[Any], dict[str, Any]] | None:
        """The task's name, args and kwargs; None: they weren't kept, or not as JSON has them."""
        if self.pickled:
            return None
        name, args, kwargs = map(self.fields.get, ("name", "args", "kwargs"))
        if isinstance(name, str) and name and isinstance(args, list) and isinstance(kwargs, dict):
            return name, args, kwargs
        return None

    @property
    def grouped(self) -> bool:
        """Whether the task belongs to a group, or to the header of a chord."""
        return self.fields.get("group_id") is not None

    def of(self, id: bytes, queue: str) -> bool:
        """Whether it says that it is the result of that task, in that queue."""
        return (self.fields.get("task_id"), self.queue) == (text(id), queue)

    @property
    def ended_ms(self) -> int | None:
        return iso_ms(self.fields.get("date_done"))

    @property
    def retries(self) -> int | None:
        """None: not kept, unless `result_extended` is set (``celery/backends/base.py``)."""
        found = self.fields.get("retries")
        return found if isinstance(found, int) and 0 <= found < 2**31 else None

    def shown(self) -> bytes:
        names = {"task": "name", "args": "args", "kwargs": "kwargs", "worker": "worker"}
        return encoded({ours: self.fields.get(theirs) for ours, theirs in names.items()})

    def error(self) -> Failure:
        raised, trace = self.fields.get("result"), self.fields.get("traceback")
        traceback = trace[:MOST] if isinstance(trace, str) else ""
        if not isinstance(raised, dict):
            return Failure("error", "", traceback)
        message = raised.get("exc_message")
        said = message if isinstance(message, str) else _text(message)
        return Failure(str(raised.get("exc_type", "error")), said, traceback)


def _of_pickle(data: bytes) -> Any:
    """A pickled result as Celery writes it in JSON; None: it can't be followed."""
    try:
        found = unpickled(data)
        raised = found["result"] if found["status"] == "FAILURE" else None
        if isinstance(raised, Unmade):
            type_, args = raised.name.rpartition(".")[2], raised.args
            if type_ == _WRAPPER:
                _, type_, args, _ = args
            found["result"] = {"exc_type": type_, "exc_message": list(args)}
        return plain(found)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _text(message: Any) -> str:
    """The arguments of an exception as the exception itself would show them."""
    if isinstance(message, list) and len(message) == 1:
        return str(message[0])
    return "" if message in (None, []) else json.dumps(message)


def _body(message: dict[str, Any]) -> Any:
    body, properties = message.get("body"), message.get("properties")
    if message.get("content-type") != "application/json" or not isinstance(body, str):
        return None
    coded = isinstance(properties, dict) and properties.get("body_encoding") == "base64"
    try:
        return decoded(base64.b64decode(body) if coded else body.encode())
    except ValueError:
        return None


def _is_call(body: Any) -> bool:
    match body:
        case [list(), dict(), _]:
            return True
    return False


def is_packed(data: bytes) -> bool:
    return data.startswith(_COMPRESSED)


def unpacked(data: bytes) -> tuple[bytes, str | None]:
    """A result that Celery 5.7 or later may have compressed (``result_compression``), unpacked; and
    why it can't be read, if it can't. The codec is named in front of the data."""
    if not is_packed(data):
        return data, None
    codec, _, packed = data.removeprefix(_COMPRESSED).partition(b"\0")
    if codec not in _CODECS:
        called = codec[:40].decode("ascii", "backslashreplace")
        return b"", f"it is compressed as {called}, which redisq can't read"
    stream = _CODECS[codec]()
    try:
        found = stream.decompress(packed, MOST_UNPACKED)
    except (zlib.error, OSError, EOFError, lzma.LZMAError):
        return b"", "it is compressed, and damaged"
    if stream.eof:
        return found, None
    return b"", f"it is compressed, and cut short or over {MOST_UNPACKED >> 20} MiB"
