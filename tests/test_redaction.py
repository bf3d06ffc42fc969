"""What the configuration hides stays hidden, on every face, and nothing else changes."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops.core.connect import aconnect
from redisq_ops.core.delay import DelaySet
from redisq_ops.core.errors import BadInput
from redisq_ops.core.request import RequestQueue
from redisq_ops.core.values import Entry, Failure, Settlement
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.redaction import NOTHING, Redaction
from redisq_ops.tui.app import Top
from redisq_ops.tui.frame import text as drawn
from redisq_ops.tui.poller import Connected, Live

from .cli import ERROR, Redisq

pytestmark = pytest.mark.alike

EMAIL = {"email": r"[\w.]+@[\w.]+"}


def reads(**table: Any) -> Redaction:
    return Redaction.read([(table, "config.toml")])


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        ('{"password": "x", "n": 1}', '{"password": "***", "n": 1}'),
        ('{"a": [{"PassWord": {"deep": 1}}]}', '{"a": [{"PassWord": "***"}]}'),
        ('{"card": {"number": 4111, "name": "A"}}', '{"card": {"number": "***", "name": "A"}}'),
        ('{"card": [{"number": 1}, {"number": 2}]}',
         '{"card": [{"number": "***"}, {"number": "***"}]}'),
        ('{"number": 4111}', '{"number": 4111}'),
        ('{"to": "ann@example.org", "n": [1.50, 1e3]}', '{"to": "***", "n": [1.50, 1e3]}'),
        ('{"ann@example.org": "é"}', '{"***": "é"}'),
        ('{"to": "ann\\u0040example.org"}', '{"to": "***"}'),
        ("mail ann@example.org, now", "mail ***, now"),
        ('{"password": "x"}\n{"password": "y"}', '{"password": "***"}\n{"password": "***"}'),
        ('{"body": "{\\"password\\": \\"x\\"}"}', '{"body": "{\\"password\\": \\"***\\"}"}'),
        ('{"password": "x", "password": "y"}', '{"password": "***"}'),
        ('{"a": {"password": "x"}, "a": 1}', '{"a": 1}'),
        ("[" * 100_000, "***"),
        ('{"password": "x", "n": ' + "9" * 5000 + "}",
         '{"password": "***", "n": ' + "9" * 5000 + "}"),
        ('{"password": "x", "n": [1e400, -1.0E-2], "s": "a\\nb", "t": [true, null, {}]}',
         '{"password": "***", "n": [1e400, -1.0E-2], "s": "a\\nb", "t": [true, null, {}]}'),
    ],
)  # fmt: skip
def test_what_is_hidden(payload: str, shown: str) -> None:
    redaction = reads(keys=["password", "card.number"], patterns=EMAIL)
    assert redaction.payload(payload.encode()).decode() == shown
    assert redaction.text(payload) == shown


@pytest.mark.parametrize(
    "payload",
    [b'{ "b":1,\n"a" : [1.50, 1e3, NaN] }', b"\xff\x00 {", b"", b"9" * 5000, b'"\\ud800"', b"null"],
)
def test_the_bytes_are_the_same_where_nothing_is_hidden(payload: bytes) -> None:
    redaction = reads(keys=["password"], patterns=EMAIL)
    assert redaction.payload(payload) is payload or redaction.payload(payload) == payload
    assert not NOTHING and NOTHING.payload(payload) is payload


def test_bytes_that_are_no_text_are_looked_through_as_well() -> None:
    redaction = reads(patterns=EMAIL)
    assert redaction.payload(b"\xff\xfe ann@example.org \x00") == b"\xff\xfe *** \x00"


def test_a_number_is_hidden_by_its_digits() -> None:
    redaction = reads(patterns={"card": r"\b4\d{15}\b"})
    assert redaction.payload(b'{"n": 4111111111111111}') == b'{"n": "***"}'
    assert redaction.payload(b"4111111111111111") == b'"***"'


def test_an_expression_may_mean_more_than_one_value() -> None:
    redaction = reads(patterns={"pair": r'"user": "\w+"'})
    assert redaction.payload(b'{"user": "ann"}') == b"{***}"


def test_tables_add_up() -> None:
    one, other = ({"keys": ["a"], "forced": True}, "one"), ({"keys": ["b"]}, "other")
    both = Redaction.read([one, other])
    assert both.payload(b'{"a": 1, "b": 2}') == b'{"a": "***", "b": "***"}' and both.forced


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"keys": "password"}, "config.toml: redact.keys is a list of names, not 'password'"),
        ({"keys": [3]}, "config.toml: redact.keys: 3 is no key"),
        ({"keys": ["a..b"]}, "'a..b' is no key"),
        ({"patterns": ["x"]}, "redact.patterns is a table"),
        ({"patterns": {"card": "(4\\d+"}}, "redact.patterns.card: '(4\\\\d+': column 1: missing )"),
        ({"patterns": {"card": "x*"}}, "matches nothing at all"),
        ({"patterns": {"card": 4}}, "redact.patterns.card is a regular expression in quotes"),
        ({"forced": "yes"}, "redact.forced is true or false"),
        ({"fields": []}, "redact.fields: there are keys, patterns and forced"),
    ],
)
def test_a_bad_pattern_is_one_line_with_its_place(table: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as caught:
        reads(**table)
    assert said in str(caught.value) and "\n" not in str(caught.value)


# --- the faces ---------------------------------------------------------------------------------

SECRET = "hunter2"
CONFIGURATION = '[redact]\nkeys = ["password"]\n[redact.patterns]\ntoken = "tok_[a-z0-9]+"\n'


@pytest.fixture
def configuration(configuration: Path) -> Path:
    configuration.write_text(CONFIGURATION)
    return configuration


@pytest.fixture
def dead(client: redis.Redis) -> RequestQueue[redis.Redis]:
    """A dead entry, secrets in its payload, error and traceback; another one with a result."""
    queue = RequestQueue(client, "mail")
    payload = json.dumps({"password": SECRET, "to": "ann"}).encode()
    queue.submit([payload, payload], id="r1", limit=2)
    one, other = queue.take(2, consumer="w").deliveries
    error = Failure("Denied", "no tok_abc2", "Traceback\n  tok_abc3\n")
    queue.settle([Settlement(one, "reject", error.encoded()), Settlement(other, "result", payload)])
    return queue


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "entry", "mail/r1/1"),
        ("inspect", "entry", "mail/r1/1", "--json"),
        ("dlq", "ls", "mail"),
        ("dlq", "ls", "mail", "--json"),
        ("results", "mail/r1"),
        ("results", "mail/r1", "--raw"),
        ("export", "mail"),
        ("dlq", "replay", "mail", "--dry-run"),
        ("dlq", "replay", "mail", "--dry-run", "--json"),
        ("explain", "mail/r1/1"),
        ("explain", "mail/r1/1", "--json"),
        ("dlq", "groups", "mail"),
        ("dlq", "groups", "mail", "--json"),
    ],
    ids=" ".join,
)
def test_no_command_shows_it(
    configuration: Path, dead: RequestQueue[redis.Redis], redisq: Redisq, words: tuple[str, ...]
) -> None:
    out = redisq(*words)
    assert out
    for secret in (SECRET, "tok_abc"):
        assert secret not in out + redisq.err, secret


def test_it_is_shown_where_that_is_allowed(
    configuration: Path, dead: RequestQueue[redis.Redis], redisq: Redisq
) -> None:
    look = ("inspect", "entry", "mail/r1/1")
    assert '"password": "***", "to": "ann"' in redisq(*look)
    assert SECRET in redisq(*look, "--no-redact") and "no tok_abc2" in redisq(*look, "--no-redact")
    configuration.write_text("read_only = true\n" + CONFIGURATION)
    said = redisq.refusal(*look, "--no-redact", code=1)
    assert said == "--no-redact isn't for here (read_only in the configuration)"
    configuration.write_text(CONFIGURATION.replace("[redact]\n", "[redact]\nforced = true\n"))
    assert "redact.forced" in redisq.refusal(*look, "--no-redact", code=1)
    assert "redact.forced" in redisq.refusal("top", "--once", "--no-redact", code=1)


def test_a_bad_pattern_shows_nothing_at_all(
    configuration: Path, dead: RequestQueue[redis.Redis], redisq: Redisq
) -> None:
    configuration.write_text('[redact.patterns]\ncard = "(4"\n')
    for words in ("inspect entry mail/r1/1", "dlq ls mail", "config", "ls", "log", "top --once"):
        said = redisq.refusal(*words.split(), code=2)
        assert said.startswith(f"{configuration}: redact.patterns.card: '(4':")
    for table, wrong in (('keys = "x"', "keys"), ("key = []", "key"), ("forced = 1", "forced")):
        configuration.write_text(f"[redact]\n{table}\n")
        said = redisq.refusal("--url", "redis://127.0.0.1:1", "ls", code=2)
        assert said.startswith(f"{configuration}: redact.{wrong}")


def test_a_hidden_keys_value_is_in_no_filters_words(
    configuration: Path, dead: RequestQueue[redis.Redis], redisq: Redisq, tmp_path: Path
) -> None:
    """Of what a plan was made by its words say all but the value; it is still done as it was."""
    configuration.write_text('[redact]\nkeys = ["password", "card"]\n')
    where = f"-payload.Card.no={SECRET} payload.to=ann payload.password={SECRET}"
    plan, said = tmp_path / "p", []
    said.append(redisq("dlq", "replay", "mail", "--where", where, "--dry-run") + redisq.err)
    said.append(redisq("export", "mail", "--where", where, "--state", "dead"))
    said.append(redisq("dlq", "replay", "mail", "--where", where, "--plan", str(plan)) + redisq.err)
    said.append(plan.read_text())
    said.append(redisq("apply", str(plan), "--yes"))
    assert "done 1 of 1" in redisq.err or "1 of 1" in said[-1] + redisq.err
    said.append(redisq("log"))
    assert not [text for text in said if SECRET in text]
    hidden = "-payload.Card.no=*** payload.to=ann payload.password=***"
    assert all(hidden in said[k] for k in (0, 1, 3, 5)), said


def test_a_context_adds_its_own(
    configuration: Path, dead: RequestQueue[redis.Redis], redisq: Redisq
) -> None:
    configuration.write_text(CONFIGURATION + '[contexts.prod.redact]\nkeys = ["to"]\n')
    assert '"to": "ann"' in redisq("inspect", "entry", "mail/r1/1")
    assert '"to": "***"' in redisq("inspect", "entry", "mail/r1/1", "--context", "prod")
    rows = {row["name"]: row for row in redisq.rows("config", "--context", "prod")}
    assert rows["redact"]["value"] == "password, to, /token/"
    assert "[contexts.prod]" in rows["redact"]["origin"]


def test_what_is_stored_and_matched_is_as_it_was(
    configuration: Path, dead: RequestQueue[redis.Redis], redisq: Redisq
) -> None:
    """Redaction is of what is shown: a filter finds what it doesn't show, and a replay is whole."""
    assert redisq.rows("dlq", "replay", "mail", "--match", "tok_abc2", "--yes")[-1]["done"] == 1
    assert SECRET.encode() in ((dead.get("r1/1") or Entry("", "dead")).payload or b"")


