"""`redisq dlq edit`, `redisq delay edit`: other payloads, in an editor or by a patch."""

from __future__ import annotations

import typer

from ..options import GO, SELECTING, add, option


def add_to(group: typer.Typer, noun: str, state: str) -> None:
    """Add `edit` to a state's commands."""
    address, more = ("mail/r1/17", "mail") if noun == "dlq" else ("later/e1", "later")
    patch = """'[{"op": "replace", "path": "/region", "value": "eu"}]'"""
    add(
        group, "edit",
        {
            **SELECTING,
            "patch": option("--patch", "JSON|@FILE", "Apply a JSON Patch to each entry."),
            "payload": option("--payload", "TEXT|@FILE|-", "New payload of one entry."),
            **GO,
        },
        "edit.edit", state,
        help="Change the payload of one entry, in $EDITOR or with --payload, or of many entries "
        "with --patch. An entry that changed since it was read is skipped. Undo restores the old "
        "payloads.",
        prints="Plan Outcome",
        examples=(
            f"redisq {noun} edit {address}",
            f"redisq {noun} edit {address} --payload @fixed.json --yes",
            f"redisq {noun} edit --queue {more} --match Timeout --patch {patch} --dry-run",
        ),
    )  # fmt: skip
