"""The source `kafka_log`, and the audit of logs on Spark: the same answers as in one process."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, In, LessThan
from tests.pipeline.corpus.__main__ import unpack
from tests.pipeline.corpus.edit import Log, is_commit
from tests.pipeline.corpus.faults import FAULTS
from tests.pipeline.planting import (
    add,
    close,
    drop,
    is_data,
    is_marker,
    mark_not_bumped,
    partition_batches,
    repeat,
    segment,
)
from tests.pipeline.record_running import RUNNING, unpacked
from tests.pipeline.running_copies import grown_old, hung, whole

from odradek.records.record import Record, build_batch
from odradek_pipeline.audit.result import Result, write_result
from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.jobs.audit_logs_spark import audit_logs_on_spark
from odradek_pipeline.logs.sidecars import ABORTED
from odradek_pipeline.spark.log_source import TABLES, PushdownReader, SourceOptions, TailReader, spark_schema
from odradek_pipeline.spark.reading import read_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Recorded = Callable[[str], Path]


def found(result: Result) -> list[dict[str, Any]]:
    return sorted(result.anomalies.drop(columns=["process", "txn"]).to_dict("records"), key=str)


def test_it_finds_what_one_process_finds(spark: SparkSession, recorded: Recorded, tmp_path: Path) -> None:
    directory = recorded("hang")
    drop(directory, "orders-1", is_marker, 1)
    repeat(directory, "orders-1", is_data, -1)
    drop(directory, "orders-2", is_data, 1)
    drop(directory, "plain-1", is_data, 4)
    with segment(directory, "plain-0").open("ab") as file:
        file.write(b"\x01" * 100)
    here = audit_logs([directory])
    spread = audit_logs_on_spark(spark, [directory], tmp_path / "out", range_bytes=500)
    assert found(here) == found(spread)
    assert 5 == len(found(spread))
    assert [(one.path, one.position, one.problem) for one in here.problems] == [
        (one.path, one.position, one.problem) for one in spread.problems
    ]
    txns: Any = spark.read.parquet(str(tmp_path / "out" / "log_txns.parquet")).toPandas()
    keys = ["topic", "partition", "producer_id", "first_offset"]
    expected = here.tables["log_txns"].sort_values(keys, ignore_index=True)
    assert expected.equals(txns.astype(expected.dtypes).sort_values(keys, ignore_index=True))
    lines: Any = spark.read.parquet(str(tmp_path / "out" / "timelines.parquet")).toPandas()
    wanted = here.tables["timelines"].sort_values("begin", ignore_index=True)
    assert len(wanted) >= 9
    assert wanted.equals(lines.astype(wanted.dtypes).sort_values("begin", ignore_index=True))
    write_result(spread, tmp_path / "out")
    assert (tmp_path / "out" / "summary.json").exists()


def test_what_compaction_explains_is_a_row_for_each_kind_of_a_partition(spark: SparkSession, tmp_path: Path) -> None:
    """A compacted log has a gap before each of its batches: workers count them, and the driver gets one row."""
    for number in range(2):
        partition = tmp_path / "data" / f"t-{number}"
        partition.mkdir(parents=True)
        batches = [
            build_batch(
                [Record(value=b"x", timestamp=1)],
                base_offset=at,
                producer_id=1 + at % 3,
                producer_epoch=0,
                base_sequence=at // 3,
            )
            for at in range(4_000)
            if at % 2 or at >= 3_988
        ]
        (partition / f"{0:020}.log").write_bytes(b"".join(batches))
    (tmp_path / "data" / "cleaner-offset-checkpoint").write_text("0\n2\nt 0 3990\nt 1 3990\n")
    here = audit_logs([tmp_path / "data"])
    spread = audit_logs_on_spark(spark, [tmp_path / "data"], tmp_path / "out")
    assert found(here) == found(spread)
    assert not spread.is_bad
    rows = spread.anomalies.sort_values(["partition", "anomaly"])
    assert ["seq-first-not-zero", "seq-gap"] * 2 == rows["anomaly"].tolist()
    assert {"allowed"} == set(rows["severity"])
    assert rows["detail"].iloc[1].endswith("more like it in the partition")
    (tmp_path / "data" / "cleaner-offset-checkpoint").unlink()
    assert audit_logs_on_spark(spark, [tmp_path / "data"], tmp_path / "bad").is_bad


def test_an_undamaged_log(spark: SparkSession, recorded: Recorded, tmp_path: Path) -> None:
    result = audit_logs_on_spark(spark, [recorded("tv2")], tmp_path / "out")
    assert [] == found(result)
    assert [] == result.problems


def test_it_asks_the_coordinators_and_the_files_beside_the_segments(
    spark: SparkSession, recorded: Recorded, tmp_path: Path
) -> None:
    directory = recorded("tv2")
    close(directory)
    for _ in range(2):  # the last transaction, data and marker: only its coordinator remembers
        drop(directory, "orders-1", bool, -1)
    (index,) = (directory / "orders-0").glob("*.txnindex")
    index.write_bytes(index.read_bytes()[ABORTED.itemsize :])
    mark_not_bumped(directory, "orders-0")
    here = audit_logs([directory])
    spread = audit_logs_on_spark(spark, [directory], tmp_path / "out[1]", range_bytes=500)
    assert found(here) == found(spread)
    assert {"txn-hanging", "txn-without-marker", "txn-epoch-not-bumped"} == {row["anomaly"] for row in found(spread)}
    assert any("complete for its coordinator" in row["detail"] for row in found(spread))
    assert sorted(here.problems, key=str) == sorted(spread.problems, key=str)
    assert "bad-txn-index" in {problem.problem for problem in spread.problems}
    assert not (tmp_path / "out[1]" / "work").exists()


@pytest.mark.parametrize(
    ("name", "missing"), [("idle", []), ("tv1", ["__transaction_state-2", "__cluster_metadata-0"])]
)
def test_what_is_healthy_or_cannot_be_known_is_so_on_spark(
    spark: SparkSession, recorded: Recorded, tmp_path: Path, name: str, missing: list[str]
) -> None:
    directory = recorded(name)
    for gone in missing:
        shutil.rmtree(directory / gone)
    if missing:
        late = [Record(value=b"late", timestamp=1)]
        end = partition_batches(directory, "orders-0")[-1].next_offset
        batch = build_batch(
            late, base_offset=end, producer_id=99, producer_epoch=0, base_sequence=0, transactional=True
        )
        add(directory, "orders-0", batch)
    spread = audit_logs_on_spark(spark, [directory], tmp_path / "out")
    assert found(audit_logs([directory])) == found(spread)
    assert [("txn-hanging", "info") if missing else ("txn-orphan-marker", "allowed")] == [
        (row["anomaly"], row["severity"]) for row in found(spread)
    ]


def test_what_hangs_at_a_running_broker_is_proven_on_spark_too(spark: SparkSession, tmp_path: Path) -> None:
    """Young, and when no transaction can be as old any more."""
    history = hung()
    said = []
    for name in ("young", "old"):
        directory = whole(history).write(history, tmp_path / name)
        spread = audit_logs_on_spark(spark, [directory], tmp_path / f"out-{name}")
        assert found(audit_logs([directory])) == found(spread)
        said += [row["severity"] for row in found(spread) if row["anomaly"] == "txn-hanging"]
        grown_old(history)
    assert ["info", "bad"] == said


def test_gaps_of_compaction_are_none_on_spark(spark: SparkSession, recorded: Recorded, tmp_path: Path) -> None:
    directory = recorded("emptied")
    spread = audit_logs_on_spark(spark, [directory], tmp_path / "out")
    assert not spread.is_bad
    assert found(audit_logs([directory])) == found(spread)


def test_gaps_of_other_brokers_cleaners_are_none_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """A replica that was copied from a compacted log; and the coordinators' log of a broker that was running, which had
    been cleaned for the first time when it was copied."""
    copied = unpack("compacted_before_it_was_copied", tmp_path) / "broker-2"
    cleaned = unpacked(RUNNING / "level_1-16.tar.gz", tmp_path / "running")
    for number, directory in enumerate((copied, cleaned)):
        spread = audit_logs_on_spark(spark, [directory], tmp_path / f"out-{number}")
        assert not spread.is_bad
        assert found(audit_logs([directory])) == found(spread)


def test_causes_are_the_same_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Replicas that differ, a segment that is missing, both outcomes of one transaction, and an old decision."""
    three = unpack("three_brokers", tmp_path)
    Log(three, "orders-0", 3).drop(is_data, 2)
    Log(three, "orders-1").change(is_commit, 1, 69, b"\0")
    many = unpack("deleted_records", tmp_path)
    log = Log(many, "orders-2")
    log.remove(log.segments[1])
    for directories in (sorted(three.glob("broker-*")), [many / "broker-1"]):
        here = audit_logs(directories)
        spread = audit_logs_on_spark(spark, directories, tmp_path / "out")
        assert here.incidents is not None
        assert spread.incidents is not None
        assert len(here.incidents) == len(directories) - (len(directories) > 1)
        key = ["incident", "path"]
        one, other = (
            frame.sort_values(key, ignore_index=True).to_dict("records") for frame in (here.incidents, spread.incidents)
        )
        assert one == other


