"""A generated afternoon of two queues, with an incident in it; the same rows each time.

``mail`` is a request queue with twelve workers; from 13:40 to 14:05 one of its mail servers does
not answer. ``push`` is a fair queue of four clients; one of them sends far more than the others
from 12:30 on for an hour.
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


class Afternoon:
    """``history`` and ``dead``: rows as the tables have them, moments in ms."""

    def __init__(self, minutes: int = 240) -> None:
        self.history: list[Row] = []
        self.dead: list[Row] = []
        self.end = BEGIN + minutes * MINUTE
        self._seq = 0
        self._mail(random.Random(1))
        self._push(random.Random(2))
        self.history.sort(key=lambda row: row["at"])

    def _say(self, queue: str, kind: str, at: int, event: str, id: str, **more: Any) -> None:
        self._seq += 1
        request, slash, number = id.rpartition("/")
        of = {"request": request, "number": int(number)} if slash else {}
        self.history.append(
            {"queue": queue, "kind": kind, "shard": 0, "event_id": f"{at}-{self._seq}", "at": at,
             "by": "w1", "event": event, "id": id} | of | more
        )  # fmt: skip

    def _mail(self, chance: random.Random) -> None:
        bad_from, bad_to = BEGIN + 100 * MINUTE, BEGIN + 125 * MINUTE
        line: list[tuple[int, int, str, int]] = []  # ready, order, id, failures
        held: dict[str, int] = {}
        left: dict[str, int] = {}
        over: dict[str, int] = {}
        at, n, order = BEGIN, 0, 0
        while at < self.end:
            n += 1
            size = chance.choice((20, 30, 40, 80)) if n != 60 else 400
            request = f"letter-{n:03}"
            self._say("mail", "request", at, "submitted", request, request=request,
                      detail=f"1|{size}")  # fmt: skip
            left[request], held[request] = size, 0
            for i in range(1, size + 1):
                order += 1
                heapq.heappush(line, (at, order, f"{request}/{i}", 0))
            at += int(chance.expovariate(1 / 90_000))
        free = [(BEGIN, f"mail-{i:02}") for i in range(12)]
        ends: list[tuple[int, str]] = []
        while line:
            now, worker = heapq.heappop(free)
            ready, place, id, failures = heapq.heappop(line)
            request = id.partition("/")[0]
            now = max(now, ready)
            while ends and ends[0][0] <= now:
                held[heapq.heappop(ends)[1]] -= 1
            if held[request] >= 6:  # its limit: look again when one of its entries has ended
                later = min((e for e, r in ends if r == request), default=now + 10)
                heapq.heappush(line, (max(later, now) + 1, place, id, failures))
                heapq.heappush(free, (now, worker))
                continue
            held[request] += 1
            took = int(chance.lognormvariate(7.4, 0.5))
            broken = bad_from <= now < bad_to and chance.random() < 0.4
            if broken:
                took = 10_000 + chance.randrange(200)
            refused = not broken and chance.random() < 0.004
            done = now + took
            over[request] = max(done, over.get(request, 0))
            heapq.heappush(ends, (done, request))
            heapq.heappush(free, (done, worker))
            self._say("mail", "request", now, "taken", id, by=worker)
            if broken and failures < 1:
                self._say("mail", "request", done, "failed", id, by=worker, detail=worker)
                heapq.heappush(line, (done + 4000, place, id, failures + 1))
                continue
            if broken or refused:
                reason = "failed" if broken else "rejected"
                self._say("mail", "request", done, "dead", id, by=worker, detail=reason)
                error = ("TimeoutError", f"smtp-2.example.net:587 did not answer in {took} ms")
                if refused:
                    who = f"<user{chance.randrange(900)}@example.org>"
                    error = ("SMTPRecipientsRefused", f"550 5.1.1 {who}: no such user")
                self._bury("mail", "request", id, done, worker, reason, *error)
            else:
                self._say("mail", "request", done, "done", id, by=worker, run_ms=took)
            left[request] -= 1
            if not left[request]:
                at = over[request]
                self._say("mail", "request", at, "request-done", request, request=request)

    def _push(self, chance: random.Random) -> None:
        clients = {"acme": 0.12, "birch": 0.12, "cobalt": 0.08, "dune": 0.02}  # entries a second
        lines: dict[str, list[tuple[int, str]]] = {}
        for client, rate in clients.items():
            at, n, line = float(BEGIN), 0, []
            while at < self.end:
                flood = client == "acme" and 30 <= (at - BEGIN) / MINUTE < 90
                at += chance.expovariate((0.9 if flood else rate) / 1000)
                n += 1
                line.append((int(at), f"{client}-{n}"))
                self._say("push", "fair", int(at), "submitted", f"{client}-{n}", detail=client)
            lines[client] = line
        now, turn = BEGIN, 0
        names = list(lines)
        while any(lines.values()):
            for k in range(len(names)):
                client = names[(turn + k) % len(names)]
                if lines[client] and lines[client][0][0] <= now:
                    _, id = lines[client].pop(0)
                    turn = (turn + k + 1) % len(names)
                    took = int(chance.lognormvariate(7.2, 0.25))
                    self._say("push", "fair", now, "taken", id, by="push-1", detail=client)
                    self._say("push", "fair", now + took, "done", id, by="push-1", run_ms=took)
                    if chance.random() < 0.003:
                        self._bury("push", "fair", f"{id}x", now, "push-1", "lost", client=client)
                    now += took
                    break
            else:
                now = min(line[0][0] for line in lines.values() if line)

    def _bury(
        self, queue: str, kind: str, id: str, at: int, consumer: str, reason: str,
        type: str | None = None, message: str | None = None, client: str | None = None,
    ) -> None:  # fmt: skip
        error = None if type is None else Failure(type, message or "")
        request = id.rpartition("/")[0] or None
        self.dead.append(
            {"queue": queue, "kind": kind, "id": id, "state": "dead", "request": request,
             "client": client, "consumer": consumer, "since_at": at, "reason": reason,
             "error_type": type, "error": message,
             "fingerprint": fingerprint(Entry(id, "dead", reason=reason, error=error))}
        )  # fmt: skip
