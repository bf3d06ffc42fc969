"""Keys: what each does, when it can't, and where that is shown."""
