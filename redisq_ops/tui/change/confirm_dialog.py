"""The dialog every change goes through: what will happen, to how many, and No first."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import DescendantFocus
from textual.widgets import Button, Input, Static

from redisq_ops.ops.terminal import printable
from redisq_ops.tui.change.dialog import Dialog
from redisq_ops.tui.change.speed_fields import ChangeSpeed, SpeedFields
from redisq_ops.tui.theme import BAD, DIM, OK


@dataclass(frozen=True, slots=True)
class Question:
    """A change in words, and the text to type before it if it is large."""

    title: str
    lines: tuple[str, ...] = ()
    danger: bool = False
    typed: str | None = None
    """the text to type before Yes; `ops.change.preview` sets it for large changes"""
    why: bool = False
    """whether a reason may be given; it goes into the audit log"""
    speed: Literal["", "rate", "ramp"] = ""
    """which `SpeedFields` the dialog has: none, a rate, or also a canary and a ramp"""


def _labelled(line: str) -> Text:
    """A line of the dialog: its label dim, the removed and added lines of an edit coloured."""
    if line.startswith(("-", "+")):
        return Text(printable(line), BAD if line.startswith("-") else OK)
    label, colon, rest = printable(line).partition(": ")
    if not colon or not label.replace(" ", "").isalpha() or not label.islower():
        return Text(printable(line))
    return Text.assemble((f"{label}: ", DIM), rest)


class _Field(Input):
    """Takes the characters of the text; every other key, such as ``y`` or ``n``, is an answer."""

    def __init__(self, typed: str) -> None:
        super().__init__(id="typed", compact=True, placeholder=printable(typed))
        self._typed = typed
        self.cursor_blink = False

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return self.value != self._typed and character is not None and character in self._typed


class _Reason(Input):
    """Takes any text; Enter only leaves the field."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "app.focus_next", "Done", show=False)]

    def __init__(self) -> None:
        super().__init__(id="why", compact=True, placeholder="reason for the audit log (press w)")
        self.cursor_blink = False


class Confirm(Dialog[bool]):
    """Asks a :class:`Question`; True only after Yes. Esc and ``n`` mean No. No has the focus at
    first, so Enter means No too.

    With ``typed``, its field has the focus instead, and Yes is disabled until the field holds that
    text.
    """

    VERTICAL_BREAKPOINTS = [(0, "-short"), (14, "-tall")]  # noqa: RUF012 (declared so by Screen)
    # The text scrolls, field and answers below it are always in sight.
    DEFAULT_CSS = """
    Confirm {
        #dialog.-danger { border: round $error; }
        #dialog.-danger #title { color: $text-error; }
        #what { height: auto; scrollbar-size: 0 1; }
        #foot { dock: bottom; height: auto; }
        #how, #why { margin-top: 1; }
        #why.-below-speed { margin-top: 0; }
        #answers { height: 1; margin-top: 1; align-horizontal: right; }
        #answers Button {
            min-width: 11;
            margin-left: 2;
            background: $panel;
            color: $foreground;
            text-style: none;
            &:focus { background: $primary; color: $background; text-style: bold; }
            &:disabled { color: $text-disabled; }
        }
        #dialog.-danger #yes:focus { background: $error; }
        &.-short {
            #dialog { border: none; padding: 0 1; }
            #title, #answers { margin: 0; }
            #how, #why, #speed { display: none; }
            #answers Button { min-width: 8; margin: 0 1 0 0; }
        }
    }
    """
    # Before the fields (priority), except for keys that a field consumes.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "Yes", priority=True),
        Binding("n", "no", "No", priority=True),
        Binding("escape", "answer(False)", "No"),
        Binding("w", "reason", "Say why", show=False),
        Binding("r", "speed", "Set the speed", show=False),
        Binding("left", "app.focus_previous", "Previous", show=False),
        Binding("right", "app.focus_next", "Next", show=False),
        Binding("up", "scroll_text(-1)", "Scroll up", show=False),
        Binding("down", "scroll_text(1)", "Scroll down", show=False),
    ]

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question
        # Held, not queried: it is read after the screen is gone.
        self._why = _Reason() if question.why else None
        self._speed = SpeedFields(ramp=question.speed == "ramp") if question.speed else None

    @property
    def speed(self) -> ChangeSpeed:
        """How fast the change is to be carried out."""
        return self._speed.speed if self._speed is not None else ChangeSpeed()

    @property
    def why(self) -> str:
        """The reason given, if any."""
        return self._why.value.strip() if self._why is not None else ""

    @property
    def agreed(self) -> bool:
        """True if what had to be typed is typed."""
        return not self._missing

    def compose(self) -> ComposeResult:
        question = self.question
        typed = question.typed
        with Vertical(id="dialog", classes="-danger" if question.danger else ""):
            with VerticalScroll(id="what", can_focus=False):
                yield Static(printable(question.title), id="title", markup=False)
                yield Static(Text("\n").join(map(_labelled, question.lines)), markup=False)
            with Vertical(id="foot"):
                if typed is not None:
                    yield Static(printable(f"To go on, type {typed}"), id="how", markup=False)
                    yield _Field(typed)
                if self._speed is not None:
                    yield self._speed
                if self._why is not None:
                    self._why.set_class(self._speed is not None, "-below-speed")
                    yield self._why
                with Horizontal(id="answers"):
                    yield Button("No (n)", id="no", compact=True)
                    yield Button("Yes (y)", id="yes", compact=True, disabled=typed is not None)

    def on_mount(self) -> None:
        self.query_one("#no" if self.question.typed is None else "#typed").focus()

    def action_answer(self, yes: bool) -> None:
        if not yes or self.agreed:
            # Not awaited: a screen's handler that waits for the end of the screen never returns.
            self.dismiss(yes)  # type: ignore[unused-awaitable]
        else:
            self.notify(self._missing, severity="warning", markup=False, timeout=3)

    @property
    def _missing(self) -> str:
        """Why Yes does nothing yet; empty if it can be chosen."""
        typed = self.question.typed
        if typed is not None and self.query_one("#typed", Input).value.strip() != typed:
            return f"Yes needs {printable(typed)} typed first."
        problem = self._speed.problem if self._speed is not None else ""
        return problem and f"Yes needs another speed: {printable(problem)}."

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """While a text field takes all letters, the buttons name other keys."""
        text = isinstance(event.widget, _Reason)
        self.query_one("#no", Button).label = "No (Esc)" if text else "No (n)"
        self.query_one("#yes", Button).label = "Yes" if text else "Yes (y)"

    def action_yes(self) -> None:
        self.action_answer(True)

    def action_no(self) -> None:
        self.action_answer(False)

    def action_reason(self) -> None:
        if self._why is not None:
            self._why.focus()

    def action_speed(self) -> None:
        if self._speed is not None:
            self._speed.focus_first()

    def action_scroll_text(self, lines: int) -> None:
        self.query_one("#what").scroll_relative(y=lines, animate=False)

    @on(Input.Changed, "#typed, #rate, #canary")
    def typed_more(self) -> None:
        self.query_one("#yes", Button).disabled = not self.agreed

    @on(Input.Submitted, "#typed")
    def answer_typed(self) -> None:
        self.action_answer(True)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.action_answer(event.button.id == "yes")
