"""Which entries are meant: the filter language and the scan that applies it."""
