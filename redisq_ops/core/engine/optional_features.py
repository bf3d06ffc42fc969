"""What only some kinds of queue have, as classes: ``isinstance(queue, HasRequests)`` asks for it.

A kind inherits from the features it has and implements their abstract methods. User interfaces ask
with `isinstance`, and the type checker then knows the methods.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..model.clock import Moment, Seconds, duration_ms
from ..model.consumer_load import GroupPositions, Reassigned, StreamId
from ..model.entry import Client, Clients, Consumer, Entry, Level, OwnersLimit, Request
from ..model.errors import BadInput, Refused
from ..model.task_figures import TaskReport
from ..model.worker_command import WorkerCommand, WorkerWord
from ..model.worker_process import Process, Pruned
from ..redis.operation import C_co, Call, operation
from ..redis.parsers import optional
from .queue import Queue
from .state_scan import ScoreRange

if TYPE_CHECKING:
    from ..foreign.schedule import OwnersSchedule
    from ..queues.delay.periodic import ScheduledPeriodic


class HasConsumers(Queue[C_co]):
    """The server lists consumers: of each request, or of each consumer group."""

    @operation
    @abstractmethod
    async def consumers(self, id: str) -> list[Consumer]:
        """The consumers of a request, or of a group, by name; empty when there are none."""


class TakesEntries(Queue[C_co]):
    """Entries are added from here one by one, each with an id and a payload."""

    pushes_again: ClassVar[bool] = False
    """an id that is there already is no refusal: it gets the new payload"""
    bounds_delayed: ClassVar[bool] = False
    """the setting max_waiting counts delayed entries, too"""
    of_clients: ClassVar[bool] = False
    """each entry has a client"""
    takes_ready_times: ClassVar[bool] = False

    @operation
    async def add_entries(
        self,
        entries: Sequence[tuple[str, bytes]],
        *,
        client: str | None = None,
        at: Moment | None = None,
        after: Seconds | None = None,
    ) -> list[str]:
        """Add (id, payload) pairs, up to 500: for now, ``at`` a time or ``after`` a span. Returns
        for each ``ok``; ``same``: it is there already; ``trash``: it was, and was purged;
        ``exists``: another one has that id.

        Raises `BadInput`, before anything is sent, for a client or ready time that this kind lacks
        or needs; `TooLarge`, `QueueFull`, `QueueClosed`.
        """
        if client is None and self.of_clients:
            raise BadInput(
                f"queue {self.name} is a {self.kind} queue: name the client of the entries"
            )
        for given, taken, what in (
            (client, self.of_clients, "client"),
            (at, self.takes_ready_times, "ready time"),
            (after, self.takes_ready_times, "ready time"),
        ):
            if given is not None and not taken:
                raise BadInput(
                    f"queue {self.name} is a {self.kind} queue: its entries have no {what}"
                )
        return await self._add_entries(entries, client, at, after)

    @abstractmethod
    async def _add_entries(
        self,
        entries: Sequence[tuple[str, bytes]],
        client: str | None,
        at: Moment | None,
        after: Seconds | None,
    ) -> list[str]:
        """The same, of arguments that fit the kind."""

    @operation
    async def submitted_lines(self, id: str) -> int:
        """How many lines of a file that was submitted as ``id`` were added here in the last day."""
        key = self.keys["callers"]
        kept = await Call(("HGET", key, f"submit:{id}"), optional, key=key)
        return 0 if kept is None else int(kept.split()[0])

    @operation
    async def keep_submitted_lines(self, id: str, lines: int) -> None:
        """Keep for a day how many were added: entries that are done are known no longer."""
        key, now = self.keys["callers"], await self._now()
        await Call(("HSET", key, f"submit:{id}", f"{lines} {now}"), int, key=key)


class HasRequests(HasConsumers[C_co]):
    """Entries are sub-requests ``request/number`` of requests, and a request has a record."""

    @operation
    @abstractmethod
    async def requests(
        self, start: int = 0, max: int = 100, settled: bool = False
    ) -> list[Request]:
        """Up to ``max`` requests from rank ``start``: open ones, the oldest first; ``settled``:
        finished ones, the newest first."""

    @operation
    @abstractmethod
    async def request(self, id: str) -> Request | None:
        """One request's record; None: the queue doesn't have it (any more)."""

    @operation
    @abstractmethod
    async def request_ranges(
        self, settled: bool, size: int, low_ms: int | None = None, high_ms: int | None = None
    ) -> list[ScoreRange]:
        """Ranges of about ``size`` requests, for parallel reads: open requests by creation,
        ``settled`` ones by their end, from ``low_ms`` to ``high_ms``. Of one shard."""

    @operation
    @abstractmethod
    async def read_request_range(
        self, settled: bool, span: ScoreRange, cursor: str | None = None, max: int = 100
    ) -> tuple[list[tuple[str, Request | Exception | None]], str | None]:
        """Up to ``max`` requests of a range as (id, record), and the cursor of the next page.

        An exception stands for a corrupt record. Of one shard.
        """

    @operation
    @abstractmethod
    async def subrequests(
        self, id: str, start: int = 1, max: int = 100, payloads: bool = False
    ) -> list[Entry]:
        """Sub-requests of a request from number ``start`` on, in whatever state. Of one shard."""

    @operation
    @abstractmethod
    async def remove_consumer(self, group: str, consumer: str) -> str:
        """Remove a consumer from a request: gone | holds (it has deliveries and stays) | absent."""


class HasConsumerGroups(HasConsumers[C_co]):
    """Groups of consumers read the same entries, each at its own position."""

    @operation
    @abstractmethod
    async def reassign(
        self,
        group: str,
        consumer: str,
        to: str,
        ids: Sequence[str],
        *,
        min_idle_ms: int = 0,
        remove: bool = False,
        op: str = "",
    ) -> Reassigned:
        """Give a consumer's deliveries to consumer ``to`` of its group.

        Only those idle for ``min_idle_ms``. ``remove``: in the same step remove the consumer, if
        it holds nothing then. ``op``: the operation whose audit log entry counts what was given
        (not on a cluster).
        """

    async def give_back_refused(self) -> str | None:
        """Why entries can't be given back to their group, in words; None: they can."""
        return None

    @operation
    @abstractmethod
    async def settle_held(
        self,
        group: str,
        consumer: str,
        ids: Sequence[str],
        *,
        acknowledge: bool,
        min_idle_ms: int,
        op: str,
        step: int,
    ) -> Reassigned:
        """Acknowledge a consumer's deliveries for its group, or give them back to the group, so
        that nobody has them: one step of an operation, which returns the same when sent again (not
        on a cluster: there its words are ``same``). Otherwise as `reassign`."""

    @operation
    @abstractmethod
    async def group_positions(self) -> GroupPositions:
        """How far each consumer group has read."""

    @abstractmethod
    def position(self, where: str | int, end: StreamId) -> StreamId:
        """The entry behind which a group goes on: ``start``, ``end``, an id, or (ms) just before
        the first entry from then on. Raises `BadInput` for a position behind the ``end``."""

    @operation
    @abstractmethod
    async def place_group(
        self,
        group: str,
        was: StreamId | None,
        to: StreamId | None,
        *,
        read: int | None = None,
        unused: bool = False,
    ) -> str:
        """Create a group (``was`` None), move it, or remove it (``to`` None).

        ``read``: the `GroupPosition.read` that it has then. Returns ok | same: it is there already,
        as after the same call before | changed: it isn't where it was, or was read since | holds:
        it has pending entries, or with ``unused`` consumers, and is not removed.
        """

    @operation
    @abstractmethod
    async def trim_step(self, upto: StreamId, op: str) -> int | None:
        """Remove a bounded part of the entries up to an id, if every group is done with them.
        Returns how many; None: a group isn't (any more), and nothing was removed."""


