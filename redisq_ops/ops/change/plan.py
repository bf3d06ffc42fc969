"""Plan files: which entries a change is about and what it will do.

NDJSON. The first line says what, where and by whom (`PlanHeader`), the second what will come of it,
then one line per entry, ``{"id", "since_ms"}``, and last the number of entries and the SHA-256 of
all lines before. Every line ends with a checksum that goes on from the line above, so that a file
that was cut off or edited is refused with the number of the line.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NoReturn

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import find
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import BadInput, Refused, SchemaTooNew
from redisq_ops.core.model.keys import checked_name
from redisq_ops.core.model.settings import MAX_BATCH
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis.operation import Call

from ..deployment import Deployment
from ..filter.selection import TIMED
from ..private_files import open_regular, resolved_path
from ..terminal import age, kind_of
from ..typed_json import json_object, plain_text, typed
from .entry_steps import Pick

FORMAT = 1
KEPT_MS = 30 * 86_400_000
"""as long as the audit log: an older plan may have been applied already"""
READ_AGAIN = "a plan is read from a file, more than once: redisq apply p.ndjson"
_BEGINS = b'{"redisq_plan"'
_LONGEST = 1 << 20
_SHOWN = 10_000


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """What a plan is for. Times in ms of the server's clock."""

    op: str
    """the operation of all its steps, also when it is applied by several runs"""
    queue: str
    kind: str
    prefix: str
    created_ms: int | None
    """when the queue was registered, to refuse another queue of that name. None: another program's,
    unregistered"""
    server: str
    """the server's run id"""
    verb: Verb
    state: State
    consumer: str
    argument: int
    """lease of a claim, ready time of a reschedule"""
    high_water_ms: int
    filter: str
    who: str
    whence: str
    why: str
    planned_ms: int
    step: int
    """entries of one step, at most"""
    rate: float | None = None
    into: str = ""
    """of a move: the queue the entries go to"""
    into_ms: int | None = None
    """when the target queue was registered"""


_OF_MOVES = {"into", "into_ms"}


def free(path: str) -> Path:
    """The path of a new plan file; refuses an existing file: a plan that was begun can only be
    continued from its own file. An empty file, as `mktemp` makes one, is taken."""
    if path == "-":
        return Path(path)
    target = resolved_path(path)
    # A plan must not replace a device, such as /dev/null, by a file.
    if any(os.path.exists(at) and not os.path.isfile(at) for at in (path, target)):
        raise BadInput(f"{path or '--plan'} is no file: a plan goes to one, or to stdout by -")
    if os.path.exists(target) and os.path.getsize(target):
        what = ", a plan that may have been begun" if _is_plan(target) else ""
        raise BadInput(f"--plan {path} exists{what}: name another file, or remove it")
    return target


def _is_plan(path: Path) -> bool:
    with suppress(OSError), open(path, "rb") as file:
        return file.read(len(_BEGINS)) == _BEGINS
    return False


