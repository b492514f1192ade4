"""Eligible leader replicas after a change of configs (KIP-966): a partition with enough in-sync replicas has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from odradek.metadata.delta import Delta
from odradek.metadata.elections import ElectionRules, changed
from odradek.metadata.features import MIN_INSYNC
from odradek.metadata.image import MetadataImage, ResourceType
from odradek.wire.messages.config_record import ConfigRecord

if TYPE_CHECKING:
    from odradek.metadata.change import Change

__all__ = ["with_eligible"]

T = TypeVar("T")


def with_eligible(
    change: Change[T], image: MetadataImage, rules: Callable[[MetadataImage], ElectionRules]
) -> Change[T]:
    """The change, with its effect on partitions through `min.insync.replicas`; `rules` are those of an image."""
    altered = [record for record in change.records if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC]
    if not altered:
        return change
    delta = Delta(image)
    for record in altered:
        delta.replay(record)
    after = delta.build(offset=image.offset, epoch=image.epoch)
    everywhere = any(record.resource_type == ResourceType.BROKER for record in altered)
    named = {record.resource_name for record in altered if record.resource_type == ResourceType.TOPIC}
    for topic in after.topics.values() if everywhere else [after.topics[name] for name in named]:
        for partition in topic.partitions.values():
            told = changed(topic, partition, after, rules(after)) if partition.eligible_replicas else None
            if told is not None:
                change.records.append(told)
    return change
