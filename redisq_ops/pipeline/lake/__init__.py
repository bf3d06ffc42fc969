"""Tables kept as Delta tables."""
