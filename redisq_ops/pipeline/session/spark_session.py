"""Start a Spark session with the data source ``redisq``, by default on this machine.

Starting one starts a JVM and takes some seconds; PySpark is imported only then.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from redisq_ops.core.model.errors import BadInput, Unreachable
from redisq_ops.core.redis.client import ServerAddress

from ..source.job_errors import cause
from . import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
TIME_ZONE = "spark.sql.session.timeZone"
LOG_LEVEL = "spark.log.level"
REMOTE = "SPARK_REMOTE"
"""Spark's variable for the address of a Spark Connect server"""
# Settings of every session, unless --conf overrides them.
DEFAULTS = {
    TIME_ZONE: "UTC",
    # Speculative copies of a task would be harmless, but double the load on the server.
    "spark.speculation": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Errors are reported in one line; for a full disk, the JVM's own log has four hundred lines.
    LOG_LEVEL: "OFF",
}
# A local session accepts no connections from other machines.
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# It accepts no connections from other users of this machine either, who could read rows and stop
# it: Spark makes a secret that only the process knows. --conf can't turn this off.
PROTECTED = {"spark.authenticate": "true"}
_SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
"""variable with options for the JVM of every `spark-submit`"""
_SAFE_PATH = "PYTHONSAFEPATH"
"""environment variable that stops Python from importing modules of the current folder"""


def check_installed() -> None:
    """Raise `BadInput` if PySpark is not installed; imports nothing of it."""
    if find_spec("pyspark") is None:
        raise BadInput("Spark isn't installed: pip install 'redisq-ops[spark]'")


def session(
    app: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    conf: Iterable[str] = (),
    target: ServerAddress | None = None,
    registers: bool = True,
) -> SparkSession:
    """Start a session, or return the running one with the settings that can still change.

    ``conf``: ``NAME=VALUE`` each. ``target``: the default server of readers; workers get its
    secrets in environment variables that Spark redacts. ``registers``: register the data source
    now, for which Spark starts a Python process.

    Raises `BadInput` without a usable Java or PySpark, or for a bad setting; `Unreachable` if the
    master can't be reached.
    """
    if master is not None and remote is not None:
        raise BadInput("use either --master or --remote, not both")
    settings = DEFAULTS | parse_conf(conf)
    check_installed()
    from pyspark.sql import SparkSession

    if remote is not None:
        return _prepared(_remote(SparkSession, app, remote, settings), registers)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit has set up everything
    if master is not None and not submitted:
        check_reachable(master)
    if SparkSession.getActiveSession() is None and not submitted:
        prepare_environment(os.environ, master)
    builder = SparkSession.builder.appName(app)
    if not submitted:
        builder = builder.master(master or LOCAL)
        if is_local(master):
            settings = LOOPBACK | settings | PROTECTED
    variables = {} if target is None else environment(target)
    os.environ.update(variables)
    workers = {_SAFE_PATH: "1"} | ({} if is_local(master) else variables)
    settings = {f"spark.executorEnv.{k}": v for k, v in workers.items()} | settings
    for name, value in settings.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryFile() as jvm_log:
        try:
            if not submitted:
                quiet = settings[LOG_LEVEL] == "OFF"
                named = {"spark.app.name": app, "spark.master": master or LOCAL}
                _launch_jvm(named | settings, jvm_log if quiet else None)
            return _prepared(builder.getOrCreate(), registers)
        except Exception as error:
            raise Unreachable(f"Spark did not start: {_start_error(error, jvm_log)}") from error


