from .queue import CeleryQueue

__all__ = ["CeleryQueue"]