class Draft:
    """A plan that is being written: to a temporary file beside its target, or for ``-`` to stdout
    at the end. Unless `finish` was called, it leaves no file."""

    def __init__(self, path: str, op: str) -> None:
        self.path = path
        self.op = op
        self.count = 0
        self._target = free(path)
        folder = None if path == "-" else self._target.parent
        with _naming(path):
            # Closed by __exit__.
            self._body: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._crc = zlib.crc32(op.encode())
        self._parts: list[str] = []

    def __enter__(self) -> Draft:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        with suppress(OSError):  # what could not be written can't be flushed either
            self._body.close()
        for part in self._parts:
            with suppress(FileNotFoundError):
                os.unlink(part)

    def add(self, entries: Iterable[Entry]) -> None:
        """The next entries, in the server's order."""
        lines = []
        for entry in entries:
            row: dict[str, Any] = {"id": entry.id, "since_ms": entry.since_ms}
            # A later entry of that id may have no record, and so no time at which it came.
            if entry.at_ms is not None and entry.state in TIMED:
                row["at_ms"] = entry.at_ms
            if entry.orphan:
                row["orphan"] = True
            line, self._crc = _line(row, self._crc)
            lines.append(line)
        self.count += len(lines)
        with _naming(self.path):
            self._body.write(b"".join(lines))

    def finish(self, header: PlanHeader, facts: Mapping[str, Any]) -> None:
        """Write the whole plan to its target."""
        if self.path == "-":
            self._compose(sys.stdout.buffer, header, facts)
            return
        target = self._target
        with _naming(self.path):
            handle, part = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            self._parts.append(part)
            with os.fdopen(handle, "wb") as file:
                self._compose(file, header, facts)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(part, target)  # unlike a rename, this never replaces a file
            except OSError:  # somebody came first, or the file system has no links
                free(self.path)
                os.replace(part, target)

    def _compose(self, file: IO[bytes], header: PlanHeader, facts: Mapping[str, Any]) -> None:
        fields = asdict(header)
        if not header.into:  # the format of other verbs' plans is older than moves
            fields = {name: value for name, value in fields.items() if name not in _OF_MOVES}
        first, crc = _line({"redisq_plan": FORMAT, **fields}, 0)
        second, _ = _line(facts, crc)
        digest = hashlib.sha256(first + second)
        file.write(first + second)
        self._body.seek(0)
        while chunk := self._body.read(_LONGEST):
            digest.update(chunk)
            file.write(chunk)
        end, _ = _line({"count": self.count, "sha256": digest.hexdigest()}, self._crc)
        file.write(end)
        file.flush()


class PlanFile:
    """A plan file that was read and found whole. Keeps the file open; reads entries as needed."""

    def __init__(self, path: str, progress: Callable[[int], None] | None = None) -> None:
        """``progress`` gets how many entries were checked. `BadInput` names the line."""
        self.path = path
        try:
            self._file: IO[bytes] = open_regular(path)
        except BadInput as error:
            again = f": {READ_AGAIN}" if os.path.exists(path) else ""
            raise BadInput(f"{error}{again}") from error
        try:
            self.header, self.count = self._checked(progress)
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}") from error

    def _checked(self, progress: Callable[[int], None] | None) -> tuple[PlanHeader, int]:
        digest = hashlib.sha256()
        number, crc = 0, 0
        header: PlanHeader | None = None
        while line := self._file.readline(_LONGEST):
            number += 1
            row, crc = self._row(line, number, crc)
            if header is None:
                header = self._header(row, number)
            elif number == 2:  # for readers only: `prepare_plan` counts again
                crc = zlib.crc32(header.op.encode())
                self._first = self._file.tell()
            elif "sha256" in row:
                if row != {"count": number - 3, "sha256": digest.hexdigest()}:
                    self._refuse(number, "what is above it isn't what was planned")
                if self._file.readline(1):
                    self._refuse(number + 1, "something follows the plan's end")
                return header, number - 3
            elif not plain_text(row.get("id")):
                self._refuse(number, "an entry lacks its id")
            elif type(row.get("at_ms", 0)) is not int:
                self._refuse(number, "an entry's time is no number")
            digest.update(line)
            if progress is not None and number % _SHOWN == 0:
                progress(number)
        self._refuse(number + 1, "the plan ends before its last line")

    def _row(self, line: bytes, number: int, crc: int) -> tuple[dict[str, Any], int]:
        text, mark, rest = line.rpartition(b',"crc":"')
        row = None
        with suppress(BadInput):
            row = json_object(line)
        if number == 1 and (row is None or "redisq_plan" not in row):
            self._refuse(1, "this is no plan of redisq")
        if not line.endswith(b"\n") or row is None:
            self._refuse(number, "the line is cut off or is no JSON object")
        found = zlib.crc32(text, crc)
        if not mark or rest != b'%08x"}\n' % found:
            self._refuse(number, "it was changed, or the lines above it were")
        del row["crc"]
        return row, found

    def _header(self, row: dict[str, Any], number: int) -> PlanHeader:
        version = row.pop("redisq_plan")
        if type(version) is not int or version != FORMAT:
            raise SchemaTooNew(
                f"{self.path}: line 1: a plan of format {version}, this release knows {FORMAT}"
            )
        if bool(_OF_MOVES & row.keys()) != (row.get("verb") == "move"):
            self._refuse(number, "a plan of this format has other fields")
        try:
            header: PlanHeader = typed(PlanHeader, row, "plan")
            check_header(header)
        except BadInput as error:
            self._refuse(number, str(error))
        return header

    def _refuse(self, number: int, why: str) -> NoReturn:
        raise BadInput(f"{self.path}: line {number}: {why}; nothing was done")

    def picks(self, start: int = 0) -> Iterator[Pick]:
        """The entries, from the ``start``-th (0 is the first) on."""
        self._file.seek(self._first)
        for _ in range(start):
            self._file.readline()
        for _ in range(self.count - start):
            row = json.loads(self._file.readline())
            yield Pick(row["id"], row.get("at_ms"), row.get("orphan") is True)

    def close(self) -> None:
        self._file.close()


