"""What a person is told where a command can't do what was asked, or shows less than there is."""

import json
from pathlib import Path

import pytest
import redis

from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs.job import Job
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.control import change_request
from redisq_ops.ops.filter.parser import FilterError, parse

from ..command_line import ERROR, Redisq, dead_letters, everywhere

pytestmark = pytest.mark.alike


@pytest.fixture
def redisq(
    url: str,
    capsys: pytest.CaptureFixture[str],
    configuration: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Redisq:
    configuration.write_text(
        "[redact]\nkeys = [\"secret\"]\n[redact.patterns]\nmail = '[\\w.]+@[\\w.]+'\n"
    )
    monkeypatch.chdir(configuration.parent.parent)
    return Redisq(url, capsys)


# --- an edit of what is redacted ------------------------------------------------------------------


def test_an_edit_of_a_redacted_key_is_no_edit_of_nothing(
    redisq: Redisq, client: redis.Redis
) -> None:
    from redisq_ops.core.model.entry import Settlement

    queue = RequestQueue(client, "mail")
    queue.submit([b'{"secret": "old", "a": 1}'] * 2, id="r1", limit=10)
    for one in queue.take(2, consumer="w").deliveries:
        queue.settle([Settlement(one, "reject", ERROR.encoded())])
    patch = '[{"op": "replace", "path": "/secret", "value": "new"}]'
    said = redisq("dlq", "edit", "--queue", "mail", "--patch", patch, "--dry-run")
    assert said.count("(what changes is redacted)") == 2 and "nothing would change" not in said
    (plan,) = redisq.rows("dlq", "edit", "--queue", "mail", "--patch", patch, "--dry-run")
    assert [row["redacted"] for row in plan["sample"]] == [True, True]
    same = '[{"op": "replace", "path": "/secret", "value": "old"}]'
    said = redisq("dlq", "edit", "--queue", "mail", "--patch", same, "--dry-run")
    # Whether a guess is what is there isn't said either.
    assert said.count("(what changes is redacted)") == 2 and "nothing would change" not in said


# --- a filter's words -----------------------------------------------------------------------------


def test_a_filter_s_words_are_redacted_where_they_are_kept_and_shown(
    redisq: Redisq, client: redis.Redis
) -> None:
    queue = dead_letters(client, 3)
    words = ("--where", "-error~ann@example.org", "--match", "no such|bob@example.org")
    said = redisq("replay", "mail", *words, "--dry-run")
    assert "where -error~***" in said and "example" not in said
    redisq("replay", "mail", *words, "--plan", "p")
    redisq("export", "mail", "--state", "dead", *words, "-o", "e")
    for file in ("p", "e"):
        assert b"example" not in Path(file).read_bytes()
    (outcome,) = redisq.rows("apply", "p", "--yes")
    assert outcome["done"] == 3 and queue.counts().waiting == 3
    assert "example" not in redisq("log") + redisq("log", "--json")
    assert "ann@example.org" in redisq("replay", "mail", *words, "--dry-run", "--no-redact")


# --- what a cancelled request took along ----------------------------------------------------------


def test_what_a_cancelled_request_took_along_is_said_where_it_isn_t_listed(
    redisq: Redisq, client: redis.Redis
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 50, id="r1")
    queue.submit([b"x"] * 5, id="r2")
    redisq("purge", "mail/r2/1", "--state", "waiting", "--yes")
    redisq("trash", "ls", "mail")
    assert "cancelled" not in redisq.err
    op = run(client, change_request(queue, "r1", "cancel", Author("kim", "here"))).op
    assert queue.counts().trash == 51
    told = (
        "mail: 50 more entries in the trash belong to cancelled requests; to restore: "
        f"redisq undo {op}"
    )
    redisq("trash", "ls", "mail")
    assert "1 entry in the trash" in redisq.err and told in redisq.err
    redisq("select", "mail", "--where", "state:trash", "--count")
    assert told in redisq.err
    redisq("trash", "rm", "mail", "--dry-run")
    assert told in redisq.err
    redisq("undo", op or "", "--yes")
    redisq("trash", "ls", "mail")
    assert "cancelled" not in redisq.err


# --- refusals -------------------------------------------------------------------------------------


def test_refusals_name_what_is_typed(redisq: Redisq, client: redis.Redis) -> None:
    client.xgroup_create("orders", "billing", id="0", mkstream=True)
    client.xadd("orders", {"a": "1"})
    client.xreadgroup("billing", "w1", {"orders": ">"})
    redisq("discover", "--register", "--yes")
    said = redisq.refusal("claim", "stream:orders", "--consumer", "me", "--yes", code=1)
    assert "redisq workers claim stream:orders" in said
    said = redisq.refusal("apply", "-", code=2)
    assert "a plan is read from a file" in said
    assert "no queue matches 'mail' (redisq ls shows" in redisq.refusal("ls", "mail", code=1)
    for word in ("pause", "puase", "stop"):  # in spelling, `purge` is nearer
        said = redisq.refusal(word, "mail", code=2)
        assert "write redisq queue pause or" in said and "purge" not in said
    said = redisq.refusal("dlq", "ls", "mail", "--watch", code=2)
    assert "--watch SPAN (Repeat every SPAN, such as 2s, until Ctrl+C)" in said
    RequestQueue(client, "mail").submit([b"x"], id="r1")
    assert "no queue 'mial' here; did you mean mail?" in redisq.refusal("history", "mial", code=1)
    assert "; did you mean mail?" in redisq.refusal("explain", "mial", code=1)
    for words in (
        "ls",
        "check",
        "dlq ls",
        "tasks",
        "fsck",
        "fsck m*",
        "workers ls",
        "move mail --to",
    ):
        said = redisq(*words.split(), "mai", code=None) + redisq.err
        assert "did you mean mail?" in said, words


def test_a_not_of_other_languages_is_told_how_it_is_written() -> None:
    with pytest.raises(FilterError, match="column 3: write - for not: -error~x"):
        parse("a !error~x")
    with pytest.raises(FilterError, match=r"-\("):
        parse("!(a or b)")
    assert parse("wow! !important").text == "wow! !important"


def test_the_help_shows_a_plan(redisq: Redisq) -> None:
    for verb, which in (("replay", ""), ("purge", " --state dead")):
        said = redisq(verb, "--help")
        assert f"redisq {verb} mail{which} --where 'error~timeout age>2h' --plan p.ndjson" in said


def test_one_is_an_entry(redisq: Redisq, client: redis.Redis) -> None:
    everywhere(client)
    redisq("export", "mail", "--state", "dead", "--raw-payloads", "-o", "e")
    assert "1 entry of mail" in redisq.err
    assert "import 1 entry into other (new)" in redisq(
        "import", "e", "--queue", "other", "--dry-run", "--as-waiting"
    )
    assert json.loads(Path("e").read_text().splitlines()[0])["state"] == "dead"


def test_a_rate_has_three_digits(redisq: Redisq, client: redis.Redis) -> None:
    dead_letters(client, 3)
    assert "at 0.0278/s" in redisq("replay", "mail", "--rate", "100/h", "--dry-run")
    assert "at 1,234/s" in redisq("replay", "mail", "--rate", "1234/s", "--dry-run")


# --- what another program's queue can't do --------------------------------------------------------


def test_payloads_of_a_stream_are_there_and_not_for_us_to_edit(
    redisq: Redisq, client: redis.Redis
) -> None:
    client.xadd("orders", {"a": "1"})
    said = redisq.refusal("dlq", "edit", "--queue", "stream:orders", "--patch", "[]", code=1)
    assert "kept by another program" in said and "can't be edited here" in said
    assert "no payloads" not in said


@pytest.mark.parametrize("words", [["requeue"], ["purge"], ["purge", "--hard"]])
def test_nobody_is_asked_for_a_state_of_what_a_stream_cannot_do_at_all(
    redisq: Redisq, client: redis.Redis, words: list[str]
) -> None:
    client.xadd("orders", {"a": "1"})
    client.xgroup_create("orders", "billing", id="0")
    said = redisq.refusal(*words, "stream:orders", "--yes", code=1)
    assert f"it can't {' '.join(words)} entries" in said and "--state" not in said
    assert "redisq workers claim stream:orders CONSUMER --to NAME" in said
    assert "redisq workers rm stream:orders CONSUMER" in said


def test_only_states_that_can_be_meant_are_asked_for(redisq: Redisq, client: redis.Redis) -> None:
    ResqueQueue(client, "resque:low").push([Job("Low", [1])])
    said = redisq.refusal("purge", "resque:low", "--yes", code=2)
    assert "choose the state of the entries with --state: waiting, pending, dead" in said


# --- TLS that checks nothing ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "warned"),
    [("ssl_cert_reqs=none", 1), ("ssl_check_hostname=no", 1), ("ssl_cert_reqs=required", 0)],
)
def test_a_url_that_switches_off_the_check_of_certificates_is_warned_of(
    redisq: Redisq, option: str, warned: int
) -> None:
    redisq("--url", f"rediss://me:secret@127.0.0.1:1/0?{option}", "ls", code=4)
    assert redisq.err.count("switches off the check of the server's certificate") == warned
    assert redisq.err.count("\n") == 1 + warned and "secret" not in redisq.err


