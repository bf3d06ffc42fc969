"""The words for changes of entries: what a verb does, what it did, to how many entries."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import State

from ..terminal import count
from .outcome import OTHERS

PAST = {
    "requeue": "requeued",
    "claim": "claimed",
    "acknowledge": "acknowledged",
    "replay": "replayed",
    "purge": "purged",
    "hard": "removed for good",
    "restore": "restored",
    "reschedule": "rescheduled",
    "move": "moved",
    "pause": "paused",
    "resume": "resumed",
}
SKIPPED = {
    "changed": "were in another state by then",
    "late": "came into this state after you looked",
    "expired": "were kept for too long to be put back",
    "same": "were so already",
    OTHERS: "were put back by another undo",
    "corrupt": "can't be read",
    "gone": "are not there any more",
    "partly": "may match what is excluded: they are too long to be read as a whole",
    "whole": "have their records: in this state only ids without one can be purged",
    "due": "are due within a minute: their own scheduler may be at them",
    "limited": "have a rate limit: only their own program enqueues them",
    "deferred": "wait for other entries: they go on when those end",
    "busy": "are with a worker of their own program",
    "recurring": "are the next run of a schedule, which would end without them",
    "linked": "belong to a flow or a batch: others would wait for them for ever, or go on without",
    "grouped": "belong to a group or a chord, which counts its tasks: another run would be counted",
    "unkept": "lack their name, arguments or queue: Celery keeps these in a result only with"
    " `result_extended`, and not where a worker was killed",
    "unrouted": "were sent by a routing key, and their results don't tell the queue",
    "pickled": "have pickled results: redisq makes no message of a pickle",
    "elsewhere": "have their results under another prefix: they may be another application's",
    "again": "were sent again already: they wait, or are with a worker",
    "crowded": "may have been sent again already: too many messages to check",
    "unclear": "are in a queue that doesn't tell its release: their workers might not find them",
    "taken": "have lost their id or unique key to another entry, or would have expired since",
    "invalid": "have lost what their own program needs to run them",
    "deep": "lie too deep in another program's list for now: undo it again later",
}
"""why entries are skipped by a change: a word of `OperatorChanges.move` -> what they are"""
HELD = "a worker that holds one can't settle it any more"
MEANS = {
    "acknowledge": "their group is done with them, and they stay in the stream for other groups",
    "requeue": f"they wait for the next worker; {HELD}",
    "claim": "another consumer receives them; the present one can't settle them any more",
    "replay": "they wait for a worker again",
    "purge": "they go to the trash",
    "hard": "they are removed for good: there is no undo",
    "restore": "they go back to the state they were purged from",
    "reschedule": "they become ready at another time",
    "move": "they go to the other queue; the trash here keeps a copy for undo",
}


def what(verb: str, n: int, state: State, queue: str, into: str = "") -> str:
    """``move 3 dead entries of mail to other``"""
    does = "remove for good" if verb == "hard" else verb
    return f"{does} {state_entries(n, state)} of {queue}" + (f" to {into}" if into else "")


def past(verb: str, state: State, queue: str, into: str = "") -> str:
    """``moved dead entries of mail to other``"""
    return f"{PAST[verb]} {state} entries of {queue}" + (f" to {into}" if into else "")


def meaning(verb: str, queue: Queue[Any], state: State | None = None) -> str:
    """What a verb does, in words that are true of this kind of queue, and of this state."""
    means = queue.verbs.get(verb, MEANS[verb])
    means += " and run a second time" if (verb, state) == ("replay", "done") else ""
    return f"{means}, {queue.replay_note}" if verb == "replay" else means


def claimed_by(consumer: str) -> str:
    """What a claim for a consumer does."""
    return f"{consumer} receives them; the present consumer can't settle them any more"


def state_entries(n: int, state: State) -> str:
    """``1 dead entry``, ``1,234 waiting entries``, ``2 entries in the trash``."""
    noun = "entry" if n == 1 else "entries"
    return f"{count(n)} {noun} in the trash" if state == "trash" else f"{count(n)} {state} {noun}"
