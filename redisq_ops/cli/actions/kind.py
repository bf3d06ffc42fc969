"""`redisq kind`: kinds of queues outside redisq."""

from __future__ import annotations

from pathlib import Path

from redisq_ops.testing import new_kind

from ..output import emit, say
from ..session import Session


def new(s: Session, name: str) -> int:
    files = new_kind.write(name, into=Path())
    for path in files:
        if s.json:
            emit({"file": str(path)})
        else:
            print(path)
    say(
        f"now: pip install -e ./{files[0].parts[0]}, and python {files[0].parts[0]}/specimen.py URL"
    )
    return 0
