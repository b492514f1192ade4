"""The records of the newer protocols of groups in `__consumer_offsets`, in Kafka's formats: one codec for all three.

Consumer groups (KIP-848), streams groups (KIP-1071) and share groups (KIP-932) all keep the epoch of the group and that
of its targets, and the identity, the target and the assignment of each member. Their messages are named alike but for
the first words, and begin with the same fields: those of consumer groups stand for all here. A subclass has the fields
that only its protocol knows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, cast

from msgspec import Struct

from odradek.core.machine import LogRecord
from odradek.group.modern_member import MemberState, ModernMember
from odradek.records.state import encode_key, encode_value
from odradek.wire.registry import message_type

if TYPE_CHECKING:
    from odradek.wire.messages.consumer_group_current_member_assignment_value import (
        ConsumerGroupCurrentMemberAssignmentValue as EpochOfMember,
    )
    from odradek.wire.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
    from odradek.wire.messages.consumer_group_target_assignment_member_value import (
        ConsumerGroupTargetAssignmentMemberValue,
    )

__all__ = ["ModernRecords", "epochs_of", "read_partitions", "written_epochs"]

VALUE_VERSION = 0
"""The version of every value of the newer protocols."""

M = TypeVar("M", bound=ModernMember)
T = TypeVar("T")
N = TypeVar("N", bytes, str)
L = TypeVar("L")

message = cache(message_type)


class ModernRecords(ABC, Generic[M, T]):
    """Writes and folds the records of groups with members `M`, each of which has a target `T`."""

    protocol: ClassVar[str]
    """The first word of the names of its messages."""
    of_group: ClassVar[tuple[str, ...]]
    """The kinds of record about the group itself, in the order in which they end with it."""
    first_state: ClassVar[int] = 0
    """The number of the first state of a member."""

    def record(self, kind: str, value: Struct | None, *key: str) -> LogRecord:
        """A record; its key is the id of the group and, in most kinds, of what it is about. No value: a tombstone."""
        encoded_key = encode_key(message(f"{self.protocol}{kind}Key")(*key))
        return LogRecord(encoded_key, None if value is None else encode_value(value, VALUE_VERSION))

    def value(self, kind: str, **fields: object) -> Struct:
        """The value of a record."""
        return message(f"{self.protocol}{kind}Value")(**fields)

    def epoch_record(self, group_id: str, epoch: int, metadata_hash: int, **more: object) -> LogRecord:
        """The group has moved on to this epoch."""
        value = self.value("Metadata", epoch=epoch, metadata_hash=metadata_hash, **more)
        return self.record("Metadata", value, group_id)

    def member_record(self, group_id: str, member: M) -> LogRecord:
        """The identity of a member, and its subscription."""
        return self.record("MemberMetadata", self.description(member), group_id, member.member_id)

    def target_record(self, group_id: str, member_id: str, target: T) -> LogRecord:
        """The target of a member."""
        return self.record("TargetAssignmentMember", self.written_target(target), group_id, member_id)

    def current_record(self, group_id: str, member: M) -> LogRecord:
        """The partitions or tasks of a member, and its epoch."""
        return self.record("CurrentMemberAssignment", self.assignment(member), group_id, member.member_id)

    def state_of(self, member: M) -> int:
        """The state of a member, as a number in its record."""
        return member.state + (0 if member.state is MemberState.UNKNOWN else self.first_state)

    def assignment_epoch_record(self, group_id: str, epoch: int, timestamp: int) -> LogRecord:
        """All targets are those of this epoch, since then (ms)."""
        value = self.value("TargetAssignmentMetadata", assignment_epoch=epoch, assignment_timestamp=timestamp)
        return self.record("TargetAssignmentMetadata", value, group_id)

    def member_tombstones(self, group_id: str, member_id: str) -> Iterator[LogRecord]:
        """A member is gone: first what it has, then what it shall have, then itself."""
        for kind in ("CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata"):
            yield self.record(kind, None, group_id, member_id)

    def tombstones(
        self, group_id: str, members: Sequence[str], targets: Sequence[str], others: Iterable[LogRecord]
    ) -> Iterator[LogRecord]:
        """A group is gone, with these members, the targets of these, and `others`."""
        yield from (self.record("CurrentMemberAssignment", None, group_id, each) for each in members)
        yield from (self.record("TargetAssignmentMember", None, group_id, each) for each in targets)
        yield self.record("TargetAssignmentMetadata", None, group_id)
        yield from (self.record("MemberMetadata", None, group_id, each) for each in members)
        yield from others
        yield from (self.record(kind, None, group_id) for kind in self.of_group)

    @abstractmethod
    def description(self, member: M) -> Struct:
        """The identity of a member and its subscription, as the value of a record."""

    @abstractmethod
    def written_target(self, target: T) -> Struct:
        """The target of a member, as the value of a record."""

    @abstractmethod
    def assignment(self, member: M) -> Struct:
        """The partitions or tasks of a member and its epoch, as the value of a record."""

    def kind_of(self, key: Struct) -> str:
        """The kind of a record of this protocol."""
        name = type(key).__name__
        assert name.startswith(self.protocol), f"no record of this protocol: {key}"
        return name.removeprefix(self.protocol).removesuffix("Key")

    def read_member(self, value: Struct) -> dict[str, object]:
        """The fields of a member in the record of its identity."""
        told = cast("ConsumerGroupMemberMetadataValue", value)
        client = {"rack_id": told.rack_id, "client_id": told.client_id, "client_host": told.client_host}
        return {**client, **self.read_description(value)}

    def read_current(self, value: Struct) -> dict[str, object]:
        """The fields of a member in the record of its assignment."""
        current = cast("EpochOfMember", value)
        try:
            state = MemberState(current.state - self.first_state)
        except ValueError:
            state = MemberState.UNKNOWN
        epochs = {"epoch": current.member_epoch, "previous_epoch": current.previous_member_epoch, "state": state}
        return {**epochs, **self.read_assignment(value)}

    @abstractmethod
    def new_member(self, member_id: str) -> M:
        """A member of which nothing but its id is known."""

    @abstractmethod
    def read_description(self, value: Struct) -> dict[str, object]:
        """The other fields of a member that `description` has written."""

    @abstractmethod
    def read_target(self, value: Struct) -> T:
        """The target of a member, read from the value of a record."""

    @abstractmethod
    def read_assignment(self, value: Struct) -> dict[str, object]:
        """The other fields of a member that `assignment` has written."""


def read_partitions(value: Struct) -> dict[bytes, frozenset[int]]:
    """The target of a member of a group of consumers or of a share group."""
    listed = cast("ConsumerGroupTargetAssignmentMemberValue", value).topic_partitions
    return {each.topic_id: frozenset(each.partitions) for each in listed}


def written_epochs(
    partitions: Mapping[N, Mapping[int, int]], listed: Callable[[N, list[int], list[int]], L]
) -> list[L]:
    """Partitions of each topic or subtopology in order, with the epoch in which each was assigned (KIP-1251)."""
    written = []
    for name, epochs in sorted(partitions.items()):
        indexes = sorted(epochs)
        written.append(listed(name, indexes, [epochs[index] for index in indexes]))
    return written


def epochs_of(indexes: list[int], epochs: list[int] | None, member_epoch: int) -> dict[int, int]:
    """The epoch in which each partition was assigned; a record of before KIP-1251 says that of the member alone."""
    # A tagged field that is not there is the empty list.
    return dict(zip(indexes, epochs or [member_epoch] * len(indexes), strict=False))
