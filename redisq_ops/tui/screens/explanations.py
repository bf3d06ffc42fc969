"""`t`: opens explanations, and carries out the commands and links chosen in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redisq_ops.ops.inspect.snapshot import ExplainSubject
from redisq_ops.tui.command.command_line import NOT_HERE
from redisq_ops.tui.keys.key_refusals import nothing_selected
from redisq_ops.tui.screens.explain_screen import ExplainScreen

if TYPE_CHECKING:
    from ..dashboard import Dashboard


class Explanations:
    """Opens an `ExplainScreen` and carries out the user's choice there."""

    def __init__(self, app: Dashboard) -> None:
        self._app = app

    def explain_here(self) -> None:
        """Explain the open entry or the row under the cursor; without either, the queue."""
        app, opened = self._app, self._app.opened
        view = app.current
        if opened is not None:
            about: ExplainSubject | None = ExplainSubject(opened.queue, opened.id)
        else:
            queue = view.row_queue if view.of_all_queues else app.queue
            about = ExplainSubject(queue, view.subject) if queue else None
        if about is None:
            app.refuse(nothing_selected(app))
            return
        self.explain(about)

    def explain(self, about: ExplainSubject) -> None:
        app = self._app
        screen = ExplainScreen(about, app.zone, app.new_line())
        app.open_screen(screen, lambda _: app.poller.wake())
        app.poller.wake()

    def act_on(self, suggested: ExplainScreen.Suggested) -> None:
        """Open the dialog of a suggested command; without a dialog, type it after `:`."""
        from redisq_ops.ops.hint import words_of
        from redisq_ops.tui.change.suggested_change import suggested_change

        app = self._app
        words, _ = words_of(suggested.command)
        if words[:1] == ["explain"]:
            queue, _, id = words[1].partition("/")
            self.explain(ExplainSubject(queue, id or None))
        elif words[:1] and words[0] in NOT_HERE:
            app.copy_to_clipboard(suggested.command)
            app.notify(f"copied: {NOT_HERE[words[0]]}", markup=False)
        elif app.read_only:
            app.refuse("this dashboard is read-only.")
        elif change := suggested_change(suggested.command):
            app.changes.suggested(change)
        else:
            app.navigation.close_screens()
            app.command.begin(suggested.command.removeprefix("redisq "))

    def follow(self, followed: ExplainScreen.Followed) -> None:
        """Go where a name in an explanation leads."""
        app = self._app
        link = followed.link
        if link.explain is not None:
            self.explain(link.explain)
            return
        app.navigation.close_screens()
        app.navigation.choose(followed.queue)
        if link.filter:
            app.navigation.narrowed(link.view, link.filter)
        else:
            app.navigation.show_view(link.view)
            app.current.table.go_to(link.row)