def test_an_entry_is_waited_for_by_its_address(redisq: Redisq, client: redis.Redis) -> None:
    said = redisq("delay", "add", "later/e1", "--at", "1999-01-01T00:00:00Z", "x")
    assert said.startswith("later/e1 ready now, due 1999-01-01")
    said = redisq.refusal("delay", "add", "later/e1", "--at", "9000-01-01T00:00:00Z", "x", code=2)
    assert said == "--at 9000-01-01T00:00:00Z: give a time before the year 5138"
    later = DelaySet(client, "later")
    said = redisq.refusal("wait", "later/e1", "--timeout", "10ms", code=124)
    assert "still open: 1 of 1: e1" in said
    later.settle([Settlement(later.take(1, consumer="w").deliveries[0], "result", b"fine")])
    assert redisq("wait", "later/e1") == "e1 done\n"
    later.schedule([("e2", b"x"), ("e3", b"x")])
    (dead, _) = later.take(2, consumer="w").deliveries
    later.settle([Settlement(dead, "reject", ERROR.encoded())])
    (row,) = redisq.rows("wait", "later/e2", code=3)
    assert (row["id"], row["state"], row["reason"]) == ("e2", "dead", "rejected")
    redisq("purge", "later/e2", "--yes")
    assert redisq("wait", "later/e2", code=1) == "e2 purged\n"
    assert "isn't there" in redisq.refusal("wait", "later/nope", code=1)
