"""The application's own check whether an id was processed, before it is processed again."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...model.errors import BadInput
from ...worker.handler import Handler, Work, as_handler


def unless_done(is_done: Callable[[str], Any], handler: Callable[[Work], Any] | Handler) -> Handler:
    """``handler``, but an id whose lease was lost before is first asked about: ``is_done(id)``.

    True acknowledges it without running the handler. For an ``async`` handler it may be ``async``
    too. Its exceptions are failures of the attempt, as the handler's are.
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
