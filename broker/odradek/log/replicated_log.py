"""A log with a replica in the directory of each broker that has one.

The log itself lies in the directory of its leader; the others are copies, which hold what followers have fetched. A
replica that acknowledges at once gets each batch as part of the append, so that a batch that was acknowledged is in the
files of all replicas in sync; one that takes its time (`Log.behind`) gets its batches as it acknowledges them. A new
leader goes on with its own files, and the files of the leader before become a copy (KIP-101).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from odradek.log.aborted import AbortedIndex
from odradek.log.disk import DiskError
from odradek.log.epochs import LeaderEpochs
from odradek.log.file_log import FileLog
from odradek.log.log import NO_REPLICA
from odradek.log.producers import ProducerState, Snapshot
from odradek.records.batch import MAGIC

if TYPE_CHECKING:
    from odradek.config.table import TopicConfig
    from odradek.log.file_log import Directory
    from odradek.log.segment import Segment
    from odradek.records.batch import Batch

__all__ = ["Copies", "ReplicatedLog", "agreed_end"]


class ReplicatedLog(FileLog):
    """A log in a folder that may have copies in other directories."""

    def __init__(self, store: Directory, *, topic_id: bytes, index: int, config: TopicConfig) -> None:
        self.copies: Copies | None = None
        """None for a copy, and for the log of the only broker."""
        super().__init__(store, topic_id=topic_id, index=index, config=config)

    def _copies_there(self) -> Sequence[FileLog]:
        return () if self.copies is None else tuple(self.copies.logs.values())

    def configure(self, config: TopicConfig) -> None:
        super().configure(config)
        for copy in self._copies_there():
            copy.configure(config)

    def settle_with(self, replica: int, topic: str) -> None:
        """The log is the replica of its leader from now on."""
        self.topic = topic
        if self.copies is not None:
            self.copies.move_to(replica)
        super().settle_with(replica, topic)

    def append(self, batch: Batch, *, leader_epoch: int, now: int, log_append_time: bool = False) -> int:
        """Raises `DiskError` if any replica cannot have it, and then none has."""
        if self.copies is not None and self.copies.owed:
            self.copies.make_owed()
        base = super().append(batch, leader_epoch=leader_epoch, now=now, log_append_time=log_append_time)
        if self.copies is not None and self.copies.logs:
            try:
                self.copies.append(batch, base, leader_epoch=leader_epoch, now=now, log_append_time=log_append_time)
            except DiskError:
                self.take_back(base)
                raise
        return base

    def flush_if_old(self, now: int) -> None:
        super().flush_if_old(now)
        for copy in self._copies_there():
            copy.flush_if_old(now)

    def advance_start(self, offset: int) -> list[Segment]:
        dropped = super().advance_start(offset)
        if self.copies is not None:
            self.copies.advance_start(offset)
        return dropped

    def truncate(self, offset: int) -> None:
        super().truncate(offset)
        if self.copies is not None and self.copies.logs:
            self.copies.truncate(self.end_offset)

    def replace(self, old: Sequence[Segment], new: Segment | None) -> bool:
        replaced = super().replace(old, new)
        if replaced and self.copies is not None:
            self.copies.replace(old, new)
        return replaced

    def note_compacted(self, until: int) -> None:
        before = self.first_dirty_offset
        super().note_compacted(until)
        if self.copies is not None:
            self.copies.note_compacted(before, self.first_dirty_offset)

    def end(self) -> None:
        super().end()
        for copy in self._copies_there():
            copy.end()

    def place(self, replicas: Collection[int]) -> None:
        if self.copies is not None:
            self.copies.place(replicas)

    def acknowledge(self, replica: int, end: int) -> None:
        super().acknowledge(replica, end)
        if self.copies is not None:
            self.copies.follow(replica)

    def catch_up(self, replica: int) -> None:
        super().catch_up(replica)
        if self.copies is not None and self.copies.logs:
            self.copies.follow(replica)


class Copies:
    """The replicas of a log besides its leader's."""

    def __init__(
        self,
        origin: ReplicatedLog,
        home: int,
        directories: Mapping[int, Directory],
        absent: Collection[int],
        *,
        was_led: bool = True,
    ) -> None:
        """`origin` lies in the directory of broker `home`; nothing is written for brokers that are `absent`.

        Unless it `was_led`, the first leader takes its beginning, epochs and transactions from its own directory: that
        of another broker may be damaged.
        """
        self.origin = origin
        self.home = home
        self.logs: dict[int, FileLog] = {}
        """The copies, by broker."""
        self.owed: list[int] = []
        """Brokers that get a copy with the first batch: most logs of a fork get none."""
        self._directories = directories
        self._absent = absent
        self._was_led = was_led
        self._left_as_it_was: set[int] = set()
        """Brokers whose copies a pass of compaction has not changed with the log."""

    def add(self, node_id: int, copy: FileLog) -> None:
        """A broker has a copy already."""
        self.logs[node_id] = copy
        copy.topic = self.origin.topic or copy.topic
        copy.origin = self.origin
        copy.leader = Following(copy, self.origin)

    def place(self, replicas: Collection[int]) -> None:
        """These brokers have a replica, and no others."""
        for node_id in [each for each in self.logs if each not in replicas]:
            self.logs.pop(node_id).end()
            self._directories[node_id].forget(self.origin.topic_id, self.origin.index)
        missing = [
            node_id
            for node_id in replicas
            if node_id != self.home and node_id not in self.logs and node_id in self._directories
        ]
        if self.origin.folder or not self.origin.files.settles_late:
            for node_id in missing:
                self._make(node_id)
        else:
            self.owed = missing

    def make_owed(self) -> None:
        """Make the copies that the first batch is for."""
        owed, self.owed = self.owed, []
        for node_id in owed:
            self._make(node_id)

    def _make(self, node_id: int) -> FileLog:
        origin, directory = self.origin, self._directories[node_id]
        copy = directory.place(origin.topic_id, origin.index, origin.config)
        self.add(node_id, copy)
        if not copy.folder and not directory.settles_late:
            copy.settle(origin.topic)
        return copy

    def at_once(self) -> Iterator[tuple[int, FileLog]]:
        """The copies that have everything as soon as it is there."""
        behind, absent = self.origin.behind, self._absent
        return (
            (node_id, copy) for node_id, copy in self.logs.items() if node_id not in behind and node_id not in absent
        )

    def append(self, batch: Batch, base_offset: int, *, leader_epoch: int, now: int, log_append_time: bool) -> None:
        """Append what the leader has appended. Raises `DiskError`, and then no copy has it."""
        taken: list[FileLog] = []
        try:
            for node_id, copy in self.at_once():
                if copy.end_offset == base_offset and copy.diverges_at is None:
                    copy.take(batch, leader_epoch=leader_epoch, now=now, log_append_time=log_append_time)
                else:
                    self.follow(node_id)
                taken.append(copy)
        except DiskError:
            for copy in taken:
                copy.take_back(base_offset)
            raise

    def follow(self, node_id: int) -> None:
        """Let a copy have all that its broker has acknowledged; what its leader never had goes first (KIP-101)."""
        origin, copy = self.origin, self.logs.get(node_id)
        if copy is None or node_id in self._absent:
            return
        until = min(origin.behind.get(node_id, origin.end_offset), origin.end_offset)
        if copy.diverges_at is not None:
            copy.truncate(copy.diverges_at)
            copy.diverges_at = None
        if copy.end_offset < origin.start_offset <= until:
            copy.start_again(origin)
        now = origin.files.now()
        for batch in origin.batches(copy.end_offset):
            if batch.base_offset >= until:
                break
            if batch.base_offset >= copy.end_offset:
                copy.end_offset = batch.base_offset  # compaction leaves gaps
                if batch.magic != MAGIC:
                    copy.take_old(batch, now=now)
                    continue
                copy.take(batch, leader_epoch=batch.partition_leader_epoch, now=now, log_append_time=False)
        copy.end_offset = max(copy.end_offset, until)
        if self._was_led:
            copy.advance_start(min(origin.start_offset, copy.end_offset))

    def move_to(self, replica: int) -> None:
        """Switch to the files of the replica that is about to lead; the former files become a copy."""
        if replica == NO_REPLICA or replica not in self._directories:
            return
        if replica == self.home:
            self._was_led = True
            return
        origin = self.origin
        if not origin.folder and not self.logs:
            self._directories[self.home].forget(origin.topic_id, origin.index)
            origin.begin_in(self._directories[replica])
            self.home = replica
            self.owed = [node_id for node_id in self.owed if node_id != replica]
            self._directories[replica].adopt(origin)
            return
        copy = self.logs.get(replica) or self._make(replica)
        had = copy.end_offset if copy.diverges_at is None else copy.diverges_at
        self.follow(replica)
        del self.logs[replica]
        if not self._was_led:
            self._was_led = True
            _take_facts(origin, copy, had)
        origin.trade_files(copy)
        before, self.home = self.home, replica
        self._directories[replica].adopt(origin)
        if not copy.folder:
            self._directories[before].forget(origin.topic_id, origin.index)
            return
        self._directories[before].adopt(copy)
        copy.start_offset, copy.end_offset = origin.start_offset, origin.end_offset
        copy.epochs = LeaderEpochs()
        for epoch, start in origin.epochs.entries():
            copy.epochs.assign(epoch, start)
        copy.snapshots = list(origin.snapshots)
        self.add(before, copy)

    def truncate(self, offset: int) -> None:
        """The log ends here: a copy that is longer does, too, as soon as its broker follows."""
        for copy in self.logs.values():
            if copy.end_offset > offset:
                copy.diverges_at = offset if copy.diverges_at is None else min(offset, copy.diverges_at)
        for node_id, copy in list(self.at_once()):
            if copy.diverges_at is not None:
                self.follow(node_id)

    def advance_start(self, offset: int) -> None:
        """The log begins here."""
        for _, copy in self.at_once():
            if copy.diverges_at is None and copy.end_offset >= offset:
                copy.advance_start(offset)

    def replace(self, old: Sequence[Segment], new: Segment | None) -> None:
        """Compaction has put one segment in the place of several.

        A copy whose segments are others is left as it is: in Kafka each replica is compacted by itself.
        """
        bounds = _bounds(old)
        if new is not None and self.logs:
            new.share()
        replaced: set[int] = set()
        for node_id, copy in self.at_once():
            sealed = copy.sealed_segments()
            first = next((at for at, each in enumerate(sealed) if each.base_offset == bounds[0][0]), 0)
            same = sealed[first : first + len(bounds)]
            if _bounds(same) == bounds and copy.replace(same, new):
                replaced.add(node_id)
        self._left_as_it_was |= self.logs.keys() - replaced

    def note_compacted(self, before: int, until: int) -> None:
        """A pass has come to `until`, as the one before had come to `before`: so have the copies that it changed, too.

        Their checkpoint says so, else their batches seem to lack records.
        """
        for node_id, copy in self.at_once():
            if node_id not in self._left_as_it_was and copy.first_dirty_offset == before:
                copy.note_compacted(until)
        self._left_as_it_was.clear()


