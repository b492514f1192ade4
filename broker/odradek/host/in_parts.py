"""A large request in parts, each decided and written on its own, with other clients served in between.

For a client the result is that of several requests, one after the other.
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
"""Number of entries that are decided, written and folded between two turns; one takes some 20 to 40 µs."""

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
    """The topics in their order, with this number of partitions at a time; one part if that is enough.

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
    """The entries in their order, this number at a time; entries with the same key stay together, because they are
    judged
    together.

    One part, the entries as they are, if that is enough.
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
    """Add the answers to a part; its first one may continue the last topic of the part before."""
    if answers and part and key(answers[-1]) == key(part[0]):
        answers[-1].partitions += part[0].partitions
        part = part[1:]
    answers += part


def joined_answers(missing: dict[T, Answer], committed: list[Answer], key: Callable[[Answer], T]) -> list[Answer]:
    """The answers for missing topics, and those of the coordinator.

    As in Kafka a topic that was named twice is answered twice, unless something is missing: then each topic once.
    """
    if not missing:
        return committed
    for topic in committed:
        answer = missing.setdefault(key(topic), topic)
        if answer is not topic:
            answer.partitions += topic.partitions
    return list(missing.values())
