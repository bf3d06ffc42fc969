"""A table of any length: columns, cursor, filters."""
