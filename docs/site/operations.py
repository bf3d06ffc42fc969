"""Shows operations of queues as the methods that they are.

`@operation` turns a method that returns a description into one that runs it: blocking on a blocking
client, awaited on an asyncio client. The sources say ``async def`` or ``-> Call[T]``; a reader of
the API calls it and gets a ``T``.
"""

from typing import Any

import griffe


class Operations(griffe.Extension):
    """Labels operations, and takes ``Call[…]`` off what they return."""

    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:
        if not any(str(each.value) == "operation" for each in func.decorators):
            return
        func.labels.discard("async")
        func.labels.add("operation")
        returns = func.returns
        if isinstance(returns, griffe.ExprSubscript) and str(returns.left) == "Call":
            func.returns = returns.slice
