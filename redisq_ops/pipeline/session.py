"""A Spark session with the source ``redisq`` registered, on this machine unless told otherwise.

Starting one is starting a JVM, some seconds; nothing here is imported before that is wanted.
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

from . import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
LOG_LEVEL = "spark.log.level"
# What a session of ours has unless --conf says otherwise.
DEFAULTS = {
    PUSHDOWN: "true",  # allows it; a frame has to ask for it (see `source`)
    "spark.sql.session.timeZone": "UTC",
    # Two copies of a task would do no harm, but twice the work on the server.
    "spark.speculation": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # What fails is said in one line; of a full disk the JVM's own traces were four hundred.
    LOG_LEVEL: "OFF",
}
# A session of this machine alone is nobody else's to connect to.
_AT_HOME = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def check_installed() -> None:
    """`BadInput` where there is no pyspark. Loads nothing of it."""
    if find_spec("pyspark") is None:
        raise BadInput("Spark isn't installed: pip install 'redisq-ops[spark]'")


def session(
    app: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    conf: Iterable[str] = (),
    target: ServerAddress | None = None,
) -> SparkSession:
    """The session; one that runs already is used as it is, but for what can be set on it.

    ``conf``: ``name=value`` each. ``target``: where readers connect that name no server; its
    secrets go to the workers by their environment, under names Spark redacts. `BadInput` when
    there is no Java, no pyspark, or a setting that can't be used; `Unreachable` when the master
    isn't there.
    """
    if master is not None and remote is not None:
        raise BadInput("give --master or --remote, not both")
    settings = DEFAULTS | settings_of(conf)
    check_installed()
    from pyspark.sql import SparkSession

    if remote is not None:
        return _registered(_remote(SparkSession, app, remote, settings))
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # then spark-submit decides
    if master is not None and not submitted:
        knock(master)
    if SparkSession.getActiveSession() is None and not submitted:
        prepare(os.environ, master)
    builder = SparkSession.builder.appName(app)
    if not submitted:
        builder = builder.master(master or LOCAL)
        if at_home(master):
            settings = _AT_HOME | settings
    variables = {} if target is None else environment(target)
    os.environ.update(variables)
    if not at_home(master):
        settings = {f"spark.executorEnv.{k}": v for k, v in variables.items()} | settings
    for name, value in settings.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryFile() as said:
        try:
            if not submitted and settings[LOG_LEVEL] == "OFF":
                _launched({"spark.app.name": app, "spark.master": master or LOCAL} | settings, said)
            return _registered(builder.getOrCreate())
        except Exception as error:
            raise Unreachable(f"Spark doesn't start: {_why(error, said)}") from error


def _launched(settings: Mapping[str, str], said: IO[bytes]) -> None:
    """A JVM whose own words go to a file. Some are written before it has read any setting (modules
    that incubate, the level of its log), on every start."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        # What is launched with stands in the list of processes: no password of workers there.
        open_to_all = {k: v for k, v in settings.items() if not k.startswith("spark.executorEnv.")}
        first = SparkConf(loadDefaults=False).setAll(list(open_to_all.items()))
        launch: Any = launch_gateway  # has no types
        with _uninterrupted():
            gateway = launch(first, {"stderr": said})
        SparkContext(conf=conf, gateway=gateway)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl+C comes afterwards: a JVM that is left alone while it starts stays for ever."""
    held: list[int] = []
    try:
        before = signal.signal(signal.SIGINT, lambda number, frame: held.append(number))
    except ValueError:  # not the main thread: it isn't interrupted
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt


def _why(error: Exception, said: IO[bytes]) -> str:
    """Why there is no session: of a JVM that ended at once, what it said last."""
    if "JAVA_GATEWAY_EXITED" in str(error):
        said.seek(0)
        lines = said.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "no Java")
    return _first_line(error)


def at_home(master: str | None) -> bool:
    """Whether it is this machine and no other."""
    return master is None or master.startswith("local")


def knock(address: str) -> None:
    """`Unreachable` where nobody listens at a ``spark://HOST:PORT[,…]`` or ``sc://HOST[:PORT]``:
    Spark itself asks a master for a minute, and a Connect server for ten, before it says so."""
    scheme, _, rest = address.partition("://")
    if scheme not in _PORTS:
        return
    refused = ""
    for place in rest.partition("/")[0].split(","):
        try:
            parts = urlsplit(f"//{place}")
            port = parts.port or _PORTS[scheme]
            socket.create_connection((parts.hostname or "", port), 5).close()
            return
        except (OSError, ValueError) as error:
            refused = getattr(error, "strerror", None) or str(error)
    what = "Spark master" if scheme == "spark" else "Spark Connect"
    raise Unreachable(f"no {what} at {address.partition('/;')[0]}: {refused}")


_PORTS = {"spark": 7077, "sc": 15002}


def prepare(environment: MutableMapping[str, str], master: str | None = None) -> java.Java:
    """Set what the JVM and its workers are started with: which Java, and this very Python.

    Spark's own choice is any ``python3`` of the path, which has none of the packages.
    """
    found = java.find(environment)
    environment["JAVA_HOME"] = str(found.home)
    if "SPARK_CONF_DIR" not in environment and "SPARK_HOME" not in environment:
        environment["SPARK_CONF_DIR"] = str(_quiet(environment))
    if at_home(master):
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    else:
        environment.setdefault("PYSPARK_PYTHON", sys.executable)
    return found


def _quiet(environment: Mapping[str, str]) -> Path:
    """A directory of settings in the user's cache, for what Spark says before it has read ours."""
    directory = java.cache(environment) / "spark"
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "log4j2.properties"
    if not file.exists() or file.read_text(encoding="utf-8") != _LOG4J:
        file.write_text(_LOG4J, encoding="utf-8")
    return directory