class HasPriorityLevels(Queue[C_co]):
    """Work waits in one list for each priority."""

    @operation
    @abstractmethod
    async def levels(self) -> list[Level]:
        """The priorities that have tokens now: their number, and the requests that come next."""


class HasClients(Queue[C_co]):
    """Each entry belongs to a client, and clients take turns."""

    client_rules: ClassVar[Mapping[str, range]] = {}
    """rule of a client -> its possible values, for `set_client_rule`"""

    @operation
    @abstractmethod
    async def clients(self, start: int = 0, max: int = 100) -> Clients:
        """Up to ``max`` clients by name, from rank ``start`` on."""

    @operation
    @abstractmethod
    async def get_client(self, client: str) -> Client | None:
        """One client; None when it has no entries waiting or pending and no rules."""

    @operation
    @abstractmethod
    async def first_waiting(self, client: str, max: int) -> list[Entry]:
        """Up to ``max`` waiting entries of a client, the next first, without payloads."""

    @operation
    @abstractmethod
    async def set_client_rule(
        self, op: str, seq: int, rule: str, client: str, value: int
    ) -> tuple[str, int]:
        """Change one of the `client_rules` as an operation that `undo_change` can take back.

        Returns (ok | same, the value before). ``op`` and ``seq`` sent again change nothing.
        """


