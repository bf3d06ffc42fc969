"""Other frameworks fill and work their queues on the demo's server."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from ..command_line import Redisq
from ..foreign_keys import arq_program, bullmq_program
from ..foreign_keys.installed_releases import packages

pytestmark = pytest.mark.alike

DEMO = """import sys
from redisq_ops.demo.demonstration import demonstration
from redisq_ops.demo.frameworks.installation import installed
with demonstration([], installed(sys.argv[1])) as demo:
    demo.wait()
    print(demo.url, flush=True)
    sys.stdin.read()
"""
QUEUES = {
    "arq:arq:queue",
    "bullmq:checkout",
    "celery:ledger",
    "dramatiq:emails",
    "rq:exports",
    "rq:thumbs",
}


def processes(port: int) -> list[str]:
    """Command lines of the frameworks' processes at a port."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text(errors="replace").split("\0")
        except OSError:  # it ended meanwhile
            continue
        if "_jobs." in "".join(words) and str(port) in words:
            lines.append(" ".join(words))
    return lines


@pytest.mark.slow
def test_five_frameworks_work_beside_redisq_and_end_with_the_demo(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each worker takes jobs; a demo that is killed leaves no process."""
    folder = packages("bullmq", bullmq_program.VERSIONS[0]).parent
    names = f"celery,rq,dramatiq,arq={packages('arq', arq_program.VERSION)},bullmq={folder}"
    with subprocess.Popen(
        [sys.executable, "-c", DEMO, names],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as demo:
        try:
            assert demo.stdout
            url = demo.stdout.readline().strip()
            port = int(url.rpartition(":")[2])
            assert {row["name"] for row in Redisq(url, capsys).rows("ls")} >= QUEUES
            assert len(processes(port)) >= 10
            with redis.Redis(port=port) as client:
                worked = {
                    "arq:result:*",
                    "bull:checkout:completed",
                    "celery-task-meta-*",
                    "dramatiq:__acks__.*",
                    "rq:results:*",
                }
                deadline = time.monotonic() + 90
                while worked := {each for each in worked if not any(client.scan_iter(each))}:
                    assert time.monotonic() < deadline, f"nobody works: {worked}"
        finally:
            demo.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 90
    while left := processes(port):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_what_is_not_installed_is_named_with_what_to_install(
    redisq: Redisq, tmp_path: Path
) -> None:
    refusal = redisq.refusal("demo", "--with", f"rq,bullmq={tmp_path},arq={tmp_path}", code=2)
    assert "bullmq (npm install --prefix DIR bullmq ioredis" in refusal
    assert "arq (python3 -m venv DIR" in refusal and "rq (pip" not in refusal
    assert "choose from arq, bullmq" in redisq.refusal("demo", "--with", "celerx", code=2)
