"""The layout of Resque."""

from .queue import ResqueQueue

__all__ = ["ResqueQueue"]