class HasTimeline(Queue[C_co]):
    """Every entry has a ready time, delayed and waiting ones alike; operators can change it."""


class HasDoneEntries(Queue[C_co]):
    """Entries that are done are kept for a while, and listed like those of other states."""


class HasTaskMetrics(Queue[C_co]):
    """The owner itself counts the runs of each task."""

    metrics_name: ClassVar[str]
    """what the owner keeps of them, in words"""

    @operation
    @abstractmethod
    async def task_metrics(self, now_ms: int, minutes: int) -> TaskReport | None:
        """The tasks of the last ``minutes``, without errors; None: the owner keeps none here."""


class HasPeriodicEntries(Queue[C_co]):
    """Entries of the queue run on a schedule, ours or the owner's."""

    @operation
    @abstractmethod
    async def periodics(self) -> Sequence[ScheduledPeriodic | OwnersSchedule]:
        """All periodic entries; a corrupt one has a ``problem``."""

    @operation
    @abstractmethod
    async def get_periodic(self, name: str) -> ScheduledPeriodic | OwnersSchedule | None:
        """One periodic entry; None: there is none of that name."""

    @operation
    @abstractmethod
    async def periodic_counts(self, now_ms: int) -> tuple[int | None, int | None]:
        """How many periodic entries there are, and how many of them missed a run; None: unknown,
        or too much to read at every look."""

    @operation
    @abstractmethod
    async def change_periodic(
        self,
        op: str,
        step: int,
        name: str,
        *,
        was: str,
        spec: bytes | None = None,
        at_ms: int | None = None,
        run: str | None = None,
        paused: bool | None = None,
    ) -> str:
        """Add, change, pause, resume or remove a periodic entry: one step of an operation.

        ``was``: the digest of its definition as it was read; empty: there was none. ``spec``: its
        new definition, as it is stored; empty removes it. ``at_ms``: its next time, computed
        when its latest run was ``run``. ``paused``: whether it is paused from now on. None leaves
        each of them as it is. Returns ok | same | changed: it has another definition or latest run
        by now, and nothing was changed.
        """


class HasOwnersPause(Queue[C_co]):
    """The owner has a pause that its own workers heed, and redisq sets it as the owner does."""

    pause_note: ClassVar[str]
    """whose pause it is and who heeds it, in words"""
    pause_heeded: ClassVar[bool] = True
    """whether every edition of the owner's own workers heeds it"""

    async def pause_refused(self) -> str | None:
        """Why redisq can neither pause the queue nor let it go on, in words; None: it can."""
        return None

    @operation
    @abstractmethod
    async def set_owners_pause(self, op: str, step: int, paused: bool) -> str:
        """Pause the queue, or let it go on: one step of an operation. Returns ok | same | changed
        (by somebody else meanwhile). Raises `Refused` where it is unclear what the owner would
        do."""

    @abstractmethod
    def pause_inverse(self, op: str, paused: bool) -> str:
        """What takes step 1 of the operation back, for the audit log."""