@pytest.mark.slow
def test_the_dashboard_shows_none_of_it(url: str, dead: RequestQueue[redis.Redis]) -> None:
    redaction = reads(keys=["password"], patterns={"token": "tok_[a-z0-9]+"})

    def connect() -> Connected:
        return Connected(url, Deployment(aconnect(url, "top")), redaction=redaction)

    app = Top(Live(connect), interval=0.1, queue="mail")
    copied: list[str] = []

    async def run() -> None:
        async with app.run_test(size=(120, 40)) as pilot:

            async def see(*words: str) -> str:
                for _ in range(1000):
                    shown = drawn(app)
                    if all(word in shown for word in words):
                        return shown
                    await pilot.pause(0.01)
                raise AssertionError(drawn(app))

            await see("mail request")
            await pilot.press("5")
            listed = await see("r1/1", "Denied: no ***")
            await pilot.press("enter")
            sheet = await see("payload", '"password": "***"')
            app.copy_to_clipboard = copied.append  # type: ignore[assignment, method-assign]
            await pilot.press("y")
            await pilot.pause()
            await pilot.press("escape", "P")
            asked = await see("Replay 1 dead entry")
            for shown in (listed, sheet, asked, *copied):
                assert SECRET not in shown and "tok_abc" not in shown

    asyncio.run(run())
    assert copied and "***" in copied[0]


