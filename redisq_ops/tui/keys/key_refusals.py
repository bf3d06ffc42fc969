"""Why a key can't act: in this view, for this kind of queue, or now."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.actions import parse as parse_action
from textual.events import Key

from redisq_ops.core.model.states import EDITABLE, VERBS
from redisq_ops.ops.terminal import kind_of
from redisq_ops.tui.keys import keys
from redisq_ops.tui.screens.opened_screen import OpenedScreen
from redisq_ops.tui.views import GroupsView, numbered
from redisq_ops.tui.views.entry_view import EntryView

if TYPE_CHECKING:
    from redisq_ops.core.model.states import Verb
    from redisq_ops.core.model.worker_command import WorkerWord

    from ..app import Top
    from ..dashboard import Dashboard

OF_CLIENTS = {
    "request limit": "client cap",
    "request priority": "client weight",
    "request cancel": "client block",
}
"""the same keys for clients"""
_GROUPLESS = "it is for queues that groups of consumers read"
_OF_LISTS = frozenset(
    {
        "queue",
        "filter",
        "sort",
        "turn",
        "preview",
        "scan",
        "zoom",
        "all_queues",
        "export",
        "saved_filter",
        "yank",
        "leave",
        "everything",
    }
)
"""actions that have no use on a screen about one entry, request or queue"""
_OF_WHAT_IS_OPEN = frozenset({"move", "edit", "hold", "begin"})
"""actions whose meaning depends on what such a screen shows"""


def why_not(app: Top, key: Key) -> str:
    """Why a key that was pressed does nothing."""
    sign = keys.sign(key.key, key.character)
    if len(app.screen_stack) > 1 and not isinstance(app.screen, OpenedScreen):
        return f"{sign} has no meaning here."
    if app.focused is app.field:
        return f"{sign} has no meaning in a filter: Enter keeps it, Esc drops it."
    if app.focused is app.command:
        return f"{sign} has no meaning in a command: Enter runs it, Esc drops it."
    for binding in app.key_bindings:
        if key.key in binding.key.split(","):
            _, action, parameters = parse_action(binding.action)
            why = app.why_unfit(action, parameters)
            return f"{sign} {binding.description}: {why}"
    return f"{sign} has no meaning here: ? lists the keys."


def nothing_selected(app: Dashboard) -> str:
    """Why there is no row for a key that needs one."""
    table = app.current.table
    if app.current.stands_for:
        return f"This row stands for {app.current.stands_for}: Enter shows them."
    if table.cursor_lost:
        return "What was under the cursor is not shown any more (✗): move to another one."
    return "This row has not been read yet." if table.total else "The list is empty."


def unfit(app: Top, action: str, parameters: tuple[object, ...]) -> str:
    """Why an action has no use in this view or for this queue; empty if it has one.

    Not checked: whether there is a row for it. The action itself says so.
    """
    view, queue = app.acting, app.listed(app.acting_queue)
    kind = f"{kind_of(queue.kind)}" if queue else "this queue"
    if app.opened is not None and action in _OF_LISTS:
        return "it is for lists: Esc goes back to one."
    if (opened := app.opened) and opened.id and not opened.read and action in _OF_WHAT_IS_OPEN:
        return "it has not been read yet."
    match action:
        case "hold" if told(app, "hold"):
            return ""
        case "everything" if view.state is None or not view.verbs:
            return "it is for lists of entries that can be changed together."
        case "move" if not _can(app, verb := str(parameters[0])):
            if verb not in view.verbs:
                return f"not in this view: {_where(verb)}."
            return f"{kind} can't do that to {view.state or view.acts_on} entries."
        case "move" if why := view.unfit(str(parameters[0])):
            return f"{why}."
        case "edit" if not _edits(app):
            if view.state not in EDITABLE:
                return "payloads are edited in the views of dead (5), delayed (6) and waiting (9)."
            return f"{kind} has no payloads that can be edited here."
        case "scan" if not isinstance(view, GroupsView) and (
            view.filter is None or not isinstance(view, EntryView)
        ):
            return "it groups all dead letters (7), or searches all entries for a filter (/)."
        case "begin" if why := _unfit_command(app, str(parameters[0])):
            return why
        case "preview" if not view.has_preview:
            return "charts have none."
        case "hold" if _is_settled(app):
            return "the request is settled."
        case "hold" if view.of_all_queues and view.holds == "queue":
            return "a queue is held in the overview (1) and in its own views."
        case "hold" if view.holds == "periodic":
            return (why := view.unfit("hold")) and f"{why}."
        case "hold" if not _holdable(app):
            return f"{kind} can't be paused by redisq."
    return ""


def _unfit_command(app: Top, verb: str) -> str:
    """As `unfit`, for a command that a key begins."""
    view, queue = app.acting, app.listed(app.acting_queue)
    if (word := view.tells.get(verb)) and queue:
        return (why := queue.no_commands.get(word, "")) and f"{why}."
    if verb in OF_CLIENTS and view.name_ == "clients":
        return ""
    if view.name_ == "consumers" and verb in ("move", "request cancel"):
        grouped = queue is not None and "HasConsumerGroups" in queue.features
        return "" if grouped else f"{_GROUPLESS}."
    if verb.startswith("request ") and view.holds != "requests":
        return "it is for requests (2, 3) and clients (c)."
    if verb.startswith("request ") and _is_settled(app):
        return "the request is settled."
    if verb == "delay reschedule" and view.state != "delayed":
        return "only for delayed entries (view 6)."
    if verb == "delay reschedule" and queue and not queue.actions.get("reschedule"):
        return f"{kind_of(queue.kind)} keeps its entries' times itself."
    if verb == "trash restore" and view.state != "trash":
        return "it is for the trash: 0."
    if verb == "move" and view.state not in VERBS["move"][0]:
        return "it is for waiting, delayed and dead entries."
    return ""


def told(app: Top, key: str) -> WorkerWord | None:
    """What a key of this view tells a worker, if the worker's program has such a command."""
    word, queue = app.acting.tells.get(key), app.listed(app.acting_queue)
    return None if queue is None or word in queue.no_commands else word


