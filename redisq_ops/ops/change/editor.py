"""The person's own editor, on one payload."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from redisq_ops.core.model.errors import Refused

from ..redaction import NO_REDACTION, Redaction


def chosen() -> bool:
    """Whether the environment names an editor; without one it is ``vi``."""
    return bool(os.environ.get("VISUAL") or os.environ.get("EDITOR"))


def readable(payload: bytes, redaction: Redaction = NO_REDACTION) -> None:
    """Refuse a payload that an editor would spoil, or of which it would show redacted parts."""
    try:
        payload.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused("that payload is no text: give another with --payload @FILE") from error
    if redaction.payload(payload) != payload:
        allowed = "" if redaction.forced else "; --no-redact opens it"
        raise Refused(
            "parts of that payload are redacted, and an editor would show them: change it by "
            f"--payload or --patch in the command line{allowed}"
        )


def edited(payload: bytes) -> bytes:
    """The payload as the person leaves it, without the line end that editors add.

    Takes the terminal until the editor ends; `Refused` if it fails, so that nothing is changed.
    """
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        editor = shlex.split(named) or ["vi"]
    except ValueError as error:
        raise Refused(f"EDITOR={named}: {error}") from error
    suffix = ".json" if payload[:1] in (b"{", b"[") else ".txt"
    # Only its owner can read it: payloads may be secrets.
    with tempfile.TemporaryDirectory(prefix="redisq-") as folder:
        path = Path(folder, f"payload{suffix}")
        path.write_bytes(payload)
        try:
            code = subprocess.run([*editor, str(path)], check=False).returncode
        except OSError as error:
            raise Refused(f"{editor[0]}: {error.strerror}; set EDITOR") from error
        if code:
            raise Refused(f"{editor[0]} ended with {code}: nothing was changed")
        try:
            after = path.read_bytes()
        except OSError as error:
            why = f"{editor[0]} left no file to read: {error.strerror}"
            raise Refused(f"{why}; nothing was changed") from error
    if after == payload + b"\n":
        return payload
    return after.removesuffix(b"\n") if not payload.endswith(b"\n") else after
