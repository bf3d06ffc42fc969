from .queue import DramatiqQueue

__all__ = ["DramatiqQueue"]
