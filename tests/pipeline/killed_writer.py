"""A program that streams files into queues, and whose tasks and driver die on the way.

Arguments: the server's URL and a folder. The folder has ``in``: files of JSON rows, one per
micro-batch. In the first micro-batch of each queue the first task to have read 800 rows creates the
file ``died-KIND`` and kills its process; in the second one of the fair queue, a task creates
``waiting`` and waits to be killed with the driver.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from redisq_ops.pipeline.session.data_source import RedisqDataSource
from redisq_ops.pipeline.session.spark_session import session
from redisq_ops.pipeline.sink.data_sink import PartitionWritten, StreamWriter
from redisq_ops.pipeline.sink.write_options import parse_write_options

from .conftest import QUICK

COLUMNS = {"fair": ("client", "id", "payload"), "request": ("payload",)}
"""kinds of queues, and the columns that each is given"""


class DyingWriter(StreamWriter):
    folder: Path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartitionWritten:
        return super().write(self._until_death(iterator))

    def _until_death(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        rows = 0
        for each in batches:
            yield each
            rows += each.num_rows
            if rows < 800:
                continue
            if batch == "0" and self._first(f"died-{self.kind}"):
                os.kill(os.getpid(), signal.SIGKILL)
            if batch == "1" and self.kind == "fair" and self._first("waiting"):
                signal.pause()

    def _first(self, name: str) -> bool:
        try:
            (self.folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class DyingSource(RedisqDataSource):
    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        options = dict(self.options)
        folder = Path(options.pop("folder"))
        writer = DyingWriter(schema, overwrite, parse_write_options(options))
        writer.folder = folder
        return writer


def main(url: str, folder: Path) -> None:
    conf = [*QUICK, "spark.sql.execution.arrow.maxRecordsPerBatch=100"]
    spark = session("dying", master="local[2,4]", conf=conf)
    spark.dataSource.register(DyingSource)
    queries = []
    for kind, columns in COLUMNS.items():
        rows = (
            spark.readStream.schema("client string, id string, payload string")
            .option("maxFilesPerTrigger", 1)
            .json(str(folder / "in"))
        )
        queries.append(
            rows.select(*columns)
            .writeStream.format("dying")
            .options(queue=kind, kind=kind, url=url, folder=str(folder), name="lines")
            .option("checkpointLocation", str(folder / f"seen-{kind}"))
            .trigger(availableNow=True)
            .start()
        )
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
