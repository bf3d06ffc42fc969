"""Arguments and results as JSON, by the annotations of a task's function.

The payload of a job is ``{"task":NAME,"kwargs":{…}}``; `ARGUMENTS` of entries names the member, so
filters read arguments by name. msgspec converts: it knows dataclasses, TypedDict, enums, dates and
unions, checks while it reads, and has no dependencies. Pydantic's models convert by their own
methods, paths by their text.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import PurePath
from typing import Any

from redisq_ops.core.model.errors import BadInput

try:
    import msgspec
except ImportError as missing:
    raise ImportError("tasks need msgspec: pip install 'redisq-ops[tasks]'") from missing

Raw = msgspec.Raw
"""JSON as it is"""
OPTIONS = frozenset({"in_", "at", "expires", "unique", "priority", "then", "for_client"})
"""arguments of `Task.submit` itself: no task's parameter may have these names"""


class BadArguments(BadInput, TypeError):
    """The arguments don't fit the task's signature; nothing was submitted."""


class Next(msgspec.Struct, omit_defaults=True):
    """A call that follows: the result before it becomes the argument ``into``."""

    task: str
    id: str
    queue: str
    kwargs: Raw = Raw(b"{}")
    into: str | None = None


class Call(msgspec.Struct, omit_defaults=True):
    """What a payload says: the task to call, its arguments, and the calls that follow.

    ``batch``: the call follows this batch, whose results become the argument ``into``. ``expires``:
    no attempt begins after this time, ms since 1970.
    """

    task: str
    kwargs: Raw = Raw(b"{}")
    then: list[Next] = []
    batch: str | None = None
    into: str | None = None
    expires: int | None = None


def _to_json(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        data = value.model_dump_json(by_alias=False, round_trip=True).encode()
        if dict(_model(type(value), data)) != dict(value):
            what = "JSON doesn't keep all of its values, such as a secret, or a date that is `Any`"
            raise ValueError(f"{type(value).__name__}: {what}")
        return msgspec.json.decode(data)
    if isinstance(value, PurePath):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no JSON: use a dataclass")


def _model(kind: Any, data: bytes) -> Any:
    # By the names of the fields: what has an alias is written under its name.
    return kind.model_validate_json(data, by_name=True)


def _from_json(kind: type, value: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return _model(kind, packed(value))
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return kind(value)
    raise NotImplementedError(f"{kind!r} can't be read from JSON: use a dataclass")


_objects = msgspec.json.Decoder(dict[str, Raw])
packed = msgspec.json.Encoder(enc_hook=_to_json).encode
"""a call as JSON"""
read_call = msgspec.json.Decoder(Call).decode
"""the call of a payload; ValueError for anything else"""


def encoded(value: Any) -> bytes:
    """A value as JSON; TypeError, ValueError or NotImplementedError for one that has none."""
    data = packed(value)
    if b"null" in data:  # msgspec writes it for NaN and infinities, too
        json.dumps(msgspec.to_builtins(value, str_keys=True, enc_hook=_to_json), allow_nan=False)
    return data


def with_argument(kwargs: Raw, into: str | None, value: bytes) -> Raw:
    """Arguments with one more, which is JSON already; without a name as they are."""
    if into is None:
        return kwargs
    given = _objects.decode(kwargs)
    return Raw(packed(given | {into: Raw(value)}))


class Signature:
    """The parameters and the result of a task's function."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        try:
            self._signature = signature = inspect.signature(function, eval_str=True)
        except (NameError, ValueError) as unfit:  # an annotation's; or it is written in C
            raise BadInput(f"task {name}: its signature can't be read: {unfit}") from unfit
        for each in signature.parameters.values():
            if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
                raise BadInput(f"task {name}: {each}: each argument of a task has a name")
            if each.name in OPTIONS:
                raise BadInput(f"task {name}: {each.name} is an option of submit: rename it")
        try:
            self._decoder = cache(self._decoder_without)
            self._arguments = self._decoder(None)
            self._result = msgspec.json.Decoder(
                _kind(signature.return_annotation), dec_hook=_from_json
            )
        except TypeError as error:
            raise BadInput(f"task {name}: {error}") from error

    def _decoder_without(self, without: str | None) -> msgspec.json.Decoder[msgspec.Struct]:
        """Reads all arguments, or those without one."""
        fields = [
            (each.name, _kind(each.annotation), _default(each.default))
            for each in self._signature.parameters.values()
            if each.name != without
        ]
        shape = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True, kw_only=True)
        return msgspec.json.Decoder(shape, dec_hook=_from_json)

    def encode(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], into: str | None = None
    ) -> Raw:
        """Arguments as JSON, without the one ``into``, which comes later; raises `BadArguments`
        unless a worker with this code can read them."""
        later = {} if into is None else {into: None}
        try:
            given = self._signature.bind(*args, **kwargs, **later).arguments
            data = encoded({name: given[name] for name in given if name != into})
            self._decoder(into).decode(data)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise BadArguments(f"task {self._name}: {error}") from None
        return Raw(data)

    def decode(self, kwargs: bytes | Raw) -> dict[str, Any]:
        """All arguments by name: those that aren't given have the defaults of this code. Raises
        ValueError where they don't fit the signature."""
        return msgspec.structs.asdict(self._arguments.decode(kwargs))

    def result(self, data: bytes) -> Any:
        """A result. Raises ValueError where it isn't what the annotation says."""
        return self._result.decode(data)


def _kind(annotation: Any) -> Any:
    return Any if annotation is inspect.Signature.empty else annotation


def _default(value: Any) -> Any:
    # By a function, so that it is the function's own object, as in a call.
    empty = value is inspect.Signature.empty
    return msgspec.NODEFAULT if empty else msgspec.field(default_factory=lambda: value)
