"""The file of a recording: an SQLite database with a row for each sample.

A row is a change of the `RecordedState` before it; about every minute it is a whole state instead,
where a reader begins. A row is on disk once `RecordingFile.add` returns: a kill loses no earlier
one. While it is written, the latest rows are in SQLite's write-ahead log beside the file; `close`
puts them into it, or, after a kill, the next recorder. Readers never hold up the recorder.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict

from redisq_ops.core.model.errors import BadInput, RedisqError, Refused, file_error
from redisq_ops.core.model.task_figures import TaskReport

from ..change.audit_log import Operation
from ..inspect.consumers import ConsumerReport
from ..inspect.queue_fields import QueueFields
from ..private_files import open_private, open_regular, resolved_path
from ..typed_json import json_object, typed
from .recorded_queue import RecordedQueue

VERSION: Final = 1
_APPLICATION: Final = int.from_bytes(b"rdsq")
"""in the file's header, where `file` finds it; the version is beside it"""
_SCHEMA: Final = (
    "CREATE TABLE sample (id INTEGER PRIMARY KEY, at_ms INTEGER, whole INTEGER, line BLOB)",
    "CREATE INDEX whole ON sample (at_ms) WHERE whole",
)
_NEW: Final = f"""
    PRAGMA auto_vacuum=FULL;
    PRAGMA journal_mode=WAL;
    BEGIN;
    {"; ".join(_SCHEMA)};
    PRAGMA application_id={_APPLICATION};
    PRAGMA user_version={VERSION};
    COMMIT;
"""
_WHOLE_MS: Final = 60_000
"""time between two whole states"""
_OPERATIONS: Final = 500
"""latest changes of a state: each whole state of a file has them again"""
_LATEST_MS: Final = 10**14
_MOST: Final = 64 << 20
"""bytes of a sample's JSON; a longer one is damaged"""
_WAIT_S: Final = 1
"""how long another process that uses the file is waited for"""
_DROP: Final = """
    DELETE FROM sample WHERE id < (
        SELECT min(id) FROM sample WHERE whole AND id > (
            SELECT min(id) + (max(id) - min(id)) * ? / ? FROM sample))
"""
"""leaves out the oldest samples, a part of all as large as the quotient, up to a whole state"""


class _Line(TypedDict):
    """In a whole state each queue has all fields, in a change only those that changed."""

    at_ms: int
    lost: NotRequired[str | None]
    queues: NotRequired[dict[str, dict[str, Any] | None]]
    consumers: NotRequired[dict[str, list[ConsumerReport]]]
    operations: NotRequired[dict[str, Operation]]
    tasks: NotRequired[dict[str, TaskReport]]


@dataclass(slots=True)
class RecordedState:
    """All that is known at one moment; `apply` moves it on to a later one."""

    at_ms: int = 0
    lost: str | None = None
    """why the server could not be read; the rest is from before"""
    queues: dict[str, dict[str, Any]] = field(default_factory=dict)
    """by name, as `redisq ls --json` prints them, and ``read_ms``, when each was read"""
    consumers: dict[str, list[ConsumerReport]] = field(default_factory=dict)
    """by queue, without the single entries that are held"""
    operations: dict[str, Operation] = field(default_factory=dict)
    """the latest changes of operators, by id"""
    tasks: dict[str, TaskReport] = field(default_factory=dict)
    """by queue, without the messages of errors"""

    def apply(self, line: Mapping[str, Any]) -> None:
        """Apply a change."""
        self.at_ms, self.lost = line["at_ms"], line.get("lost")
        for name, changed in line.get("queues", {}).items():
            if changed is None:
                self.queues.pop(name, None)
                self.consumers.pop(name, None)
                self.tasks.pop(name, None)
            else:
                self.queues.setdefault(name, {}).update(changed)
        self.consumers |= line.get("consumers", {})
        self.operations |= line.get("operations", {})
        if len(self.operations) > _OPERATIONS:
            latest = sorted(self.operations.values(), key=lambda each: each.started_ms)
            self.operations = {each.id: each for each in latest[-_OPERATIONS:]}
        self.tasks |= line.get("tasks", {})


