"""Declares commands: options and arguments, those that commands share, and how a command is run.

A command is a function. Each of its parameters is an option, or a group of options: a dataclass
whose fields are options or groups.
"""

import gc
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from inspect import Parameter, Signature, cleandoc, get_annotations, signature
from typing import Annotated, Any, NamedTuple, TypeGuard, TypeVar, dataclass_transform, get_args

import typer
from typer.models import ArgumentInfo, OptionInfo

from .completion import addresses, clients, conditions, periodics, queues, settings, workers
from .redis_import import import_redis
from .session import Session

MOST = 10**9
"""the highest number that options take; servers count to 2**63"""
_LIST_WIDTH = 62
"""characters of a help text in a list of commands on 80 columns"""
_MODULES = 100_000
"""new objects, mostly of loaded modules, before the first garbage collection"""
_DECLARED = "declared"
"""key of a field's declaration in the field's metadata"""
_ARGUMENT_HELP = {
    "QUEUE": "Name of the queue.",
    "ADDRESS": "Queue, request or entry: mail, mail/r1, mail/r1/17.",
    "[queue|request|entry] ADDRESS": "What it is, and its address: mail, mail/r1, mail/r1/17.",
    "[ADDRESS]...": "Queues, requests or entries: mail, mail/r1, mail/r1/17.",
    "[QUEUE]...": "Queues, also 'mail*'; default: all queues.",
}
"""metavar of an argument -> its help, if it has no other"""
_COMPLETED: dict[str, Callable[..., Any]] = {
    "QUEUE": queues,
    "ADDRESS": addresses,
    "QUEUE/ID": addresses,
    "ID": addresses,
    "REQUEST": addresses,
    "CLIENT": clients,
    "FROM": workers,
    "QUEUE/NAME": periodics,
    "NAME=VALUE": settings,
}
"""metavar of an argument -> the function that completes it"""
Act = TypeVar("Act", bound=Callable[..., int | None])
"""a command: a function; None is exit code 0"""
Kind = TypeVar("Kind")


class _Declared(NamedTuple):
    """An option or argument, and its default (``...``: required)."""

    info: OptionInfo | ArgumentInfo
    default: object


@dataclass_transform(frozen_default=True, kw_only_default=True)
def options(kind: type[Kind]) -> type[Kind]:
    """Make a class a frozen dataclass of options, without comparison and repr: making these unused
    methods would take most of the time."""
    for name in kind.__annotations__:
        if isinstance(declared := vars(kind).get(name), _Declared):
            default: Any = MISSING if declared.default is ... else declared.default
            setattr(kind, name, field(default=default, metadata={_DECLARED: declared}))
    return dataclass(frozen=True, kw_only=True, eq=False, repr=False)(kind)


# Their return type is Any, as for `dataclasses.field`: a checker sees the field's own type.
def option(names: str, metavar: str | None, help: str, default: object = None, **more: Any) -> Any:
    """An option with a value; ``names``: such as ``--output -o``.

    ``more``: arguments of `typer.Option`, such as ``min`` and ``max`` of a number.
    """
    info: OptionInfo = typer.Option(*names.split(), metavar=metavar, help=help, **more)
    return _Declared(info, default)


def flag(names: str, help: str, default: bool | None = False) -> Any:
    """An option without a value."""
    return option(names, None, help, default)


def argument(metavar: str, help: str = "", complete: Any = None) -> Any:
    """A positional argument; optional if all of ``metavar`` is in brackets."""
    info: ArgumentInfo = typer.Argument(
        metavar=metavar,
        help=help or _ARGUMENT_HELP.get(metavar, ""),
        show_default=False,
        autocompletion=complete or _COMPLETED.get(metavar.strip("[].…")),
    )
    return _Declared(info, None if re.fullmatch(r"\[.*\](\.\.\.)?", metavar) else ...)


def _number(kind: type[int] | type[float], least: Any, most: Any) -> Callable[[Any], Any]:
    """A parser of numbers; its errors name the allowed range in words."""
    what = "a whole number" if kind is int else "a number"
    if least is not None:
        what += f" from {least:,}" + ("" if most is None else f" to {most:,}")

    def number(value: Any) -> Any:
        try:
            found = kind(value)
        except ValueError:
            found = None
        low = found is not None and least is not None and found < least
        if found is None or low or (most is not None and found > most):
            raise typer.BadParameter(f"write {what}, not {value}")
        return found

    return number


