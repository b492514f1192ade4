"""A request about very many things in parts, each decided and written for itself: others are served in between.

What a client can see of that is what it would see of several requests of its own, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

if TYPE_CHECKING:
    from odradek.wire.messages.alter_partition_reassignments_request import ReassignableTopic
    from odradek.wire.messages.elect_leaders_request import TopicPartitions
    from odradek.wire.messages.offset_commit_request import OffsetCommitRequestTopic
    from odradek.wire.messages.offset_commit_response import OffsetCommitResponseTopic
    from odradek.wire.messages.offset_delete_request import OffsetDeleteRequestTopic
    from odradek.wire.messages.offset_delete_response import OffsetDeleteResponseTopic
    from odradek.wire.messages.txn_offset_commit_request import TxnOffsetCommitRequestTopic
    from odradek.wire.messages.txn_offset_commit_response import TxnOffsetCommitResponseTopic

__all__ = ["DECIDED_AT_ONCE", "entries_in_parts", "extend_answers", "in_parts", "joined_answers"]

DECIDED_AT_ONCE = 250
"""How many entries are decided, written and folded before others may go on; one takes some 20 to 40 µs."""

T = TypeVar("T")
Topic = TypeVar(
    "Topic",
    "OffsetCommitRequestTopic",
    "OffsetDeleteRequestTopic",
    "ReassignableTopic",
    "TopicPartitions",
    "TxnOffsetCommitRequestTopic",
)
Answer = TypeVar("Answer", "OffsetCommitResponseTopic", "OffsetDeleteResponseTopic", "TxnOffsetCommitResponseTopic")


def in_parts(topics: list[Topic], size: int = DECIDED_AT_ONCE) -> Iterator[list[Topic]]:
    """The topics in their order, so many partitions at a time; one part, the topics as they are, where that is enough.

    A topic without partitions counts as one.
    """
    if sum(len(topic.partitions) or 1 for topic in topics) <= size:
        yield topics
        return
    part: list[Topic] = []
    room = size
    for topic in topics:
        partitions, position = topic.partitions, 0
        while True:
            taken = partitions[position : position + room]
            part.append(replace(topic, partitions=taken))
            position += len(taken)
            room -= len(taken) or 1
            if room == 0:
                yield part
                part, room = [], size
            if position >= len(partitions):
                break
    if part:
        yield part


def entries_in_parts(
    entries: list[T], *, key: Callable[[T], Hashable] | None = None, size: int = DECIDED_AT_ONCE
) -> Iterator[list[T]]:
    """The entries in their order, so many at a time; those with one key come together, as what is said twice is judged.

    One part, the entries as they are, where that is enough.
    """
    if len(entries) <= size:
        yield entries
        return
    groups: dict[Hashable, list[T]] = {}
    for index, entry in enumerate(entries):
        groups.setdefault(index if key is None else key(entry), []).append(entry)
    part: list[T] = []
    for group in groups.values():
        part += group
        if len(part) >= size:
            yield part
            part = []
    if part:
        yield part


def extend_answers(answers: list[Answer], part: list[Answer], key: Callable[[Answer], Hashable]) -> None:
    """Add the answers to a part; what it begins with may be the rest of the topic that the part before ended with."""
    if answers and part and key(answers[-1]) == key(part[0]):
        answers[-1].partitions += part[0].partitions
        part = part[1:]
    answers += part


def joined_answers(missing: dict[T, Answer], committed: list[Answer], key: Callable[[Answer], T]) -> list[Answer]:
    """What is not there, and what the coordinator has answered.

    As in Kafka a topic that was named twice is answered twice, unless something is missing: then each topic once.
    """
    if not missing:
        return committed
    for topic in committed:
        answer = missing.setdefault(key(topic), topic)
        if answer is not topic:
            answer.partitions += topic.partitions
    return list(missing.values())
