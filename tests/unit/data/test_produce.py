"""Produce: what is appended, what is refused, and how each version says so."""

import pytest
from tests.unit.host.helpers import batch, fetch_request, only, only_fetched, produce_request, topic_id

from odradek.sim import World
from odradek.wire.errors import ErrorCode


def test_records_get_the_next_offsets() -> None:
    client = World(topics=["t"]).client()
    assert 0 == only(client.ask(produce_request(batch(b"a", b"b")), 9)).base_offset
    assert 2 == only(client.ask(produce_request(batch(b"c")), 9)).base_offset


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_with_batches_appends(version: int) -> None:
    world = World(topics=["t"])
    answer = only(world.client().ask(produce_request(batch(b"a"), topic_id=topic_id(world)), version))
    assert (0, 0) == (answer.error_code, answer.base_offset)


@pytest.mark.parametrize(
    ("topic", "partition", "error"),
    [
        ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_partition_that_does_not_exist(topic: str, partition: int, error: ErrorCode) -> None:
    client = World(topics=["t"]).client()
    assert error == only(client.ask(produce_request(batch(b"a"), topic=topic, partition=partition), 9)).error_code


def test_an_unknown_topic_id() -> None:
    client = World(topics=["t"]).client()
    request = produce_request(batch(b"a"), topic_id=b"0123456789abcdef")
    assert ErrorCode.UNKNOWN_TOPIC_ID == only(client.ask(request, 13)).error_code


def test_a_broker_that_does_not_lead_the_partition() -> None:
    world = World(brokers=2, topics=["t:2"])
    leaders = {index: world.nodes[1].image.partition("t", index) for index in (0, 1)}
    other = next(index for index, partition in leaders.items() if partition is not None and partition.leader != 1)
    answer = only(world.client(1).ask(produce_request(batch(b"a"), partition=other), 9))
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == answer.error_code


def test_acks_0_is_not_answered_and_the_next_request_is() -> None:
    world = World(topics=["t"])
    client = world.client()
    silent = client.send(produce_request(batch(b"a"), acks=0), 9)
    assert 1 == only(client.ask(produce_request(batch(b"b")), 9)).base_offset
    assert not silent.arrived


def test_an_error_with_acks_0_closes_the_connection() -> None:
    world = World(topics=["t"])
    client = world.client()
    client.send(produce_request(batch(b"a"), topic="nowhere", acks=0), 9)
    world.run()
    assert client.closed


def test_acks_that_do_not_exist() -> None:
    client = World(topics=["t"]).client()
    answer = only(client.ask(produce_request(batch(b"a"), acks=2), 9))
    assert ErrorCode.INVALID_REQUIRED_ACKS == answer.error_code


def test_a_damaged_batch_is_refused_and_nothing_is_appended() -> None:
    client = World(topics=["t"]).client()
    damaged = bytearray(batch(b"abc"))
    damaged[-1] ^= 1
    assert ErrorCode.CORRUPT_MESSAGE == only(client.ask(produce_request(bytes(damaged)), 9)).error_code
    assert 0 == only(client.ask(produce_request(batch(b"a")), 9)).base_offset


def test_a_batch_above_the_limit_of_the_topic() -> None:
    client = World(topics=["t"], config={"message.max.bytes": 200}).client()
    answer = only(client.ask(produce_request(batch(b"x" * 300)), 9))
    assert ErrorCode.MESSAGE_TOO_LARGE == answer.error_code


def test_a_repeated_batch_of_an_idempotent_producer_is_answered_with_its_offset() -> None:
    client = World(topics=["t"]).client()
    first = batch(b"a", producer_id=7, producer_epoch=0, sequence=0)
    assert 0 == only(client.ask(produce_request(first), 9)).base_offset
    client.ask(produce_request(batch(b"other")), 9)
    assert 0 == only(client.ask(produce_request(first), 9)).base_offset


def test_a_gap_in_the_sequence() -> None:
    client = World(topics=["t"]).client()
    client.ask(produce_request(batch(b"a", producer_id=7, producer_epoch=0, sequence=0)), 9)
    answer = only(client.ask(produce_request(batch(b"c", producer_id=7, producer_epoch=0, sequence=2)), 9))
    assert ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER == answer.error_code


def test_log_append_time_is_told_and_stored() -> None:
    world = World(topics=["t"], config={"log.message.timestamp.type": "LogAppendTime"})
    client = world.client()
    assert world.now == only(client.ask(produce_request(batch(b"a")), 9)).log_append_time_ms
    records = only_fetched(client.ask(fetch_request((0, 0)), 11)).records
    assert records is not None
    assert world.now == int.from_bytes(bytes(records[35:43]), "big")


def test_internal_topics_are_not_for_clients() -> None:
    client = World().client()
    answer = only(client.ask(produce_request(batch(b"a"), topic="__consumer_offsets"), 9))
    assert ErrorCode.INVALID_TOPIC_EXCEPTION == answer.error_code
