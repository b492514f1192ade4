"""Requests that the tests of the node send, in the simulated world."""

from __future__ import annotations

from odradek.records.record import Record, build_batch
from odradek.sim import World
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.fetch_response import FetchResponse, PartitionData
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.produce_response import PartitionProduceResponse, ProduceResponse

__all__ = ["batch", "fetch_request", "only", "only_fetched", "produce_request", "topic_id"]


def batch(*values: bytes, producer_id: int = -1, producer_epoch: int = -1, sequence: int = -1) -> bytes:
    """A plain batch of records without keys."""
    records = [Record(timestamp=1_700_000_000_000, key=None, value=value) for value in values]
    return build_batch(records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence)


def produce_request(
    records: bytes | None, *, topic: str = "t", partition: int = 0, acks: int = -1, topic_id: bytes = bytes(16)
) -> ProduceRequest:
    """One partition's records."""
    data = PartitionProduceData(index=partition, records=None if records is None else memoryview(records))
    return ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])],
    )


def fetch_request(
    *partitions: tuple[int, int],
    topic: str = "t",
    topic_id: bytes = bytes(16),
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    session_id: int = 0,
    session_epoch: int = -1,
    isolation_level: int = 0,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
) -> FetchRequest:
    """Fetch from offsets of partitions, given as pairs (partition, offset)."""
    wanted = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
        for index, offset in partitions
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=wanted)] if wanted else [],
    )


def only(response: ProduceResponse) -> PartitionProduceResponse:
    """The one partition of a produce response."""
    [topic] = response.responses
    [partition] = topic.partition_responses
    return partition


def only_fetched(response: FetchResponse) -> PartitionData:
    """The one partition of a fetch response."""
    [topic] = response.responses
    [partition] = topic.partitions
    return partition


def topic_id(world: World, topic: str = "t") -> bytes:
    """The id of a topic."""
    image = world.nodes[1].image.topic(topic)
    assert image is not None
    return image.id