def forbidden(action: str, read_only: bool, filter_problem: str | None) -> str:
    """Why a change isn't allowed now; empty if it is, or if the action changes nothing."""
    if action not in ("everything", "move", "edit", "hold", "undo", "begin", "acknowledge"):
        return ""
    if read_only:
        return "this dashboard is read-only."
    # After a click elsewhere the filter line may show an invalid text, while the list is still
    # filtered by an earlier one.
    return "the filter can't be read: Esc drops it." if filter_problem else ""


def _can(app: Top, verb: str) -> bool:
    """Whether a verb can be used on the rows of this view, in this kind of queue."""
    view, queue = app.acting, app.listed(app.acting_queue)
    state = view.state or view.acts_on
    # Without a queue the rows are of all queues.
    if state is None or queue is None or verb not in view.verbs:
        return verb in view.verbs
    if view.name_ == "consumers" and (verb == "purge" or "HasConsumerGroups" in queue.features):
        return "HasConsumerGroups" in queue.features  # of one group at a time: not in `actions`
    return state in queue.actions.get(cast("Verb", verb), ())


def _holdable(app: Top) -> bool:
    """Whether redisq can pause at least one of the queues that a hold would apply to."""
    names = app.chosen if app.acting.holds == "queues" else (app.acting_queue,)
    chosen = [queue for queue in app.queues if queue.name in names]
    return not chosen or any(
        queue.has_settings or "HasOwnersPause" in queue.features for queue in chosen
    )


def _is_settled(app: Top) -> bool:
    """Whether the next key is about one request, of which nothing is left to do."""
    if app.opened is not None:
        return app.opened.settled
    view = app.current
    return (
        view.holds == "requests" and not view.table.marks and bool(view.item and view.item.settled)
    )


def _edits(app: Top) -> bool:
    view, queue = app.acting, app.listed(app.acting_queue)
    can = EDITABLE if queue is None else queue.editable_states
    return view.state in can


def _where(verb: str) -> str:
    """The views that offer this verb, with their keys."""
    views = [f"{digit} ({view.title})" for digit, view in numbered() if verb in view.verbs]
    return "see " + ", ".join(views)
