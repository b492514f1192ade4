"""Retention, the cleaner, the expiry of producers and idle connections: each at its own interval."""

from __future__ import annotations

import pytest

from odradek.core.spare_pages import new_pages
from odradek.records.record import Record, build_batch
from odradek.sim import World
from odradek.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

MINUTE_MS = 60_000
OLD_MS = 1_000_000_000_000
"""Long before the world begins."""


def topic(world: World, name: str = "t", **configs: str) -> None:
    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=settings)], timeout_ms=1000
    )
    world.client().ask(request, 7)


def produce(world: World, *keys: bytes, name: str = "t", timestamp: int = OLD_MS, producer_id: int = -1) -> None:
    """A batch of each key, so that each can end its segment."""
    for sequence, key in enumerate(keys):
        data = build_batch(
            [Record(timestamp=timestamp, key=key, value=b"v" * 600_000)],
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence if producer_id >= 0 else -1,
        )
        partition = PartitionProduceData(index=0, records=memoryview(data))
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=name, partition_data=[partition])]
        )
        world.client().ask(request, 9)


def start(world: World, name: str = "t") -> int:
    return world.nodes[1].partitions[name, 0].log_start_offset


def until(world: World, change: str) -> int:
    """After how many ms from now this is true of the node."""
    begun = world.now
    partition = world.nodes[1].partitions["t", 0]
    conditions = {
        "deleted": lambda: partition.log_start_offset > 0,
        "compacted": lambda: len(list(partition.log.batches())) == 2,
        "forgotten": lambda: not partition.describe_producers(),
    }
    assert world.run_until(conditions[change], within_ms=60 * MINUTE_MS), f"not {change} within an hour"
    return world.now - begun


COMPACT = {"cleanup_policy": "compact", "segment_bytes": "1048576"}
BOTH = {"cleanup_policy": "compact,delete"}


@pytest.mark.parametrize(
    ("config", "settings", "change", "interval_ms"),
    [
        ({}, {}, "deleted", 5 * MINUTE_MS),
        ({"log.retention.check.interval.ms": 700}, {}, "deleted", 700),
        (
            {"log.cleaner.backoff.ms": 20_000, "producer.id.expiration.check.interval.ms": 20_000},
            {},
            "deleted",
            5 * MINUTE_MS,
        ),
        ({}, BOTH, "deleted", 15_000),
        ({"log.cleaner.backoff.ms": 800, "log.retention.check.interval.ms": 100}, BOTH, "deleted", 800),
        ({}, COMPACT, "compacted", 15_000),
        ({"log.cleaner.backoff.ms": 900, "log.retention.check.interval.ms": 100}, COMPACT, "compacted", 900),
        ({"producer.id.expiration.ms": 1}, {}, "forgotten", 10 * MINUTE_MS),
        ({"producer.id.expiration.ms": 1, "producer.id.expiration.check.interval.ms": 600}, {}, "forgotten", 600),
    ],
)
def test_each_chore_has_its_own_interval(
    config: dict[str, object], settings: dict[str, str], change: str, interval_ms: int
) -> None:
    world = World(config=config)
    topic(world, **settings)
    keys = [b"k"] * 4 if change == "compacted" else [b"k"]
    produce(world, *keys, producer_id=1 if change == "forgotten" else -1)
    within = 100 if change == "compacted" else 0  # it is done in steps
    assert interval_ms <= until(world, change) + 1 <= interval_ms + within + 1


def test_old_records_stay_until_retention_looks() -> None:
    world = World()
    topic(world)
    produce(world, b"a")
    world.advance(5 * MINUTE_MS - 1)
    assert start(world) == 0
    world.advance(1)
    assert start(world) == 1


def test_retention_comes_back() -> None:
    world = World()
    topic(world)
    for number in range(1, 4):
        produce(world, b"a")
        world.advance(5 * MINUTE_MS)
        assert start(world) == number


def test_a_new_interval_counts_from_now_on_and_leaves_the_others() -> None:
    world = World()
    topic(world)
    topic(world, "c", **BOTH)
    world.advance(10_000)
    produce(world, b"a")
    produce(world, b"a", name="c")
    config = AlterableConfig(name="log.cleaner.backoff.ms", value="400")
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
    world.client().ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    world.advance(399)
    assert start(world, "c") == 0
    world.advance(1)
    assert start(world, "c") == 1
    world.advance(5 * MINUTE_MS - 10_401)
    assert start(world) == 0
    world.advance(1)
    assert start(world) == 1


def test_a_compaction_that_is_under_way_ends_with_its_leadership() -> None:
    world = World(brokers=2)
    topic(world, **COMPACT)
    leader = world.nodes[1].image.partition("t", 0)
    assert leader is not None
    world.move_leader("t", 0, 1)
    produce(world, *[b"k"] * 40)
    partition = world.nodes[1].partitions["t", 0]
    world.advance(15_003)
    before = len(list(partition.log.batches()))
    world.move_leader("t", 0, 2)
    world.advance(MINUTE_MS)
    assert 2 < before, "the compaction was to be caught in the middle"
    assert world.nodes[1].timers.wake_at() is not None
    assert ("t", 0) not in world.nodes[1].partitions


def test_clients_that_say_nothing_are_hung_up_on() -> None:
    world = World(config={"connections.max.idle.ms": 5000})
    client = world.client()
    topic(world)
    world.advance(4000)
    assert not client.closed
    world.advance(3000)
    assert client.closed


@pytest.mark.parametrize("idle_ms", [600_000, -1])
def test_buffers_of_dropped_segments_go_back_when_nobody_has_needed_them(idle_ms: int) -> None:
    world = World(config={"connections.max.idle.ms": idle_ms})
    topic(world)
    produce(world, b"a", b"b", b"c")
    spare = world.nodes[1].store.spare
    world.advance(5 * MINUTE_MS)
    kept = spare.bytes_kept
    assert kept > 0
    world.advance(MINUTE_MS // 2)
    assert kept == spare.bytes_kept
    world.advance(10 * MINUTE_MS)
    assert 0 == spare.bytes_kept


def test_buffers_beyond_a_sixteenth_of_the_logs_go_back_in_seconds() -> None:
    world = World()
    store = world.nodes[1].store
    store.spare.keep(new_pages(store.bytes_max // 8))
    world.advance(3000)
    assert 0 == store.spare.bytes_kept
