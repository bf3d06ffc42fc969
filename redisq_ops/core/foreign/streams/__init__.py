"""Plain streams with consumer groups, of any program. The one change is to give pending entries to
another consumer."""

from .queue import StreamQueue

__all__ = ["StreamQueue"]
