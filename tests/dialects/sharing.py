"""A share group and a transactional producer of KIP-1289 in the simulated world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.dialects.steps import Player, play
from tests.kips.cluster import Cluster
from tests.kips.view import OK, Pending, TopicPartition

from odradek.core.internal_topics import partition_for
from odradek.core.machine import Refused
from odradek.releases.dialects.kip_1289.producer import SharingProducer
from odradek.releases.dialects.load import load
from odradek.releases.dialects.share_consumer import ACCEPT, ShareConsumer, SharedRecord
from odradek.releases.release import Release
from odradek.share.state import Delivery, ShareKey, ShareState, coordinator_key
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.txn_share_acknowledge_request import (
    TxnAcknowledgementBatch,
    TxnShareAcknowledgePartition,
    TxnShareAcknowledgeRequest,
    TxnShareAcknowledgeTopic,
)
from odradek.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

__all__ = ["GROUP", "LOCK_MS", "T", "TEXT", "Shop"]

TEXT = load("kip-1289")
GROUP = "sharers"
T: TopicPartition = ("t", 0)
LOCK_MS = 30_000
SETTLED_MS = 2_500
"""Longer than a leader waits before it asks what has become of staged records."""


class Shop:
    """A topic with records, a share group that reads it, and producers that acknowledge in transactions."""

    def __init__(
        self,
        *values: bytes,
        level: int = 2,
        brokers: int = 1,
        dialect: Release = TEXT,
        group: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self.cluster = Cluster(
            level,
            brokers=brokers,
            topics=("t:1", "out:1"),
            dialect=dialect,
            share_coordinator_state_topic_num_partitions=3,
            share_coordinator_state_topic_replication_factor=1,
            group_share_assignment_interval_ms=0,
            group_share_heartbeat_interval_ms=5_000,
            group_share_session_timeout_ms=45_000,
            errors_deadletterqueue_auto_create_topics_enable="true",
            **settings,
        )
        self.set_group({"share.auto.offset.reset": "earliest"} | dict(group or {}))
        assert dialect.codecs is not None
        self.codecs = dialect.codecs
        writer = Player(self.cluster, None, kind=SharingProducer)
        for value in values or (b"a",):
            writer.do(writer.core.produce(T, [value]))

    def set_group(self, configs: Mapping[str, str]) -> None:
        """Set configs of the group."""
        altered = [AlterableConfig(name=name, value=value) for name, value in configs.items()]
        resource = AlterConfigsResource(resource_type=32, resource_name=GROUP, configs=altered)
        answer = self.cluster.ask(1, IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert [0] == [each.error_code for each in answer.responses]

    def member(self, name: str = "m") -> ShareConsumer:
        """A member that has joined."""
        member = ShareConsumer(GROUP, ["t"], name)
        self.do(member.join())
        return member

    def producer(self, tid: str = "x", **how: Any) -> Player:
        """A producer with its id and epoch."""
        player = Player(self.cluster, tid, kind=SharingProducer, level=self.cluster.level, **how)
        player.do(player.core.init())
        return player

    def do(self, steps: Any) -> Any:
        """Run some steps."""
        return play(self.cluster, steps)

    def poll(self, member: ShareConsumer) -> list[SharedRecord]:
        """What the member acquires."""
        found: list[SharedRecord] = self.do(member.poll(0))
        return found

    def stage(self, producer: Player, member: ShareConsumer, *records: SharedRecord, kind: int = ACCEPT) -> None:
        """Acknowledge records in the producer's transaction."""
        for record in records:
            member.acknowledge(record, kind)
        core = producer.core
        assert isinstance(core, SharingProducer)
        self.do(core.acknowledge(member.for_transaction(), member.metadata))

    def request(
        self, producer: Player, member: ShareConsumer, first: int, last: int, *types: int, **told: Any
    ) -> TxnShareAcknowledgeRequest:
        """One TxnShareAcknowledge, with these fields."""
        topic = self.cluster.node(1).image.topic("t")
        assert topic is not None
        asked = TxnShareAcknowledgePartition(0, [TxnAcknowledgementBatch(first, last, list(types))])
        fields: dict[str, Any] = {
            "transactional_id": producer.core.transactional_id,
            "group_id": GROUP,
            "producer_id": producer.pair[0],
            "producer_epoch": producer.pair[1],
            "member_id": member.member_id,
            "member_epoch": member.epoch,
            "topics": [TxnShareAcknowledgeTopic(topic.id, [asked])],
        }
        return TxnShareAcknowledgeRequest(**(fields | told))

    def error(self, *asked: Any, to: int | None = None, **told: Any) -> ErrorCode:
        """The error of the one partition of such a request, or of all of it."""
        return self.pending(*asked, to=to, **told).result()

    def pending(self, *asked: Any, to: int | None = None, **told: Any) -> Pending[ErrorCode]:
        """The same, which may take its time; `to`: another broker than the leader."""
        node_id = self.cluster.leader(T) if to is None else to
        pending = self.cluster.pending(node_id, self.request(*asked, **told), 0, _error)
        self.cluster.world.run()
        return pending

    def disable_share_groups(self) -> None:
        """UpdateFeatures: share.version 0."""
        update = FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
        answer = self.cluster.ask(1, UpdateFeaturesRequest(timeout_ms=1000, feature_updates=[update]), 1)
        assert OK == answer.error_code, answer
        self.cluster.world.run()

    def end(self, producer: Player, *, commit: bool) -> None:
        """End the transaction, and give leaders the time to learn of it."""
        producer.do(producer.core.end(commit=commit))
        self.cluster.world.advance(SETTLED_MS)

    # ------------------------------------------------------------------ what is stored, and what leaders have

    @property
    def key(self) -> ShareKey:
        """The share partition."""
        topic = self.cluster.node(1).image.topic("t")
        assert topic is not None
        return ShareKey(GROUP, topic.id, 0)

    def partitions_of_coordinators(self, tid: str) -> list[TopicPartition]:
        """Those that coordinate the group, the transactional id and the state."""
        return [self.cluster.offsets_of(GROUP), self.cluster.log_of(tid), self.state_partition]

    @property
    def state_partition(self) -> TopicPartition:
        """The partition with its state."""
        return "__share_group_state", partition_for(coordinator_key(self.key), 3)

    @property
    def stored(self) -> ShareState:
        """The state at the share coordinator."""
        node = self.cluster.node(self.cluster.leader(self.state_partition))
        shard = node.share_coordinators.of(coordinator_key(self.key))
        assert not isinstance(shard, Refused)
        return shard.machine.durable_state()[self.key]

    @property
    def states(self) -> list[tuple[int, int, Delivery, int]]:
        """First and last offset, state and delivery count of the stored batches."""
        return [(each.first, each.last, Delivery(each.state), each.count) for each in self.stored.batches]


def _error(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code or answer.responses[0].partitions[0].error_code)
