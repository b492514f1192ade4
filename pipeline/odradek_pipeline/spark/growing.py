"""Tables that grow with the logs: written by the workers that have their rows, a file for each task.

Spark would take each row over from Python, to hand most of it back with the next question, which costs more than
finding it. A file appears once it is whole, under a name that follows from its task, so that a task that runs again, or
twice at once, replaces it by the same.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from odradek_pipeline.spark.log_tables import arrow_schema, struct_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GrowingTable", "Part"]

ROWS_READ = 8_192
"""At a time, without Spark."""


@dataclass(frozen=True, slots=True)
class GrowingTable:
    """A folder of Parquet files; `by` are columns that folders in it name, `topic=…/partition=…`."""

    folder: str
    columns: Mapping[str, str]
    by: tuple[str, ...] = ()

    @classmethod
    def begun(cls, path: Path, columns: Mapping[str, str], by: tuple[str, ...] = ()) -> GrowingTable:
        """A table without rows, in place of what an earlier audit has left there."""
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.mkdir(parents=True)
        return cls(str(path), columns, by)

    @property
    def schema(self) -> pa.Schema:
        """As Arrow says it."""
        return arrow_schema(self.columns)

    @contextlib.contextmanager
    def part(self) -> Iterator[Part]:
        """What one task has of it."""
        task = TaskContext.get()
        part = Part(self, *((task.partitionId(), task.taskAttemptId()) if task is not None else (0, 0)))
        try:
            yield part
            part.finish()
        finally:
            part.discard()

    def ended(self) -> None:
        """All tasks are done: what those that failed have left goes. A table without rows still has columns."""
        folder = Path(self.folder)
        for path in [*folder.rglob(".*.parquet")]:
            path.unlink(missing_ok=True)
        if not self.by and not any(folder.iterdir()):
            pq.write_table(self.schema.empty_table(), folder / "none.parquet")

    def frames(self, *wanted: str, where: pc.Expression | None = None) -> Iterator[pd.DataFrame]:
        """As it is read without Spark, some rows at a time: those `where`, and of these the wanted columns."""
        import pyarrow.dataset as ds  # the driver alone reads so, and at its end

        by = arrow_schema({name: self.columns[name] for name in self.by})
        found = ds.dataset(
            self.folder,
            schema=self.schema,
            format="parquet",
            partitioning=ds.partitioning(by, flavor="hive") if self.by else None,
        )
        names = wanted or tuple(self.columns)
        # By itself Arrow reads 16 batches of 131,072 rows ahead, in each of four files.
        for batch in found.to_batches(
            columns=list(names),
            filter=where,
            batch_size=ROWS_READ,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
        ):
            if len(batch):
                yield batch.to_pandas()

    def rows(self, spark: SparkSession) -> DataFrame:
        """As Spark reads them."""
        # Without this a path is a pattern, in which [ and * say something.
        read = spark.read.option("__globPaths__", "false").schema(struct_of(self.columns)).parquet(self.folder)
        return read.select(*self.columns)


@dataclass(slots=True)
class Part:
    """The rows of one task. Those of one folder come one after the other, so that one file is open at a time."""

    table: GrowingTable
    task: int
    attempt: int
    done: list[tuple[Path, Path]] = field(default_factory=list)
    """Files that are whole but for their names, and these."""
    _writer: pq.ParquetWriter | None = None
    _folder: Path | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """More rows, with the columns of the table in their order."""
        by = self.table.by
        if not by:
            self._add(Path(self.table.folder), rows)
            return
        edges = np.zeros(max(len(rows) - 1, 0), bool)
        for name in by:
            column = rows.column(name)
            edges |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
        starts = [0, *(np.flatnonzero(edges) + 1).tolist(), len(rows)]
        for start, end in pairwise(starts):
            if start < end:
                some = rows.slice(start, end - start)
                names = [f"{name}={quote(str(some.column(name)[0].as_py()), safe='')}" for name in by]
                self._add(Path(self.table.folder, *names), some.drop_columns(list(by)))

    def _add(self, folder: Path, rows: pa.RecordBatch) -> None:
        if folder != self._folder:
            self._close()
            self._folder = folder
            folder.mkdir(parents=True, exist_ok=True)
            name = f"part-{self.task:05}-{len(self.done):03}.parquet"
            self.done.append((folder / f".{self.attempt}-{name}", folder / name))
            self._writer = pq.ParquetWriter(self.done[-1][0], rows.schema, compression="snappy")
        assert self._writer is not None
        self._writer.write_batch(rows)

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def finish(self) -> None:
        """Everything is there: the files get their names."""
        self._close()
        while self.done:
            os.replace(*self.done[0])
            del self.done[0]

    def discard(self) -> None:
        """What has not got its name goes."""
        self._close()
        for path, _ in self.done:
            path.unlink(missing_ok=True)
