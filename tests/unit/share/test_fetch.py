"""A ShareFetch looks at one partition after the other: what it found may be gone, or be others', when it reads."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.unit.host.helpers import batch, produce_request, topic_id
from tests.unit.host.test_long_requests import others_served

from odradek.faults.one_line import rule
from odradek.metadata.image import ResourceType
from odradek.share.fetch import FOUND_AT_ONCE
from odradek.share.state import ShareKey
from odradek.share.state_client import ShareStateClient
from odradek.sim import SimClient, World
from odradek.sim.world.client import Answer
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from odradek.wire.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from odradek.wire.messages.share_fetch_response import PartitionData, ShareFetchResponse
from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.registry import ApiKey

LOCK_MS = 30_000
WAIT_MS = 5_000
MANY = 100


class Reader:
    """Members of a share group that reads topic `t` from its beginning; broker 1 leads all of it."""

    def __init__(self, partitions: int, *, brokers: int = 2, calls_itself: bool = False) -> None:
        self.world = World(
            brokers=brokers, topics=[f"t:{partitions}:{brokers}"], tells=not calls_itself, calls_itself=calls_itself
        )
        for index in range(partitions):
            if brokers > 1:
                self.world.move_leader("t", index, 1)
        self.client = self.world.client()
        reset = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        group = AlterConfigsResource(resource_type=ResourceType.GROUP, resource_name="g", configs=[reset])
        self.client.ask(IncrementalAlterConfigsRequest(resources=[group]), 1)
        beat = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"])
        # One of them is the group's coordinator.
        assert ErrorCode.NONE in {self.world.client(node_id).ask(beat, 1).error_code for node_id in self.world.nodes}
        self.world.advance(5_000)
        self.topic_id = topic_id(self.world)

    def produce(self, partition: int = 0) -> None:
        self.world.client().ask(produce_request(batch(b"a"), partition=partition), 9)

    def send(
        self,
        *partitions: int,
        epoch: int = 0,
        wait_ms: int = WAIT_MS,
        client: SimClient | None = None,
        member: str = "m",
        records: int = 10,
    ) -> Answer:
        request = ShareFetchRequest(
            group_id="g",
            member_id=member,
            share_session_epoch=epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_records=records,
            batch_size=10,
            topics=[
                FetchTopic(
                    topic_id=self.topic_id, partitions=[FetchPartition(partition_index=index) for index in partitions]
                )
            ],
        )
        return (client or self.client).send(request, 1)

    def acknowledge(self) -> Answer:
        """Accept the first record of partition 0."""
        accepted = AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=[accepted])
        topic = AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])
        return self.client.send(
            ShareAcknowledgeRequest(group_id="g", member_id="m", share_session_epoch=1, topics=[topic]), 1
        )

    def waits_for(self, partition: int) -> Answer:
        """The answer of a member that knows partition 0, and now waits for the state of another one."""
        known = self.send(0, wait_ms=0)
        self.world.run()
        assert ErrorCode.NONE == told(known)[0].error_code
        self.held = self.world.arm(rule(ApiKey.READ_SHARE_GROUP_STATE, hold=True))
        answer = self.send(partition, epoch=1)
        self.world.run()
        self.produce(0)
        assert not answer.arrived
        assert 1 == self.held.hits
        return answer


def told(answer: Answer) -> dict[int, PartitionData]:
    response: ShareFetchResponse = answer.response
    assert ErrorCode.NONE == response.error_code
    return {data.partition_index: data for topic in response.responses for data in topic.partitions}


def offsets(data: PartitionData) -> list[tuple[int, int]]:
    return [(each.first_offset, each.last_offset) for each in data.acquired_records]


@pytest.mark.parametrize("others", [False, True])
def test_a_leader_that_moves_while_another_partition_is_waited_for_acquires_nothing(others: bool) -> None:
    """The next fetch hears of it."""
    reader = Reader(2)
    answer = reader.waits_for(1)
    if others:
        reader.produce(1)
    reader.world.move_leader("t", 0, 2)
    reader.world.disarm(reader.held)
    reader.world.advance(100 if others else WAIT_MS)
    assert {1: [(0, 0)] if others else []} == {index: offsets(data) for index, data in told(answer).items()}
    following = reader.send(epoch=2, wait_ms=0)
    reader.world.run()
    data = told(following)[0]
    assert (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2) == (data.error_code, data.current_leader.leader_id)


def test_a_leader_that_moves_there_and_back_acquires_from_what_it_knows_now() -> None:
    reader = Reader(2)
    answer = reader.waits_for(1)
    reader.world.move_leader("t", 0, 2)
    reader.world.move_leader("t", 0, 1)
    reader.world.disarm(reader.held)
    reader.world.advance(100)
    assert [(0, 0)] == offsets(told(answer)[0])
    # Whoever comes next finds them taken: both look at the same share partition.
    second = reader.send(0, wait_ms=0, client=reader.world.client(), member="n")
    reader.world.advance(100)
    assert [] == offsets(told(second)[0])


def test_a_topic_that_is_deleted_while_another_one_is_waited_for_is_unknown() -> None:
    reader = Reader(2)
    answer = reader.waits_for(1)
    reader.world.client().ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    reader.world.disarm(reader.held)
    reader.world.advance(WAIT_MS)
    assert {1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} == {index: data.error_code for index, data in told(answer).items()}


def test_a_partition_with_records_does_not_wait_for_the_state_of_another_one() -> None:
    """The other one begins all the same."""
    reader = Reader(3)
    for index in range(3):
        reader.produce(index)
    first = reader.send(0, 1, 2)
    reader.world.advance(100)
    assert {0: [(0, 0)]} == {index: offsets(data) for index, data in told(first).items()}
    held = reader.world.arm(rule(ApiKey.READ_SHARE_GROUP_STATE, times="all", hold=True))
    second = reader.send(epoch=1)
    reader.world.run()
    assert {1: [(0, 0)], 2: [(0, 0)]} == {index: offsets(data) for index, data in told(second).items()}
    assert 0 == held.hits


def test_a_partition_that_fails_lets_a_fetch_wait_for_the_others() -> None:
    reader = Reader(1)
    answer = reader.send(0, 7)
    reader.world.advance(WAIT_MS - 100)
    assert not answer.arrived
    reader.produce()
    data = told(answer)
    assert ([(0, 0)], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == (offsets(data[0]), data[7].error_code)


def test_a_fetch_that_waits_is_answered_when_an_acknowledgement_comes_behind_it() -> None:
    reader = Reader(1)
    waiting = reader.send(0)
    reader.world.advance(100)
    assert not waiting.arrived
    behind = reader.acknowledge()
    reader.world.run()
    assert waiting.arrived
    assert behind.arrived


def test_what_comes_while_another_partition_is_waited_for_is_not_waited_for() -> None:
    reader = Reader(2)
    known = reader.send(0, wait_ms=0)
    reader.world.run()
    assert [] == offsets(told(known)[0])
    held = reader.world.arm(rule(ApiKey.READ_SHARE_GROUP_STATE, hold=True))
    answer = reader.send(1, epoch=1)
    reader.world.run()
    reader.produce(0)
    reader.world.disarm(held)
    reader.world.run()
    assert [(0, 0)] == offsets(told(answer)[0])
    assert 0 == len(reader.world.nodes[1].purgatory)


class Looking:
    """A member that reads from many partitions, of which the first one has just been looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, records: int) -> None:
        self.reader = reader = Reader(MANY)
        self.world = world = reader.world
        known = reader.send(*range(MANY), wait_ms=0)
        world.advance(100)
        assert MANY == len(told(known))
        self.first = 2
        """Where the second request of a session begins; the partitions before it come last."""
        for _ in range(records):
            reader.produce(self.first)
        partition = world.nodes[1].partitions["t", self.first]
        read = partition.read
        looks: list[int] = []

        def looked(offset: int, **limits: Any) -> Any:
            looks.append(offset)
            return read(offset, **limits)

        monkeypatch.setattr(partition, "read", looked)
        self.answer = reader.send(epoch=1)
        while not looks:
            world._deliver()
        assert not self.answer.arrived


