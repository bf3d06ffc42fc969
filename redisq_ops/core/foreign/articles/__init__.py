"""The layouts of the articles as they were written, kept by programs that took them at their word.

Looked at, never changed: none of them says who may change what. Their known faults are flagged
where the data shows them.
"""

from .circular import RawCircularQueue
from .delay import RawDelaySet
from .fair import RawFairQueue
from .request import RawRequestQueue

__all__ = ["RawCircularQueue", "RawDelaySet", "RawFairQueue", "RawRequestQueue"]
