"""The streams groups of one partition of `__consumer_offsets`: what each request about one leads to."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING

from odradek.core.machine import Decision, LogRecord, Proposed, Refused
from odradek.group.modern import Timer
from odradek.group.modern_groups import LEAVING_EPOCHS, Group, ModernGroups
from odradek.group.modern_member import JOINING_EPOCH
from odradek.group.streams.describe import described
from odradek.group.streams.group import StreamsGroup
from odradek.group.streams.heartbeat import Beat, beat, initial_targets
from odradek.group.streams.validation import refusal_of_heartbeat
from odradek.wire.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse

if TYPE_CHECKING:
    from odradek.group.modern_member import Client
    from odradek.group.surroundings import StreamsSettings, Surroundings
    from odradek.wire.messages.streams_group_describe_response import DescribedGroup
    from odradek.wire.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest

__all__ = ["StreamsGroups"]


class StreamsGroups(ModernGroups[StreamsGroup]):
    """Decides about streams groups and folds their records."""

    def __init__(self, groups: MutableMapping[str, Group], surroundings: Surroundings, to_begin: set[str]) -> None:
        super().__init__(StreamsGroup, groups, surroundings, to_begin)
        self._first_assignments: dict[str, int] = {}
        """When the first assignment is due (ms) of groups that the log does not know yet."""

    def settings(self, group_id: str) -> StreamsSettings:
        """The settings of a group as of now."""
        return self._around.streams(group_id)

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, version: int, client: Client, now: int
    ) -> Decision[Beat]:
        """A member joins, stays or leaves."""
        refusal = refusal_of_heartbeat(request)
        if refusal is not None:
            return refusal
        group_id = request.group_id
        if request.member_epoch in LEAVING_EPOCHS:
            return self._beat_last(request, now)
        found = self._group_for(group_id, joins=request.member_epoch == JOINING_EPOCH)
        if isinstance(found, Refused):
            return found
        group, records = found
        is_new = group is not self._groups.get(group_id)
        decision = beat(
            group,
            request,
            client,
            version=version,
            topics=self._around.topics(),
            settings=self.settings(group_id),
            is_new=is_new,
            now=now,
        )
        if not is_new or isinstance(decision, Refused):
            return decision
        assert isinstance(decision, Proposed), "the log has a record of a member that joins"
        due = group.times.get(("", Timer.INITIAL))
        if due is not None:
            self._first_assignments[group_id] = due
        return Proposed((*records, *decision.records), decision.reply)

    def _beat_last(self, request: StreamsGroupHeartbeatRequest, now: int) -> Decision[Beat]:
        group, member_id, epoch = self.found(request.group_id), request.member_id, request.member_epoch
        if isinstance(group, Refused):
            return group
        if request.shutdown_application and group.shutdown_by is None:
            group.shutdown_by = member_id
        reply = Beat(StreamsGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch, status=[]))
        return self._leave(group, member_id, request.instance_id, epoch, now, reply)

    def _moved_on_without(self, group: StreamsGroup, gone: Mapping[str, None]) -> list[LogRecord]:
        epoch = group.epoch + 1
        configs = group.assignment_configs
        return [group.epoch_record(epoch, group.metadata_hash, group.validated_topology_epoch, configs)]

    def describe(self, group_id: str) -> DescribedGroup | Refused:
        """The group with its members and its topology."""
        group = self.found(group_id)
        return group if isinstance(group, Refused) else described(group, self.settings(group_id).assignor)

    def _first_assignment(self, group: StreamsGroup, now: int) -> list[LogRecord]:
        return initial_targets(group, self.settings(group.group_id), now)

    def _has_come(self, group: StreamsGroup) -> None:
        due = self._first_assignments.pop(group.group_id, None)
        if due is not None:
            group.times.set(("", Timer.INITIAL), due)
