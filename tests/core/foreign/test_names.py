"""Names of other programs that aren't ASCII: shown and typed as their owners write them."""

from __future__ import annotations

import json
import random
import sys
import unicodedata
from typing import Any

import pytest
import redis
import rq

from redisq_ops.cli import completion
from redisq_ops.core.foreign.bullmq import BullmqQueue
from redisq_ops.core.foreign.celery import CeleryQueue
from redisq_ops.core.foreign.rq import RqQueue
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.quoting import legal, raw_of, shown, stored, text
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.terminal import printable

from ...command_line import Redisq
from ...foreign_keys import rq_tasks

Client = redis.Redis
QUEUE, ID = "почта", "ü/1"
QUOTED = "rq:%D0%BF%D0%BE%D1%87%D1%82%D0%B0"

# --- the form of a name -------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "почта",
        "email-рассылка",
        "ü",
        "straße",
        "Việt",
        "日本語キュー",
        "Tシャツ",
        "한국어",
        "हिन्दी",
        "ทำงาน",
        "τιμή",
        "עברית",
        "مرحبا",
        "🚀-jobs",
        "sınav",
        "заказ-v2",
    ],
)
def test_a_name_is_shown_as_its_owner_writes_it(name: str) -> None:
    assert legal(name.encode()) == name == printable(name)


@pytest.mark.parametrize(("name", "part"), [
    ("ü/1", "ü%2F1"), ("ü b", "ü%20b"), ("{ü}", "%7Bü%7D"), ("ü*|", "ü%2A%7C"), ("ü%", "ü%25"),
    ("x\u202ey", "%E2%80%AE"), ("ü\u200bx", "%E2%80%8B"), ("ü\x1b", "ü%1B"), ("ü\u3164", "%E3"),
    ("mаil", "m%D0%B0il"), ("сор", "%D1%81%D0%BE%D1%80"), ("pочта", "p%D0%BE"),  # look-alikes
    ("a／b", "%EF%BC%8F"), ("a∕b", "%E2%88%95"), ("ｍail", "%EF%BD%8D"), ("ﬁ", "%EF%AC%81"),
    ("e\u0301", "e%CC%81"), ("a\u0338", "a%CC%B8"), ("й".join("и\u0306"), "%D0"),
    ("-\u093e", "%E0%A4%BE"), ("❤\ufe0f", "%EF%B8%8F"), ("ü\u00a0", "%C2%A0"), ("ǃ", "%C7%83"),
])  # fmt: skip
def test_what_could_be_taken_for_something_else_stays_quoted(name: str, part: str) -> None:
    assert part in legal(name.encode()) and raw_of(legal(name.encode())) == name.encode()


def test_any_bytes_have_one_form_that_no_terminal_obeys() -> None:
    draw = random.Random(7)
    pools = [
        range(0x80),
        range(0x80, 0x800),
        range(0x800, 0x10000),
        range(0x10000, 0x110000),
        range(0x300, 0x370),
        range(0x400, 0x460),
        (ord("%"),),
    ]
    for _ in range(4000):
        chars = [chr(draw.choice(draw.choice(pools))) for _ in range(draw.randint(1, 6))]
        raw = "".join(chars).encode("utf-8", "surrogatepass")[draw.randint(0, 1) :]
        name = legal(raw)
        assert raw_of(name) == raw and shown(name) == name and printable(name) == name
        assert unicodedata.normalize("NFC", name) == name
        assert stored(name).isascii() and shown(stored(name)) == name
        assert not {*" /{}*|"} & set(name)


def test_no_letter_of_another_form_passes() -> None:
    """All that Unicode has assigned; of the others, which are alike, one of 64."""
    each = [chr(c) for c in range(0x80, sys.maxunicode) if not 0xD800 <= c < 0xE000]
    known = {c for c in each if unicodedata.category(c) not in ("Cn", "Co")} | {*each[::64]}
    stay = {c for c in known if legal(c.encode()) == c}
    assert all(c.isprintable() and unicodedata.category(c)[0] in "LS" for c in stay)
    assert not {unicodedata.normalize("NFKC", c) for c in stay} & {*map(chr, range(0x80))}


# --- on the command line ------------------------------------------------------------


def filled(client: Client) -> None:
    queue = rq.Queue(QUEUE, connection=client)
    for n in range(2):
        job = queue.enqueue(rq_tasks.fine, n)
        client.rename(job.key, f"rq:job:ü/{n}")  # as before RQ 3, which refuses such ids
        client.lset(queue.key, n, f"ü/{n}")


