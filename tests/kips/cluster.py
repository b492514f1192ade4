"""A simulated cluster that a test does something to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from tests.kips.view import OK, Pair, TopicPartition, View

from odradek.core.machine import Refused
from odradek.faults.armed import Armed
from odradek.faults.one_line import rule
from odradek.host.call import Call
from odradek.host.events import Command
from odradek.releases.release import Release
from odradek.sim import World
from odradek.txn.epochs import force_epoch
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.apis import ADD_PARTITIONS_TO_TXN
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.wire.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.wire.registry import ApiKey

__all__ = ["ABORT", "COMMIT", "EPOCH_LAST", "Cluster", "judged", "partition_errors", "topics_of"]

T = TypeVar("T")
COMMIT, ABORT = True, False
EPOCH_LAST = 32766
"""The last epoch that a client may get."""


class Cluster(View):
    """A simulated cluster at a level of transaction.version; settings are broker keys with underscores."""

    def __init__(
        self,
        level: int = 2,
        *,
        brokers: int | None = None,
        node_ids: Sequence[int] | None = None,
        topics: Iterable[str] = ("t:3",),
        seed: int = 0,
        delay_ms: tuple[int, int] = (0, 0),
        calls_itself: bool = False,
        tells: bool = True,
        dialect: Release | None = None,
        **settings: object,
    ) -> None:
        config: dict[str, object] = {
            "odradek_transaction_version": level,
            "transaction_state_log_num_partitions": 3,
            "offsets_topic_num_partitions": 3,
            # One replica of everything, so that a broker that is gone leaves partitions without a leader.
            "transaction_state_log_replication_factor": 1,
            "offsets_topic_replication_factor": 1,
            "default_replication_factor": 1,
        } | settings
        self.world = World(
            brokers=brokers,
            node_ids=node_ids,
            topics=list(topics),
            config={name.replace("_", "."): value for name, value in config.items()},
            seed=seed,
            delay_ms=delay_ms,
            calls_itself=calls_itself,
            tells=tells,
            dialect=dialect,
        )

    # ------------------------------------------------------------------ what happens to it

    def hold(
        self,
        api_key: ApiKey,
        *,
        times: int | None = None,
        skip: int = 0,
        node_id: int | None = None,
        matches: Callable[[Call], bool] | None = None,
    ) -> Armed:
        """Requests of this kind are held back until they are released."""
        return self.world.arm(
            rule(api_key, hold=True, times=times or "all", skip=skip, matches=matches, broker=node_id)
        )

    def watch(self, api_key: ApiKey) -> list[Call]:
        """Every request of this kind from now on, as it comes in."""
        calls: list[Call] = []

        def see(call: Call) -> bool:
            calls.append(call)
            return False

        self.world.arm(rule(api_key, matches=see))
        return calls

    def answer(
        self, api_key: ApiKey, reply: Callable[[Call], object], *, times: int | None = None, hold: bool = False
    ) -> Armed:
        """Requests of this kind are answered so in place of the broker, at once or when they are released."""
        return self.world.arm(rule(api_key, reply=reply, times=times or "all", hold=hold))

    def lose(self, api_key: ApiKey, *, times: int | None = None, reply_only: bool = False) -> Armed:
        """Requests of this kind are lost, with their connection; or are served, and only their answer is."""
        return self.world.arm(rule(api_key, disconnect="after" if reply_only else "before", times=times or "all"))

    def release(self, held: Armed) -> None:
        """Serve what was held."""
        self.world.disarm(held)

    def move(self, partition: TopicPartition, to: int | None = None) -> None:
        """Another leader, or the same one again in a new leader epoch."""
        self.world.move_leader(*partition, self.leader(partition) if to is None else to)

    def do(self, act: Callable[[], None], *, node_id: int = 1) -> None:
        """Have a broker do something between two events."""
        self.world.post(node_id, Command(act))
        self.world.run()

    def fence(self, node_id: int) -> None:
        """A broker is gone: what it led has no leader."""
        self.do(partial(self.world.nodes[self.world.spec.controller_id].controller.fence, node_id))

    def unfence(self, node_id: int) -> None:
        """It is back, with all that it had."""
        spec = next(broker for broker in self.world.spec.brokers if broker.node_id == node_id)
        controller = self.world.nodes[self.world.spec.controller_id].controller
        self.do(partial(controller.admit, spec, shut_down_cleanly=True))

    def force_epoch(self, transactional_id: str, epoch: int) -> None:
        """Have an id at an epoch that would take thousands of transactions to reach."""
        node_id = self.coordinator(transactional_id)
        shard = self.node(node_id).transaction_coordinators.of(transactional_id)
        assert not isinstance(shard, Refused)
        self.do(partial(force_epoch, shard, transactional_id, epoch), node_id=node_id)

    def set_level(self, level: int) -> None:
        """UpdateFeatures: the finalized level of transaction.version."""
        upgrade_type = 1 if level >= self.level else 2
        update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=upgrade_type)
        response = self.ask(1, UpdateFeaturesRequest(timeout_ms=1000, feature_updates=[update]), 1)
        assert OK == response.error_code, response
        self.world.run()

    @property
    def level(self) -> int:
        """The finalized level, as ApiVersions tells it."""
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        features = self.ask(1, request, 4).finalized_features
        return next((each.max_version_level for each in features if each.name == "transaction.version"), 0)

    def verify_partitions(self, enabled: bool) -> None:
        """IncrementalAlterConfigs: transaction.partition.verification.enable of all brokers."""
        self.set_default("transaction.partition.verification.enable", str(enabled).lower())

    def set_default(self, key: str, value: str) -> None:
        """IncrementalAlterConfigs: a default of all brokers."""
        config = AlterableConfig(name=key, value=value)
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
        response = self.ask(1, IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert [OK] == [each.error_code for each in response.responses], response
        self.world.run()

    # ------------------------------------------------------------------ what leaders and administrators ask

    def add_partitions(
        self,
        transactional_id: str,
        pair: Pair,
        *partitions: TopicPartition,
        version: int = 5,
        verify_only: bool = False,
    ) -> AddPartitionsToTxnResponse:
        """AddPartitionsToTxn as a broker sends it."""
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=pair[0],
            producer_epoch=pair[1],
            verify_only=verify_only,
            topics=topics_of(partitions, AddPartitionsToTxnTopic),
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        response: AddPartitionsToTxnResponse = self.ask(self.coordinator(transactional_id), request, version)
        return response

    def verify(
        self, transactional_id: str, pair: Pair, *partitions: TopicPartition, version: int = 5
    ) -> list[ErrorCode]:
        """What a verification answers for each partition."""
        response = self.add_partitions(transactional_id, pair, *partitions, version=version, verify_only=True)
        assert OK == response.error_code
        [result] = response.results_by_transaction
        return partition_errors(result.topic_results)

    def write_marker(
        self,
        partition: TopicPartition,
        pair: Pair,
        outcome: bool,
        *,
        transaction_version: int = 0,
        coordinator_epoch: int = 0,
        version: int = 2,
    ) -> ErrorCode:
        """WriteTxnMarkers, as a coordinator or an administrator sends it."""
        marker = WritableTxnMarker(
            producer_id=pair[0],
            producer_epoch=pair[1],
            transaction_result=outcome,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version if version >= 2 else 0,
            topics=[WritableTxnMarkerTopic(name=partition[0], partition_indexes=[partition[1]])],
        )
        response = self.ask(self.leader(partition), WriteTxnMarkersRequest(markers=[marker]), version)
        [[[result]]] = [[topic.partitions for topic in each.topics] for each in response.markers]
        return ErrorCode(result.error_code)


def judged(error: ErrorCode) -> Callable[[Call], AddPartitionsToTxnResponse]:
    """An answer to AddPartitionsToTxn v4+ that says this of every partition."""

    def reply(call: Call) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                                for index in topic.partitions
                            ],
                        )
                        for topic in transaction.topics
                    ],
                )
                for transaction in call.request_of(ADD_PARTITIONS_TO_TXN).transactions
            ]
        )

    return reply


def partition_errors(topics: Iterable[Any]) -> list[ErrorCode]:
    """The error of each partition of an AddPartitionsToTxn response."""
    return [ErrorCode(each.partition_error_code) for topic in topics for each in topic.results_by_partition]


def topics_of(partitions: Iterable[TopicPartition], kind: Callable[..., T]) -> list[T]:
    """Partitions as a request lists them."""
    names: dict[str, list[int]] = {}
    for topic, index in partitions:
        names.setdefault(topic, []).append(index)
    return [kind(name=name, partitions=indexes) for name, indexes in names.items()]
