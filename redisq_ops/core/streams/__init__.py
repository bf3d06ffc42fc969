"""Plain streams with consumer groups, whoever made them: looked at, never changed."""

from .queue import StreamQueue

__all__ = ["StreamQueue"]