def test_what_clients_and_stores_do_is_healthy_on_spark_and_what_lies_astray_is_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    healthy, tiered = (unpack(name, tmp_path) / "broker-1" for name in ("platformatic_at_level_2", "tiered"))
    (swapped,) = (one for one in FAULTS if one.name == "partitions of the coordinators' log in each other's place")
    root = unpack(swapped.base, tmp_path)
    swapped.plant(root)
    astray = root / "broker-1"
    for directory, told in ((healthy, []), (tiered, []), (astray, ["wrong-coordinator"])):
        here, spread = audit_logs([directory]), audit_logs_on_spark(spark, [directory], tmp_path / "out")
        assert here.incidents is not None
        assert spread.incidents is not None
        assert found(here) == found(spread)
        assert told == here.incidents["incident"].tolist()
        assert here.incidents["what"].tolist() == spread.incidents["what"].tolist()


def test_its_tables(spark: SparkSession, recorded: Recorded) -> None:
    directory = recorded("tv1")
    batches = read_logs(spark, [directory])
    assert list(TABLES["batches"]) == batches.columns
    assert 173 == batches.count()
    assert 24 == batches.where("topic = 'orders' and partition < 2 and marker_type >= 0").count() + 4
    records = read_logs(spark, [directory], table="records").where("topic = 'plain' and partition = 1")
    assert ["plain-1", "plain-3", "plain-5"] * 2 == [
        row[0] for row in records.orderBy("offset").selectExpr("string(value)").collect()
    ]
    states = read_logs(spark, [directory], table="txnlog").groupBy("state").count().collect()
    assert {"Ongoing", "PrepareCommit", "CompleteCommit", "PrepareAbort", "CompleteAbort", "Empty"} == {
        row["state"] for row in states
    }


