"""The next step of one member towards its target (KIP-848, "Member Reconciliation").

A member gives up what it shall not have, then goes to the epoch of the target, and gets what it shall have as soon as
nobody else has it. Kafka's `CurrentAssignmentBuilder` is the reference for the order of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Set
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from odradek.group.consumer.member import (
    NO_PARTITIONS,
    ConsumerMember,
    EpochsOfPartitions,
    MemberState,
    Partitions,
)

__all__ = ["Situation", "reconciled"]


class Situation(Struct, frozen=True):
    """Input for the next step of a member, besides the member itself."""

    target_epoch: int
    target: Partitions
    subscribed: Container[bytes]
    """Ids of the topics that it subscribes to and that exist."""
    subscription_changed: bool
    owned: Partitions | None
    """The partitions that it reports to have; None where it reports none."""
    taken: Callable[[bytes], Set[int]]
    """The partitions of a topic that any member has, the member itself included."""


class _Step(Enum):
    STAY = "stay as it is"
    TRIM = "give up topics that it does not subscribe to any more"
    ADVANCE = "go on to the target"


_STEP: dict[tuple[MemberState, bool, bool], _Step] = {
    # (state, whether something keeps it where it is, whether its subscription has changed)
    (MemberState.STABLE, True, False): _Step.STAY,
    (MemberState.STABLE, True, True): _Step.TRIM,
    (MemberState.STABLE, False, False): _Step.ADVANCE,
    (MemberState.STABLE, False, True): _Step.ADVANCE,
    (MemberState.UNREVOKED_PARTITIONS, True, False): _Step.STAY,
    (MemberState.UNREVOKED_PARTITIONS, True, True): _Step.TRIM,
    (MemberState.UNREVOKED_PARTITIONS, False, False): _Step.ADVANCE,
    (MemberState.UNREVOKED_PARTITIONS, False, True): _Step.ADVANCE,
    (MemberState.UNRELEASED_PARTITIONS, False, False): _Step.ADVANCE,
    (MemberState.UNRELEASED_PARTITIONS, False, True): _Step.ADVANCE,
    # A state that a later release may have written: the member was fenced unless it owned nothing.
    (MemberState.UNKNOWN, False, False): _Step.ADVANCE,
    (MemberState.UNKNOWN, False, True): _Step.ADVANCE,
}


def reconciled(member: ConsumerMember, situation: Situation) -> ConsumerMember:
    """The member after its next step; the same object if there is none."""
    match member.state:
        case MemberState.STABLE:
            kept = member.epoch == situation.target_epoch
        case MemberState.UNREVOKED_PARTITIONS:
            kept = _still_owns(situation.owned, member.revoking)
        case MemberState.UNRELEASED_PARTITIONS | MemberState.UNKNOWN:
            kept = False
    match _STEP[member.state, kept, situation.subscription_changed]:
        case _Step.STAY:
            return member
        case _Step.TRIM:
            return _trimmed(member, situation)
        case _Step.ADVANCE:
            return _advanced(member, situation)


def _trimmed(member: ConsumerMember, situation: Situation) -> ConsumerMember:
    subscribed = situation.subscribed
    assigned = {topic_id: indexes for topic_id, indexes in member.assigned.items() if topic_id in subscribed}
    if len(assigned) == len(member.assigned):
        return member
    revoking = {topic_id: dict(indexes) for topic_id, indexes in member.revoking.items()}
    for topic_id, indexes in member.assigned.items():
        if topic_id not in subscribed:
            revoking.setdefault(topic_id, {}).update(indexes)
    if _still_owns(situation.owned, revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return replace(member, state=state, previous_epoch=member.epoch, assigned=assigned, revoking=revoking)
    return replace(member, previous_epoch=member.epoch, assigned=assigned)


def _advanced(member: ConsumerMember, situation: Situation) -> ConsumerMember:
    assigned: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    pending: dict[bytes, list[int]] = {}
    unreleased = False
    topic_ids = dict.fromkeys([*situation.target, *member.assigned])
    for topic_id in topic_ids:
        target = situation.target.get(topic_id, frozenset()) if topic_id in situation.subscribed else frozenset()
        current: Mapping[int, int] = member.assigned.get(topic_id, {})
        kept = {index: epoch for index, epoch in current.items() if index in target}
        given_up = {index: epoch for index, epoch in current.items() if index not in target}
        if kept:
            assigned[topic_id] = kept
        if given_up:
            revoking[topic_id] = given_up
        wanted = target - kept.keys()
        taken = situation.taken(topic_id)
        if taken:
            # What the member itself is about to give up is not taken by anybody else.
            own: Mapping[int, int] = member.revoking.get(topic_id, {})
            free = frozenset(index for index in wanted if index in own or index not in taken)
            unreleased = unreleased or len(free) < len(wanted)
        else:
            free = wanted
        if free:
            pending[topic_id] = sorted(free)
    if revoking and _still_owns(situation.owned, revoking):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=assigned,
            revoking=revoking,
        )
    for topic_id, indexes in pending.items():
        assigned.setdefault(topic_id, {}).update(dict.fromkeys(indexes, situation.target_epoch))
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE,
        previous_epoch=member.epoch,
        epoch=situation.target_epoch,
        assigned=assigned,
        revoking=NO_PARTITIONS,
    )


def _still_owns(owned: Partitions | None, revoking: EpochsOfPartitions) -> bool:
    """Whether the member has not said that it has given all of this up."""
    if owned is None:
        return True
    return any(not indexes.isdisjoint(revoking.get(topic_id, NO_PARTITIONS)) for topic_id, indexes in owned.items())
