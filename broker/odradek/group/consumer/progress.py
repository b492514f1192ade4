"""The changes of a consumer group after a change of a member: its epoch, its targets, and the member's next step.

Heartbeats of consumers and JoinGroups of members with the classic protocol both use this.
Every decision reads the present group; only the resulting records change it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.core.machine import LogRecord, Refused
from odradek.group.consumer.assignors import ASSIGNORS, MemberSpec
from odradek.group.consumer.member import NO_PARTITIONS, ConsumerMember, Partitions
from odradek.group.consumer.reconcile import Situation, reconciled
from odradek.group.consumer.subscriptions import NO_CHANGE, pattern_change, refresh_is_due
from odradek.group.consumer.topics import metadata_hash, topic_ids_of

if TYPE_CHECKING:
    from odradek.group.consumer.group import ConsumerGroup
    from odradek.group.consumer.topics import Topics
    from odradek.group.surroundings import ConsumerSettings

__all__ = ["Progress", "Target", "moved_on", "next_step", "next_target"]


class Progress(Struct, frozen=True):
    """The group's epoch and hash after a change of a member, and the records for it."""

    epoch: int
    records: tuple[LogRecord, ...]
    subscription_changed: bool
    resolve_patterns: bool
    """Whether the patterns of the group have to be resolved after the response."""


class Target(Struct, frozen=True):
    """The target of one member, and the epoch in which it was computed."""

    epoch: int
    partitions: Partitions
    records: tuple[LogRecord, ...] = ()


def moved_on(
    group: ConsumerGroup,
    before: ConsumerMember,
    member: ConsumerMember,
    *,
    topics: Topics,
    settings: ConsumerSettings,
    by_assignor: bool,
    now: int,
) -> Progress | Refused:
    """The group's next epoch if a change of a member requires one.

    `by_assignor`: whether a change of the preferred assignor counts; members of the classic protocol prefer none.
    """
    records: list[LogRecord] = []
    if member != before:
        records.append(group.records.member_record(group.group_id, member))
    names_changed = member.topic_names != before.topic_names
    same = before.pattern == member.pattern
    change = NO_CHANGE if same else pattern_change(group, before.pattern, member.pattern)
    if isinstance(change, Refused):
        return change
    records += change.records
    moves_on = names_changed or (change.known if by_assignor else change.changed)
    members = group.members_with(member) if member is not before else group.members
    if by_assignor and member.server_assignor != before.server_assignor:
        default = settings.assignors[0]
        preferred = group.preferred_assignor(members.values()) or default
        moves_on = moves_on or preferred != (group.preferred_assignor(group.members.values()) or default)
    epoch = group.epoch
    if moves_on or group.hashed_offset != topics.offset:
        new_hash = metadata_hash(group.subscribed_topics(members.values()), topics)
        if moves_on or new_hash != group.metadata_hash:
            epoch += 1
            records.append(group.records.epoch_record(group.group_id, epoch, new_hash))
        group.hashed_offset = topics.offset
    refresh = False
    if group.pattern_counts or member.pattern:
        patterns = {each.pattern for each in members.values() if each.pattern}
        interval_ms = settings.regex_refresh_interval_ms
        refresh = refresh_is_due(group, patterns, change, topics, interval_ms=interval_ms, now=now)
    return Progress(epoch, tuple(records), names_changed or change.changed, refresh)


def next_target(
    group: ConsumerGroup,
    member: ConsumerMember,
    epoch: int,
    *,
    topics: Topics,
    settings: ConsumerSettings,
    now: int,
) -> Target:
    """The target of the member; targets are computed at most once in the assignment interval (KIP-1263)."""
    if group.assignment_epoch >= epoch or group.is_assigned_too_early(settings.assignment_interval_ms, now):
        return Target(group.assignment_epoch, group.target_of(member))
    members = group.members_with(member)
    before = {member_id: group.target_of(each) for member_id, each in members.items()}
    names: dict[frozenset[str], frozenset[bytes]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id, each in members.items():
        subscribed = group.topic_names_of(each)
        topic_ids = names.get(subscribed)
        if topic_ids is None:
            topic_ids = names[subscribed] = topic_ids_of(subscribed, topics)
        specs[member_id] = MemberSpec(each.instance_id, topic_ids, before[member_id])
    wanted = {topic_id for topic_ids in names.values() for topic_id in topic_ids}
    counts = {topic_id: _partition_count(topics, topic_id) for topic_id in wanted}
    preferred = group.preferred_assignor(members.values())
    assignor = ASSIGNORS[preferred if preferred in settings.assignors else settings.assignors[0]]
    targets = assignor(specs, counts)
    records = group.target_records(members, targets, epoch, now)
    return Target(epoch, targets.get(member.member_id, NO_PARTITIONS), tuple(records))


def _partition_count(topics: Topics, topic_id: bytes) -> int:
    topic = topics.topic_by_id(topic_id)
    return 0 if topic is None else len(topic.partitions)


def next_step(
    group: ConsumerGroup,
    member: ConsumerMember,
    target: Target,
    *,
    owned: Partitions | None,
    subscription_changed: bool,
    topics: Topics,
) -> tuple[ConsumerMember, tuple[LogRecord, ...]]:
    """The member after its next step towards its target, and the record for it if it changes."""
    if not subscription_changed and group.has_reached(member, target.epoch):
        return member, ()
    after = reconciled(
        member,
        Situation(
            target_epoch=target.epoch,
            target=target.partitions,
            subscribed=topic_ids_of(group.topic_names_of(member), topics),
            subscription_changed=subscription_changed,
            owned=owned,
            taken=group.taken,
        ),
    )
    if after == member:
        return member, ()
    return after, (group.records.current_record(group.group_id, after),)
