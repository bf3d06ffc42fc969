"""Parquet files that somebody may have cut off or changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redisq_ops.core.model.errors import BadInput


@contextmanager
def whole_parquet(path: Path) -> Iterator[None]:
    """Errors of reading a file that isn't a whole Parquet file, as `BadInput`."""
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
