"""The share coordinator on a broker: a machine over a partition of `__share_group_state`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.host.shard import Shard
from odradek.records.compression import Compression
from odradek.share.coordinator import Prune, ShareCoordinator

if TYPE_CHECKING:
    from odradek.host.metadata import Metadata
    from odradek.host.shard import ShardParts
    from odradek.log.partition import Partition

__all__ = ["ShareShard"]

PRUNE_INTERVAL_MS = 300_000
"""How often the log is cut where its beginning is not needed any more."""


class ShareShard(Shard[Prune]):
    """A coordinator over a partition of `__share_group_state`, not loaded yet."""

    def __init__(self, parts: ShardParts, partition: Partition, *, metadata: Metadata) -> None:
        def exists(topic_id: bytes, index: int) -> bool:
            topic = metadata.image.topic_by_id(topic_id)
            return topic is not None and index in topic.partitions

        config = parts.settings.config
        self.machine = ShareCoordinator(
            updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
            prune_interval_ms=PRUNE_INTERVAL_MS,
            exists=exists,
        )
        super().__init__(parts, partition, self.machine)
        self.compression = Compression(config.share_coordinator_state_topic_compression_codec)

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
