"""Every change an operator makes takes one path, from every face.

1. `prepare.ChangeRequest` is what is asked for; it refuses what `allowed` rules out.
2. `prepare.prepare` selects the entries (`scope`, by `ops.filter.scan`) and counts what they
   are like (`impact`); nothing is written. A plan file (`plan`) keeps them for `apply`.
3. `preview.Preview` says what will happen; the face shows it and asks, within `limits`.
4. `runner.ChangeRun` carries the change out: `audit_log` first, then `steps` at a rate.
   `PreparedChange.steps` chooses their kind: `entry_steps`, `whole_state`, `apply` or `transfer`;
   a `watched_replay.WatchedReplay` drives a run by observing what comes of it.
5. `outcome.ChangeOutcome` is what was done; `undo` reverses it.

`edit`, `undo`, `consumer_steps`, `control` (settings, requests, clients), `destroy`,
`prune_processes` and `files.import_steps` have steps and a preview of their own, and the same
runner.
"""
