"""Values, entries and clients as sections of foldable lines."""
