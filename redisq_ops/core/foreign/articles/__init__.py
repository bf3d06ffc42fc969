"""The layouts of the articles, as kept by programs that follow the articles to the letter.

They are read and never changed: none of them defines who may change what. Their known faults are
reported where the data shows them.
"""

from .circular import RawCircularQueue
from .delay import RawDelaySet
from .fair import RawFairQueue
from .request import RawRequestQueue

__all__ = ["RawCircularQueue", "RawDelaySet", "RawFairQueue", "RawRequestQueue"]
