"""The delay set (article 003): entries that become due at a time."""

from .queue import DelaySet, Scheduled

__all__ = ["DelaySet", "Scheduled"]
