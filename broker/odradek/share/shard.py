"""The share coordinator on a broker: a machine over a partition of `__share_group_state`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.host.shard import Shard
from odradek.records.compression import Compression
from odradek.share.coordinator import Prune, ShareCoordinator

if TYPE_CHECKING:
    from odradek.host.host import Host
    from odradek.host.replicas import Replicas
    from odradek.log.partition import Partition
    from odradek.metadata.image import TopicImage

__all__ = ["ShareShard"]

PRUNE_INTERVAL_MS = 300_000
"""How often the log is cut where its beginning is not needed any more."""


class ShareShard(Shard[Prune]):
    """A coordinator over a partition of `__share_group_state`, not loaded yet."""

    def __init__(self, node: Host, replicas: Replicas, partition: Partition) -> None:
        def exists(topic_id: bytes, index: int) -> bool:
            topic = node.metadata.image.topic_by_id(topic_id)
            return topic is not None and index in topic.partitions

        config = node.settings.config
        self.machine = ShareCoordinator(
            updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
            prune_interval_ms=PRUNE_INTERVAL_MS,
            exists=exists,
            codecs=node.codecs,
            matches_exactly=node.release.share_markers_match_exactly,
        )
        super().__init__(node, replicas.replication, replicas.appended, partition, self.machine)
        self.compression = Compression(config.share_coordinator_state_topic_compression_codec)
        self.base_sequence = 0  # as Kafka's coordinator runtime has it

    @property
    def write_timeout_ms(self) -> int:
        """Kafka's timeout for all writes of a share coordinator."""
        return self._settings.config.share_coordinator_write_timeout_ms

    async def perform(self, work: Prune) -> None:
        """Delete the beginning of the log that is not needed any more."""
        partition = self.partition
        before = self.machine.prunable(partition.high_watermark, self._clock.now)
        if before > partition.log_start_offset:
            partition.delete_records(before)

    async def topic_deleted(self, topic: TopicImage) -> None:
        await self.carry_out(self.machine.topics_deleted([topic.id]))