def test_a_narrower_schema_is_all_that_is_read(spark: SparkSession, recorded: Recorded) -> None:
    read = (
        spark.read.format("kafka_log")
        .schema("base_offset bigint, producer_id bigint")
        .load(str(recorded("tv1") / "orders-0"))
    )
    assert [0, 2, 3] == [row["base_offset"] for row in read.limit(3).collect()]


def test_it_tails(spark: SparkSession, recorded: Recorded, tmp_path: Path) -> None:
    directory = recorded("tv2")
    path = segment(directory, "orders-0")
    whole = path.read_bytes()
    count = len(partition_batches(directory, "orders-0"))
    path.write_bytes(whole[:1000])  # in the middle of a batch

    def catch_up() -> int:
        stream = spark.readStream.format("kafka_log").option("topics", "orders").load(str(directory / "orders-0"))
        query = (
            stream.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
        )
        query.trigger(availableNow=True).start().awaitTermination()
        return spark.read.parquet(str(tmp_path / "out")).count()

    assert 0 < catch_up() < count
    path.write_bytes(whole)
    assert count == catch_up()


def _reader(directory: Path) -> PushdownReader:
    return PushdownReader(
        SourceOptions([str(directory)], "batches", list(spark_schema("batches").names), [], False, 1 << 20)
    )