def span_ms(path: Path) -> tuple[int, int]:
    """The times of the first and of the last sample; `BadInput` if there is none."""
    with _opened(path) as db:
        ends = [
            at_ms
            for order in ("ASC", "DESC")
            for (at_ms,) in db.execute(f"SELECT at_ms FROM sample ORDER BY id {order} LIMIT 1")
        ]
    if not ends:
        raise BadInput(f"{path} has no sample")
    if not all(type(at_ms) is int and 0 <= at_ms < _LATEST_MS for at_ms in ends):
        raise BadInput(f"{path} is damaged: its first or last sample has no time")
    return ends[0], ends[1]


def whole_times(path: Path, since_ms: int, until_ms: int) -> list[int]:
    """The times of the whole states of a period, about one a minute."""
    select = "SELECT at_ms FROM sample WHERE whole AND at_ms BETWEEN ? AND ? ORDER BY at_ms"
    with _opened(path) as db:
        return [at_ms for (at_ms,) in db.execute(select, (since_ms, until_ms))]


def state_at(path: Path, at_ms: int) -> RecordedState | None:
    """The latest state at or before a moment; None: the recording begins later."""
    latest = deque(states(path, at_ms, at_ms), maxlen=1)
    return latest[0] if latest else None


def states(path: Path, since_ms: int, until_ms: int) -> Iterator[RecordedState]:
    """The states from the last whole one before ``since_ms`` up to ``until_ms``: one object that
    moves on. `BadInput` at a damaged sample."""
    begin = "coalesce(max(CASE WHEN at_ms <= ? THEN id END), min(id))"
    select = f"""
        SELECT id, at_ms, whole, line FROM sample
        WHERE id >= (SELECT {begin} FROM sample WHERE whole) ORDER BY id
    """
    state = RecordedState()
    with _opened(path) as db:
        for id, at_ms, whole, packed in db.execute(select, (since_ms,)):
            try:
                if at_ms > until_ms:
                    return
                state = RecordedState() if whole else state
                _apply(state, at_ms, packed)
            except (BadInput, TypeError, zlib.error) as error:
                raise BadInput(f"{path} is damaged: sample {id}: {error}") from error
            yield state


def _apply(state: RecordedState, at_ms: int, packed: bytes) -> None:
    """Apply a sample; `BadInput` for one that can't be from a recording."""
    # A small file may unpack to any size.
    line = json_object(zlib.decompressobj().decompress(packed, _MOST))
    line = typed(_Line, line, "line")
    if line["at_ms"] != at_ms or not 0 <= at_ms < _LATEST_MS:
        raise BadInput("its time is wrong")
    state.apply(line)
    for name in line.get("queues", {}).keys() & state.queues.keys():
        if recorded_queue(state.queues[name], at_ms).queue.name != name:
            raise BadInput(f"the queue {name} has another name")


