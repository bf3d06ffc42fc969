from .queue import BullQueue

__all__ = ["BullQueue"]
