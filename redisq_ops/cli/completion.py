"""Shell completion of names that only the server or the configuration knows, such as queues.

The shell waits meanwhile, so any failure quickly gives no names. Importing this module loads
nothing: the Redis client is imported when the name of a queue is completed.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redisq_ops.core.engine.queue import Queue
    from redisq_ops.core.redis.operation import BlockingClient
    from redisq_ops.tui.host import KnownNames

WITHIN_S = 0.3
"""how long to wait for the server's reply"""
MOST = 200
_PLAIN = re.compile(r"(?:[\w./:@%+,=^~-]|[^\x00-\x7f])+", re.ASCII)
"""form of the names offered: these characters are safe in zsh, which evaluates names, and bash,
which expands them; `_offered` checks the others with `quoting.shown`"""

_KNOWN: ContextVar[KnownNames | None] = ContextVar("known_names", default=None)


@contextmanager
def known_names(names: KnownNames) -> Iterator[None]:
    """Complete these names, and ask no server."""
    token = _KNOWN.set(names)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def queues(incomplete: str) -> list[str]:
    """Names of queues with this beginning; none if the server doesn't answer in time."""
    if "/" in incomplete:
        return []
    if (known := _KNOWN.get()) is not None:
        return _begun(known.queues, incomplete)
    # Import before the time-out starts, which is for the server only.
    from redisq_ops.core.engine.registry import all_queues
    from redisq_ops.core.redis.operation import run

    def names(client: BlockingClient, prefix: str) -> list[str]:
        return [entry.name for entry in run(client, all_queues(prefix))]

    return _offered(_asked(names), incomplete)


def addresses(incomplete: str) -> list[str]:
    """Names of queues with this beginning; behind a queue's name and a slash, its open requests."""
    if (known := _KNOWN.get()) is not None:
        return queues(incomplete) + _begun(known.addresses, incomplete)
    name, slash, _ = incomplete.partition("/")
    return _offered(_in_queue(name, _requests), incomplete) if slash else queues(incomplete)


def periodics(incomplete: str) -> list[str]:
    """Names of queues with this beginning; behind one and a slash, its periodic entries."""
    name, slash, _ = incomplete.partition("/")
    if not slash or _KNOWN.get() is not None:
        return queues(incomplete)
    return _offered(_in_queue(name, _periodics), incomplete)


def clients(ctx: Any, incomplete: str) -> list[str]:
    """Clients of the queue on the line, with this beginning."""
    if (known := _KNOWN.get()) is not None:
        return _begun(known.clients, incomplete)
    return _offered(_in_queue(_queue_of(ctx), _clients), incomplete)


def workers(ctx: Any, incomplete: str) -> list[str]:
    """Consumers and worker processes of the queue on the line, with this beginning."""
    if _KNOWN.get() is not None:
        return []
    return _offered(_in_queue(_queue_of(ctx), _workers), incomplete)


def settings(incomplete: str) -> list[str]:
    """Settings of a queue, with an equals sign."""
    from dataclasses import fields

    from redisq_ops.core.model.settings import Settings

    return [f"{one.name}=" for one in fields(Settings) if one.name.startswith(incomplete)]


def _queue_of(ctx: Any) -> str:
    """The queue that the words before name."""
    return str(ctx.params.get("name") or ctx.params.get("queue") or "")


async def _requests(queue: Queue[Any]) -> list[str]:
    from redisq_ops.core.engine.optional_features import HasRequests

    found = await queue.requests.op(0, MOST) if isinstance(queue, HasRequests) else []
    return [f"{queue.name}/{one.id}" for one in found]


async def _periodics(queue: Queue[Any]) -> list[str]:
    from redisq_ops.core.engine.optional_features import HasPeriodicEntries

    found = await queue.periodics.op() if isinstance(queue, HasPeriodicEntries) else ()
    return [f"{queue.name}/{one.name}" for one in found]


async def _clients(queue: Queue[Any]) -> list[str]:
    from redisq_ops.core.engine.optional_features import HasClients

    found = (await queue.clients.op(0, MOST)).clients if isinstance(queue, HasClients) else ()
    return [one.client for one in found]


async def _workers(queue: Queue[Any]) -> list[str]:
    from redisq_ops.core.redis.operation import together
    from redisq_ops.ops.inspect.consumers import consumer_reports
    from redisq_ops.ops.inspect.worker_processes import processes_of

    reports, processes = await together(consumer_reports(queue), processes_of(queue))
    consumers = (one.name for report in reports for one in report.consumers)
    return [*dict.fromkeys((*consumers, *(one.name for one in processes)))]


def _in_queue(name: str, names: Callable[[Queue[Any]], Awaitable[list[str]]]) -> list[str]:
    """Names that a queue has; none if there is no such queue, or no answer in time."""
    # Before the time-out starts, as in `queues`; `names` imports them again, at no cost.
    from redisq_ops.core.engine import optional_features  # noqa: F401
    from redisq_ops.core.queues import delay, request  # noqa: F401
    from redisq_ops.core.redis.operation import run
    from redisq_ops.ops.deployment import Deployment
    from redisq_ops.ops.inspect import consumers, worker_processes  # noqa: F401

    async def read(deployment: Deployment) -> list[str]:
        return await names(await deployment.queue(name))

    def ask(client: BlockingClient, prefix: str) -> list[str]:
        return run(client, read(Deployment(client, prefix=prefix)))

    return _asked(ask) if name else []


