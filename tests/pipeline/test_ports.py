"""What Spark's ports answer another user of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRANGER = """
import socket, struct, sys

def text(word):
    return struct.pack(">i", len(word)) + word.encode()

app, block, *ports = sys.argv[1:]
# A call of Spark's network protocol: OpenBlocks of the block manager, without any login before.
asked = b"\\0" + text(app) + text("driver") + struct.pack(">i", 1) + text(block)
call = struct.pack(">bqi", 3, 7, len(asked)) + asked
for port in ports:
    with socket.create_connection(("127.0.0.1", int(port)), 5) as connection:
        connection.sendall(struct.pack(">q", len(call) + 8) + call)
        connection.settimeout(1)
        answer = b""
        try:
            while part := connection.recv(4096):
                answer += part
        except OSError:
            pass
    kind = answer[8] if len(answer) > 8 else None
    print(port, {4: "answered", 9: "refused", 5: "refused"}.get(kind, kind), answer[9:200])
"""


def listening_ports(pid: int) -> list[int]:
    """The TCP ports on which a process listens."""
    sockets = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with_target = os.readlink(link) if link.is_symlink() else ""
        if with_target.startswith("socket:["):
            sockets.add(with_target[8:-1])
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    return [
        int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in sockets
    ]


def asked_by_another_user(jvm: int, application: str = "none", block: str = "rdd_0_0") -> list[str]:
    """What each port of a JVM answers another user who asks for a cached block."""
    ports = [str(port) for port in listening_ports(jvm)]
    words = [sys.executable, "-I", "-c", STRANGER, application, block, *ports]
    if os.getuid() == 0 and shutil.which("setpriv"):
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words]
    said = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/").stdout
    answers = said.splitlines()
    assert len(answers) == len(ports) >= 2, "Spark's own, and py4j's or Connect's"
    return answers


@pytest.mark.slow
def test_another_user_reads_no_cached_rows(spark: SparkSession) -> None:
    """The session is one as every command and `serve` has it."""
    untyped: Any = spark
    context = untyped.sparkContext
    rows = context.parallelize(["secret row"] * 10, 1).cache()
    assert rows.count() == 10
    jvm = int(context._jvm.java.lang.ProcessHandle.current().pid())
    answers = asked_by_another_user(jvm, context.applicationId, f"rdd_{rows.id()}_0")
    rows.unpersist()
    assert not [line for line in answers if " answered " in line or "secret row" in line], answers
    assert [line for line in answers if "Sasl" in line], answers
    command = Path(f"/proc/{jvm}/cmdline").read_text()
    assert "spark.authenticate=true" in command and "secret" not in command
    assert context.getConf().get("spark.ui.enabled") == "false"


def test_a_secret_is_not_on_the_command_line_of_the_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark
    from pyspark import java_gateway

    from redisq_ops.pipeline.session import spark_session

    seen: list[str] = []

    def launch(conf: Any, _popen: Any) -> Any:
        seen.extend(f"{name}={value}" for name, value in conf.getAll())
        raise KeyboardInterrupt

    monkeypatch.setattr(java_gateway, "launch_gateway", launch)
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", None)
    settings = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "hunter2",
        "spark.executorEnv.REDISQ_PASSWORD": "hunter2",
    }
    with pytest.raises(KeyboardInterrupt):
        spark_session._launch_jvm(settings, None)
    assert seen == ["spark.authenticate=true"]
