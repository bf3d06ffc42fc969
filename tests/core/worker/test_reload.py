"""Changes of source files are noticed whenever they come."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from redisq_ops.core.worker import reload
from redisq_ops.core.worker.reload import SourceWatch


def test_a_file_that_is_saved_while_the_watch_begins_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a worker whose handler couldn't be loaded would wait for ever."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "jobs.py"
    file.write_text("def handle(): ...")
    loading = time.time()
    look = reload._files

    def saved_just_then(folders: set[Path]) -> dict[Path, float]:
        time.sleep(0.02)  # some file systems tell times of a hundredth of a second only
        file.write_text("def handle(work): ...")
        return look(folders)

    monkeypatch.setattr(reload, "_files", saved_just_then)
    watch = SourceWatch(loading)
    monkeypatch.setattr(reload, "_files", look)
    assert watch.wait() == file
