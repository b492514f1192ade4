"""Changes to a metadata image, record by record; the new image is built when it is published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Never, cast

from msgspec import Struct
from msgspec.structs import replace

from odradek.access.acls import Acl
from odradek.metadata.features import KRAFT_VERSION
from odradek.metadata.image import (
    BrokerImage,
    EndpointImage,
    MetadataImage,
    PartitionImage,
    QuotaEntity,
    ResourceType,
    TopicImage,
)
from odradek.wire.primitives import uuid_text

if TYPE_CHECKING:
    from odradek.access.credential import ScramCredential
    from odradek.access.tokens import Token
    from odradek.wire.messages.access_control_entry_record import AccessControlEntryRecord
    from odradek.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
    from odradek.wire.messages.clear_elr_record import ClearElrRecord
    from odradek.wire.messages.client_quota_record import ClientQuotaRecord
    from odradek.wire.messages.config_record import ConfigRecord
    from odradek.wire.messages.delegation_token_record import DelegationTokenRecord
    from odradek.wire.messages.feature_level_record import FeatureLevelRecord
    from odradek.wire.messages.fence_broker_record import FenceBrokerRecord
    from odradek.wire.messages.k_raft_version_record import KRaftVersionRecord
    from odradek.wire.messages.no_op_record import NoOpRecord
    from odradek.wire.messages.partition_change_record import PartitionChangeRecord
    from odradek.wire.messages.partition_record import PartitionRecord
    from odradek.wire.messages.producer_ids_record import ProducerIdsRecord
    from odradek.wire.messages.register_broker_record import RegisterBrokerRecord
    from odradek.wire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
    from odradek.wire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
    from odradek.wire.messages.remove_topic_record import RemoveTopicRecord
    from odradek.wire.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
    from odradek.wire.messages.topic_record import TopicRecord
    from odradek.wire.messages.unfence_broker_record import UnfenceBrokerRecord
    from odradek.wire.messages.unregister_broker_record import UnregisterBrokerRecord
    from odradek.wire.messages.user_scram_credential_record import UserScramCredentialRecord

__all__ = ["Delta"]

LEADER_UNCHANGED = -2
"""The leader in a PartitionChangeRecord that does not change the leader."""


class Delta:
    """An image that is being changed; unchanged parts are shared with the image before."""

    def __init__(self, base: MetadataImage) -> None:
        self.base = base
        self.empty = True
        self.removed: list[bytes] = []
        """Ids of removed topics, which are never used again."""
        self.fault: str | None = None
        """Why a record made no sense, and was skipped; whoever replays takes it."""
        self._brokers: dict[int, BrokerImage] | None = None
        self._configs: dict[tuple[int, str], Mapping[str, str]] | None = None
        self._features: dict[str, int] | None = None
        self._topics: dict[bytes, TopicImage | None] = {}
        """Changed topics; None for a removed one."""
        self._partitions: dict[bytes, dict[int, PartitionImage]] = {}
        """Partitions of changed topics: copied once for many records."""
        self._next_producer_id = base.next_producer_id
        self._acls: dict[bytes, Acl] | None = None
        self._quotas: dict[QuotaEntity, Mapping[str, float]] | None = None
        self._tokens: dict[str, Token] | None = None
        self._scram: dict[tuple[str, int], ScramCredential] | None = None

    def replay(self, record: Struct) -> bool:
        """Apply one record; False for a kind that this broker does not use."""
        handler = _HANDLERS.get(type(record).__name__)
        if handler is None:
            return False
        self.empty = False
        handler(self, cast("Never", record))
        return True

    def build(self, *, offset: int, epoch: int) -> MetadataImage:
        """The image with all changes, as of this offset."""
        base = self.base
        topics, topics_by_id = self._built_topics()
        return MetadataImage(
            offset=offset,
            epoch=epoch,
            brokers=base.brokers if self._brokers is None else self._brokers,
            topics=topics,
            topics_by_id=topics_by_id,
            configs=base.configs if self._configs is None else self._configs,
            features=base.features if self._features is None else self._features,
            next_producer_id=self._next_producer_id,
            acls=base.acls if self._acls is None else self._acls,
            quotas=base.quotas if self._quotas is None else self._quotas,
            tokens=base.tokens if self._tokens is None else self._tokens,
            scram=base.scram if self._scram is None else self._scram,
        )

    def _built_topics(self) -> tuple[Mapping[str, TopicImage], Mapping[bytes, TopicImage]]:
        base = self.base
        if not self._topics:
            return base.topics, base.topics_by_id
        by_name, by_id = dict(base.topics), dict(base.topics_by_id)
        for topic_id in self._topics:
            old = by_id.pop(topic_id, None)
            if old is not None and by_name[old.name].id == topic_id:
                del by_name[old.name]
        for topic_id, topic in self._topics.items():
            if topic is not None:
                partitions = self._partitions.get(topic_id)
                built = topic if partitions is None else replace(topic, partitions=partitions)
                by_id[topic_id] = by_name[topic.name] = built
        return by_name, by_id

    def _topic(self, topic_id: bytes) -> TopicImage | None:
        topic = self._topics[topic_id] if topic_id in self._topics else self.base.topics_by_id.get(topic_id)
        if topic is None:
            self.fault = f"no topic has the id {uuid_text(topic_id)}"
        return topic

    def _partitions_of(self, topic: TopicImage) -> dict[int, PartitionImage]:
        partitions = self._partitions.get(topic.id)
        if partitions is None:
            self._topics[topic.id] = topic
            partitions = self._partitions[topic.id] = dict(topic.partitions)
        return partitions

    def topic_added(self, record: TopicRecord) -> None:
        """TopicRecord: a topic, without partitions at first."""
        self._topics[record.topic_id] = TopicImage(record.name, record.topic_id)
        self._partitions[record.topic_id] = {}

    def topic_removed(self, record: RemoveTopicRecord) -> None:
        """RemoveTopicRecord: removes the topic, its partitions and its configs."""
        topic = self._topic(record.topic_id)
        if topic is not None:
            self.removed.append(record.topic_id)
            self._topics[record.topic_id] = None
            self._partitions.pop(record.topic_id, None)
            self._own_configs().pop((ResourceType.TOPIC, topic.name), None)

    def partition_set(self, record: PartitionRecord) -> None:
        """PartitionRecord: a whole partition."""
        topic = self._topic(record.topic_id)
        if topic is not None:
            self._partitions_of(topic)[record.partition_id] = PartitionImage(
                index=record.partition_id,
                leader=record.leader,
                leader_epoch=record.leader_epoch,
                partition_epoch=record.partition_epoch,
                replicas=tuple(record.replicas),
                isr=tuple(record.isr),
                directories=tuple(record.directories),
                adding_replicas=tuple(record.adding_replicas),
                removing_replicas=tuple(record.removing_replicas),
                eligible_replicas=tuple(record.eligible_leader_replicas or ()),
                last_known_eligible=tuple(record.last_known_elr or ()),
            )

    def partition_changed(self, record: PartitionChangeRecord) -> None:
        """PartitionChangeRecord: each change raises the partition epoch, a change of leader the leader epoch too."""
        topic = self._topic(record.topic_id)
        if topic is None:
            return
        partitions = self._partitions_of(topic)
        old = partitions.get(record.partition_id)
        if old is None:
            self.fault = f"topic {topic.name} has no partition {record.partition_id}"
            return
        led = record.leader != LEADER_UNCHANGED

        def told(now: list[int] | None, before: tuple[int, ...]) -> tuple[int, ...]:
            return before if now is None else tuple(now)

        partitions[record.partition_id] = replace(
            old,
            leader=record.leader if led else old.leader,
            leader_epoch=old.leader_epoch + 1 if led else old.leader_epoch,
            partition_epoch=old.partition_epoch + 1,
            replicas=told(record.replicas, old.replicas),
            isr=told(record.isr, old.isr),
            adding_replicas=told(record.adding_replicas, old.adding_replicas),
            removing_replicas=told(record.removing_replicas, old.removing_replicas),
            eligible_replicas=told(record.eligible_leader_replicas, old.eligible_replicas),
            last_known_eligible=told(record.last_known_elr, old.last_known_eligible),
            directories=old.directories if record.directories is None else tuple(record.directories),
        )

    def eligible_cleared(self, record: ClearElrRecord) -> None:
        """ClearElrRecord: removes the eligible leader replicas of this topic, or of all topics if it has no name."""
        changed = [topic for topic in self._topics.values() if topic is not None]
        untouched = [topic for topic_id, topic in self.base.topics_by_id.items() if topic_id not in self._topics]
        for topic in (*changed, *untouched):
            if record.topic_name in ("", topic.name):
                self._clear_eligible(topic)

    def _clear_eligible(self, topic: TopicImage) -> None:
        partitions = self._partitions.get(topic.id, topic.partitions)
        cleared = [each for each in partitions.values() if each.eligible_replicas or each.last_known_eligible]
        if cleared:
            own = self._partitions_of(topic)
            for partition in cleared:
                own[partition.index] = replace(partition, eligible_replicas=(), last_known_eligible=())

    def _own_brokers(self) -> dict[int, BrokerImage]:
        if self._brokers is None:
            self._brokers = dict(self.base.brokers)
        return self._brokers

    def broker_registered(self, record: RegisterBrokerRecord) -> None:
        """RegisterBrokerRecord: a broker, or a new incarnation of one."""
        self._own_brokers()[record.broker_id] = BrokerImage(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=tuple(EndpointImage(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features={f.name: (f.min_supported_version, f.max_supported_version) for f in record.features},
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=tuple(record.log_dirs),
        )

    def broker_unregistered(self, record: UnregisterBrokerRecord) -> None:
        if self._own_brokers().pop(record.broker_id, None) is None:
            self._broker_is_missing(record.broker_id)

    def _broker_is_missing(self, broker_id: int) -> None:
        self.fault = f"broker {broker_id} is not registered"

    def _broker_changed(self, broker_id: int, *, fenced: int = 0, in_controlled_shutdown: int = 0) -> None:
        """1 sets a property, -1 takes it away, 0 changes nothing."""
        brokers = self._own_brokers()
        broker = brokers.get(broker_id)
        if broker is None:
            self._broker_is_missing(broker_id)
            return
        brokers[broker_id] = replace(
            broker,
            fenced=fenced > 0 if fenced else broker.fenced,
            in_controlled_shutdown=in_controlled_shutdown > 0
            if in_controlled_shutdown
            else broker.in_controlled_shutdown,
        )

    def broker_changed(self, record: BrokerRegistrationChangeRecord) -> None:
        """BrokerRegistrationChangeRecord: fences, unfences, or begins a controlled shutdown."""
        self._broker_changed(
            record.broker_id, fenced=record.fenced, in_controlled_shutdown=record.in_controlled_shutdown
        )

    def broker_fenced(self, record: FenceBrokerRecord) -> None:
        """FenceBrokerRecord: the older record for fencing."""
        self._broker_changed(record.id, fenced=1)

    def broker_unfenced(self, record: UnfenceBrokerRecord) -> None:
        """UnfenceBrokerRecord: the older record for unfencing."""
        self._broker_changed(record.id, fenced=-1)

    def _own_configs(self) -> dict[tuple[int, str], Mapping[str, str]]:
        if self._configs is None:
            self._configs = dict(self.base.configs)
        return self._configs

    def config_set(self, record: ConfigRecord) -> None:
        """ConfigRecord: a value of None removes the override."""
        configs = self._own_configs()
        resource = (record.resource_type, record.resource_name)
        values = dict(configs.get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            configs[resource] = values
        else:
            configs.pop(resource, None)

    def feature_set(self, record: FeatureLevelRecord) -> None:
        """FeatureLevelRecord: level 0 removes the feature; that of kraft.version is skipped (KAFKA-18979)."""
        if record.name != KRAFT_VERSION:
            self._set_level(record.name, record.feature_level)

    def quorum_version_set(self, record: KRaftVersionRecord) -> None:
        """KRaftVersionRecord: the level of kraft.version."""
        self._set_level(KRAFT_VERSION, record.k_raft_version)

    def _set_level(self, name: str, level: int) -> None:
        if self._features is None:
            self._features = dict(self.base.features)
        if level:
            self._features[name] = level
        else:
            self._features.pop(name, None)

    def producer_ids_allocated(self, record: ProducerIdsRecord) -> None:
        """ProducerIdsRecord: the first id of the next block."""
        self._next_producer_id = record.next_producer_id

    def _own_scram(self) -> dict[tuple[str, int], ScramCredential]:
        if self._scram is None:
            self._scram = dict(self.base.scram)
        return self._scram

    def credential_put(self, record: UserScramCredentialRecord) -> None:
        """UserScramCredentialRecord: the user's only credential of this mechanism."""
        from odradek.access.credential import ScramCredential  # few clusters have any

        self._own_scram()[record.name, record.mechanism] = ScramCredential(
            bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
        )

    def credential_removed(self, record: RemoveUserScramCredentialRecord) -> None:
        self._own_scram().pop((record.name, record.mechanism), None)

    def _own_acls(self) -> dict[bytes, Acl]:
        if self._acls is None:
            self._acls = dict(self.base.acls)
        return self._acls

    def acl_created(self, record: AccessControlEntryRecord) -> None:
        """AccessControlEntryRecord: one permission."""
        self._own_acls()[record.id] = Acl(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )

    def acl_removed(self, record: RemoveAccessControlEntryRecord) -> None:
        self._own_acls().pop(record.id, None)

    def quota_set(self, record: ClientQuotaRecord) -> None:
        """ClientQuotaRecord: one limit of an entity, or its removal."""
        if self._quotas is None:
            self._quotas = dict(self.base.quotas)
        named = {part.entity_type: part.entity_name for part in record.entity}
        entity: QuotaEntity = tuple(sorted(named.items(), key=lambda part: part[0]))
        values = dict(self._quotas.get(entity, {}))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self._quotas[entity] = values
        else:
            self._quotas.pop(entity, None)

    def _own_tokens(self) -> dict[str, Token]:
        if self._tokens is None:
            self._tokens = dict(self.base.tokens)
        return self._tokens

    def token_put(self, record: DelegationTokenRecord) -> None:
        """DelegationTokenRecord: a token, or its new expiration."""
        from odradek.access.tokens import Token  # few clusters have any

        self._own_tokens()[record.token_id] = Token(
            id=record.token_id,
            owner=record.owner,
            requester=record.requester,
            renewers=tuple(record.renewers),
            issued_ms=record.issue_timestamp,
            expires_ms=record.expiration_timestamp,
            max_ms=record.max_timestamp,
        )

    def token_removed(self, record: RemoveDelegationTokenRecord) -> None:
        self._own_tokens().pop(record.token_id, None)

    def nothing(self, record: NoOpRecord) -> None:
        """NoOpRecord: changes only the offset."""


_HANDLERS: Mapping[str, Callable[[Delta, Never], None]] = {
    handler.__annotations__["record"]: handler
    for handler in (
        Delta.acl_created,
        Delta.broker_changed,
        Delta.eligible_cleared,
        Delta.quota_set,
        Delta.config_set,
        Delta.token_put,
        Delta.feature_set,
        Delta.quorum_version_set,
        Delta.broker_fenced,
        Delta.nothing,
        Delta.partition_changed,
        Delta.partition_set,
        Delta.producer_ids_allocated,
        Delta.broker_registered,
        Delta.acl_removed,
        Delta.token_removed,
        Delta.topic_removed,
        Delta.credential_removed,
        Delta.topic_added,
        Delta.broker_unfenced,
        Delta.broker_unregistered,
        Delta.credential_put,
    )
}
"""What takes a record, by the name of the record, which is that of its annotation: the module of a record is imported
only when such a record comes.
"""
