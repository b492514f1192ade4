"""The metadata log in its folder: a quorum of one (KIP-595), whose leader begins each epoch with a control record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.log.file_log import FileLog
from odradek.log.files.damaged import DamagedFile
from odradek.log.files.marks import QuorumState, read_quorum_state, write_quorum_state
from odradek.log.files.names import QUORUM_STATE
from odradek.log.log import NO_REPLICA
from odradek.records.control import leader_change

if TYPE_CHECKING:
    from odradek.config.table import TopicConfig
    from odradek.log.file_log import Directory
    from odradek.log.files.names import Folder

__all__ = ["METADATA_FOLDER", "METADATA_TOPIC", "MetadataFileLog"]

METADATA_TOPIC = (1).to_bytes(16, "big")
"""Kafka's reserved id of the metadata log."""
METADATA_FOLDER = "__cluster_metadata-0"


class MetadataFileLog(FileLog):
    """The metadata log of a broker that is its own quorum."""

    def __init__(self, store: Directory, *, topic_id: bytes, index: int, config: TopicConfig) -> None:
        super().__init__(store, topic_id=topic_id, index=index, config=config)
        self.quorum: QuorumState | None = None
        """What the process before has left."""
        self.leader_epoch = 0  # a quorum's first epoch is 1

    def load(self, folder: Folder) -> None:
        """See `FileLog`."""
        super().load(folder)
        name = f"{self.folder}/{QUORUM_STATE}"
        data = self.disk.read(name)
        if data:
            try:
                self.quorum = read_quorum_state(data)
            except DamagedFile as error:
                self.disk.warn(name, f"{error}; it is written anew")
        self.leader_epoch = max(0, self.leader_epoch, -1 if self.quorum is None else self.quorum.leader_epoch)

    def lead(self, leader_epoch: int, *, topic: str = "", replica: int = NO_REPLICA) -> int:
        """See `Log`. Nothing of an epoch is written before the epoch itself."""
        node_id = self.files.node_id
        if not self.folder:
            self._settle(topic)
        voters = (node_id,) if self.quorum is None else self.quorum.voters
        self.quorum = QuorumState(node_id, leader_epoch, voters)
        self.disk.write(f"{self.folder}/{QUORUM_STATE}", write_quorum_state(self.quorum), flush=True)
        lost = super().lead(leader_epoch, topic=topic, replica=replica)
        now = self.files.now()
        self.append(leader_change(node_id, timestamp=now), leader_epoch=leader_epoch, now=now)
        return lost
