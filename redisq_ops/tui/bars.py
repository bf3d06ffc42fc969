"""The lines around the view: header, tabs, a notice in place of a view, and the status line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redisq_ops.ops.terminal import count, kind_of, printable
from redisq_ops.tui.banner import Banner, FixedText, State, Tabs, TabsState

if TYPE_CHECKING:
    from .dashboard import Dashboard


class Bars:
    """Draws the lines that depend on the time and on keys, not only on a snapshot."""

    def __init__(self, app: Dashboard) -> None:
        self._app = app
        # Held, not queried: messages still come while the screen is being taken apart at the end.
        self.banner, self.tabs = Banner(), Tabs()
        self.notice, self.status = FixedText("notice"), FixedText("status")

    def tick(self) -> None:
        """Redraw these lines with the present time and state."""
        app = self._app
        silent = None if app.seen_at is None else app.clock() - app.seen_at
        failing, connected = app.problem is not None, app.source.connected
        queue = None if app.current.of_all_queues else app.open_queue
        counts = app.counts if queue else None
        frozen = silent is not None and app.poller.frozen and not failing
        stale = silent is not None and not frozen and (failing or silent > 2 * app.interval + 1)
        summed = app.overview.sum if app.view == "overview" and app.answered else None
        self.banner.state = State(
            connected.label if connected else "",
            queue,
            counts,
            app.snapshot.now_ms // 1000 * 1000 if app.snapshot else None,
            app.read_only,
            int(silent or 0) if stale else None,
            failing,
            app.zone,
            connected.word if connected else "",
            connected.color if connected else "",
            summed.in_trouble if summed else None,
            summed.sound if summed else False,
            tuple(summed.words) if summed else (),
            app.navigation.crumbs,
            app.snapshot.server if app.snapshot else "",
            failing and _is_login(app.problem),
            int(silent or 0) if frozen else None,
        )
        self.tabs.state = TabsState(app.view, queue or app.under_cursor, counts)
        self._say_notice()
        app.preview.follow(app.preview_subject, app.split.size.height, app.current.lines)
        self.say_status()

    def _say_notice(self) -> None:
        """One line in place of a view that can't be shown."""
        app = self._app
        said, view, snapshot = "", app.current, app.snapshot
        if snapshot is None:
            said = self._nothing_seen()
        elif view.of_all_queues:
            same = snapshot.viewport.view == app.view
            said = snapshot.problem or "" if same else ""
        elif snapshot.viewport.queue == app.queue:
            queue = snapshot.queue
            if app.queue is None:
                said = "There is no queue here yet."
            elif queue is None or snapshot.problem is not None:
                said = snapshot.problem or f"no queue {app.queue!r} here"
            elif not view.offered_by(queue):
                said = f"{queue.name} is {kind_of(queue.kind)}: it has no {view.title}."
        self.notice.show("\n".join(map(printable, said.split("\n"))))
        self.notice.display = bool(said)
        app.split.display = not said

    def _nothing_seen(self) -> str:
        """The text shown until the first snapshot arrives."""
        app = self._app
        if app.problem is None:
            return "Reading the queues …"
        from redisq_ops.core.model.errors import Forbidden

        lines = [f"Nothing has been read from the server yet: {app.problem}"]
        if isinstance(app.problem, Forbidden):
            lines.append("`redisq acl viewer` prints the ACL rule that a user needs to look.")
        lines.append(f"The dashboard tries again every {app.interval:g} s; q quits.")
        return "\n".join(lines)

    def say_status(self) -> None:
        """Redraw the line above the keys: a problem, a running change, or the view's status."""
        app = self._app
        busy = app.changes.progress or app.field.pointed(app.size.width - 2)
        said = [busy] if busy else [] if self.notice.display else list(app.current.status)
        if app.refused and not busy:
            said = [app.refused]
        elsewhere = len(app.marked) - len(app.current.table.marks)
        if elsewhere and not (busy or app.refused):
            said.append(f"{count(elsewhere)} marked elsewhere (*)")
        counts = None if app.current.of_all_queues else app.counts
        if counts is not None and counts.problem and not busy:
            said.append(counts.problem)
        if counts is not None and counts.only_shown and not busy:
            said.append(f"only shown: {counts.only_shown}")
        if app.problem is not None and not app.changes.progress:
            said = [" ".join(str(app.problem).split()) or type(app.problem).__name__]
        self.status.show(printable(" · ".join(said)))
        loud = bool(busy or app.refused) or app.current.everything
        self.status.set_class(loud, "-loud")
        self.status.set_class(app.problem is not None, "-bad")


def _is_login(problem: Exception | None) -> bool:
    from redisq_ops.core.model.errors import LoginRefused

    return isinstance(problem, LoginRefused)
