"""The values that keys ask for: a receiver, a ready time, a target queue, a number, a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import BadInput, RedisqError
from redisq_ops.core.model.keys import checked_consumer
from redisq_ops.core.redis.operation import arun
from redisq_ops.ops.change.transfer_plan import Route, movable, route_to
from redisq_ops.ops.filter.time import duration_ms, moment_ms
from redisq_ops.ops.inspect.live_consumers import live_consumers
from redisq_ops.ops.terminal import age, count
from redisq_ops.tui.change.confirm_dialog import Question
from redisq_ops.tui.change.value_dialog import WantedValue
from redisq_ops.tui.host import Completion
from redisq_ops.tui.views.delayed import moment

if TYPE_CHECKING:
    from .changes import Changes

T = TypeVar("T")


async def value(
    changes: Changes, wanted: WantedValue, take: Callable[[str], Awaitable[T]]
) -> T | None:
    """Ask for a value until ``take`` accepts it; None after Esc. A refused text is kept."""
    while (typed := await changes.value(wanted)) is not None:
        try:
            return await take(typed)
        except RedisqError as error:
            wanted = replace(wanted, start=typed, refused=str(error))
    return None


@dataclass(frozen=True, slots=True)
class Receiver:
    """The consumer that a claim gives the entries to."""

    name: str
    lives: bool

    def asked(self, question: Question) -> Question:
        """The question about the claim; a name that no live consumer has must be typed again."""
        if self.lives:
            return question
        nobody = f"No live consumer is called {self.name}: nobody may ever work on them there."
        return replace(
            question, lines=(nobody, *question.lines), danger=True, typed=f"new {self.name}"
        )


async def receiver(
    changes: Changes, queue: Queue[Any], what: str, group: str | None = None, holder: str = ""
) -> Receiver | None:
    """Pick the live consumer that receives ``what``, or name a new one; ``holder`` has it now."""
    live = await arun(changes.deployment.client, live_consumers(queue, group or None))
    choices = tuple(Completion(one.name, one.sign) for one in live if one.name != holder)
    names = {one.text for one in choices}

    def meaning(text: str) -> str:
        checked_consumer(text)
        if text == holder:
            raise BadInput(f"consumer {text} holds these entries already")
        return "" if text in names else f"no live consumer is called {text}"

    async def take(name: str) -> Receiver:
        return Receiver(name, name in names)

    title = f"Which consumer receives {what}?"
    title += "" if choices else " No other one lives."
    example = "letters of its name"
    wanted = WantedValue(title, example, meaning, choices=choices, new="no live consumer")
    return await value(changes, wanted, take)


async def ready_time(changes: Changes, queue: Queue[Any]) -> int | None:
    """Ask when entries become ready; ms since 1970. A span counts from Enter on."""
    client, zone = changes.deployment.client, changes.zone
    opened_ms, began = await arun(client, queue.now.op()), changes.clock()

    def meaning(text: str) -> str:
        now_ms = opened_ms + round(1000 * (changes.clock() - began))
        at_ms = ready_ms(text, now_ms, utc=zone is UTC)
        left = f"in {age(at_ms - now_ms)}" if at_ms > now_ms else "over: ready at once"
        return f"{text} → {moment(at_ms, zone)} ({left})"

    async def take(text: str) -> int:
        return ready_ms(text, await arun(client, queue.now.op()), utc=zone is UTC)

    return await value(changes, WantedValue("Ready when?", "+1h  04:12", meaning), take)


def ready_ms(text: str, now_ms: int, *, utc: bool) -> int:
    """The time that ``+1h``, ``90s``, ``04:12`` (its next occurrence) or ISO 8601 names."""
    if text.startswith("+") or text[-1:] in "smhd":
        return now_ms + duration_ms(text.removeprefix("+"))
    return moment_ms(text, now_ms, ahead=True, utc=utc)


async def route(changes: Changes, source: Queue[Any]) -> Route | None:
    """Pick the queue that entries move to: one of the same kind."""
    movable(source)
    choices = tuple(
        Completion(one.name, f"{one.kind} queue")
        for one in changes.queues
        if one.kind == source.kind and one.name != source.name
    )
    names = {one.text for one in choices}

    def meaning(text: str) -> str:
        if text not in names:
            raise BadInput(f"there is no other {source.kind} queue with {text!r} in its name")
        return ""

    async def take(name: str) -> Route:
        deployment = changes.deployment
        return await arun(deployment.client, route_to(deployment, source, name))

    title = f"Move from {source.name} to which queue?"
    return await value(
        changes, WantedValue(title, "letters of its name", meaning, choices=choices), take
    )


async def number(changes: Changes, title: str, allowed: range, now: int) -> int | None:
    """Ask for a number; ``now``: the present one."""
    span = f"{allowed.start:,} to {allowed.stop - 1:,}"

    def meaning(text: str) -> str:
        if not (text.isascii() and text.isdigit() and int(text) in allowed):
            raise BadInput(f"{text!r}: write a number, {span}")
        return f"{count(now)} → {count(int(text))}"

    async def take(text: str) -> int:
        return int(text)

    return await value(changes, WantedValue(title, span, meaning), take)


async def new_file(changes: Changes, title: str, name: str) -> str | None:
    """Ask for the name of a file that does not exist; ``name``: the usual one."""
    usual, again = Path(name), 1
    while usual.exists():
        again += 1
        usual = Path(name).with_stem(f"{Path(name).stem}-{again}")

    def meaning(text: str) -> str:
        path = Path(text).expanduser()
        if path.exists():
            raise BadInput(f"{path} exists: choose another name")
        if not path.parent.is_dir():
            raise BadInput(f"there is no directory {path.parent}")
        return f"on the machine of the dashboard: {path.absolute()}"

    async def take(text: str) -> str:
        return str(Path(text).expanduser())

    wanted = WantedValue(title, "a file", meaning, start=str(usual), asks=False)
    return await value(changes, wanted, take)
