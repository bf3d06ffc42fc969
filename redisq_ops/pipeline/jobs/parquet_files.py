"""Parquet files that may have been truncated or changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redisq_ops.core.model.errors import BadInput


@contextmanager
def whole_parquet(path: Path) -> Iterator[None]:
    """Raise `BadInput` for errors in the block if the file isn't a whole Parquet file."""
    import pyarrow as pa

    if not path.is_file():  # a pipe would never open
        raise BadInput(f"{path}: not a file")
    try:
        yield
    except (FileNotFoundError, PermissionError, BadInput):
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise BadInput(
            f"{path}: not a whole Parquet file; restore it, or move it elsewhere"
        ) from error
