"""Jobs over many entries: submit, replay, collect results."""
