"""kombu's bindings: members of a set, ``ROUTING KEY sep PATTERN sep QUEUE``, where an application
can choose ``sep`` itself (`broker_transport_options`)."""

from __future__ import annotations

import re

BINDING, SEPARATOR = b"_kombu.binding.", b"\x06\x16"
_DOUBLED = re.compile(rb"([^0-9A-Za-z]+)\1")


def separator_of(member: bytes) -> bytes | None:
    """The separator of a binding. Most bindings have it twice in a row, as they have no pattern.
    None: it can't be found."""
    if SEPARATOR in member:
        return SEPARATOR
    for n in range(1, len(member) // 2):  # a queue whose routing key is its name, as is usual
        between = member[n:-n]
        half = between[: len(between) // 2]
        if half and member[:n] == member[-n:] and between == half * 2:
            return half
    doubled = _DOUBLED.search(member)
    return doubled[1] if doubled else None


def parts_of(member: bytes, separator: bytes) -> list[bytes] | None:
    """Routing key, pattern and queue; None: it isn't made of three parts."""
    parts = member.split(separator)
    return parts if len(parts) == 3 and parts[2] else None
