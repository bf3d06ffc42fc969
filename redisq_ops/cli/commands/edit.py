"""`redisq dlq edit`, `redisq delay edit`: other payloads, in an editor or by a patch."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import GO, SELECTING, Options, command, examples

_PATCH = typer.Option("--patch", metavar="JSON|@FILE", help="Apply a JSON Patch to each entry.")
_PAYLOAD = typer.Option("--payload", metavar="TEXT|@FILE|-", help="New payload of one entry.")
EDITING: Options = {
    "patch": (Annotated[str | None, _PATCH], None),
    "payload": (Annotated[str | None, _PAYLOAD], None),
}


def add_to(group: typer.Typer, noun: str, state: str) -> None:
    """Add `edit` to a state's commands."""
    address, more = ("mail/r1/17", "mail") if noun == "dlq" else ("later/e1", "later")
    patch = """'[{"op": "replace", "path": "/region", "value": "eu"}]'"""
    group.command(
        "edit",
        help="Change the payload of one entry, in $EDITOR or with --payload, or of "
        "many entries with --patch. An entry that changed since it was read is "
        "skipped. Undo restores the old payloads.",
        epilog=examples(
            f"redisq {noun} edit {address}",
            f"redisq {noun} edit {address} --payload @fixed.json --yes",
            f"redisq {noun} edit --queue {more} --match Timeout --patch {patch} --dry-run",
        ),
    )(command({**SELECTING, **EDITING, **GO}, "edit.edit", state))
