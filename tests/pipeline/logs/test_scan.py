"""The scanner, on files of a real Kafka and on broken ones: every byte that is not read is a problem."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.pipeline.planting import partition_batches, segment

from odradek.cli.usage import UsageError
from odradek.records.batch import batches
from odradek.records.compression import Compression
from odradek.records.control import read_marker
from odradek.records.message_set import message_set
from odradek.records.record import Record, build_batch
from odradek.records.state import encode_key, encode_value
from odradek.wire.messages.transaction_log_key import TransactionLogKey
from odradek.wire.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from odradek_pipeline.logs.layout import FileKind, LogFile, find_files
from odradek_pipeline.logs.payload import records_of, transaction_log
from odradek_pipeline.logs.scan import COLUMNS, plan_ranges, scan_range, scan_segments
from odradek_pipeline.logs.scanned import Scan
from odradek_pipeline.logs.sidecars import read_sidecar
from odradek_pipeline.logs.summary import scan_directories

Recorded = Callable[[str], Path]


def problems(directory: Path, *, check_crc: bool = True) -> list[tuple[str, str, int]]:
    """The names, severities and positions of all problems."""
    return [
        (found.problem, found.severity, found.position)
        for found in scan_directories([directory], check_crc=check_crc).problems
    ]


@pytest.mark.parametrize("name", ["tv1", "tv2", "hang"])
def test_every_header_is_what_the_codec_reads(recorded: Recorded, name: str) -> None:
    files = [file for file in find_files([recorded(name)]).files if file.kind is FileKind.SEGMENT]
    scan = Scan(check_crc=True)
    count = 0
    for chunk in scan_segments(files, scan):
        rows = zip(*(chunk.columns[column].tolist() for column in COLUMNS), strict=True)
        position = 0
        for row, batch in zip(rows, batches(memoryview(Path(chunk.file.path).read_bytes())), strict=True):
            marker = read_marker(batch)
            assert (
                position,
                batch.size,
                batch.base_offset,
                batch.last_offset,
                batch.partition_leader_epoch,
                batch.crc,
                batch.attributes,
                batch.base_timestamp,
                batch.max_timestamp,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.last_sequence,
                batch.record_count,
                int(marker.commit) if marker else -1,
                marker.coordinator_epoch if marker else -1,
            ) == row
            position += batch.size
            count += 1
    assert [] == scan.problems
    assert count == scan.batches > 100


def test_nothing_is_wrong_with_what_kafka_left(recorded: Recorded) -> None:
    for name in ("tv1", "tv2", "hang"):
        assert [] == problems(recorded(name))


def test_a_summary_counts(recorded: Recorded) -> None:
    summary = scan_directories([recorded("tv1")])
    (row,) = [row for row in summary.partitions if (row.topic, row.partition) == ("orders", 0)]
    assert (8, 4, 4, 47) == (row.commits, row.aborts, row.aborted_in_index, row.last_offset)
    assert {"Ongoing": 1} == summary.transactions


@pytest.mark.parametrize(("name", "versions", "levels"), [("tv1", {1}, {0}), ("tv2", {1}, {0, 2})])
def test_the_coordinators_log(recorded: Recorded, name: str, versions: set[int], levels: set[int]) -> None:
    records = transaction_log(find_files([recorded(name)]).files, Scan())
    assert ["Empty", "Ongoing"] == [record.state for record in records[:2]]
    assert versions == {record.value_version for record in records}
    assert levels == {record.client_transaction_version for record in records}
    assert (("orders", 2),) == records[-1].partitions


def test_records_are_decompressed(recorded: Recorded) -> None:
    files = [file for file in find_files([recorded("tv1")], topics=["plain"]).files if file.partition == 0]
    (chunk,) = scan_segments(files, Scan())
    assert [b"plain-0", b"plain-2", b"plain-4"] * 2 == [record.value for _, record in records_of(chunk, Scan())]


def test_a_half_written_batch_at_the_end_of_a_live_segment(recorded: Recorded) -> None:
    directory = recorded("tv1")
    path = segment(directory, "orders-0")
    content = path.read_bytes()
    path.write_bytes(content[:-5])
    last = partition_batches(directory, "orders-0")[-1]
    assert [("half-written", "info", last.next_offset and len(content) - 78)] == problems(directory)


def test_a_half_written_batch_in_the_middle_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    batch = build_batch([Record(value=b"x", timestamp=1)])
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(batch + batch[:30])
    (tmp_path / "t-0" / f"{9:020}.log").write_bytes(build_batch([Record(value=b"x", timestamp=1)], base_offset=9))
    assert [("half-written", "bad", len(batch))] == problems(tmp_path)


def test_a_broken_length_is_skipped_to_the_next_index_entry(recorded: Recorded) -> None:
    directory = recorded("tv1")
    path = segment(directory, "orders-0")
    content = bytearray(path.read_bytes())
    found = partition_batches(directory, "orders-0")
    start = sum(batch.size for batch in found[:10])
    content[start + 8 : start + 12] = (3).to_bytes(4)
    path.write_bytes(content)
    assert [("broken", "bad", start)] == problems(directory)
    scan = Scan()
    (first, second) = scan_segments(
        [file for file in find_files([directory], topics=["orders"]).files if file.partition == 0], scan
    )
    assert 10 == len(first)
    assert found[-1].last_offset == second.columns["last_offset"][-1]


def test_a_wrong_checksum(recorded: Recorded) -> None:
    directory = recorded("tv2")
    path = segment(directory, "orders-1")
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)
    assert [("bad-crc", "bad", 0)] == problems(directory)
    assert [("bad-crc", "bad", 0)] == problems(directory, check_crc=False), "nobody stopped this broker cleanly"
    (directory / ".kafka_cleanshutdown").touch()
    assert [] == problems(directory, check_crc=False)


@pytest.mark.parametrize(
    ("magic", "found"),
    [(1, [("old-magic", "info"), ("bad-crc", "bad"), ("bad-timestamp", "bad")]), (3, [("unknown-magic", "bad")])],
)
def test_another_magic(recorded: Recorded, magic: int, found: list[tuple[str, str]]) -> None:
    directory = recorded("tv2")
    path = segment(directory, "orders-1")
    content = bytearray(path.read_bytes())
    content[16] = magic
    path.write_bytes(content)
    assert [(problem, severity, 0) for problem, severity in found] == problems(directory)


def test_messages_of_the_formats_before_0_11(tmp_path: Path) -> None:
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    some = [Record(offset, 1_000 * offset, b"k", b"v") for offset in range(5)]
    parts = [
        message_set(some, magic=0),
        message_set([replace(each, offset=5 + each.offset) for each in some], magic=1, compression=Compression.GZIP),
        build_batch([Record(10, 10_000)], base_offset=10),
        message_set([Record(11, 11_000)], magic=1),  # shorter than the header of a batch
    ]
    path.write_bytes(b"".join(parts))
    scan = Scan(check_crc=True)
    files = [file for file in find_files([tmp_path]).files if file.kind is FileKind.SEGMENT]
    chunks = [*scan_segments(files, scan)]
    assert [("old-magic", 0)] == [(problem.problem, problem.position) for problem in scan.problems]
    columns = {name: [each for chunk in chunks for each in chunk.columns[name].tolist()] for name in COLUMNS}
    assert [*range(5), 5, 10, 11] == columns["base_offset"]
    assert [*range(5), 9, 10, 11] == columns["last_offset"]
    assert [*[-1] * 5, 4_000, 10_000, 11_000] == columns["max_timestamp"]
    assert [-1] * 8 == columns["producer_id"] == columns["leader_epoch"]
    assert [*[1] * 5, 5, 1, 1] == columns["record_count"]
    values = [record.offset for chunk in chunks for _, record in records_of(chunk, scan)]
    assert [*range(12)] == values
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert ("bad-crc", "bad", len(content) - len(parts[-1])) in problems(tmp_path)


def test_zeros_at_the_end(recorded: Recorded) -> None:
    directory = recorded("tv2")
    path = segment(directory, "orders-1")
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(bytes(5000))
    assert [("zero-tail", "info", size)] == problems(directory)


@pytest.mark.parametrize("size", [1, 11, 60, 61, 100])
def test_rubbish_is_never_a_crash(tmp_path: Path, size: int) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(os.urandom(size) if size == 100 else b"\xff" * size)
    assert 1 == len(problems(tmp_path))


def test_a_segment_that_vanishes(tmp_path: Path) -> None:
    scan = Scan()
    gone = LogFile(str(tmp_path / f"{0:020}.log"), FileKind.SEGMENT, "t", 0, 0, 100)
    assert [] == list(scan_segments([gone], scan))
    assert [("vanished", "info")] == [(found.problem, found.severity) for found in scan.problems]


def test_an_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "t-0" / f"{0:020}.log").mkdir(parents=True)
    assert [("unreadable", "bad", 0)] == problems(tmp_path)


@pytest.mark.parametrize(
    ("suffix", "change", "problem"),
    [
        (".snapshot", lambda content: content[:-1] + b"\xff", "bad-crc"),
        (".snapshot", lambda content: b"\0\x02" + content[2:], "unknown-version"),
        (".snapshot", lambda content: content[:5], "half-written"),
        (".txnindex", lambda content: content + b"123", "half-written"),
        (".txnindex", lambda content: b"\0\x01" + content[2:], "unknown-version"),
        (".txnindex", lambda content: content[34:] + content[:34], "bad-index"),
        (".index", lambda content: content[:4] + b"\x7f\0\0\0" + content[8:], "bad-index"),
    ],
)
def test_what_is_wrong_beside_a_segment(
    recorded: Recorded, suffix: str, change: Callable[[bytes], bytes], problem: str
) -> None:
    directory = recorded("hang")
    (path,) = (directory / "orders-0").glob(f"*{suffix}")
    path.write_bytes(change(path.read_bytes()))
    assert problem in [name for name, _, _ in problems(directory)]


def test_a_snapshot_says_where_a_transaction_is_open(recorded: Recorded) -> None:
    (file,) = [file for file in find_files([recorded("hang") / "orders-0"]).files if file.kind is FileKind.SNAPSHOT]
    (producer,) = read_sidecar(file).entries
    assert (1, 0, 36) == (producer["producer_id"], producer["producer_epoch"], producer["current_txn_first_offset"])


def test_ranges_cut_a_segment_without_a_seam(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    content = bytearray()
    entries = bytearray()
    for offset in range(300):
        entries += offset.to_bytes(4) + len(content).to_bytes(4)
        content += build_batch([Record(value=b"x" * offset, timestamp=1)], base_offset=offset)
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(content)
    (tmp_path / "t-0" / f"{0:020}.index").write_bytes(entries)
    files = find_files([tmp_path]).files
    ranges = plan_ranges(files, range_bytes=8000)
    assert 5 < len(ranges)
    scan = Scan(check_crc=True)
    offsets = [
        offset
        for part in ranges
        for chunk in scan_range(part, scan)
        for offset in chunk.columns["base_offset"].tolist()
    ]
    assert list(range(300)) == offsets
    assert [] == scan.problems
    assert len(content) == scan.bytes_read


def odradek(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return subprocess.run(
        [sys.executable, "-m", "odradek", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_the_command_prints_json_and_fails_on_what_is_bad(recorded: Recorded) -> None:
    directory = recorded("tv2")
    done = odradek("scan", directory, "--json")
    assert 0 == done.returncode
    assert [] == json.loads(done.stdout)["problems"]
    segment(directory, "orders-0").write_bytes(b"\x01" * 100)
    done = odradek("scan", directory)
    assert 1 == done.returncode
    assert "broken" in done.stdout


def test_a_wrong_argument_ends_in_one_sentence(tmp_path: Path) -> None:
    done = odradek("scan", tmp_path / "nowhere")
    assert (2, f"odradek: There is no {tmp_path}/nowhere.\n") == (done.returncode, done.stderr)


def test_without_the_extra_a_command_ends_in_one_sentence() -> None:
    from odradek_pipeline.commands.needs import need

    with pytest.raises(UsageError, match=r"pip install 'odradek\[audit\]'"):
        need("a_module_that_is_not_there")


def test_scanning_imports_neither_spark_nor_pandas(recorded: Recorded) -> None:
    code = (
        "import sys; from odradek_pipeline.logs.summary import scan_directories; scan_directories(sys.argv[1:]); "
        "print({'pyspark', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(recorded("tv1"))], capture_output=True, text=True, check=True
    )
    assert "set()\n" == done.stdout


def test_the_coordinators_log_of_level_0_tombstones_and_what_is_not_known(tmp_path: Path) -> None:
    key = encode_key(TransactionLogKey(transactional_id="t"))
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=1,
        transaction_status=1,
        transaction_partitions=[PartitionsSchema(topic="a", partition_ids=[2, 0])],
        transaction_start_timestamp_ms=5,
    )
    records = [
        Record(key=key, value=encode_value(value, 0), timestamp=1),
        Record(key=key, value=None, timestamp=1),
        Record(key=key, value=b"\0\x09rest", timestamp=1),
        Record(key=b"\0\x05rest", value=b"", timestamp=1),
        Record(key=key, value=encode_value(value, 0)[:9], timestamp=1),
    ]
    (tmp_path / "__transaction_state-0").mkdir()
    (tmp_path / "__transaction_state-0" / f"{0:020}.log").write_bytes(build_batch(records))
    scan = Scan()
    first, tombstone = transaction_log(find_files([tmp_path]).files, scan)
    assert (0, "Ongoing", 7, 1, 5, (("a", 0), ("a", 2))) == (
        first.value_version,
        first.state,
        first.producer_id,
        first.producer_epoch,
        first.start,
        first.partitions,
    )
    assert (1, "") == (tombstone.offset, tombstone.state)
    assert ["unknown-version", "unknown-record", "bad-records"] == [found.problem for found in scan.problems]
