"""What an operator does: inspect, select, plan, apply, undo; uses the `Queue` protocol only."""
