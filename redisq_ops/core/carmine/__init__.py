"""Carmine's message queue (article 001): messages in a circle, each with a state its users know."""

from .layout import CarmineLayout
from .queue import CarmineQueue, Enqueued

__all__ = ["CarmineLayout", "CarmineQueue", "Enqueued"]