@pytest.mark.parametrize("partition", [2, 1])
def test_what_comes_behind_the_look_at_its_partition_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, partition: int
) -> None:
    looking = Looking(monkeypatch, records=0)
    writer = looking.world.client().send(produce_request(batch(b"a"), partition=partition), 9)
    looking.world.run()
    assert writer.arrived
    assert {partition: [(0, 0)]} == {index: offsets(data) for index, data in told(looking.answer).items()}
    assert 0 == len(looking.world.nodes[1].purgatory)


def test_nothing_is_acquired_from_what_moves_behind_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looking = Looking(monkeypatch, records=1)
    looking.world.move_leader("t", looking.first, 2)
    looking.world.advance(WAIT_MS)
    assert looking.first not in told(looking.answer)


def test_what_another_member_has_taken_behind_the_look_is_not_acquired_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    looking = Looking(monkeypatch, records=2)
    other = looking.reader.send(looking.first, client=looking.world.client(), member="n", records=1)
    while not other.arrived:
        looking.world._deliver()
    assert not looking.answer.arrived
    assert [(0, 0)] == offsets(told(other)[looking.first])
    # The rest is, without any wait.
    looking.world.run()
    assert [(1, 1)] == offsets(told(looking.answer)[looking.first])


def test_a_look_at_many_partitions_has_many_steps() -> None:
    reader = Reader(MANY, brokers=1)
    reader.send(*range(MANY), wait_ms=0)
    reader.world.advance(100)
    for index in range(MANY):
        reader.produce(index)
    known = reader.send(epoch=1)
    assert others_served(reader.world, known, reader.world.client()) > 2 * MANY // 32
    assert 10 == sum(bool(data.acquired_records) for data in told(known).values())