@pytest.mark.parametrize(
    ("op", "says"),
    [
        ({"op": "copy", "from": "/password", "path": "/x"}, "it would show what is redacted"),
        ({"op": "move", "from": "/password", "path": "/to"}, "it would show what is redacted"),
        ({"op": "copy", "from": "/card", "path": "/x"}, "it would show what is redacted"),
        ({"op": "copy", "from": "", "path": "/x"}, "changes"),
        ({"op": "copy", "from": "/password", "path": "/secrets/password"}, "doesn't apply"),
        ({"op": "copy", "from": "/password", "path": "/card/number"}, "changes"),
        ({"op": "remove", "path": "/password"}, "changes"),
        ({"op": "replace", "path": "/to", "value": "eve"}, "changes"),
        ({"op": "test", "path": "/to", "value": "ann"}, "same"),
    ],
    ids=str,
)
def test_a_patch_shows_nothing_that_is_redacted(
    configuration: Path, client: redis.Redis, redisq: Redisq, op: dict[str, str], says: str
) -> None:
    configuration.write_text('[redact]\nkeys = ["password", "card.number"]\nforced = true\n')
    queue = RequestQueue(client, "mail")
    payload = {"password": SECRET, "card": {"number": SECRET}, "to": "ann"}
    queue.submit([json.dumps(payload).encode()], id="r1", limit=2)
    queue.settle([Settlement(queue.take(1, consumer="w").deliveries[0], "reject", ERROR.encoded())])
    patch = ("dlq", "edit", "mail/r1/1", "--patch", json.dumps([op]))
    out = redisq(*patch, "--dry-run") + redisq(*patch, "--dry-run", "--json") + redisq.err
    assert says in out if says != "same" else '"changes": 0' in out
    redisq(*patch, "--yes", code=None)
    out += redisq.err + redisq("inspect", "entry", "mail/r1/1") + redisq("dlq", "ls", "mail")
    assert SECRET not in out


