"""The controller: decides what is written to the metadata log, one operation at a time.

It reads the image that its node has, and folds on with the same loader: nothing is speculative, nothing has to be taken
back, and no image that was shown before is shown again. An operation with more records than one batch holds is written
as a metadata transaction (KIP-868): Begin, the records, End; `batches` cuts it, and its reply is given when the End is
committed. A controller that finds a transaction open in the log takes over from one that died in the middle, and writes
Abort before anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar, overload

from msgspec import Struct
from msgspec.structs import replace

from odradek.config.table import Config
from odradek.core.machine import Answered, Decision, Fact, LogRecord, Machine, Proposed, Refused
from odradek.metadata import brokers
from odradek.metadata.assignment import PARTITIONS_PER_REQUEST_MAX, Cluster
from odradek.metadata.change import Change, Failure, Spend, unlimited
from odradek.metadata.elections import ElectionRules, elect_unclean, election_rules
from odradek.metadata.features import (
    ELIGIBLE_REPLICAS,
    ELIGIBLE_REPLICAS_SINCE,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_TRANSACTIONS,
    METADATA_VERSION,
    MIN_INSYNC,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
    record_version,
)
from odradek.metadata.image import EndpointImage, MetadataImage, ResourceType
from odradek.metadata.loader import MetadataLoader
from odradek.metadata.placement import Rng
from odradek.metadata.topics import create_topics
from odradek.records.state import encode_metadata
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.abort_transaction_record import AbortTransactionRecord
from odradek.wire.messages.begin_transaction_record import BeginTransactionRecord
from odradek.wire.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from odradek.wire.messages.broker_registration_response import BrokerRegistrationResponse
from odradek.wire.messages.config_record import ConfigRecord
from odradek.wire.messages.end_transaction_record import EndTransactionRecord
from odradek.wire.messages.feature_level_record import FeatureLevelRecord
from odradek.wire.messages.partition_record import PartitionRecord

if TYPE_CHECKING:
    from odradek.access.principal import Principal
    from odradek.records.batch import Batch
    from odradek.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
    from odradek.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
    from odradek.wire.messages.alter_client_quotas_request import AlterClientQuotasRequest
    from odradek.wire.messages.alter_client_quotas_response import AlterClientQuotasResponse
    from odradek.wire.messages.alter_configs_request import AlterConfigsRequest
    from odradek.wire.messages.alter_configs_response import AlterConfigsResponse
    from odradek.wire.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
    from odradek.wire.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
    from odradek.wire.messages.alter_partition_request import AlterPartitionRequest
    from odradek.wire.messages.alter_partition_response import AlterPartitionResponse
    from odradek.wire.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
    from odradek.wire.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
    from odradek.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
    from odradek.wire.messages.broker_registration_request import BrokerRegistrationRequest
    from odradek.wire.messages.create_acls_request import CreateAclsRequest
    from odradek.wire.messages.create_acls_response import CreateAclsResponse
    from odradek.wire.messages.create_delegation_token_request import CreateDelegationTokenRequest
    from odradek.wire.messages.create_delegation_token_response import CreateDelegationTokenResponse
    from odradek.wire.messages.create_partitions_request import CreatePartitionsRequest
    from odradek.wire.messages.create_partitions_response import CreatePartitionsResponse
    from odradek.wire.messages.create_topics_request import CreateTopicsRequest
    from odradek.wire.messages.create_topics_response import CreateTopicsResponse
    from odradek.wire.messages.delete_acls_request import DeleteAclsRequest
    from odradek.wire.messages.delete_acls_response import DeleteAclsResponse
    from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest
    from odradek.wire.messages.delete_topics_response import DeleteTopicsResponse
    from odradek.wire.messages.elect_leaders_request import ElectLeadersRequest
    from odradek.wire.messages.elect_leaders_response import ElectLeadersResponse
    from odradek.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
    from odradek.wire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
    from odradek.wire.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
    from odradek.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
    from odradek.wire.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
    from odradek.wire.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
    from odradek.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest
    from odradek.wire.messages.renew_delegation_token_response import RenewDelegationTokenResponse
    from odradek.wire.messages.unregister_broker_request import UnregisterBrokerRequest
    from odradek.wire.messages.unregister_broker_response import UnregisterBrokerResponse
    from odradek.wire.messages.update_features_request import UpdateFeaturesRequest
    from odradek.wire.messages.update_features_response import UpdateFeaturesResponse

__all__ = ["BOOTSTRAP", "FAILOVER", "Activation", "Controller", "Fencing"]

T = TypeVar("T")

BOOTSTRAP = "Bootstrap records"
"""Name of the metadata transaction that a new cluster begins with."""
WRITTEN_AT_ONCE = 250
"""How many records are encoded, appended and folded at a time; of a longer transaction others are served in between."""
FAILOVER = "Controller failover"
"""Reason of the Abort that a new controller writes."""


class Activation(Struct, frozen=True):
    """Work: the log is empty, or an open transaction was left in it."""

    @property
    def key(self) -> str:
        """One at a time."""
        return "activation"


class Fencing(Struct, frozen=True):
    """A broker is gone, in the incarnation of this epoch."""

    broker_id: int
    broker_epoch: int

    @property
    def key(self) -> tuple[str, int]:
        """One at a time for each broker."""
        return ("fencing", self.broker_id)


class Controller(Machine[Activation]):
    """Decides about topics, configs, features, brokers and blocks of producer ids."""

    def __init__(self, *, node_id: int, cluster_id: str, config: Config, rng: Rng, loader: MetadataLoader) -> None:
        super().__init__()
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.config = config
        self.release = config.release
        self.loader = loader
        self.published: list[MetadataImage] = []
        """Images that came out of folding; drained by whoever shows them."""
        self._rng = rng
        self._writing = False
        """Whether the transaction that is open is our own and still being written."""
        self.finish: Callable[[], None] = _nothing
        """Writes to its end what is being written a few records at a time: the next decision follows from that."""

    @property
    def image(self) -> MetadataImage:
        """What the log says."""
        return self.loader.image

    # ------------------------------------------------------------------ the machine

    def apply(self, batch: Batch) -> None:
        """Fold one committed batch."""
        self.published += self.loader.apply(batch)
        self.facts += self.loader.facts
        self.loader.facts = []
        if not self.loader.in_transaction:
            self._writing = False

    def due(self, now: int) -> Sequence[Activation]:
        """What the log leaves to be done before this controller may serve."""
        return () if self._writing or self._is_active() else (Activation(),)

    def perform(self, work: Activation) -> Decision[None]:
        """Decide the work that was due."""
        return self.activate()

    def batches(self, records: Sequence[LogRecord]) -> Iterator[Sequence[LogRecord]]:
        """Cut a proposal into what is appended at a time: one batch, unless it is a long transaction."""
        size = self._at_once if self._writing else len(records)
        for start in range(0, len(records), size):
            yield records[start : start + size]

    @property
    def _at_once(self) -> int:
        return min(self.config.odradek_metadata_batch_records_max, WRITTEN_AT_ONCE)

    # ------------------------------------------------------------------ becoming the controller

    def activate(self) -> Decision[None]:
        """The activation records of Kafka's `ActivationRecordsGenerator`."""
        wanted: list[Struct] = []
        if self.loader.in_transaction:
            wanted.append(AbortTransactionRecord(reason=FAILOVER))
        level = self.image.feature(METADATA_VERSION)
        if level == 0:
            level = self.config.odradek_metadata_version
            bootstrap = self._bootstrap()
            if level >= METADATA_TRANSACTIONS:
                bootstrap = [BeginTransactionRecord(name=BOOTSTRAP), *bootstrap, EndTransactionRecord()]
            wanted += bootstrap
        if not wanted:
            return Answered(None)
        self._writing = True
        self.facts.append(Fact("controller_activated", {"node": self.node_id, "records": len(wanted)}))
        return Proposed(_encoded(wanted, level), None)

    def _bootstrap(self) -> list[Struct]:
        config = self.config
        levels = {
            METADATA_VERSION: config.odradek_metadata_version,
            GROUP_VERSION: config.odradek_group_version,
            SHARE_VERSION: config.odradek_share_version,
            TRANSACTION_VERSION: config.odradek_transaction_version,
            ELIGIBLE_REPLICAS: config.odradek_eligible_leader_replicas_version,
            KRAFT_VERSION: config.odradek_kraft_version,
            STREAMS_VERSION: config.odradek_streams_version,
        }
        if levels[METADATA_VERSION] < ELIGIBLE_REPLICAS_SINCE:
            levels[ELIGIBLE_REPLICAS] = 0
        records: list[Struct] = [
            FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items() if level
        ]
        if levels[ELIGIBLE_REPLICAS]:
            value = str(config.min_insync_replicas)
            records.append(
                ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=MIN_INSYNC, value=value)
            )
        return records

    def _is_active(self) -> bool:
        return METADATA_VERSION in self.image.features and not self.loader.in_transaction

    # ------------------------------------------------------------------ topics, configs, features, producer ids

    # What a start does not need is imported when it is first asked for: message classes take their time.

    def create_topics(
        self, request: CreateTopicsRequest, *, wanted: Callable[[int], int] | None = None, spend: Spend = unlimited
    ) -> Decision[CreateTopicsResponse]:
        """CreateTopics, or a part of it."""
        return self._carry_out("CreateTopics", lambda: create_topics(request, self._cluster(spend), wanted=wanted))

    def create_partitions(
        self,
        request: CreatePartitionsRequest,
        *,
        added: Callable[[MetadataImage], int] | None = None,
        spend: Spend = unlimited,
    ) -> Decision[CreatePartitionsResponse]:
        """CreatePartitions; `added`: how many there are to be more in all, where the request is a part of another."""
        from odradek.metadata.partitions import create_partitions

        return self._carry_out(
            "CreatePartitions", lambda: create_partitions(request, self._cluster(spend), added=added)
        )

    def delete_topics(
        self, request: DeleteTopicsRequest, version: int, spend: Spend = unlimited
    ) -> Decision[DeleteTopicsResponse]:
        """DeleteTopics."""
        from odradek.metadata.deletion import delete_topics

        return self._carry_out("DeleteTopics", lambda: delete_topics(request, version, self.image, self.config, spend))

    def alter_configs(self, request: AlterConfigsRequest) -> Decision[AlterConfigsResponse]:
        """AlterConfigs."""
        from odradek.metadata.configs import alter_configs
        from odradek.metadata.eligible import with_eligible

        def alter() -> Change[AlterConfigsResponse]:
            change = alter_configs(request, self.image, self._effective_config())
            return with_eligible(change, self.image, self._rules_of)

        return self._carry_out("AlterConfigs", alter)

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> Decision[IncrementalAlterConfigsResponse]:
        """IncrementalAlterConfigs."""
        from odradek.metadata.configs import incremental_alter_configs
        from odradek.metadata.eligible import with_eligible

        def alter() -> Change[IncrementalAlterConfigsResponse]:
            change = incremental_alter_configs(request, self.image, self._effective_config())
            return with_eligible(change, self.image, self._rules_of)

        return self._carry_out("IncrementalAlterConfigs", alter)

    def update_features(self, request: UpdateFeaturesRequest) -> Decision[UpdateFeaturesResponse]:
        """UpdateFeatures."""
        from odradek.metadata.feature_updates import update_features

        return self._carry_out(
            "UpdateFeatures",
            lambda: update_features(request, self.image, self.node_id, self.release, self.config),
        )

    def alter_partitions(self, request: AlterPartitionRequest) -> Decision[AlterPartitionResponse]:
        """AlterPartition: who is in sync, as the leader sees it."""
        from odradek.metadata.isr import alter_partitions

        rules = self._election_rules()
        return self._carry_out("AlterPartition", lambda: alter_partitions(request, self.image, rules))

    def elect_leaders(self, request: ElectLeadersRequest, version: int) -> Decision[ElectLeadersResponse]:
        """ElectLeaders."""
        from odradek.metadata.reassignment import elect_leaders

        rules = self._election_rules()
        return self._carry_out("ElectLeaders", lambda: elect_leaders(request, version, self.image, rules))

    def alter_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> Decision[AlterPartitionReassignmentsResponse]:
        """AlterPartitionReassignments."""
        from odradek.metadata.reassignment import alter_reassignments

        rules = self._election_rules()
        return self._carry_out("AlterPartitionReassignments", lambda: alter_reassignments(request, self.image, rules))

    def list_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> Decision[ListPartitionReassignmentsResponse]:
        """ListPartitionReassignments: nothing is written, and only the controller knows for sure."""
        from odradek.metadata.reassignment import list_reassignments

        return self._carry_out("ListPartitionReassignments", lambda: Change(list_reassignments(request, self.image)))

    def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> Decision[AllocateProducerIdsResponse]:
        """AllocateProducerIds: the next block for a broker (KIP-730)."""
        from odradek.metadata.producer_ids import next_block

        return self._carry_out("AllocateProducerIds", lambda: next_block(request, self.image))

    def alter_credentials(
        self, request: AlterUserScramCredentialsRequest
    ) -> Decision[AlterUserScramCredentialsResponse]:
        """AlterUserScramCredentials."""
        from odradek.metadata.credentials import alter_credentials

        return self._carry_out("AlterUserScramCredentials", lambda: alter_credentials(request, self.image))

    def create_acls(self, request: CreateAclsRequest) -> Decision[CreateAclsResponse]:
        """CreateAcls."""
        from odradek.metadata.permissions import create_acls

        return self._carry_out("CreateAcls", lambda: create_acls(request, self.image, self._rng))

    def delete_acls(self, request: DeleteAclsRequest) -> Decision[DeleteAclsResponse]:
        """DeleteAcls."""
        from odradek.metadata.permissions import delete_acls

        return self._carry_out("DeleteAcls", lambda: delete_acls(request, self.image))

    def alter_quotas(self, request: AlterClientQuotasRequest) -> Decision[AlterClientQuotasResponse]:
        """AlterClientQuotas."""
        from odradek.metadata.quotas import alter_quotas

        return self._carry_out("AlterClientQuotas", lambda: alter_quotas(request, self.image))

    # Delegation tokens come in by who asks, as the broker that was asked knows them.

    def create_token(
        self, request: CreateDelegationTokenRequest, requester: Principal, token_id: str, now: int
    ) -> Decision[CreateDelegationTokenResponse]:
        """CreateDelegationToken."""
        from odradek.metadata.tokens import create_token

        settings = self.config.security()
        return self._carry_out(
            "CreateDelegationToken", lambda: create_token(request, requester, token_id, settings, now)
        )

    def renew_token(
        self, request: RenewDelegationTokenRequest, who: Principal, now: int
    ) -> Decision[RenewDelegationTokenResponse]:
        """RenewDelegationToken."""
        from odradek.metadata.tokens import renew_token

        settings = self.config.security()
        return self._carry_out(
            "RenewDelegationToken", lambda: renew_token(request, str(who), self.image, settings, now)
        )

    def expire_token(
        self, request: ExpireDelegationTokenRequest, who: Principal, now: int
    ) -> Decision[ExpireDelegationTokenResponse]:
        """ExpireDelegationToken."""
        from odradek.metadata.tokens import expire_token

        settings = self.config.security()
        return self._carry_out(
            "ExpireDelegationToken", lambda: expire_token(request, str(who), self.image, settings, now)
        )

    def remove_expired_tokens(self, now: int) -> Decision[None]:
        """Forget the delegation tokens whose time is over."""
        from odradek.metadata.tokens import remove_expired

        return self._carry_out("ExpiredTokens", lambda: remove_expired(self.image, now))

    def put_records(self, name: str, records: Sequence[Struct]) -> Decision[None]:
        """Write what a new cluster is to hold from the start."""
        return self._carry_out(name, lambda: Change(None, list(records)))

    def _cluster(self, spend: Spend) -> Cluster:
        largest = PARTITIONS_PER_REQUEST_MAX
        if self.image.feature(METADATA_VERSION) < METADATA_TRANSACTIONS:
            largest = self.config.odradek_metadata_batch_records_max
        return Cluster(self.image, self._effective_config(), self._rng, largest, spend)

    # ------------------------------------------------------------------ brokers and leaders

    def register_broker(self, request: BrokerRegistrationRequest) -> Decision[BrokerRegistrationResponse]:
        """BrokerRegistration; the epoch of a broker is the offset of its registration."""
        return self._carry_out("BrokerRegistration", lambda: self._register(request))

    def _register(self, request: BrokerRegistrationRequest) -> Change[BrokerRegistrationResponse]:
        epoch = self.loader.last_offset + 1
        outcome = brokers.register(
            request,
            self.image,
            cluster_id=self.cluster_id,
            epoch=epoch,
            rules=self._election_rules(),
        )
        if isinstance(outcome, Failure):
            return Change(BrokerRegistrationResponse(error_code=outcome.error))
        return Change(BrokerRegistrationResponse(broker_epoch=epoch), outcome)

    def heartbeat(self, request: BrokerHeartbeatRequest) -> Decision[BrokerHeartbeatResponse]:
        """BrokerHeartbeat: who has read the log up to its registration is let in; who leaves is fenced."""
        return self._carry_out("BrokerHeartbeat", lambda: self._on_heartbeat(request))

    def _on_heartbeat(self, request: BrokerHeartbeatRequest) -> Change[BrokerHeartbeatResponse]:
        error = brokers.stale(self.image, broker_id=request.broker_id, epoch=request.broker_epoch)
        if error is not ErrorCode.NONE:
            return Change(BrokerHeartbeatResponse(error_code=error))
        broker = self.image.brokers[request.broker_id]
        caught_up = request.current_metadata_offset >= broker.epoch
        leaves = request.want_fence or request.want_shut_down
        fenced = leaves or (broker.fenced and not caught_up)
        reply = BrokerHeartbeatResponse(
            is_caught_up=caught_up, is_fenced=fenced, should_shut_down=request.want_shut_down
        )
        if fenced == broker.fenced:
            return Change(reply)
        return Change(reply, (brokers.fence if fenced else brokers.unfence)(self.image, broker, self._election_rules()))

    def fence_broker(self, work: Fencing) -> Decision[None]:
        """A broker is gone: its partitions go to others."""
        broker = self.image.brokers.get(work.broker_id)
        if broker is None or broker.fenced or broker.epoch != work.broker_epoch:
            return Answered(None)
        self.facts.append(Fact("broker_fenced", {"broker": broker.id}))
        rules = self._election_rules()
        return self._carry_out("BrokerFencing", lambda: Change(None, brokers.fence(self.image, broker, rules)))

    def unregister_broker(self, request: UnregisterBrokerRequest) -> Decision[UnregisterBrokerResponse]:
        """UnregisterBroker: a broker is forgotten, and what it led goes to others."""
        return self._carry_out(
            "UnregisterBroker", lambda: brokers.unregister(request.broker_id, self.image, self._election_rules())
        )

    def change_addresses(self, broker_id: int, endpoints: Sequence[EndpointImage]) -> Decision[None]:
        """Clients are to reach a broker elsewhere; nothing else about it changes."""
        from odradek.metadata.snapshot import broker_record

        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return Refused(ErrorCode.BROKER_ID_NOT_REGISTERED)
        record = broker_record(replace(broker, endpoints=tuple(endpoints)))
        return self._carry_out("AddressChange", lambda: Change(None, [record]))

    def move_leader(self, topic: str, partition: int, to: int, *, unclean: bool = False) -> Decision[None]:
        """Give a partition to another leader, or to the same one in a new leader epoch; `unclean`: whatever is lost."""
        image = self.image
        topic_image, state = image.topic(topic), image.partition(topic, partition)
        if topic_image is None or state is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not image.is_alive(to):
            return Refused(ErrorCode.BROKER_NOT_AVAILABLE)
        if not unclean and not brokers.may_lead(state, to):
            text = f"it is not in sync (the ISR is {sorted(state.isr)}), so that what is committed might be lost"
            return Refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, text)
        record = brokers.move_leader(topic_image, state, to, image)
        return self._carry_out("LeaderMove", lambda: Change(None, [record]))

    def elect_unclean(self) -> Decision[None]:
        """Give a leader to every partition without one whose topic allows one that is out of sync."""
        return self._carry_out(
            "UncleanElections", lambda: Change(None, elect_unclean(self.image, self._election_rules()))
        )

    # ------------------------------------------------------------------ from a change to a proposal

    def _carry_out(self, name: str, operate: Callable[[], Change[T]]) -> Decision[T]:
        self.finish()
        if not self._is_active():
            return Refused(ErrorCode.NOT_CONTROLLER)
        change = operate()
        if not change.records:
            return Answered(change.reply)
        level = self.image.feature(METADATA_VERSION)
        records = change.records
        if level < METADATA_TRANSACTIONS:
            if len(records) > self.config.odradek_metadata_batch_records_max:
                return Refused(ErrorCode.POLICY_VIOLATION, f"{name} needs more records than one batch may hold.")
        elif len(records) > self._at_once:
            records = [BeginTransactionRecord(name=name), *records, EndTransactionRecord()]
        # What cannot be encoded leaves nothing behind.
        encoded = _encoded(records, level)
        self._writing = len(records) > len(change.records)
        self.facts += change.facts
        return Proposed(encoded, change.reply)

    def _election_rules(self) -> ElectionRules:
        return self._rules_of(self.image)

    def _rules_of(self, image: MetadataImage) -> ElectionRules:
        cluster = image.config(ResourceType.BROKER, "")
        config = self.config.dynamic(cluster=cluster, broker={}) if cluster else self.config
        return election_rules(image, config, eligible_replicas=image.feature(ELIGIBLE_REPLICAS) > 0)

    def _effective_config(self) -> Config:
        image = self.image
        cluster = image.config(ResourceType.BROKER, "")
        own = image.config(ResourceType.BROKER, str(self.node_id))
        return self.config.dynamic(cluster=cluster, broker=own) if cluster or own else self.config


class Encoded(Sequence[LogRecord]):
    """Records of the metadata log; those of partitions, which can always be encoded, are when they are looked at."""

    def __init__(self, records: Sequence[Struct], level: int) -> None:
        self._records = [record if isinstance(record, PartitionRecord) else _one(record, level) for record in records]
        self._level = level

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> LogRecord: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[LogRecord, ...]: ...
    def __getitem__(self, index: int | slice) -> LogRecord | tuple[LogRecord, ...]:
        if isinstance(index, slice):
            return tuple(map(self._encoded, self._records[index]))
        return self._encoded(self._records[index])

    def _encoded(self, record: LogRecord | Struct) -> LogRecord:
        return record if isinstance(record, LogRecord) else _one(record, self._level)


def _one(record: Struct, level: int) -> LogRecord:
    return LogRecord(None, encode_metadata(record, record_version(record, level)))


def _encoded(records: Sequence[Struct], level: int) -> Sequence[LogRecord]:
    if len(records) > WRITTEN_AT_ONCE:
        return Encoded(records, level)
    return tuple(_one(record, level) for record in records)


def _nothing() -> None:
    """Nothing is being written."""
