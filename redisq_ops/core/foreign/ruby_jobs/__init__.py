"""What the layouts of Resque and Sidekiq have in common: JSON records of Ruby jobs in lists.

Read, worked on and changed beside the programs themselves. The folders `resque` and `sidekiq` have
what differs.
"""

from .job import Job

__all__ = ["Job"]
