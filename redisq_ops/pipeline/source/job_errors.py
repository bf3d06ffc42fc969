"""Spark's failures as errors of this program, each in one line without stack traces; and errors of
this program as Spark shows them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from redisq_ops.core.model import errors
from redisq_ops.core.model.errors import BadInput, RedisqError, Unreachable

T = TypeVar("T")

_OWN_ERROR = re.compile(rf"{re.escape(errors.__name__)}\.(\w+): (.*)")
_TRACEBACK = "Traceback (most recent call last):"
_HEADER = re.compile(r"CSV header does not conform to the schema.*?CSV file: (\S+)", re.DOTALL)
_FILE_URL = re.compile(r"\bfile:/+")
"""Spark's URL of a file has three slashes, Hadoop's one"""
_DENIED = re.compile(r"(?:AccessDenied|FileNotFound)Exception: (\S+?):? \(?Permission denied")
_FILE = re.compile(r"\[FAILED_READ_FILE\S*\] .*? file (\S+?)\. ")


@contextmanager
def message_first() -> Iterator[None]:
    """In a Python worker of Spark: report an error of this program without its traceback.

    Spark's exception then has the message in its first line, after Spark's own words. The setting
    is Spark's own. A worker ends after an error, so the setting affects this error only.
    """
    try:
        yield
    except RedisqError:
        spec = sys.modules["__main__"].__spec__
        if spec is not None and spec.name.startswith("pyspark."):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def translating(job: Callable[[], T]) -> T:
    """The result of a job; its failure is raised as `translate_job_error` returns it."""
    try:
        return job()
    except RedisqError:
        raise
    except Exception as error:
        raise translate_job_error(error) from error


def translate_job_error(error: Exception) -> Exception:
    """A failed job's error: the `RedisqError` that a task raised, else one with the cause.

    An exception that is not Spark's is returned unchanged.
    """
    if isinstance(error, RedisqError):
        return error
    if _is_lost(error):
        return Unreachable("Spark has ended (killed, or out of memory): run the same command again")
    text = _FILE_URL.sub("/", str(error))
    own = _OWN_ERROR.findall(text)
    if own:
        name, message = own[-1]
        kind = getattr(errors, name, RedisqError)
        found: Exception = kind(message.strip())
        return found
    if "No space left on device" in text:
        return RedisqError("the disk is full: what was written so far is not part of the result")
    if "S3AFileSystem not found" in text or "No FileSystem for scheme" in text:
        return BadInput(
            "to read an object store, Spark needs Hadoop's client: "
            "--conf spark.jars.packages=org.apache.hadoop:hadoop-aws:3.5.0"
        )
    if denied := _DENIED.search(text):
        return BadInput(f"Permission denied: {denied[1]}")
    if "Python worker exited unexpectedly" in text:
        return RedisqError(
            "the job failed: a Python worker process died (run the same command again to continue)"
        )
    if header := _HEADER.search(text):
        return BadInput(f"{header[1]}: its header differs from the other files' in names or order")
    if type(error).__name__ in ("AnalysisException", "ParseException"):
        return BadInput(short_message(error))
    if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
        return error
    if file := _FILE.search(text):
        why = cause(text).removeprefix("RuntimeException: ")
        return BadInput(why if why.startswith(file[1]) else f"{file[1]}: {why}")
    return RedisqError(f"the job failed: {cause(text)}")


def _is_lost(error: Exception) -> bool:
    """Whether the JVM or the Connect server is gone, so that all calls to it fail, cleanup too."""
    if isinstance(error, BrokenPipeError):  # standard output may raise it too
        return False
    if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
        return True
    return type(error).__name__ == "SparkConnectGrpcException" and "UNAVAILABLE" in str(error)


def cause(text: str) -> str:
    """The exception at the end of a Python worker's traceback, else the JVM's innermost one."""
    if _TRACEBACK in text:
        lines = text.rpartition(_TRACEBACK)[2].splitlines()
        raised = next((line for line in lines if line and not line[0].isspace()), "")
        if raised:
            return raised.strip()
    thrown = re.findall(r"^(?:Caused by)?: (.+)", text, re.MULTILINE)
    line = thrown[-1] if thrown else text.strip().partition("\n")[0]
    without_class = re.sub(r"^([\w$]+\.)+", "", line.strip())
    return re.sub(r"\[[A-Z_.]+\] | ?SQLSTATE: \w+", "", without_class) or "Spark gives no reason"


def short_message(error: Exception) -> str:
    """The first line of Spark's message about a query or an input, without plan and codes."""
    line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return line.partition(" SQLSTATE")[0].removeprefix("[").replace("] ", ": ", 1)
