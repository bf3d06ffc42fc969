"""Messages on their way to real servers that take, refuse, hang, drip and hang up."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from email import message_from_bytes, policy
from typing import Any

import pytest
import requests

from redisq_ops.core.model.errors import BadInput
from redisq_ops.ops.notify.message import Message
from redisq_ops.ops.notify.sending import Sender, service
from redisq_ops.ops.notify.settings import Recipient
from redisq_ops.ops.trouble.finding import Severity

from ...hook import Hook, mail_server, until
from ...ports import free_port

LINES = ("Fix mail: paused by @everyone <!channel> & co. Type: redisq explain mail", "second")
MESSAGE = Message("prod", 7, "redisq prod: 1 critical", LINES, severity=Severity.CRITICAL)


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    yield hook
    hook.close()


def sent(recipient: Recipient, patience_s: float = 30) -> str | None:
    return Sender(patience_s).send({recipient: MESSAGE})[recipient.name]


def test_a_webhook_gets_json_and_the_token(hook: Hook) -> None:
    assert sent(Recipient("t", webhook=hook.url, token="t0ken")) is None
    document = {"deployment": "prod", "at_ms": 7, "title": "redisq prod: 1 critical"}
    assert hook.got == [document | {"lines": list(LINES), "findings": [], "omitted": 0}]
    head = {name.lower(): value for name, value in hook.heads[0].items()}
    assert head["authorization"] == "Bearer t0ken" and head["content-type"] == "application/json"


@pytest.mark.parametrize("answer", [500, 404, 302, 308])
def test_another_answer_than_success_is_named(hook: Hook, answer: int) -> None:
    hook.answer = answer
    assert sent(Recipient("t", webhook=hook.url)) == f"it answered {answer}"
    assert len(hook.got) == 1  # a redirection isn't followed


@pytest.mark.parametrize("answer", ["hang", "drip"])
def test_a_target_that_hangs_is_given_up_and_not_sent_more(hook: Hook, answer: str) -> None:
    hook.answer = answer
    with_other = Hook()
    sender, slow = Sender(0.5), Recipient("slow", webhook=hook.url)
    other = Recipient("other", webhook=with_other.url)
    assert sender.send({slow: MESSAGE, other: MESSAGE}) == {
        "slow": "no answer within 0 s",
        "other": None,
    }
    assert sender.send({slow: MESSAGE})["slow"] == "it has not answered yet to the message before"
    assert len(hook.got) == 1
    hook.answer = 200
    hook.over.set()
    until(lambda: sender.send({slow: MESSAGE})["slow"] is None)
    with_other.close()


def test_a_long_answer_is_not_read(hook: Hook) -> None:
    hook.answer = "big"
    assert sent(Recipient("t", webhook=hook.url)) is None
    assert hook.written < 8_000_000, "what the kernel buffers"


def test_a_connection_that_breaks_is_named(hook: Hook) -> None:
    hook.answer = "close"
    assert sent(Recipient("t", webhook=hook.url)) == "it closed the connection without an answer"
    absent = Recipient("t", webhook=f"http://127.0.0.1:{free_port()}/s3cret")
    assert sent(absent) == "connection refused"
    assert (
        sent(Recipient("t", webhook="http://nowhere.invalid/s3cret")) == "its host name is unknown"
    )
    plain = Recipient("t", webhook=hook.url.replace("http:", "https:"))
    why = sent(plain)
    assert why is not None and why.startswith("TLS: ")


SERVICES = {
    "slack": "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/",
    "discord": "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
    "teams": "workflows://127.0.0.1:{port}/wf/sig/",
}


def towards(hook: Hook, kind: str, monkeypatch: pytest.MonkeyPatch) -> Recipient:
    """A recipient of a chat whose own address is the hook's."""
    recipient = Recipient(f"{kind}-{hook.port}", url=SERVICES[kind].format(port=hook.port))
    made = service(recipient)[0]
    if kind == "teams":  # its address is a name of the user's, always with TLS
        real = requests.post
        monkeypatch.setattr(
            requests, "post", lambda url, **more: real(url.replace("https:", "http:"), **more)
        )
    else:
        monkeypatch.setattr(made, {"slack": "webhook_url", "discord": "notify_url"}[kind], hook.url)
    return recipient


@pytest.mark.parametrize("kind", SERVICES)
def test_chats_get_the_lines_in_their_own_form(
    kind: str, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sent(towards(hook, kind, monkeypatch)) is None
    text = str(hook.got)
    assert "redisq prod: 1 critical" in text and "redisq explain mail" in text and "second" in text
    assert "@everyone" not in text  # a reason calls nobody
    assert kind != "slack" or "<!channel>" not in text


@pytest.mark.parametrize(
    "answer, why", [(500, "it answered 500"), ("close", "the connection failed")]
)
def test_what_apprise_says_of_a_failure_is_neither_shown_nor_logged(
    answer: Any,
    why: str,
    hook: Hook,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    hook.answer = answer
    caplog.set_level(logging.DEBUG, "redisq_ops")
    said = sent(towards(hook, "slack", monkeypatch))
    assert said is not None and said.startswith(why)
    assert "".join(capfd.readouterr()) == "" and caplog.text == ""


def test_a_url_that_apprise_cannot_use_is_named_by_its_place_only(
    capfd: pytest.CaptureFixture[str],
) -> None:
    recipient = Recipient("chat", url="nosuch://s3cret")
    with pytest.raises(BadInput, match=r"^apprise can't use the url of notify\.to\.chat$"):
        service(recipient)
    assert sent(recipient) == "apprise can't use the url of notify.to.chat"
    assert "".join(capfd.readouterr()) == ""


def test_a_mail_arrives_as_it_is_worded() -> None:
    with mail_server() as (port, mails):
        url = f"mailto://127.0.0.1:{port}?from=redisq@example.org&to=ada@example.org&mode=insecure"
        assert sent(Recipient("mail", url=url)) is None
    (mail,) = mails.got
    read = message_from_bytes(mail, policy=policy.default)
    assert read["subject"] == "redisq prod: 1 critical" and "ada@example.org" in read["to"]
    assert "redisq explain mail\r\nsecond" in read.get_content()


@pytest.mark.parametrize("there", [True, False])
def test_a_mail_server_that_refuses_says_where_to_look(there: bool) -> None:
    with mail_server() as (port, _):  # it knows no login
        at = f"ada:s3cret@127.0.0.1:{port if there else free_port()}"
        url = f"mailto://{at}?from=a@example.org&to=b@example.org&mode=insecure"
        why = sent(Recipient("mail", url=url))
    assert why == "the connection failed: look at host, port, TLS, user and password in its url"


def test_a_mail_server_that_hangs_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        url = f"mailto://127.0.0.1:{port}?from=a@example.org&to=b@example.org&mode=insecure"
        assert sent(Recipient("mail", url=url), 0.5) == "no answer within 0 s"
