"""A GENERATED afternoon of two queues with an incident, the same rows each time.

``mail`` is a request queue with twelve workers; from 13:40 to 14:05 one of its mail servers does
not answer. ``push`` is a fair queue with four clients; one of them sends far more than the others
from 12:30 to 13:30.
"""

import heapq
import random
from datetime import UTC, datetime
from typing import Any

from redisq_ops.core.model.entry import Entry, Failure
from redisq_ops.ops.groups.fingerprint import fingerprint

BEGIN = int(datetime(2026, 3, 1, 12, 0, tzinfo=UTC).timestamp() * 1000)
MINUTE = 60_000
Row = dict[str, Any]


class SyntheticHistory:
    """``history`` and ``dead``: rows with the tables' columns, times in ms."""

    def __init__(self, minutes: int = 240) -> None:
        self.history: list[Row] = []
        self.dead: list[Row] = []
        self.end = BEGIN + minutes * MINUTE
        self._seq = 0
        self._mail(random.Random(1))
        self._push(random.Random(2))
        self.history.sort(key=lambda row: row["at"])

    def _add_event(self, queue: str, kind: str, at: int, event: str, id: str, **more: Any) -> None:
        self._seq += 1
        request, slash, number = id.rpartition("/")
        of = {"request": request, "number": int(number)} if slash else {}
        self.history.append(
            {
                "queue": queue,
                "kind": kind,
                "shard": 0,
                "event_id": f"{at}-{self._seq}",
                "at": at,
                "by": "w1",
                "event": event,
                "id": id,
            }
            | of
            | more
        )

    def _mail(self, random_: random.Random) -> None:
        bad_from, bad_to = BEGIN + 100 * MINUTE, BEGIN + 125 * MINUTE
        waiting: list[tuple[int, int, str, int]] = []  # ready, order, id, failures
        running: dict[str, int] = {}
        left: dict[str, int] = {}
        ended_at: dict[str, int] = {}
        at, n, order = BEGIN, 0, 0
        while at < self.end:
            n += 1
            size = random_.choice((20, 30, 40, 80)) if n != 60 else 400
            request = f"letter-{n:03}"
            self._add_event(
                "mail", "request", at, "submitted", request, request=request, detail=f"1|{size}"
            )
            left[request], running[request] = size, 0
            for i in range(1, size + 1):
                order += 1
                heapq.heappush(waiting, (at, order, f"{request}/{i}", 0))
            at += int(random_.expovariate(1 / 90_000))
        free = [(BEGIN, f"mail-{i:02}") for i in range(12)]
        ends: list[tuple[int, str]] = []
        while waiting:
            now, worker = heapq.heappop(free)
            ready, place, id, failures = heapq.heappop(waiting)
            request = id.partition("/")[0]
            now = max(now, ready)
            while ends and ends[0][0] <= now:
                running[heapq.heappop(ends)[1]] -= 1
            if running[request] >= 6:  # its limit: look again when one of its entries has ended
                later = min((e for e, r in ends if r == request), default=now + 10)
                heapq.heappush(waiting, (max(later, now) + 1, place, id, failures))
                heapq.heappush(free, (now, worker))
                continue
            running[request] += 1
            took = int(random_.lognormvariate(7.4, 0.5))
            broken = bad_from <= now < bad_to and random_.random() < 0.4
            if broken:
                took = 10_000 + random_.randrange(200)
            refused = not broken and random_.random() < 0.004
            done = now + took
            ended_at[request] = max(done, ended_at.get(request, 0))
            heapq.heappush(ends, (done, request))
            heapq.heappush(free, (done, worker))
            self._add_event("mail", "request", now, "taken", id, by=worker)
            if broken and failures < 1:
                self._add_event("mail", "request", done, "failed", id, by=worker, detail=worker)
                heapq.heappush(waiting, (done + 4000, place, id, failures + 1))
                continue
            if broken or refused:
                reason = "failed" if broken else "rejected"
                self._add_event("mail", "request", done, "dead", id, by=worker, detail=reason)
                error = ("TimeoutError", f"smtp-2.example.net:587 did not answer in {took} ms")
                if refused:
                    who = f"<user{random_.randrange(900)}@example.org>"
                    error = ("SMTPRecipientsRefused", f"550 5.1.1 {who}: no such user")
                self._add_dead_letter("mail", "request", id, done, worker, reason, *error)
            else:
                self._add_event("mail", "request", done, "done", id, by=worker, run_ms=took)
            left[request] -= 1
            if not left[request]:
                at = ended_at[request]
                self._add_event("mail", "request", at, "request-done", request, request=request)

    def _push(self, random_: random.Random) -> None:
        clients = {"acme": 0.12, "birch": 0.12, "cobalt": 0.08, "dune": 0.02}  # entries a second
        lines: dict[str, list[tuple[int, str]]] = {}
        for client, rate in clients.items():
            at, n, waiting = float(BEGIN), 0, []
            while at < self.end:
                flood = client == "acme" and 30 <= (at - BEGIN) / MINUTE < 90
                at += random_.expovariate((0.9 if flood else rate) / 1000)
                n += 1
                waiting.append((int(at), f"{client}-{n}"))
                self._add_event(
                    "push", "fair", int(at), "submitted", f"{client}-{n}", detail=client
                )
            lines[client] = waiting
        now, turn = BEGIN, 0
        names = list(lines)
        while any(lines.values()):
            for k in range(len(names)):
                client = names[(turn + k) % len(names)]
                if lines[client] and lines[client][0][0] <= now:
                    _, id = lines[client].pop(0)
                    turn = (turn + k + 1) % len(names)
                    took = int(random_.lognormvariate(7.2, 0.25))
                    self._add_event("push", "fair", now, "taken", id, by="push-1", detail=client)
                    self._add_event(
                        "push", "fair", now + took, "done", id, by="push-1", run_ms=took
                    )
                    if random_.random() < 0.003:
                        self._add_dead_letter(
                            "push", "fair", f"{id}x", now, "push-1", "lost", client=client
                        )
                    now += took
                    break
            else:
                now = min(waiting[0][0] for waiting in lines.values() if waiting)

    def _add_dead_letter(
        self,
        queue: str,
        kind: str,
        id: str,
        at: int,
        consumer: str,
        reason: str,
        type: str | None = None,
        message: str | None = None,
        client: str | None = None,
    ) -> None:
        error = None if type is None else Failure(type, message or "")
        request = id.rpartition("/")[0] or None
        self.dead.append(
            {
                "queue": queue,
                "kind": kind,
                "id": id,
                "state": "dead",
                "request": request,
                "client": client,
                "consumer": consumer,
                "since_at": at,
                "reason": reason,
                "error_type": type,
                "error": message,
                "fingerprint": fingerprint(Entry(id, "dead", reason=reason, error=error)),
            }
        )
