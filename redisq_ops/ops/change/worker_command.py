"""Commands to workers of other programs: quiet and stop one, end the run of a job. No undo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redisq_ops.core.engine.optional_features import HasWorkerCommands, HasWorkerProcesses
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import NotFound, Refused
from redisq_ops.core.model.worker_command import WorkerCommand, WorkerWord
from redisq_ops.core.model.worker_process import Process

from ..terminal import quantity
from .allowed import ensure_changeable
from .audit_log import Author
from .control import SettingsSteps
from .outcome import ChangeOutcome
from .preview import Preview
from .runner import ChangeRun, take_all

NAMED = 10
"""workers that an error lists"""


@dataclass(frozen=True, slots=True)
class CommandChange:
    """A command that was checked; nothing is sent yet."""

    queue: HasWorkerCommands[Any]
    command: WorkerCommand

    @property
    def what(self) -> str:
        noun = "job" if self.command.word == "stop-job" else "worker"
        return f"{noun} {self.command.target}"


async def prepare_command(queue: Queue[Any], word: WorkerWord, target: str) -> CommandChange:
    """Check a command to the worker ``target``, or to the one that runs the entry; reads only.
    Raises `Refused` where its owner has no such command, `NotFound` for another name."""
    if not isinstance(queue, HasWorkerCommands) or word not in queue.worker_commands:
        raise Refused(f"queue {queue.name}: {queue.no_commands[word]}")
    await ensure_changeable(queue)
    try:
        return CommandChange(queue, await queue.worker_command.op(word, target))
    except NotFound as unknown:
        if word == "stop-job" or not isinstance(queue, HasWorkerProcesses):
            raise
        raise NotFound(f"{unknown}; {_named(await queue.worker_processes.op())}") from None


def _named(processes: Sequence[Process]) -> str:
    """The workers that there are, in words."""
    names = [process.name for process in processes]
    more = ", …" if len(names) > NAMED else ""
    return f"it knows {', '.join(names[:NAMED])}{more}" if names else "it knows none"


def command_preview(change: CommandChange) -> Preview:
    """What the command will do."""
    word, queue = change.command.word, change.queue
    does = word.partition("-")[0]
    lines = (queue.worker_commands[word], "there is no undo")
    facts = {"verb": word, "queue": queue.name, "target": change.command.target, "matched": 1}
    return Preview(f"{does} {change.what} of {queue.name}", lines, facts=facts)


async def send_command(change: CommandChange, author: Author) -> tuple[ChangeOutcome, int | None]:
    """Send a command. Returns also how many clients heard it; None: its worker has still to read
    it. Raises `NotFound` if nobody did, or if the worker or
    its job is another one by now."""
    queue, command, heard = change.queue, change.command, 0

    async def step(op: str, number: int) -> bool:
        nonlocal heard
        word, heard = await queue.send_command.op(op, number, command)
        if word == "changed":
            raise NotFound(f"{change.what} is gone, or another one by now: nothing was sent")
        if command.channel and not heard:
            raise NotFound(f"nobody heard it: no worker of {queue.owner} listens")
        return True

    await queue.check_command_rights(command)  # before the audit log has it
    steps = SettingsSteps(queue, command.word, change.what, [step], lambda op: "")
    outcome = await take_all(ChangeRun(steps, author))
    return outcome, heard if command.channel else None


def heard_by(heard: int | None) -> str:
    """Who heard a command, in words."""
    if heard is None:
        return "it is written down for the worker, which has still to read it"
    return f"{quantity(heard, 'worker')} heard it"
