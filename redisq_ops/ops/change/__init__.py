"""Every change an operator makes: plan, run, audit log, undo."""
