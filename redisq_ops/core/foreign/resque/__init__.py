"""The layouts of Resque and Sidekiq: read, worked on and mended beside the programs themselves."""

from ...model.worker_process import Process, Pruned, RunningJob
from .job import Job
from .resque import ResqueQueue
from .sidekiq import SidekiqQueue

__all__ = ["Job", "Process", "Pruned", "ResqueQueue", "RunningJob", "SidekiqQueue"]
