"""The metadata log in its folder: a quorum (KIP-595), whose leader begins each epoch with a control record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from odradek.log.disk import DamagedFile
from odradek.log.epochs import LeaderEpochs
from odradek.log.files.marks import QuorumState, read_quorum_state, write_quorum_state
from odradek.log.files.names import QUORUM_STATE, read_checkpoint_file, read_segment_file
from odradek.log.log import NO_REPLICA
from odradek.log.replicated_log import ReplicatedLog
from odradek.records.control import leader_change

if TYPE_CHECKING:
    from odradek.config.table import TopicConfig
    from odradek.log.file_log import Directory, FileLog
    from odradek.log.files.names import Folder, SnapshotId
    from odradek.log.found_log import FoundLog

__all__ = ["METADATA_FOLDER", "METADATA_TOPIC", "MetadataFileLog"]

METADATA_TOPIC = (1).to_bytes(16, "big")
"""Kafka's reserved id of the metadata log."""
METADATA_FOLDER = "__cluster_metadata-0"


class MetadataFileLog(ReplicatedLog):
    """The metadata log of a broker that is its own quorum, or that is in one with the other brokers of its cluster."""

    def __init__(self, store: Directory, *, topic_id: bytes, index: int, config: TopicConfig) -> None:
        super().__init__(store, topic_id=topic_id, index=index, config=config)
        self.quorum: QuorumState | None = None
        """The metadata log of the process before."""
        self._quorum_written: QuorumState | None = None
        """What its file says."""
        self.leader_epoch = 0  # a quorum's first epoch is 1
        self._ended = 0
        """Where the log of the process before ended, if that has stopped cleanly."""
        self._is_anew = False
        """Whether the files of the process before go at `begin`."""

    @property
    def checks_all(self) -> bool:
        """See `FileLog`: Kafka checks the whole metadata log at each start, also after a clean stop."""
        return True

    @property
    def syncs(self) -> bool:
        """See `FileLog`: a quorum's leader has its records on the device before they count (KIP-595)."""
        return True

    def load(self, folder: Folder) -> None:
        names = map(read_segment_file, self.disk.files(METADATA_FOLDER))
        # A clean stop leaves the producers, of which there are none, as of the end of the log.
        left = [each.base_offset for each in names if each is not None and each.suffix == ".snapshot"]
        self._ended = max(left, default=0)
        super().load(folder)
        name = f"{self.folder}/{QUORUM_STATE}"
        data = self.disk.read(name)
        if data:
            try:
                self.quorum = self._quorum_written = read_quorum_state(data)
            except DamagedFile as error:
                self.disk.warn(name, f"{error}; it is written anew")
        self.leader_epoch = max(0, self.leader_epoch, -1 if self.quorum is None else self.quorum.leader_epoch)

    def found(self) -> FoundLog | None:
        found = super().found()
        return None if found is None else replace(found, quorum=self.quorum, ended=self._ended)

    def load_found(self, found: FoundLog) -> None:
        super().load_found(found)
        self.quorum = self._quorum_written = found.quorum
        self._ended = found.ended

    def lead(self, leader_epoch: int, *, topic: str = "", replica: int = NO_REPLICA) -> int:
        """See `Log`. Nothing of an epoch is written before the epoch itself."""
        self.settle_with(replica, topic)
        node_id = self.files.node_id
        voters = self.files.voters if self.quorum is None else self.quorum.voters
        self.adopt_quorum(QuorumState(node_id, leader_epoch, voters))
        if self.copies is not None:
            self.copies.place(self.files.voters)
            for _, copy in self.copies.at_once():
                assert isinstance(copy, MetadataFileLog), "a copy is of the same kind"
                copy.adopt_quorum(QuorumState(node_id, leader_epoch, voters))
        lost = super().lead(leader_epoch, topic=topic, replica=replica)
        now = self.files.now()
        change = leader_change(node_id, timestamp=now, voters=self.files.voters)
        self.append(change, leader_epoch=leader_epoch, now=now)
        return lost

    def begin_behind(self, snapshot: SnapshotId) -> None:
        """Have nothing but what follows this snapshot: the log ends before it (Kafka's `truncateToLatestSnapshot`)."""
        self.segments, self._bases, self._last = [], [], None
        self._account(-self.size_bytes)
        self.start_offset = self.end_offset = self.recovery_point = snapshot.end_offset
        self.epochs, self.snapshots = LeaderEpochs(), []
        self.leader_epoch = max(self.leader_epoch, snapshot.epoch)
        self._is_anew = True

    def tell_lost_end(self) -> None:
        """Report metadata that the last clean stop has left, and that neither the log nor a snapshot has."""
        if self._ended > self.end_offset:
            self.disk.warn(
                self.folder,
                f"it ends at offset {self.end_offset}, and ended at {self._ended} when its broker stopped: what was"
                " changed in between is gone (topics, leaders, settings, permissions, ids of producers)",
            )

    def begin(self) -> None:
        super().begin()
        if not self._is_anew:
            return
        self._is_anew = False
        there = self.disk.files(self.folder)
        found = [each for each in map(read_segment_file, there) if each is not None and not each.state]
        for base in {each.base_offset for each in found if each.base_offset != self.end_offset}:
            self._remove(base, there)
        self._write_empty()
        self._write_epochs()

    def trade_files(self, other: FileLog) -> None:
        super().trade_files(other)
        assert isinstance(other, MetadataFileLog), "a copy is of the same kind"
        self._quorum_written, other._quorum_written = other._quorum_written, self._quorum_written

    def adopt_quorum(self, quorum: QuorumState) -> None:
        """Keep who leads the quorum, and in which epoch."""
        if quorum == self._quorum_written:
            return
        self.quorum = quorum
        self.disk.write(f"{self.folder}/{QUORUM_STATE}", write_quorum_state(quorum), flush=True)
        self._quorum_written = quorum

    def catch_up(self, replica: int) -> None:
        """See `Log`: a voter that has heard of the leader keeps it."""
        super().catch_up(replica)
        copy = None if self.copies is None else self.copies.logs.get(replica)
        if isinstance(copy, MetadataFileLog) and self.quorum is not None:
            copy.adopt_quorum(self.quorum)
            copy.fetch_snapshots(self)

    def start_again(self, origin: FileLog) -> None:
        """See `FileLog`: a follower fetches the snapshot that precedes the log first (KIP-630)."""
        self.fetch_snapshots(origin)
        super().start_again(origin)

    def fetch_snapshots(self, origin: FileLog) -> None:
        """Have the snapshots that the leader has, before metadata goes with which they begin."""
        there = self.disk.files(self.folder)
        for name in origin.disk.files(origin.folder):
            found = read_checkpoint_file(name)
            if found is not None and found.end_offset >= max(1, origin.start_offset) and name not in there:
                data = origin.disk.read(f"{origin.folder}/{name}")
                if data:
                    self.disk.write(f"{self.folder}/{name}", data, flush=True)
