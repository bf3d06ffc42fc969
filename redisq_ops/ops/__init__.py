"""What an operator does: look, select, plan, apply, undo; over the `Queue` protocol only."""
