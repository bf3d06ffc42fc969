from .queue import BullmqQueue

__all__ = ["BullmqQueue"]