def command(
    group: typer.Typer,
    name: str,
    *,
    prints: str,
    examples: Sequence[str] = (),
    repeats: bool = False,
    fixed: Mapping[str, object] | None = None,
    hidden: bool = False,
) -> Callable[[Act], Act]:
    """Add a function as a command to a group. Its docstring is the help; it is called with the
    session and the typed values. ``examples``: for a docstring that doesn't end with examples.

    With ``repeats`` it has ``--watch``. ``prints``: the types of its output with ``--json``, see
    `output_types`; the class ``PlanOutput`` is written ``Plan``. ``fixed``: values of parameters
    that are not options of this command. ``hidden``: no help and no completion lists it.
    """

    settled = fixed or {}

    def declare(act: Act) -> Act:
        def run(context: typer.Context, every: str | None = None, **typed: Any) -> int:
            s: Session = context.obj
            values = _collected(act, {**typed, **settled})
            with _late_search_for_garbage():
                import_redis()  # only now: help and completion don't need it
                if every is None:
                    return _run(act, s, values)
                from .watch import repeat

                return repeat(lambda: _run(act, s, values), every, s.json)

        own = [*_parameters(act, settled), *([_parameter("every", str | None, _EVERY)] * repeats)]
        context = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
        run.__annotations__ = {each.name: each.annotation for each in (context, *own)}
        run.__dict__ |= {"__signature__": Signature([context, *own]), "prints": prints, "act": act}
        help, _, ends = cleandoc(act.__doc__ or "").partition("\n\nExamples:\n")
        # The mark keeps the lines of the last paragraph from being joined.
        epilog = "\n".join(["\b", "Examples:", ends or "\n".join(f"  {line}" for line in examples)])
        short = _in_short(help)
        group.command(name, help=help, short_help=short, epilog=epilog, hidden=hidden)(run)
        return act

    return declare


def _run(act: Callable[..., int | None], s: Session, values: Mapping[str, Any]) -> int:
    from redisq_ops.core.model.errors import Forbidden

    try:
        return act(s, **values) or 0
    except Forbidden as error:
        if _changes(act):
            error.tell_change()
        raise


def _changes(of: Callable[..., object]) -> bool:
    """Whether the command asks before it changes something."""
    kinds = [kind for _, kind, _ in _declarations(of)]
    return Go in kinds or any(_changes(kind) for kind in kinds if _is_group(kind))


def _is_group(kind: Any) -> TypeGuard[type[Any]]:
    return isinstance(kind, type) and is_dataclass(kind)


def _declarations(of: Callable[..., object]) -> Iterator[tuple[str, Any, Any]]:
    """Parameters of a command or fields of a group of options: name, type and declaration."""
    types = get_annotations(of, eval_str=True)  # modules may make annotations text
    if _is_group(of):
        for each in fields(of):
            yield each.name, types[each.name], each.metadata.get(_DECLARED)
    else:
        for parameter in list(signature(of).parameters.values())[1:]:  # without the session
            yield parameter.name, types[parameter.name], parameter.default


def _parameters(of: Callable[..., object], fixed: Mapping[str, object]) -> Iterator[Parameter]:
    """The parameters of a command for Typer; a group is replaced by its options."""
    for name, kind, declared in _declarations(of):
        if _is_group(kind):
            yield from _parameters(kind, fixed)
        elif name not in fixed:
            yield _parameter(name, kind, declared)


def _parameter(name: str, kind: Any, declared: _Declared) -> Parameter:
    info, default = declared
    for number in (int, float):
        if number in (kind, *get_args(kind)):
            info.parser = _number(number, info.min, info.max)
            info.metavar = info.metavar or "N"
    if default is ...:
        default = Parameter.empty
    annotation = Annotated[kind, info]
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _collected(of: Callable[..., object], typed: Mapping[str, object]) -> dict[str, Any]:
    """The arguments for a command or a group of options, made from Typer's values."""
    return {
        name: kind(**_collected(kind, typed)) if _is_group(kind) else typed[name]
        for name, kind, _ in _declarations(of)
    }


