"""Splits items into batches of at most a number of items and a number of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def batches(
    items: Iterable[T], most: int, most_bytes: int, size: Callable[[T], int]
) -> Iterator[list[T]]:
    """Lists of at most ``most`` items and ``most_bytes`` bytes; a larger item gets its own."""
    batch: list[T] = []
    total = 0
    for item in items:
        if batch and (len(batch) == most or total + size(item) > most_bytes):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size(item)
    if batch:
        yield batch
