"""What the audits on Spark have in common: where their tables lie, and for how long."""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from odradek_pipeline.audit.progress import Progress, followed
from odradek_pipeline.audit.result import GROWING, PARTITIONED_BY, Result
from odradek_pipeline.spark.growing import GrowingTable

__all__ = ["SparkAudit"]


@dataclass(slots=True, kw_only=True)
class SparkAudit(ABC):
    """An audit whose tables Spark writes below `out`, an absolute path."""

    spark: SparkSession
    out: Path
    began: float = field(default_factory=time.perf_counter)
    partitioned: bool = False
    """Those of `GROWING` are folders, `topic=…/partition=…`."""
    progress: Progress | None = None
    names: list[str] = field(default_factory=list)
    """Tables that were written for good."""

    @property
    def work(self) -> Path:
        """Tables that are only needed on the way."""
        return self.out / "work"

    def run(self) -> Result:
        """The result, with the seconds since the audit began; what was needed on the way is gone."""
        try:
            result = self.judged()
        finally:
            shutil.rmtree(self.work, ignore_errors=True)
        result.written = tuple(self.names)
        result.seconds = time.perf_counter() - self.began
        return result

    def judged(self) -> Result:
        """The result, while Spark is asked how far it is."""
        with followed(self.spark, self.progress):
            return self.result()

    def step(self, name: str) -> None:
        """A step begins."""
        if self.progress is not None:
            self.progress.step(name)

    @abstractmethod
    def result(self) -> Result:
        """Audit."""

    def kept(self, name: str, rows: DataFrame) -> DataFrame:
        """A table of the audit, written, and read again: what is expensive is done once."""
        self.names.append(name)
        return self._written(self.out, name, rows)

    def stored(self, name: str, rows: DataFrame) -> DataFrame:
        """The same with one that is only needed on the way."""
        return self._written(self.work, name, rows)

    def growing(self, name: str, columns: Mapping[str, str]) -> GrowingTable:
        """A table of the audit that workers write."""
        self.names.append(name)
        assert name in GROWING
        return GrowingTable.begun(self.out / f"{name}.parquet", columns, PARTITIONED_BY if self.partitioned else ())

    def working(self, name: str, columns: Mapping[str, str]) -> GrowingTable:
        """The same with one that is only needed on the way."""
        return GrowingTable.begun(self.work / f"{name}.parquet", columns)

    def _written(self, folder: Path, name: str, rows: DataFrame) -> DataFrame:
        path = str(folder / f"{name}.parquet")
        rows.write.mode("overwrite").parquet(path)
        # Without this a path is a pattern, in which [ and * say something.
        read = self.spark.read.option("__globPaths__", "false").schema(rows.schema).parquet(path)
        return read.select(*rows.columns)
