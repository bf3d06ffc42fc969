"""Lists of the jobs that one Sidekiq process runs: some are named like queues.

Sidekiq Pro's super_fetch and the gems that do the same move a job there while it runs. Sidekiq's
other processes put back the jobs of a process that died.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SUPER_FETCH = rb"queue:sq\|(?P<process>[^|]+)\|(?P<queue>.+)"
_RELIABLE_FETCH = rb"working:queue:(?P<of>.+?):(?P<worker>[^:]+:\d+(?::[0-9a-f]+)?)"
"""of gitlab-sidekiq-fetcher, sidekiq-reliable-fetch and sidekiq-power-fetch"""
_KEY = re.compile(rb"(?P<at>(?:.*?:)?)(?:%b|%b)" % (_SUPER_FETCH, _RELIABLE_FETCH), re.DOTALL)


@dataclass(frozen=True, slots=True)
class PrivateList:
    """``at``: what the keys of the deployment begin with."""

    at: bytes
    queue: bytes
    process: bytes

    @classmethod
    def of_key(cls, key: bytes) -> PrivateList | None:
        """The parts of a list's key; None: it isn't the list of a process."""
        found = _KEY.fullmatch(key)
        if found is None:
            return None
        queue, process = found["queue"] or found["of"], found["process"] or found["worker"]
        return cls(found["at"], queue, process)

    @classmethod
    def of_queue(cls, name: bytes) -> PrivateList | None:
        """The same, for a name that looks like a queue's."""
        return cls.of_key(b"queue:" + name)
