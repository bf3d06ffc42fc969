"""The table [notify]: its defaults, and mistakes in it."""

from __future__ import annotations

import tomllib

import pytest

from redisq_ops.core.model.errors import BadInput
from redisq_ops.ops.notify.settings import read_recipients
from redisq_ops.ops.trouble.finding import Severity

ENVIRONMENT = {"CHAT": "slack://s3cret", "TOKEN": "s3cret"}


def test_a_target_says_otherwise_than_all() -> None:
    text = """
        severity = "critical"
        steps = ["1m", "2h"]
        quiet = "22:00-07:00"
        zone = "Europe/Berlin"
        [to.chat]
        url = "${CHAT}"
        [to.pager]
        webhook = "https://h/x"
        token = "${TOKEN}"
        severity = "warning"
        resolved = false
        calm = "5m"
        quiet = ""
    """
    chat, pager = read_recipients(tomllib.loads(text), "notify", ENVIRONMENT)
    assert (chat.url, chat.severity, chat.steps) == ("slack://s3cret", 2, (60_000, 7_200_000))
    assert chat.quiet is not None and chat.resolved and chat.calm_ms == 60_000
    assert (pager.token, pager.severity) == ("s3cret", Severity.WARNING)
    assert (pager.quiet, pager.resolved, pager.calm_ms) == (None, False, 300_000)
    assert "s3cret" not in f"{chat!r}{pager!r}"


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "nobody to tell: add a table [notify.to.NAME]"),
        ("to = 5", "notify.to must be a table"),
        ("tto = {}", "nobody to tell"),
        ("[to.'a b']\nurl = 's3cret'", "letters, digits"),
        ("[to.a]", "expected url, or webhook"),
        ("[to.a]\nurl = 'x://s3cret'\nwebhook = 'http://h'", "expected url, or webhook"),
        ("[to.a]\nurl = 'x://s3cret'\ntoken = 's3cret'", "expected url, or webhook"),
        ("[to.a]\nurl = 5", "notify.to.a.url must be a text"),
        ("[to.a]\nurl = '${ABSENT}'", "environment variable 'ABSENT' is not set"),
        ("[to.a]\nwebhook = 'file:///s3cret'", "begins with http:// or https://"),
        ("[to.a]\nwebhook = 'http://h:99999/s3cret'", "begins with http:// or https://"),
        ("[to.a]\nwebhook = 'https://u:s3cret@h/'", "write the password as token"),
        ("[to.a]\nwebhook = 'http://h'\nsevere = 'x'", "unknown field 'severe'"),
        ("severity = 'bad'\n[to.a]\nwebhook = 'http://h'", "warning | critical"),
        ("steps = []\n[to.a]\nwebhook = 'http://h'", "growing time spans"),
        ("steps = ['5m', '0s']\n[to.a]\nwebhook = 'http://h'", "growing time spans"),
        ("steps = ['soon']\n[to.a]\nwebhook = 'http://h'", "'soon' is not a time span"),
        ("calm = 5\n[to.a]\nwebhook = 'http://h'", "notify.calm must be a text"),
        ("quiet = '22-7'\n[to.a]\nwebhook = 'http://h'", "two times of day"),
        ("quiet = '07:00-07:00'\n[to.a]\nwebhook = 'http://h'", "two times of day"),
        ("quiet = '22:00-25:00'\n[to.a]\nwebhook = 'http://h'", "two times of day"),
        ("quiet = '22:00-07:00'\n[to.a]\nwebhook = 'http://h'", "name the time zone"),
        ("quiet = '22:00-07:00'\nzone = 'Mars/X'\n[to.a]\nwebhook = 'http://h'", "time zone"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_without_the_secret(text: str, why: str) -> None:
    try:
        (one,) = read_recipients(tomllib.loads(text), "notify", ENVIRONMENT)
        said = one.fault or ""
    except BadInput as error:  # of the table of all
        said = str(error)
    assert why in said and "notify" in said and "s3cret" not in said


def test_a_mistake_in_one_table_leaves_the_others_usable() -> None:
    text = "[to.a]\nurl = '${ABSENT}'\n[to.b]\nwebhook = 'http://h'\n"
    bad, good = read_recipients(tomllib.loads(text), "notify", ENVIRONMENT)
    assert (bad.name, bad.url, good.fault) == ("a", None, None) and "ABSENT" in (bad.fault or "")
