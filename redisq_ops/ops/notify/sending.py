"""Sends messages, each in a thread of its own, and waits for all of them a bounded time.

A webhook is a POST of JSON, by the standard library. Slack, Teams, Discord, e-mail and others go
through apprise (the extra ``notify``), which knows their forms and limits. What either says of a
failure may quote an address: only status codes and causes of our own choice are shown.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import ssl
from collections.abc import Mapping
from functools import cache
from http.client import HTTPException
from threading import Thread
from time import monotonic
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from redisq_ops.core.model.errors import BadInput

from ..trouble.finding import Severity
from .message import Message
from .settings import Recipient

PATIENCE_S: Final = 10.0
"""how long all recipients together may take"""
_STEP_S: Final = 5.0
"""how long a webhook may be silent"""
_TYPES: Final = {None: "success", Severity.WARNING: "warning", Severity.CRITICAL: "failure"}
_CALL: Final = re.compile("@(?=everyone|here|channel)|<(?=[@#!])")
"""what in a reason would call people; a zero-width space behind it keeps it a text"""
_STATUS: Final = re.compile(r"\berror=([345]\d\d)\b")
_CONNECTION: Final = "onnection error"
"""how apprise begins to say that there was no answer; of a mail server also that it refused the
login, or has no TLS"""


class Sender:
    """Sends to some recipients; no error and no log line has an address or a token."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._busy: dict[str, Thread] = {}

    def send(self, messages: Mapping[Recipient, Message]) -> dict[str, str | None]:
        """Why each recipient, by name, could not be told; None: it was. Returns in `PATIENCE_S`.

        A recipient that has not answered by then may still get the message: it is sent nothing else
        until it has.
        """
        failed: dict[str, str | None] = {}
        threads = []
        for recipient, message in messages.items():
            earlier = self._busy.get(recipient.name)
            if recipient.fault is not None:
                failed[recipient.name] = recipient.fault
                continue
            if earlier is not None and earlier.is_alive():
                failed[recipient.name] = "it has not answered yet to the message before"
                continue
            try:
                if recipient.url is not None:
                    service(recipient)  # loads apprise, before the time of the recipients begins
            except Exception as error:  # of a library, too: a check goes on without it
                failed[recipient.name] = _words(error)
                continue
            failed[recipient.name] = f"no answer within {self._patience_s:.0f} s"
            thread = Thread(target=_send, args=(recipient, message, failed), daemon=True)
            self._busy[recipient.name] = thread
            threads.append(thread)
        for thread in threads:
            thread.start()
        ends = monotonic() + self._patience_s
        for thread in threads:
            thread.join(max(0.0, ends - monotonic()))
        return dict(failed)  # a thread that is late changes the other one


def _send(recipient: Recipient, message: Message, failed: dict[str, str | None]) -> None:
    try:
        if recipient.webhook is not None:
            why = _post(recipient.webhook, recipient.token, message.document)
        else:
            why = _notify(service(recipient), message)
    except Exception as error:
        why = _words(error)
    failed[recipient.name] = why


def _words(error: Exception) -> str:
    """Why it failed; the text of a library's error may quote an address."""
    known = isinstance(error, BadInput)
    return str(error) if known else f"unexpected error: {type(error).__name__}"


class _NoRedirect(HTTPRedirectHandler):
    """A redirected POST would become a GET, and look like a success."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _post(url: str, token: str | None, document: Mapping[str, Any]) -> str | None:
    headers = {"Content-Type": "application/json", "User-Agent": "redisq"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    request = Request(url, json.dumps(document).encode(), headers)
    try:
        with build_opener(_NoRedirect).open(request, timeout=_STEP_S):
            return None
    except HTTPError as error:
        error.close()
        return f"it answered {error.code}"
    except (URLError, OSError, HTTPException) as error:
        return _cause(error.reason if isinstance(error, URLError) else error)


def _cause(error: object) -> str:
    match error:
        case TimeoutError():
            return f"no answer within {_STEP_S:.0f} s"
        case socket.gaierror():
            return "its host name is unknown"
        case ssl.SSLError():
            return f"TLS: {error.reason or 'failed'}"
        case OSError() if error.strerror:
            return error.strerror.lower()
    return "it closed the connection without an answer"


@cache
def service(recipient: Recipient) -> Any:
    """What sends to a recipient with a ``url``; `BadInput` if apprise can't use it. It takes most
    of a second the first time."""
    import apprise

    # Its log lines would go to stderr, and may quote addresses.
    log = logging.getLogger("apprise")
    log.propagate = False
    log.addHandler(logging.NullHandler())
    asset = apprise.AppriseAsset(app_id="redisq", app_desc="redisq", image_url_mask="")
    made = apprise.Apprise(asset=asset)
    if not made.add(recipient.url or ""):
        raise BadInput(f"apprise can't use the url of notify.to.{recipient.name}")
    return made


def _notify(service: Any, message: Message) -> str | None:
    body = _CALL.sub("\\g<0>\u200b", "\n".join(message.lines))
    kind = _TYPES[message.severity]
    result = service.notify(body, message.title, notify_type=kind, body_format="text")
    if result:
        return None
    said = "\n".join(map(str, result.logs()))
    if status := _STATUS.search(said):
        return f"it answered {status[1]}"
    if _CONNECTION in said:
        return "the connection failed: look at host, port, TLS, user and password in its url"
    return "it did not take the message"
