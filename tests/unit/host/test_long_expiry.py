"""What expires with very many others, and what is looked at again and again, a few at a time."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.host.helpers import batch, produce_request
from tests.unit.host.test_in_parts import in_steps

from odradek.log.partition import Partition
from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.list_transactions_request import ListTransactionsRequest
from odradek.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest

MANY = 1_000
GROUPS = ("g", "h")
FORGOTTEN_AT_ONCE = 250
STARTED_AT_ONCE = 20
LOOKED_AT_ONCE = 200
MINUTE_MS = 60_000
CONFIG = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "offsets.retention.check.interval.ms": MINUTE_MS,
    "transactional.id.expiration.ms": MINUTE_MS,
    "transaction.remove.expired.transaction.cleanup.interval.ms": MINUTE_MS,
    "producer.id.expiration.ms": MINUTE_MS,
    "producer.id.expiration.check.interval.ms": MINUTE_MS,
    "log.retention.check.interval.ms": MINUTE_MS,
}


def world_of(partitions: int, *, retention_minutes: int = 1) -> World:
    world = World(topics=[f"t:{partitions}"], config={**CONFIG, "offsets.retention.minutes": retention_minutes})
    world.run()
    return world


def test_very_many_offsets_expire_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(MANY)
    client = world.client()
    for group in GROUPS:
        partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in range(MANY)]
        topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
        client.ask(OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=topics), 8)
    [shard] = world.nodes[1].group_coordinators.led()
    forgotten: list[int] = []
    propose = shard.propose

    def proposed(what: Any, **named: Any) -> Any:
        forgotten.append(len(what.records))
        return propose(what, **named)

    monkeypatch.setattr(shard, "propose", proposed)
    counts = in_steps(world, shard.machine, "expire_offsets", monkeypatch)
    world.advance(3 * MINUTE_MS)
    # A tombstone for each, and one for each group.
    assert len(GROUPS) * (MANY + 1) == sum(forgotten)
    assert max(forgotten) <= FORGOTTEN_AT_ONCE + 1
    assert 1 == max(counts)
    for group in GROUPS:
        assert [] == world.client().ask(OffsetFetchRequest(group_id=group, topics=None), 7).topics


def test_offsets_that_have_not_expired_are_looked_through_in_parts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(MANY, retention_minutes=10)
    client = world.client()
    for number in range(8):
        partitions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in range(MANY // 2)
        ]
        topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
        client.ask(OffsetCommitRequest(group_id=f"g{number}", generation_id_or_member_epoch=-1, topics=topics), 8)
    [shard] = world.nodes[1].group_coordinators.led()
    counts = in_steps(world, shard.machine._offset_protocol, "expire", monkeypatch)
    world.advance(MINUTE_MS + 1)
    assert 8 == sum(counts)
    assert 5 == max(counts)


def test_very_many_transactional_ids_expire_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(1)
    client = world.client()
    names = [f"x{number}" for number in range(200)]
    for name in names:
        asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1_000)
        assert ErrorCode.NONE == client.ask(asked, 4, within_ms=1_000).error_code
    [shard] = world.nodes[1].transaction_coordinators.led()
    counts = in_steps(world, shard, "perform", monkeypatch)
    world.advance(3 * MINUTE_MS)
    assert len(names) == sum(counts)
    assert max(counts) <= STARTED_AT_ONCE
    assert [] == world.client().ask(ListTransactionsRequest(duration_filter=-1), 1).transaction_states


@pytest.mark.parametrize("chore", ["retain", "forget_producers"])
def test_very_many_partitions_are_looked_at_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch, chore: str) -> None:
    world = world_of(MANY)
    world.client().ask(produce_request(batch(b"a", producer_id=5, producer_epoch=0, sequence=0), partition=7), 9)
    counts = in_steps(world, Partition, chore, monkeypatch)
    # In between nothing else is looked at.
    world.advance(2 * MINUTE_MS)
    assert 2 * MANY <= sum(counts)
    assert max(counts) <= LOOKED_AT_ONCE
    assert not world.nodes[1].partitions["t", 7].producers.producers
