"""`redisq edit`: changes payloads, in an editor or by a patch."""

from __future__ import annotations

from collections import Counter

from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import BadInput, NotFound
from redisq_ops.core.model.exit_codes import DONE, FAILED, INTERRUPTED
from redisq_ops.ops.change.allowed import ensure_changeable
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.change.edit import (
    Change,
    EditSteps,
    Replaced,
    edit_preview,
    editable,
    preview_edit,
)
from redisq_ops.ops.change.editor import chosen, edited, readable
from redisq_ops.ops.change.json_patch import Patch
from redisq_ops.ops.change.outcome import ChangeOutcome
from redisq_ops.ops.change.preview import Preview
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.filter.selection import Selection, select

from .confirm_and_run import (
    agreed,
    drive,
    ended,
    interactive,
    nothing_matched,
    tell_interrupted,
)
from .entries import chosen_states, targets_to_read
from .options import Go, Selecting
from .output import emit, printable, progress, reading, say, untouched
from .payload_argument import text_or_file
from .session import Session


def edit(
    s: Session,
    possible: tuple[State, ...],
    given: str | None,
    selecting: Selecting,
    patch_text: str | None,
    payload: str | None,
    go: Go,
) -> int:
    """Select entries, show some changes, ask, and change each entry that nobody else changed."""
    if patch_text is not None and payload is not None:
        raise BadInput("give either --patch or --payload")
    patch = None if patch_text is None else Patch.parse(_text(patch_text, "--patch"))
    found = list(targets_to_read(s, chosen_states("edit", possible, given), selecting))
    if len(found) > 1:
        raise BadInput(
            "edit is for entries of one queue: " + ", ".join(t.queue.name for t in found)
        )
    (target,) = found
    state = target.state
    editable(target.queue, state)
    s.run(ensure_changeable(target.queue))
    rate = selecting.conditions.scan_rate
    with reading(f"looking through {target.queue.name}", rate=rate) as meter:
        selection = s.run(select(target.queue, state, target.filter, meter))
    if not selection.count:
        nothing = edit_preview(selection, Counter(), ())
        return nothing_matched(s, [nothing], go.dry_run)
    if patch is None and selection.count > 1:
        raise BadInput(f"{selection.count:,} entries: name one, or use --patch to change all")
    with untouched():
        change = patch or _replacement(s, selection, payload)
        if change is None:
            print("the payload is as it was: nothing was changed")
            return 0
        with progress(f"looking at payloads of {target.queue.name}", selection.count) as meter:
            preview, looked = s.run(preview_edit(selection, change, meter))
    if not preview.facts["changes"] and not go.dry_run:
        return _nothing(s, preview)
    if not s.json:
        tell = print if go.dry_run else say  # part of the preview: on stdout if nobody is asked
        for sample in looked:
            for line in (f"{selection.queue.name}/{sample.id}", *sample.lines):
                tell(printable(line))
    if not agreed(s, [preview], go):
        return 0
    work = ChangeRun(EditSteps(selection, change), Author.here(go.reason))
    finished = drive(s, work, f"edit in {selection.queue.name}")
    ended(s, work.outcome, f"edited {state} entries of {selection.queue.name}")
    if not finished:  # without a command: the same patch would change edited entries again
        tell_interrupted(s, work.outcome)
    return work.outcome.exit_code if finished else INTERRUPTED


def _nothing(s: Session, preview: Preview) -> int:
    """Report that no entry would change; ask nothing, write nothing."""
    outcome = ChangeOutcome(None, preview.facts["matched"], 0, preview.facts["stay"])
    if s.json:
        emit(outcome)
    else:
        print(printable(f"nothing would change: {preview}"))
    return FAILED if outcome.exit_code else DONE  # not PARTLY_DONE: nothing was done


def _replacement(s: Session, selection: Selection, given: str | None) -> Change | None:
    """One entry's new payload, from ``given`` or the editor; None if it did not change."""
    (id,) = selection.ids()
    (entry,) = s.run(selection.queue.get_in.op([id], selection.state))
    if entry is None or entry.payload is None:
        raise NotFound(f"{selection.queue.name}/{id} has no payload any more")
    if given is not None:
        after = text_or_file(given, "--payload")
    elif not interactive() and not chosen():
        raise BadInput("no terminal for an editor: say --payload TEXT, @FILE or -, or --patch")
    else:
        readable(entry.payload, s.redaction)
        after = edited(entry.payload)
    # For a redacted payload, "did not change" would tell something about its hidden parts.
    plain = s.redaction.payload(entry.payload) == entry.payload
    return None if plain and after == entry.payload else Replaced(entry.payload, after)


def _text(given: str, option: str) -> str:
    try:
        return text_or_file(given, option).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{option}: not UTF-8") from error
