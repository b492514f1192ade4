"""The next step of one member towards its target (KIP-848, "Member Reconciliation").

A member first gives up partitions outside its target, then gets the epoch of the target, and then each partition of the
target as soon as no other member has it. Kafka's `CurrentAssignmentBuilder` is the reference for this order.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Set
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from odradek.group.consumer.member import NO_EPOCHS, ConsumerMember, EpochsOfPartitions, Partitions
from odradek.group.modern_member import MemberState

__all__ = ["Situation", "reconciled"]


class Situation(Struct, frozen=True):
    """Input for the next step of a member, besides the member itself."""

    target_epoch: int
    target: Partitions
    subscribed: Container[bytes]
    """Existing topics of its subscription."""
    subscription_changed: bool
    owned: Partitions | None
    """The partitions that it reports to own; None if it reports none."""
    taken: Callable[[bytes], Set[int]]
    """The partitions of a topic that members have, the member itself included."""


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
    (MemberState.UNREVOKED, True, False): _Step.STAY,
    (MemberState.UNREVOKED, True, True): _Step.TRIM,
    (MemberState.UNREVOKED, False, False): _Step.ADVANCE,
    (MemberState.UNREVOKED, False, True): _Step.ADVANCE,
    (MemberState.UNRELEASED, False, False): _Step.ADVANCE,
    (MemberState.UNRELEASED, False, True): _Step.ADVANCE,
    # A state that a later release may have written: the member was fenced unless it owned nothing.
    (MemberState.UNKNOWN, False, False): _Step.ADVANCE,
    (MemberState.UNKNOWN, False, True): _Step.ADVANCE,
}


def reconciled(member: ConsumerMember, situation: Situation) -> ConsumerMember:
    """The member after its next step; the same object if there is none."""
    match member.state:
        case MemberState.STABLE:
            kept = member.epoch == situation.target_epoch
        case MemberState.UNREVOKED:
            kept = _still_owns(situation.owned, member.revoking)
        case MemberState.UNRELEASED | MemberState.UNKNOWN:
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
        state = MemberState.UNREVOKED
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
            state=MemberState.UNREVOKED,
            previous_epoch=member.epoch,
            assigned=assigned,
            revoking=revoking,
        )
    for topic_id, indexes in pending.items():
        assigned.setdefault(topic_id, {}).update(dict.fromkeys(indexes, situation.target_epoch))
    return replace(
        member,
        state=MemberState.UNRELEASED if unreleased else MemberState.STABLE,
        previous_epoch=member.epoch,
        epoch=situation.target_epoch,
        assigned=assigned,
        revoking=NO_EPOCHS,
    )


def _still_owns(owned: Partitions | None, revoking: EpochsOfPartitions) -> bool:
    """Whether the member has not confirmed yet that it gave all of this up."""
    if owned is None:
        return True
    return any(not indexes.isdisjoint(revoking.get(topic_id, ())) for topic_id, indexes in owned.items())
