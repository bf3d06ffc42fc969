"""Substrings of thousands of byte strings at once, without a Python object for each row.

All strings lie in one buffer; callers find positions in it with numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.signedinteger[Any]]


class ByteRows:
    """Byte strings in one buffer. None values are left out; `with_nulls` puts them back.

    Raises `pyarrow.ArrowInvalid` if a string is not UTF-8.
    """

    def __init__(self, values: Sequence[bytes | None]) -> None:
        found = pa.array(values, pa.binary())
        found.cast(pa.string())
        self._row_of_value: pa.Array | None = None
        if found.null_count:
            known = found.is_valid().to_numpy(zero_copy_only=False)
            self._row_of_value = pa.array(np.cumsum(known) - 1, mask=~known)
            found = found.drop_null()
        self.size = len(found)
        _, offsets, self.data = found.buffers()
        edges: Positions = np.frombuffer(offsets or b"\0\0\0\0", np.int32)[: self.size + 1]
        self.first, self.last = edges[:-1], edges[1:]
        self.raw: Bytes = np.frombuffer(self.data or b"", np.uint8)[: edges[-1]]

    def with_nulls(self, column: pa.Array) -> pa.Array:
        """A column of the strings as a column of all values: null where the value was None."""
        return column if self._row_of_value is None else column.take(self._row_of_value)

    def between(self, first: Positions, last: Positions) -> pa.Array:
        """The bytes of each row from position ``first`` to ``last`` (exclusive)."""
        if not self.size:
            return pa.array([], pa.binary())
        bounds = np.empty(2 * self.size, np.int32)
        bounds[::2], bounds[1::2] = first, last
        buffers = [None, pa.py_buffer(bounds), self.data]
        between = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
        return between.take(pa.array(np.arange(0, len(bounds), 2)))
