from .queue import LaravelQueue

__all__ = ["LaravelQueue"]
