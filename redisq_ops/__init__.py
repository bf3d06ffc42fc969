"""Queue primitives on Redis: library, command line and live view."""

__version__ = "0.1.0"
