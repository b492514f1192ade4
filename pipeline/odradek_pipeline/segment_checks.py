"""What stands beside a segment, held against its batches as they go by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from odradek.records.batch import DELETE_HORIZON, LOG_APPEND_TIME
from odradek_pipeline.layout import problem
from odradek_pipeline.log_dirs import epochs_of

if TYPE_CHECKING:
    from odradek_pipeline.scan import ByteRange, Chunk, Scan

__all__ = ["BesideSegment"]


class BesideSegment:
    """What stands beside a segment, held against its batches as they go by: counts, leader epochs, the sparse index.

    Of each kind of disagreement the first is noted, with how many follow it.
    """

    def __init__(self, part: ByteRange, scan: Scan) -> None:
        self.part, self.file, self.scan = part, part.file, scan
        self.epoch_before = -1
        epochs = np.array(epochs_of(Path(part.file.path).parent), np.int64).reshape(-1, 2)
        self.epochs, self.epoch_starts = epochs[:, 0], epochs[:, 1]
        self.index = _raw_index(part.file.path)

    def check(self, chunk: Chunk, *, is_last: bool) -> None:
        """Check the batches of one chunk; the last one of its range says where the segment ends."""
        columns = chunk.columns
        self.check_counts(columns)
        self.check_times(columns)
        self.check_epochs(columns)
        self.check_index(columns, is_last=is_last)

    def note(self, at: NDArray[np.int64], columns: dict[str, NDArray[Any]], name: str, detail: str) -> None:
        more = f", and {len(at) - 1} more like it" if len(at) > 1 else ""
        self.scan.note(self.file, int(columns["position"][at[0]]), name, detail + more)

    def check_counts(self, columns: dict[str, NDArray[Any]]) -> None:
        """A batch has a record for each offset; only compaction takes some away."""
        room = columns["last_offset"] - columns["base_offset"] + 1
        count = columns["record_count"].astype(np.int64)
        cleaned = (columns["base_offset"] < self.part.cleaned_upto) | (columns["attributes"] & DELETE_HORIZON != 0)
        wrong = np.flatnonzero((count > room) | (count < 0) | (~cleaned & (count != room)))
        if len(wrong):
            at = wrong[0]
            detail = (
                f"the batch at offset {columns['base_offset'][at]} says {count[at]} records, its offsets are {room[at]}"
            )
            self.note(wrong, columns, "bad-count", detail)

    def check_times(self, columns: dict[str, NDArray[Any]]) -> None:
        """The newest record of a batch is not older than its first, where producers give the times.

        Brokers put the newest time in themselves. A delete horizon stands in place of the first one (KIP-534).
        """
        first, newest = columns["base_timestamp"], columns["max_timestamp"]
        given = (columns["attributes"] & (LOG_APPEND_TIME | DELETE_HORIZON)) == 0
        wrong = np.flatnonzero(given & (columns["record_count"] > 0) & (newest >= 0) & (newest < first))
        if len(wrong):
            at = wrong[0]
            older = int(first[at]) - int(newest[at])
            place = columns["base_offset"][at]
            detail = f"the newest record of the batch at offset {place} is {older:,} ms older than its first"
            self.note(wrong, columns, "bad-timestamp", detail)

    def check_epochs(self, columns: dict[str, NDArray[Any]]) -> None:
        """Leader epochs never go back, and are those that the checkpoint has for these offsets."""
        epochs = columns["leader_epoch"].astype(np.int64)
        before = np.concatenate(([self.epoch_before], epochs[:-1]))
        back = np.flatnonzero((epochs < before) & (epochs >= 0))
        self.epoch_before = int(epochs[-1])
        if len(back):
            at = back[0]
            detail = f"leader epoch {epochs[at]} at offset {columns['base_offset'][at]} follows {before[at]}"
            self.note(back, columns, "leader-epoch-regression", detail)
            return
        if not len(self.epochs):
            return
        place = np.searchsorted(self.epoch_starts, columns["base_offset"], "right") - 1
        due = np.where(place >= 0, self.epochs[np.maximum(place, 0)], -1)
        # The checkpoint is written before the batch; on a living or crashed broker it may be read before it is.
        ahead = self.part.active & (epochs > self.epochs[-1])
        wrong = np.flatnonzero((epochs != due) & ~ahead & (place >= 0) & (epochs >= 0))
        if len(wrong):
            at = wrong[0]
            detail = f"leader epoch {epochs[at]} at offset {columns['base_offset'][at]}; its checkpoint says {due[at]}"
            self.note(wrong, columns, "bad-epoch-checkpoint", detail)

    def check_index(self, columns: dict[str, NDArray[Any]], *, is_last: bool) -> None:
        """An entry names a place where a batch begins, and an offset from there on, before the next entry's batch."""
        positions = columns["position"]
        end = positions[-1] + columns["size"][-1]
        here = self.index[(self.index[:, 1] >= positions[0]) & (self.index[:, 1] < end)]
        if not len(here):
            return
        at = np.searchsorted(positions, here[:, 1])
        begins = (at < len(positions)) & (positions[np.minimum(at, len(positions) - 1)] == here[:, 1])
        at = np.minimum(at, len(positions) - 1)
        offsets = here[:, 0] + self.file.base_offset
        base = columns["base_offset"][at]
        limit = np.concatenate((base[1:], [columns["last_offset"][-1] + 1 if is_last else np.iinfo(np.int64).max]))
        wrong = np.flatnonzero(~begins | (offsets < base) | (offsets >= np.maximum(limit, base + 1)))
        if len(wrong):
            first = wrong[0]
            says = f"offset {offsets[first]} at position {here[first, 1]}, says the index"
            found = f"the batch there begins with {base[first]}" if begins[first] else "no batch begins there"
            more = f", and {len(wrong) - 1} more like it" if len(wrong) > 1 else ""
            path = str(Path(self.file.path).with_suffix(".index"))
            self.scan.problems.append(problem(path, 0, "bad-index", f"{says}; {found}{more}"))


def _raw_index(segment_path: str) -> NDArray[np.int64]:
    """The entries of the sparse index, without the zeros that it is allocated with."""
    try:
        content = Path(segment_path).with_suffix(".index").read_bytes()
    except OSError:
        content = b""
    pairs = np.frombuffer(content[: len(content) // 8 * 8], ">i4").reshape(-1, 2).astype(np.int64)
    used = np.flatnonzero(pairs.any(axis=1))
    return pairs[: used[-1] + 1 if len(used) else 0]
