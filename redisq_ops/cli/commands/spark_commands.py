"""`redisq spark` with all its commands."""

from . import spark_lake, spark_replay, spark_report, spark_submit  # noqa: F401  (they add commands)
from .spark import commands

__all__ = ["commands"]
