"""What stands beside a segment, held against its batches as they go by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odradek.records.batch import DELETE_HORIZON, LOG_APPEND_TIME, NO_TIMESTAMP
from odradek_pipeline.logs import files
from odradek_pipeline.logs.headers import CONTROL, TRANSACTIONAL, ByteRange, Chunk
from odradek_pipeline.logs.layout import problem
from odradek_pipeline.logs.log_dirs import epochs_of
from odradek_pipeline.logs.scanned import Scan
from odradek_pipeline.logs.sidecars import TIME_INDEX
from odradek_pipeline.wording import time_of

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
        self.times = _raw_times(part.file.path)

    def check(self, chunk: Chunk, *, is_last: bool) -> None:
        """Check the batches of one chunk; the last one of its range says where the segment ends."""
        columns = chunk.columns
        self.check_counts(columns)
        self.check_times(columns)
        self.check_producers(columns)
        self.check_epochs(columns)
        self.check_index(columns, is_last=is_last)
        self.check_time_index(columns, is_last=is_last)

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
        given &= columns["record_count"] > 0
        wrong = np.flatnonzero(given & (newest >= 0) & (newest < first))
        if len(wrong):
            at = wrong[0]
            older = int(first[at]) - int(newest[at])
            place = columns["base_offset"][at]
            detail = f"the newest record of the batch at offset {place} is {older:,} ms older than its first"
            self.note(wrong, columns, "bad-timestamp", detail)
        alone = columns["base_offset"] == columns["last_offset"]
        lies = np.flatnonzero(given & alone & (newest > first) & (first >= 0))
        if len(lies):
            at = lies[0]
            detail = (
                f"the batch at offset {columns['base_offset'][at]} has one record, of {first[at]}, and says that its "
                f"newest is of {newest[at]}"
            )
            self.note(lies, columns, "bad-timestamp", detail)
        never = np.flatnonzero(given & ((newest < NO_TIMESTAMP) | (first < NO_TIMESTAMP)))
        if len(never):
            at = never[0]
            detail = f"the batch at offset {columns['base_offset'][at]} has a time below that of no time, {newest[at]}"
            self.note(never, columns, "bad-timestamp", detail)

    def check_producers(self, columns: dict[str, NDArray[Any]]) -> None:
        """Who has an id has an epoch and a sequence, and who has a transaction has an id (KIP-98)."""
        data = ((columns["attributes"] & CONTROL) == 0) & (columns["record_count"] > 0)
        known = columns["producer_id"] >= 0
        numberless = known & ((columns["producer_epoch"] < 0) | (columns["base_sequence"] < 0))
        inside = (columns["attributes"] & TRANSACTIONAL) != 0
        wrong = np.flatnonzero(data & (numberless | (inside & ~known)))
        if len(wrong):
            at = wrong[0]
            names = ("producer_id", "producer_epoch", "base_sequence")
            who, epoch, sequence = (int(columns[name][at]) for name in names)
            detail = (
                f"the batch at offset {columns['base_offset'][at]} says producer {who}, epoch {epoch}, sequence "
                f"{sequence}{', in a transaction' if inside[at] else ''}: no producer writes that"
            )
            self.note(wrong, columns, "bad-producer", detail)

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

    def check_time_index(self, columns: dict[str, NDArray[Any]], *, is_last: bool) -> None:
        """An entry names an offset of the segment, in a batch that is no older than the entry says.

        Brokers that were not stopped cleanly write these entries anew when they start.
        """
        if self.part.unflushed or not len(self.times):
            return
        first, last = int(columns["base_offset"][0]), int(columns["last_offset"][-1])
        offsets = self.times[:, 1] + self.file.base_offset
        # What is behind the last batch of a range that is cut off belongs to the next range.
        here = (offsets >= first) & ((offsets <= last) | (is_last and self.part.end < 0))
        at = np.minimum(np.searchsorted(columns["last_offset"], offsets), len(columns["last_offset"]) - 1)
        older = (columns["max_timestamp"][at] < self.times[:, 0]) & (offsets >= self.part.cleaned_upto)
        wrong = np.flatnonzero(here & ((offsets > last) | older))
        if len(wrong):
            place = wrong[0]
            what = "which is behind its end" if offsets[place] > last else "whose batch is older"
            detail = f"time {time_of(int(self.times[place, 0]))} at offset {offsets[place]}, says the index, {what}"
            path = str(Path(self.file.path).with_suffix(".timeindex"))
            more = f", and {len(wrong) - 1} more like it" if len(wrong) > 1 else ""
            self.scan.problems.append(problem(path, int(place) * TIME_INDEX.itemsize, "bad-index", detail + more))


def _raw_times(segment_path: str) -> NDArray[np.int64]:
    """The entries of the index by time, as pairs of time and relative offset, without the zeros behind them."""
    try:
        content = files.read_bytes(Path(segment_path).with_suffix(".timeindex"))
    except OSError:
        content = b""
    entries = np.frombuffer(content[: len(content) // TIME_INDEX.itemsize * TIME_INDEX.itemsize], TIME_INDEX)
    pairs = np.stack((entries["timestamp"].astype(np.int64), entries["offset"].astype(np.int64)), axis=1)
    used = np.flatnonzero(pairs.any(axis=1))
    return pairs[: used[-1] + 1 if len(used) else 0]


def _raw_index(segment_path: str) -> NDArray[np.int64]:
    """The entries of the sparse index, without the zeros that it is allocated with."""
    try:
        content = files.read_bytes(Path(segment_path).with_suffix(".index"))
    except OSError:
        content = b""
    pairs = np.frombuffer(content[: len(content) // 8 * 8], ">i4").reshape(-1, 2).astype(np.int64)
    used = np.flatnonzero(pairs.any(axis=1))
    return pairs[: used[-1] + 1 if len(used) else 0]
