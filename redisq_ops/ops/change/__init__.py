"""Every change by an operator takes this path, from every user interface.

1. `prepare.ChangeRequest` is the request; it refuses what `allowed` rules out.
2. `prepare.prepare` selects the entries (`scope`, by `ops.filter.scan`) and counts the
   consequences (`impact`); nothing is written. A plan file (`plan`) keeps them for `apply`.
3. `preview.Preview` says what will happen; the user interface shows it and asks, within `limits`.
4. `runner.ChangeRun` carries the change out: `audit_log` first, then `steps` at a rate.
   `PreparedChange.steps` chooses their kind: `entry_steps`, `whole_state`, `apply` or `transfer`;
   a `watched_replay.WatchedReplay` drives a run, and watches whether replayed entries die again.
5. `outcome.ChangeOutcome` says what was done; `undo` reverses it.

`edit`, `undo`, `consumer_steps`, `control` (settings, requests, clients), `destroy`,
`prune_processes` and `files.import_steps` have steps and a preview of their own, and the same
runner.
"""
