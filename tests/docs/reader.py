"""A reader of the README and the docs, who runs every code block as printed, in order.

A page has a server of its own in place of the one at `ADDRESS`, and an empty working directory. Its
Python blocks share one namespace, which is empty at first; its shell blocks run in bash, on a
terminal whose user says yes. A Python block whose first line is ``# NAME.py`` is a file that a
reader writes: it is put there; so is a TOML block that begins with the name of the configuration.
A `console` block is a transcript: each line after `$ ` is typed, and the lines below it are what
it must print, up to the figures that `masked` hides. `…` stands for any lines, at the end of a
line for its rest. What isn't to be run is in another language: `text`, `json`, `toml`.
"""

import contextlib
import io
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {
    "README.md": ROOT / "README.md",
    **{str(page.relative_to(DOCS)): page for page in sorted(DOCS.rglob("*.md"))},
}
"""the README, and each page of the documentation by its path below docs/"""
SPARK = {"how-to/process-with-spark.md", "how-to/report-with-spark.md"}
"""pages that run in tests/pipeline, where a Spark session is"""
ADDRESS = "redis://127.0.0.1:6379"
SHELL = ("sh", "console")
SHOWN = ("text", "json", "toml", "where")
"""languages of what is shown only; test_docs.py reads the configurations"""

ENDLESS = {
    r"redisq work\b(?!.*(--burst|&))": "--burst",
    r"redisq(-| )top\b(?!.*--once)": "--once",
    r"redisq watch\b(?!.*--for)": "--for 1ms --listen 127.0.0.1:0",
    r"redisq metrics\b(?!.*--(once|file))": "--once",
}
"""commands that run until they are stopped, and the option with which they end by themselves"""

NOT_RUN = {
    r"make \w+": "the suite itself, and what it starts",
    r"(pip|uv tool) install .*": "an installation",
    r"python3 -m venv .*": "likewise",
    r"python -m benchmarks .*": "takes minutes",
    r"redisq demo( --incident [a-z-]+)?": "a server and a workload, until they are stopped",
}
"""commands that are left out, and why"""

BULLMQ_SHOP = """python - <<'END'
import os
from tests.foreign_keys.bullmq_program import VERSIONS, packages
os.environ["NODE_PATH"] = str(packages("bullmq", VERSIONS[0]))
os.execvp("node", ["node", os.environ["PYTHONPATH"] + "/tests/docs/incidents/bullmq_shop.cjs"])
END"""
PREPARED: dict[str, str] = {
    # Each framework itself writes its queues, and its workers fail.
    "how-to/work-with-celery.md": "python -m tests.docs.incidents.celery_shop",
    "how-to/work-with-rq.md": """cp $PYTHONPATH/tests/docs/incidents/rq_shop.py shop.py
python shop.py""",
    "how-to/monitor-with-prometheus.md": "echo x | redisq submit - --queue mail --id r1",
    "how-to/see-rates-by-task.md": """cp $PYTHONPATH/tests/docs/incidents/rq_shop.py shop.py
python shop.py; PYTHONPATH=. rq worker --burst --quiet --url $REDIS_URL mail 2>/dev/null""",
    "how-to/work-with-dramatiq.md": "python -m tests.docs.incidents.dramatiq_shop",
    # The keys are those that the sources of asynq and of Laravel write.
    "how-to/work-with-asynq.md": "python -m tests.docs.incidents.asynq_shop",
    "how-to/work-with-laravel.md": "python -m tests.docs.incidents.laravel_shop",
    "how-to/work-with-arq.md": """python - <<'END'
import os, sys
from tests.foreign_keys.arq_program import VERSION, packages
script = os.environ["PYTHONPATH"] + "/tests/docs/incidents/arq_shop.py"
os.environ["PYTHONPATH"] = str(packages("arq", VERSION))
os.execv(sys.executable, [sys.executable, script])
END""",
    "how-to/work-with-bullmq.md": BULLMQ_SHOP,
    "how-to/edit-entries.md": BULLMQ_SHOP + "\nredisq discover --register --yes",
    "how-to/work-with-bull.md": """python - <<'END'
import os
from tests.foreign_keys.bull_program import VERSIONS, packages
os.environ["NODE_PATH"] = str(packages("bull", VERSIONS[0]))
os.execvp("node", ["node", os.environ["PYTHONPATH"] + "/tests/docs/incidents/bull_shop.cjs"])
END""",
    # So that there is something to report.
    "how-to/check-a-server.md": """python - <<'END'
import os, redis
redis.Redis.from_url(os.environ["REDIS_URL"]).config_set("maxmemory-policy", "allkeys-lru")
END""",
    # A process of Sidekiq, to be told something.
    "how-to/inspect-other-queues.md": """python - <<'END'
import os, redis
with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
    client.sadd("processes", "box:78:4f5a")
    client.hset("box:78:4f5a", "info", '{"hostname": "box", "pid": 78, "queues": ["mail"]}')
END""",
    # Resque's own registry, with a worker whose machine is gone: only Resque writes it. And a batch
    # of Sidekiq.
    "how-to/work-with-sidekiq-and-resque.md": """python - <<'END'
import json, os, redis
from tests.foreign_keys.sidekiq_batches import gem_batch
with redis.Redis.from_url(os.environ["REDIS_URL"]) as resque:
    gem_batch(resque)
    resque.sadd("resque:queues", "mail")
    resque.rpush("resque:queue:mail", json.dumps({"class": "WelcomeMail", "args": [1]}))
    resque.sadd("resque:workers", "box:78:mail")
    resque.set("resque:worker:box:78:mail:started", "2026-01-01T00:00:00Z")
    resque.hset("resque:workers:heartbeat", "box:78:mail", "2026-01-01T00:00:00Z")
END
redisq discover --register --yes""",
}
"""page -> shell commands before its first block, for what another program writes"""


