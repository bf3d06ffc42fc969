"""Every code block of the README and the docs runs as printed, in order, from nothing."""

import re
import time
from pathlib import Path

import pytest
import redis

from redisq_ops.demo.server import EmbeddedServer

from ..conftest import BINARIES
from .reader import PAGES, PREPARED, SHELL, SHOWN, SPARK, Reader, blocks, prints


def test_each_block_says_what_it_is_and_an_output_is_below_its_command() -> None:
    """What isn't run has a language of its own: `text`, `json`, `toml`; a `text` block is what no
    command of the page prints, so an output is compared."""
    known = ("python", *SHELL, *SHOWN)
    for name, page in PAGES.items():
        for line, language, text in blocks(page):
            assert language in known, f"{name}:{line}"
            assert language != "text" or not re.search(r"^\$ ", text, re.M), f"{name}:{line}"
        unnamed = re.search(r"^```\s*\n```text$", page.read_text(), re.M)
        assert not unnamed, f"{name}: write a console block"


def test_masks_hide_figures_only() -> None:
    shown = "…\nmail  3 dead, the oldest 4m 03s (op replay-5e8d3c91f0) by ann@vm…\n"
    printed = "a\nb\nmail    1,204 dead, the oldest 12s (op replay-0123456789) by root@x: why\n"
    assert prints(shown, printed)
    assert not prints(shown, printed.replace("dead", "delayed"))
    assert not prints(shown, printed + "more\n") and not prints("1 of 2\n", "1\n")


def run(name: str) -> bool:
    return any(language in ("python", *SHELL) for _, language, _ in blocks(PAGES[name]))


def connections(client: redis.Redis) -> list[str]:
    """Names of the open connections of redisq."""
    return [each["name"] for each in client.client_list() if each["name"].startswith("redisq/")]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PAGES if run(name) and name not in SPARK])
def test_a_page_runs_as_printed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with EmbeddedServer(BINARIES["valkey"]) as server:
        monkeypatch.setenv("REDIS_URL", server.url)
        reader = Reader(name, server.url, tmp_path, programs)
        if name in PREPARED:
            reader.shell(0, PREPARED[name])
        for line, language, text in blocks(PAGES[name]):
            if language == "python":
                reader.python(line, text)
            elif language == "toml":
                reader.configuration(text)
            elif language == "console":
                reader.console(line, text)
            elif language in SHELL:
                reader.shell(line, text)
        with redis.Redis.from_url(server.url) as client:
            deadline = time.monotonic() + 90  # a worker that was told to stop needs a moment
            while (left := connections(client)) and time.monotonic() < deadline:
                time.sleep(0.1)
        assert not left, "an example leaves its connection open"