def test_a_member_that_is_gone_leaves_nothing_behind() -> None:
    reader = Reader(MANY, brokers=1)
    reader.send(*range(MANY))
    reader.world._deliver()
    reader.world._deliver()
    reader.client.close()
    reader.world.run()
    assert 0 == len(reader.world.nodes[1].purgatory)


def test_what_is_not_known_any_more_is_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member goes; while one partition is told of it, another one is led anew, and knows nothing of the member."""
    reader = Reader(2)
    reader.send(0, 1, wait_ms=0)
    reader.world.advance(100)
    reader.produce(0)
    reader.produce(1)
    taken = reader.send(epoch=1)
    reader.world.advance(100)
    assert {0: [(0, 0)], 1: [(0, 0)]} == {index: offsets(data) for index, data in told(taken).items()}
    told_of: list[int] = []

    write = ShareStateClient.write

    async def written(client: ShareStateClient, key: Any, what: Any) -> Any:
        told_of.append(key.partition)
        return await write(client, key, what)

    monkeypatch.setattr(ShareStateClient, "write", written)
    held = reader.world.arm(rule(ApiKey.WRITE_SHARE_GROUP_STATE, hold=True))
    reader.client.close()
    reader.world.run()
    [first] = told_of
    reader.world.move_leader("t", 1 - first, 2)
    reader.world.disarm(held)
    reader.world.advance(100)
    assert [first] == told_of


def test_what_a_leader_before_has_written_too_late_does_not_forget_what_is_known_now() -> None:
    """The coordinator refuses the old leader's write; the share partition that has taken its place stays."""
    reader = Reader(1)
    reader.produce()
    taken = reader.send(0, wait_ms=0)
    reader.world.advance(100)
    assert [(0, 0)] == offsets(told(taken)[0])
    held = reader.world.arm(rule(ApiKey.WRITE_SHARE_GROUP_STATE, hold=True))
    acknowledged = reader.acknowledge()
    reader.world.run()
    assert 1 == held.hits
    reader.world.move_leader("t", 0, 2)
    reader.world.move_leader("t", 0, 1)
    other = reader.world.client()
    again = reader.send(0, wait_ms=0, client=other, member="n")
    reader.world.advance(100)
    assert [(0, 0)] == offsets(told(again)[0])

    reader.world.disarm(held)
    reader.world.advance(100)
    [topic] = acknowledged.response.responses
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == topic.partitions[0].error_code
    third = reader.send(0, wait_ms=0, client=reader.world.client(), member="o")
    reader.world.advance(100)
    assert [] == offsets(told(third)[0])


@pytest.mark.parametrize(
    ("refusal", "answered", "is_read_again"),
    [
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_STATE_EPOCH, True),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR, False),
    ],
)
def test_a_share_partition_that_the_coordinator_fences_reads_its_state_again(
    refusal: ErrorCode, answered: ErrorCode, is_read_again: bool
) -> None:
    reader = Reader(1, brokers=1)
    reader.produce()
    taken = reader.send(0, wait_ms=0)
    reader.world.advance(100)
    assert [(0, 0)] == offsets(told(taken)[0])
    reader.world.arm(rule(ApiKey.WRITE_SHARE_GROUP_STATE, error=refusal.name, times=1))
    acknowledged = reader.acknowledge()
    reader.world.advance(100)
    [topic] = acknowledged.response.responses
    assert answered == topic.partitions[0].error_code

    read = reader.world.arm(rule(ApiKey.READ_SHARE_GROUP_STATE, delay_ms=1))
    reader.send(0, wait_ms=0, client=reader.world.client(), member="n")
    reader.world.advance(100)
    assert is_read_again is (read.hits > 0)


def test_others_are_served_while_many_share_partitions_begin() -> None:
    """Where the share coordinator is the same broker, nothing else has the fetch give way."""
    reader = Reader(MANY, brokers=1, calls_itself=True)
    node = reader.world.nodes[1]
    node.turns.is_over = lambda: True
    keys = {index: ShareKey("g", reader.topic_id, index) for index in range(MANY)}
    answer = reader.send(*range(MANY), wait_ms=0)
    begun = [0]
    while not answer.arrived:
        reader.world._deliver()
        begun.append(sum(node.shares.known(keys[index], node.partitions["t", index]) is not None for index in keys))
    assert MANY == begun[-1]
    assert max(later - before for before, later in pairwise(begun)) <= FOUND_AT_ONCE