def _take_facts(origin: FileLog, copy: FileLog, had: int) -> None:
    """Let the log say of its first records what this copy says, which had them up to this offset."""
    following = [entry for entry in origin.aborted.entries if entry.last_offset >= had]
    origin.start_offset = copy.start_offset
    origin.epochs = LeaderEpochs()
    for epoch, start in copy.epochs.entries():
        origin.epochs.assign(epoch, start)
    origin.aborted = AbortedIndex()
    for entry in (*(each for each in copy.aborted.entries if each.last_offset < had), *following):
        origin.aborted.append(entry)
    if had == origin.end_offset:
        origin.snapshots = list(copy.snapshots)


def _bounds(segments: Sequence[Segment]) -> list[tuple[int, int]]:
    return [(each.base_offset, each.next_offset) for each in segments]


class Following:
    """See `LeaderOfLog`: a follower knows the producers of its copy as the leader did where the copy ends."""

    def __init__(self, copy: FileLog, origin: FileLog) -> None:
        self._copy = copy
        self._origin = origin
        self.is_leader = False

    @property
    def last_stable_offset(self) -> int:
        leader = self._origin.leader
        return self._copy.end_offset if leader is None else leader.last_stable_offset

    def is_last_of_producer(self, batch: Batch) -> bool:
        leader = self._origin.leader
        return leader is None or leader.is_last_of_producer(batch)

    def snapshot(self) -> Snapshot:
        """The leader's snapshot of this offset, or else a fold over the batches of the copy."""
        copy = self._copy
        for known in reversed(self._origin.snapshots):
            if known.offset == copy.end_offset:
                return known
        state = ProducerState()
        last = copy.snapshots[-1] if copy.snapshots else Snapshot(0, ())
        state.restore(last)
        for batch in copy.batches_of_producers(last.offset):
            state.apply(batch, batch.base_offset)
        return state.snapshot(copy.end_offset)


def agreed_end(one: FileLog, other: FileLog) -> int:
    """Up to where two logs have the same records: the end of the last epoch that both know (KIP-101).

    `one` is the leader's: it has the newer epochs.
    """
    ours, theirs = dict(one.epochs.entries()), dict(other.epochs.entries())
    shared = [epoch for epoch in ours if epoch in theirs]
    if not shared:
        # A log without epochs has no records: it is empty, and may begin where retention had come to.
        if not ours or not theirs:
            return min(one.end_offset, other.end_offset)
        # Kafka's `LeaderEpochFileCache.endOffsetFor`: retention has taken the epochs before with their records.
        first = min(ours)
        return min(ours[first], other.end_offset) if max(theirs) < first else 0
    last = max(shared)
    return min(
        one.epochs.end_of(last, log_end_offset=one.end_offset).end_offset,
        other.epochs.end_of(last, log_end_offset=other.end_offset).end_offset,
    )
