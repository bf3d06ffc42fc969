"""Which commands there are, and the module of each: it is loaded when its command is."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info, get_command_name, get_group_from_info

HEADINGS = {
    "Work": {
        "submit": ("submit", "Submit a file as one request, a sub-request per line."),
        "work": ("work", "Run a handler for every entry of a queue."),
        "wait": ("wait", "Wait until requests or entries end, or counts meet a condition."),
        "results": ("results", "Print the results of a request in order, or of an entry."),
        "periodic": ("periodic", "List, add, change, pause, run and remove periodic entries."),
    },
    "Look": {
        "ls": ("overview", "List the queues: entries by state, rates, oldest age, trouble."),
        "top": ("top", "Open the dashboard."),
        "explain": ("explain", "Explain why an entry, request or queue does not progress."),
        "inspect": ("inspect", "Show all about one queue, request or entry."),
        "dlq": ("states", "List and group dead letters: failed or lost too often."),
        "waiting": ("states", "List waiting entries."),
        "pending": ("states", "List pending entries: those that consumers hold."),
        "delay": ("states", "List, add and reschedule delayed entries."),
        "done": ("states", "List done entries of other programs."),
        "trash": ("states", "List, restore and remove purged entries."),
        "select": ("select", "List or count the entries that match an expression."),
        "tasks": ("tasks", "List the tasks of queues: runs, rate, failures, run times."),
        "history": ("overview", "Show the latest events of a queue."),
        "report": ("report", "Report on queues: tables, an HTML page or Parquet."),
        "sql": ("sql", "Run a SQL query over queues, dead letters and history."),
        "spark": ("spark_commands", "Read, report on, submit and replay queues with Spark."),
    },
    "Change": {
        "replay": ("states", "Move dead entries back to waiting."),
        "requeue": ("states", "Move pending or delayed entries back to waiting."),
        "purge": ("states", "Move entries to the trash, or remove them for good."),
        "move": ("states", "Move entries to another queue of the same kind."),
        "edit": ("states", "Change the payload of entries."),
        "claim": ("states", "Give pending entries to another consumer."),
        "undo": ("admin", "Undo a change."),
        "log": ("overview", "List the changes that operators made."),
        "apply": ("apply", "Carry out a plan file."),
        "request": ("admin", "List, cancel, pause or resume requests; set limit or priority."),
        "queue": ("admin", "Pause, resume, drain or remove a queue."),
        "client": ("client", "List the clients of a queue; block them, set weight, cap or rate."),
        "workers": ("held_entries", "List workers; claim or settle what they hold; remove them."),
        "group": (
            "consumer_groups",
            "Create, move and remove consumer groups; trim streams.",
        ),
        "export": ("export_import", "Write entries as JSON Lines."),
        "import": ("export_import", "Add exported entries to a queue of the same kind."),
    },
    "Watch over": {
        "check": ("check", "Check all queues against rules, for a monitor."),
        "watch": ("watch", "Check, notify, serve metrics and record, in one process."),
        "metrics": ("metrics", "Serve the numbers of all queues to Prometheus."),
        "recording": ("recording", "Record queues in a file; show a moment of it."),
        "fsck": ("overview", "Check the invariants of a queue, or of all queues."),
        "doctor": ("doctor", "Check server, connection, rights and queues; say what to do."),
    },
    "Set up": {
        "demo": ("demo", "Open the dashboard on a demo server with incidents to solve."),
        "discover": ("discover", "Find queues of other programs."),
        "settings": ("admin", "Show or change the settings of a queue."),
        "config": ("overview", "Show every setting and where its value comes from."),
        "acl": ("doctor", "Print the ACL rule of a role."),
        "schema": ("schema", "Print the JSON Schema of what commands print with --json."),
        "kind": ("kind", "Write the package of a new kind of queue."),
    },
}
"""heading -> command -> the module here that defines it, and its line in the list of commands: the
help of a group, the beginning of the help of a command"""
COMMANDS = {name: command for each in HEADINGS.values() for name, command in each.items()}


class Commands(TyperGroup):
    """The commands of `redisq`. Lists them without loading any."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._listing = TyperGroup(name=self.name, params=self.params)
        for name, (_, help) in COMMANDS.items():
            self._listing.add_command(TyperCommand(name, short_help=help))
        self.commands = self._listing.commands

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return load(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        widest = max(map(len, COMMANDS))
        for heading, commands in HEADINGS.items():
            with formatter.section(heading):
                rows = [(name.ljust(widest), help) for name, (_, help) in commands.items()]
                formatter.write_dl(rows)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        ctx.command = self._listing  # Click lists the commands of this one
        return self._listing.shell_complete(ctx, incomplete)


@cache
def load(name: str) -> Any:
    """A command, made from what its module registers; making it takes longer than most of them
    run, so it is made once."""
    module = import_module(f".{COMMANDS[name][0]}", __name__)
    making: Any = {"pretty_exceptions_short": True, "rich_markup_mode": None}
    for command in module.commands.registered_commands:
        if name == (command.name or get_command_name(command.callback.__name__)):
            return get_command_from_info(command, **making)
    for group in module.commands.registered_groups:
        if name == group.name:
            group.help = COMMANDS[name][1]
            return get_group_from_info(group, suggest_commands=True, **making)
    raise LookupError(f"{module.__name__} registers no command {name}")
