"""ConsumerGroupDescribe of one group."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from odradek.group.consumer.member import NO_PARTITIONS, ConsumerMember
from odradek.wire.messages.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from odradek.group.consumer.group import ConsumerGroup
    from odradek.group.consumer.topics import Topics

__all__ = ["described"]

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""The protocol that a member speaks (KIP-1099)."""


def described(group: ConsumerGroup, default_assignor: str, topics: Topics) -> DescribedGroup:
    """The group with assignments and targets of members; deleted topics are left out.

    A partition counts as assigned until the member has confirmed that it gave it up.
    """
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(group.members.values()) or default_assignor,
        members=[
            Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=sorted(member.topic_names),
                subscribed_topic_regex=member.pattern,
                assignment=_assignment(_held(member), topics),
                target_assignment=_assignment(group.targets.get(member.member_id, NO_PARTITIONS), topics),
                member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
            )
            for member in group.members.values()
        ],
    )


def _held(member: ConsumerMember) -> dict[bytes, set[int]]:
    held: dict[bytes, set[int]] = {}
    for topic_id, index in member.held():
        held.setdefault(topic_id, set()).add(index)
    return held


def _assignment(partitions: Mapping[bytes, Collection[int]], topics: Topics) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
            for topic_id, indexes in partitions.items()
            if (topic := topics.topic_by_id(topic_id)) is not None
        ]
    )
