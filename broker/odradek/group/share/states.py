"""A group's record of share partitions: initialized, to be initialized, and to be deleted.

A partition may be assigned once the share coordinator has its state; until then the group waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from odradek.group.share.member import KnownTopic, StatePartitions

if TYPE_CHECKING:
    from odradek.group.consumer.member import Partitions
    from odradek.group.consumer.topics import Topics
    from odradek.group.share.group import ShareGroup

__all__ = ["NOTHING", "ShareStates", "awaits_assignment", "begun", "ended", "missing", "settled", "without_topics"]

NOTHING = StatePartitions()
NO_OFFSET = -1


class ShareStates(Struct, frozen=True):
    """Share partitions whose state is to be initialized or deleted; offsets by topic id and index."""

    group_id: str
    state_epoch: int
    offsets: Mapping[bytes, Mapping[int, int]]


def missing(group: ShareGroup, names: Iterable[str], topics: Topics) -> dict[bytes, KnownTopic]:
    """The partitions of these topics that are neither initialized nor about to be."""
    states = group.states or NOTHING
    found: dict[bytes, KnownTopic] = {}
    for name in sorted(names):
        topic = topics.topic(name)
        if topic is None:
            continue
        known: set[int] = set()
        for told in (states.initialized, states.initializing):
            if topic.id in told:
                known |= told[topic.id].partitions
        new = frozenset(topic.partitions) - known
        if new:
            found[topic.id] = KnownTopic(name, new)
    return found


def awaits_assignment(group: ShareGroup, names: Iterable[str], topics: Topics) -> bool:
    """Whether partitions of these topics could be assigned and are not; False if an assignment follows anyway."""
    if group.epoch > group.assignment_epoch or group.states is None:
        return False
    assigned: dict[bytes, set[int]] = {}
    for target in group.targets.values():
        for topic_id, indexes in target.items():
            assigned.setdefault(topic_id, set()).update(indexes)
    for name in names:
        topic = topics.topic(name)
        known = None if topic is None else group.states.initialized.get(topic.id)
        if topic is not None and known is not None and not known.partitions <= assigned.get(topic.id, set()):
            return True
    return False


def begun(states: StatePartitions | None, new: Mapping[bytes, KnownTopic]) -> StatePartitions:
    """Note that these partitions are being initialized."""
    known = states or NOTHING
    return replace(known, initializing=_joined(known.initializing, new))


def settled(states: StatePartitions, done: Partitions, failed: Partitions) -> StatePartitions:
    """Note that these partitions are initialized; the failed ones count as unknown again."""
    ready = {
        topic_id: KnownTopic(states.initializing[topic_id].name, done[topic_id])
        for topic_id in done
        if topic_id in states.initializing
    }
    left: dict[bytes, KnownTopic] = {}
    for topic_id, known in states.initializing.items():
        open_ones = known.partitions - done.get(topic_id, frozenset()) - failed.get(topic_id, frozenset())
        if open_ones:
            left[topic_id] = KnownTopic(known.name, open_ones)
    return replace(states, initializing=left, initialized=_joined(states.initialized, ready))


def ended(states: StatePartitions, topic_ids: Iterable[bytes]) -> StatePartitions:
    """Note that the states of these topics are to be deleted."""
    gone = set(topic_ids)
    names = {
        topic_id: known.name
        for told in (states.initializing, states.initialized)
        for topic_id, known in told.items()
        if topic_id in gone
    }
    kept = without_topics(states, gone)
    return replace(kept, deleting={**kept.deleting, **names})


def without_topics(states: StatePartitions, topic_ids: Iterable[bytes]) -> StatePartitions:
    """Remove these topics."""
    gone = set(topic_ids)
    return StatePartitions(
        {key: each for key, each in states.initializing.items() if key not in gone},
        {key: each for key, each in states.initialized.items() if key not in gone},
        {key: each for key, each in states.deleting.items() if key not in gone},
    )


def _joined(first: Mapping[bytes, KnownTopic], second: Mapping[bytes, KnownTopic]) -> dict[bytes, KnownTopic]:
    joined = dict(first)
    for topic_id, known in second.items():
        before = joined.get(topic_id)
        joined[topic_id] = known if before is None else KnownTopic(known.name, before.partitions | known.partitions)
    return joined
