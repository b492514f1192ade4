"""APIs about the whole cluster: DescribeCluster, and its only log directory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import NO_OPERATIONS, allowed_on_cluster, asks
from odradek.core.machine import Refused
from odradek.host.endpoint import endpoint
from odradek.metadata.api.metadata import CLUSTER_OPERATIONS
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from odradek.wire.messages.apis import ALTER_REPLICA_LOG_DIRS, DESCRIBE_CLUSTER, DESCRIBE_LOG_DIRS
from odradek.wire.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from odradek.wire.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.host.call import Call, Serve
    from odradek.host.exchange import Serving
    from odradek.host.replicas import Replicas
    from odradek.wire.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
    from odradek.wire.messages.describe_cluster_request import DescribeClusterRequest
    from odradek.wire.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest

__all__ = [
    "ClusterApi",
    "moves_answered",
]


BROKERS_ENDPOINT = 1
CONTROLLERS_ENDPOINT = 2

FUTURE_LOG_NAME_MAX = 255 - len(".-future") - 32
"""The longest name of a log that can move: Kafka adds an id of 32 digits to it, and file systems have a limit."""


@asks("DESCRIBE on the cluster to hear what the client may do to it")
async def _with_operations(
    authority: Authority,
    call: Call[DescribeClusterRequest],
    serve: Serve[DescribeClusterRequest, DescribeClusterResponse],
) -> DescribeClusterResponse:
    response = await serve(call)
    if response.cluster_authorized_operations != NO_OPERATIONS:
        may_describe = authority.allows(call, AclOperation.DESCRIBE)
        response.cluster_authorized_operations = authority.operations(call, AclResource.CLUSTER) if may_describe else 0
    return response


@asks("ALTER on the cluster")
async def _may_move(
    authority: Authority,
    call: Call[AlterReplicaLogDirsRequest],
    serve: Serve[AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse],
) -> AlterReplicaLogDirsResponse:
    """The answer that refuses each partition; its lists are not those of the request."""
    if authority.allows(call, AclOperation.ALTER):
        return await serve(call)
    return moves_answered(call.request, lambda path, topic, index: ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class ClusterApi:
    """DescribeCluster, DescribeLogDirs, AlterReplicaLogDirs."""

    def __init__(self, node: Serving, replicas: Replicas) -> None:
        self._node_id = node.node_id
        self._cluster = node.cluster
        self._replicas = replicas
        self._store = node.store
        self._metadata = node.metadata
        self._turns = node.turns

    @endpoint(DESCRIBE_CLUSTER, needs=_with_operations)
    async def describe_cluster(self, call: Call[DescribeClusterRequest]) -> DescribeClusterResponse:
        """DescribeCluster (key 60), versions 0 to 2: 1 adds endpoint types (KIP-919), 2 can list fenced brokers."""
        request = call.request
        if request.endpoint_type == CONTROLLERS_ENDPOINT:
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message=(
                    "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
                ),
            )
        if request.endpoint_type != BROKERS_ENDPOINT:
            return DescribeClusterResponse(
                error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message=f"Unsupported endpoint type {request.endpoint_type}",
            )
        return DescribeClusterResponse(
            cluster_id=self._cluster.cluster_id,
            controller_id=self._cluster.controller_id,
            brokers=[
                DescribeClusterBroker(
                    broker_id=broker.id,
                    host=broker.endpoint(call.peer.listener).host,
                    port=broker.endpoint(call.peer.listener).port,
                    rack=broker.rack,
                    is_fenced=broker.fenced,
                )
                for broker in self._metadata.image.brokers.values()
                if request.include_fenced_brokers or not broker.fenced
            ],
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NO_OPERATIONS
            ),
        )

    @endpoint(DESCRIBE_LOG_DIRS, needs=allowed_on_cluster(AclOperation.DESCRIBE))
    async def describe_log_dirs(self, call: Call[DescribeLogDirsRequest]) -> DescribeLogDirsResponse:
        """DescribeLogDirs (key 35), versions 0 to 5: 3 adds a top-level error, 4 the size of the volume (KIP-827)."""
        request = call.request
        wanted = None if request.topics is None else _partitions(request.topics)
        store = self._store
        topics: list[DescribeLogDirsTopic] = []
        every = [
            (topic, partition)
            for topic in self._metadata.image.topics.values()
            for partition in topic.partitions.values()
        ]
        async for some in self._turns.share(call, every):
            for topic, partition in some:
                name, index = topic.name, partition.index
                if self._node_id not in partition.replicas or (
                    wanted is not None and index not in wanted.get(name, ())
                ):
                    continue
                if not topics or topics[-1].name != name:
                    topics.append(DescribeLogDirsTopic(name=name))
                log = store.find(topic.id, index)
                size = 0 if log is None else log.size_bytes
                topics[-1].partitions.append(DescribeLogDirsPartition(partition_index=index, partition_size=size))
        total, usable = store.volume()
        return DescribeLogDirsResponse(
            results=[
                DescribeLogDirsResult(
                    log_dir=store.path_of(self._node_id), topics=topics, total_bytes=total, usable_bytes=usable
                )
            ]
        )

    @endpoint(ALTER_REPLICA_LOG_DIRS, left_out="directories other than the one there is", needs=_may_move)
    async def alter_replica_log_dirs(self, call: Call[AlterReplicaLogDirsRequest]) -> AlterReplicaLogDirsResponse:
        """AlterReplicaLogDirs (key 34), versions 0 to 2 (KIP-113): the one directory has every replica."""

        def moved(path: str, topic: str, index: int) -> ErrorCode:
            if len(topic) + len(f"-{index}") > FUTURE_LOG_NAME_MAX:
                return ErrorCode.INVALID_TOPIC_EXCEPTION
            if path != self._store.path_of(self._node_id):
                return ErrorCode.LOG_DIR_NOT_FOUND
            replica = self._replicas.held(topic, index)
            return replica.error if isinstance(replica, Refused) else ErrorCode.NONE

        return moves_answered(call.request, moved)


def _partitions(topics: list[DescribableLogDirTopic]) -> dict[str, set[int]]:
    """The partitions in the request by topic; a topic may be named several times."""
    wanted: dict[str, set[int]] = {}
    for topic in topics:
        wanted.setdefault(topic.topic, set()).update(topic.partitions)
    return wanted


def moves_answered(
    request: AlterReplicaLogDirsRequest, moved: Callable[[str, str, int], ErrorCode]
) -> AlterReplicaLogDirsResponse:
    """The answer by topic, from the error of each move (directory, topic, partition)."""
    answers: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                # If a partition is named twice, the last directory counts.
                answers.setdefault(topic.name, {})[index] = moved(directory.path, topic.name, index)
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                    for index, error in partitions.items()
                ],
            )
            for name, partitions in answers.items()
        ]
    )
