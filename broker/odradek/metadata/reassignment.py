"""Elections and reassignments by an administrator (KIP-460, KIP-455; Kafka's `ReplicationControlManager`).

A reassignment adds replicas, waits until they are in sync, and then removes the old ones. Without data to copy that
takes as long as the brokers take to acknowledge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from odradek.metadata.change import Change, Failure
from odradek.metadata.elections import Election, ElectionRules, changed
from odradek.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from odradek.wire.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from odradek.wire.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from odradek.wire.messages.alter_partition_reassignments_request import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
    )
    from odradek.wire.messages.elect_leaders_request import ElectLeadersRequest
    from odradek.wire.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
    from odradek.wire.messages.partition_change_record import PartitionChangeRecord

__all__ = ["alter_reassignments", "elect_leaders", "list_reassignments"]


REQUEST_ERROR_SINCE = 1
"""The first version of ElectLeaders with an error of the whole request."""


def elect_leaders(
    request: ElectLeadersRequest, version: int, image: MetadataImage, rules: ElectionRules
) -> Change[ElectLeadersResponse]:
    """Each partition on its own; a request for all topics gets no answer about partitions without need of one."""
    change: Change[ElectLeadersResponse] = Change(ElectLeadersResponse())
    if request.timeout_ms <= 0 and request.topic_partitions != []:
        return Change(_no_election(request, version, Failure(ErrorCode.REQUEST_TIMED_OUT)))
    election = Election.PREFERRED if version == 0 else _ELECTIONS.get(request.election_type)
    if election is None:
        unknown = f"Unknown election type {request.election_type}"
        return Change(_no_election(request, version, Failure(ErrorCode.INVALID_REQUEST, unknown)))
    everything = request.topic_partitions is None
    asked: Iterable[tuple[str, Iterable[int]]] = (
        [(topic.name, topic.partitions) for topic in image.topics.values()]
        if request.topic_partitions is None
        else [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    )
    for name, indexes in asked:
        result = ReplicaElectionResult(topic=name)
        for index in indexes:
            outcome = _elect(image.topic(name), name, index, election, image, rules)
            failure = outcome if isinstance(outcome, Failure) else Failure(ErrorCode.NONE)
            if not isinstance(outcome, Failure):
                change.records.append(outcome)
            elif everything and failure.error is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            result.partition_result.append(
                PartitionResult(partition_id=index, error_code=failure.error, error_message=failure.message)
            )
        change.reply.replica_election_results.append(result)
    return change


def _no_election(request: ElectLeadersRequest, version: int, failure: Failure) -> ElectLeadersResponse:
    """The whole request failed, and so did each partition in it."""
    return ElectLeadersResponse(
        error_code=failure.error if version >= REQUEST_ERROR_SINCE else ErrorCode.NONE,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[PartitionResult(index, failure.error, failure.message) for index in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ],
    )


_ELECTIONS = {Election.PREFERRED.value: Election.PREFERRED, Election.UNCLEAN.value: Election.UNCLEAN}


def _elect(
    topic: TopicImage | None, name: str, index: int, election: Election, image: MetadataImage, rules: ElectionRules
) -> PartitionChangeRecord | Failure:
    if topic is None:
        return Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        return Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    preferred = election is Election.PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.leader != NO_LEADER:
        return Failure(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    record = changed(topic, partition, image, rules, election=election)
    elected = NO_LEADER if record is None else record.leader
    if record is None or elected < 0 or (preferred and elected != partition.replicas[0]):
        if preferred:
            return Failure(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
        return Failure(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")
    return record


def alter_reassignments(
    request: AlterPartitionReassignmentsRequest, image: MetadataImage, rules: ElectionRules
) -> Change[AlterPartitionReassignmentsResponse]:
    """Begin, replace or cancel the reassignment of each partition."""
    reply = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        # Kafka does not process an empty request, and answers with the defaults of the response.
        error_message=None if request.topics else "",
    )
    change: Change[AlterPartitionReassignmentsResponse] = Change(reply)
    late = Failure(ErrorCode.REQUEST_TIMED_OUT) if request.timeout_ms <= 0 else None
    if late is not None and request.topics:
        reply.error_code = late.error
    for asked in request.topics:
        topic = image.topic(asked.name)
        answer = ReassignableTopicResponse(name=asked.name)
        reply.responses.append(answer)
        for wanted in asked.partitions:
            outcome = late or _reassign(
                topic, asked.name, wanted, image, rules, may_resize=request.allow_replication_factor_change
            )
            failure = outcome if isinstance(outcome, Failure) else Failure(ErrorCode.NONE)
            if not isinstance(outcome, Failure) and outcome is not None:
                change.records.append(outcome)
            answer.partitions.append(
                ReassignablePartitionResponse(
                    partition_index=wanted.partition_index, error_code=failure.error, error_message=failure.message
                )
            )
    return change


def _reassign(
    topic: TopicImage | None,
    name: str,
    wanted: ReassignablePartition,
    image: MetadataImage,
    rules: ElectionRules,
    *,
    may_resize: bool,
) -> PartitionChangeRecord | Failure | None:
    if topic is None:
        return Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(wanted.partition_index)
    if partition is None:
        return Failure(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{wanted.partition_index}."
        )
    if wanted.replicas is None:
        return _cancel(topic, partition, image, rules)
    return _begin(topic, partition, wanted.replicas, image, rules, may_resize=may_resize)


def _cancel(
    topic: TopicImage, partition: PartitionImage, image: MetadataImage, rules: ElectionRules
) -> PartitionChangeRecord | Failure | None:
    if not partition.adding_replicas and not partition.removing_replicas:
        return Failure(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    kept = tuple(each for each in partition.replicas if each not in partition.adding_replicas)
    isr = [each for each in partition.isr if each in kept]
    if not isr:
        return Failure(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The reassignment of {topic.name}-{partition.index} cannot be cancelled: no replica from before is in "
            "sync.",
        )
    return changed(topic, partition, image, rules, isr=isr, replicas=kept, adding=(), removing=())


def _begin(
    topic: TopicImage,
    partition: PartitionImage,
    target: list[int],
    image: MetadataImage,
    rules: ElectionRules,
    *,
    may_resize: bool,
) -> PartitionChangeRecord | Failure | None:
    failure = _bad_target(target, image)
    if failure is not None:
        return failure
    before = partition.replicas
    staying = [each for each in before if each not in partition.removing_replicas]
    if not may_resize and len(target) != len(staying):
        return Failure(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(staying)} to {len(target)}",
        )
    if before == tuple(target) and not partition.adding_replicas and not partition.removing_replicas:
        return None
    # All replicas of a running reassignment count, including added ones: it is not resumed when the new one is
    # cancelled.
    adding = tuple(each for each in target if each not in before)
    removing = tuple(each for each in before if each not in target)
    merged = (*target, *removing)
    isr = [each for each in partition.isr if each in merged]
    # A replica that acknowledges at once is complete when its leader learns of it, and joins the ISR then.
    return changed(topic, partition, image, rules, isr=isr, replicas=merged, adding=adding, removing=removing)


def _bad_target(target: list[int], image: MetadataImage) -> Failure | None:
    if not target:
        return _bad("The manual partition assignment includes an empty replica list.")
    for broker in sorted(target):
        if target.count(broker) > 1:
            return _bad(f"The manual partition assignment includes the broker {broker} more than once.")
        if broker not in image.brokers:
            return _bad(f"The manual partition assignment includes broker {broker}, but no such broker is registered.")
    return None


def _bad(message: str) -> Failure:
    return Failure(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def list_reassignments(
    request: ListPartitionReassignmentsRequest, image: MetadataImage
) -> ListPartitionReassignmentsResponse:
    """The requested partitions with a running reassignment; unknown ones are left out."""
    asked = (
        [(name, list(topic.partitions)) for name, topic in image.topics.items()]
        if request.topics is None
        else [(topic.name, topic.partition_indexes) for topic in request.topics]
    )
    topics = []
    for name, indexes in asked:
        ongoing = list(_ongoing(image.topic(name), indexes))
        if ongoing:
            topics.append(OngoingTopicReassignment(name=name, partitions=ongoing))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _ongoing(topic: TopicImage | None, indexes: Iterable[int]) -> Iterator[OngoingPartitionReassignment]:
    for index in indexes:
        partition = None if topic is None else topic.partitions.get(index)
        if partition is not None and (partition.adding_replicas or partition.removing_replicas):
            yield OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
