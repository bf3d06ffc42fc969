"""JSON Schemas (draft 2020-12), derived from the declared output types."""

from __future__ import annotations

import json
import types
from typing import Any, Literal, Union, get_args, get_origin

from redisq_ops.core.model.row_fields import Base64Field, Unit, Unstable, Wording

from .declarations import ARRAYS, MAPS, PLAIN, declared, fields, hint, is_object, slug, title

Schema = dict[str, Any]


def schema_names() -> list[str]:
    """The names of all schemas, such as ``queue-details``."""
    return sorted(map(slug, declared()))


def schema_of(name: str) -> Schema:
    """A schema by its name; `KeyError` if there is none."""
    for type_name, kind in declared().items():
        if slug(type_name) == name:
            draft = "https://json-schema.org/draft/2020-12/schema"
            return {"$schema": draft, "title": title(type_name), **object_schema(kind)}
    raise KeyError(name)


def schema_text(name: str) -> str:
    """A schema as a file has it."""
    return json.dumps(schema_of(name), indent=2)


def object_schema(kind: type) -> Schema:
    """The schema of a type's objects."""
    properties, required, either = dict[str, Schema](), list[str](), list[Schema]()
    for name, field in fields(kind).items():
        properties[name] = {**_schema(field.type), "description": field.meaning}
        if hint(field.type).mark(Base64Field):
            encoded = f"{name}_b64"
            base64 = {"type": "string", "contentEncoding": "base64"}
            properties[encoded] = {**base64, "description": field.meaning}
            if field.always:
                either.append({"oneOf": [{"required": [name]}, {"required": [encoded]}]})
        elif field.always:
            required.append(name)
    whole: Schema = {"type": "object", "properties": properties, "required": required}
    return {**whole, "allOf": either} if either else whole


def _schema(declared: Any) -> Schema:
    plain = hint(declared)
    found = _plain_schema(plain.kind)
    if unit := plain.mark(Unit):
        found["x-unit"] = unit.name
    if plain.mark(Wording):
        found["x-stability"] = "wording may change"
    if plain.mark(Unstable):
        found["x-stability"] = "internal"
    if not plain.null:
        return found
    if "enum" in found:
        return {**found, "type": [found["type"], "null"], "enum": [*found["enum"], None]}
    if isinstance(found.get("type"), str):
        return {**found, "type": [found["type"], "null"]}
    return {"anyOf": [found, {"type": "null"}]}


def _plain_schema(kind: Any) -> Schema:
    if kind is Any:
        return {}
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if is_object(kind):
        return object_schema(kind)
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"type": "string", "enum": list(inside)}
    if origin in ARRAYS:
        return {"type": "array", "items": _schema(inside[0])}
    if origin in MAPS:
        return {"type": "object", "additionalProperties": _schema(inside[1])}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(each) for each in inside]}
    raise TypeError(f"{kind} has no JSON type")
