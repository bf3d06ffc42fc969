"""Files that commands write: atomically, readable by their owner only, safe in shared directories.

In a directory that everybody can write to (``/tmp``), another user can put a symbolic link to a
file of ours, or a pipe that they read. As with Linux' ``protected_symlinks``, a link is followed
only if it belongs to us or to root.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import ENXIO
from pathlib import Path
from typing import BinaryIO

from redisq_ops.core.model.errors import BadInput, Refused

PRIVATE = 0o600
_LINKS = 40
_OPEN_FILES = "/proc"
"""``/dev/stdout`` leads to links here to open files, which have no path to follow"""


def resolved_path(path: str) -> Path:
    """The file that a path leads to through our own links; `Refused` for another user's link."""
    at = Path(os.path.abspath(path))
    for _ in range(_LINKS):
        at = Path(os.path.realpath(at.parent), at.name)  # directories may be anybody's
        try:
            status = at.lstat()
        except OSError:  # opening it will fail with the reason
            return at
        if not stat.S_ISLNK(status.st_mode) or at.is_relative_to(_OPEN_FILES):
            return at
        if not _is_ours(status):
            raise Refused(
                f"{path} is a symbolic link that belongs to another user: name the file itself"
            )
        at = at.parent / os.readlink(at)
    raise Refused(f"{path} leads through too many symbolic links: name the file itself")


def open_private(path: str, flags: int) -> int:
    """Open a file and return its descriptor; a new file is readable by its owner only.

    `Refused` for another user's file in a directory that everybody can write to, and for a pipe
    that nobody reads, which would never open.
    """
    at = resolved_path(path)
    follow = 0 if at.is_relative_to(_OPEN_FILES) else os.O_NOFOLLOW
    try:
        file = os.open(at, flags | follow | os.O_CLOEXEC | os.O_NONBLOCK, PRIVATE)
    except OSError as error:
        if error.errno == ENXIO:
            raise Refused(f"{path} is a pipe that nobody reads: name a file") from error
        raise
    os.set_blocking(file, True)
    if not _is_ours(os.fstat(file)) and at.parent.stat().st_mode & stat.S_IWOTH:
        os.close(file)
        raise Refused(f"{path} belongs to another user: name another file")
    return file


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file to read. `BadInput` if it can't be read or is no regular file: opening a pipe
    without a writer would never return."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        raise BadInput(f"{path} is {'a pipe' if stat.S_ISFIFO(mode) else 'no regular file'}")
    return os.fdopen(file, "rb")


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid in (os.geteuid(), 0)


@contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Report a file's error under the name that the user knows, not a temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def atomic_write(
    path: str | Path, mode: int = PRIVATE, place: Callable[[Path, Path], None] = os.replace
) -> Iterator[BinaryIO]:
    """Write a file that takes its name once it is complete and on disk; after an error nothing is
    left. A pipe, a device or ``/dev/stdout`` is written to directly.

    ``mode``: who may read it, as far as the umask allows; ``place`` gives it its name.
    """
    at = resolved_path(str(path))
    if at.exists() and (not at.is_file() or at.is_relative_to(_OPEN_FILES)):
        with os.fdopen(open_private(str(path), os.O_WRONLY), "wb") as plain:
            yield plain
        return
    part = at.with_name(f".{at.name}.{secrets.token_hex(4)}.part")
    # With O_EXCL it is a new file, and not behind a link.
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        place(part, at)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)
    directory = os.open(at.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