def recorded_queue(row: Mapping[str, Any], at_ms: int) -> RecordedQueue:
    """A queue of a `RecordedState` of that time; `BadInput` if it can't be from a recording."""
    fields = dict(row)
    read_ms = typed(int, fields.pop("read_ms", None), "queue.read_ms")
    oldest_ms = typed(int | None, fields.get("oldest_ms"), "queue.oldest_ms")
    age_ms = oldest_ms and max(0, at_ms - oldest_ms)
    return RecordedQueue(typed(QueueFields, fields | {"oldest_age_ms": age_ms}, "queue"), read_ms)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to read; `BadInput` for anything but a recording that this release reads."""
    with open_regular(path) as file:
        if not os.fstat(file.fileno()).st_size:
            raise BadInput(f"{path} has no sample")
    # Without a write-ahead log nobody writes it: it may be in a directory without rights.
    how = "mode=ro" if os.path.lexists(f"{path}-wal") else "mode=ro&immutable=1"
    with _errors(path), closing(_connected(path, how)) as db:
        _check(db, path)
        yield db


def _connected(path: Path, how: str) -> sqlite3.Connection:
    for suffix in ("-wal", "-shm", "-journal"):  # SQLite does what these say
        with suppress(FileNotFoundError):
            os.close(open_private(f"{path}{suffix}", os.O_RDONLY))
    uri = f"{path.absolute().as_uri()}?{how}"
    db = sqlite3.connect(uri, _WAIT_S, isolation_level=None, uri=True)
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST)
    return db


def _check(db: sqlite3.Connection, path: Path) -> None:
    """`BadInput` for another database, and for a newer version."""
    pragmas = ("application_id", "user_version", "page_size")
    application, version, page = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas)
    if application != _APPLICATION:
        raise BadInput(f"{path} is no recording: redisq recording write FILE makes one")
    if version > VERSION:
        raise BadInput(f"{path} is a recording of version {version}; this release reads {VERSION}")
    if path.stat().st_size % page:  # SQLite finds missing pages, but not a missing half of one
        raise BadInput(f"{path} is damaged: its end is missing")
    # A view or a trigger of somebody else's would run.
    if {sql for (sql,) in db.execute("SELECT sql FROM sqlite_master")} != set(_SCHEMA):
        raise BadInput(f"{path} is damaged: it has other tables than a recording")


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as ours."""
    try:
        yield
    except sqlite3.Error as error:
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:
            case sqlite3.SQLITE_NOTADB:
                raise BadInput(
                    f"{path} is no recording: redisq recording write FILE makes one"
                ) from error
            case sqlite3.SQLITE_BUSY:
                raise Refused(f"{path}: another program keeps it locked") from error
            case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
                raise RedisqError(f"{path}: {error}") from error
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY:
                raise BadInput(f"{path}: {error}") from error
            case _:
                raise BadInput(f"{path} is damaged: {error}") from error


class RecordingFile:
    """A recording that is written, or continued where it ends.

    ``most``: bytes of the file; when it has more, its oldest minutes are removed. One process at a
    time writes a file: another one is `Refused`. A full disk raises an error and leaves the file
    readable. A new file to which nothing could be written is removed.
    """

    def __init__(self, path: str, most: int) -> None:
        self.path = resolved_path(path)
        self._most = most
        self._is_new = not os.path.lexists(path)
        self._state = RecordedState()
        self._whole_ms: int | None = None
        try:
            self._file = open_private(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise file_error(error, f"{path}: {error.strerror or error}") from error
        with ExitStack() as stack:
            stack.callback(os.close, self._file)
            self._lock()
            with _errors(self.path):
                self._db = stack.enter_context(closing(_connected(self.path, "mode=rw")))
                self._begin()
            self._open = stack.pop_all()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        size: int = self._db.execute(pages).fetchone()[0]
        return size

    def add(self, line: Mapping[str, Any]) -> None:
        """Add a sample: what has changed since the one before; in the first one, everything."""
        self._state.apply(line)
        whole = self._whole_ms is None or self._state.at_ms >= self._whole_ms + _WHOLE_MS
        text = json.dumps(asdict(self._state) if whole else line, default=asdict)
        row = (self._state.at_ms, whole, zlib.compress(text.encode()))
        try:
            with _errors(self.path):
                self._db.execute("INSERT INTO sample (at_ms, whole, line) VALUES (?, ?, ?)", row)
                if whole and (size := self.size) > self._most:
                    self._db.execute(_DROP, (size - self._most, size))
        except RedisqError as error:
            nothing = self._is_new and self._whole_ms is None
            kept = "nothing recorded" if nothing else "the file is readable up to here"
            raise type(error)(f"{error}: recording stopped; {kept}") from error
        if whole:
            self._whole_ms = self._state.at_ms

    def close(self) -> None:
        """Close the file: it has all samples, and SQLite's files beside it are gone."""
        if self._is_new and self._whole_ms is None:
            with suppress(OSError):
                os.unlink(self.path)
        with suppress(sqlite3.Error):  # the log beside it is kept
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._open.close()

    def _lock(self) -> None:
        open_regular(self.path).close()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Refused(f"{self.path}: another redisq recording write writes it") from error

    def _begin(self) -> None:
        tables = self._db.execute("SELECT 1 FROM sqlite_master").fetchone()
        if tables or self.path.stat().st_size == 1:  # SQLite takes one byte for an empty file
            _check(self._db, self.path)
        else:
            self._db.executescript(_NEW)
        self._db.execute("PRAGMA synchronous=NORMAL")
