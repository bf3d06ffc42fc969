"""Texts that stand in byte strings, cut out of thousands of them at once.

Where they begin and end is found in the bytes of all of them, so no object is made for a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.signedinteger[Any]]


class Rows:
    """Byte strings, one behind the other; what is None isn't among them, but in what `back` gives.

    Raises `pyarrow.ArrowInvalid` where one isn't UTF-8.
    """

    def __init__(self, values: Sequence[bytes | None]) -> None:
        found = pa.array(values, pa.binary())
        found.cast(pa.string())
        self._places: pa.Array | None = None
        if found.null_count:
            known = found.is_valid().to_numpy(zero_copy_only=False)
            self._places = pa.array(np.cumsum(known) - 1, mask=~known)
            found = found.drop_null()
        self.size = len(found)
        _, offsets, self.data = found.buffers()
        edges: Places = np.frombuffer(offsets or b"\0\0\0\0", np.int32)[: self.size + 1]
        self.first, self.last = edges[:-1], edges[1:]
        self.raw: Bytes = np.frombuffer(self.data or b"", np.uint8)[: edges[-1]]

    def back(self, column: pa.Array) -> pa.Array:
        """A column of these rows as one of all, null where there was none."""
        return column if self._places is None else column.take(self._places)

    def between(self, first: Places, last: Places) -> pa.Array:
        """The bytes from each row's place to that other one."""
        if not self.size:
            return pa.array([], pa.binary())
        bounds = np.empty(2 * self.size, np.int32)
        bounds[::2], bounds[1::2] = first, last
        buffers = [None, pa.py_buffer(bounds), self.data]
        between = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
        return between.take(pa.array(np.arange(0, len(bounds), 2)))


def stands(text: bytes, raw: Bytes, at: Places) -> bool:
    """Whether a text stands at each of these places, all of them far enough from the end."""
    n = len(text)
    windows = np.ndarray(len(raw) - n + 1, f"V{n}", raw, strides=(1,))
    return bool(windows[at].tobytes() == text * len(at))
