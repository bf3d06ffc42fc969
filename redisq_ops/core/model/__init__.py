"""Values, names, settings and errors. No I/O."""
