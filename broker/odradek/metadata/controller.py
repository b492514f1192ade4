"""The controller: decides which records are written to the metadata log, one operation at a time.

It reads the image that its node has, and folds with the same loader: nothing is speculative, nothing has to be undone,
and images never go back. An operation with more records than one batch holds is written as a metadata transaction
(KIP-868): Begin, the records, End; `batches` cuts it, and its reply is sent when the End is committed. A controller
that finds a transaction open in the log has taken over from one that failed in the middle, and writes Abort before
anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from odradek.config.table import Config
from odradek.core.clock import Rng
from odradek.core.machine import Answered, ControlRecord, Decision, Fact, LogRecord, Machine, Proposed, Refused
from odradek.metadata import brokers
from odradek.metadata.assignment import PARTITIONS_PER_REQUEST_MAX, Cluster
from odradek.metadata.change import Change, Failure, MadeWhenRead, Spend, unlimited
from odradek.metadata.elections import ElectionRules, elect_unclean, election_rules
from odradek.metadata.features import (
    ELIGIBLE_REPLICAS,
    ELIGIBLE_REPLICAS_SINCE,
    GROUP_VERSION,
    METADATA_TRANSACTIONS,
    METADATA_VERSION,
    MIN_INSYNC,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
    level_in,
    record_version,
)
from odradek.metadata.image import EndpointImage, MetadataImage, ResourceType
from odradek.metadata.loader import MetadataLoader
from odradek.metadata.topics import create_topics
from odradek.records.control import QUORUM_RECORDS
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
    from odradek.metadata.quorum import Controllers
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
"""Records that are encoded, appended and folded at a time; between two such parts other clients are served."""
FAILOVER = "Controller failover"
"""The reason in the Abort of a new controller."""


class Activation(Struct, frozen=True):
    """Work: the log is empty, or has an open transaction."""

    @property
    def key(self) -> str:
        """One at a time."""
        return "activation"


class Fencing(Struct, frozen=True):
    """A broker is gone: the incarnation with this epoch."""

    broker_id: int
    broker_epoch: int

    @property
    def key(self) -> tuple[str, int]:
        """One at a time for each broker."""
        return ("fencing", self.broker_id)


class Controller(Machine[Activation]):
    """Decides about topics, configs, features, brokers and blocks of producer ids."""

    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        config: Config,
        rng: Rng,
        loader: MetadataLoader,
        controllers: Callable[[], Controllers],
        first_records: Sequence[Struct] = (),
    ) -> None:
        """`controllers` are the voters, where they are to be written into the log.

        `first_records` are those with which a new cluster begins, in place of those that `config` says.
        """
        super().__init__()
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.config = config
        self.release = config.release
        self.loader = loader
        self.published: list[MetadataImage] = []
        """Images that folding has published; their owner takes them from the list."""
        self._controllers = controllers
        self._first_records = first_records
        self._rng = rng
        self._writing = False
        """Whether the open transaction is our own and still being written."""
        self.finish: Callable[[], None] = _nothing
        """Finishes the transaction that is being written in parts; the next decision needs its result."""

    @property
    def image(self) -> MetadataImage:
        return self.loader.image

    def apply(self, batch: Batch) -> None:
        self.published += self.loader.apply(batch)
        self.facts += self.loader.facts
        self.loader.facts = []
        if not self.loader.in_transaction:
            self._writing = False

    def due(self, now: int) -> Sequence[Activation]:
        """Work that the log requires before this controller may serve."""
        return () if self._writing or self._is_active() else (Activation(),)

    def perform(self, work: Activation) -> Decision[None]:
        return self.activate()

    def batches(self, records: Sequence[LogRecord]) -> Iterator[Sequence[LogRecord]]:
        """Cut a proposal into parts that are appended one by one: a single batch, unless it is a long transaction."""
        size = self._at_once if self._writing else len(records)
        # Control records are in a batch of their own, which is no part of a transaction.
        control = 0
        while control < len(records) and isinstance(records[control], ControlRecord):
            control += 1
        if control:
            yield records[:control]
        for start in range(control, len(records), size):
            yield records[start : start + size]

    @property
    def _at_once(self) -> int:
        return min(self.config.odradek_metadata_batch_records_max, WRITTEN_AT_ONCE)

    def activate(self) -> Decision[None]:
        """The activation records of Kafka's `ActivationRecordsGenerator`."""
        wanted: list[Struct] = []
        quorum: list[Struct] = []
        if self.loader.in_transaction:
            wanted.append(AbortTransactionRecord(reason=FAILOVER))
        level = self.image.feature(METADATA_VERSION)
        if level == 0:
            quorum, bootstrap = self._bootstrap()
            level = level_in(bootstrap, METADATA_VERSION)
            if level >= METADATA_TRANSACTIONS:
                bootstrap = [BeginTransactionRecord(name=BOOTSTRAP), *bootstrap, EndTransactionRecord()]
            wanted += bootstrap
        if not wanted:
            return Answered(None)
        self._writing = True
        self.facts.append(Fact("controller_activated", {"node": self.node_id, "records": len(quorum) + len(wanted)}))
        return Proposed(_behind(quorum, _encoded(wanted, level)), None)

    def _bootstrap(self) -> tuple[list[Struct], list[Struct]]:
        """The first records of a cluster: those of its quorum, and all others."""
        config = self.config
        quorum = [each for each in self._first_records if type(each).__name__ in QUORUM_RECORDS]
        records = [each for each in self._first_records if type(each).__name__ not in QUORUM_RECORDS]
        if not records:
            records = self._levels_at_start()
            if config.odradek_kraft_version:
                quorum = self._upgraded_quorum(config.odradek_kraft_version)
        if level_in(records, ELIGIBLE_REPLICAS):
            value = str(config.min_insync_replicas)
            records.append(
                ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=MIN_INSYNC, value=value)
            )
        return quorum, records

    def _upgraded_quorum(self, level: int) -> list[Struct]:
        from odradek.metadata.quorum import quorum_at  # most quorums have static voters

        return quorum_at(level, self._controllers())

    def _levels_at_start(self) -> list[Struct]:
        config = self.config
        levels = {
            METADATA_VERSION: config.odradek_metadata_version,
            GROUP_VERSION: config.odradek_group_version,
            SHARE_VERSION: config.odradek_share_version,
            TRANSACTION_VERSION: config.odradek_transaction_version,
            ELIGIBLE_REPLICAS: config.odradek_eligible_leader_replicas_version,
            STREAMS_VERSION: config.odradek_streams_version,
        }
        if levels[METADATA_VERSION] < ELIGIBLE_REPLICAS_SINCE:
            levels[ELIGIBLE_REPLICAS] = 0
        return [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items() if level]

    def _is_active(self) -> bool:
        return METADATA_VERSION in self.image.features and not self.loader.in_transaction

    # The modules of each operation are imported at its first call: message classes take time to import.

    def create_topics(
        self,
        request: CreateTopicsRequest,
        *,
        wanted: Callable[[int], int] | None = None,
        spend: Spend = unlimited,
        tells_configs: bool = True,
    ) -> Decision[CreateTopicsResponse]:
        """CreateTopics, or a part of it."""
        return self._carry_out(
            "CreateTopics",
            lambda: create_topics(request, self._cluster(spend), wanted=wanted, tells_configs=tells_configs),
        )

    def create_partitions(
        self,
        request: CreatePartitionsRequest,
        *,
        added: Callable[[MetadataImage], int] | None = None,
        spend: Spend = unlimited,
    ) -> Decision[CreatePartitionsResponse]:
        """CreatePartitions; `added`: how many partitions the whole request adds, if this is a part of it."""
        from odradek.metadata.partitions import create_partitions

        return self._carry_out(
            "CreatePartitions", lambda: create_partitions(request, self._cluster(spend), added=added)
        )

    def delete_topics(
        self, request: DeleteTopicsRequest, version: int, spend: Spend = unlimited
    ) -> Decision[DeleteTopicsResponse]:
        from odradek.metadata.deletion import delete_topics

        return self._carry_out("DeleteTopics", lambda: delete_topics(request, version, self.image, self.config, spend))

    def alter_configs(self, request: AlterConfigsRequest) -> Decision[AlterConfigsResponse]:
        from odradek.metadata.configs import alter_configs
        from odradek.metadata.eligible import with_eligible

        def alter() -> Change[AlterConfigsResponse]:
            change = alter_configs(request, self.image, self._effective_config())
            return with_eligible(change, self.image, self._rules_of)

        return self._carry_out("AlterConfigs", alter)

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> Decision[IncrementalAlterConfigsResponse]:
        from odradek.metadata.configs import incremental_alter_configs
        from odradek.metadata.eligible import with_eligible

        def alter() -> Change[IncrementalAlterConfigsResponse]:
            change = incremental_alter_configs(request, self.image, self._effective_config())
            return with_eligible(change, self.image, self._rules_of)

        return self._carry_out("IncrementalAlterConfigs", alter)

    def update_features(self, request: UpdateFeaturesRequest) -> Decision[UpdateFeaturesResponse]:
        from odradek.metadata.feature_updates import update_features

        return self._carry_out(
            "UpdateFeatures",
            lambda: update_features(request, self.image, self.node_id, self.release, self.config),
        )

    def alter_partitions(self, request: AlterPartitionRequest) -> Decision[AlterPartitionResponse]:
        """AlterPartition: the in-sync replicas that a leader proposes."""
        from odradek.metadata.isr import alter_partitions

        rules = self._election_rules()
        return self._carry_out("AlterPartition", lambda: alter_partitions(request, self.image, rules))

    def elect_leaders(self, request: ElectLeadersRequest, version: int) -> Decision[ElectLeadersResponse]:
        from odradek.metadata.reassignment import elect_leaders

        rules = self._election_rules()
        return self._carry_out("ElectLeaders", lambda: elect_leaders(request, version, self.image, rules))

    def alter_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> Decision[AlterPartitionReassignmentsResponse]:
        from odradek.metadata.reassignment import alter_reassignments

        rules = self._election_rules()
        return self._carry_out("AlterPartitionReassignments", lambda: alter_reassignments(request, self.image, rules))

    def list_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> Decision[ListPartitionReassignmentsResponse]:
        """ListPartitionReassignments: writes nothing; only the controller has the latest state."""
        from odradek.metadata.reassignment import list_reassignments

        return self._carry_out("ListPartitionReassignments", lambda: Change(list_reassignments(request, self.image)))

    def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> Decision[AllocateProducerIdsResponse]:
        """AllocateProducerIds: the next block for a broker (KIP-730)."""
        from odradek.metadata.producer_ids import next_block

        return self._carry_out("AllocateProducerIds", lambda: next_block(request, self.image))

    def alter_credentials(
        self, request: AlterUserScramCredentialsRequest
    ) -> Decision[AlterUserScramCredentialsResponse]:
        from odradek.metadata.credentials import alter_credentials

        return self._carry_out("AlterUserScramCredentials", lambda: alter_credentials(request, self.image))

    def create_acls(self, request: CreateAclsRequest) -> Decision[CreateAclsResponse]:
        from odradek.metadata.permissions import create_acls

        return self._carry_out("CreateAcls", lambda: create_acls(request, self.image, self._rng))

    def delete_acls(self, request: DeleteAclsRequest) -> Decision[DeleteAclsResponse]:
        from odradek.metadata.permissions import delete_acls

        return self._carry_out("DeleteAcls", lambda: delete_acls(request, self.image))

    def alter_quotas(self, request: AlterClientQuotasRequest) -> Decision[AlterClientQuotasResponse]:
        from odradek.metadata.client_quotas import alter_quotas

        return self._carry_out("AlterClientQuotas", lambda: alter_quotas(request, self.image))

    # Requests about tokens come with the client's principal, as the broker that received them knows it.

    def create_token(
        self, request: CreateDelegationTokenRequest, requester: Principal, token_id: str, now: int
    ) -> Decision[CreateDelegationTokenResponse]:
        from odradek.metadata.tokens import create_token

        settings = self.config.security()
        return self._carry_out(
            "CreateDelegationToken", lambda: create_token(request, requester, token_id, settings, now)
        )

    def renew_token(
        self, request: RenewDelegationTokenRequest, who: Principal, now: int
    ) -> Decision[RenewDelegationTokenResponse]:
        from odradek.metadata.tokens import renew_token

        settings = self.config.security()
        return self._carry_out(
            "RenewDelegationToken", lambda: renew_token(request, str(who), self.image, settings, now)
        )

    def expire_token(
        self, request: ExpireDelegationTokenRequest, who: Principal, now: int
    ) -> Decision[ExpireDelegationTokenResponse]:
        from odradek.metadata.tokens import expire_token

        settings = self.config.security()
        return self._carry_out(
            "ExpireDelegationToken", lambda: expire_token(request, str(who), self.image, settings, now)
        )

    def remove_expired_tokens(self, now: int) -> Decision[None]:
        from odradek.metadata.tokens import remove_expired

        return self._carry_out("ExpiredTokens", lambda: remove_expired(self.image, now))

    def put_records(self, name: str, records: Sequence[Struct]) -> Decision[None]:
        """Write the first records of a new cluster."""
        return self._carry_out(name, lambda: Change(None, list(records)))

    def _cluster(self, spend: Spend) -> Cluster:
        largest = PARTITIONS_PER_REQUEST_MAX
        if self.image.feature(METADATA_VERSION) < METADATA_TRANSACTIONS:
            largest = self.config.odradek_metadata_batch_records_max
        return Cluster(self.image, self._effective_config(), self._rng, largest, spend)

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
        """BrokerHeartbeat: unfence a broker that has read its registration in the log; fence one that shuts down."""
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
        """A broker is gone: other replicas lead its partitions."""
        broker = self.image.brokers.get(work.broker_id)
        if broker is None or broker.fenced or broker.epoch != work.broker_epoch:
            return Answered(None)
        self.facts.append(Fact("broker_fenced", {"broker": broker.id}))
        rules = self._election_rules()
        return self._carry_out("BrokerFencing", lambda: Change(None, brokers.fence(self.image, broker, rules)))

    def unregister_broker(self, request: UnregisterBrokerRequest) -> Decision[UnregisterBrokerResponse]:
        """UnregisterBroker: a broker's registration is removed, and other replicas lead its partitions."""
        return self._carry_out(
            "UnregisterBroker", lambda: brokers.unregister(request.broker_id, self.image, self._election_rules())
        )

    def change_addresses(self, endpoints: Mapping[int, Sequence[EndpointImage]]) -> Decision[None]:
        """Change the addresses of these brokers, and nothing else of their registrations."""
        from odradek.metadata.snapshot import broker_record

        records: list[Struct] = []
        for broker_id, told in endpoints.items():
            broker = self.image.brokers.get(broker_id)
            if broker is None:
                return Refused(ErrorCode.BROKER_ID_NOT_REGISTERED)
            records.append(broker_record(replace(broker, endpoints=tuple(told))))
        return self._carry_out("AddressChange", lambda: Change(None, records))

    def move_leader(self, topic: str, partition: int, to: int, *, unclean: bool = False) -> Decision[None]:
        """Give a partition to another leader, or the same one a new epoch; `unclean`: even if records are lost."""
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
        """Elect a replica that is out of sync for every partition without a leader whose topic allows it."""
        return self._carry_out(
            "UncleanElections", lambda: Change(None, elect_unclean(self.image, self._election_rules()))
        )

    def _carry_out(self, name: str, operate: Callable[[], Change[T]]) -> Decision[T]:
        self.finish()
        if not self._is_active():
            return Refused(ErrorCode.NOT_CONTROLLER)
        change = operate()
        if not change.records and not change.quorum_level:
            return Answered(change.reply)
        quorum = self._upgraded_quorum(change.quorum_level) if change.quorum_level else ()
        level = self.image.feature(METADATA_VERSION)
        count = len(change.records) + len(change.behind)
        if count <= WRITTEN_AT_ONCE:
            change.add_behind()
        head: list[Struct] = change.records
        tail: list[Struct] = []
        if level < METADATA_TRANSACTIONS:
            if count > self.config.odradek_metadata_batch_records_max:
                return Refused(ErrorCode.POLICY_VIOLATION, f"{name} needs more records than one batch may hold.")
        elif count > self._at_once:
            head, tail = [BeginTransactionRecord(name=name), *head], [EndTransactionRecord()]
        # Records that cannot be encoded change nothing.
        encoded = Encoded(head, change.behind, tail, level) if count > WRITTEN_AT_ONCE else _encoded(head + tail, level)
        self._writing = bool(tail)
        self.facts += change.facts
        return Proposed(_behind(quorum, encoded), change.reply)

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


