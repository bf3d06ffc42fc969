"""Starts a worker again when the source files of its handlers change, for development."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from time import time
from typing import NoReturn

import redisq_ops

CHANGED = "source files changed"
"""why a worker stops to be started again"""
_INTERVAL_S = 0.3
_INSTALLED = (sysconfig.get_path("stdlib"), os.path.dirname(redisq_ops.__file__))


def restart() -> NoReturn:
    """Run the same command in place of this one, in the same process.

    Not by importing again: an old class or a connection of the old code would stay in use.
    """
    sys.stdout.flush()
    os.execv(sys.executable, sys.orig_argv)


class SourceWatch:
    """Watches the Python files in the folders of loaded modules, installed ones apart, and in the
    current folder.

    ``since``: when loading began, in seconds since 1970: a file that changed after it counts as
    changed. ``error``: why loading failed; the files of its traceback are watched, too.
    """

    def __init__(self, since: float, error: BaseException | None = None) -> None:
        self._folders = {Path.cwd(), *_loaded_folders(), *_folders_of(error)}
        files = _files(self._folders)
        now = time()  # after the look: a file that is saved just then is no file of the future
        self._known = {file: 0.0 if since < at <= now else at for file, at in files.items()}
        self._over = Event()

    def wait(self) -> Path | None:
        """Wait for a change; returns the file, or None after `close`."""
        while not self._over.wait(_INTERVAL_S):
            new = {*_loaded_folders()} - self._folders  # a handler has imported something
            self._folders |= new
            self._known |= _files(new)
            found = _files(self._folders)
            for file in sorted(found.keys() | self._known):
                if found.get(file) != self._known.get(file):
                    return file
        return None

    def call(self, changed: Callable[[Path], object]) -> None:
        """Call a function once from another thread, after a change."""

        def watch() -> None:
            if (file := self.wait()) is not None:
                changed(file)

        Thread(target=watch, name="redisq-reload", daemon=True).start()

    def close(self) -> None:
        self._over.set()


def _files(folders: Iterable[Path]) -> dict[Path, float]:
    """Each Python file there, and when it was changed."""
    found: dict[Path, float] = {}
    for folder in folders:
        for file in folder.glob("*.py"):
            with suppress(OSError):  # removed meanwhile
                found[file] = file.stat().st_mtime
    return found


def _loaded_folders() -> Iterator[Path]:
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and not _is_installed(file):
            yield Path(file).absolute().parent


def _folders_of(error: BaseException | None) -> Iterator[Path]:
    while error is not None:
        files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError) and error.filename:
            files.append(error.filename)
        for file in files:
            if os.path.isfile(file) and not _is_installed(file):
                yield Path(file).absolute().parent
        error = error.__cause__


def _is_installed(file: str) -> bool:
    parts = Path(file).parts
    return file.startswith(_INSTALLED) or "site-packages" in parts or "dist-packages" in parts
