"""JSON Patch: what `redisq edit --patch` makes of a payload."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Any

import jsonpatch
import jsonpointer

from redisq_ops.core.model.errors import BadInput, Unfit

DOUBLE_DIGITS = 17
"""significant digits of a double that is written out in full"""


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON Patch (RFC 6902): what it makes of a payload."""

    operations: list[dict[str, Any]]

    @classmethod
    def parse(cls, text: str) -> Patch:
        """Parse a patch; `BadInput` says in one line what is wrong with it."""
        try:
            found = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"--patch is not JSON: {error}") from error
        if not isinstance(found, list) or not all(isinstance(step, dict) for step in found):
            raise BadInput('--patch is a list of operations: [{"op": "replace", "path": …}]')
        try:
            jsonpatch.JsonPatch(found)
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
            raise BadInput(f"--patch: {error}") from error
        return cls(found)

    def __call__(self, payload: bytes) -> bytes:
        """The patched payload, written as the old one was: spaced or not, keys in their order."""
        try:
            # As text: from bytes, UTF-16 would be read too, and come back as UTF-8.
            source = payload.decode("utf-8")
            before = json.loads(source, object_pairs_hook=_unique, parse_float=_exact)
        except (ValueError, RecursionError) as error:
            raise Unfit("not JSON") from error
        tight = (",", ":") if b'": ' not in payload else (", ", ": ")
        escaped = b"\\u" in payload
        try:
            # A copy: a value that is put in belongs to the patch; later steps would change it.
            after = jsonpatch.JsonPatch(deepcopy(self.operations)).apply(before)
            # As text: 1, true and 1.0 are equal in Python.
            if (text := json.dumps(after)) == json.dumps(before):
                return payload
            return json.dumps(after, ensure_ascii=escaped, separators=tight).encode()
        except UnicodeEncodeError:  # half of a surrogate pair has no UTF-8
            return text.encode()
        except RecursionError as error:
            raise Unfit("nested too deeply") from error
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
            raise Unfit("the patch doesn't apply") from error


def _exact(digits: str) -> float:
    """A number that can be written again without a loss; with more digits it may be an amount."""
    number, exact = float(digits), Decimal(digits)
    many = len(exact.as_tuple().digits) > DOUBLE_DIGITS
    if not isfinite(number) or (many and Decimal(repr(number)) != exact):
        raise Unfit("a number would lose digits")
    return number


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that has a key twice: one of the two values would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key twice")
    return found