class Encoded(MadeWhenRead[LogRecord]):
    """Encode records of the metadata log; partition records, which can always be encoded, later, when they are read."""

    def __init__(
        self, head: Sequence[Struct], behind: Sequence[PartitionRecord], tail: Sequence[Struct], level: int
    ) -> None:
        self._level = level
        self._parts = (self._checked(head), behind, self._checked(tail))

    def _checked(self, records: Sequence[Struct]) -> Sequence[LogRecord | PartitionRecord]:
        return [record if isinstance(record, PartitionRecord) else _one(record, self._level) for record in records]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def _made(self, index: int) -> LogRecord:
        for part in self._parts:
            if index < len(part):
                record = part[index]
                return record if isinstance(record, LogRecord) else _one(record, self._level)
            index -= len(part)
        raise IndexError(index)


def _one(record: Struct, level: int) -> LogRecord:
    return LogRecord(None, encode_metadata(record, record_version(record, level)))


def _encoded(records: Sequence[Struct], level: int) -> Sequence[LogRecord]:
    return tuple(_one(record, level) for record in records)


def _behind(quorum: Sequence[Struct], encoded: Sequence[LogRecord]) -> Sequence[LogRecord]:
    """All records of a proposal: those of the quorum come first."""
    if not quorum:
        return encoded
    from odradek.metadata.quorum import encode_quorum

    return [*encode_quorum(quorum), *encoded]


def _nothing() -> None:
    """No operation is being written."""
