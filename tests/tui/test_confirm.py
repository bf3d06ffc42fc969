"""The dialog: No unless it is meant, and large changes have to be typed."""

import asyncio
from collections.abc import Sequence

import pytest
from textual.app import App
from textual.widgets import Button, Input

from redisq_ops.tui.change.confirm_dialog import Confirm, Question
from redisq_ops.tui.frame import strips

SMALL = Question("Requeue 3 entries?", ("They become waiting at once.",))
LARGE = Question(
    "Purge 1,240 dead letters of mail?",
    ("1,240 entries go to the trash.", "Undo is possible for 24 h."),
    danger=True,
    typed="1240",
)
NAMED = Question("Destroy nanny?", ("All of it.",), danger=True, typed="nanny")


def answer(
    question: Question, keys: Sequence[str], size: tuple[int, int] = (80, 24)
) -> bool | None:
    """What the dialog said after these keys; None if it is still open."""
    answers: list[bool | None] = []

    async def body() -> None:
        app = App[None]()
        async with app.run_test(size=size) as pilot:
            await app.push_screen(Confirm(question), answers.append)
            await pilot.pause()
            await pilot.press(*keys)
            await pilot.pause()
            assert isinstance(app.screen, Confirm) == (not answers)

    asyncio.run(body())
    return answers[0] if answers else None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["enter"], False),
        (["n"], False),
        (["escape"], False),
        (["y"], True),
        (["right", "enter"], True),
        (["right", "left", "enter"], False),
        (["x", "down", "up"], None),
    ],
)
@pytest.mark.parametrize("size", [(80, 24), (20, 5)])
def test_small_changes_take_one_key_and_no_is_the_default(
    keys: list[str], said: bool | None, size: tuple[int, int]
) -> None:
    assert answer(SMALL, keys, size) is said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["y"], None),
        (["enter"], None),
        ([*"124", "y"], None),
        ([*"124", "enter"], None),
        ([*"1204", "y", "enter"], None),
        ([*"1240", "y"], True),
        ([*"1240", "enter"], True),
        ([*"y12y40", "y"], True),
        ([*"1240", "shift+tab", "enter"], True),
        ([*"124", "shift+tab", "enter"], False),
        ([*"1240", "tab", "enter"], False),
        ([*"1240", "backspace", "y"], None),
        ([*"12", "n"], False),
        ([*"1240", "escape"], False),
    ],
)
def test_large_changes_need_their_count_typed(keys: list[str], said: bool | None) -> None:
    assert answer(LARGE, keys) is said


@pytest.mark.slow
def test_what_yes_lacks_is_said() -> None:
    replay = Question("Replay 3 entries?", speed="ramp")

    async def body(question: Question, *keys: str) -> str:
        app = App[None]()
        async with app.run_test(size=(80, 24)) as pilot:
            await app.push_screen(Confirm(question))
            await pilot.pause()
            await pilot.press(*keys)
            await pilot.pause()
            return "".join(note.message for note in app._notifications)

    said = asyncio.run(body(replay, "r", "tab", "0", "y"))
    assert said == "Yes needs another speed: canary: a number from 1 on."
    assert asyncio.run(body(LARGE, "y")) == "Yes needs 1240 typed first."


@pytest.mark.slow
def test_they_do_in_a_small_terminal_too() -> None:
    assert answer(LARGE, [*"124", "down", "y", "enter"], (20, 5)) is None
    assert answer(LARGE, [*"1240", "up", "y"], (20, 5)) is True


@pytest.mark.slow
def test_an_n_in_the_name_to_be_typed_is_a_letter() -> None:
    assert answer(NAMED, [*"nanny", "y"]) is True
    assert answer(NAMED, [*"nan", "enter"]) is None
    assert answer(NAMED, [*"nan", "tab", "n"]) is False


@pytest.mark.parametrize("size", [(80, 24), (20, 5)])
def test_it_says_what_will_happen_and_shows_both_answers(size: tuple[int, int]) -> None:
    async def body() -> None:
        app = App[None]()
        async with app.run_test(size=size) as pilot:
            question = Question("[b]Purge[/b] 2?", ("\x1b]52;c;aGk=\x07",), True, "12")
            await app.push_screen(Confirm(question))
            await pilot.pause()
            seen = "\n".join(strip.text for strip in strips(app))
            assert "[b]Purge[/b] 2?" in seen
            assert r"\x1b]52" in seen
            for button in app.screen.query(Button):
                assert app.screen.region.contains_region(button.region)
                assert str(button.label) in seen
            assert app.screen.region.contains_region(app.screen.query_one(Input).region)

    asyncio.run(body())


def said(question: Question, keys: Sequence[str]) -> tuple[list[str], list[str]]:
    """What the dialog's toasts and its two answers say after these keys."""
    toasts: list[str] = []
    labels: list[str] = []

    async def body() -> None:
        app = App[None]()
        async with app.run_test() as pilot:
            await app.push_screen(Confirm(question))
            await pilot.pause()
            await pilot.press(*keys)
            await pilot.pause()
            toasts.extend(note.message for note in app._notifications)
            labels.extend(str(button.label) for button in app.screen.query(Button))

    asyncio.run(body())
    return toasts, labels


def test_a_yes_without_what_has_to_be_typed_says_what_is_missing() -> None:
    answers = ["No (n)", "Yes (y)"]
    assert said(LARGE, ["y"]) == (["Yes needs 1240 typed first."], answers)
    assert said(LARGE, [*"124", "enter"]) == (["Yes needs 1240 typed first."], answers)
    assert said(LARGE, [*"1240"]) == ([], answers)


@pytest.mark.slow
def test_where_every_letter_is_text_the_answers_name_other_keys() -> None:
    why = Question("Requeue 2?", why=True)
    assert said(why, ["w", *"yn"]) == ([], ["No (Esc)", "Yes"])
    assert said(why, ["w", *"yn", "enter"]) == ([], ["No (n)", "Yes (y)"])
    assert answer(why, ["w", *"yn", "escape"]) is False
    assert answer(why, ["w", *"yn", "enter", "n"]) is False
    assert answer(why, ["w", *"yn", "enter", "y"]) is True
