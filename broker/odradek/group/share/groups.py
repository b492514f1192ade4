"""The share groups of one partition of `__consumer_offsets`: the decisions about requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from odradek.core.machine import Answered, Decision, LogRecord, Proposed, Refused
from odradek.group.consumer.topics import metadata_hash
from odradek.group.modern_groups import LEAVING_EPOCHS, Group, ModernGroups
from odradek.group.modern_member import JOINING_EPOCH
from odradek.group.share.group import ShareGroup
from odradek.group.share.heartbeat import beat, refusal_of_heartbeat
from odradek.group.share.member import KnownTopic, StatePartitions
from odradek.group.share.states import NO_OFFSET, NOTHING, ShareStates, begun, ended, settled, without_topics
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.share_group_describe_response import Assignment, DescribedGroup, Member, TopicPartitions
from odradek.wire.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from odradek.group.classic.group import ClassicGroup
    from odradek.group.consumer.member import Partitions
    from odradek.group.modern_member import Client
    from odradek.group.surroundings import ShareSettings, Surroundings
    from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

__all__ = ["ShareGroups"]

T = TypeVar("T")

SIMPLE = "simple"
INVALID_GROUP = Refused(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
NOT_EMPTY = Refused(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


class ShareGroups(ModernGroups[ShareGroup]):
    """Decides about share groups and folds their records; the table of groups is the coordinator's."""

    def __init__(self, groups: MutableMapping[str, Group], surroundings: Surroundings, to_begin: set[str]) -> None:
        super().__init__(ShareGroup, groups, surroundings, to_begin)
        self._topics = surroundings.topics
        self.to_initialize: dict[str, int] = {}
        """Groups with partitions that the share coordinator must initialize, with the state epoch."""

    def settings(self, group_id: str) -> ShareSettings:
        """The settings of a group as of now."""
        return self._around.share(group_id)

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client, now: int
    ) -> Decision[ShareGroupHeartbeatResponse]:
        """A member joins, stays or leaves."""
        refusal = refusal_of_heartbeat(request)
        if refusal is not None:
            return refusal
        group_id, epoch = request.group_id, request.member_epoch
        if epoch in LEAVING_EPOCHS:
            leaving = self.found(group_id)
            if isinstance(leaving, Refused):
                return leaving
            reply = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=epoch)
            return self._leave(leaving, request.member_id, None, epoch, now, reply)
        found = self._group_for(group_id, joins=epoch == JOINING_EPOCH)
        if isinstance(found, Refused):
            return found
        beaten = beat(found[0], request, client, topics=self._topics(), settings=self.settings(group_id), now=now)
        if beaten.state_epoch is not None:
            self.to_initialize[group_id] = beaten.state_epoch
        return beaten.decision

    def _in_place_of(self, group: ClassicGroup) -> Refused:
        return self._other(group.group_id)

    def _moved_on_without(self, group: ShareGroup, gone: Mapping[str, None]) -> list[LogRecord]:
        left = [member for member_id, member in group.members.items() if member_id not in gone]
        new_hash = metadata_hash(group.subscribed_topics(left), self._topics())
        return [group.records.epoch_record(group.group_id, group.epoch + 1, new_hash)]

    def describe(self, group_id: str) -> DescribedGroup | Refused:
        """ShareGroupDescribe, for one group; deleted topics are left out."""
        group = self.found(group_id)
        if isinstance(group, Refused):
            return group
        topics = self._topics()
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=SIMPLE,
            members=[
                Member(
                    member_id=member.member_id,
                    rack_id=member.rack_id,
                    member_epoch=member.epoch,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    subscribed_topic_names=sorted(member.topic_names),
                    assignment=Assignment(
                        topic_partitions=[
                            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
                            for topic_id, indexes in member.assigned.items()
                            if (topic := topics.topic_by_id(topic_id)) is not None
                        ]
                    ),
                )
                for member in group.members.values()
            ],
        )

    def initializing(self, group_id: str) -> ShareStates | None:
        """The states that the share coordinator must initialize for a group; None if there are none."""
        state_epoch = self.to_initialize.pop(group_id, None)
        group = self._groups.get(group_id)
        if state_epoch is None or not isinstance(group, ShareGroup) or group.states is None:
            return None
        offsets = {
            topic_id: dict.fromkeys(known.partitions, NO_OFFSET)
            for topic_id, known in group.states.initializing.items()
        }
        return ShareStates(group_id, state_epoch, offsets) if offsets else None

    def initialized(self, group_id: str, done: Partitions, failed: Partitions) -> Decision[None]:
        """The share coordinator has initialized the `done` partitions, and not the `failed` ones."""
        group = self._groups.get(group_id)
        if not isinstance(group, ShareGroup) or group.states is None:
            return Answered(None)
        after = settled(group.states, done, failed)
        return Answered(None) if after == group.states else self._told(group, after, None)

    def deleting(self, group_id: str) -> Decision[ShareStates | None]:
        """DeleteGroups: the states that the share coordinator must delete first; None if it has none of the group."""
        group = self._groups.get(group_id)
        if not isinstance(group, ShareGroup) or group.states is None or not group.is_empty:
            return Answered(None)
        known = group.states.initializing.keys() | group.states.initialized.keys()
        forgotten = self._states_of(group, known | group.states.deleting.keys())
        return self._told(group, ended(group.states, known), forgotten)

    def _states_of(self, group: ShareGroup, topic_ids: Iterable[bytes]) -> ShareStates:
        states, topics = group.states or NOTHING, self._topics()
        offsets: dict[bytes, dict[int, int]] = {}
        for topic_id in sorted(topic_ids):
            indexes: set[int] = set()
            for told in (states.initializing, states.initialized):
                if topic_id in told:
                    indexes |= told[topic_id].partitions
            topic = topics.topic_by_id(topic_id)
            if topic_id in states.deleting and topic is not None:
                indexes.update(topic.partitions)
            offsets[topic_id] = dict.fromkeys(sorted(indexes), NO_OFFSET)
        return ShareStates(group.group_id, group.epoch, offsets)

    def topics_deleted(self, topic_ids: Iterable[bytes]) -> list[LogRecord]:
        """Records for deleted topics, which are no longer read."""
        gone = set(topic_ids)
        records = []
        for group in self._groups.values():
            if isinstance(group, ShareGroup) and group.states is not None:
                after = without_topics(group.states, gone)
                if after != group.states:
                    records.append(group.states_record(after))
        return records

    def known_partitions(self, group_id: str) -> dict[bytes, frozenset[int]] | Refused:
        """The partitions of a group whose state the share coordinator has; none for an unknown group."""
        group = self._groups.get(group_id)
        if group is None:
            return {}
        return group.initialized() if isinstance(group, ShareGroup) else self._other(group_id)

    def alter_offsets(self, group_id: str, offsets: dict[bytes, dict[int, int]]) -> Decision[ShareStates]:
        """AlterShareGroupOffsets of existing partitions: the share coordinator must initialize them again."""
        group = self._empty_group(group_id)
        if group is None:
            group = ShareGroup(group_id)
        if isinstance(group, Refused):
            return group
        states = ShareStates(group_id, group.epoch, offsets)
        if not offsets:
            return Answered(states)
        topics = self._topics()
        new = {
            topic_id: KnownTopic(topic.name, frozenset(indexes))
            for topic_id, indexes in offsets.items()
            if (topic := topics.topic_by_id(topic_id)) is not None
        }
        return self._told(group, begun(group.states, new), states)

    def delete_offsets(self, group_id: str, topic_ids: Sequence[bytes]) -> Decision[ShareStates]:
        """DeleteShareGroupOffsets: the share coordinator must delete those of these topics that it has."""
        group = self._empty_group(group_id)
        if group is None:
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if isinstance(group, Refused):
            return group
        states = group.states
        if states is None:
            return Answered(ShareStates(group_id, group.epoch, {}))
        known = [topic_id for topic_id in topic_ids if topic_id in states.initialized or topic_id in states.deleting]
        return self._told(group, ended(states, known), self._states_of(group, known))

    def offsets_deleted(self, group_id: str, topic_ids: Iterable[bytes]) -> Decision[None]:
        """The share coordinator has deleted these topics."""
        group = self._groups.get(group_id)
        if not isinstance(group, ShareGroup) or group.states is None:
            return Answered(None)
        return self._told(group, without_topics(group.states, topic_ids), None)

    def _empty_group(self, group_id: str) -> ShareGroup | Refused | None:
        if not group_id:
            return INVALID_GROUP
        group = self._groups.get(group_id)
        if group is None:
            return None
        if not isinstance(group, ShareGroup):
            return self._other(group_id)
        return group if group.is_empty else NOT_EMPTY

    def _told(self, group: ShareGroup, states: StatePartitions, reply: T) -> Proposed[T]:
        return Proposed((group.states_record(states),), reply)

    def fold(self, key: Struct, value: Struct | None, *, loading: bool) -> str:
        """Fold one record of a share group."""
        group_id = super().fold(key, value, loading=loading)
        group = self._groups.get(group_id)
        if loading and isinstance(group, ShareGroup) and group.states is not None and group.states.initializing:
            # The last coordinator may have ended before it called the share coordinator.
            self.to_initialize[group_id] = group.epoch
        return group_id

    def _has_gone(self, group_id: str) -> None:
        self.to_initialize.pop(group_id, None)
