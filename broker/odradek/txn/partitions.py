"""The partitions of a transaction: an immutable ordered set; a tuple for a few, `ManyPartitions` for more.

The record of a transaction names all of its partitions each time that one joins (Kafka's `TransactionLog`), so bytes
are
copied in proportion to the transaction. Everything else is proportional to the partitions that join.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import TypeAlias, cast, final

from odradek.wire.primitives import PACK_INT32S, write_varint

__all__ = [
    "FEW_MAX",
    "ManyPartitions",
    "Partitions",
    "TopicPartition",
    "by_topic",
    "encoded_few",
    "includes",
    "sorted_partitions",
]

TopicPartition = tuple[str, int]

FEW_MAX = 16
"""The largest tuple: it is searched, sorted and encoded faster than a table is made."""
ENCODED_REMEMBERED = 128
"""Number of tuples with stored bytes: the partitions of a transaction stay the same while it ends."""

_INDEX_BYTES = 4
_ONE_BYTE = 0x80


class _Grown:
    """Shared by the versions of one growing set; each version is a prefix of it."""

    __slots__ = ("count", "encoded", "numbers", "packed")

    def __init__(self) -> None:
        self.count = 0
        self.numbers: dict[str, dict[int, int]] = {}
        """By topic and index, the number of earlier partitions."""
        self.packed: dict[str, bytes] = {}
        """The indexes of each topic as big-endian int32, in the order of arrival."""
        self.encoded: dict[str, bytes] = {}
        """Each topic with its indexes, as in a value of the log."""

    def take(self, partitions: Collection[TopicPartition]) -> None:
        for topic, indexes in by_topic(partitions).items():
            numbers = self.numbers.setdefault(topic, {})
            numbers.update(zip(indexes, range(self.count, self.count + len(indexes)), strict=True))
            self.count += len(indexes)
            self.packed[topic] = packed = self.packed.get(topic, b"") + _packed(indexes)
            self.encoded[topic] = _encoded_topic(topic, packed)

    def encoded_with(self, partitions: Collection[TopicPartition]) -> Collection[bytes]:
        """Each topic as in a value of the log, with these partitions after the shared ones."""
        if not partitions:
            return self.encoded.values()
        encoded = self.encoded.copy()
        for topic, indexes in by_topic(partitions).items():
            packed = self.packed.get(topic, b"") + _packed(indexes)
            encoded[topic] = _encoded_topic(topic, packed)
        return encoded.values()


@final
class ManyPartitions(Collection[TopicPartition]):
    """More than `FEW_MAX` partitions.

    A set that grows from another one shares the partitions of that one and has the new ones beside them; they are moved
    to the
    shared ones when the next set grows from it. So a set whose record was refused leaves nothing behind.
    """

    __slots__ = ("_count", "_grown", "_new")

    def __init__(self, grown: _Grown, new: dict[TopicPartition, None]) -> None:
        self._grown = grown
        self._count = grown.count
        self._new = new
        """In order of arrival, none of them among the shared ones."""

    def grow(self, partitions: Iterable[TopicPartition]) -> ManyPartitions:
        """The set with these as well."""
        if self._grown.count != self._count:
            # Another set has grown from this one.
            own = _Grown()
            own.take(list(self._shared()))
            self._grown = own
        if self._new:
            self._grown.take(self._new)
            self._count, self._new = self._grown.count, {}
        new = {partition: None for partition in partitions if partition not in self}
        return ManyPartitions(self._grown, new) if new else self

    def includes(self, other: ManyPartitions) -> bool:
        """Whether all of the other set are in this one; at once if this one has grown from it."""
        if other._grown is self._grown and other._count <= self._count and (not other._new or other._new is self._new):
            return True
        return len(other) <= len(self) and all(partition in self for partition in other)

    def by_topic(self) -> dict[str, list[int]]:
        """The indexes of each topic, in order."""
        topics = _grouped(self)
        return {topic: sorted(topics[topic]) for topic in sorted(topics)}

    def encoded(self) -> bytes:
        """The array of partitions in a value of version 1 of `__transaction_state`, in the order of arrival."""
        grown = self._grown
        if grown.count != self._count:
            # Another set has grown from this one.
            return _array([_encoded_topic(topic, _packed(each)) for topic, each in self.by_topic().items()])
        return _array(grown.encoded_with(self._new))

    def __contains__(self, partition: object) -> bool:
        if partition in self._new:
            return True
        topic, index = cast("TopicPartition", partition)
        numbers = self._grown.numbers.get(topic)
        return numbers is not None and numbers.get(index, self._count) < self._count

    def __len__(self) -> int:
        return self._count + len(self._new)

    def __iter__(self) -> Iterator[TopicPartition]:
        """In the order of arrival."""
        return chain(self._shared(), self._new)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, ManyPartitions):
            return NotImplemented
        return len(self) == len(other) and self.includes(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ManyPartitions({self.by_topic()})"

    def _shared(self) -> Iterator[TopicPartition]:
        count, shared = self._count, self._grown.numbers.items()
        if self._grown.count == count:
            return chain.from_iterable(zip(repeat(topic), numbers, strict=False) for topic, numbers in shared)
        return ((topic, index) for topic, numbers in shared for index, number in numbers.items() if number < count)


Partitions: TypeAlias = tuple[TopicPartition, ...] | ManyPartitions


def sorted_partitions(partitions: Iterable[TopicPartition]) -> Partitions:
    """Partitions in the form of an entry."""
    ordered = tuple(sorted(set(partitions)))
    return ManyPartitions(_Grown(), dict.fromkeys(ordered)) if ordered[FEW_MAX:] else ordered


def includes(larger: Partitions, smaller: Partitions) -> bool:
    """Whether all of the smaller set are in the larger one."""
    if type(larger) is ManyPartitions:
        if type(smaller) is ManyPartitions:
            return larger.includes(smaller)
        return all(partition in larger for partition in smaller)
    return set(smaller) <= set(larger)


def by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    """The partitions of each topic, as messages list them."""
    if len(partitions) == 1:
        [(topic, index)] = partitions
        return {topic: [index]}
    if type(partitions) is ManyPartitions:
        return partitions.by_topic()
    return _grouped(partitions)


def _grouped(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics


@lru_cache(maxsize=ENCODED_REMEMBERED)
def encoded_few(partitions: tuple[TopicPartition, ...]) -> bytes:
    """As `ManyPartitions.encoded`, for a few."""
    return _array([_encoded_topic(topic, _packed(indexes)) for topic, indexes in by_topic(partitions).items()])


def _array(topics: Collection[bytes]) -> bytes:
    return b"".join((_varint(len(topics) + 1), *topics))


def _encoded_topic(topic: str, packed: bytes) -> bytes:
    name = topic.encode()
    return b"".join((_varint(len(name) + 1), name, _varint(len(packed) // _INDEX_BYTES + 1), packed, b"\0"))


def _varint(value: int) -> bytes:
    if value < _ONE_BYTE:
        return value.to_bytes()
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


def _packed(indexes: Sequence[int]) -> bytes:
    """Indexes as big-endian int32."""
    return PACK_INT32S[len(indexes)](*indexes)
