"""Commands to copy, as a shell takes them, for the same server."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextvars import ContextVar

from redisq_ops.core.redis.url import masked_url

_GIVEN: ContextVar[Mapping[str, str | None] | None] = ContextVar("given", default=None)


def aim(given: Mapping[str, str | None]) -> None:
    """From now on commands have these options too, as ``--url``: what was given on the command
    line. What the environment and the configuration say they find by themselves."""
    _GIVEN.set(given)


def hint(*words: str, **options: str | None) -> str:
    """``redisq WORDS --OPTION VALUE``, quoted, never with a password. A name may begin with a dash:
    options come before the first such word then, and ``--`` between."""
    given: list[str] = []
    for name, value in {**options, **_aimed()}.items():
        given += [f"--{name}"] if value is None else [f"--{name}", value]
    dashed = (n for n, word in enumerate(words) if word.startswith("-") and word != "-")
    if (first := next(dashed, None)) is None:
        return shlex.join(["redisq", *words, *given])
    return shlex.join(["redisq", *words[:first], *given, "--", *words[first:]])


def _aimed() -> dict[str, str]:
    given = {name: value for name, value in (_GIVEN.get() or {}).items() if value}
    if "url" in given:
        given["url"] = masked_url(given["url"])
    return given
