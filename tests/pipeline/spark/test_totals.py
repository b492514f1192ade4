"""What workers count of the batches that they read is what the audit without Spark takes from all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from bench.audit_scale.logs import Plan, make_logs

from odradek_pipeline.directories.proof import written_until
from odradek_pipeline.jobs.audit_logs import digests_of, ends_of, newest, producers_of, read_batches, times_of
from odradek_pipeline.logs.headers import digest
from odradek_pipeline.logs.layout import FileKind, find_files
from odradek_pipeline.logs.scan import plan_ranges
from odradek_pipeline.logs.scanned import Scan
from odradek_pipeline.spark.log_rows import SourceOptions, read_ranges
from odradek_pipeline.spark.log_tables import TABLES
from odradek_pipeline.spark.totals import FAR, Totals, by_partition


def counted(directory: Path, range_bytes: int, not_after: int) -> dict[tuple[str, int], Totals]:
    """By the rows that tasks hand on."""
    options = SourceOptions([str(directory)], "audit", list(TABLES["audit"]), [], False, range_bytes)
    options.not_after = not_after
    segments = find_files([directory]).of(FileKind.SEGMENT)
    rows = [
        row
        for part in plan_ranges(segments, range_bytes=range_bytes)
        for batch in read_ranges([part], options)
        for row in batch.to_pylist()
        if row["totals"] is not None
    ]
    return by_partition((row["topic"], row["partition"], row["totals"]) for row in rows)


def compared(directory: Path, range_bytes: int, not_after: int) -> None:
    found = counted(directory, range_bytes, not_after)
    scan = Scan()
    batches = read_batches(find_files([directory]).files, scan)
    assert scan.batches == sum(of.batches for of in found.values())
    assert ends_of(batches) == {key: of.end for key, of in found.items()}
    assert times_of(batches) == {key: of.newest for key, of in found.items()}
    assert producers_of(batches) == {key: of.producer for key, of in found.items()}
    assert digests_of(batches) == {key: (of.data, of.digest) for key, of in found.items() if of.data}
    assert written_until(batches, not_after) == {key: of.written for key, of in found.items() if of.written >= 0}
    assert newest(batches, not_after) == max(of.clock for of in found.values())
    assert int((batches["marker_type"] >= 0).sum()) == sum(of.markers for of in found.values())


def test_of_a_real_broker(recorded: Callable[[str], Path]) -> None:
    compared(recorded("tv2"), 1 << 20, FAR)


def test_of_segments_in_several_ranges(tmp_path: Path) -> None:
    make_logs(tmp_path / "logs", Plan(8 << 20, segment_bytes=2 << 20))
    times = read_batches(find_files([tmp_path / "logs"]).files, Scan())["max_timestamp"]
    compared(tmp_path / "logs", 512 << 10, int(times.median()))
    events = {key: of for key, of in counted(tmp_path / "logs", 1 << 20, FAR).items() if key[0] == "events"}
    assert 1 == len({of.digest for of in events.values()}), "the bench writes the same to all partitions"


def test_a_digest_says_which_batches_and_where() -> None:
    offsets, sums = np.arange(0, 50, 5, dtype=np.int64), np.arange(10, dtype=np.uint32)
    whole = digest(offsets, sums)
    assert whole == digest(offsets[:4], sums[:4]) ^ digest(offsets[4:], sums[4:])
    assert len({whole, digest(offsets + 1, sums), digest(offsets, sums[::-1]), 0}) == 4
    assert 0 == digest(offsets[:0], sums[:0])
