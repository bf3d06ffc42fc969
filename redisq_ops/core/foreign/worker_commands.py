"""Commands to the owner's workers, as the owner itself sends them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from ..engine.optional_features import HasWorkerCommands
from ..model.errors import NotFound
from ..model.quoting import bytes_of
from ..model.worker_command import WorkerCommand, WorkerWord
from ..redis import acl_rights
from ..redis.operation import C_co, operation
from .elements import Element, ElementChanges


@dataclass(frozen=True, slots=True)
class Order:
    """What a kind's owner does for a command."""

    elements: Sequence[Element]
    """those that have to be as they were read (``before`` and ``after`` alike), so that exactly
    this worker or job is meant, and those that are written"""
    channel: str = ""
    message: bytes = b""


class SendsCommands(ElementChanges[C_co], HasWorkerCommands[C_co]):
    """A queue whose owner's workers heed commands that come through Redis."""

    @abstractmethod
    async def order(self, word: WorkerWord, target: str) -> Order | None:
        """The command to a worker, or to the worker that runs a job; None: the owner doesn't know
        that worker, or the job doesn't run."""

    @operation
    async def worker_command(self, word: WorkerWord, target: str) -> WorkerCommand:
        found = await self.order(word, target)
        if found is None:
            raise NotFound(
                f"queue {self.name}: job {target} isn't running"
                if word == "stop-job"
                else f"{self.owner} knows no worker {target!r}"
            )
        rows = [element.row() for element in found.elements]
        return WorkerCommand(word, target, rows, bytes_of(found.channel), found.message)

    async def check_command_rights(self, command: WorkerCommand) -> None:
        await acl_rights.to_send(self, command.channel)

    @operation
    async def send_command(self, op: str, step: int, command: WorkerCommand) -> tuple[str, int]:
        await self._ensure_registered()
        return await self._call_script(
            "send_command",
            lambda reply: (reply[0].decode(), int(reply[1])),
            command.rows,
            caller=op,
            seq=step,
            note=f"worker-{command.word}|{quote(command.target)}",
            channel=command.channel,
            message=command.message,
        )
