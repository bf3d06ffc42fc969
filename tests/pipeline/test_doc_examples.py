"""The pages about Spark run as printed; their commands in this process, on the tests' session."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from redisq_ops.cli import main as cli
from redisq_ops.cli.commands import spark as spark_commands
from redisq_ops.demo.server import EmbeddedServer
from tests.conftest import BINARIES
from tests.docs.reader import PAGES, SHELL, SPARK, Reader, blocks, ending

from .test_results import SharedSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SPARK))
def test_a_page_runs_as_printed(
    name: str,
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    programs: Path,
) -> None:
    from redisq_ops.cli import spark_session as commands_session
    from redisq_ops.pipeline.session import spark_session

    kept = SharedSession(spark)
    # The JVM has another working directory: relative paths would be there.
    jvm: Any = spark._jvm
    files = jvm.org.apache.hadoop.fs.FileSystem.get(spark._jsc.hadoopConfiguration())
    before = files.getWorkingDirectory()
    files.setWorkingDirectory(jvm.org.apache.hadoop.fs.Path(str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(commands_session, "started", lambda s, given, *, waits: kept)
    for module in (spark_commands, commands_session):
        monkeypatch.setattr(module, "url_for_workers", lambda s, spark: os.environ["REDIS_URL"])
    monkeypatch.setattr(spark_session, "session", lambda *given, **named: kept)
    try:
        with EmbeddedServer(BINARIES["valkey"]) as server:
            monkeypatch.setenv("REDIS_URL", server.url)
            reader = Reader(name, server.url, tmp_path, programs)
            for at, language, text in blocks(PAGES[name]):
                if language == "python":
                    # The session's workers have no REDIS_URL of this server.
                    own = f'.format("redisq").option("url", "{server.url}")'
                    text = text.replace('.format("redisq")', own)
                    # A relative checkpoint is in the JVM's working directory, whatever this
                    # process's is.
                    place = f'checkpointLocation="{tmp_path}/'
                    reader.python(at, text.replace('checkpointLocation="', place))
                elif language in SHELL:
                    for line in text.splitlines():
                        if line.startswith("redisq spark "):
                            words = shlex.split(line, comments=True)[1:]
                            assert cli.run(words) == 0, (line, capsys.readouterr())
                        else:
                            reader.shell(at, ending(line) + "\n")
    finally:
        files.setWorkingDirectory(before)
