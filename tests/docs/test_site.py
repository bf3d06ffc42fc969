"""The site builds without a warning, and has what it takes from the code."""

import html
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
import typer.main
from playwright.sync_api import sync_playwright

import redisq_ops
from redisq_ops.cli.app import app

from .reader import DOCS, ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; a link or anchor that leads nowhere, or a page that is in no menu, fails it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Ids(HTMLParser):
    """The ids of a page's elements."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {value for name, value in attrs if name == "id" and value}


def _documented_names() -> set[str]:
    """The names and methods that the page about the API asks for."""
    text = (DOCS / "reference/python.md").read_text()
    asked: set[str] = set()
    for name, options in re.findall(r"^::: (\S+)\n((?:    .*\n)*)", text, re.M):
        listed = re.search(r"^ +members: \[(.*)\]$", options, re.M)
        members = listed[1].split(", ") if listed else []
        asked |= {name, *(f"{name}.{member}" for member in members)}
    return asked


def test_the_api_page_asks_for_every_public_name() -> None:
    assert {f"redisq_ops.{name}" for name in redisq_ops.__all__} <= _documented_names()


@pytest.mark.slow
def test_the_api_page_has_every_name_that_it_asks_for(site: Path) -> None:
    assert _documented_names() - Ids(site / "reference/python.html").found == set()


@pytest.mark.slow
def test_an_operation_is_shown_as_the_method_that_it_is(site: Path) -> None:
    page = (site / "reference/python.html").read_text()
    text = re.sub(r"\s", "", html.unescape(re.sub(r"<[^>]+>", "", page)))
    assert "history(max:int=100,before:str='+')->list[Event]" in text
    assert "->Call[" not in text


def _names(command: Any, path: str = "redisq") -> list[str]:
    if not hasattr(command, "list_commands"):
        return [] if command.hidden else [path]
    within = command.context_class(command)
    names = command.list_commands(within)
    return [
        n for name in names for n in _names(command.get_command(within, name), f"{path} {name}")
    ]


@pytest.mark.slow
def test_the_command_line_s_page_has_the_help_of_every_command(site: Path) -> None:
    ids = Ids(site / "reference/command-line.html").found
    commands = _names(typer.main.get_command(app))
    assert [name for name in commands if name.replace(" ", "-") not in ids] == []


def test_the_command_line_s_table_has_every_command() -> None:
    commands = _names(typer.main.get_command(app))
    table = (DOCS / "reference/command-line.md").read_text()
    named = set(re.findall(r"`([a-z -]+)`", table))
    assert [name for name in commands if name.removeprefix("redisq ") not in named] == []


def test_links_and_pictures_of_the_package_page_work_away_from_the_repository() -> None:
    package = metadata("redisq-ops")
    address = str(package["Project-URL"]).removeprefix("Repository, ")
    raw = address.replace("//github.com", "//raw.githubusercontent.com")
    text = str(package.json["description"])
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]*)\)", text)
    assert len(links) > 20
    for picture, link in links:
        base = f"{raw}/main/" if picture else f"{address}/blob/main/"
        assert link.startswith(base)
        assert (ROOT / link.removeprefix(base).partition("#")[0]).is_file()


@pytest.mark.slow
def test_search_finds_pages_in_a_site_opened_from_a_folder(site: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        if os.environ.get("REDISQ_REQUIRE_CHROMIUM"):
            pytest.fail("no chromium on this machine, and the test needs one")
        pytest.skip("needs chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{(site / 'index.html').as_uri()}?q=redisq+undo")
        page.wait_for_selector("a.md-search-result__link[href*='undo-a-change']", timeout=60_000)
        browser.close()
