"""`redisq-top`: the dashboard and its keys."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.binding import Binding, BindingType
from textual.events import Event, Key, Paste
from textual.widgets import Input

from redisq_ops.ops.inspect.snapshot import View
from redisq_ops.ops.terminal import printable
from redisq_ops.tui.banner import Tabs
from redisq_ops.tui.change.dialog import Dialog
from redisq_ops.tui.dashboard import Dashboard
from redisq_ops.tui.keys import keys
from redisq_ops.tui.keys.help import HelpScreen
from redisq_ops.tui.keys.key_refusals import forbidden, nothing_selected, told, unfit, why_not
from redisq_ops.tui.outline.entry_tree import EntryTree
from redisq_ops.tui.outline.section_tree import SearchInput
from redisq_ops.tui.screens.detail_screen import DetailScreen
from redisq_ops.tui.screens.explain_screen import ExplainScreen
from redisq_ops.tui.screens.opened_screen import OpenedScreen
from redisq_ops.tui.screens.server_screen import ServerScreen
from redisq_ops.tui.table.filter_input import FilterInput
from redisq_ops.tui.table.saved_filters import SavedFiltersScreen
from redisq_ops.tui.table.table import PagedTable
from redisq_ops.tui.views import ConsumersView, GroupsView, PeriodicView
from redisq_ops.tui.views.entry_view import EntryView

if TYPE_CHECKING:
    from redisq_ops.core.queues.request.queue import Control

_OF_VIEWS = frozenset({"queue", "filter", "leave"})
"""actions whose keys a screen over the view uses itself: Tab, / and Esc"""


class Top(Dashboard):
    """The dashboard, and what each key and message does."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.LOOK, *keys.CHANGE, *keys.LEAVE]

    # --- input -----------------------------------------------------------------------------------

    async def on_event(self, event: Event) -> None:
        if self._order.holds(event):
            return
        if isinstance(event, Key) and not event.is_forwarded:
            if isinstance(self.screen, Dialog) and not self.screen.answers(event):
                self.refuse("A key typed before a dialog opened is no answer to it.")
                return
            self.refused = ""
            if self.guide:
                self.guide.count_key()
        await super().on_event(event)

    def on_key(self, key: Key) -> None:
        """Called for a key that no widget has used, before the app's own bindings."""
        active = self.active_bindings.get(key.key)
        acts = active is not None and active.enabled
        self.refuse("" if acts else why_not(self, key))

    def on_paste(self, paste: Paste) -> None:
        self.refuse("Text is pasted into a line for text: / opens the filter.")

    @property
    def key_bindings(self) -> tuple[Binding, ...]:
        """Every key, with the changes of the configuration file."""
        chosen = self.settings.keys
        return tuple(replace(one, key=chosen.get(one.id or "", one.key)) for one in keys.ALL)

    def why_unfit(self, action: str, parameters: tuple[object, ...]) -> str:
        """Why a key's action can't be done now; empty if it can."""
        return unfit(self, action, parameters) or self.forbidden(action)

    def forbidden(self, action: str) -> str:
        """Why a change isn't allowed now; empty if it is, or if the action changes nothing."""
        return forbidden(action, self.read_only, self.field.problem)

    # --- moving about ----------------------------------------------------------------------------

    def action_view(self, name: View) -> None:
        self.navigation.open_view(name)

    def on_banner_trouble_clicked(self) -> None:
        self.action_only_trouble()

    def on_tabs_chosen(self, chosen: Tabs.Chosen) -> None:
        self.navigation.open_view(chosen.view)

    def action_queue(self, step: int) -> None:
        self.navigation.next_queue(step)

    def action_leave(self) -> None:
        self.navigation.leave()

    def action_go_back(self) -> None:
        self.refuse(self.navigation.back())

    def action_go_forward(self) -> None:
        self.refuse(self.navigation.forward())

    def on_paged_table_opened(self, opened: PagedTable.Opened) -> None:
        self.navigation.open_row(opened)

    def on_paged_table_folded(self, folded: PagedTable.Folded) -> None:
        self.overview.fold(folded.identity, folded.folded)

    def on_paged_table_wanted(self) -> None:
        self.poller.wake()

    def on_paged_table_nothing_selected(self) -> None:
        self.refuse(nothing_selected(self))

    def on_paged_table_moved(self) -> None:
        if self.current.holds in ("requests", "periodic"):
            self.refresh_bindings()  # a settled one can't be changed, nor can some schedules
        self.tick()

    def on_paged_table_marked(self) -> None:
        self.current.everything = False
        self.say_status()

    # --- preview ---------------------------------------------------------------------------------

    def action_preview(self) -> None:
        self.preview.toggle()
        self.look()

    def on_preview_pane_wanted(self) -> None:
        self.poller.wake()

    def on_preview_pane_left(self) -> None:
        self.screen.set_focus(self.current.table)

    def on_entry_tree_filter_wanted(self, wanted: EntryTree.FilterWanted) -> None:
        """Show only entries that match one more condition; the cursor stays on its own."""
        from redisq_ops.ops.filter.parser import FilterError, parse

        view = self.current
        if view.state is None:
            self.notify("Only lists of entries can be filtered so.", severity="warning")
            return
        before, more = view.filter.text if view.filter else "", wanted.condition
        if more in before:
            self.notify("The list is filtered by this already.", severity="warning")
            return
        text = f"({before}) {more}" if " or " in before.lower() else f"{before} {more}"
        try:
            query = parse(text.strip(), utc=self.zone is UTC)
        except FilterError as error:
            self.notify(printable(error.why), severity="warning", markup=False)
            return
        if isinstance(self.screen, DetailScreen):
            self.screen.dismiss(None)  # type: ignore[unused-awaitable]
        view.narrow(query, keep=True)
        self.poller.wake()
        self.say_status()

    def on_resize(self) -> None:
        if self.snapshot is not None:
            self.poller.wake()

    # --- filter, order, clipboard, explanations, help --------------------------------------------

    def action_filter(self) -> None:
        self.field.begin(self.current, utc=self.zone is UTC)

    @on(FilterInput.Narrowed)
    def narrow(self, narrowed: FilterInput.Narrowed) -> None:
        self.current.narrow(narrowed.query)
        self.poller.wake()
        self.say_status()

    @on(Input.Submitted, "#filter")
    def keep_filter(self) -> None:
        self.field.display = False
        self.look()
        view = self.current
        if isinstance(view, EntryView) and view.searchable:
            self.changes.search(view)

    def action_sort(self) -> None:
        self.current.next_order()
        self.look()

    def action_turn(self) -> None:
        self.current.turn_order()
        self.look()

    def on_paged_table_header_clicked(self, clicked: PagedTable.HeaderClicked) -> None:
        self.current.sort_by(clicked.key)
        self.look()

    def action_zoom(self, step: int) -> None:
        if why := self.current.zoom(step):
            self.refuse(f"Zoom: {why}")
        else:
            self.look()

    def action_all_queues(self) -> None:
        if self.view != "charts":
            self.refuse("a: only charts (v) can be of all queues together.")
        else:
            self.charts.toggle_all_queues()
            self.look()

    def action_only_trouble(self) -> None:
        """Show the overview's queues in trouble; in the overview, toggle between these and all."""
        overview = self.overview
        in_front = self.view == "overview" and self.opened is None
        if in_front or not overview.only_trouble:
            overview.toggle_trouble()
        if not in_front:
            self.navigation.show_view("overview")
        self.look()

    def action_yank(self) -> None:
        if (identity := self.current.table.identity) is not None:
            copied = self.current.copied(identity)
            self.copy_to_clipboard(copied)
            self.notify(f"copied {printable(copied)}", markup=False)
        else:
            self.refuse(nothing_selected(self))

    def action_explain(self) -> None:
        self.explanations.explain_here()

    def on_explain_screen_suggested(self, suggested: ExplainScreen.Suggested) -> None:
        self.explanations.act_on(suggested)

    def on_explain_screen_followed(self, followed: ExplainScreen.Followed) -> None:
        self.explanations.follow(followed)

    def action_scan(self) -> None:
        if isinstance(self.current, GroupsView):
            self.changes.scan(self.current)
        elif isinstance(self.current, EntryView):
            self.changes.search(self.current)

    def action_server(self) -> None:
        self.open_screen(ServerScreen(), lambda _: self.poller.wake())
        self.poller.wake()

    def action_marked(self) -> None:
        if not self.marked:
            self.refuse("*: nothing is marked; Space marks the row under the cursor.")
        elif self.source.connected is not None:
            self.run_worker(self._list_marks(), group="marks", exclusive=True)

    async def _list_marks(self) -> None:
        from redisq_ops.tui.screens.marks_screen import list_marks

        await list_marks(self)

    def action_help(self) -> None:
        self.open_screen(HelpScreen())

    # --- changes ---------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """False hides a key that has no use here; None greys out a change that isn't allowed now.
        Either key, if pressed, says why."""
        if self.focused in (self.field, self.command) or isinstance(self.focused, SearchInput):
            return False
        if action == "filter" and self.preview.has_focus_within:
            return False  # there, / searches the preview
        if action in _OF_VIEWS and len(self.screen_stack) > 1:
            return False
        if unfit(self, action, parameters):
            return False
        if self.forbidden(action):
            return False if self.read_only else None
        return True

    def action_everything(self) -> None:
        self.current.everything = not self.current.everything
        self.say_status()

    def action_move(self, verb: str) -> None:
        self.current.table.stay()
        if isinstance(self.acting, ConsumersView):
            self.changes.take_over(verb, self.acting)
        elif isinstance(self.acting, PeriodicView):
            self.changes.periodic("run" if verb == "requeue" else "rm", self.acting)
        else:
            self.changes.move(verb, self.acting)

    def action_edit(self) -> None:
        self.current.table.stay()
        self.changes.edit(self.acting)

    def action_acknowledge(self) -> None:
        self.current.table.stay()
        view = self.current
        queue = view.row_queue if view.of_all_queues and not self.opened else self.acting_queue
        self.changes.acknowledge(queue)

    def action_hold(self) -> None:
        self.current.table.stay()
        if word := told(self, "hold"):
            self.changes.command_worker(word, self.acting)
        elif isinstance(self.acting, PeriodicView):
            self.changes.periodic("hold", self.acting)
        else:
            self.changes.hold(self.acting)

    # --- commands --------------------------------------------------------------------------------

    def action_command(self) -> None:
        """Open the line for a command, also from a dialog, which gets a No."""
        self.navigation.close_dialogs()
        self.clear_notifications()  # they would lie over the completions
        self.command.begin()

    def action_begin(self, verb: str) -> None:
        """Begin the change that a command of this name makes; a dialog asks for what it needs."""
        noun, _, last = verb.rpartition(" ")
        if word := told(self, verb):
            self.current.table.stay()
            self.changes.command_worker(word, self.acting)
        elif isinstance(self.acting, ConsumersView):
            self.current.table.stay()
            self.changes.group("move" if verb == "move" else "rm", self.acting)
        elif noun == "request":
            self.current.table.stay()
            self.changes.set_rule(cast("Control", last), self.acting)
        else:
            self.action_move(last)

    def action_export(self) -> None:
        view = self.current
        if view.holds == "queues" and not view.chosen:
            self.refuse(nothing_selected(self))
            return
        self.changes.export(view)

    @on(Input.Submitted, "#command")
    def run_command(self) -> None:
        line = self.command.end()
        self.look()
        if line:
            self.commands.run(line)

    def action_saved_filter(self) -> None:
        self.push_screen(SavedFiltersScreen(self.settings.filters), self.commands.apply_filter)  # type: ignore[unused-awaitable]

    def action_command_palette(self) -> None:
        from redisq_ops.tui.command.command_palette import DashboardPalette

        if len(self.screen_stack) == 1 or isinstance(self.screen, OpenedScreen):
            self.push_screen(DashboardPalette())  # type: ignore[unused-awaitable]

    def action_freeze(self) -> None:
        """Stop the automatic refresh, so that the screen holds still; pressed again, resume it."""
        self.poller.frozen = not self.poller.frozen
        if not self.poller.frozen:
            self.poller.wake()
        self.tick()

    def action_page(self) -> None:
        """Show the row under the cursor, or else the queue, in the user's pager."""
        opened, address = self.opened, self.addresses.queue
        under = self.current.table.identity if opened is None else opened.id
        if under is not None and (self.acting.holds == "requests" or self.acting.state is not None):
            address = f"{self.acting_queue}/{under}"
        if address is None:
            self.refuse(nothing_selected(self))
        else:
            self.changes.page(["inspect", address])

    def action_undo(self) -> None:
        everywhere = self.current.of_all_queues and self.opened is None
        self.changes.undo(None if everywhere else self.acting_queue)

    async def action_quit(self) -> None:
        if self.changes.progress:
            self.changes.tell("A change is running: Esc stops it, then q leaves.", False)
        else:
            self.exit()