@contextmanager
def _late_search_for_garbage() -> Iterator[None]:
    """Collect garbage only after `_MODULES` new objects: collections while modules load would take
    a tenth of that time."""
    usual = gc.get_threshold()

    def restore(*_: object) -> None:
        if gc.get_threshold()[0] == _MODULES:  # the dashboard sets its own
            gc.set_threshold(*usual)

    gc.set_threshold(_MODULES, *usual[1:])
    gc.callbacks.append(restore)
    try:
        yield
    finally:
        gc.callbacks.remove(restore)
        restore()


def _in_short(help: str) -> str:
    """The first sentence, or its first clause if it is too long for a list of commands."""
    sentence = re.split(r"\.\s|\.$", help, maxsplit=1)[0]
    clause = re.split("[;:] ", sentence)[0] if len(sentence) > _LIST_WIDTH else sentence
    return f"{' '.join(clause.split())}."


# --- options of several commands -----------------------------------------------------------------

QUEUE = argument("QUEUE")
QUEUES = argument("[QUEUE]...")
ADDRESS = argument("ADDRESS")
_EVERY = option("--watch", "SPAN", "Repeat every SPAN, such as 2s, until Ctrl+C.")
PLAN = option("--plan", "FILE", "Write the plan to FILE and change nothing.")
QUEUE_CHOICE = option("--queue", "NAME", "Queue to use.", autocompletion=queues)
RATE = option("--rate", "N/s", "Change at most N entries per second.")
SKIP_INVALID = option("--skip-invalid", "FILE", "Send the valid lines; list the others in FILE.")


@options
class Go:
    """Whether and why to carry out a change."""

    reason: str = option("--reason", "TEXT", "Reason, kept in the audit log.", default="")
    dry_run: bool = flag("--dry-run", "Show the plan and change nothing.")
    yes: bool = flag("--yes -y", "Go ahead without asking.")


@options
class Conditions:
    """Conditions that entries have to match, and limits of the scan."""

    where: str | None = option(
        "--where",
        "EXPR",
        "Only entries that match: 'error~timeout age>2h client=acme'.",
        autocompletion=conditions,
    )
    match: str | None = option(
        "--match", "REGEX", "Only entries whose id, error type or message matches."
    )
    older_than: str | None = option("--older-than", "AGE", "Minimum age in this state: 90s, 2h.")
    max: int | None = option("--max", None, "Maximum number of entries.", min=1, max=MOST)
    window: int | None = option(
        "--window", "N", "Scan only the first N entries; -N: the latest N.", min=-MOST, max=MOST
    )
    scan_rate: str | None = option("--scan-rate", "N/s", "Scan at most N entries per second.")


@options
class Selecting:
    """The selection of a command's entries."""

    addresses: list[str] | None = argument("[ADDRESS]...")
    queue: str | None = QUEUE_CHOICE
    conditions: Conditions


@options
class When:
    """A time, by one of two options."""

    at: str | None = option("--at", "TIME", "Time: the next 03:12, or ISO 8601 with offset.")
    after: str | None = option("--in", "SPAN", "Time from now: 90s, 5m, 2h, 3d.")


@options
class Ramping:
    """How carefully a replay begins, and when it pauses or stops."""

    canary: int | None = option(
        "--canary", "N", "Replay N first; ramp up only if they succeed.", min=1, max=MOST
    )
    ramp: bool = flag("--ramp", "Start slowly; double up to --rate while entries succeed.")
    max_reentry: str | None = option(
        "--max-reentry", "SHARE", "Pause when more than this share fails again. [20%]"
    )
    max_latency: str | None = option(
        "--max-latency", "SPAN", "Pause when the server answers this much slower. [5ms]"
    )
    max_waiting: int | None = option(
        "--max-waiting", "N", "Pause while more than N entries are waiting.", min=0, max=MOST
    )
    watch: str | None = option(
        "--watch", "SPAN", "Wait this long for replayed entries to end. [1m]"
    )
    patience: str | None = option("--patience", "SPAN", "Stop after being paused this long. [5m]")
