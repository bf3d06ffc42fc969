"""Commands for the user to copy: quoted for a shell, with the options for the same server."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextvars import ContextVar

from redisq_ops.core.redis.url import masked_url

_CONNECTION: ContextVar[Mapping[str, str | None] | None] = ContextVar("connection", default=None)


def set_connection_options(options: Mapping[str, str | None]) -> None:
    """Add these options, such as ``--url``, to every hint from now on.

    They are the ones given on the command line: a copied command finds those of the environment and
    the configuration file by itself.
    """
    _CONNECTION.set(options)


def hint(*words: str, **options: str | None) -> str:
    """``redisq WORDS --OPTION VALUE``, quoted, never with a password.

    An option of value None is a flag. Where a name begins with a dash, options come before it,
    followed by ``--``.
    """
    arguments: list[str] = []
    for name, value in {**options, **_connection_options()}.items():
        arguments += [f"--{name}"] if value is None else [f"--{name}", value]
    dashed = (n for n, word in enumerate(words) if word.startswith("-") and word != "-")
    if (first := next(dashed, None)) is None:
        return shlex.join(["redisq", *words, *arguments])
    return shlex.join(["redisq", *words[:first], *arguments, "--", *words[first:]])


def _connection_options() -> dict[str, str]:
    options = {name: value for name, value in (_CONNECTION.get() or {}).items() if value}
    if "url" in options:
        options["url"] = masked_url(options["url"])
    return options


def words_of(command: str) -> tuple[list[str], dict[str, str]]:
    """The words and options of a `hint`, without those for the server."""
    words, options = list[str](), dict[str, str]()
    left = iter(shlex.split(command)[1:])
    for word in left:
        if word == "--":
            words += left
        elif word.startswith("--"):
            options[word[2:]] = next(left, "")
        else:
            words.append(word)
    for name in _connection_options():
        options.pop(name, None)
    return words, options
