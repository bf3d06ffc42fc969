"""Commands to copy, as a shell takes them."""

from __future__ import annotations

import shlex


def hint(*words: str, **options: str) -> str:
    """``redisq WORDS --OPTION VALUE``, quoted. A name may begin with a dash: options come before
    the first such word then, and ``--`` between."""
    given = [part for name, value in options.items() for part in (f"--{name}", value)]
    dashed = (n for n, word in enumerate(words) if word.startswith("-") and word != "-")
    if (first := next(dashed, None)) is None:
        return shlex.join(["redisq", *words, *given])
    return shlex.join(["redisq", *words[:first], *given, "--", *words[first:]])
