"""What is inside of a payload's encodings: shown as it is, within bounds, without its secrets."""

import base64
import gzip
import json
import pickle
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from functools import partial
from unittest.mock import patch

import msgpack
import pytest
import redis

from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.ops import encodings
from redisq_ops.ops.encodings import MOST, Decoded
from redisq_ops.ops.payload_content import BEGINNING, PayloadContent, payload_content
from redisq_ops.ops.redaction import MASK, Redaction

from ..command_line import Redisq

gzipped = partial(gzip.compress, mtime=0)
"""without the time: it would be in the tests' names, which every process has to find alike"""

HIDDEN = Redaction.read([({"keys": ["password"]}, "")])
ORDER = {"to": "ann", "password": "hunter2"}


def dumped(value: object) -> bytes:
    return json.dumps(value).encode()


class Trap:
    """A pickle of it would end the program that loads it."""

    def __reduce__(self) -> tuple[Callable[[int], None], tuple[int]]:
        return sys.exit, (3,)


@pytest.mark.parametrize(
    ("payload", "what", "content"),
    [
        (gzipped(b'{"n": 1}' + b" " * 2040), "gzip, {} B → 2.0 KiB, JSON", '{"n": 1}'),
        (zlib.compress(b"one\ntwo"), "zlib, {} B → 7 B, text", "one\ntwo"),
        (base64.b64encode(b"Dear Ann, hello"), "base64, {} B → 15 B, text", "Dear Ann, hello"),
        (base64.encodebytes(dumped({"n": [1] * 99})), "base64, {} B → 304 B, JSON", '{"n": [1'),
        (
            base64.urlsafe_b64encode(gzipped(b"deep")),
            "base64, gzip, {} B → 4 B, text",
            "deep",
        ),
        (gzipped(bytes(range(256))), "gzip, {} B → 256 B, binary", "\x00"),
        (pickle.dumps(Trap()), "pickle, {} B, disassembled, never loaded", "     0: PROTO 4"),
        (
            zlib.compress(pickle.dumps("a", 2)),
            "zlib, pickle, {} B → 11 B, disassembled, never loaded",
            "     0: PROTO 2\n     2: BINUNICODE 'a'\n     8: BINPUT 0\n    10: STOP",
        ),
        (
            pickle.dumps(Trap(), 0),
            "pickle, {} B, disassembled, never loaded",
            "     0: GLOBAL 'sys",
        ),
        (pickle.dumps(["a"], 0), "pickle, {} B, disassembled, never loaded", "     0: MARK"),
        (
            pickle.dumps({"a": 1}, 1),
            "pickle, {} B, disassembled, never loaded",
            "     0: EMPTY_DICT",
        ),
        (msgpack.packb({"n": 1, "raw": b"\xff"}), "msgpack, {} B, shown as JSON", '{"n": 1, "raw'),
        # Not these: a word, damaged data, bytes after the end, a number.
        (b"deadbeef" * 4, "32 B, text", "deadbeef"),
        (gzipped(b"x" * 99)[:-4], "{} B, binary", ""),
        (zlib.compress(b"one") + b"\0", "{} B, binary", ""),
        (b"\x80\x04X.", "4 B, binary", ""),
        (b"(hello).", "8 B, text", "(hello)."),  # it is a pickle, too, but keeps nothing
        (b"Subject: hi\nSee you.", "20 B, text", "Subject"),
        (b"x^2 + y^2", "9 B, text", "x^2"),
        (b"\xcc\xff\0", "3 B, binary", ""),
    ],
)
def test_content_is_shown_with_what_was_done(payload: bytes, what: str, content: str) -> None:
    found = payload_content(payload)
    assert found.what == what.format(len(payload))
    assert found.content.decode("utf-8", "replace").startswith(content)


