"""The package of a new kind of queue, written from the example in the folder ``shop``."""

from __future__ import annotations

import re
from pathlib import Path

from redisq_ops.core.engine.queue_classes import foreign_class, queue_class
from redisq_ops.core.model.errors import BadInput, Refused

_EXAMPLE = Path(__file__).parent / "shop"
_NAME = re.compile("[a-z][a-z0-9]{1,30}")


def write(name: str, into: Path) -> list[Path]:
    """Write the folder ``NAME-redisq`` and return its files. As written, the kind reads and changes
    a list ``NAME:jobs:QUEUE`` and a sorted set ``NAME:failed:QUEUE``."""
    if not _NAME.fullmatch(name):
        raise BadInput(f"{name!r} is no name of a kind: 2 to 31 lower-case letters and digits")
    if queue_class(name) or foreign_class(name):
        raise BadInput(f"there is a kind {name} already")
    folder = into / f"{name}-redisq"
    if folder.exists():
        raise Refused(f"{folder} exists")
    written = []
    for source in sorted(_EXAMPLE.rglob("*")):
        if source.suffix not in (".py", ".lua", ".toml", ".md"):
            continue
        path = folder / _named(str(source.relative_to(_EXAMPLE)), name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_named(source.read_text(), name))
        written.append(path)
    return written


def _named(text: str, name: str) -> str:
    names = {"Shop": name.capitalize()}
    return re.sub("[Tt]he shop|shop|Shop", lambda found: names.get(found[0], name), text)
