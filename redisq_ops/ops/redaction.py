r"""Redaction: what the configuration hides in payloads, results and errors.

```toml
[redact]
keys = ["password", "card.number"]
forced = true

[redact.patterns]
email = '[\w.+-]+@[\w-]+\.[\w.]+'
```

The value of a key is hidden anywhere in JSON; the case of letters is ignored. ``card.number`` hides
``number`` inside of ``card``. This includes JSON Lines, JSON in a text of JSON, pairs
(``{"name": "password", "value": …}``, ``["password", …]``) and text that is not JSON
(`redaction_keys`). Regular expressions are applied to all text. Ids, names and counts are never
hidden, since commands need them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from redisq_ops.core.model.entry import Entry, Failure
from redisq_ops.core.model.errors import BadInput

from .encodings import MOST, Decoded, decoded, like_msgpack, too_large
from .filter.regex import BadRegex, Regex, any_of, regex
from .json_numbers import JsonNumber, dumps
from .redaction_encodings import (
    DEPTH,
    without_base64,
    without_columns,
    without_percent,
    without_url_passwords,
)
from .redaction_keys import KeyValues
from .redaction_names import means

MASK = "***"
LARGEST = 16 * 1024 * 1024
"""bytes of the largest text that is searched; a larger one is hidden as a whole"""
# Members of an object whose value is a key's name, and members that hold that key's value.
_NAME_MEMBERS = (
    "name",
    "key",
    "field",
    "header",
    "k",
    "param",
    "parameter",
    "attribute",
    "property",
    "variable",
    "label",
    "id",
)
_VALUE_MEMBERS = ("v", "val", "content", "contents", "data", "text", "secret", "default")


@dataclass(frozen=True, slots=True)
class Redaction:
    """What to hide; an empty one hides nothing."""

    keys: tuple[tuple[str, ...], ...] = ()
    """paths of keys"""
    patterns: tuple[tuple[str, Regex], ...] = ()
    forced: bool = False
    """whether commands refuse ``--no-redact``"""

    @classmethod
    def read(cls, tables: Iterable[tuple[Mapping[str, Any], str]]) -> Redaction:
        """Combine ``[redact]`` tables, each with its place; `BadInput` names place and key."""
        keys: list[tuple[str, ...]] = []
        patterns: dict[tuple[str, Regex], None] = {}
        forced = False
        for table, where in tables:
            for name, value in table.items():
                at = f"{where}: redact.{name}"
                match name:
                    case "keys":
                        keys += [_path(each, at) for each in _list(value, at)]
                    case "patterns":
                        if not isinstance(value, dict):
                            raise BadInput(f"{at} must be a table of NAME = REGEX")
                        for label, text in value.items():
                            patterns[label, _pattern(text, f"{at}.{label}")] = None
                    case "forced":
                        if not isinstance(value, bool):
                            raise BadInput(f"{at} must be true or false, not {value!r}")
                        forced = forced or value
                    case _:
                        raise BadInput(f"{at} is unknown: use keys, patterns or forced")
        return cls(tuple(dict.fromkeys(keys)), tuple(patterns), forced)

    def __bool__(self) -> bool:
        return bool(self.keys or self.patterns)

    def __str__(self) -> str:
        parts = [".".join(path) for path in self.keys]
        parts += dict.fromkeys(f"/{name}/" for name, _ in self.patterns)
        return ", ".join(parts) + (" (forced)" if self.forced else "")

    def payload(self, data: bytes) -> bytes:
        """A payload as it may be shown; the same bytes if nothing in it is hidden. What is encoded
        is hidden whole if something in it is, or if it is too large to be decoded, or can't be."""
        if not self or not data:
            return data
        if too_large(data) or len(data) > LARGEST:
            return MASK.encode()
        inner = decoded(data)[-1:]
        if any(self.decoded(one) != one.content for one in inner):
            return MASK.encode()
        if not inner and self._unsearchable(data):
            return MASK.encode()
        return self._searched(data)

    def _unsearchable(self, data: bytes) -> bool:
        """Whether a hidden key's value may be in it where no search finds it: in msgpack that
        wasn't decoded, a value follows its name without a separator."""
        return bool(self.keys) and like_msgpack(data)

    def _searched(self, data: bytes) -> bytes:
        """The payload, redacted without decoding it."""
        redacted = self._json(data)
        if redacted is not None:
            return redacted
        # JSON Lines, or no JSON. Lines between those of JSON are one text, since a value can
        # continue on the next line.
        redacted_lines, text = list[bytes](), list[bytes]()
        for line in data.split(b"\n"):
            redacted = self._json(line) if line.lstrip()[:1] in (b"{", b"[") else None
            if redacted is None:
                text.append(line)
                continue
            if text:
                redacted_lines.append(self._raw(b"\n".join(text), keys=True))
                text = []
            redacted_lines.append(redacted)
        if text:
            redacted_lines.append(self._raw(b"\n".join(text), keys=True))
        return b"\n".join(redacted_lines)

    def decoded(self, inner: Decoded) -> bytes:
        """The content of an encoding as it may be shown. A pickle is hidden whole if it has the
        name of a hidden key; so is content that was decoded only in part."""
        if not self:
            return inner.content
        named = any(means(name, key[-1]) for key in self.keys for name in inner.names)
        if named or len(inner.content) > MOST or self._unsearchable(inner.content):
            return MASK.encode()
        return self._searched(inner.content)  # not `payload`: a quine decodes to itself

    def text(self, text: str) -> str:
        """A text as it may be shown, such as an error's message or a traceback."""
        if not self:
            return text
        return self.payload(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def hides(self, path: Sequence[str | int]) -> bool:
        """Whether a place in JSON is at or below a hidden key."""
        names = tuple(name for step in path if isinstance(step, str) for name in step.split("."))
        return any(self._hidden(names[: n + 1]) for n in range(len(names)))

    def entry(self, entry: Entry) -> Entry:
        """An entry whose payload, error and task's name may be shown."""
        if not self:
            return entry
        payload = None if entry.payload is None else self.payload(entry.payload)
        task = entry.task and self.text(entry.task)
        return replace(entry, payload=payload, error=self.failure(entry.error), task=task)

    def failure(self, error: Failure | None) -> Failure | None:
        """An error that may be shown."""
        if error is None or not self:
            return error
        parts = (error.type, error.message, error.traceback)
        return Failure(*(self.text(part) for part in parts))

    # --- searching ------------------------------------------------------------------------------

    def _raw(self, data: bytes, keys: bool = False) -> bytes:
        """Bytes without matches of the patterns and, with ``keys``, without the values of hidden
        keys in text."""
        text = data.decode("utf-8", "surrogateescape")
        text = self._text(text, ()) if keys else self._plain(text)
        return text.encode("utf-8", "surrogateescape")

    def _json(self, data: bytes | str) -> bytes | None:
        """JSON as it may be shown; None if it is not JSON."""
        has_duplicates = False

        def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
            nonlocal has_duplicates
            table = dict(members)
            has_duplicates |= len(table) < len(members)
            return table

        try:
            value = json.loads(
                data,
                object_pairs_hook=pairs,
                parse_int=JsonNumber,
                parse_float=JsonNumber,
                parse_constant=str,
            )
            shown = self._value(value, ())
            # Of members with the same name only the last is known, so only that one is shown.
            if shown != value or has_duplicates:
                data = dumps(shown)
            if isinstance(data, str):
                data = data.encode("utf-8", "surrogatepass")
            # Also search the text, for expressions that match across values.
            return self._raw(data)
        except RecursionError:
            return MASK.encode()
        except ValueError:
            return None

    def _value(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return self._object(value, path)
        if isinstance(value, list):
            # In a pair or the words of a command, the item after a hidden key's name is its value.
            is_value = [False, *(self._is_hidden_name(item, path) for item in value[:-1])]
            return [
                MASK if hidden else self._value(item, path)
                for item, hidden in zip(value, is_value, strict=False)
            ]
        if isinstance(value, JsonNumber):
            # A pattern of digits matches the number in either notation.
            forms = (value, value if value.lstrip("-").isdigit() else str(float(value)))
            return value if all(self._matched(text) == text for text in forms) else MASK
        if isinstance(value, str):
            inner = self._json(value) if value.lstrip()[:1] in ("{", "[") else None
            if inner is None:
                return self._text(value, path)
            return inner.decode("utf-8", "surrogatepass")
        return value

    def _object(self, value: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        is_pair = any(
            key.casefold() in _NAME_MEMBERS and self._is_hidden_name(item, path)
            for key, item in value.items()
        )
        shown = {}
        for key, item in value.items():
            name = key.casefold()
            below = (*path, *key.split("."))  # {"card.number": 1} means the same
            is_value = is_pair and (name in _VALUE_MEMBERS or "value" in name)
            hidden = is_value or self._hidden(below)
            shown[self._matched(key)] = MASK if hidden else self._value(item, below)
        return shown

    def _is_hidden_name(self, item: Any, path: tuple[str, ...]) -> bool:
        """Whether it is the name of a hidden key, as in ``["--password", "abc"]``."""
        if not self.keys or isinstance(item, JsonNumber) or not isinstance(item, str):
            return False
        return self._hidden((*path, *item.lstrip("-").rstrip(":").split(".")))

    def _hidden(self, path: tuple[str, ...]) -> bool:
        return any(
            len(path) >= len(key) and all(map(means, path[-len(key) :], key)) for key in self.keys
        )

    def _text(self, text: str, path: tuple[str, ...], depth: int = 0) -> str:
        """A text that is not JSON; ``path``: its place in JSON; ``depth``: encodings around it."""
        if self.keys:
            any_key, key_values = _key_values(self.keys)
            if any_key is None or any_key.search_all(text):
                text = without_columns(text, MASK, tuple(key[-1] for key in self.keys))
                text = key_values.replace(text, MASK, path)
            text = without_url_passwords(text, MASK)
        if depth < DEPTH:

            def inner(decoded: str) -> str:
                found = self._json(decoded) if decoded.lstrip()[:1] in ("{", "[") else None
                if found is not None:
                    return found.decode("utf-8", "surrogatepass")
                return self._text(decoded, path, depth + 1)

            text = without_base64(text, MASK, inner)
            text = without_percent(text, MASK, inner)
        return self._plain(text)

    def _matched(self, text: str) -> str:
        """A text without matches of the patterns, percent-encoded ones among them."""
        return without_percent(self._plain(text), MASK, self._plain)

    def _plain(self, text: str) -> str:
        if not self.patterns:
            return text
        # One search for all patterns: most texts have nothing to hide.
        any_pattern = _either(self.patterns)
        if any_pattern is None or any_pattern.search_all(text):
            for _, pattern in self.patterns:
                text = pattern.replace(text, MASK)
        return text


@lru_cache(16)
def _key_values(keys: tuple[tuple[str, ...], ...]) -> tuple[Regex | None, KeyValues]:
    values = KeyValues(keys)
    return any_of(values.keys), values


@lru_cache(16)
def _either(patterns: tuple[tuple[str, Regex], ...]) -> Regex | None:
    return any_of([pattern for _, pattern in patterns])


NO_REDACTION = Redaction()


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadInput(f"{at} must be a list of names, not {value!r}")
    return value


def _path(text: Any, at: str) -> tuple[str, ...]:
    if not isinstance(text, str) or not all(text.split(".")):
        raise BadInput(f"{at}: {text!r} is not a key: write password or card.number")
    return tuple(text.removeprefix("$.").split("."))


def _pattern(text: Any, at: str) -> Regex:
    if not isinstance(text, str):
        raise BadInput(f"{at} must be a regular expression in quotes, not {text!r}")
    try:
        compiled = regex(text)
    except BadRegex as error:
        raise BadInput(f"{at}: {text!r}: {error.located}") from error
    if compiled.search(""):
        raise BadInput(f"{at}: {text!r} matches the empty text, and so everywhere")
    return compiled
