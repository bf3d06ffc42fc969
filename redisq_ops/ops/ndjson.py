"""Files of one JSON object per line: plans, Spark's plans, exports and reports.

The first line says what the file is, ``{"redisq": "plan", "version": 1, …}``. Each line of a sealed
file has the digest of itself and all lines above, so that a file that was cut off or edited is
refused with the number of the line; its last line is ``{"redisq": "end", …}``. An export is not
sealed, since users may change its lines; nor is a report, which several runs continue.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, BinaryIO

from redisq_ops.core.model.errors import BadInput, SchemaTooNew

from .typed_json import json_object

END = "end"
_MARK = b', "digest": "'
_DIGITS = 16
_LONGEST = 1 << 20


def line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Format:
    """What a file is, and the version of its rows."""

    name: str
    version: int = 1

    def head(self, **fields: Any) -> dict[str, Any]:
        """The first line of a file, or of a section of it."""
        return {"redisq": self.name, "version": self.version, **fields}

    def take_head(self, row: dict[str, Any]) -> None:
        """Take name and version out of a head. `BadInput` if it is no head of such a file,
        `SchemaTooNew` for another version."""
        if row.pop("redisq", None) != self.name:
            raise BadInput(f"this is no {self.name} of redisq")
        if (version := row.pop("version", None)) != self.version:
            raise SchemaTooNew(
                f"{self.name} of format {version!r}, this release knows {self.version}"
            )


def at_line(name: str, number: int, why: object) -> str:
    """An error's text, with the file and the line that it is about."""
    return f"{name}, line {number:,}: {why}"


def lines(file: BinaryIO, name: str, longest: int = _LONGEST) -> Iterator[tuple[int, int, bytes]]:
    """Lines with their number and where they begin; empty ones are left out. `BadInput` for one
    over ``longest`` bytes."""
    file.seek(0)
    number = offset = 0
    while found := file.readline(longest + 1):
        number += 1
        if len(found) > longest:
            raise BadInput(at_line(name, number, f"longer than {longest >> 20} MiB"))
        if found.strip():
            yield number, offset, found
        offset += len(found)


def sealed(rows: Iterable[bytes], **end: Any) -> Iterator[bytes]:
    """Lines with their digests, and then the last line of the file, with the fields ``end``."""
    digest = hashlib.sha256()
    for row in chain(rows, [line({"redisq": END, **end})]):
        text = row.removesuffix(b"}\n")
        digest.update(text)
        yield text + _mark(digest.hexdigest())


def checked(
    file: BinaryIO, name: str, format: Format, *readers: Callable[[dict[str, Any]], Any]
) -> Iterator[Any]:
    """What a sealed file has, without its last line: the first reader reads the fields of the head,
    each other one the next line, the last one all others.

    `BadInput` names the first line that is not as it was written, or that its reader refuses.
    Whether the end is missing is known only after all lines.
    """
    digest = hashlib.sha256()
    number = 0
    for number, _, found in lines(file, name):
        try:
            row = json_object(found)
            if number == 1:
                format.take_head(row)
            text, mark, rest = found.rpartition(_MARK)
            digest.update(text)
            if mark + rest != _mark(digest.hexdigest()):
                raise BadInput("it was changed or cut off, or a line above it is missing")
            del row["digest"]
            if row.get("redisq") == END:
                if file.readline(1):
                    number += 1
                    raise BadInput(f"it follows the end of the {format.name}")
                return
            read = readers[min(number, len(readers)) - 1](row)
        except (BadInput, SchemaTooNew) as error:
            raise type(error)(at_line(name, number, error)) from error
        yield read
    raise BadInput(at_line(name, number + 1, f"the end of the {format.name} is missing"))


def _mark(digest: str) -> bytes:
    return b'%s%s"}\n' % (_MARK, digest[:_DIGITS].encode())
