"""The quorum of controllers: DescribeQuorum, adding and removing voters, unregistering nodes.

Its voters are the brokers with the metadata log in their directories; without directories it is the controller alone.

Kafka asks a new voter for its ApiVersions before it is added (KIP-853). The brokers of one process cannot reach a
controller elsewhere, so the request ends as in Kafka with a voter that cannot be reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.access.acls import AclOperation
from odradek.access.needs import TEXTS, allowed_on_cluster
from odradek.core.java_order import hash_order
from odradek.host.endpoint import endpoint
from odradek.metadata.api.started_with import controller_listener
from odradek.metadata.features import KRAFT_VERSION
from odradek.metadata.quorum import metadata_directory
from odradek.metadata.topic_names import CLUSTER_METADATA
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_raft_voter_response import AddRaftVoterResponse
from odradek.wire.messages.apis import (
    ADD_RAFT_VOTER,
    DESCRIBE_QUORUM,
    REMOVE_RAFT_VOTER,
    UNREGISTER_BROKER,
    UNREGISTER_CONTROLLER,
)
from odradek.wire.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    PartitionData,
    ReplicaState,
    TopicData,
)
from odradek.wire.messages.describe_quorum_response import Node as QuorumNode
from odradek.wire.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from odradek.wire.messages.unregister_broker_response import UnregisterBrokerResponse
from odradek.wire.messages.unregister_controller_response import UnregisterControllerResponse
from odradek.wire.primitives import uuid_text

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.host.forwarding import Forwarding
    from odradek.host.host import Host
    from odradek.wire.messages.add_raft_voter_request import AddRaftVoterRequest
    from odradek.wire.messages.describe_quorum_request import DescribeQuorumRequest
    from odradek.wire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
    from odradek.wire.messages.unregister_broker_request import UnregisterBrokerRequest
    from odradek.wire.messages.unregister_controller_request import UnregisterControllerRequest

__all__ = [
    "QuorumApi",
]


NODES_SINCE = 2
"""The first version of DescribeQuorum with the addresses of voters."""
NO_DIRECTORY = bytes(16)
UNKNOWN = -1
"""Of a voter that a leader has not heard of: its offset and its times."""


class QuorumApi:
    """DescribeQuorum, AddRaftVoter, RemoveRaftVoter, UnregisterBroker, UnregisterController."""

    def __init__(self, node: Host, forwarding: Forwarding) -> None:
        self._forwarding = forwarding
        self._cluster = node.cluster
        self._metadata = node.metadata
        self._settings = node.settings
        self._clock = node.clock
        self._store = node.store

    @endpoint(
        DESCRIBE_QUORUM,
        left_out="voters besides the controller, without data directories",
        needs=allowed_on_cluster(AclOperation.DESCRIBE, message=TEXTS[ErrorCode.CLUSTER_AUTHORIZATION_FAILED]),
    )
    async def describe_quorum(self, call: Call[DescribeQuorumRequest]) -> DescribeQuorumResponse:
        """DescribeQuorum (key 55), versions 0 to 2 (KIP-595, 836, 853): the controller leads the voters."""
        request = call.request
        asked = [
            (topic.topic_name, partition.partition_index) for topic in request.topics for partition in topic.partitions
        ]
        known = asked == [(CLUSTER_METADATA, 0)]
        return DescribeQuorumResponse(
            topics=[
                TopicData(
                    topic_name=topic.topic_name,
                    partitions=[
                        self._quorum() if known else _no_quorum(partition.partition_index)
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
            nodes=[*map(self._quorum_node, self._voters())] if known and call.version >= NODES_SINCE else [],
        )

    def _voters(self) -> tuple[int, ...]:
        return self._store.voters or (self._cluster.controller_id,)

    def _quorum(self) -> PartitionData:
        image, leader, voters = self._metadata.image, self._cluster.controller_id, self._voters()
        end = image.offset + 1

        def replica(node_id: int, *, fetches: bool = True) -> ReplicaState:
            now = self._clock.now if fetches else UNKNOWN
            return ReplicaState(
                replica_id=node_id,
                replica_directory_id=self.directory_id(node_id) if image.feature(KRAFT_VERSION) else NO_DIRECTORY,
                log_end_offset=end if fetches else UNKNOWN,
                last_fetch_timestamp=now,
                last_caught_up_timestamp=now,
            )

        return PartitionData(
            partition_index=0,
            leader_id=leader,
            leader_epoch=image.epoch,
            high_watermark=end,
            current_voters=[replica(each, fetches=each == leader or image.is_alive(each)) for each in voters],
            observers=[replica(broker) for broker in image.brokers if broker not in voters],
        )

    def _quorum_node(self, node_id: int) -> QuorumNode:
        broker = self._metadata.image.brokers.get(node_id)
        endpoints = () if broker is None else broker.endpoints
        listeners = [Listener(name=e.name, host=e.host, port=e.port) for e in endpoints]
        return QuorumNode(node_id=node_id, listeners=listeners)

    def directory_id(self, node_id: int) -> bytes:
        """The id of the directory with a node's metadata log; it does not change while the cluster exists."""
        return metadata_directory(self._store.directories_of(node_id), self._cluster.cluster_id, node_id)

    @endpoint(
        ADD_RAFT_VOTER,
        left_out="reaching the new voter",
        needs=allowed_on_cluster(AclOperation.ALTER, message=TEXTS[ErrorCode.CLUSTER_AUTHORIZATION_FAILED]),
    )
    async def add_raft_voter(self, call: Call[AddRaftVoterRequest]) -> AddRaftVoterResponse:
        """AddRaftVoter (key 80), versions 0 and 1: 1 can be answered before the new set of voters is committed."""
        request = call.request
        listener = controller_listener(self._settings.config).upper()
        # Listener names are in capital letters; of two with the same name the last one counts.
        endpoints = {each.name.upper(): f"{each.host}/<unresolved>:{each.port}" for each in request.listeners}
        error, message = self._another_cluster(request.cluster_id)
        if error is not ErrorCode.NONE:
            pass
        elif request.voter_id < 0 or request.voter_directory_id == NO_DIRECTORY:
            error, message = ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter"
        elif listener not in endpoints:
            # In the order of a Java hash map with the capacity for this number of listeners.
            names = hash_order(endpoints, capacity=len(request.listeners))
            told = ", ".join(f"ListenerName({name})={endpoints[name]}" for name in names)
            error = ErrorCode.INVALID_REQUEST
            message = (
                f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{told}}}))"
                f" for the default listener ListenerName({listener})"
            )
        elif self._metadata.image.feature(KRAFT_VERSION) == 0:
            error = ErrorCode.UNSUPPORTED_VERSION
            message = "Cluster doesn't support adding voter because the kraft.version feature is 0"
        elif request.voter_id in self._voters():
            error = ErrorCode.DUPLICATE_VOTER
            voter = _voter(request.voter_id, request.voter_directory_id)
            message = f"The voter id for {voter} is already part of the set of voters [{self._told_voters()}]."
        else:
            error = ErrorCode.REQUEST_TIMED_OUT
            message = "Aborted add voter operation for since API_VERSIONS returned an error BROKER_NOT_AVAILABLE"
        return AddRaftVoterResponse(error_code=error, error_message=message)

    @endpoint(
        REMOVE_RAFT_VOTER,
        needs=allowed_on_cluster(AclOperation.ALTER, message=TEXTS[ErrorCode.CLUSTER_AUTHORIZATION_FAILED]),
    )
    async def remove_raft_voter(self, call: Call[RemoveRaftVoterRequest]) -> RemoveRaftVoterResponse:
        """RemoveRaftVoter (key 81), version 0: the last voter cannot be removed."""
        request = call.request
        error, message = self._another_cluster(request.cluster_id)
        if error is not ErrorCode.NONE:
            pass
        elif self._metadata.image.feature(KRAFT_VERSION) == 0:
            error = ErrorCode.UNSUPPORTED_VERSION
            message = "Cluster doesn't support removing voter because the kraft.version feature is 0"
        else:
            error = ErrorCode.VOTER_NOT_FOUND
            voter = _voter(request.voter_id, request.voter_directory_id)
            message = f"Cannot remove voter {voter} from the set of voters [{self._told_voters()}]"
        return RemoveRaftVoterResponse(error_code=error, error_message=message)

    def _another_cluster(self, cluster_id: str | None) -> tuple[ErrorCode, str | None]:
        own = self._cluster.cluster_id
        if cluster_id in (None, own):
            return ErrorCode.NONE, None
        return ErrorCode.INCONSISTENT_CLUSTER_ID, f'The given id "{cluster_id}" doesn\'t match the cluster id "{own}"'

    def _told_voters(self) -> str:
        return ", ".join(_voter(node_id, self.directory_id(node_id)) for node_id in self._voters())

    @endpoint(UNREGISTER_BROKER, needs=allowed_on_cluster(AclOperation.ALTER, names_itself=True))
    async def unregister_broker(self, call: Call[UnregisterBrokerRequest]) -> UnregisterBrokerResponse:
        """UnregisterBroker (key 64), version 0: the registration of a broker is removed, even if it runs."""
        request = call.request

        def refuse(error: ErrorCode, message: str | None) -> UnregisterBrokerResponse:
            return UnregisterBrokerResponse(error_code=error, error_message=message)

        return await self._forwarding.ask(
            call, lambda controller: controller.unregister_broker(request), refuse, UnregisterBrokerResponse
        )

    @endpoint(UNREGISTER_CONTROLLER, needs=allowed_on_cluster(AclOperation.ALTER, names_itself=True))
    async def unregister_controller(self, call: Call[UnregisterControllerRequest]) -> UnregisterControllerResponse:
        """UnregisterController (key 94), version 0: there is one controller, which is active."""
        request = call.request
        if request.controller_id == self._cluster.controller_id:
            error, message = ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."
        else:
            error = ErrorCode.CONTROLLER_ID_NOT_REGISTERED
            message = f"Controller ID {request.controller_id} is not currently registered."
        return UnregisterControllerResponse(error_code=error, error_message=message)


def _no_quorum(index: int) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message="This server does not host this topic-partition.",
    )


def _voter(node_id: int, directory: bytes) -> str:
    """A voter as in Kafka's texts."""
    return f"ReplicaKey(id={node_id}, directoryId={uuid_text(directory)})"