def check_header(header: PlanHeader) -> None:
    """Raise `BadInput` for a header that no plan has."""
    checked_name(header.op, "operation")
    if header.state not in VERBS[header.verb][0]:
        raise BadInput("that can't be its verb and state")
    rate = 1 if header.rate is None else header.rate
    if not 1 <= header.step <= MAX_BATCH or rate <= 0:
        raise BadInput("that can't be its step or rate")


async def identity(queue: Queue[Any], deployment: Deployment) -> tuple[int | None, str]:
    """What distinguishes a queue from others of its name: (registered at ms, server run id)."""
    entry = await find(queue.name, deployment.prefix)
    return (None if entry is None else entry.created_ms), await run_id(queue)


def run_id(queue: Queue[Any]) -> Call[str]:
    """The server's run id; it changes with every start."""

    def read(reply: Any) -> str:
        return str(reply["run_id"])

    return Call(("INFO", "server"), read, key=queue.keys["cfg"])


async def home(deployment: Deployment, header: PlanHeader) -> Queue[Any]:
    """The queue a plan is for; refuses another one of that name, and a plan that is too old.

    A registered queue is identified by its time of creation, which outlasts a restart, a failover
    and a copy of the data; another program's queue by its server's run id, since it has no other
    mark.
    """
    if header.prefix != deployment.prefix:
        raise Refused(f"the plan is for prefix {header.prefix}, not {deployment.prefix}")
    queue = await deployment.queue(header.queue)
    if queue.kind != header.kind:
        raise Refused(
            f"the plan is for {kind_of(header.kind)} {header.queue}; "
            f"here it is {kind_of(queue.kind)}"
        )
    created_ms, server = await identity(queue, deployment)
    if header.created_ms is None and header.server != server:
        raise Refused(
            f"the plan is from another server, or this one was started again since: nothing else "
            f"tells one {header.queue} from another; plan again"
        )
    if header.created_ms is not None and created_ms != header.created_ms:
        raise Refused(
            f"queue {header.queue} isn't the one that was planned for: the plan is from another "
            "server, or the queue was destroyed and created again"
        )
    return queue


def checked_age(header: PlanHeader, now_ms: int) -> None:
    """Refuse a plan that is older than the audit log."""
    old = now_ms - header.planned_ms
    if old > KEPT_MS:
        raise Refused(
            f"planned {age(old)} ago: the audit log is kept for {age(KEPT_MS)}, so it is unknown "
            "whether the plan was applied; plan again"
        )


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Report errors of a temporary file under the name of the plan."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def _line(row: Mapping[str, Any], crc: int) -> tuple[bytes, int]:
    """A line, and the checksum with which the next line continues."""
    text = json.dumps(row, separators=(",", ":"))[:-1].encode()
    crc = zlib.crc32(text, crc)
    return b'%s,"crc":"%08x"}\n' % (text, crc), crc
