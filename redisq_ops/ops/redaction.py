r"""What isn't to be shown: patterns of the configuration, applied to payloads, results and errors.

```toml
[redact]
keys = ["password", "card.number"]
forced = true

[redact.patterns]
email = '[\w.+-]+@[\w-]+\.[\w.]+'
```

A key is redacted wherever it stands in JSON, in any case of its letters, with all that is in it;
of ``card.number`` the last part is, inside the ones before. Where a payload is JSON Lines, or a
text in it is JSON by itself, that is looked into too. So are pairs (``{"name": "password", "value":
…}``, ``["password", …]``) and text that isn't JSON (`key_values`). Regular expressions are applied
to all text. Ids, names and counts are never redacted: they are what commands are given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from redisq_ops.core.model.entry import Entry, Failure
from redisq_ops.core.model.errors import BadInput

from .filter.regex import BadRegex, Regex, any_of, regex
from .redaction_keys import KeyValues

MASK = "***"
LARGEST = 16 * 1024 * 1024
"""bytes of a text that is looked through; a larger one is hidden whole"""
# Members that name another member of the same object, and those that hold what is named.
_NAMES = ("name", "key", "field", "header", "k", "param", "parameter", "attribute", "property",
          "variable", "label", "id")  # fmt: skip
_HOLDS = ("v", "val", "content", "contents", "data", "text", "secret", "default")


class _Number(str):
    """A number of JSON as it is written: read and written again, ``1e400`` would be no JSON."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Redaction:
    """Patterns; without any it changes nothing."""

    keys: tuple[tuple[str, ...], ...] = ()
    """paths, their letters folded"""
    patterns: tuple[tuple[str, Regex], ...] = ()
    forced: bool = False
    """whether it can't be switched off for one command"""

    @classmethod
    def read(cls, tables: Iterable[tuple[Mapping[str, Any], str]]) -> Redaction:
        """All tables together; `BadInput` names the file, the table and the key."""
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
                            raise BadInput(f"{at} is a table of NAME = REGEX")
                        for own, text in value.items():
                            patterns[own, _pattern(text, f"{at}.{own}")] = None
                    case "forced":
                        if not isinstance(value, bool):
                            raise BadInput(f"{at} is true or false, not {value!r}")
                        forced = forced or value
                    case _:
                        raise BadInput(f"{at}: there are keys, patterns and forced")
        return cls(tuple(dict.fromkeys(keys)), tuple(patterns), forced)

    def __bool__(self) -> bool:
        return bool(self.keys or self.patterns)

    def __str__(self) -> str:
        said = [".".join(path) for path in self.keys]
        said += dict.fromkeys(f"/{name}/" for name, _ in self.patterns)
        return ", ".join(said) + (" (forced)" if self.forced else "")

    def payload(self, data: bytes) -> bytes:
        """A payload as it may be shown: the very bytes where nothing in it is redacted."""
        if not self or not data:
            return data
        if len(data) > LARGEST:
            return MASK.encode()
        shown = self._whole(data)
        if shown is not None:
            return shown
        # Several payloads in one (`submit --split` makes such), or no JSON: what is between lines
        # that are JSON objects is one text, since a value may go on behind a line's end.
        shown_lines, text = list[bytes](), list[bytes]()
        for line in data.split(b"\n"):
            whole = self._whole(line) if line.lstrip()[:1] in (b"{", b"[") else None
            if whole is None:
                text.append(line)
                continue
            if text:
                shown_lines.append(self._raw(b"\n".join(text), keys=True))
                text = []
            shown_lines.append(whole)
        if text:
            shown_lines.append(self._raw(b"\n".join(text), keys=True))
        return b"\n".join(shown_lines)

    def text(self, text: str) -> str:
        """The same for text: an error's message, a traceback."""
        if not self:
            return text
        return self.payload(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def hides(self, path: Sequence[str | int]) -> bool:
        """Whether what is at this place in JSON is under a redacted key."""
        names = tuple(
            name for step in path if isinstance(step, str) for name in step.casefold().split(".")
        )
        return any(self._hidden(names[: n + 1]) for n in range(len(names)))

    def entry(self, entry: Entry) -> Entry:
        """An entry whose payload and error may be shown."""
        if not self:
            return entry
        payload = None if entry.payload is None else self.payload(entry.payload)
        return replace(entry, payload=payload, error=self.failure(entry.error))

    def failure(self, error: Failure | None) -> Failure | None:
        """An error that may be shown; its type is kept but for the patterns."""
        if error is None or not self:
            return error
        parts = (error.type, error.message, error.traceback)
        return Failure(*(self.text(part) for part in parts))

    # --- how -----------------------------------------------------------------------------------

    def _raw(self, data: bytes, keys: bool = False) -> bytes:
        """As it is written, without what matches a pattern, and with ``keys`` what stands behind
        a redacted key."""
        text = data.decode("utf-8", "surrogateescape")
        text = self._text(text, ()) if keys else self._matched(text)
        return text.encode("utf-8", "surrogateescape")

    def _whole(self, data: bytes | str) -> bytes | None:
        """JSON as it may be shown; None: it isn't JSON."""
        twice: list[str] = []

        def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
            table = dict(found)
            if len(table) < len(found):
                twice.append("")
            return table

        try:
            value = json.loads(
                data, object_pairs_hook=pairs, parse_int=_Number, parse_float=_Number,
                parse_constant=str,
            )  # fmt: skip
            shown = self._value(value, ())
            # A name that comes twice hides what stands under the first: only the rest is shown.
            if shown != value or twice:
                data = _json(shown)
            if isinstance(data, str):
                data = data.encode("utf-8", "surrogatepass")
            # Once more as it is written, for expressions that mean more than one value.
            return self._raw(data)
        except RecursionError:
            return MASK.encode()
        except ValueError:
            return None

    def _value(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return self._object(value, path)
        if isinstance(value, list):
            # A pair, or the words of a command: the item behind a key's name is its value.
            named = [False, *(self._names(item, path) for item in value[:-1])]
            return [
                MASK if after else self._value(item, path)
                for item, after in zip(value, named, strict=False)
            ]
        if isinstance(value, _Number):
            # A pattern of digits means the number, however it is written.
            said = (value, value if value.lstrip("-").isdigit() else str(float(value)))
            return value if all(self._matched(text) == text for text in said) else MASK
        if isinstance(value, str):
            inner = self._whole(value) if value.lstrip()[:1] in ("{", "[") else None
            if inner is None:
                return self._text(value, path)
            return inner.decode("utf-8", "surrogatepass")
        return value

    def _object(self, value: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        pair = any(
            key.casefold() in _NAMES and self._names(item, path) for key, item in value.items()
        )
        shown = {}
        for key, item in value.items():
            name = key.casefold()
            below = (*path, *name.split("."))  # {"card.number": 1} says the same
            held = pair and (name in _HOLDS or "value" in name)
            hidden = held or self._hidden(below)
            shown[self._matched(key)] = MASK if hidden else self._value(item, below)
        return shown

    def _names(self, item: Any, path: tuple[str, ...]) -> bool:
        """Whether it is a redacted key's name, as in ``["--password", "abc"]``."""
        if not self.keys or isinstance(item, _Number) or not isinstance(item, str):
            return False
        return self._hidden((*path, *item.lstrip("-").rstrip(":").casefold().split(".")))

    def _hidden(self, path: tuple[str, ...]) -> bool:
        return any(path[-len(own) :] == own for own in self.keys)

    def _text(self, text: str, path: tuple[str, ...]) -> str:
        """Text that isn't JSON; ``path`` is where in JSON it stands."""
        if self.keys:
            any_key, key_values = _key_values(self.keys)
            if any_key is None or any_key.search_all(text):
                text = key_values.replace(text, MASK, path)
        return self._matched(text)

    def _matched(self, text: str) -> str:
        if not self.patterns:
            return text
        # One search for all of them: in most texts there is nothing to hide.
        any_pattern = _either(self.patterns)
        if any_pattern is None or any_pattern.search_all(text):
            for _, pattern in self.patterns:
                text = pattern.replace(text, MASK)
        return text


@lru_cache(16)
def _key_values(keys: tuple[tuple[str, ...], ...]) -> tuple[Regex | None, KeyValues]:
    found = KeyValues(keys)
    return any_of(found.keys), found


@lru_cache(16)
def _either(patterns: tuple[tuple[str, Regex], ...]) -> Regex | None:
    return any_of([pattern for _, pattern in patterns])


NO_REDACTION = Redaction()
"""everything is shown"""


_quoted: Callable[[str], str] = json.encoder.encode_basestring
_WORDS = {None: "null", True: "true", False: "false"}


def _json(value: Any) -> str:
    """As `json.dumps` has it, numbers as they were."""
    if isinstance(value, _Number):
        return value
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        rows = [f"{_quoted(key)}: {_json(item)}" for key, item in value.items()]
        return f"{{{', '.join(rows)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_json, value))}]"
    return _WORDS[value]


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadInput(f"{at} is a list of names, not {value!r}")
    return value


def _path(text: Any, at: str) -> tuple[str, ...]:
    if not isinstance(text, str) or not all(text.split(".")):
        raise BadInput(f"{at}: {text!r} is no key: write password, or card.number")
    return tuple(part.casefold() for part in text.removeprefix("$.").split("."))


def _pattern(text: Any, at: str) -> Regex:
    if not isinstance(text, str):
        raise BadInput(f"{at} is a regular expression in quotes, not {text!r}")
    try:
        found = regex(text)
    except BadRegex as error:
        column = f" column {error.at + 1}:" if error.at is not None else ""
        raise BadInput(f"{at}: {text!r}:{column} {error}") from error
    if found.search(""):
        raise BadInput(f"{at}: {text!r} matches nothing at all, and so everywhere")
    return found