def _launch_jvm(settings: Mapping[str, str], jvm_log: IO[bytes] | None) -> None:
    """Start the JVM, with its standard error in a file if there is one.

    Every start logs a few lines before Spark has read its log settings.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        # The command line is visible in the process list: it must not hold the workers' password.
        hidden = ("spark.executorEnv.", "spark.authenticate.")
        visible = {k: v for k, v in settings.items() if not k.startswith(hidden)}
        launch_conf = SparkConf(loadDefaults=False).setAll(list(visible.items()))
        launch: Any = launch_gateway  # has no types
        with _delayed_interrupt():
            gateway = launch(launch_conf, {"stderr": jvm_log})
        SparkContext(conf=conf, gateway=gateway)


@contextmanager
def _delayed_interrupt() -> Iterator[None]:
    """Hold Ctrl+C back for the block: a JVM abandoned during its start would run for ever."""
    held: list[int] = []
    try:
        before = signal.signal(signal.SIGINT, lambda number, frame: held.append(number))
    except ValueError:  # only the main thread gets the signal
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt


def _start_error(error: Exception, jvm_log: IO[bytes]) -> str:
    """Why there is no session; for a JVM that ended at once, the last line of its log."""
    if "JAVA_GATEWAY_EXITED" in str(error):
        jvm_log.seek(0)
        lines = jvm_log.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "no Java")
    return cause(str(error))


def is_local(master: str | None) -> bool:
    """Whether Spark runs on this machine only."""
    return master is None or master.startswith("local")


def check_reachable(address: str) -> None:
    """Raise `Unreachable` if nothing listens at ``spark://HOST:PORT[,…]`` or ``sc://HOST[:PORT]``.

    Spark itself retries a master for a minute, and a Connect server for ten.
    """
    scheme, _, other = address.partition("://")
    if scheme not in _PORTS:
        return
    problem = ""
    for address_part in other.partition("/")[0].split(","):
        try:
            parts = urlsplit(f"//{address_part}")
            port = parts.port or _PORTS[scheme]
            socket.create_connection((parts.hostname or "", port), 5).close()
            return
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or str(error)
    what = "Spark master" if scheme == "spark" else "Spark Connect"
    raise Unreachable(f"no {what} at {address.partition('/;')[0]}: {problem}")


_PORTS = {"spark": 7077, "sc": 15002}


def prepare_environment(
    environment: MutableMapping[str, str], master: str | None = None
) -> java.Java:
    """Set the environment for the JVM and its Python workers: JAVA_HOME and this Python.

    Spark's default is any ``python3`` on the path, which lacks the packages.
    """
    import pyspark

    found = java.find_java(environment)
    environment["JAVA_HOME"] = str(found.home)
    environment[_SAFE_PATH] = "1"
    environment.pop(REMOTE, None)  # PySpark refuses it together with a master
    if "SPARK_CONF_DIR" not in environment and "SPARK_HOME" not in environment:
        log = Path(__file__).with_name("log4j2.properties")
        option = f"-Dlog4j2.configurationFile={log}"
        present = shlex.split(environment.get(_SUBMIT_OPTIONS, ""))
        environment[_SUBMIT_OPTIONS] = shlex.join([*present, option])
    # Else Spark looks for its installation in the current folder's parent, and runs what is there.
    environment.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    if is_local(master):
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    else:
        environment.setdefault("PYSPARK_PYTHON", sys.executable)
    return found


def parse_conf(conf: Iterable[str]) -> dict[str, str]:
    """``NAME=VALUE`` words as settings."""
    settings = {}
    for word in conf:
        name, equals, value = word.partition("=")
        if not equals or not name.startswith("spark."):
            raise BadInput(f"--conf {word}: expected spark.NAME=VALUE")
        settings[name] = value
    return settings


def is_connect_session(spark: SparkSession) -> bool:
    """Whether it is a Spark Connect session, whose workers don't get this process's environment."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def environment(target: ServerAddress) -> dict[str, str]:
    """The environment variables that describe a server, with secrets in variables of their own.

    ``REDISQ_PASSWORD`` is a name that Spark redacts where it shows settings.
    """
    parts = urlsplit(target.url)
    user, url = target.username, target.url
    secrets = {"password": target.password, "sentinel_password": target.sentinel_password}
    query = parse_qsl(parts.query, keep_blank_values=True)
    secrets |= {name: value for name, value in query if name in secrets and value}
    if parts.password is not None:
        secrets["password"] = unquote(parts.password)
        user = unquote(parts.username or "") or user
        url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    if any(name in secrets for name, _ in query):  # redis-py accepts a password there, too
        other = urlencode([(name, value) for name, value in query if name not in secrets])
        url = url.partition("?")[0] + (f"?{other}" if other else "")
    variables = {
        "REDIS_URL": url,
        "REDISQ_USERNAME": user,
        "REDISQ_PASSWORD": secrets["password"],
        "REDISQ_TLS_CA": target.tls_ca,
        "REDISQ_TLS_CERT": target.tls_cert,
        "REDISQ_TLS_KEY": target.tls_key,
        "REDISQ_SENTINEL_USERNAME": target.sentinel_username,
        "REDISQ_SENTINEL_PASSWORD": secrets["sentinel_password"],
    }
    return {name: value for name, value in variables.items() if value is not None}


def spark_submit_line(words: Sequence[str], master: str | None, conf: Iterable[str]) -> str:
    """The ``spark-submit`` command line that runs the same command; it contains no server URL."""
    python = {"spark.pyspark.python": sys.executable, "spark.pyspark.driver.python": sys.executable}
    line = submit_words(DEFAULTS | python | parse_conf(conf), master)
    import redisq_ops

    line.append(str(Path(redisq_ops.__file__).with_name("__main__.py")))
    return shlex.join([*line, *words])


def submit_words(
    settings: Mapping[str, str], master: str | None, home: str | None = None
) -> list[str]:
    """The beginning of a ``spark-submit`` command with these settings; `PROTECTED` if local."""
    words = [f"{home}/bin/spark-submit" if home else "spark-submit", "--master", master or LOCAL]
    for name, value in {**settings, **(PROTECTED if is_local(master) else {})}.items():
        words += ["--conf", f"{name}={value}"]
    return words


def _remote(
    builder_class: type[SparkSession], app: str, remote: str, settings: Mapping[str, str]
) -> SparkSession:
    check_reachable(remote)
    try:
        builder = builder_class.builder.appName(app).remote(remote)
        for name, value in settings.items():
            if name.startswith("spark.sql."):  # others belong to the Connect server
                builder = builder.config(name, value)
        # A cached plan would answer with the filters and rows of an earlier query.
        builder = builder.config("spark.connect.session.planCache.enabled", "false")
        return builder.getOrCreate()
    except ImportError as error:
        raise BadInput("--remote needs Spark Connect: pip install 'pyspark[connect]'") from error
    except Exception as error:
        address_part = remote.partition("/;")[0]  # a token may follow
        details = re.search(r'details = "(.*)"', str(error))  # of gRPC
        reason = details[1] if details else cause(str(error))
        raise Unreachable(f"no Spark Connect at {address_part}: {reason}") from error


def _prepared(spark: SparkSession, registers: bool) -> SparkSession:
    from pyspark.logger import PySparkLogger

    # Errors of a query are raised and reported in one line; Spark would also log fifty lines.
    for kind in ("SQL", "DataFrame"):
        PySparkLogger.getLogger(f"{kind}QueryContextLogger").setLevel("CRITICAL")

    if registers:
        from .data_source import register

        register(spark)
    return spark
