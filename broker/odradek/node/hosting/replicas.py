"""What a newly published image means for a broker: leaderships to take up and to give up, configs to adopt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.config.table import Config, TopicConfig
from odradek.log.machine import Fact, Refused
from odradek.log.partition import Partition
from odradek.metadata.image import MetadataImage, PartitionImage, ResourceType, TopicImage
from odradek.node.coordinators import INTERNAL_TOPICS
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.node.hosting.groups import GroupShard
    from odradek.node.node import Node

__all__ = ["adopt", "lost"]


def adopt(node: Node, before: MetadataImage, after: MetadataImage) -> None:
    """Bring the node from one image to the next."""
    if before.features is not after.features:
        _tell_features(node, before, after)
    if before.configs is not after.configs:
        _adopt_broker_config(node, after)
    if before.topics is not after.topics:
        for name, topic in before.topics.items():
            kept = after.topics.get(name)
            if kept is None or kept.id != topic.id:
                _drop_topic(node, topic)
        for name, topic in after.topics.items():
            if before.topics.get(name) is not topic:
                _adopt_topic(node, topic, after)
    if before.configs is not after.configs:
        _adopt_topic_configs(node, before, after)
    if before.configs is not after.configs or before.brokers is not after.brokers:
        node.replication.adopt_all()


def lost(node: Node, partition: Partition) -> Refused | None:
    """Why a partition that was looked up before a wait is not the one to write to after it; None if it still is.

    Deleted topics and moved leaders are told apart as by Kafka, which looks the partition up again as well.
    """
    if partition.is_leader and node.partitions.get((partition.topic, partition.index)) is partition:
        return None
    topic = node.image.topic(partition.topic)
    if topic is None or partition.index not in topic.partitions:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    # Another topic may have got the name meanwhile.
    same = topic.id == partition.topic_id
    return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER if same else ErrorCode.UNKNOWN_TOPIC_ID)


def _adopt_broker_config(node: Node, image: MetadataImage) -> None:
    cluster = image.config(ResourceType.BROKER, "")
    broker = image.config(ResourceType.BROKER, str(node.node_id))
    config = node.static_config.dynamic(cluster=cluster, broker=broker) if cluster or broker else node.static_config
    if config.layers != node.config.layers:
        node.config = config
        node.housekeeping.adopt()


def _drop_topic(node: Node, topic: TopicImage) -> None:
    for index in topic.partitions:
        _resign(node, topic.name, index)
    # What groups have committed for the topic goes with it.
    for shard in node.coordinators.of_groups():
        node.spawn(_forget_offsets(shard, topic))


async def _forget_offsets(shard: GroupShard, topic: TopicImage) -> None:
    await shard.carry_out(shard.machine.topics_deleted([(topic.name, topic.id)]))


def _adopt_topic(node: Node, topic: TopicImage, image: MetadataImage) -> None:
    config: TopicConfig | None = None
    for index, registered in topic.partitions.items():
        held = node.partitions.get((topic.name, index))
        if registered.leader != node.node_id:
            if held is not None:
                _resign(node, topic.name, index)
        elif held is None or held.leader_epoch != registered.leader_epoch:
            if held is not None:
                _resign(node, topic.name, index)
            config = config or _topic_config(image, topic.name, node.config)
            _lead(node, topic, registered, config)
        else:
            node.replication.adopt(held, registered)


def _lead(node: Node, topic: TopicImage, registered: PartitionImage, config: TopicConfig) -> None:
    log = node.store.open(topic.id, registered.index, config)
    if log.leader_epoch > registered.leader_epoch:
        # We hear of it too late: the leader after us has taken the log over already.
        return
    for gone in log.behind.keys() - set(registered.replicas):
        # Where a replica ended that is none any more says nothing, should its broker get one again.
        del log.behind[gone]
    partition = Partition(
        topic=topic.name,
        topic_id=topic.id,
        index=registered.index,
        log=log,
        leader_epoch=registered.leader_epoch,
        config=config,
        now=node.now,
        producer_rules=node.release.producers,
        leader=node.node_id,
    )
    if node.events is not None:
        partition.facts = []
    key = (topic.name, registered.index)
    node.partitions[key] = partition
    node.replication.adopt(partition, registered)
    if node.events is not None:
        _tell(node, "leadership_taken", topic.name, registered.index, leader_epoch=registered.leader_epoch)
    if partition.lost_offsets:
        # Its successor goes on where its own records end: what only the leader before had is gone.
        end, lost = partition.first_offset, partition.lost_offsets
        _tell(node, "log_truncated", topic.name, registered.index, end_offset=end, lost_offsets=lost)
    if topic.name in INTERNAL_TOPICS and log.end_offset > 0:
        # What the log says may be owed; an empty one owes nothing, and its machine is made when it is first asked.
        node.coordinators.begin(partition)
    node.purgatory.wake(("readable", key))


def _resign(node: Node, topic: str, index: int) -> None:
    key = (topic, index)
    partition = node.partitions.pop(key, None)
    if partition is None:
        return
    if node.events is not None:
        _tell(node, "leadership_given_up", topic, index, leader_epoch=partition.leader_epoch)
    node.coordinators.end(topic, index)
    node.replication.resign(partition)
    node.purgatory.wake(("readable", key))


def _tell(node: Node, kind: str, topic: str, index: int, **fields: object) -> None:
    node.emit((Fact(kind, {"topic": topic, "partition": index, **fields}),))


def _tell_features(node: Node, before: MetadataImage, after: MetadataImage) -> None:
    for feature in sorted(before.features.keys() | after.features.keys()):
        old, new = before.feature(feature), after.feature(feature)
        if old != new:
            node.emit((Fact("feature_changed", {"feature": feature, "level_from": old, "level_to": new}),))


def _adopt_topic_configs(node: Node, before: MetadataImage, after: MetadataImage) -> None:
    broker_changed = before.config(ResourceType.BROKER, "") is not after.config(ResourceType.BROKER, "")
    resolved: dict[str, TopicConfig] = {}
    for (name, _), partition in node.partitions.items():
        overrides = after.config(ResourceType.TOPIC, name)
        if not broker_changed and overrides is before.config(ResourceType.TOPIC, name):
            continue
        config = resolved.get(name)
        if config is None:
            config = resolved[name] = _topic_config(after, name, node.config)
        partition.configure(config)


def _topic_config(image: MetadataImage, topic: str, config: Config) -> TopicConfig:
    return TopicConfig.resolve(image.config(ResourceType.TOPIC, topic), config)
