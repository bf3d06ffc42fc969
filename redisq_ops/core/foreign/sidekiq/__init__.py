"""The layout of Sidekiq."""

from .queue import SidekiqQueue

__all__ = ["SidekiqQueue"]
