"""KIP-392: consumers read from the replica that is near them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kips.helpers import ABORT, COMMIT, OK, Cluster, P, Producer

from odradek.config.table import RACK_AWARE
from odradek.records.record import Record, build_batch
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.fetch_response import PartitionData
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

LEADER, NEAR, FAR = 1, 2, 3
COMMITTED = 1


class Racks(Cluster):
    """Three brokers in three racks, everything on each of them; broker 1 leads t-0 and coordinates."""

    def __init__(self, *, selects: bool = True, racks: str = "a,b,c") -> None:
        selector: dict[str, Any] = {"replica_selector_class": RACK_AWARE} if selects else {}
        super().__init__(
            brokers=3,
            topics=["t:1:3"],
            broker_rack=racks,
            transaction_state_log_num_partitions=1,
            transaction_state_log_replication_factor=3,
            **selector,
        )
        for partition in (P, ("__transaction_state", 0)):
            self.move(partition, LEADER)

    def produce(self, *values: bytes) -> None:
        batch = build_batch([Record(timestamp=self.world.now, value=value) for value in values])
        data = PartitionProduceData(index=0, records=memoryview(batch))
        topics = [TopicProduceData(name="t", partition_data=[data])]
        self.ask(self.leader(P), ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), 9)

    def fetch(
        self,
        broker: int,
        *,
        offset: int = 0,
        rack: str = "",
        version: int = 11,
        committed: bool = True,
        wait_ms: int = 0,
        epoch: int = -1,
    ) -> Fetching:
        partition = FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=epoch
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=COMMITTED if committed else 0,
            topics=[FetchTopic(topic="t", partitions=[partition])],
            rack_id=rack,
        )
        return Fetching(self, broker, request, version)


class Fetching:
    """A Fetch that may have been answered."""

    def __init__(self, cluster: Racks, broker: int, request: FetchRequest, version: int) -> None:
        self._answer = cluster.send(broker, request, version)
        cluster.world.run()

    @property
    def answered(self) -> bool:
        return self._answer.arrived

    @property
    def data(self) -> PartitionData:
        [topic] = self._answer.response.responses
        [partition] = topic.partitions
        assert isinstance(partition, PartitionData)
        return partition

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.data.error_code)


# ---------------------------------------------------------------------- the leader says who is near


def test_the_leader_names_the_replica_in_the_rack_of_the_consumer_and_answers_at_once_without_records() -> None:
    cluster = Racks()
    cluster.produce(b"a", b"b")
    fetching = cluster.fetch(LEADER, rack="b", wait_ms=5_000)
    assert fetching.answered
    data = fetching.data
    assert (OK, NEAR, b"") == (data.error_code, data.preferred_read_replica, bytes(data.records or b""))
    assert (2, 2, 0) == (data.high_watermark, data.last_stable_offset, data.log_start_offset)


@pytest.mark.parametrize("rack", ["a", "nowhere", ""])
def test_who_is_near_the_leader_or_near_nobody_reads_from_the_leader(rack: str) -> None:
    cluster = Racks()
    cluster.produce(b"a")
    data = cluster.fetch(LEADER, rack=rack).data
    assert (-1, True) == (data.preferred_read_replica, bool(data.records))


def test_of_several_in_the_rack_it_is_the_one_that_has_the_most_and_then_the_one_with_the_greatest_id() -> None:
    cluster = Racks(racks="a,b,b")
    cluster.produce(b"a")
    assert FAR == cluster.fetch(LEADER, rack="b").data.preferred_read_replica
    cluster.world.set_replica_lag(FAR, 1_000)
    cluster.produce(b"b")
    assert NEAR == cluster.fetch(LEADER, rack="b").data.preferred_read_replica


def test_a_replica_that_lacks_the_offset_or_is_out_of_sync_or_gone_is_not_named() -> None:
    cluster = Racks()
    cluster.produce(b"a")
    cluster.world.set_replica_lag(NEAR, 1_000)
    cluster.produce(b"b")
    assert [NEAR, NEAR, -1] == [
        cluster.fetch(LEADER, rack="b", offset=offset).data.preferred_read_replica for offset in (0, 1, 2)
    ]
    cluster.world.set_replica_lag(NEAR, None)
    cluster.world.advance(60_000)
    assert -1 == cluster.fetch(LEADER, rack="b").data.preferred_read_replica
    cluster.world.stop_broker(FAR)
    assert -1 == cluster.fetch(LEADER, rack="c").data.preferred_read_replica


@pytest.mark.parametrize("version", [10, 11])
def test_nobody_is_named_without_the_selector_or_to_older_consumers(version: int) -> None:
    cluster = Racks(selects=version == 10)
    cluster.produce(b"a")
    data = cluster.fetch(LEADER, rack="b", version=version).data
    assert (-1, True) == (data.preferred_read_replica, bool(data.records))


# ---------------------------------------------------------------------- the replica answers


def test_a_replica_answers_as_the_leader_does() -> None:
    cluster = Racks(selects=False)
    cluster.produce(b"a", b"b")
    assert cluster.fetch(NEAR).data == cluster.fetch(LEADER).data


@pytest.mark.parametrize(("version", "error"), [(10, ErrorCode.NOT_LEADER_OR_FOLLOWER), (11, OK)])
def test_consumers_that_do_not_know_of_racks_are_sent_to_the_leader(version: int, error: ErrorCode) -> None:
    assert error is Racks().fetch(NEAR, version=version).error


def test_who_waits_at_a_replica_gets_the_record_when_it_is_there() -> None:
    cluster = Racks()
    fetching = cluster.fetch(NEAR, wait_ms=5_000)
    assert not fetching.answered
    cluster.produce(b"a")
    cluster.world.run()
    assert fetching.data.records


def test_who_waits_at_a_replica_gets_the_record_when_it_is_committed() -> None:
    cluster = Racks()
    cluster.world.set_replica_lag(FAR, 400)
    fetching = cluster.fetch(NEAR, wait_ms=5_000)
    cluster.produce(b"a")
    cluster.world.advance(399)
    assert not fetching.answered
    cluster.world.advance(1)
    assert fetching.data.records


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
def test_an_open_transaction_is_not_seen_at_a_replica_before_its_end(outcome: bool) -> None:
    cluster = Racks()
    producer = Producer.started(cluster)
    assert OK is producer.send(P, b"a")
    assert not cluster.fetch(NEAR).data.records
    assert cluster.fetch(NEAR, committed=False).data.records
    fetching = cluster.fetch(NEAR, wait_ms=5_000)
    assert not fetching.answered
    producer.end(outcome)
    cluster.world.run()
    aborted = [(each.producer_id, each.first_offset) for each in fetching.data.aborted_transactions or ()]
    assert fetching.data.records
    assert aborted == ([] if outcome is COMMIT else [(producer.pair[0], 0)])


def test_a_replica_has_what_it_has_acknowledged_and_sends_readers_away_when_it_has_fallen_behind() -> None:
    cluster = Racks()
    cluster.produce(b"a")
    cluster.world.set_replica_lag(NEAR, None)
    cluster.produce(b"b")
    assert 1 == cluster.fetch(NEAR, committed=False).data.high_watermark
    assert ErrorCode.OFFSET_OUT_OF_RANGE is cluster.fetch(NEAR, offset=2).error
    cluster.world.advance(60_000)  # it falls out of sync, and what it lacks is committed without it
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER is cluster.fetch(NEAR).error


# ---------------------------------------------------------------------- what changes meanwhile


def test_a_replica_judges_the_leader_epoch_of_who_waits_when_another_leads() -> None:
    cluster = Racks()
    epoch = cluster.world.nodes[1].partitions[P].leader_epoch
    believing, waiting = cluster.fetch(NEAR, wait_ms=5_000, epoch=epoch), cluster.fetch(NEAR, wait_ms=5_000)
    cluster.move(P, FAR)
    assert ErrorCode.FENCED_LEADER_EPOCH is believing.error
    assert not waiting.answered
    cluster.produce(b"a")
    cluster.world.run()
    assert waiting.data.records


def test_the_leader_that_was_goes_on_answering_as_a_replica() -> None:
    cluster = Racks()
    waiting = cluster.fetch(LEADER, wait_ms=5_000)
    cluster.move(P, NEAR)
    assert not waiting.answered
    cluster.produce(b"a")
    cluster.world.run()
    assert waiting.data.records


def test_a_broker_without_a_replica_answers_nothing() -> None:
    cluster = Cluster(brokers=3, topics=["t:1:1"])
    [other, _] = [broker for broker in cluster.world.nodes if broker != cluster.leader(P)]
    partition = FetchPartition(partition=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic="t", partitions=[partition])])
    [topic] = cluster.ask(other, fetch, 11).responses
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == topic.partitions[0].error_code
