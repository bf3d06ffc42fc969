"""`redisq spark` with all its commands, which these modules add."""

from . import spark_lake, spark_replay, spark_report, spark_submit
from .spark import commands

__all__ = ["commands", "spark_lake", "spark_replay", "spark_report", "spark_submit"]
