"""What consumers, administrators and the log itself tell about a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from odradek.broker import Node
from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.records.record import iterate_records
from odradek.records.state import decode_key, decode_value
from odradek.sim import Answer, World
from odradek.sim.model.reader import batches_of, committed_values, kind_of
from odradek.sim.world.client import SimClient
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_producers_request import DescribeProducersRequest
from odradek.wire.messages.describe_producers_request import TopicRequest as DescribedTopic
from odradek.wire.messages.describe_producers_response import ProducerState
from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.messages.describe_transactions_response import TransactionState
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.fetch_response import PartitionData
from odradek.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from odradek.wire.messages.transaction_log_key import TransactionLogKey
from odradek.wire.messages.transaction_log_value import TransactionLogValue

__all__ = ["GROUP", "OK", "P", "Pair", "Q", "R", "Pending", "TopicPartition", "View", "Written"]

T = TypeVar("T")
TopicPartition = tuple[str, int]
Pair = tuple[int, int]

OK = ErrorCode.NONE
GROUP = "group"
P: TopicPartition = ("t", 0)
Q: TopicPartition = ("t", 1)
R: TopicPartition = ("t", 2)


class Pending(Generic[T]):
    """An answer that may be on its way."""

    def __init__(self, world: World, client: SimClient, answer: Answer, read: Callable[[Any], T]) -> None:
        self._world = world
        self._client = client
        self._answer = answer
        self._read = read

    def hang_up(self) -> None:
        """Close the connection that the answer would come on."""
        self._client.close()
        self._world.run()

    @property
    def arrived(self) -> bool:
        """Whether it is here."""
        return self._answer.arrived

    @property
    def lost(self) -> bool:
        """Whether the connection was closed instead."""
        return self._answer.lost

    def result(self, *, within_ms: int = 60_000) -> T:
        """The answer, for which the world runs on if need be."""
        self._world.run_until(lambda: self._answer.arrived or self._answer.lost, within_ms=within_ms)
        return self._read(self._answer.response)


class Written(Struct, frozen=True):
    """A record of the transaction log."""

    version: int
    value: TransactionLogValue | None
    """None: a tombstone."""

    @property
    def summary(self) -> tuple[int, int, int, int, int, int]:
        """Status, producer id and epoch, previous and next producer id, client transaction version."""
        value = self.value
        assert value is not None
        return (
            value.transaction_status,
            value.producer_id,
            value.producer_epoch,
            value.previous_producer_id,
            value.next_producer_id,
            value.client_transaction_version,
        )


class View:
    """The reading half of a cluster."""

    world: World

    # ------------------------------------------------------------------ requests

    def send(self, node_id: int, request: Struct, version: int, *, client_id: str | None = "client") -> Answer:
        """Send a request on a connection of its own."""
        return self.world.client(node_id, client_id=client_id).send(request, version)

    def ask(self, node_id: int, request: Struct, version: int) -> Any:
        """Send a request and wait for the answer."""
        return self.world.client(node_id).ask(request, version)

    def pending(self, node_id: int, request: Struct, version: int, read: Callable[[Any], T]) -> Pending[T]:
        """Send a request; its answer, read as told, comes when the world runs."""
        client = self.world.client(node_id)
        return Pending(self.world, client, client.send(request, version), read)

    # ------------------------------------------------------------------ who does what

    def leader(self, partition: TopicPartition) -> int:
        """The broker that leads a partition; -1 if none does."""
        registered = self.world.nodes[self.world.spec.controller_id].image.partition(*partition)
        assert registered is not None
        return registered.leader

    def log_of(self, transactional_id: str) -> TopicPartition:
        """The partition of the transaction log that holds an id."""
        return self._internal(CoordinatorKind.TRANSACTION, transactional_id)

    def offsets_of(self, group: str = GROUP) -> TopicPartition:
        """The partition that holds the offsets of a group."""
        return self._internal(CoordinatorKind.GROUP, group)

    def _internal(self, kind: CoordinatorKind, key: str) -> TopicPartition:
        topic = self.world.nodes[self.world.spec.controller_id].image.topic(kind.topic)
        assert topic is not None
        return kind.topic, partition_for(key, len(topic.partitions))

    def coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id."""
        return self.leader(self.log_of(transactional_id))

    def node(self, node_id: int) -> Node:
        """A broker from within."""
        return self.world.nodes[node_id]

    def coordinator_on(self, node_id: int, *, but_not: str = "") -> str:
        """A transactional id that this broker coordinates."""
        for number in range(1000):
            if self.coordinator(f"id-{number}") == node_id and f"id-{number}" != but_not:
                return f"id-{number}"
        raise AssertionError(f"broker {node_id} coordinates nothing")

    def partition_on(self, node_id: int) -> TopicPartition:
        """A partition that this broker leads."""
        return next(partition for partition in (P, Q, R) if self.leader(partition) == node_id)

    def topic_id(self, topic: str) -> bytes:
        """The id of a topic."""
        image = self.world.nodes[self.world.spec.controller_id].image.topic(topic)
        assert image is not None
        return image.id

    # ------------------------------------------------------------------ what administrators ask

    def describe(self, transactional_id: str) -> TransactionState:
        """DescribeTransactions."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        state: TransactionState
        [state] = self.ask(self.coordinator(transactional_id), request, 0).transaction_states
        return state

    def state(self, transactional_id: str) -> str:
        """The state of an id, by the name the APIs show."""
        return self.describe(transactional_id).transaction_state

    def described_partitions(self, transactional_id: str) -> list[TopicPartition]:
        """The partitions of its transaction: those that are added, or whose marker is missing."""
        topics = self.describe(transactional_id).topics
        return sorted((topic.topic, index) for topic in topics for index in topic.partitions)

    def producers(self, partition: TopicPartition) -> list[ProducerState]:
        """DescribeProducers of one partition."""
        request = DescribeProducersRequest(topics=[DescribedTopic(name=partition[0], partition_indexes=[partition[1]])])
        [topic] = self.ask(self.leader(partition), request, 0).topics
        [result] = topic.partitions
        assert OK == result.error_code
        producers: list[ProducerState] = result.active_producers
        return producers

    # ------------------------------------------------------------------ what consumers see

    def fetched(self, partition: TopicPartition, *, committed: bool = True, offset: int = 0) -> PartitionData:
        """Fetch v11, of everything that may be read."""
        wanted = FetchPartition(partition=partition[1], fetch_offset=offset, partition_max_bytes=1 << 25)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 25,
            isolation_level=int(committed),
            topics=[FetchTopic(topic=partition[0], partitions=[wanted])],
        )
        [topic] = self.ask(self.leader(partition), request, 11).responses
        data: PartitionData
        [data] = topic.partitions
        assert OK == data.error_code, ErrorCode(data.error_code)
        return data

    def stable(self, partition: TopicPartition) -> tuple[int, int]:
        """Last stable offset and high watermark."""
        data = self.fetched(partition)
        return data.last_stable_offset, data.high_watermark

    def aborted(self, partition: TopicPartition) -> list[Pair]:
        """Producer id and first offset of each aborted transaction, as a read_committed fetch lists them."""
        return [(each.producer_id, each.first_offset) for each in self.fetched(partition).aborted_transactions or ()]

    def log(self, partition: TopicPartition) -> list[str]:
        """Each batch as `offset:kind@epoch`."""
        data = self.fetched(partition, committed=False)
        return [f"{each.base_offset}:{kind_of(each)}@{each.producer_epoch}" for each in batches_of(data)]

    def values(self, partition: TopicPartition, *, offset: int = 0) -> list[bytes | None]:
        """Everything that was ever written, aborted or not."""
        data = self.fetched(partition, committed=False, offset=offset)
        return [record.value for each in batches_of(data) if not each.is_control for record in iterate_records(each)]

    def consumed(self, partition: TopicPartition) -> list[bytes | None]:
        """What a read_committed consumer sees."""
        return committed_values(self.fetched(partition))

    def offset(self, *, group: str = GROUP, partition: TopicPartition = P, stable: bool = False) -> int | ErrorCode:
        """The committed offset of a group, or the error in its place."""
        wanted = OffsetFetchRequestTopic(name=partition[0], partition_indexes=[partition[1]])
        request = OffsetFetchRequest(group_id=group, topics=[wanted], require_stable=stable)
        answer = self.ask(self.leader(self.offsets_of(group)), request, 7)
        assert OK == answer.error_code
        [[result]] = [topic.partitions for topic in answer.topics]
        committed: int = result.committed_offset
        return ErrorCode(result.error_code) if result.error_code else committed

    # ------------------------------------------------------------------ what only the log tells

    def transaction_log(self, transactional_id: str) -> list[Written]:
        """Every record of an id in `__transaction_state`."""
        topic, index = self.log_of(transactional_id)
        partition = self.node(self.leader((topic, index))).partitions[topic, index]
        found = []
        for batch in partition.log.batches():
            for record in iterate_records(batch):
                key = decode_key(record.key or b"", TransactionLogKey)
                if key is not None and key.transactional_id == transactional_id:
                    found.append(_written(record.value))
        return found

    def last_written(self, transactional_id: str) -> Written:
        """The latest of them."""
        return self.transaction_log(transactional_id)[-1]


def _written(value: bytes | None) -> Written:
    if value is None:
        return Written(-1, None)
    return Written(int.from_bytes(value[:2], "big"), decode_value(value, TransactionLogValue))
