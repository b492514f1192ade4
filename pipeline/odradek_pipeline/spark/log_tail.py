"""The source `kafka_log` as a stream: batches as they are appended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from odradek_pipeline.logs.headers import ByteRange, index_entries
from odradek_pipeline.logs.layout import LogFile
from odradek_pipeline.logs.scan import scan_range
from odradek_pipeline.logs.scanned import Scan
from odradek_pipeline.spark.log_rows import SourceOptions, read_ranges

__all__ = ["TailReader"]


@dataclass(frozen=True)
class TailWork(InputPartition):
    """A range of a tail, and the offsets in it that are new."""

    part: ByteRange
    start: int
    end: int


class TailReader(DataSourceStreamReader):
    """New batches as they are appended; a stream's offset is the next Kafka offset of each directory of a partition.

    So it goes on where it was after retention has deleted segments, and after compaction has put others in their
    place. The driver reads the headers behind the last entry of each active segment's index, and no more.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {}

    def latestOffset(self, start: dict[str, int], limit: Any = None) -> dict[str, int]:  # noqa: N802 - Spark's name
        end = {directory: int(offset) for directory, offset in start.items()}
        for directory, files in self.directories().items():
            end[directory] = max(end.get(directory, 0), next_offset(files[-1]))
        return end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        found: list[InputPartition] = []
        for directory, files in self.directories().items():
            low, high = int(start.get(directory, 0)), int(end.get(directory, 0))
            following = [*(file.base_offset for file in files[1:]), 1 << 63]
            for file, after in zip(files, following, strict=True):
                if low < high and low < after and file.base_offset < high:
                    found.append(TailWork(ByteRange(file, _position_of(file, low), active=True), low, high))
        return found

    def directories(self) -> dict[str, list[LogFile]]:
        """The segments of each partition as they are now."""
        listed: dict[str, list[LogFile]] = {}
        for file in self.options.files():
            listed.setdefault(str(Path(file.path).parent), []).append(file)
        return listed

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TailWork)
        return read_ranges([partition.part], self.options, (partition.start, partition.end))

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is kept."""


def next_offset(file: LogFile) -> int:
    """The offset behind the last whole batch of an active segment; a broker may be writing the next one."""
    entries = index_entries(file.path)
    following = file.base_offset
    for start in (entries[-1][1] if entries else 0, 0):
        for chunk in scan_range(ByteRange(file, start, active=True), Scan()):
            following = int(chunk.columns["last_offset"].max()) + 1
        if following > file.base_offset or not start:
            break
    return following


def _position_of(file: LogFile, offset: int) -> int:
    """Where to begin for an offset, by the index: at or before its batch."""
    positions = [position for relative, position in index_entries(file.path) if file.base_offset + relative < offset]
    return positions[-1] if positions else 0
