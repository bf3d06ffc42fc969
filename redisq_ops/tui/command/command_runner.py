"""Runs a line typed after `:`: a command of the dashboard's own, or one of `redisq`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Final

from ..host import Completion, KnownNames
from ..theme import THEMES
from .command_line import parsed
from .dashboard_commands import (
    OWN,
    OwnCommand,
    ViewCommand,
    completions,
    own_command,
    refresh_seconds,
)

if TYPE_CHECKING:
    from ..dashboard import Dashboard

_RECENT: Final = 5


class CommandRunner:
    """Runs lines for the dashboard; if one can't be run, the line above the keys says why."""

    def __init__(self, app: Dashboard) -> None:
        self._app = app
        self.recent: tuple[str, ...] = ()
        """lines that were run and keys of the palette that were used, the latest first"""

    def remember(self, words: str) -> None:
        """The palette begins with it from now on."""
        self.recent = (words, *(one for one in self.recent if one != words))[:_RECENT]

    def run(self, line: str) -> None:
        """Run a command: one of the dashboard's own, or one of `redisq`."""
        app = self._app
        self.remember(line)
        own = own_command(line, [queue.name for queue in app.queues])
        if own is not None:
            self._run_own(own)
            return
        try:
            words = parsed(line, app.addresses)
        except ValueError as error:
            app.refuse(f":{line}: {error}")
            return
        if words:
            app.changes.command(words)

    def completed(self, line: str) -> Sequence[Completion]:
        return completions(line, self._app.host, self._known())

    def _known(self) -> KnownNames:
        """The names in the latest snapshot."""
        app, seen = self._app, self._app.snapshot
        if seen is None:
            return KnownNames()
        rows = [*(entry.id for entry in seen.entries), *(one.id for one in seen.requests)]
        clients = [one.client for one in seen.clients]
        clients += [one.client for row in seen.overview for one in row.clients]
        clients += [entry.client for entry in seen.entries if entry.client]
        undoable = [app.changes.last_op] if app.changes.last_op else []
        undoable += [operation.id for operation in seen.operations if operation.undoable]
        return KnownNames(
            [queue.name for queue in seen.queues],
            [f"{seen.viewport.queue}/{id}" for id in rows],
            list(dict.fromkeys(clients)),
            list(dict.fromkeys(undoable)),
        )

    def _run_own(self, command: ViewCommand | OwnCommand) -> None:
        """Carry out one of the dashboard's own commands; a failure shows above the keys."""
        from redisq_ops.core.model.errors import RedisqError

        app = self._app
        try:
            if isinstance(command, ViewCommand):
                self._open_view(command)
                return
            match command.name, command.argument:
                case "back", _:
                    app.refuse(app.navigation.back())
                case "forward", _:
                    app.refuse(app.navigation.forward())
                case "ctx", "":
                    app.choose_context()
                case "go" | "theme" | "refresh" | "by" as name, "":
                    app.refuse(f":{name} {OWN[name]}")
                case "go", address:
                    app.run_worker(self.jump(address), group="jump", exclusive=True)
                case "ctx", name:
                    app.switch_server(name)
                case "theme", name if name in THEMES:
                    app.theme = name
                case "theme", name:
                    app.refuse(f"There is no theme {name!r}: {', '.join(THEMES)}.")
                case "by", column:
                    app.all_dead.divide("" if column == "-" else column)
                    app.navigation.show_view("dead-all")
                    app.look()
                case "refresh", span:
                    app.refresh_every(refresh_seconds(span))
        except (RedisqError, LookupError) as error:
            app.refuse(str(error))

    def apply_filter(self, expression: str | None) -> None:
        from redisq_ops.ops.filter.parser import FilterError

        app = self._app
        if expression is None:
            return
        try:
            query = app.current.parsed(expression, utc=app.zone is UTC)
        except FilterError as error:
            app.refuse(f"{app.current.title} can't be filtered by {expression}: {error.problem}")
            return
        app.current.narrow(query)
        app.look()

    def _open_view(self, command: ViewCommand) -> None:
        app = self._app
        opened = app.views[command.view]
        filter = opened.parsed(command.filter, utc=app.zone is UTC) if command.filter else None
        if opened.of_all_queues:
            app.navigation.show_view(command.view)
        elif command.queue is None:
            app.navigation.open_view(command.view)
        else:
            app.navigation.open_place(command.view, command.queue)
        if filter is not None:
            app.current.narrow(filter)
            app.look()

    async def jump(self, address: str) -> None:
        """Open a queue, request or entry by its address or id."""
        app = self._app
        if why := await app.navigation.jump(address):
            app.refuse(why)
