from .queue import RqQueue

__all__ = ["RqQueue"]
