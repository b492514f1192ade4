"""Files of JSON lines on Spark, split at line ends, with the number that each object has in its file."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from odradek_pipeline.audit.lines import object_of

__all__ = ["LINES", "lines_between", "numbered", "places", "read_lines"]

LINES = (
    "file int, start bigint, place bigint, position bigint, text string, problem string, severity string, detail string"
)
"""An object has its `place` among those of its range, which begins at `start`; or a line has a problem."""
RANGE_BYTES = 32 << 20
_ROWS = 5_000


def lines_between(path: str, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The lines that begin there, and where; -1 is the end of the file. What is compressed begins at 0."""
    with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as file:
        position = start
        if start:
            file.seek(start - 1)
            position += len(file.readline()) - 1
        while end < 0 or position < end:
            line = file.readline()
            if not line:
                return
            yield position, line
            position += len(line)


def read_lines(spark: SparkSession, files: Sequence[Path], *, range_bytes: int = RANGE_BYTES) -> DataFrame:
    """Every object of every file, as text, and what is no object."""
    ranges: list[tuple[int, str, int, int]] = []
    for number, path in enumerate(files):
        size = path.stat().st_size
        starts = [0] if path.suffix == ".gz" else list(range(0, max(1, size), range_bytes))
        ends = [*starts[1:], -1]
        ranges += [(number, str(path), start, end) for start, end in zip(starts, ends, strict=True)]

    def read(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            for file, path, start, end in frame.itertuples(index=False):
                yield from _range(file, path, start, end)

    tasks = min(len(ranges), 4 * spark.sparkContext.defaultParallelism)
    listed = spark.createDataFrame(ranges, "file int, path string, start bigint, end bigint").repartition(tasks)
    return listed.mapInPandas(read, LINES)


def _range(file: int, path: str, start: int, end: int) -> Iterator[pd.DataFrame]:
    rows: list[tuple[Any, ...]] = []
    place = 0
    try:
        for position, line in lines_between(path, start, end):
            text = line.decode(errors="replace")
            if object_of(line) is not None:
                rows.append((file, start, place, position, text.rstrip("\n"), None, None, None))
                place += 1
            elif line.strip():
                name, severity = ("bad-line", "bad") if line.endswith(b"\n") else ("half-written", "info")
                rows.append((file, start, -1, position, None, name, severity, f"no JSON object: {line[:60]!r}"))
            if len(rows) >= _ROWS:
                yield _frame(rows)
                rows = []
    except (OSError, EOFError) as error:
        rows.append((file, start, -1, 0, None, "unreadable", "bad", str(error)))
    yield _frame(rows)


def _frame(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    columns = [column.split()[0] for column in LINES.split(", ")]
    numbers = dict.fromkeys(("start", "place", "position"), "int64")
    return pd.DataFrame(rows, columns=columns).astype({"file": "int32", **numbers})


def places(lines: DataFrame) -> dict[tuple[int, int], int]:
    """How many objects a file has before each of its ranges."""
    of_ranges = lines.groupBy("file", "start").agg(F.max("place").alias("last")).orderBy("file", "start")
    found: dict[tuple[int, int], int] = {}
    so_far: dict[int, int] = {}
    for row in of_ranges.collect():
        found[row["file"], row["start"]] = so_far.get(row["file"], 0)
        so_far[row["file"]] = found[row["file"], row["start"]] + row["last"] + 1
    return found


def numbered(lines: DataFrame) -> DataFrame:
    """The objects, each with its `number` in its file, as if one process had counted them."""
    bases = [(file, start, base) for (file, start), base in places(lines).items()]
    of = lines.sparkSession.createDataFrame(bases, "file int, start bigint, base bigint")
    joined = lines.where("problem is null").join(F.broadcast(of), ["file", "start"])
    return joined.select("file", (F.col("base") + F.col("place")).alias("number"), "text")
