"""What a message says: the verb, the queue, the reason, the command to type."""

from __future__ import annotations

from redisq_ops.ops.notify.episode import End, Episode, News, Word
from redisq_ops.ops.notify.message import FINDINGS, LINES, message

MINUTE = 60_000


def one(
    word: Word = "new",
    queue: str | None = "mail",
    reason: str = "no worker for 8 m",
    severity: int = 2,
    rule: str = "no-worker",
    gone_ms: int | None = None,
    end: End | None = None,
) -> News:
    return News(word, Episode(queue, rule, "", severity, reason, 0, gone_ms, end=end))


def lines(*found: News, now_ms: int = 60 * MINUTE) -> list[str]:
    return list(message(found, "prod", now_ms).lines)


def test_each_news_is_a_line_the_worst_first() -> None:
    said = lines(
        one("resolved", "done", gone_ms=12 * MINUTE),
        one(queue="later", reason="3 dead, mostly SMTP", severity=1, rule="dead"),
        one("still"),
        one("worse", "img"),
        one(queue=None, reason="can't reach the server: refused.", rule="unread"),
        one("acknowledged", "old", "9 dead", 1, "dead", gone_ms=2 * MINUTE),
        one("lost", "img2", end="lost", gone_ms=9 * MINUTE),
        one("unchecked", "few", "dead>5", gone_ms=MINUTE),
    )
    assert said == [
        "Fix mail, in trouble for 1 h: no worker for 8 m. Type: redisq explain mail",
        "Fix img, now critical: no worker for 8 m. Type: redisq explain img",
        "Fix the server: can't reach the server: refused. Type: redisq doctor",
        "Look at later: 3 dead, mostly SMTP. Type: redisq explain later",
        "Lost img2 after 9 m, the data is gone. Before: no worker for 8 m. Type: redisq doctor",
        "No longer checked few after 1 m: dead>5",
        "Resolved done after 12 m: no worker for 8 m",
        "Acknowledged old after 2 m: 9 dead",
    ]


def test_queues_of_the_same_trouble_are_one_line_as_in_the_dashboard() -> None:
    many = [one(queue=f"q{n:02}", reason=f"no worker for {8 + n % 2} m") for n in range(71)]
    both = [one("new", name, "paused by ada: 3 things", 1, "paused") for name in ("a", "b")]
    assert lines(*many, *both) == [
        "Fix 71 queues: no worker for 8 to 9 m (q00, q01, q02 and 68 more). Type: redisq ls",
        "Look at a: paused by ada: 3 things. Type: redisq explain a",
        "Look at b: paused by ada: 3 things. Type: redisq explain b",
    ]
    three = [one(queue=name) for name in "cab"]
    assert lines(*three) == ["Fix 3 queues: no worker for 8 m (a, b, c). Type: redisq ls"]


def test_the_title_counts_what_is_wrong() -> None:
    found = [
        one(),
        one(queue="b", severity=1),
        one(queue="c", severity=1),
        one("resolved", "d", gone_ms=1),
    ]
    assert message(found, "prod", 1).title == "redisq prod: 1 critical, 2 warnings, 1 resolved"
    assert message(found, "prod", 1).severity == 2
    assert message(found[-1:], "prod", 1).severity is None
    lost = message([one("lost", "d", gone_ms=1)], "prod", 1)
    assert (lost.title, lost.severity) == ("redisq prod: 1 lost", 2)


def test_a_message_is_bounded_and_says_what_it_leaves_out() -> None:
    found = [  # no two are alike
        one(queue=f"{'q' * 120}{n:04}", reason=f"reason-{n:x}z " + "x" * 999) for n in range(900)
    ]
    said = message(found, "prod", 1)
    assert len(said.lines) <= LINES + 1 and len("\n".join(said.lines)) < 1_950
    assert said.lines[-1] == (f"See {900 - len(said.lines) + 1} more. Type: redisq check --explain")
    assert (len(said.document["findings"]), said.document["omitted"]) == (FINDINGS, 900 - FINDINGS)


def test_the_document_of_a_webhook_has_each_finding_by_itself() -> None:
    document = message([one(queue=name) for name in "abc"], "prod", 7).document
    assert document["findings"][1] == {
        "news": "new",
        "severity": "critical",
        "queue": "b",
        "rule": "no-worker",
        "reason": "no worker for 8 m",
        "since_ms": 0,
        "command": "redisq explain b",
    }
    assert (document["deployment"], document["at_ms"], document["omitted"]) == ("prod", 7, 0)


def test_text_of_others_is_escaped() -> None:
    (line,) = lines(one(reason="paused by \x1b[2J\nada", rule="paused"))
    assert "\x1b" not in line and "\n" not in line
