"""The contexts of the configuration file, for a list to choose from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from .config import without_password
from .file import check_keys, config_path, read_file, text_of
from .settings import checked_value
from .sources import Sources


@dataclass(frozen=True, slots=True)
class NamedContext:
    """A context of the file, without secrets; protections are those in force when it is used."""

    name: str
    url: str | None
    """as written, variables not replaced; None: the URL without a context"""
    read_only: bool
    max_entries: int | None
    confirm: str
    label: str | None


def contexts(environment: Mapping[str, str] = os.environ) -> list[NamedContext]:
    """The contexts of the file in order of name, the variables of their URLs not replaced."""
    path = config_path(environment)
    named = []
    file, found = read_file(path)
    for name, table in sorted(found.items()):
        sources = Sources({}, name, table, environment, file, path)
        where = sources.context_place
        check_keys(table, where)
        read_only, most, confirm = (
            sources.value(key).value for key in ("read_only", "max_entries", "confirm")
        )
        url, label = table.get("url"), table.get("label")
        if label is not None:
            label = checked_value("label", text_of(label, where, "label"), where)
        named.append(
            NamedContext(
                name,
                None if url is None else without_password(str(url)),
                read_only == "true",
                int(most) if most else None,
                confirm or "plain",
                label,
            )
        )
    return named