@pytest.mark.parametrize("compress", [gzipped, zlib.compress])
def test_a_bomb_shows_its_beginning_and_takes_little_memory(
    compress: Callable[[bytes], bytes],
) -> None:
    bomb = gzipped(compress(b"ab" * MOST * 16))
    tracemalloc.start()
    found = payload_content(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * MOST
    assert found.what.endswith("→ more than 1.0 MiB, text, the first 64.0 KiB")
    assert found.what.startswith("gzip, ") and len(found.content) == BEGINNING
    assert payload_content(bomb, HIDDEN).content == MASK.encode()


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (gzipped(dumped(ORDER)), {"to": "ann", "password": MASK}),
        (base64.b64encode(zlib.compress(dumped(ORDER))), {"to": "ann", "password": MASK}),
        (msgpack.packb(ORDER), {"to": "ann", "password": MASK}),
        (pickle.dumps(ORDER), MASK),
        (pickle.dumps(ORDER, 0), MASK),
        (pickle.dumps({"user": "hunter2", "password": "hunter2"}), MASK),
        (zlib.compress(pickle.dumps([b"password"])), MASK),
    ],
)
def test_redaction_is_applied_to_what_was_decoded(payload: bytes, shown: object) -> None:
    found = payload_content(payload, HIDDEN)
    assert b"hunter2" not in found.content
    assert (json.loads(found.content) if isinstance(shown, dict) else found.content.decode()) == (
        shown
    )
    # Where the payload is shown as it is stored, it is hidden whole.
    assert HIDDEN.payload(payload) == MASK.encode()


def test_content_without_secrets_keeps_its_bytes() -> None:
    payload = gzipped(dumped({"to": "ann"}))
    assert HIDDEN.payload(payload) == payload
    assert isinstance(payload_content(payload, HIDDEN), PayloadContent)


def test_inspect_shows_what_was_decoded_and_json_the_stored_bytes(
    client: redis.Redis, redisq: Redisq
) -> None:
    payload = gzipped(b'{"to": "ann"}\n\x1b[2J')
    RequestQueue(client, "mail").submit([payload, b"plain"], id="r1")
    said = redisq("inspect", "mail/r1/1")
    assert f"payload           gzip, {len(payload)} B → 18 B, text\n" in said
    assert '    {"to": "ann"}\n    \\x1b[2J\n' in said and "\\x1f\\x8b" not in said
    (row,) = redisq.rows("inspect", "mail/r1/1")
    assert base64.b64decode(row["payload_b64"]) == payload
    assert "payload           plain\n" in redisq("inspect", "mail/r1/2")


def test_encodings_are_taken_off_up_to_three_levels() -> None:
    """Some compressed files decompress to themselves."""
    payload = b'{"to": "ann"}'
    for _ in range(50):
        payload = gzipped(payload)
    found = payload_content(payload, HIDDEN)
    assert found.what.startswith("gzip, gzip, gzip, ") and found.what.endswith("binary")
    assert HIDDEN.payload(payload) == payload
    with patch.object(encodings, "_DECODERS", (lambda payload: Decoded("gzip", payload),)):
        assert HIDDEN.payload(payload) == payload


def test_a_map_of_msgpack_with_keys_of_bytes_is_redacted_too() -> None:
    packed = msgpack.packb({b"password": "hunter2", 7: "x"}, use_bin_type=True)
    hidden = payload_content(packed, HIDDEN)
    assert b"hunter2" not in hidden.content and b"***" in hidden.content


@pytest.mark.parametrize("around", [bytes, gzipped, zlib.compress])
@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize(
    "packed",
    [
        msgpack.packb(ORDER),
        msgpack.packb([ORDER] * 20),
        msgpack.packb(ORDER) + b"\n",
        msgpack.packb(ORDER) * 2,
        msgpack.packb(ORDER)[:-1],
    ],
    ids=["map", "list", "end", "two", "cut"],
)
def test_msgpack_that_is_not_decoded_is_hidden_whole(
    packed: bytes,
    installed: bool,
    around: Callable[[bytes], bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not installed:
        monkeypatch.setitem(sys.modules, "msgpack", None)
    payload = around(packed)
    assert HIDDEN.payload(payload) == MASK.encode()
    assert b"hunter2" not in payload_content(payload, HIDDEN).content
    patterns_only = Redaction.read([({"patterns": {"digits": "[0-9]{9}"}}, "")])
    assert patterns_only.payload(payload) == payload
