"""The layouts of Resque and Sidekiq: read, worked on and mended beside the programs themselves."""

from .job import Job
from .resque import ResqueQueue
from .sidekiq import SidekiqQueue
from .stock import Process, Work

__all__ = ["Job", "Process", "ResqueQueue", "SidekiqQueue", "Work"]
