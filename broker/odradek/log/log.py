"""The log of one partition: segments, leader epochs, aborted transactions, and the log start offset.

A log outlives its leader: in a real cluster it is on disks, here it is in memory, once (see `log_store`). It knows
batches and offsets; producers, transactions and leadership belong to the partition.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from odradek.config.table import TopicConfig
from odradek.core.spare_pages import SparePages
from odradek.log.aborted import AbortedIndex
from odradek.log.epochs import LeaderEpochs
from odradek.log.segment import Segment
from odradek.records.batch import LENGTH_BASE, Batch

if TYPE_CHECKING:
    from odradek.log.producers import Snapshot

__all__ = ["Log", "Room"]

_SNAPSHOTS_MAX = 3
EMPTY = memoryview(b"")
NO_REPLICA = -1
ENDED = 2**31
"""Leader epoch of the log of a deleted topic: greater than that of any leader."""


class Room(Protocol):
    """Where the logs of a cluster lie, as one of them needs to know it.

    A Protocol: the store of logs imports the logs, and a store without a directory is one as well.
    """

    room: int
    """Bytes left; kept by the logs."""
    spare: SparePages
    clients_ahead_ms: int

    @property
    def segment_bytes(self) -> int: ...
    @property
    def bytes_held(self) -> int: ...
    def next_number(self) -> int: ...
    def shed(self, size: int) -> bool: ...


class LeaderOfLog(Protocol):
    """The leader's knowledge of the log that is not in the log.

    A Protocol: partitions import their logs.
    """

    is_leader: bool
    """Whether no later leader has taken the log over; kept by the log."""

    @property
    def last_stable_offset(self) -> int: ...

    def snapshot(self) -> Snapshot:
        """The producers, as of the end of the log."""

    def is_last_of_producer(self, batch: Batch) -> bool:
        """Whether no later batch gives the last sequence, or the epoch, of a known producer."""


class Log:
    """Batches of one partition in offset order; made by `LogStore.open`."""

    def __init__(self, store: Room, *, topic_id: bytes, index: int, config: TopicConfig) -> None:
        self.store = store
        self.topic_id = topic_id
        self.topic = ""
        """Name of the topic, for facts; known from the first leader on."""
        self.index = index
        self.leader_epoch = -1
        """Epoch of the leader that may append."""
        self.start_offset = 0
        self.end_offset = 0
        self.mark: int | None = None
        """The high watermark, while other replicas lag; None: every appended record is committed."""
        self.behind: dict[int, int] = {}
        """Where the records of a replica end that takes its time; one that is not named has all there are."""
        self.size_bytes = 0
        self.first_dirty_offset = 0
        """Compaction has seen everything before."""
        self.epochs = LeaderEpochs()
        self.aborted = AbortedIndex()
        self.snapshots: list[Snapshot] = []
        """Producer states to begin a replay from, oldest first."""
        self.leader: LeaderOfLog | None = None
        """The present or last leader; it takes a snapshot of producers before batches are dropped that none covers."""
        self.awaited_by: set[int] = set()
        """Brokers that have a replica, and readers that wait for more records."""
        self.segments: list[Segment] = []
        self._bases: list[int] = []
        self._active: Segment | None = None
        self.configure(config)

    def configure(self, config: TopicConfig) -> None:
        """Adopt the settings of the topic."""
        self.config = config
        segment_ms = config.segment_ms
        if config.compacts:
            segment_ms = min(segment_ms, config.max_compaction_lag_ms)
        self._segment_ms = segment_ms
        self._segment_bytes = min(config.segment_bytes, self.store.segment_bytes)
        if self._active is not None:
            self._active.capacity = min(self._active.capacity, max(self._segment_bytes, self._active.size))

    def lead(self, leader_epoch: int, *, topic: str = "", replica: int = NO_REPLICA) -> int:
        """A leader with this epoch takes the log over: appends of the one before are refused from now on.

        What its replica has not acknowledged is lost, and the other replicas follow it (KIP-101). How many offsets
        that are.
        """
        self._depose()
        before = self.end_offset
        self.truncate(self.behind.pop(replica, before))
        self.topic = topic
        self.leader_epoch = leader_epoch
        self.epochs.assign(leader_epoch, self.end_offset)
        return before - self.end_offset

    def _depose(self) -> None:
        if self.leader is not None:
            self.leader.is_leader = False

    def place(self, replicas: Collection[int]) -> None:
        """Learn which brokers have a replica; logs that are in memory, or of one broker, have nothing to do."""

    def acknowledge(self, replica: int, end: int) -> None:
        """A replica that takes its time has all records before this offset."""
        self.behind[replica] = end

    def catch_up(self, replica: int) -> None:
        """A replica has all records there are, from now on as soon as they are appended."""
        self.behind.pop(replica, None)

    def append(self, batch: Batch, *, leader_epoch: int, now: int, log_append_time: bool = False) -> int:
        """Copy the batch to the end of the log, stamp it, and return its base offset.

        The offset and leader epoch it brings do not matter; its maximum timestamp does, and is stamped as well if it is
        the log's own time. The view is free again afterwards.
        """
        size = batch.batch_length + LENGTH_BASE
        segment = self._active
        if (
            segment is None
            or segment.size + size > segment.capacity
            or batch.max_timestamp - segment.first_timestamp > self._segment_ms
        ):
            segment = self._thaw(batch, size) or self._begin(max(size, self._segment_bytes), now=now)
        base_offset = self.end_offset
        segment.append(batch, base_offset, size=size, leader_epoch=leader_epoch, log_append_time=log_append_time)
        self.end_offset = segment.next_offset
        self.size_bytes += size
        self.store.room -= size
        return base_offset

    def _thaw(self, batch: Batch, size: int) -> Segment | None:
        """In a fork: give the active segment memory of its own if the batch fits; the first append copies it."""
        active = self._active
        if active is None or not active.is_shared:
            return None
        full = active.size + size > self._segment_bytes
        if full or batch.max_timestamp - active.first_timestamp > self._segment_ms:
            return None
        self._active = self.segments[-1] = active.thawed(self._segment_bytes)
        return self._active

    def _begin(self, capacity: int, *, now: int) -> Segment:
        self.seal()
        segment = Segment(
            self.end_offset,
            capacity=capacity,
            created=now,
            number=self.store.next_number(),
            busy=bool(self.segments) and self.segments[-1].busy,
            spare=self.store.spare,
        )
        self.segments.append(segment)
        self._bases.append(self.end_offset)
        self._active = segment
        return segment

    def seal(self) -> None:
        """Append nothing more to the active segment."""
        active, self._active = self._active, None
        if active is not None and active.has_producers:
            self.snapshot()

    def flush_if_old(self, now: int) -> None:
        """Have everything on the device, if the last time was `flush.ms` ago; memory has none."""

    def truncate(self, offset: int) -> None:
        """Remove everything from the batch with this offset on: a new leader does not have it.

        Committed records are lost only if the leader was not in sync (an unclean election).
        """
        if offset >= self.end_offset:
            return
        self._active = None
        self._forget([segment for segment in self.segments if segment.base_offset >= offset])
        self.end_offset = offset
        last = self.segments[-1] if self.segments else None
        if last is not None:
            if last.is_shared:
                last = self.segments[-1] = last.frozen()
            forgotten = last.truncate(offset)
            self._account(-forgotten)
            if forgotten:
                self.end_offset = last.next_offset
        self.start_offset = min(self.start_offset, self.end_offset)
        # The last segment may now be empty, or have only records below the log start.
        if last is not None and (not last.size or last.next_offset <= self.start_offset):
            self._forget([last])
        self.first_dirty_offset = min(self.first_dirty_offset, self.end_offset)
        if self.mark is not None:
            self.mark = min(self.mark, self.end_offset)
        for replica, end in self.behind.items():
            self.behind[replica] = min(end, self.end_offset)
        self.epochs.truncate_end(self.end_offset)
        self.aborted.truncate_end(self.end_offset)
        self.snapshots = [snapshot for snapshot in self.snapshots if snapshot.offset <= self.end_offset]

    def sealed_segments(self) -> list[Segment]:
        """The segments that nothing is appended to any more."""
        return self.segments if self._active is None else self.segments[:-1]

    def fork(self, store: Room) -> Log:
        """The present log in another store: both go on independently, and share the existing batches.

        Sealed segments never change, and written bytes are never overwritten, so only the index of the active segment
        is copied. The producers are those of this moment.
        """
        copy = Log(store, topic_id=self.topic_id, index=self.index, config=self.config)
        copy.topic, copy.leader_epoch = self.topic, self.leader_epoch
        copy.start_offset, copy.end_offset = self.start_offset, self.end_offset
        copy.mark, copy.behind = self.mark, dict(self.behind)
        copy.first_dirty_offset = self.first_dirty_offset
        for epoch, start in self.epochs.entries():
            copy.epochs.assign(epoch, start)
        copy.aborted.adopt(self.aborted)
        copy.snapshots = list(self.snapshots)
        if self.leader is not None and (not copy.snapshots or copy.snapshots[-1].offset < self.end_offset):
            copy.snapshots = [*copy.snapshots, self.leader.snapshot()][-_SNAPSHOTS_MAX:]
        segments = list(self.segments)
        if self._active is not None and not self._active.is_shared:
            segments[-1] = self._active.frozen()
        for segment in segments:
            segment.share()
        copy.adopt_segments(segments, is_active=self._active is not None)
        return copy

    def adopt_segments(self, segments: Sequence[Segment], *, is_active: bool) -> None:
        """Have these segments, and none yet; the last one may be appended to, in memory of its own."""
        self.segments, self._bases = list(segments), [segment.base_offset for segment in segments]
        self._active = self.segments[-1] if is_active else None
        self._account(sum(segment.size for segment in segments))

    def advance_start(self, offset: int) -> list[Segment]:
        """Let the log begin here; the segments that lie wholly before are dropped and returned."""
        if offset <= self.start_offset:
            return []
        assert offset <= self.end_offset, "a log cannot begin behind its end"
        self.start_offset = offset
        dropped = [segment for segment in self.segments if segment.next_offset <= offset]
        if dropped:
            self._before_dropping(dropped[-1].next_offset)
            self._forget(dropped)
        self.epochs.truncate_start(offset)
        self.aborted.truncate_start(offset)
        return dropped

    def note_compacted(self, until: int) -> None:
        """A pass of compaction has come to this offset."""
        self.first_dirty_offset = max(self.first_dirty_offset, until)

    def replace(self, old: Sequence[Segment], new: Segment | None) -> bool:
        """Put one segment in the place of consecutive sealed ones; False if any of them is gone."""
        try:
            first = self.segments.index(old[0])
        except ValueError:
            return False
        last = first + len(old)
        if self.segments[first:last] != list(old):
            return False
        self._before_dropping(old[-1].next_offset)
        self.segments[first:last] = [] if new is None else [new]
        self._bases[first:last] = [] if new is None else [new.base_offset]
        self._account((new.size if new is not None else 0) - sum(segment.size for segment in old))
        return True

    def end(self) -> None:
        """The topic was deleted: give all memory back; a leader that has not heard of it leads nothing any more."""
        self.leader_epoch = ENDED
        self._depose()
        self._active = None
        if self.segments:
            self._forget(list(self.segments))

    def _forget(self, segments: Sequence[Segment]) -> None:
        gone = set(map(id, segments))
        if self._active is not None and id(self._active) in gone:
            self._active = None
        self.segments = [segment for segment in self.segments if id(segment) not in gone]
        self._bases = [segment.base_offset for segment in self.segments]
        self._account(-sum(segment.size for segment in segments))
        for segment in segments:
            segment.leave(self.store.spare)

    def _account(self, size: int) -> None:
        self.size_bytes += size
        self.store.room -= size

    def snapshot(self) -> None:
        """Keep the producer state as of the end of the log."""
        if self.leader is None or (self.snapshots and self.snapshots[-1].offset == self.end_offset):
            return
        self.snapshots.append(self.leader.snapshot())
        del self.snapshots[:-_SNAPSHOTS_MAX]

    def _before_dropping(self, offset: int) -> None:
        """Batches before this offset are about to go: the state they led to must not go with them."""
        if not self.snapshots or self.snapshots[-1].offset < offset:
            self.snapshot()

    def read(self, offset: int, *, max_bytes: int, until: int, min_one: bool = False) -> memoryview:
        """A slice of one segment from the batch with this offset on, all below `until`; its last batch may be cut."""
        if offset >= until:
            return EMPTY
        at = self._locate(offset)
        if at is None:
            return EMPTY
        segment, index = at
        return segment.slice(index, max_bytes=max_bytes, until=until, min_one=min_one)

    def batch_begin(self, offset: int) -> int:
        """Base offset of the batch with this offset, or of the next one; the end of the log if there is none."""
        at = self._locate(offset)
        if at is None:
            return self.end_offset
        segment, index = at
        return segment.offsets[index]

    def batches(self, offset: int = 0) -> Iterator[Batch]:
        """Every batch from the one that holds this offset on, those included that are appended meanwhile."""
        while offset < self.end_offset and (at := self._locate(offset)) is not None:
            segment, index = at
            while index < len(segment.offsets):
                batch = segment.batch(index)
                offset = batch.next_offset
                index += 1
                yield batch
            offset = max(offset, segment.next_offset)

    def newest_batches(self, count: int) -> Iterator[Batch]:
        """The newest batches, `count` (1 or more) at most, the oldest first; older ones are not looked at."""
        missing = count
        for segment in reversed(self.segments):
            if len(segment.offsets) >= missing:
                return self.batches(max(segment.offsets[-missing], self.start_offset))
            missing -= len(segment.offsets)
        return self.batches(self.start_offset)

    def batches_of_producers(self, offset: int) -> Iterator[Batch]:
        """The batches from here on that have a producer id; segments without any cost nothing."""
        for segment in self.segments:
            if segment.has_producers and segment.next_offset > offset:
                for index in range(segment.index_of(offset), len(segment.offsets)):
                    batch = segment.batch(index)
                    if batch.producer_id >= 0:
                        yield batch

    def first_with_timestamp(self, timestamp: int) -> Iterator[Batch]:
        """The batches that hold a timestamp at least this great, by their headers."""
        for segment in self.segments:
            if segment.max_timestamp < timestamp:
                if segment.max_timestamp < 0 and segment.size and segment.youngest >= timestamp:
                    # Records of magic 0 have no timestamps. Kafka goes by the file's, and searches no other segment.
                    return
                continue
            for index in range(segment.first_at_or_after(timestamp), len(segment.offsets)):
                batch = segment.batch(index)
                if batch.max_timestamp >= timestamp and batch.last_offset >= self.start_offset:
                    yield batch

    def with_max_timestamp(self) -> Batch | None:
        """The first batch with the greatest timestamp of the segments, -1 if none has any; None without batches.

        As in Kafka it may lie before the start: a segment that the log starts within counts as a whole.
        """
        newest = max(self.segments, key=lambda segment: segment.max_timestamp, default=None)
        if newest is None:
            return None
        index = newest.first_at_or_after(newest.max_timestamp)
        return newest.batch(index) if index < len(newest.offsets) else None

    def aborted_in(self, offset: int, size: int) -> list[tuple[int, int]]:
        """Producer id and first offset of the aborted transactions in the `size` bytes that were read from here on.

        Kafka searches up to the next entry of its sparse offset index, so that a short log returns all of them; clients
        ignore those that they do not need.
        """
        at = self._locate(offset) if size and self.aborted.entries else None
        if at is None:
            return []
        segment, index = at
        end = segment.positions[index] + size
        beyond = bisect_left(segment.positions, end + self.config.index_interval_bytes)
        if beyond < len(segment.offsets):
            until = segment.offsets[beyond]
        else:
            number = bisect_right(self._bases, segment.base_offset)
            until = self._bases[number] if number < len(self._bases) else self.end_offset
        return self.aborted.overlapping(start=offset, until=until)

    def _locate(self, offset: int) -> tuple[Segment, int] | None:
        """The segment and the index of the first batch that ends at or behind this offset."""
        segments = self.segments
        for number in range(max(0, bisect_right(self._bases, offset) - 1), len(segments)):
            segment = segments[number]
            index = segment.index_of(offset)
            if index < len(segment.offsets):
                return segment, index
        return None
