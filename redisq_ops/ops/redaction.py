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
text in it is JSON by itself, that is looked into too. Regular expressions are applied to all text,
also to what isn't JSON. Ids, names and counts are never redacted: they are what commands are given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redisq_ops.core.errors import BadInput
from redisq_ops.core.values import Entry, Failure

MASK = "***"


class _Number(str):
    """A number of JSON as it is written: read and written again, ``1e400`` would be no JSON."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Redaction:
    """Patterns; without any it changes nothing."""

    keys: tuple[tuple[str, ...], ...] = ()
    """paths, their letters folded"""
    patterns: tuple[tuple[str, re.Pattern[str]], ...] = ()
    forced: bool = False
    """whether it can't be switched off for one command"""

    @classmethod
    def read(cls, tables: Iterable[tuple[Mapping[str, Any], str]]) -> Redaction:
        """All tables together; `BadInput` names the file, the table and the key."""
        keys: list[tuple[str, ...]] = []
        patterns: dict[str, re.Pattern[str]] = {}
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
                            patterns[own] = _pattern(text, f"{at}.{own}")
                    case "forced":
                        if not isinstance(value, bool):
                            raise BadInput(f"{at} is true or false, not {value!r}")
                        forced = forced or value
                    case _:
                        raise BadInput(f"{at}: there are keys, patterns and forced")
        return cls(tuple(dict.fromkeys(keys)), tuple(patterns.items()), forced)

    def __bool__(self) -> bool:
        return bool(self.keys or self.patterns)

    def __str__(self) -> str:
        said = [".".join(path) for path in self.keys]
        said += [f"/{name}/" for name, _ in self.patterns]
        return ", ".join(said) + (" (forced)" if self.forced else "")

    def payload(self, data: bytes) -> bytes:
        """A payload as it may be shown: the very bytes where nothing in it is redacted."""
        if not self or not data:
            return data
        shown = self._whole(data)
        if shown is not None:
            return shown
        lines = data.split(b"\n")
        if len(lines) > 1:  # several payloads in one: `submit --split` makes such
            return b"\n".join(self._line(line) for line in lines)
        return self._line(data)

    def text(self, text: str) -> str:
        """The same for text: an error's message, a traceback."""
        if not self:
            return text
        return self.payload(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def hides(self, path: Sequence[str | int]) -> bool:
        """Whether what is at this place in JSON is under a redacted key."""
        names = tuple(step.casefold() for step in path if isinstance(step, str))
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

    def _line(self, data: bytes) -> bytes:
        shown = self._whole(data)
        if shown is None:
            shown = self._raw(data)
        return shown

    def _raw(self, data: bytes) -> bytes:
        """As it is written, with what matches a pattern left out."""
        text = self._matched(data.decode("utf-8", "surrogateescape"))
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
            return {
                self._matched(key): MASK
                if self._hidden((*path, key.casefold()))
                else self._value(item, (*path, key.casefold()))
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._value(item, path) for item in value]
        if isinstance(value, _Number):
            # A pattern of digits means the number, however it is written.
            said = (value, value if value.lstrip("-").isdigit() else str(float(value)))
            return value if all(self._matched(text) == text for text in said) else MASK
        if isinstance(value, str):
            inner = self._whole(value) if value.lstrip()[:1] in ("{", "[") else None
            if inner is None:
                return self._matched(value)
            return inner.decode("utf-8", "surrogatepass")
        return value

    def _hidden(self, path: tuple[str, ...]) -> bool:
        return any(path[-len(own) :] == own for own in self.keys)

    def _matched(self, text: str) -> str:
        for _, pattern in self.patterns:
            text = pattern.sub(MASK, text)
        return text


NOTHING = Redaction()
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


def _pattern(text: Any, at: str) -> re.Pattern[str]:
    if not isinstance(text, str):
        raise BadInput(f"{at} is a regular expression in quotes, not {text!r}")
    try:
        found = re.compile(text)
    except re.error as error:
        column = f" at column {error.pos + 1}" if error.pos is not None else ""
        raise BadInput(f"{at}: {text!r}: {error.msg}{column}") from error
    except (OverflowError, RecursionError) as error:
        raise BadInput(f"{at}: {text!r}: {error}") from error
    if found.match(""):
        raise BadInput(f"{at}: {text!r} matches nothing at all, and so everywhere")
    return found