class HasOwnersLimit(Queue[C_co]):
    """The owner can limit how much its workers take."""

    @operation
    @abstractmethod
    async def owners_limit(self) -> OwnersLimit | None:
        """The limit that keeps them from taking more, as far as Redis shows it; None: there is
        none."""


class HasWorkerTraces(Queue[C_co]):
    """Worker processes of the program that owns the layout can be listed."""

    workers_unknown: ClassVar[str] = ""
    """what the list doesn't show, and why, in words"""

    @property
    @abstractmethod
    def process_registry(self) -> str:
        """The key of the list of workers; queues with the same key share it."""

    @operation
    @abstractmethod
    async def worker_processes(self) -> list[Process]:
        """The listed processes by name, whichever queues they serve."""


class HasWorkerCommands(HasWorkerTraces[C_co]):
    """Worker processes of the owner heed commands that come through Redis."""

    worker_commands: ClassVar[Mapping[WorkerWord, str]]
    """command that they heed -> what happens then, in words"""

    @operation
    @abstractmethod
    async def worker_command(self, word: WorkerWord, target: str) -> WorkerCommand:
        """A command to the worker of that name; of ``stop-job``, to the one that runs the entry.
        Reads only. Raises `NotFound` if there is none."""

    @abstractmethod
    async def check_command_rights(self, command: WorkerCommand) -> None:
        """Raise `Forbidden` unless the user can send it."""

    @operation
    @abstractmethod
    async def send_command(self, op: str, step: int, command: WorkerCommand) -> tuple[str, int]:
        """Send it: one step of an operation. Returns ok | changed (the worker, or its job, is
        another one by now: nothing is sent), and how many clients heard it; 0 also where workers
        read it from a key. The same ``op`` and ``step`` sent again send nothing."""


class HasWorkerProcesses(HasWorkerTraces[C_co]):
    """The program registers its worker processes: one that isn't listed doesn't work."""

    prunes: ClassVar[bool] = False
    """whether `prune_process` can remove a process from the registry"""
    prune_note: ClassVar[str] = ""
    """what happens to the jobs of a process that is pruned without ``rescue``, in words"""

    @operation
    async def prune_process(
        self,
        name: str,
        *,
        silent: Seconds | None = None,
        rescue: bool = False,
        op: str | None = None,
        step: int = 1,
    ) -> Pruned:
        """Remove a process from the registry if it was silent for so long.

        ``silent``: seconds or a timedelta; default: as its owner waits. The step that
        removes it checks that again, by the server's clock. ``rescue``: its jobs wait again;
        otherwise see `prune_note`. The same ``op`` and ``step`` sent again change nothing and get
        the same answer.
        """
        silence = None if silent is None else duration_ms(silent, "silent")
        return await self._prune(name, silence, rescue, op, step)

    async def _prune(
        self, name: str, silent_ms: int | None, rescue: bool, op: str | None, step: int
    ) -> Pruned:
        raise Refused(f"queue {self.name}: {self.owner} itself removes processes that are gone")


FEATURES: tuple[type, ...] = (
    TakesEntries,
    HasRequests,
    HasConsumerGroups,
    HasPriorityLevels,
    HasClients,
    HasTimeline,
    HasDoneEntries,
    HasTaskMetrics,
    HasPeriodicEntries,
    HasOwnersPause,
    HasWorkerTraces,
    HasWorkerCommands,
    HasWorkerProcesses,
)


def features(queue_class: type[Queue[Any]]) -> frozenset[str]:
    """The names of the features that queues of a class have, for user interfaces."""
    return frozenset(each.__name__ for each in FEATURES if issubclass(queue_class, each))
