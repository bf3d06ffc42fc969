"""`make lines`: which part of the repository counts a file."""

import pytest

from .line_counts import part_of


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("redisq_ops/core/foreign/rq/queue.py", "core"),
        ("redisq_ops/core/foreign/rq/lua/moves.lua", "Lua"),
        ("redisq_ops/__init__.py", "other"),
        ("tests/core/test_sizes.py", "tests"),
        ("snapshots/overview.svg", "generated"),
        ("README.md", None),
    ],
)
def test_a_file_counts_once_where_a_reader_looks_for_it(path: str, part: str | None) -> None:
    assert part_of(path) == part
