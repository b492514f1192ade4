"""The answers of a streams group to StreamsGroupHeartbeat (KIP-1071).

A heartbeat says what has changed of a member; its answer says what has changed for it, and warns of what is amiss with
the application. Everything is decided from the group as it is; the records that come out are what changes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.machine import Answered, Decision, LogRecord, Proposed, Refused
from odradek.group.consumer.topics import metadata_hash
from odradek.group.modern import Timer
from odradek.group.modern_member import JOINING_EPOCH, Client, in_order, listed
from odradek.group.streams.assignor import MemberSpec, sticky
from odradek.group.streams.configured import ConfiguredTopology, Problem, Status, configured
from odradek.group.streams.describe import partitions_by_endpoint
from odradek.group.streams.group import NO_OFFSETS, NO_TOPOLOGY_EPOCH, StreamsGroup, TaskOffsets
from odradek.group.streams.member import Endpoint, StreamsMember
from odradek.group.streams.reconcile import reconciled
from odradek.group.streams.tasks import NO_TASKS, Tasks, contains, indexes_of
from odradek.group.streams.topology import Topology, topology_value
from odradek.group.streams.validation import NO_TIMEOUT
from odradek.group.which_member import full, member_for
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import streams_group_heartbeat_response as answered
from odradek.wire.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from odradek.group.consumer.topics import Topics
    from odradek.group.surroundings import StreamsSettings
    from odradek.wire.messages.create_topics_request import CreatableTopic
    from odradek.wire.messages.streams_group_heartbeat_request import (
        StreamsGroupHeartbeatRequest,
        TaskIds,
        TaskOffset,
    )

__all__ = ["Beat", "beat", "initial_targets"]

TAGS_SINCE = 1
"""Version of a heartbeat whose answer warns of tags that are missing."""


class Beat(Struct, frozen=True):
    """The answer to a heartbeat, and the topics that the broker has to make for the application."""

    response: StreamsGroupHeartbeatResponse
    to_make: Mapping[str, CreatableTopic] = {}


def beat(
    group: StreamsGroup,
    request: StreamsGroupHeartbeatRequest,
    client: Client,
    *,
    version: int,
    topics: Topics,
    settings: StreamsSettings,
    is_new: bool,
    now: int,
) -> Decision[Beat]:
    """The answer to a member that joins or stays; the request has been found to make sense.

    `is_new`: the log does not know the group yet; what is volatile of it ends with this answer, as in Kafka.
    """
    joins = request.member_epoch == JOINING_EPOCH
    refusal = full(group, request.member_id, request.instance_id, settings.max_size) if joins else None
    found = refusal or member_for(
        group,
        request.member_id,
        request.member_epoch,
        request.instance_id,
        joins=joins,
        has_no_more=lambda member: _has_no_more(request, member),
    )
    if isinstance(found, Refused):
        return found
    before = found.member
    member = _updated(before, request, client, joins=joins)
    if isinstance(member, Refused):
        return member
    records = list(found.records)
    if member != before:
        records.append(group.records.member_record(group.group_id, member))
    topology = _topology(group, request, records)
    if isinstance(topology, Refused):
        return topology
    statuses: list[Problem] = []
    if group.topology is not None and member.topology_epoch < group.topology.epoch:
        statuses.append(_stale(member, group.topology))
    looked = _look(group, topology, topics)
    if isinstance(looked, Refused):
        return looked
    new_hash, fit = looked
    offsets = _offsets(group, request)
    refusal = _refusal_of_tasks(fit, request) or (offsets if isinstance(offsets, Refused) else None)
    if refusal is not None:
        return refusal
    assert not isinstance(offsets, Refused), "it was answered"
    # From here on nothing is refused: what is volatile may change.
    group.configured, group.hashed_offset = fit, topics.offset
    if offsets is not None:
        group.offsets[member.member_id] = offsets

    configs = settings.assignment_configs
    validated = topology.epoch if fit.is_ready else NO_TOPOLOGY_EPOCH
    moves_on = (
        _matters(before, member, request.instance_id)
        or new_hash != group.metadata_hash
        or validated != group.validated_topology_epoch
        or configs != group.assignment_configs
    )
    epoch = group.epoch
    if moves_on:
        epoch += 1
        records.append(group.epoch_record(epoch, new_hash, validated, configs))
    if group.is_empty and settings.initial_rebalance_delay_ms > 0 and not group.initial_delay_runs:
        group.times.set(("", Timer.INITIAL), now + settings.initial_rebalance_delay_ms)
    target_epoch, target = _next_target(group, member, epoch, fit, records, statuses, settings=settings, now=now)
    after = member
    if not group.has_reached(member, target_epoch):
        step = reconciled(group, member, target_epoch, target, _owned(request))
        if isinstance(step, Refused):
            return step
        after = step
        if after != member:
            records.append(group.records.current_record(group.group_id, after))
    group.begin_session(after, settings.session_timeout_ms, now, stepped=after != member)
    if request.shutdown_application and group.shutdown_by is None:
        group.shutdown_by = member.member_id
    tasks_changed = after.assigned != before.assigned
    response = StreamsGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        task_offset_interval_ms=settings.task_offset_interval_ms,
        acceptable_recovery_lag=settings.acceptable_recovery_lag,
    )
    if joins or tasks_changed:
        plain = after.assigned.plain
        response.active_tasks = listed(in_order(plain.active), answered.TaskIds)
        response.standby_tasks = listed(in_order(plain.standby), answered.TaskIds)
        response.warmup_tasks = listed(in_order(plain.warmup), answered.TaskIds)
    if after.endpoint != before.endpoint or (tasks_changed and after.endpoint is not None):
        group.endpoint_epoch += 1
    if group.endpoint_epoch != request.endpoint_information_epoch:
        members = [each for each in group.members.values() if each.member_id != after.member_id]
        members = [each for each in members if found.replaced is None or each.member_id != found.replaced.member_id]
        response.partitions_by_user_endpoint = partitions_by_endpoint([*members, after], fit, topics)
    if not is_new:
        response.endpoint_information_epoch = group.endpoint_epoch
    if fit.problem is not None:
        statuses.append(fit.problem)
    if group.shutdown_by is not None:
        statuses.append(_shutdown(group.shutdown_by))
    missing = [tag for tag in settings.rack_aware_assignment_tags if tag not in dict(after.tags)]
    if missing and version >= TAGS_SINCE:
        statuses.append(_untagged(missing))
    response.status = [answered.Status(status_code=each.status, status_detail=each.detail) for each in statuses]
    reply = Beat(response, fit.missing)
    return Proposed(tuple(records), reply) if records else Answered(reply)


def _has_no_more(request: StreamsGroupHeartbeatRequest, member: StreamsMember) -> bool:
    """Whether the member says all that it has, and has been given all of it."""
    roles: Sequence[tuple[Sequence[TaskIds] | None, Mapping[str, Container[int]]]] = (
        (request.active_tasks, member.assigned.active),
        (request.standby_tasks, member.assigned.standby),
        (request.warmup_tasks, member.assigned.warmup),
    )
    return all(
        owned is not None
        and all(
            each.subtopology_id in assigned
            and all(contains(assigned, each.subtopology_id, index) for index in each.partitions)
            for each in owned
        )
        for owned, assigned in roles
    )


def _updated(
    before: StreamsMember, request: StreamsGroupHeartbeatRequest, client: Client, *, joins: bool
) -> StreamsMember | Refused:
    """Fields that the request leaves out stay as they were; a member that joins without an endpoint has none."""
    tags, endpoint = before.tags, None if joins else before.endpoint
    if request.client_tags is not None:
        named = {tag.key: tag.value for tag in request.client_tags}
        if len(named) < len(request.client_tags):
            # Kafka fails when it puts them into a map.
            return Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        tags = tuple(sorted(named.items()))
    if request.user_endpoint is not None:
        endpoint = Endpoint(request.user_endpoint.host, request.user_endpoint.port)
    timeout_ms = request.rebalance_timeout_ms
    after = replace(
        before,
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms,
        topology_epoch=before.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=before.process_id if request.process_id is None else request.process_id,
        endpoint=endpoint,
        tags=tags,
        client_id=client.id,
        client_host=client.host,
    )
    return before if after == before else after


def _matters(before: StreamsMember, after: StreamsMember, instance_id: str | None) -> bool:
    """Whether a change of this member has tasks assigned anew: of a static one only what assignments depend on."""
    if before is after:
        return False
    if instance_id is None:
        return True
    return any(
        was != now
        for was, now in (
            (before.topology_epoch, after.topology_epoch),
            (before.rack_id, after.rack_id),
            (before.tags, after.tags),
            (before.process_id, after.process_id),
        )
    )


def _owned(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks(indexes_of(request.active_tasks), indexes_of(request.standby_tasks), indexes_of(request.warmup_tasks))


def _offsets(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> TaskOffsets | Refused | None:
    if request.task_offsets is None and request.task_end_offsets is None:
        return None
    known = group.offsets.get(request.member_id, NO_OFFSETS)
    for offsets in (request.task_offsets or (), request.task_end_offsets or ()):
        seen: set[tuple[str, int]] = set()
        for each in offsets:
            task = each.subtopology_id, each.partition
            if task in seen:
                sentence = f"Task offsets contain a duplicate entry for subtopology {task[0]} and partition {task[1]}."
                return Refused(ErrorCode.INVALID_REQUEST, sentence)
            seen.add(task)
    return TaskOffsets(
        known.offsets if request.task_offsets is None else _plain(request.task_offsets),
        known.end_offsets if request.task_end_offsets is None else _plain(request.task_end_offsets),
    )


def _plain(offsets: Sequence[TaskOffset]) -> tuple[tuple[str, int, int], ...]:
    return tuple((each.subtopology_id, each.partition, each.offset) for each in offsets)


def _topology(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, records: list[LogRecord]
) -> Topology | Refused:
    """The topology that holds: the first member's, until there is a way to update it."""
    asked, known = request.topology, group.topology
    if asked is None:
        return known or Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    if asked.epoch < 0 or len({each.subtopology_id for each in asked.subtopologies}) < len(asked.subtopologies):
        # Kafka fails when it takes it.
        return Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    value = topology_value(asked)
    topology = Topology(value)
    if known is None:
        records.append(group.records.record("Topology", value, group.group_id))
        return topology
    if known.epoch > topology.epoch or known == topology:
        return known
    return Refused(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")


def _look(group: StreamsGroup, topology: Topology, topics: Topics) -> tuple[int, ConfiguredTopology] | Refused:
    """Hash of the topics' metadata, and the topology over it: looked at anew only where metadata has changed."""
    known = group.configured
    if group.topology is not None and known is not None and group.hashed_offset == topics.offset:
        return group.metadata_hash, known
    new_hash = metadata_hash(topology.required_topics, topics)
    if group.topology is not None and known is not None and new_hash == group.metadata_hash:
        return new_hash, known
    fit = configured(topology, topics)
    return fit if isinstance(fit, Refused) else (new_hash, fit)


def _refusal_of_tasks(fit: ConfiguredTopology, request: StreamsGroupHeartbeatRequest) -> Refused | None:
    """Why a member cannot have what it says that it has."""
    if not fit.is_ready or fit.subtopologies is None:
        return None
    lists: Sequence[Sequence[TaskIds] | None] = request.active_tasks, request.standby_tasks, request.warmup_tasks
    for each in (each for tasks in lists for each in tasks or ()):
        subtopology = fit.subtopologies.get(each.subtopology_id)
        if subtopology is None:
            sentence = f"Subtopology {each.subtopology_id} does not exist in the topology."
            return Refused(ErrorCode.INVALID_REQUEST, sentence)
        for index in each.partitions:
            if not 0 <= index < subtopology.tasks:
                sentence = (
                    f"Task {index} for subtopology {each.subtopology_id} is invalid. Number of tasks for this "
                    f"subtopology: {subtopology.tasks}"
                )
                return Refused(ErrorCode.INVALID_REQUEST, sentence)
    return None


def _next_target(
    group: StreamsGroup,
    member: StreamsMember,
    epoch: int,
    fit: ConfiguredTopology,
    records: list[LogRecord],
    statuses: list[Problem],
    *,
    settings: StreamsSettings,
    now: int,
) -> tuple[int, Tasks]:
    """In which epoch targets hold, and what the member shall have in it."""
    if group.initial_delay_runs:
        detail = "Assignment delayed due to the configured initial rebalance delay."
        statuses.append(Problem(Status.ASSIGNMENT_DELAYED, detail))
        return group.assignment_epoch, NO_TASKS
    if group.assignment_epoch >= epoch:
        return group.assignment_epoch, group.target_of(member)
    if group.is_assigned_too_early(settings.assignment_interval_ms, now):
        detail = "Assignment delayed due to the configured assignment interval."
        statuses.append(Problem(Status.ASSIGNMENT_DELAYED, detail))
        return group.assignment_epoch, group.target_of(member)
    targets = _assigned(group, group.members_with(member), fit, settings)
    records += group.target_records(group.members_with(member), targets, epoch, now)
    return epoch, targets.get(member.member_id, NO_TASKS)


def _assigned(
    group: StreamsGroup, members: Mapping[str, StreamsMember], fit: ConfiguredTopology, settings: StreamsSettings
) -> dict[str, Tasks]:
    if not fit.is_ready or fit.subtopologies is None:
        return dict.fromkeys(members, NO_TASKS)
    specs = {
        member_id: MemberSpec(each.process_id, each.assigned, group.offsets.get(member_id, NO_OFFSETS).offsets)
        for member_id, each in members.items()
    }
    subtopologies = {name: (each.tasks, each.is_stateful) for name, each in fit.subtopologies.items()}
    return sticky(specs, subtopologies, settings.num_standby_replicas)


def initial_targets(group: StreamsGroup, settings: StreamsSettings, now: int) -> list[LogRecord]:
    """The first assignment, once members have had their time to come."""
    if group.is_empty or group.configured is None or group.epoch <= group.assignment_epoch:
        return []
    if group.is_assigned_too_early(settings.assignment_interval_ms, now):
        return []
    targets = _assigned(group, group.members, group.configured, settings)
    return group.target_records(group.members, targets, group.epoch, now)


def _stale(member: StreamsMember, topology: Topology) -> Problem:
    detail = (
        f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch {topology.epoch}."
    )
    return Problem(Status.STALE_TOPOLOGY, detail)


def _shutdown(member_id: str) -> Problem:
    detail = (
        f"Streams group member {member_id} encountered a fatal error and requested a shutdown for the entire "
        "application."
    )
    return Problem(Status.SHUTDOWN_APPLICATION, detail)


def _untagged(missing: Sequence[str]) -> Problem:
    detail = (
        f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. Configure them via "
        "'client.tag.<tagKey>' in your Streams config."
    )
    return Problem(Status.MISSING_CLIENT_TAGS, detail)
