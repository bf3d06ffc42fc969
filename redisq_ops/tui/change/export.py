"""`w`: writes the entries of a list, or of a whole queue, to a file; nothing on the server changes.

It is `redisq export` with a dialog for the file's name.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.redis.operation import arun
from redisq_ops.ops.files.export import STATES, Export
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.target import Target
from redisq_ops.ops.ndjson import line
from redisq_ops.ops.private_files import atomic_write
from redisq_ops.ops.terminal import count, entries
from redisq_ops.tui.change import asked_values

if TYPE_CHECKING:
    from redisq_ops.ops.filter.ast import Query

    from .changes import Changes


async def export(changes: Changes, name: str, state: State | None, where: Query | None) -> bool:
    """Write the entries of a state that match ``where``; without a state all but the trash."""
    queue = await arun(changes.deployment.client, changes.deployment.queue(name))
    states = [state] if state else [each for each in STATES if each != "trash"]
    title = f"Write the {state} entries of {name}" if state else f"Write all entries of {name}"
    title += f" that match {where.text} to which file?" if where else " to which file?"
    usual = f"{name}-{state}.ndjson" if state else f"{name}.ndjson"
    file = await asked_values.new_file(changes, title, usual.replace("/", "-"))
    if file is None:
        return False
    now = await arun(changes.deployment.client, queue.now.op())
    filter, done = Filter(where=where, redaction=changes.redaction), list[Export]()
    try:
        with atomic_write(file) as out:
            for each in states:
                section = Export(Target(queue, each, filter), now, changes.redaction)
                done.append(section)
                while await arun(changes.deployment.client, section.step()):
                    out.writelines(map(line, section.rows))
                    changes.say(f"writing {each}: {count(section.written)} entries")
                    await asyncio.sleep(0)  # lets keys and snapshots be handled
                    if changes.stopping:
                        raise BadInput(f"Stopped: {file} was not written.")
                out.writelines(map(line, section.rows))
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}: it was not written") from error
    said = [f"{entries(sum(one.written for one in done))} written to {file}"]
    if left := sum(one.left for one in done):
        said.append(f"{count(left)} more changed their state meanwhile, and are left out")
    if redacted := sum(one.redacted for one in done):
        said.append(f"{count(redacted)} are redacted and can't be imported")
    unread = dict.fromkeys(one.scan.unread for one in done if one.scan.unread)
    changes.tell("\n".join([*said, *unread]), not unread)
    return False
