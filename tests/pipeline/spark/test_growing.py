"""Tables that workers write: whole files, under names that follow from their tasks; nothing of a task that failed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from odradek_pipeline.jobs.audit_logs_spark import bytes_of_tasks
from odradek_pipeline.logs.layout import FileKind, LogFile, Tree
from odradek_pipeline.spark import growing
from odradek_pipeline.spark.growing import GrowingTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {"topic": "s", "partition": "i4", "offset": "i8"}
SCHEMA = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])


class Task(NamedTuple):
    """What a worker knows of its task."""

    partition: int
    attempt: int

    def partitionId(self) -> int:
        return self.partition

    def taskAttemptId(self) -> int:
        return self.attempt


def rows(*keys: tuple[str, int, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, key, strict=True)) for key in keys], SCHEMA)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> type[Task]:
    """`task.now` is the one that runs."""

    class Context:
        now = Task(0, 0)

        @classmethod
        def get(cls) -> Task:
            return cls.now

    monkeypatch.setattr(growing, "TaskContext", Context)
    return Context  # type: ignore[return-value]


def read(table: GrowingTable) -> list[tuple[object, ...]]:
    frame = pd.read_parquet(table.folder)[SCHEMA.names].astype({"topic": "object", "partition": "int64"})
    return sorted(frame.itertuples(index=False, name=None))


@pytest.mark.parametrize("by", [(), ("topic", "partition")])
def test_a_task_that_runs_twice_has_its_rows_once(tmp_path: Path, task: type[Task], by: tuple[str, ...]) -> None:
    table = GrowingTable.begun(tmp_path / "t.parquet", COLUMNS, by)
    for number, attempt in ((0, 0), (1, 1), (0, 2), (1, 3)):
        task.now = Task(number, attempt)  # type: ignore[attr-defined]
        with table.part() as part:
            part.add(rows(("a", number, 1), ("a", number, 2), ("b", 0, number)))
            part.add(rows(("b", 0, 10 + number)))
    table.ended()
    expected = [("a", one, two) for one in (0, 1) for two in (1, 2)] + [("b", 0, one) for one in (0, 1, 10, 11)]
    assert expected == read(table)


def test_of_a_task_that_fails_nothing_is_left(tmp_path: Path, task: type[Task]) -> None:
    table = GrowingTable.begun(tmp_path / "t.parquet", COLUMNS)

    def fails() -> None:
        with table.part() as part:
            part.add(rows(("a", 0, 1)))
            raise ValueError("the disk is full")

    with pytest.raises(ValueError, match="the disk is full"):
        fails()
    assert [] == list(Path(table.folder).iterdir())
    (Path(table.folder) / ".7-part-00000-000.parquet").write_bytes(b"of a worker that was killed")
    table.ended()
    assert [] == read(table)
    assert SCHEMA.names == pd.read_parquet(table.folder).columns.tolist()


def test_what_an_earlier_audit_has_left_is_gone(tmp_path: Path, task: type[Task]) -> None:
    (tmp_path / "t.parquet").write_bytes(b"one file, of an audit without Spark")
    table = GrowingTable.begun(tmp_path / "t.parquet", COLUMNS)
    with table.part() as part:
        part.add(rows(("a", 0, 1)))
    again = GrowingTable.begun(tmp_path / "t.parquet", COLUMNS, ("topic",))
    with again.part() as part:
        part.add(rows(("b", 0, 1)))
    again.ended()
    assert [("b", 0, 1)] == read(again)


def test_spark_reads_what_tasks_have_written(tmp_path: Path, spark: SparkSession) -> None:
    for by in ((), ("topic", "partition")):
        table = GrowingTable.begun(tmp_path / "with [*]" / f"t-{len(by)}.parquet", COLUMNS, by)
        assert [] == table.rows(spark).collect()
        with table.part() as part:
            part.add(rows(("a.b-c", 3, 1), ("a.b-c", 4, 2)))
        table.ended()
        assert [("a.b-c", 3, 1), ("a.b-c", 4, 2)] == sorted(tuple(row) for row in table.rows(spark).collect())


@pytest.mark.parametrize("by", [(), ("topic", "partition")])
def test_they_are_read_without_spark(tmp_path: Path, task: type[Task], by: tuple[str, ...]) -> None:
    table = GrowingTable.begun(tmp_path / "t.parquet", COLUMNS, by)
    assert [] == list(table.frames())
    with table.part() as part:
        part.add(rows(("a.b/c", 3, 1), ("a.b/c", 4, 2), ("a.b/c", 4, 3)))
    (tmp_path / "t.parquet" / "_SUCCESS").touch()
    (tmp_path / "t.parquet" / ".7-part-00000-000.parquet").write_bytes(b"of a worker that was killed")
    read = pd.concat(list(table.frames("offset", "topic", where=pc.field("partition") == 4)))
    assert [(2, "a.b/c"), (3, "a.b/c")] == sorted(read.itertuples(index=False, name=None))


@pytest.mark.parametrize(
    ("gigabytes", "cores", "mebibytes"),
    [
        (0.1, 2, 128),  # no task is smaller
        (16, 2, 1024),  # eight for each core
        (16, 8, 256),
        (1_000, 8, 1024),  # an executor that is lost, or comes later, is worth about so much
        (20_000, 8, 5120),  # four thousand in all
        (100_000, 8, 16 << 10),
    ],
)
def test_tasks_are_as_many_as_cores_can_use(gigabytes: float, cores: int, mebibytes: int) -> None:
    size = int(gigabytes * (1 << 30))
    tree = Tree([LogFile("/t-0/0.log", FileKind.SEGMENT, "t", 0, 0, size)])
    assert mebibytes == bytes_of_tasks(tree, cores) >> 20
