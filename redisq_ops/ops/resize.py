"""What completes a change of the number of shards."""

from __future__ import annotations

from redisq_ops.core.model.open_resize import OpenResize

from .hint import hint


def what_completes(queue: str, resize: OpenResize) -> str:
    """What helps, with the commands, as a part of a sentence."""
    steps = []
    if "dead" in resize.left:
        purge = hint("purge", queue, state="dead", hard=None)
        steps.append(f"replay the dead entries ({hint('replay', queue)}) or purge them ({purge})")
    if "trash" in resize.left:
        steps.append(f"empty the trash ({hint('trash', 'rm', queue)})")
    then = ", then " if steps else ""
    return f"{' and '.join(steps)}{then}call resize({resize.new}) again until it returns 0"
