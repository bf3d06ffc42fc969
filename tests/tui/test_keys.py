"""Help, footer and manual say the same of the keys, because all of them read the registry."""

import asyncio
import os
from pathlib import Path

import pytest
from textual.binding import Binding

from redisq_ops.cli.commands.states import GROUPS, NOUNS
from redisq_ops.core.model.states import EDITABLE
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import text
from redisq_ops.tui.keys import keys
from redisq_ops.tui.keys.help import keys as described
from redisq_ops.tui.table.table import PagedTable
from redisq_ops.tui.views import ALL, numbered

from .test_snapshots import Seeded, settled

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-the-dashboard.md"
BEGIN, END = "<!-- keys: drawn from the code -->\n", "<!-- end of keys -->\n"


def table() -> str:
    rows = [
        *described(keys.LOOK),
        *described(PagedTable.BINDINGS),
        *described(keys.CHANGE),
        *described(keys.LEAVE),
    ]
    lines = [
        f"| {' '.join(f'`{sign}`' for sign in signs.split(' '))} | {words} |"
        for signs, words in rows
    ]
    return "\n".join(["| key | what |", "|---|---|", *lines, ""])


def test_the_manual_has_all_keys() -> None:
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    drawn, _, after = rest.partition(END)
    if os.environ.get("REDISQ_DOCS") == "redraw":
        PAGE.write_text(before + BEGIN + table() + END + after)
        return
    assert drawn == table(), "REDISQ_DOCS=redraw pytest tests/tui/test_keys.py"


def test_every_view_has_a_key_and_every_change_takes_shift() -> None:
    views = [b for b in keys.LOOK if b.action.startswith("view(")]
    assert [b.action for b in views] == [f"view('{view.name_}')" for view in ALL]
    assert [keys.sign(b.key) for b in views] == list("1d23456789n0cml,evx")
    assert all(b.key.isupper() for b in keys.CHANGE)
    assert not any(b.key.isupper() for b in (*keys.LOOK, *keys.LEAVE))


WITHOUT_A_KEY = {
    "trash rm": "there is no undo: it is typed after `:`",
    "delay add": "it adds an entry, and acts on no row",
}
LOOKS = {"ls", "groups", "group"}


def test_a_view_of_a_state_has_a_key_for_each_change_that_the_command_line_has() -> None:
    actions = {binding.action for binding in keys.CHANGE}
    lacking, edited = set(), set()
    for noun, state in NOUNS.items():
        (view,) = (one for one in ALL if one.state == state)
        for verb in {info.name or "" for info in GROUPS[noun].registered_commands} - LOOKS:
            begun = {f"begin('{noun} {verb}')", f"begin('{verb}')"} & actions
            told = verb == "stop" and "stop-job" in view.tells.values()
            edited |= {state} if verb == "edit" else set()
            if not (begun or told or verb in view.verbs or verb in actions):
                lacking.add(f"{noun} {verb}")
    assert lacking == set(WITHOUT_A_KEY)
    assert edited == set(EDITABLE)  # `E` acts in these views


def test_no_key_means_two_things_in_one_place() -> None:
    bound = [*keys.LOOK, *keys.CHANGE, *keys.LEAVE, *PagedTable.BINDINGS]
    single = [key for b in bound if isinstance(b, Binding) for key in b.key.split(",")]
    assert len(single) == len(set(single))


@pytest.mark.slow
def test_the_footer_fits_on_80_columns() -> None:
    async def body() -> dict[str, str]:
        app, footers = Top(Seeded(), interval=3600), dict[str, str]()
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(app, pilot)
            app.current.table.go_to("mail")
            for digit, view in numbered():
                await pilot.press(digit)  # a letter, where the digits end
                await settled(app, pilot)
                assert app.view == view.name_
                footers[view.name_] = text(app).splitlines()[-1]
        return footers

    for view, footer in asyncio.run(body()).items():
        assert "/ Filter" in footer and footer.endswith("q Quit"), (view, footer)