def _segments(tmp_path: Path) -> Path:
    for topic in ("a-0", "a-1", "b-0"):
        (tmp_path / topic).mkdir()
        for offset in (0, 10, 20):
            (tmp_path / topic / f"{offset:020}.log").write_bytes(
                build_batch([Record(value=b"x", timestamp=1)], base_offset=offset)
            )
    return tmp_path


@pytest.mark.parametrize(
    ("filters", "names", "left"),
    [
        ([EqualTo(("topic",), "b")], ["b-0/0", "b-0/10", "b-0/20"], 0),
        ([In(("topic",), ("a", "b")), EqualTo(("partition",), 1)], ["a-1/0", "a-1/10", "a-1/20"], 0),
        ([EqualTo(("topic",), "b"), GreaterThan(("base_offset",), 12)], ["b-0/10", "b-0/20"], 1),
        ([EqualTo(("topic",), "b"), LessThan(("base_offset",), 9)], ["b-0/0"], 1),
        (
            [EqualTo(("topic",), "b"), LessThan(("last_offset",), 9), EqualTo(("crc",), 1)],
            ["b-0/0", "b-0/10", "b-0/20"],
            2,
        ),
    ],
)
def test_filters_leave_out_segments(tmp_path: Path, filters: list[Any], names: list[str], left: int) -> None:
    reader = _reader(_segments(tmp_path))
    assert left == len(list(reader.pushFilters(filters)))
    ranges = [part.file for work in reader.partitions() for part in work.ranges]  # type: ignore[attr-defined]
    assert names == [f"{file.topic}-{file.partition}/{file.base_offset}" for file in ranges]


