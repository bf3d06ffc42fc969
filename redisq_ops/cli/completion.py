"""What the shell is told of words that aren't in the program: queues, operations, contexts.

The shell waits while these run, so whatever goes wrong is no answer, and soon. Importing this loads
nothing: the client comes when a queue's name is wanted.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redisq_ops.core.redis.operation import BlockingClient

WITHIN_S = 0.3
"""for the server's answer; the shell's user waits for it"""
MOST = 200
_PLAIN = re.compile(r"[\w.:@%+,=^~-]+", re.ASCII)
"""zsh evaluates what it is told, and bash expands it: of a word like this nothing comes"""


def queues(incomplete: str) -> list[str]:
    """Names of queues that begin so; none when the server doesn't answer in time."""
    if "/" in incomplete:
        return []
    # Before the server's time begins: loading takes time of the machine, whatever the server does.
    from redisq_ops.core.engine.registry import all_queues
    from redisq_ops.core.redis.operation import run

    def names(client: BlockingClient, prefix: str) -> list[str]:
        return [entry.name for entry in run(client, all_queues(prefix))]

    return _offered(_asked(names), incomplete)


def operations(incomplete: str) -> list[str]:
    """Names of the latest changes that can be undone and begin so."""
    from redisq_ops.core.redis.operation import run
    from redisq_ops.ops.change.audit_log import log
    from redisq_ops.ops.deployment import Deployment

    def names(client: BlockingClient, prefix: str) -> list[str]:
        changes = run(client, log(Deployment(client, prefix=prefix))).operations
        return [change.id for change in changes if change.undoable]

    return _offered(_asked(names), incomplete)


def _offered(names: Iterable[str], incomplete: str) -> list[str]:
    return [n for n in names if n.startswith(incomplete) and _PLAIN.fullmatch(n)][:MOST]


def states(incomplete: str) -> list[str]:
    """Names of states that begin so."""
    from redisq_ops.core.model.entry import STATES

    return _offered(STATES, incomplete)


def contexts(incomplete: str) -> list[str]:
    """Names of contexts that begin so."""
    from redisq_ops.core.model.errors import RedisqError
    from redisq_ops.ops.config import contexts

    try:
        return _offered((one.name for one in contexts()), incomplete)
    except RedisqError:
        return []


def _asked(names: Callable[[BlockingClient, str], list[str]]) -> list[str]:
    """What the server that is meant by the line so far says in time."""
    from threading import Thread

    from redisq_ops.core.redis.client import connect
    from redisq_ops.ops.config import load

    typed, found = _typed(os.environ), list[str]()

    def ask() -> None:
        try:
            flags = {name: typed.get(name) for name in ("url", "prefix")}
            config = load(flags, typed.get("context"))
            client = connect(config.server_address(), "completion")
            found.extend(names(client, config["prefix"] or "rq"))
        except Exception:  # nobody could read it: the shell shows only names
            return

    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(WITHIN_S)
    return list(found)


def _typed(environment: Mapping[str, str]) -> dict[str, str]:
    """Options of the line so far that say where to look: they may stand anywhere on it."""
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
# bash takes a word apart at : and =, as in sidekiq:default: the line itself is asked about, and
# what bash keeps of the word is left out of the answers.
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
# The first time, this file itself is what is asked.
[[ $funcstack[1] == _%(prog_name)s ]] && %(complete_func)s "$@"
"""


def mend() -> None:
    """Have Typer hand out these scripts: with its own the first TAB of a zsh does nothing, a value
    behind = isn't completed there, and in bash no name with a colon is."""
    from typer import _completion_shared

    known = getattr(_completion_shared, "_completion_scripts", {})
    known |= {"bash": _BASH, "zsh": _ZSH}