def operations(incomplete: str) -> list[str]:
    """Names of the latest changes that can be undone, with this beginning."""
    if (known := _KNOWN.get()) is not None:
        return _begun(known.operations, incomplete)
    from redisq_ops.core.redis.operation import run
    from redisq_ops.ops.change.audit_log import log
    from redisq_ops.ops.deployment import Deployment

    def names(client: BlockingClient, prefix: str) -> list[str]:
        changes = run(client, log(Deployment(client, prefix=prefix))).operations
        return [change.id for change in changes if change.undoable]

    return _offered(_asked(names), incomplete)


def _begun(names: Iterable[str], incomplete: str) -> list[str]:
    """Names with this beginning, for the dashboard, which quotes them as needed."""
    return [name for name in names if name.startswith(incomplete)][:MOST]


def _offered(names: Iterable[str], incomplete: str) -> list[str]:
    from redisq_ops.core.model.quoting import shown

    begun = (name for name in names if name.startswith(incomplete))
    return [name for name in begun if _PLAIN.fullmatch(name) and shown(name) == name][:MOST]


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Completes one of these words."""

    def found(incomplete: str) -> list[str]:
        return _offered(words, incomplete)

    return found


def roles(incomplete: str) -> list[str]:
    """Roles of ACL users with this beginning."""
    from redisq_ops.ops.acl_roles import ROLES

    return _offered(ROLES, incomplete)


def schemas(incomplete: str) -> list[str]:
    """Names of JSON Schemas with this beginning."""
    from .output_types.json_schema import schema_names

    return _offered(schema_names(), incomplete)


def fields(incomplete: str) -> list[str]:
    """The fields of entries by which entries can be counted."""
    from redisq_ops.ops.filter.fields import FIELDS, PLACES

    names = (*FIELDS, *(f"{place}." for place in PLACES))
    return [name for name in names if name.startswith(incomplete)]


def grouped_by(incomplete: str) -> list[str]:
    """The fields by which dead letters can be grouped, behind those that are typed already."""
    from redisq_ops.ops.filter.fields import PLACES
    from redisq_ops.ops.groups.group_by import NAMED

    typed, comma, begun = incomplete.rpartition(",")
    names = ("error", *NAMED, *(f"{place}." for place in PLACES))
    return [f"{typed}{comma}{name}" for name in names if name.startswith(begun)]


def conditions(incomplete: str) -> list[str]:
    """An expression of one condition: the field and the sign after it."""
    from redisq_ops.ops.filter.completion import completed

    # A shell would treat > as a redirection.
    return _offered((text.rstrip(">") for text in completed(incomplete)), incomplete)


def contexts(incomplete: str) -> list[str]:
    """Names of contexts with this beginning."""
    from redisq_ops.core.model.errors import RedisqError
    from redisq_ops.ops.config.contexts import contexts

    try:
        return _offered((one.name for one in contexts()), incomplete)
    except RedisqError:
        return []


def _asked(names: Callable[[BlockingClient, str], list[str]]) -> list[str]:
    """Names from the server of the command line typed so far, if it answers in time."""
    from threading import Thread

    from redisq_ops.core.redis.client import connect
    from redisq_ops.ops.config.config import load

    options, found = _connection_options(os.environ), list[str]()

    def ask() -> None:
        try:
            flags = {name: options.get(name) for name in ("url", "prefix")}
            config = load(flags, options.get("context"))
            client = connect(config.server_address(), "completion")
            found.extend(names(client, config.prefix))
        except Exception:  # the shell would not show a message
            return

    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(WITHIN_S)
    return list(found)


def _connection_options(environment: Mapping[str, str]) -> dict[str, str]:
    """The options that choose the server, from anywhere on the line typed so far."""
    line = environment.get("COMP_WORDS") or environment.get("_TYPER_COMPLETE_ARGS") or ""
    try:
        words = shlex.split(line)
    except ValueError:  # a quote that isn't closed yet
        words = line.split()
    found = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in ("--url", "--prefix", "--context"):
            found[name.removeprefix("--")] = value if equals else following
    return found


# --- the scripts --------------------------------------------------------------------------------

_BASH = r"""
# bash splits a word at : and =, as in sidekiq:default: the whole line is completed, and the part
# that bash keeps is removed from the results.
%(complete_func)s() {
    local IFS=$'\n' line="${COMP_LINE:0:COMP_POINT}" word kept
    word="${line##*[[:space:]]}"
    [[ $word == --*=* ]] && word="${word#*=}"
    kept="${word%%"${word##*[$COMP_WORDBREAKS]}"}"
    COMPREPLY=( $( env _TYPER_COMPLETE_ARGS="$line" _TYPER_COMPLETE_FISH_ACTION=get-args \
                   %(autocomplete_var)s=complete_fish "$1" ) )
    COMPREPLY=( "${COMPREPLY[@]%%%%$'\t'*}" )
    COMPREPLY=( "${COMPREPLY[@]#"$kept"}" )
}

complete -o default -F %(complete_func)s %(prog_name)s
"""
_ZSH = r"""
#compdef %(prog_name)s

%(complete_func)s() {
  local line="${(j: :)words[1,$CURRENT]}"
  [[ $PREFIX == --*=* ]] && compset -P '*='
  eval "$(env _TYPER_COMPLETE_ARGS="$line" %(autocomplete_var)s=complete_zsh %(prog_name)s)"
}

compdef %(complete_func)s %(prog_name)s
# At the first TAB zsh runs this file instead of the function.
[[ $funcstack[1] == _%(prog_name)s ]] && %(complete_func)s "$@"
"""


def replace_scripts() -> None:
    """Make Typer install these scripts.

    With Typer's own scripts, in zsh the first TAB does nothing and a value after ``=`` is not
    completed, and bash completes no name with a colon.
    """
    from typer import _completion_shared

    known = getattr(_completion_shared, "_completion_scripts", {})
    known |= {"bash": _BASH, "zsh": _ZSH}
