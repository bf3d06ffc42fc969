"""Plan files: which entries a change is about and what it will do.

A sealed file of `ndjson`. The first line says what, where and by whom (`PlanHeader`), the second
what will come of it, then one line per entry, ``{"id", "since_ms"}`` and what else distinguishes
it, and last the number of entries.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice, repeat
from pathlib import Path
from typing import IO, Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import find
from redisq_ops.core.model.entry import Entry
from redisq_ops.core.model.errors import BadInput, Refused, SchemaTooNew
from redisq_ops.core.model.keys import checked_name
from redisq_ops.core.model.row_fields import row_of
from redisq_ops.core.model.settings import MAX_BATCH
from redisq_ops.core.model.states import VERBS
from redisq_ops.core.redis.operation import Call

from .. import ndjson
from ..deployment import Deployment
from ..filter.selection import TIMED
from ..private_files import atomic_write, named, open_regular, resolved_path
from ..terminal import age, kind_of
from ..typed_json import plain_text, typed
from .entry_steps import Pick
from .plan_header import PlanHeader

PLAN = ndjson.Format("plan")
KEPT_MS = 30 * 86_400_000
"""as long as the audit log: an older plan may have been applied already"""
READ_AGAIN = "a plan is read from a file, more than once: redisq apply p.ndjson"
_BEGINS = b'{"redisq": "plan"'
_SHOWN = 10_000


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
    """A plan that is being written: its entries to a temporary file beside its target, and all of
    it when it is finished. Unless `finish` was called, it leaves no file. ``-`` is stdout."""

    def __init__(self, path: str, op: str) -> None:
        self.path = path
        self.op = op
        self.count = 0
        target = free(path)
        with named(path):
            # Closed by __exit__.
            self._entries: IO[bytes] = tempfile.TemporaryFile(  # noqa: SIM115
                dir=None if path == "-" else target.parent
            )

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # what could not be written can't be flushed either
            self._entries.close()

    def add(self, entries: Iterable[Entry], stamps: Iterable[bytes] = ()) -> None:
        """The next entries, in the server's order, and of each its `selected_stamp`."""
        lines = []
        for entry, stamp in zip(entries, chain(stamps, repeat(b"")), strict=False):
            row: dict[str, Any] = {"id": entry.id, "since_ms": entry.since_ms}
            # A later entry of that id may have no record, and so no time at which it came.
            if entry.at_ms is not None and entry.state in TIMED:
                row["at_ms"] = entry.at_ms
            if entry.orphan:
                row["orphan"] = True
            if stamp:
                row["stamp"] = stamp.decode()
            lines.append(ndjson.line(row))
        self.count += len(lines)
        with named(self.path):
            self._entries.write(b"".join(lines))

    def finish(self, header: PlanHeader, facts: Mapping[str, Any]) -> None:
        """Write the whole plan to its target."""
        if self.path == "-":
            self._compose(sys.stdout.buffer, header, facts)
            return
        with named(self.path), atomic_write(self.path, place=self._place) as file:
            self._compose(file, header, facts)

    def _compose(self, file: IO[bytes], header: PlanHeader, facts: Mapping[str, Any]) -> None:
        fields = row_of(header)
        if not header.into:
            fields = {name: value for name, value in fields.items() if name not in _OF_MOVES}
        top = [ndjson.line(PLAN.head(**fields)), ndjson.line(facts)]
        self._entries.seek(0)
        file.writelines(ndjson.sealed(chain(top, self._entries), entries=self.count))
        file.flush()

    def _place(self, part: Path, target: Path) -> None:
        try:
            os.link(part, target)  # unlike a rename, this never replaces a file
        except OSError:  # somebody came first, or the file system has no links
            free(self.path)
            os.replace(part, target)


class PlanFile:
    """A plan file that was read and found whole. Keeps the file open; reads entries as needed."""

    def __init__(self, path: str, progress: Callable[[int], None] | None = None) -> None:
        """``progress`` gets how many entries were checked. `BadInput` names the line."""
        self.path = path
        try:
            self._file = open_regular(path)
        except BadInput as error:
            again = f": {READ_AGAIN}" if os.path.exists(path) else ""
            raise BadInput(f"{error}{again}") from error
        try:
            self.header, self.count = self._checked(progress)
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}") from error
        except (BadInput, SchemaTooNew) as error:
            raise type(error)(f"{error}; nothing was done") from error

    def _checked(self, progress: Callable[[int], None] | None) -> tuple[PlanHeader, int]:
        # Line 2 is for readers only: `prepare_plan` counts again.
        rows = ndjson.checked(self._file, self.path, PLAN, _header, dict, _pick)
        header, _ = next(rows), next(rows, None)
        count = 0
        for count, _ in enumerate(rows, 1):
            if progress is not None and count % _SHOWN == 0:
                progress(count)
        return header, count

    def picks(self, start: int = 0) -> Iterator[Pick]:
        """The entries, from the ``start``-th (0 is the first) on."""
        rows = ndjson.lines(self._file, self.path)
        for _, _, found in islice(rows, 2 + start, 2 + self.count):
            yield _pick(json.loads(found))

    def close(self) -> None:
        self._file.close()


def _header(row: dict[str, Any]) -> PlanHeader:
    if bool(_OF_MOVES & row.keys()) != (row.get("verb") == "move"):
        raise BadInput("a plan has other fields")
    header: PlanHeader = typed(PlanHeader, row, "plan")
    check_header(header)
    return header


def _pick(row: dict[str, Any]) -> Pick:
    if not plain_text(row.get("id")):
        raise BadInput("an entry lacks its id")
    if type(row.get("at_ms", 0)) is not int:
        raise BadInput("an entry's time is no number")
    stamp = row.get("stamp", "")
    if not (isinstance(stamp, str) and stamp.isascii()):
        raise BadInput("an entry's stamp is no text")
    return Pick(row["id"], row.get("at_ms"), row.get("orphan") is True, stamp.encode())


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
            "server, or the queue was removed and created again"
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
