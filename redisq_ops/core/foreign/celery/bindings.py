"""kombu's bindings: members of a set, ``ROUTING KEY sep PATTERN sep QUEUE``, where an application
can choose ``sep`` itself (`broker_transport_options`). Only those of a topic exchange have a
pattern, a regular expression made of the routing key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...model.quoting import text

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


@dataclass(frozen=True, slots=True)
class Binding:
    routing_key: str
    """of a topic exchange with wildcards: ``*`` is a word, ``#`` is one word or more"""
    queue: str
    topic: bool

    def takes(self, routing_key: str) -> bool:
        """Whether a message with this routing key comes into the queue. kombu's pattern isn't run:
        a regular expression out of Redis could take any time."""
        if not self.topic:
            return routing_key == self.routing_key
        words, ends = routing_key.split("."), {0}
        for part in self.routing_key.split("."):
            if part == "#":
                ends = {*range(min(ends) + 1, len(words) + 1)}
            else:
                ends = {n + 1 for n in ends if n < len(words) and _is_word(part, words[n])}
            if not ends:
                return False
        return len(words) in ends


def _is_word(part: str, word: str) -> bool:
    return bool(word) if part == "*" else word == part


def bindings_of(members: Sequence[bytes], separator: bytes) -> list[Binding]:
    """The bindings of an exchange."""
    parts = filter(None, (parts_of(member, separator) for member in members))
    return [Binding(text(key), text(queue), bool(pattern)) for key, pattern, queue in parts]