def test_tailing_ends_at_a_whole_batch(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    path = tmp_path / "t-0" / f"{0:020}.log"
    batch = build_batch([Record(value=b"x", timestamp=1)])
    path.write_bytes(batch + batch[:20])
    reader = TailReader(SourceOptions([str(tmp_path)], "batches", ["base_offset"], [], False, 1 << 20))
    end = reader.latestOffset({})
    assert {str(path.parent): 1} == end
    assert [] == reader.partitions(end, end)
    path.write_bytes(batch + bytes(build_batch([Record(value=b"y", timestamp=1)], base_offset=1)))
    assert {str(path.parent): 2} == reader.latestOffset(end)
    (work,) = reader.partitions(end, reader.latestOffset(end))
    assert [[1]] == [batch.column(0).to_pylist() for batch in reader.read(work)]


def test_a_tail_goes_on_behind_retention_and_compaction(tmp_path: Path) -> None:
    """Segments go, and others take their place: offsets stay what they were."""
    directory = _segments(tmp_path) / "a-0"
    reader = TailReader(SourceOptions([str(directory)], "batches", ["base_offset"], [], False, 1 << 20))
    end = reader.latestOffset({})
    assert {str(directory): 21} == end
    (directory / f"{0:020}.log").unlink()
    (directory / f"{10:020}.log").write_bytes(b"")
    (directory / f"{20:020}.log").write_bytes(
        b"".join(build_batch([Record(value=b"x" * 99, timestamp=1)], base_offset=at) for at in (20, 25, 30))
    )
    later = reader.latestOffset(end)
    assert {str(directory): 31} == later
    new = [batch.column(0).to_pylist() for work in reader.partitions(end, later) for batch in reader.read(work)]
    assert [[25, 30]] == new
    for path in directory.glob("*.log"):
        path.unlink()
    assert later == reader.latestOffset(later), "nothing is there, and nothing is new"


def test_times_leave_out_closed_segments(tmp_path: Path) -> None:
    directory = _segments(tmp_path) / "a-0"
    for offset, newest in ((0, 100), (10, 200), (20, 300)):
        entry = newest.to_bytes(8) + (0).to_bytes(4)
        (directory / f"{offset:020}.timeindex").write_bytes(entry)
    reader = _reader(directory)
    assert 1 == len(list(reader.pushFilters([GreaterThan(("max_timestamp",), 150)])))
    assert [10, 20] == [part.file.base_offset for work in reader.partitions() for part in work.ranges]  # type: ignore[attr-defined]


def test_headers_of_records(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    record = Record(value=b"v", timestamp=1, headers=(("trace", b"1"), ("trace", None), ("na\udcffme", b"")))
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(build_batch([record]))
    names = list(spark_schema("records").names)
    reader = TailReader(SourceOptions([str(tmp_path)], "records", names, [], False, 1 << 20))
    (work,) = reader.partitions({}, reader.latestOffset({}))
    (batch,) = reader.read(work)
    (headers,) = batch.column(names.index("headers")).to_pylist()
    assert [("trace", b"1"), ("trace", None), ("na\ufffdme", b"")] == [(one["key"], one["value"]) for one in headers]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "nonsense"}, "has no table nonsense"),
        ({}, "needs a log directory"),
        ({"path": "/nowhere/at-all"}, "cannot read /nowhere/at-all: it is not there"),
    ],
)
def test_wrong_options(spark: SparkSession, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        spark.read.format("kafka_log").options(**options).load().count()


def test_what_coordinators_would_not_write_is_one_incident_there_too(spark: SparkSession, tmp_path: Path) -> None:
    """Steps are judged id by id, what two ids share on the driver, directories that were exchanged by both, and markers
    that nobody decided by workers that know whether the coordinators' log is whole."""
    wanted = {
        "one producer id of two transactional ids": "txn-shared-producer",
        "two partitions in each other's place": "wrong-partition",
        "a whole transaction of a producer that no coordinator knows": "undecided-marker",
        "a whole transaction too many of an epoch, at level 0": "undecided-marker",
    }
    planted = {fault.name: fault for fault in FAULTS if fault.name in wanted}
    for number, (name, incident) in enumerate(wanted.items()):
        root = unpack(planted[name].base, tmp_path / str(number))
        planted[name].plant(root)
        now = int(time.time() * 1000)
        here = audit_logs([root / "broker-1"], not_after=now)
        spread = audit_logs_on_spark(spark, [root / "broker-1"], tmp_path / f"out-{number}", not_after=now)
        assert here.incidents is not None
        assert spread.incidents is not None
        assert [incident] == spread.incidents["incident"].tolist()
        assert here.incidents["what"].tolist() == spread.incidents["what"].tolist()
        assert sorted(one.problem for one in here.problems) == sorted(one.problem for one in spread.problems)


def test_small_files_are_read_by_workers_where_they_are_many(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What groups have committed, and what lies beside the segments."""
    monkeypatch.setattr("odradek_pipeline.jobs.audit_logs_spark.SMALL_BYTES", 0)
    (fault,) = (one for one in FAULTS if one.name == "a committed offset behind the end")
    root = unpack(fault.base, tmp_path)
    fault.plant(root)
    index = root / "broker-1" / "orders-0" / f"{0:020}.index"
    entries = index.read_bytes()
    index.write_bytes(entries[8:16] + entries[:8])
    here = audit_logs([root / "broker-1"])
    spread = audit_logs_on_spark(spark, [root / "broker-1"], tmp_path / "out")
    told = [one for one in spread.problems if one.problem == "offset-behind-end"]
    assert 1 == len(told)
    assert told == [one for one in here.problems if one.problem == "offset-behind-end"]
    assert "bad-index" in {one.problem for one in here.problems}
    assert {(one.path, one.problem) for one in here.problems} == {(one.path, one.problem) for one in spread.problems}
