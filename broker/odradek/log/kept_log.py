"""A log in memory as a value that can be written down, and made again: as `Log.fork` has it, without the batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.config.table import TopicConfig
from odradek.log.aborted import AbortedTransaction
from odradek.log.files.walk import walk
from odradek.log.log import Log
from odradek.log.producers import Snapshot
from odradek.log.segment import Segment

if TYPE_CHECKING:
    from odradek.log.log import Room

__all__ = ["KeptLog", "kept", "restored"]


class KeptSegment(Struct, array_like=True):
    """A segment without its batches."""

    base_offset: int
    next_offset: int
    created: int
    number: int
    first_timestamp: int
    max_timestamp: int
    has_producers: bool


class KeptLog(Struct, array_like=True):
    """A log without the batches of its segments; see `Log`."""

    topic_id: bytes
    topic: str
    index: int
    config: TopicConfig
    leader_epoch: int
    start_offset: int
    end_offset: int
    mark: int | None
    behind: dict[int, int]
    first_dirty_offset: int
    epochs: list[tuple[int, int]]
    aborted: list[AbortedTransaction]
    snapshots: list[Snapshot]
    segments: list[KeptSegment]
    is_active: bool
    """Whether the last segment is appended to."""


def kept(log: Log) -> KeptLog:
    """A log of a snapshot, which nobody writes to."""
    return KeptLog(
        log.topic_id,
        log.topic,
        log.index,
        log.config,
        log.leader_epoch,
        log.start_offset,
        log.end_offset,
        log.mark,
        log.behind,
        log.first_dirty_offset,
        log.epochs.entries(),
        log.aborted.entries,
        log.snapshots,
        [
            KeptSegment(
                each.base_offset,
                each.next_offset,
                each.created,
                each.number,
                each.first_timestamp,
                each.max_timestamp,
                each.has_producers,
            )
            for each in log.segments
        ],
        len(log.sealed_segments()) < len(log.segments),
    )


def restored(store: Room, state: KeptLog, buffers: Sequence[memoryview]) -> Log:
    """The log again, in this store, with the bytes of its segments."""
    log = Log(store, topic_id=state.topic_id, index=state.index, config=state.config)
    log.topic, log.leader_epoch = state.topic, state.leader_epoch
    log.start_offset, log.end_offset = state.start_offset, state.end_offset
    log.mark, log.behind, log.first_dirty_offset = state.mark, state.behind, state.first_dirty_offset
    for epoch, start in state.epochs:
        log.epochs.assign(epoch, start)
    for entry in state.aborted:
        log.aborted.append(entry)
    log.snapshots = state.snapshots
    segments = [_segment(each, buffer) for each, buffer in zip(state.segments, buffers, strict=True)]
    log.adopt_segments(segments, is_active=state.is_active)
    return log


def _segment(state: KeptSegment, buffer: memoryview) -> Segment:
    index = walk(buffer, state.base_offset, checks=False)
    segment = Segment(state.base_offset, capacity=0, created=state.created, number=state.number)
    segment.buffer = buffer
    segment.offsets, segment.positions, segment.timestamps = index.offsets, index.positions, index.timestamps
    segment.size = segment.capacity = len(buffer)
    segment.next_offset = state.next_offset
    segment.first_timestamp, segment.max_timestamp = state.first_timestamp, state.max_timestamp
    segment.has_producers = state.has_producers
    segment.share()
    return segment
