"""A field of a hash outside any queue, such as a line of the registry: compare and set."""

from __future__ import annotations

from importlib.resources import files

from .operation import Call

_SCRIPT = files(__package__).joinpath("replace_field.lua").read_text("utf-8")


def replace_field(key: str, field: str, before: str, after: str) -> Call[bool]:
    """Store ``after`` if ``before`` is stored; an empty text stands for no field. False: another
    value is stored, and stays. Safe to send again."""
    return Call(("EVAL", _SCRIPT, 1, key, field, before, after), bool, key=key)
