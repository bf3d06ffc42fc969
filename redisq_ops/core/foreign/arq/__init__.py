from .queue import ArqQueue

__all__ = ["ArqQueue"]