@pytest.mark.parametrize("how", ["test", "replace", "inside", "payload"])
def test_an_edit_does_not_tell_whether_a_guess_is_right(
    configuration: Path, client: redis.Redis, redisq: Redisq, how: str
) -> None:
    """Two entries that differ only in what is redacted: an edit says the same of both."""
    queue = RequestQueue(client, "mail")
    said = []
    for number, secret in enumerate((SECRET, "other")):
        payload = json.dumps({"password": secret, "to": "ann"})
        queue.submit([payload.encode()], id=f"r{number}", limit=2)
        (one,) = queue.take(1, consumer="w").deliveries
        queue.settle([Settlement(one, "reject", ERROR.encoded())])
        patch = {
            "test": [{"op": "test", "path": "/password", "value": SECRET},
                     {"op": "replace", "path": "/to", "value": "eve"}],
            "inside": [{"op": "test", "path": "", "value": {"password": SECRET, "to": "ann"}}],
            "replace": [{"op": "replace", "path": "/password", "value": SECRET}],
        }.get(how)  # fmt: skip
        new = json.dumps({"password": SECRET, "to": "ann"})
        words = ("--patch", json.dumps(patch)) if patch else ("--payload", new)
        edit = ("dlq", "edit", f"mail/r{number}/1", *words)
        out = redisq(*edit, "--dry-run") + redisq(*edit, "--dry-run", "--json") + redisq.err
        out += redisq(*edit, "--yes", code=None) + redisq.err
        out += json.dumps([{**row, "id": "", "started_ms": 0, "ended_ms": 0, "at_ms": 0}
                           for row in redisq.rows("log", "--max", "1")])  # fmt: skip
        said.append(re.sub(r"r\d/1|[0-9a-f]{8,}|\d{4}-\d\d-\S+|\d{13}", "", out))
    assert said[0] == said[1]


def test_an_editor_is_not_opened_on_what_is_redacted(
    configuration: Path, dead: RequestQueue[redis.Redis], redisq: Redisq,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("EDITOR", "cat")
    monkeypatch.delenv("VISUAL", raising=False)
    edit = ("dlq", "edit", "mail/r1/1")
    assert "redacted" in redisq.refusal(*edit, "--yes", code=1)
    assert "the payload is as it was" in redisq(*edit, "--yes", "--no-redact")
    configuration.write_text(CONFIGURATION.replace("[redact]\n", "[redact]\nforced = true\n"))
    assert "--no-redact" not in redisq.refusal(*edit, "--yes", code=1)


def test_delays_are_redacted_like_requests(
    configuration: Path, client: redis.Redis, redisq: Redisq
) -> None:
    DelaySet(client, "later").schedule([("e1", b'{"password": "x"}')], after_ms=60_000)
    (row,) = redisq.rows("delay", "ls", "later")
    assert row["payload"] == '{"password": "***"}'