@pytest.mark.parametrize("typed", [f"rq:{QUEUE}", QUOTED, QUOTED.lower()])
@pytest.mark.parametrize("id", [ID, "ü%2F1", "%C3%BC%2F1"])
def test_a_queue_and_an_id_are_typed_in_either_form(
    redisq: Redisq, client: Client, typed: str, id: str
) -> None:
    filled(client)
    name, address = f"rq:{QUEUE}", f"rq:{QUEUE}/ü%2F1"
    assert [row["name"] for row in redisq.rows("discover")] == [name]
    assert name in redisq("discover")
    (row,) = redisq.rows("waiting", "ls", typed, "--where", f'id="{id}"')
    assert (row["queue"], row["id"], row["address"]) == (name, "ü%2F1", address)
    assert redisq.rows("inspect", f"{typed}/{id}")[0]["address"] == address
    assert redisq.rows("explain", f"{typed}/{id}")[0]["address"] == address
    assert redisq("fsck", typed) == f"{name}: adds up\n"
    assert f"called '{name}x': no queue" in redisq.refusal("dlq", "ls", f"{name}x", code=1)


def test_a_change_and_its_undo(redisq: Redisq, client: Client) -> None:
    filled(client)
    name = f"rq:{QUEUE}"
    assert "purged" in redisq("purge", f"{name}/{ID}", "--yes")
    ours = {key.decode() for key in client.scan_iter("rq:redisq:*")}
    assert all(key.startswith(f"rq:redisq:{QUOTED}:") for key in ours) and ours
    assert client.hkeys("redisq:registry") == [QUOTED.encode()]
    assert client.zrange(f"rq:redisq:{QUOTED}:trash", 0, -1) == [b"%C3%BC%2F1"]
    assert [row["name"] for row in redisq.rows("ls")] == [name]
    (row,) = redisq.rows("trash", "ls", name)
    assert row["id"] == "ü%2F1" and redisq.rows("inspect", f"{name}/{ID}")
    assert redisq.rows("log")[0]["queue"] == name
    redisq("trash", "restore", f"{name}/{ID}", "--yes")
    assert rq.Queue(QUEUE, connection=client).job_ids == ["ü/0", "ü/1"]
    redisq("purge", name, "--state", "waiting", "--yes")
    redisq("undo", "--yes")
    assert rq.Queue(QUEUE, connection=client).job_ids == ["ü/0", "ü/1"]
    redisq("queue", "rm", name, "--yes")
    assert redisq.rows("ls") == []


@pytest.mark.alike
def test_other_programs_and_the_shell(redisq: Redisq, client: Client, monkeypatch: Any) -> None:
    client.hset(f"bull:{QUEUE}:meta", "version", "bullmq:5.81.5")
    client.lpush(f"bull:{QUEUE}:wait", "ü:1")
    client.hset(f"bull:{QUEUE}:ü:1", mapping={"name": "send", "data": "{}", "timestamp": "1"})
    client.sadd(f"_kombu.binding.{QUEUE}", f"{QUEUE}\x06\x16\x06\x16{QUEUE}")
    task = {"body": "", "headers": {"id": "ü1", "task": "send"}, "properties": {}}
    client.lpush(QUEUE, json.dumps(task))
    client.sadd("queues", QUEUE)
    job = {"class": "A", "args": [], "jid": "j1", "queue": QUEUE}
    client.lpush(f"queue:{QUEUE}", json.dumps(job))
    client.xgroup_create("журнал", "группа", mkstream=True)
    found = [row["name"] for row in redisq.rows("discover", "--register", "--yes")[:-1]]
    kinds = ("bullmq", "celery", "sidekiq")
    assert found == [*(f"{kind}:{QUEUE}" for kind in kinds), "stream:журнал"]
    for name, kind in ((f"bullmq:{QUEUE}", BullmqQueue), (f"celery:{QUEUE}", CeleryQueue)):
        (entry,) = kind(client, name).page("waiting").entries
        assert entry.id in ("ü:1", "ü1") and redisq.rows("explain", f"{name}/{entry.id}")
    monkeypatch.setenv("REDIS_URL", redisq.url)
    monkeypatch.setenv("COMP_WORDS", "redisq dlq ls")
    assert completion.queues("celery:п") == [f"celery:{QUEUE}"]
    assert redisq.rows("workers", "ls", "stream:журнал")[0]["group"] == "группа"


def test_names_of_our_own_queues_stay_ascii(redisq: Redisq, client: Client) -> None:
    for name in (QUEUE, "sidekiqü", "ü:mail"):
        with pytest.raises(BadInput, match="printable ASCII"):
            DelaySet(client, name)
        assert "no queue" in redisq.refusal("explain", name, code=1) or redisq.code == 1
    assert text(stored(RqQueue(client, QUOTED).name).encode()) == QUOTED
    assert run(client, Deployment(client).named("%D0%BF")) is None
