"""Replies that arrive in any portions: what is too long in them is cut, and the rest is whole."""

from __future__ import annotations

import random
from collections.abc import Iterator
from hashlib import sha1
from typing import Any

import hiredis
import pytest

from redisq_ops.core.model.cut_element import digest, length
from redisq_ops.core.redis import cut_replies
from redisq_ops.core.redis.cut_replies import CuttingReader, cutting

MOST = 50


def encoded(value: Any) -> bytes:
    if isinstance(value, list):
        return b"*%d\r\n" % len(value) + b"".join(map(encoded, value))
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    return b"$-1\r\n" if value is None else b":%d\r\n" % value


def made(rng: random.Random, depth: int = 0) -> Any:
    if depth < 3 and rng.random() < 0.2:
        return [made(rng, depth + 1) for _ in range(rng.randint(0, 5))]
    some = rng.choice([0, 1, 5, MOST - 1, MOST, MOST + 1, 4 * MOST])
    text = bytes(rng.choice(b"\r\n$*:!=19ab") for _ in range(some))
    return rng.choice([text, text, text, rng.randint(-9, 10**9), None])


def portions(rng: random.Random, data: bytes) -> Iterator[bytes]:
    while data:
        n = rng.choice([1, 2, 3, 7, 30, 100, 1000])
        yield data[:n]
        data = data[n:]


def agree(sent: Any, found: Any) -> bool:
    if isinstance(sent, list):
        return len(sent) == len(found) and all(map(agree, sent, found))
    if isinstance(sent, bytes) and len(sent) > MOST:
        return (length(found), digest(found)) == (len(sent), sha1(sent).hexdigest())
    return bool(sent == found)


@pytest.mark.parametrize("seed", range(300))
def test_only_what_is_too_long_is_cut(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng, reader, found = random.Random(seed), CuttingReader(hiredis.Reader()), list[Any]()
    monkeypatch.setattr(cut_replies, "LARGEST", MOST)
    monkeypatch.setattr(cut_replies, "_UNCHECKED", rng.choice([0, 5, 100, 1 << 20]))
    sent = [made(rng) for _ in range(5)]
    with cutting():
        for portion in portions(rng, b"".join(map(encoded, sent))):
            reader.feed(portion)
            while (reply := reader.gets()) is not False:
                found.append(reply)
    assert agree(sent, found)
