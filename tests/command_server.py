"""`redisq` and `redisq-top` without the start of Python: forks of a process that has them loaded.

`commands(folder)` puts two programs into a folder for PATH. Each hands its words, environment,
working directory and open files 0 to 2 to the server, which forks; signals and the exit code pass
through. So a shell finds what it would find installed, 0.3 s sooner a command.
"""

import contextlib
import gc
import importlib
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parent.parent

PROGRAM = """#!{python} -ISE
import marshal, os, signal, socket, struct, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _: server.send(bytes([number])))
said = marshal.dumps(({top!r} + sys.argv[1:], os.getcwd(), dict(os.environb)))
socket.send_fds(server, [struct.pack("I", len(said))], [0, 1, 2])
server.sendall(said)
code = server.recv(1)
sys.exit(code[0] if code else 1)
"""


@contextlib.contextmanager
def commands(folder: Path) -> Iterator[Path]:
    """The folder, with both programs in it for as long as the context lasts."""
    address = str(folder / "server")
    for name, top in (("redisq", []), ("redisq-top", ["top"])):
        program = folder / name
        program.write_text(PROGRAM.format(python=sys.executable, address=address, top=top))
        program.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, __file__, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as server:
        assert server.stdout and server.stdout.readline() == b"ready\n"
        yield folder
        assert server.stdin
        server.stdin.close()  # it ends by that, also when the tests are killed


def serve(address: str) -> None:
    """Fork for each connection, until standard input ends."""
    from redisq_ops.cli.commands import COMMANDS, load
    from redisq_ops.cli.main import root_command

    for package in ("core", "ops", "cli", "tui"):
        path = [str(ROOT / "redisq_ops" / package)]
        for module in pkgutil.walk_packages(path, f"redisq_ops.{package}."):
            importlib.import_module(module.name)
    for name in COMMANDS:
        load(name)
    root_command()
    gc.freeze()  # a collection would copy the pages that the forks share
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the supervisors
        while 0 not in select.select([listening.fileno(), 0], [], [])[0]:
            connection, _ = listening.accept()
            if not os.fork():
                listening.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                supervise(connection)
            connection.close()


def supervise(connection: socket.socket) -> None:
    """Fork the command, pass signals to it, answer its exit code. Returns in the command's process
    only, when it has run."""
    import marshal

    header, files, _, _ = socket.recv_fds(connection, 4, 3)
    words, folder, environment = marshal.loads(received(connection, *struct.unpack("I", header)))
    if not (process := os.fork()):
        connection.close()
        command(words, folder, environment, files)
    for file in (0, 1, 2, *files):
        os.close(file)
    ended = os.pidfd_open(process)
    while ended not in select.select([ended, connection.fileno()], [], [])[0]:
        number = connection.recv(1)
        os.kill(process, number[0] if number else signal.SIGKILL)  # nothing: our client was killed
        if not number:
            break
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with contextlib.suppress(OSError):
        connection.send(bytes([code if code >= 0 else 128 - code]))
    os._exit(0)


def received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data))
    return data


def command(
    words: list[str], folder: str, environment: dict[bytes, bytes], files: list[int]
) -> NoReturn:
    """Run it in place of an installed program."""
    from redisq_ops.cli.main import main

    for to, file in enumerate(files):
        os.dup2(file, to)
        os.close(file)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    lines = 1 if b"PYTHONUNBUFFERED" in environment else -1
    sys.stdout = open(1, "w", closefd=False, buffering=lines)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(environment)
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    time.tzset()
    sys.argv = ["redisq", *words]
    try:
        main(words)
    except SystemExit as end:
        sys.stdout.flush()
        # To finalize would copy every page of the server's modules: half a second.
        os._exit(end.code if isinstance(end.code, int) else 0)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


if __name__ == "__main__":
    serve(sys.argv[1])
