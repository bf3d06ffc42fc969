"""Files that a command writes: whole or not at all, for their owner's eyes, behind no foreign link.

In a directory where anybody can write (``/tmp``), a name may be a trap: a symbolic link of another
user to a file of ours, a pipe they read from. As with Linux' ``protected_symlinks``, a link is
followed only if it belongs to us or to root.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from redisq_ops.core.model.errors import Refused

PRIVATE = 0o600
_LINKS = 40
_OPEN_FILES = "/proc"
"""where ``/dev/stdout`` leads: links to open files, which have no name to be followed to"""


def destination(path: str) -> Path:
    """The file that a name means, behind links of our own; `Refused` behind another user's."""
    at = Path(os.path.abspath(path))
    for _ in range(_LINKS):
        at = Path(os.path.realpath(at.parent), at.name)  # a directory is whoever's the user names
        try:
            there = at.lstat()
        except OSError:  # not there, or not to be looked at: opening it says why
            return at
        if not stat.S_ISLNK(there.st_mode) or at.is_relative_to(_OPEN_FILES):
            return at
        if not _ours(there):
            raise Refused(f"{path} is a symbolic link of another user: name the file itself")
        at = at.parent / os.readlink(at)
    raise Refused(f"{path}: too many symbolic links")


def opened(path: str, flags: int) -> int:
    """A descriptor of a file, made for us alone if it is new; `Refused` where it is another user's
    in a directory where anybody can put one."""
    at = destination(path)
    follow = 0 if at.is_relative_to(_OPEN_FILES) else os.O_NOFOLLOW
    file = os.open(at, flags | follow | os.O_CLOEXEC, PRIVATE)
    if not _ours(os.fstat(file)) and at.parent.stat().st_mode & stat.S_IWOTH:
        os.close(file)
        raise Refused(f"{path} belongs to another user: name another file")
    return file


def _ours(there: os.stat_result) -> bool:
    return there.st_uid in (os.geteuid(), 0)


@contextmanager
def whole(path: str | Path) -> Iterator[BinaryIO]:
    """What is written takes the name when it is complete and on the disk; else nothing is left.

    What isn't a regular file (a pipe, ``/dev/stdout``) is written to directly.
    """
    at = destination(str(path))
    if at.exists() and (not at.is_file() or at.is_relative_to(_OPEN_FILES)):
        with os.fdopen(opened(str(path), os.O_WRONLY), "wb") as plain:
            yield plain
        return
    # mkstemp makes it anew (O_EXCL, O_NOFOLLOW), for its owner alone.
    handle, part = tempfile.mkstemp(prefix=f".{at.name}.", suffix=".part", dir=at.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, at)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)
    directory = os.open(at.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
