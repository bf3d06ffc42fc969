"""A plan file that ``--plan`` writes instead of a change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.states import Verb
from redisq_ops.ops.hint import hint

from .confirm_and_run import indented
from .output import emit, printable, say, untouched
from .session import Session

if TYPE_CHECKING:
    from redisq_ops.core.engine.queue import Queue
    from redisq_ops.ops.change.plan import Draft
    from redisq_ops.ops.change.prepare import PreparedChange
    from redisq_ops.ops.change.preview import Preview


def draft(path: str, verb: Verb, queues: Sequence[Queue[Any]], *, dry_run: bool) -> Draft:
    """Begin a plan file for one queue."""
    from redisq_ops.ops.change.audit_log import new_id
    from redisq_ops.ops.change.plan import Draft

    if dry_run:
        raise BadInput("--plan writes a file and --dry-run writes nothing: use one of them")
    if len(queues) > 1:
        raise BadInput("a plan is for one queue: " + ", ".join(queue.name for queue in queues))
    return Draft(path, new_id(verb))


def written(s: Session, file: Draft, prepared: PreparedChange, why: str) -> int:
    """Finish a plan file and print its content; exit code 0."""
    with untouched():
        s.run(prepared.write_plan(file, why, s.deployment))
    return tell_written(s, file.path, file.op, prepared.preview)


def tell_written(s: Session, path: str, op: str, preview: Preview) -> int:
    """Print the content of a plan file; exit code 0."""
    if s.json and path != "-":
        emit({"plan": preview.title, "file": path, "op": op, **preview.facts})
    elif not s.json:
        say("\n".join(indented(preview)))
        if not preview.facts["matched"]:
            say("nothing to do: the plan has no entries")
        elif path != "-":
            say(printable(f"nothing was changed; do it with: {hint('apply', path)}"))
    return 0
