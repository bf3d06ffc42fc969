"""`redisq schema`."""

from __future__ import annotations

from difflib import get_close_matches

from redisq_ops.core.model.errors import BadInput

from ..output import emit
from ..output_types.json_schema import schema_names, schema_of, schema_text
from ..session import Session


def schema(s: Session, name: str | None) -> None:
    names = schema_names()
    if name is None:
        for each in names:
            if s.json:
                emit({"name": each})
            else:
                print(each)
    elif name not in names:
        near = " or ".join(get_close_matches(name, names))
        hint = f"did you mean {near}?" if near else "redisq schema lists them"
        raise BadInput(f"no schema {name!r}; {hint}")
    elif s.json:
        emit(schema_of(name))
    else:
        print(schema_text(name))
