"""Plain streams with consumer groups, whoever made them: looked at, and changed in one thing only,
which consumer has what."""

from .queue import StreamQueue

__all__ = ["StreamQueue"]
