"""Errors that are the same are one group: what is folded, and the hashes people write down.

The golden values may not change: notes, plans and ``group=`` name them.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from redisq_ops.core.model.entry import Entry, Failure
from redisq_ops.ops.groups import fingerprint as rules
from redisq_ops.ops.groups.fingerprint import fingerprint, normalized

FORMS = {
    # connections
    "connect ECONNREFUSED 10.0.0.3:5432": "connect ECONNREFUSED <addr>",
    "connect ECONNREFUSED ::1:6379": "connect ECONNREFUSED <addr>",
    "dial tcp [::1]:6379: connect: connection refused": (
        "dial tcp <addr>: connect: connection refused"
    ),
    "dial tcp: lookup redis-master.prod.svc on 10.96.0.10:53: no such host": (
        "dial tcp: lookup redis-master.prod.svc on <addr>: no such host"
    ),
    "Error 111 connecting to localhost:6379. Connection refused.": (
        "Error 111 connecting to <addr>. Connection refused."
    ),
    "HTTPSConnectionPool(host='api.acme.com', port=443): Max retries exceeded with url: "
    "/v1/orders/123 (Caused by NewConnectionError('<urllib3.connection.HTTPSConnection object at "
    "0x7f1234>: Failed to establish a new connection: [Errno 111] Connection refused'))": (
        "HTTPSConnectionPool(host='api.acme.com', port=<n>): Max retries exceeded with url: "
        "<path> (Caused by NewConnectionError(<str>))"
    ),
    "timeout after 30.5s": "timeout after <n>",
    "timeout after 800ms": "timeout after <n>",
    "deadline exceeded after 1m30.5s": "deadline exceeded after <n>",
    "Request timed out after 5000 ms (job 01J9ZK3V5R8QW2M4N6P7T9X1YB)": (
        "Request timed out after <n> ms (job <id>)"
    ),
    # HTTP: the status says which error it is, the path which endpoint
    "502 Server Error: Bad Gateway for url: https://api.acme.com/v1/users/123/orders?x=1&y=2": (
        "<n> Server Error: Bad Gateway for url: https://api.acme.com/v1/users/<n>/orders?<str>"
    ),
    "Request failed with status code 404": "Request failed with status code 404",
    "Request failed with status code 500": "Request failed with status code 500",
    "GET https://bob:secret@10.1.2.3:8080/a/7 failed": "GET https://<addr>/a/<n> failed",
    # databases
    'duplicate key value violates unique constraint "users_email_key"\n'
    "DETAIL:  Key (email)=(bob@x.org) already exists.": (
        'duplicate key value violates unique constraint "users_email_key" '
        "DETAIL: Key (email)=(<str>) already exists."
    ),
    "Error 1062 (23000): Duplicate entry 'bob-12' for key 'users.email'": (
        "Error 1062 (<n>): Duplicate entry <str> for key 'users.email'"
    ),
    "ORA-00001: unique constraint (APP.USERS_PK) violated": (
        "ORA-00001: unique constraint (APP.USERS_PK) violated"
    ),
    "SQLSTATE[23505]: Unique violation: 7 ERROR": "SQLSTATE[23505]: Unique violation: <n> ERROR",
    "deadlock detected\nDETAIL:  Process 12345 waits for ShareLock on transaction 6789; "
    "blocked by process 234.": (
        "deadlock detected DETAIL: Process <n> waits for ShareLock on transaction <n>; "
        "blocked by process <n>."
    ),
    'relation "users" does not exist': 'relation "users" does not exist',
    "OOM command not allowed when used memory > 'maxmemory'.": (
        "OOM command not allowed when used memory > <str>."
    ),
    # programs' own names stay, data goes
    "'NoneType' object has no attribute 'name'": "'NoneType' object has no attribute 'name'",
    "'region'": "'region'",
    "No module named 'yaml'": "No module named 'yaml'",
    "undefined method `total' for nil:NilClass": "undefined method `total' for nil:NilClass",
    "undefined local variable or method `foo' for #<Foo:0x000055d0a8 @a=1>": (
        "undefined local variable or method `foo' for #<Foo:<id> @a=<n>>"
    ),
    "Cannot read properties of undefined (reading 'id')": (
        "Cannot read properties of undefined (reading 'id')"
    ),
    "user 'alice' not found": "user <str> not found",
    "No such customer: 'cus_9s6XKzkNRiz8i3'": "No such customer: <str>",
    "No such customer: cus_9s6XKzkNRiz8i3": "No such customer: cus_<id>",
    "Couldn't find User with 'id'=123": "Couldn't find User with <str>=<n>",
    "invalid literal for int() with base 10: 'a'": "invalid literal for int() with base <n>: <str>",
    # files
    "[Errno 2] No such file or directory: '/tmp/a/b.csv'": (
        "[Errno 2] No such file or directory: <str>"
    ),
    "open /srv/app/file-1.json: permission denied": "open <path>: permission denied",
    "C:\\Users\\bob\\x.txt is locked": "<path> is locked",
    "boom in src/app.py:12": "boom in <path>",
    "unknown media type application/json": "unknown media type application/json",
    # times, amounts, lists
    "2026-11-21 14:46:44,123 ERROR worker-12 failed": "<time> ERROR worker-<n> failed",
    "token expired at 2026-11-21T14:46:44.123Z": "token expired at <time>",
    "retry at Mon, 21 Nov 2026 14:46:44 GMT": "retry at <time>",
    "Row 1,234,567 of 2,000,000 rejected": "Row <n> of <n> rejected",
    "ids [1, 2, 3] not found": "ids [<n>] not found",
    "ids [1] not found": "ids [<n>] not found",
    "bad key 550e8400-e29b-41d4-a716-446655440000": "bad key <id>",
    "blob 9f86d081884c7d659a2feaa0c55ad015 is corrupt (sha256)": "blob <id> is corrupt (sha256)",
    "mail to bob@example.com bounced: 550 5.1.1": "mail to <addr> bounced: <n>",
    "exit code 137": "exit code 137",
    "größer als 12 Zeichen": "größer als <n> Zeichen",
    "": "",
}


@pytest.mark.parametrize(("message", "form"), FORMS.items())
def test_variable_parts_are_replaced(message: str, form: str) -> None:
    assert normalized(message) == form
    assert normalized(Failure("E", message)) == form


def test_traceback_is_identified_by_its_last_line() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/app/x.py", line 12, in f\n    g()\n'
        "ValueError: bad region 17\n"
    )
    assert normalized(text) == "ValueError: bad region <n>"


def test_stack_frames_are_left_out() -> None:
    java = (
        "java.net.ConnectException: Connection refused: db-3.internal/10.0.0.3:5432\n"
        "\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)\n"
        "\tat com.acme.Job.run(Job.java:7)\n"
        "Caused by: java.io.IOException: broken pipe\n\t... 12 more"
    )
    said = "java.net.ConnectException: Connection refused: <addr> "
    assert normalized(java) == said + "Caused by: java.io.IOException: broken pipe"
    ruby = "boom\n/app/lib/job.rb:12:in `perform'\n/app/lib/run.rb:3:in `call'"
    assert normalized(ruby) == "boom"
    node = "Error: boom\n    at Job.run (/srv/job.js:3:9)\n    at process.tick (node:internal:95:5)"
    assert normalized(node) == "Error: boom"


def entry(error: Failure | None, reason: str | None = "failed") -> Entry:
    return Entry("e1", "dead", error=error, reason=reason)


@pytest.mark.parametrize(
    ("error", "reason", "group"),
    [
        (Failure("ConnectionError", "connect ECONNREFUSED 10.0.0.3:5432"), "failed", "38214d6b"),
        (Failure("Errno::ECONNREFUSED", "Connection refused"), "failed", "f6c97b9b"),
        (Failure("KeyError", "'region'"), "rejected", "317f531d"),
        (Failure("error", "ünlesbar \\xff"), None, "fd050060"),
        (None, "lost", "0b9694c0"),
        (None, "rejected", "994ea603"),
        (None, None, "53e1ebe4"),
    ],
)
def test_fingerprints_never_change(error: Failure | None, reason: str | None, group: str) -> None:
    assert fingerprint(entry(error, reason)) == group


def test_same_error_has_the_same_fingerprint() -> None:
    one = Failure("TimeoutError", "order 17 of acme-3: no answer from 10.0.0.3:80 in 30s", "a")
    two = Failure("TimeoutError", "order 99 of acme-71: no answer from 10.9.9.9:80 in 800ms", "b")
    assert fingerprint(entry(one)) == fingerprint(entry(two, "lost"))
    assert fingerprint(entry(one)) != fingerprint(entry(Failure("OSError", one.message)))
    assert fingerprint(entry(None, "lost")) != fingerprint(entry(None, "rejected"))


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("#<Class:0x00005581e0>", "#<Class:0x0000aa99e1>", True),
        ("E0", "E1", False),
        ("Http404", "Http503", False),
    ],
)
def test_types_differ_by_their_digits_but_not_by_addresses(one: str, two: str, same: bool) -> None:
    found = {fingerprint(entry(Failure(type, "x"))) for type in (one, two)}
    assert len(found) == 2 - same


def test_fingerprint_is_the_same_in_every_process() -> None:
    code = (
        "from redisq_ops.core.model.entry import *;"
        "from redisq_ops.ops.groups.fingerprint import *;"
        "print(fingerprint(Entry('x', 'dead', error=Failure('T', 'row 1'))))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert said == {fingerprint(entry(Failure("T", "row 7"))) + "\n"}


def test_hostile_messages_take_little_time_and_space() -> None:
    """Nothing here backtracks for long: sre would take minutes on a quadratic form of these."""
    for hostile in (
        '"' * 4096,
        "'" * 4096,
        "a" * 100_000,
        "1:" * 4096,
        "a/" * 4096,
        "\\" * 4096,
        "Mon " * 2000,
        "0x" * 4096,
        "-" * 4096,
        "(" * 4096,
        "<n>" * 2000,
        "a.b-" * 2000,
        "aa " * 2000,
        "1h2m" * 1000,
        "x@" * 3000,
    ):
        assert len(normalized(hostile)) <= rules.LONGEST
    assert normalized("a\nb\r\n\tc") == "a b c"


def test_cache_is_bounded() -> None:
    for i in range(10_000):
        normalized(f"x{'y' * (i % 50)}{i}")
    assert rules._normal.cache_info().currsize <= 8192
