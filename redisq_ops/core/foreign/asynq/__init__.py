from .queue import AsynqQueue

__all__ = ["AsynqQueue"]
