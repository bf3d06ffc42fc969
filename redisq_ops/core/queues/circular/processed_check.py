"""Ask the application whether an id was processed before, when its lease was lost."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...model.errors import BadInput
from ...worker.handler import Handler, Work, as_handler


def unless_done(is_done: Callable[[str], Any], handler: Callable[[Work], Any] | Handler) -> Handler:
    """A handler that calls ``is_done(id)`` first when an earlier lease of the entry was lost.

    If it returns True, the entry is acknowledged and ``handler`` isn't run. An ``async`` handler
    can have an ``async`` ``is_done``. An exception it raises is a failure of the attempt.

        Worker(queue, unless_done(database.has, handle)).run()
    """
    inner = as_handler(handler)
    if inspect.iscoroutinefunction(is_done) and not inner.is_async:
        raise BadInput("an async is_done is for an async handler, and this one isn't")

    def call(work: Work) -> Any:
        return None if work.delivery.lost and is_done(work.id) else inner.call(work)

    async def acall(work: Work) -> Any:
        if work.delivery.lost:
            said = is_done(work.id)
            if await said if inspect.isawaitable(said) else said:
                return None
        return await inner.call(work)

    return Handler(acall if inner.is_async else call, inner.is_async, inner.abort)