def blocks(page: Path) -> Iterator[tuple[int, str, str]]:
    """Line, language and text of each block."""
    text = page.read_text()
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M):
        yield text.count("\n", 0, found.start()) + 2, found[1], found[2]


_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T][\d:.]+(?:[+-]\d\d:\d\d|Z)?"), "TIME"),
    (re.compile(r"[\w.-]+@[\w.-]+"), "USER@HOST"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\b(?:[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{8,})\b"), "ID"),
    (re.compile(r"\b\d+[smhd](?: \d+[smhd])?\b"), "AGE"),
    (re.compile(r"\d[\d,.]*"), "N"),
    (re.compile(r"[ \t]+"), " "),
)


_TRANSCRIBED = "set +e; trap - ERR; export PYTHONUNBUFFERED=1"
"""before the commands of a transcript: one may fail, and both outputs keep their order"""


def masked(text: str) -> str:
    """A text without what differs from run to run: times, users, ids, ages, numbers, widths."""
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return "\n".join(line.strip() for line in text.strip().split("\n"))


def transcript(text: str) -> list[tuple[str, str]]:
    """The commands of a `console` block, each with what it prints."""
    parts = re.split(r"^\$ ((?:.*\\\n)*.*)\n", text, flags=re.M)
    assert not parts[0], f"an output before the first command: {parts[0]}"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def prints(shown: str, printed: str) -> bool:
    """Whether an output is as shown."""
    lines = []
    for line in masked(shown).split("\n"):
        end = ".*\n" if line.endswith("…") else "\n"
        lines.append(r"(?:.*\n)*?" if line == "…" else re.escape(line.removesuffix("…")) + end)
    return re.fullmatch("".join(lines), masked(printed) + "\n") is not None


def ending(line: str) -> str:
    """A command line as it runs here: it ends by itself, or is left out."""
    words = line.partition("#")[0].strip()
    for pattern in NOT_RUN:
        if re.fullmatch(pattern, words):
            return ":"
    for pattern, option in ENDLESS.items():
        if found := re.search(pattern, line):
            end = found.end()
            line = f"{line[:end]} {option}{line[end:]}"
    if re.search(r"redisq work\b.* --burst\b", line):  # handlers fail here on purpose
        return f"{{ {line}\n}} || (( $? == 1 || $? == 3 ))"
    return line


class Reader:
    """Somebody who does what a page says."""

    def __init__(self, page: str, url: str, home: Path, commands: Path) -> None:
        """``commands``: the folder that has `redisq`, see `command_server`."""
        self.page, self.url, self.home = page, url, home
        self.names: dict[str, object] = {"__name__": "__main__"}
        path = os.pathsep.join(
            (str(commands), str(Path(sys.executable).parent), os.environ["PATH"])
        )
        self.environment = {
            **os.environ,
            "PATH": path,
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "REDIS_URL": url,
            "SHELL": "/bin/bash",
            "EDITOR": "sed -i s/moon/eu/",
            "TERM": "xterm",
            "PYTHONPATH": str(ROOT),
            "PYTHONSAFEPATH": "",  # Spark sets it in a process of the tests
            "COLUMNS": "120",
        }

    def python(self, line: int, text: str) -> None:
        if name := re.match(r"# (\w+)\.py\n", text):
            (self.home / f"{name[1]}.py").write_text(text)
            sys.modules.pop(name[1], None)  # another page may have a file of this name
        code = "\n" * (line - 1) + text.replace(ADDRESS, self.url)
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(code, self.page, "exec"), self.names)

    def configuration(self, text: str) -> None:
        """A TOML block that names its file is written to it."""
        if name := re.match(r"# (\w+\.toml)\n", text):
            (self.home / name[1]).write_text(text)
        if text.startswith("# ~/.config/redisq/config.toml\n"):
            (self.home / "config/redisq").mkdir(parents=True, exist_ok=True)
            (self.home / "config/redisq/config.toml").write_text(text)

    def console(self, line: int, text: str) -> None:
        """Type the commands of a transcript, and compare what each prints."""
        for command, shown, printed in self.outputs(line, text):
            assert prints(shown, printed), (
                f"{self.page}: $ {command}\n--- shown\n{shown}--- printed\n{printed}"
            )

    def outputs(self, line: int, text: str) -> list[tuple[str, str, str]]:
        """The commands of a transcript, each with what is shown and what it prints."""
        known = transcript(text)
        typed = [f"{{ {command}\n}} > .output.{n} 2>&1" for n, (command, _) in enumerate(known)]
        self.shell(line, "\n".join([_TRANSCRIBED, *typed, "set -e\n"]))
        found = []
        for n, (command, shown) in enumerate(known):
            printed = (self.home / f".output.{n}").read_text()
            printed = printed.replace(self.url, ADDRESS).replace(socket.gethostname(), "vm")
            printed = printed.replace(f"by {getuser()}", "by ada")
            found.append((command, shown, printed))
        return found

    def shell(self, line: int, text: str) -> None:
        text = text.replace(ADDRESS, self.url).replace("\\\n", " ")
        lines = [ending(each.removeprefix("$ ")) for each in text.splitlines()]
        script = self.home / ".block.sh"
        trap = "trap 'echo \"line $((LINENO + START)): $BASH_COMMAND\" >&2' ERR"
        script.write_text(
            "\n".join([f"START={line - 3}; set -eo pipefail", trap, *lines, "env -0 > .exported"])
        )
        keyboard, terminal = pty.openpty()
        with subprocess.Popen(
            ["bash", str(script)],
            cwd=self.home,
            env=self.environment,
            stdin=terminal,
            stdout=subprocess.DEVNULL,
            stderr=terminal,
            start_new_session=True,
        ) as process:
            os.close(terminal)
            said = answered(process, keyboard)
            with contextlib.suppress(ProcessLookupError):  # what a block that failed left running
                os.killpg(process.pid, signal.SIGKILL)
        os.close(keyboard)
        assert process.returncode == 0, f"{self.page}, exit {process.returncode}:\n{said[-2000:]}"
        # What a block exports is there in the next ones: a reader has one shell.
        pairs = (self.home / ".exported").read_text().split("\0")[:-1]
        self.environment |= dict(pair.split("=", 1) for pair in pairs)


def answered(process: subprocess.Popen[bytes], keyboard: int) -> str:
    """What a process says on its terminal; its questions are answered."""
    said, seen, until = "", 0, time.monotonic() + 120
    while time.monotonic() < until:
        if select.select([keyboard], [], [], 0.05)[0]:
            try:
                said += os.read(keyboard, 65536).decode(errors="replace")
            except OSError:  # nobody has the terminal any more
                break
            if asked := re.search(r"(\[y/N\]|Type (.+) to go ahead:) $", said[seen:]):
                os.write(keyboard, f"{asked[2] or 'y'}\n".encode())
                seen = len(said)
        elif process.poll() is not None:
            break
    else:
        said += "\n(takes longer than two minutes)"
    return said