_LOG4J = """rootLogger.level = fatal
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n
"""


def settings_of(conf: Iterable[str]) -> dict[str, str]:
    """``name=value`` words."""
    settings = {}
    for word in conf:
        name, equals, value = word.partition("=")
        if not equals or not name.startswith("spark."):
            raise BadInput(f"--conf {word}: spark.NAME=VALUE")
        settings[name] = value
    return settings


def connected(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect, whose workers have an environment of their own."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def environment(target: ServerAddress) -> dict[str, str]:
    """A target as the variables it is read from; the URL's password is one by itself.

    ``REDISQ_PASSWORD`` is a name that Spark blots out in what it shows of its settings.
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
    if any(name in secrets for name, _ in query):  # as redis-py takes one, too
        rest = urlencode([(name, value) for name, value in query if name not in secrets])
        url = url.partition("?")[0] + (f"?{rest}" if rest else "")
    variables = {
        "REDIS_URL": url, "REDISQ_USERNAME": user, "REDISQ_PASSWORD": secrets["password"],
        "REDISQ_TLS_CA": target.tls_ca, "REDISQ_TLS_CERT": target.tls_cert,
        "REDISQ_TLS_KEY": target.tls_key,
        "REDISQ_SENTINEL_USERNAME": target.sentinel_username,
        "REDISQ_SENTINEL_PASSWORD": secrets["sentinel_password"],
    }  # fmt: skip
    return {name: value for name, value in variables.items() if value is not None}


def submit_line(words: Sequence[str], master: str | None, conf: Iterable[str]) -> str:
    """The ``spark-submit`` that runs the same command; where the server is, it has to be told."""
    python = {"spark.pyspark.python": sys.executable, "spark.pyspark.driver.python": sys.executable}
    given = DEFAULTS | python | settings_of(conf)
    line = ["spark-submit", "--master", master or LOCAL]
    for name, value in given.items():
        line += ["--conf", f"{name}={value}"]
    import redisq_ops

    line.append(str(Path(redisq_ops.__file__).with_name("__main__.py")))
    return shlex.join([*line, *words])


def _remote(
    kind: type[SparkSession], app: str, remote: str, settings: Mapping[str, str]
) -> SparkSession:
    knock(remote)
    try:
        builder = kind.builder.appName(app).remote(remote)
        for name, value in settings.items():
            if name.startswith("spark.sql."):  # the others are the server's
                builder = builder.config(name, value)
        return builder.getOrCreate()
    except ImportError as error:
        raise BadInput("--remote needs Spark Connect: pip install 'pyspark[connect]'") from error
    except Exception as error:
        place = remote.partition("/;")[0]  # behind it may be a token
        raise Unreachable(f"no Spark Connect at {place}: {_first_line(error)}") from error


def _registered(spark: SparkSession) -> SparkSession:
    from pyspark.logger import PySparkLogger

    from .source import register

    # A query that can't be understood is raised, and said in one line; Spark also logs fifty.
    for kind in ("SQL", "DataFrame"):
        PySparkLogger.getLogger(f"{kind}QueryContextLogger").setLevel("CRITICAL")

    register(spark)
    return spark


def _first_line(error: BaseException) -> str:
    """What the JVM threw, where it was the JVM; its trace is nobody's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    thrown = next((line[2:] for line in lines if line.startswith(": ")), None)
    if thrown is not None:
        return re.sub(r"^([\w$]+\.)*", "", thrown)
    return lines[0] if lines else type(error).__name__
