"""What KIP-101, 279, 320, 497 and 966 say of replicas: what is committed stays, what is not may go with its leader."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kips.helpers import COMMIT, OK, Cluster, P, Producer
from tests.kips.view import Pending, TopicPartition

from odradek.faults.one_line import rule
from odradek.metadata.image import PartitionImage
from odradek.records.record import Record, build_batch
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.delete_records_response import DeleteRecordsResponse
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

ALL, LEADER = -1, 1
LAG = 400
LATEST = -1


class Replicated(Cluster):
    """Three brokers, everything on each of them; broker 1 leads t-0 and coordinates."""

    def __init__(self, *, brokers: int = 3, **settings: object) -> None:
        replicated: dict[str, Any] = {
            "transaction_state_log_replication_factor": brokers,
            "offsets_topic_replication_factor": brokers,
            "default_replication_factor": brokers,
            "transaction_state_log_num_partitions": 1,
            "offsets_topic_num_partitions": 1,
        }
        super().__init__(brokers=brokers, topics=["t:1"], **replicated | settings)
        for partition in (P, ("__transaction_state", 0), ("__consumer_offsets", 0)):
            self.move(partition, 1)

    def lag(self, milliseconds: int | None, *brokers: int) -> None:
        for broker in brokers or (2, 3):
            self.world.set_replica_lag(broker, milliseconds)

    def partition(self, partition: TopicPartition = P) -> PartitionImage:
        found = self.world.nodes[self.world.spec.controller_id].image.partition(*partition)
        assert found is not None
        return found

    @property
    def isr(self) -> set[int]:
        return set(self.partition().isr)

    def produce(self, *values: bytes, acks: int = ALL, timeout_ms: int = 30_000) -> Sent:
        batch = build_batch([Record(timestamp=self.world.now, value=value) for value in values])
        data = PartitionProduceData(index=0, records=memoryview(batch))
        request = ProduceRequest(
            acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name="t", partition_data=[data])]
        )
        return Sent(self, request)

    def watermark(self) -> int:
        return self.fetched(P, committed=False).high_watermark


class Sent:
    """A Produce that may have been answered."""

    def __init__(self, cluster: Replicated, request: ProduceRequest) -> None:
        self._cluster = cluster
        self._answer = cluster.send(cluster.leader(P), request, 9)
        cluster.world.run()

    @property
    def answered(self) -> bool:
        return self._answer.arrived

    @property
    def lost(self) -> bool:
        return self._answer.lost

    @property
    def error(self) -> ErrorCode:
        [topic] = self._answer.response.responses
        [partition] = topic.partition_responses
        return ErrorCode(partition.error_code)


# ---------------------------------------------------------------------- the beginning of the log


def deleting(cluster: Replicated, before: int, *, timeout_ms: int = 30_000) -> Pending[tuple[ErrorCode, int]]:
    """DeleteRecords: what it is answered, error and low watermark, once it is."""
    partition = DeleteRecordsPartition(partition_index=0, offset=before)
    request = DeleteRecordsRequest([DeleteRecordsTopic("t", [partition])], timeout_ms)

    def told(response: DeleteRecordsResponse) -> tuple[ErrorCode, int]:
        [[result]] = [topic.partitions for topic in response.topics]
        return ErrorCode(result.error_code), result.low_watermark

    pending = cluster.pending(cluster.leader(P), request, 2, told)
    cluster.world.run()
    return pending


def written(count: int = 3, *, lag_ms: int | None = LAG) -> Replicated:
    """So many records are committed, and from then on the replicas of brokers 2 and 3 take their time."""
    cluster = Replicated(replica_lag_time_max_ms=60_000, broker_session_timeout_ms=600_000)
    for _ in range(count):
        assert OK is cluster.produce(b"a").error
    cluster.lag(lag_ms)
    return cluster


def test_deleting_records_waits_until_all_replicas_begin_there() -> None:
    cluster = written()
    cluster.lag(LAG // 2, 2)
    deleted = deleting(cluster, 2)
    cluster.world.advance(LAG - 1)
    assert not deleted.arrived
    cluster.world.advance(1)
    assert (OK, 2) == deleted.result()
    assert (OK, 3) == deleting(written(lag_ms=0), 3).result()


@pytest.mark.parametrize("lag_ms", [LAG, None])
def test_deleting_records_waits_no_longer_than_it_is_asked_to(lag_ms: int | None) -> None:
    cluster = written(lag_ms=lag_ms)
    deleted = deleting(cluster, 2, timeout_ms=LAG - 1)
    cluster.world.advance(LAG - 2)
    assert not deleted.arrived
    cluster.world.advance(1)
    assert (ErrorCode.REQUEST_TIMED_OUT, -1) == deleted.result()
    # The leader's log begins there all the same.
    assert 2 == cluster.fetched(P, committed=False, offset=2).log_start_offset


def test_deleting_records_does_not_wait_for_a_replica_that_has_caught_up_meanwhile_or_is_gone() -> None:
    for happens in (lambda cluster: cluster.lag(0, 2, 3), lambda cluster: (cluster.fence(2), cluster.lag(0, 3))):
        cluster = written(lag_ms=None)
        deleted = deleting(cluster, 2)
        assert not deleted.arrived
        happens(cluster)
        cluster.world.run()
        assert deleted.arrived
        assert (OK, 2) == deleted.result()


def test_who_waits_for_records_to_be_deleted_learns_that_another_broker_leads() -> None:
    cluster = written(lag_ms=None)
    deleted = deleting(cluster, 2)
    cluster.move(P, 2)
    assert (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1) == deleted.result()


# ---------------------------------------------------------------------- the high watermark


def test_nobody_waits_where_all_acknowledge_at_once() -> None:
    cluster = Replicated()
    sent = cluster.produce(b"a")
    assert sent.answered
    assert OK is sent.error
    assert 1 == cluster.watermark()


@pytest.mark.parametrize("lag", [LAG, None])
def test_a_leaders_own_lag_is_not_that_of_its_followers(lag: int | None) -> None:
    """It is about what the broker replicates, and its followers take what time they are said to take."""
    cluster = Replicated()
    cluster.lag(lag, 1)
    sent = cluster.produce(b"a")
    assert sent.answered
    assert OK is sent.error
    assert 1 == cluster.watermark()


def test_acks_all_waits_for_the_slowest_replica_in_sync() -> None:
    cluster = Replicated()
    cluster.lag(LAG, 2)
    cluster.lag(2 * LAG, 3)
    sent = cluster.produce(b"a")
    cluster.world.advance(2 * LAG - 1)
    assert not sent.answered
    assert (0, []) == (cluster.watermark(), cluster.values(P))
    cluster.world.advance(1)
    assert OK is sent.error
    assert (1, [b"a"]) == (cluster.watermark(), cluster.values(P))


def test_acks_1_waits_for_nobody_and_consumers_do() -> None:
    cluster = Replicated()
    cluster.lag(LAG)
    sent = cluster.produce(b"a", acks=LEADER)
    assert OK is sent.error
    assert [] == cluster.values(P)
    cluster.world.advance(LAG)
    assert [b"a"] == cluster.values(P)


def test_a_fetch_that_waits_gets_the_record_when_it_is_committed() -> None:
    cluster = Replicated()
    cluster.lag(LAG)
    wanted = FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])
    fetch = FetchRequest(max_wait_ms=5_000, min_bytes=1, max_bytes=1 << 20, topics=[wanted])
    answer = cluster.send(1, fetch, 11)
    cluster.produce(b"a", acks=LEADER)
    cluster.world.advance(LAG - 1)
    assert not answer.arrived
    cluster.world.advance(1)
    assert answer.arrived
    [topic] = answer.response.responses
    assert topic.partitions[0].records


def test_what_comes_too_late_is_answered_so_and_stays_in_the_log() -> None:
    cluster = Replicated()
    cluster.lag(LAG)
    sent = cluster.produce(b"a", timeout_ms=100)
    cluster.world.advance(100)
    assert ErrorCode.REQUEST_TIMED_OUT is sent.error
    cluster.world.advance(LAG)
    assert [b"a"] == cluster.values(P)


def test_a_lag_that_ends_lets_everything_through() -> None:
    cluster = Replicated()
    cluster.lag(None)
    sent = cluster.produce(b"a")
    cluster.world.advance(10_000)
    assert not sent.answered
    cluster.lag(0)
    assert OK is sent.error
    assert 1 == cluster.watermark()
    assert cluster.produce(b"b").answered


def test_the_last_stable_offset_waits_for_the_marker_to_be_committed() -> None:
    cluster = Replicated()
    producer = Producer.started(cluster)
    assert OK is producer.send(P)
    cluster.world.set_replica_lag(2, LAG)
    assert OK is producer.commit()
    # The end is committed, which took its time; the marker goes on its way only then.
    assert (0, 1) == cluster.stable(P)
    cluster.world.advance(LAG)
    assert (2, 2) == cluster.stable(P)


# ---------------------------------------------------------------------- min.insync.replicas


def test_too_few_in_sync_before_the_append() -> None:
    cluster = Replicated(min_insync_replicas=2)
    cluster.world.stop_broker(2)
    assert OK is cluster.produce(b"a").error
    cluster.world.stop_broker(3)
    assert ErrorCode.NOT_ENOUGH_REPLICAS is cluster.produce(b"b").error
    # With acks=1 it is taken, and stays above the high watermark (KIP-966).
    assert OK is cluster.produce(b"c", acks=LEADER).error
    assert 1 == cluster.watermark()
    cluster.world.start_broker(2)
    assert [b"a", b"c"] == cluster.values(P)


def test_too_few_in_sync_after_the_append() -> None:
    cluster = Replicated(min_insync_replicas=3)
    cluster.lag(LAG)
    sent = cluster.produce(b"a", timeout_ms=1_000)
    cluster.world.stop_broker(3)
    cluster.world.advance(LAG)
    assert not sent.answered, "the mark stands still while the ISR is too small"
    cluster.world.advance(1_000)
    assert ErrorCode.REQUEST_TIMED_OUT is sent.error
    assert 0 == cluster.watermark()


@pytest.mark.parametrize("acks", [ALL, LEADER], ids=["acks all", "acks 1"])
def test_who_falls_out_where_too_few_are_left_comes_back_when_it_lacks_nothing_old(acks: int) -> None:
    """The mark stands still and so the replica has all that is committed; it is late all the same."""
    cluster = Replicated(min_insync_replicas=2, replica_lag_time_max_ms=1_000)
    cluster.world.stop_broker(3)
    cluster.lag(3_000, 2)
    sent = cluster.produce(b"a", acks=acks)
    cluster.world.advance(1_000)
    assert {1, 2} == cluster.isr
    cluster.world.advance(1)
    assert {1} == cluster.isr
    assert ErrorCode.NOT_ENOUGH_REPLICAS is cluster.produce(b"b").error
    cluster.world.advance(1_998)
    assert ({1}, 0) == (cluster.isr, cluster.watermark())
    cluster.world.advance(1)
    assert ({1, 2}, 1) == (cluster.isr, cluster.watermark())
    assert OK is sent.error


def test_who_is_back_counts_at_once_where_all_it_lacks_is_new() -> None:
    """It has what is committed; the rest comes in its time, and is committed then."""
    cluster = Replicated(min_insync_replicas=2)
    cluster.world.stop_broker(3)
    cluster.world.stop_broker(2)
    assert OK is cluster.produce(b"a", acks=LEADER).error
    cluster.lag(LAG, 2)
    cluster.world.start_broker(2)
    assert ({1, 2}, 0) == (cluster.isr, cluster.watermark())
    cluster.world.advance(LAG)
    assert 1 == cluster.watermark()


def test_a_coordinator_whose_log_lacks_replicas_is_not_available() -> None:
    cluster = Replicated()
    producer = Producer.started(cluster)
    cluster.world.stop_broker(2)
    assert OK is producer.init()
    cluster.world.stop_broker(3)
    end = cluster.world.nodes[1].partitions[cluster.log_of("x")].log_end_offset
    assert ErrorCode.COORDINATOR_NOT_AVAILABLE is producer.init()
    assert end == cluster.world.nodes[1].partitions[cluster.log_of("x")].log_end_offset, "nothing is written"
    cluster.world.start_broker(3)
    assert OK is producer.init()


def test_a_marker_is_not_written_where_too_few_are_in_sync() -> None:
    cluster = Replicated(min_insync_replicas=2, transaction_state_log_min_isr=1)
    producer = Producer.started(cluster)
    assert OK is producer.send(P)
    cluster.world.stop_broker(2)
    cluster.world.stop_broker(3)
    assert ErrorCode.NOT_ENOUGH_REPLICAS is cluster.write_marker(P, producer.pair, COMMIT)
    assert 1 == cluster.world.nodes[1].partitions[P].log_end_offset
    assert OK is producer.commit()
    assert "PrepareCommit" == cluster.state("x")
    cluster.world.start_broker(2)
    cluster.world.advance(100)
    # The coordinator has tried again.
    assert [b"v"] == cluster.consumed(P)


# ---------------------------------------------------------------------- who is in sync


def test_a_replica_that_lags_for_too_long_falls_out_and_comes_back() -> None:
    cluster = Replicated(replica_lag_time_max_ms=1_000)
    cluster.lag(None, 3)
    epoch = cluster.partition().partition_epoch
    sent = cluster.produce(b"a")
    cluster.world.advance(1_000)
    assert {1, 2, 3} == cluster.isr
    assert not sent.answered
    cluster.world.advance(1)
    assert {1, 2} == cluster.isr
    assert OK is sent.error
    assert epoch + 1 == cluster.partition().partition_epoch
    cluster.lag(LAG, 3)
    cluster.world.advance(LAG - 1)
    assert {1, 2} == cluster.isr
    cluster.world.advance(1)
    assert {1, 2, 3} == cluster.isr
    assert 0 < cluster.partition().leader_epoch == cluster.world.nodes[1].partitions[P].leader_epoch


def test_a_replica_that_has_everything_stays_in_sync_however_slow() -> None:
    cluster = Replicated(replica_lag_time_max_ms=1_000)
    cluster.lag(None, 3)
    cluster.world.advance(100_000)
    assert {1, 2, 3} == cluster.isr


def test_a_slow_broker_that_comes_back_has_to_catch_up_first() -> None:
    cluster = Replicated()
    cluster.lag(LAG, 3)
    cluster.world.stop_broker(3)
    assert {1, 2} == cluster.isr
    assert cluster.produce(b"a").answered
    cluster.world.start_broker(3)
    assert {1, 2} == cluster.isr
    cluster.world.advance(LAG)
    assert {1, 2, 3} == cluster.isr


def test_a_replica_that_joins_counts_for_the_mark_before_the_news_is_back() -> None:
    """What the controller may have written down must hold: the leader waits for those that it has proposed."""
    cluster = Replicated()
    cluster.lag(None, 3)
    cluster.world.stop_broker(3)
    cluster.produce(b"a")
    cluster.world.start_broker(3)
    cluster.lag(LAG, 3)
    partition = cluster.world.nodes[1].partitions[P]
    cluster.world.advance(LAG)
    assert {1, 2, 3} == cluster.isr
    assert not partition.followers.joining


def test_whoever_was_proposed_in_vain_and_is_silent_since_holds_nobody_up() -> None:
    """Nobody knows whether the controller has taken it in: it is proposed until that is known, as by Kafka's leader."""
    cluster = Replicated(replica_lag_time_max_ms=1_000)
    cluster.lag(None, 3)
    cluster.produce(b"a")
    cluster.world.advance(1_001)
    assert {1, 2} == cluster.isr
    cluster.world.arm(rule("ALTER_PARTITION", disconnect="before", times=1))
    cluster.lag(LAG, 3)
    cluster.world.advance(LAG)
    partition = cluster.world.nodes[1].partitions[P]
    assert {1, 2} == cluster.isr
    assert {3} == partition.followers.joining
    cluster.lag(None, 3)
    sent = cluster.produce(b"b")
    assert not sent.answered
    cluster.world.advance(2_000)
    assert OK is sent.error
    assert {1, 2} == cluster.isr
    assert not partition.followers.joining


def test_whoever_has_joined_counts_until_the_leader_hears_of_it() -> None:
    """The controller refuses what is proposed of an older state; it has taken in whom it was asked to before."""
    cluster = Replicated(replica_lag_time_max_ms=1_000)
    cluster.move(P, 2)
    cluster.lag(None, 3)
    cluster.produce(b"a")
    cluster.world.advance(1_001)
    assert {1, 2} == cluster.isr
    cluster.lag(LAG, 3)
    leader = cluster.world.nodes[2]
    hear = leader.controller.advance
    leader.controller.advance = lambda offset: None  # type: ignore[method-assign]
    cluster.world.advance(LAG)
    assert {1, 2, 3} == cluster.isr
    for _ in range(10):
        sent = cluster.produce(b"b")
        cluster.world.advance(LAG - 1)
        assert not sent.answered
        cluster.world.advance(1)
        assert OK is sent.error
    leader.controller.advance = hear  # type: ignore[method-assign]


# ---------------------------------------------------------------------- a leader that goes


def test_a_leader_takes_with_it_what_was_not_acknowledged() -> None:
    cluster = Replicated()
    assert OK is cluster.produce(b"kept").error
    cluster.lag(LAG)
    told = cluster.produce(b"told", acks=LEADER)
    waiting = cluster.produce(b"waiting")
    assert OK is told.error
    cluster.world.stop_broker(1)
    assert waiting.lost
    assert 1 != cluster.leader(P)
    cluster.world.advance(LAG)
    assert [b"kept"] == cluster.values(P)
    [(_, fact)] = [each for each in cluster.world.facts if each[1].kind == "log_truncated"]
    assert {"topic": "t", "partition": 0, "end_offset": 1, "lost_offsets": 2} == fact.fields
    cluster.produce(b"next")
    cluster.world.advance(LAG)
    assert [b"next"] == cluster.values(P, offset=1)


def test_what_was_acknowledged_to_all_in_sync_outlives_every_leader() -> None:
    cluster = Replicated()
    cluster.lag(LAG)
    sent = cluster.produce(b"a")
    cluster.world.advance(LAG)
    assert OK is sent.error
    for broker in (1, 2):
        cluster.world.stop_broker(broker)
    assert 3 == cluster.leader(P)
    assert [b"a"] == cluster.values(P)


def test_a_deposed_leader_tells_those_who_wait() -> None:
    cluster = Replicated()
    cluster.lag(LAG)
    sent = cluster.produce(b"a")
    cluster.move(P, 2)
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER is sent.error


def epoch_end(cluster: Replicated, epoch: int) -> tuple[int, int]:
    wanted = OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=epoch)])
    response = cluster.ask(cluster.leader(P), OffsetForLeaderEpochRequest(topics=[wanted]), 3)
    [topic] = response.topics
    [answer] = topic.partitions
    return answer.leader_epoch, answer.end_offset


def test_who_has_read_what_was_lost_learns_where_it_parts() -> None:
    """KIP-320, by OffsetForLeaderEpoch and by the diverging epoch of a fetch."""
    cluster = Replicated(unclean_leader_election_enable=True)
    epoch = cluster.partition().leader_epoch
    cluster.produce(b"a")
    cluster.world.stop_broker(2)
    cluster.world.stop_broker(3)
    assert OK is cluster.produce(b"b").error
    assert [b"a", b"b"] == cluster.values(P)
    cluster.world.start_broker(2)
    cluster.lag(None, 2)
    cluster.produce(b"c", acks=LEADER)
    cluster.world.advance(40_000)
    assert {1} == cluster.isr
    assert 3 == cluster.watermark()
    cluster.world.stop_broker(1)
    assert 2 == cluster.leader(P)
    assert (epoch, 2) == epoch_end(cluster, epoch)
    wanted = FetchPartition(
        partition=0, current_leader_epoch=-1, fetch_offset=3, last_fetched_epoch=epoch, partition_max_bytes=1 << 20
    )
    request = FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic="t", partitions=[wanted])])
    [topic] = cluster.ask(2, request, 12).responses
    diverging = topic.partitions[0].diverging_epoch
    assert (epoch, 2) == (diverging.epoch, diverging.end_offset)


def test_no_replica_out_of_sync_leads_unless_it_may() -> None:
    for unclean, leader, values in ((False, -1, None), (True, 2, [b"a"])):
        cluster = Replicated(unclean_leader_election_enable=unclean)
        cluster.produce(b"a")
        cluster.world.stop_broker(2)
        cluster.world.stop_broker(3)
        assert OK is cluster.produce(b"b").error
        cluster.world.stop_broker(1)
        cluster.world.start_broker(2)
        assert leader == cluster.leader(P)
        if values is not None:
            assert values == cluster.values(P)
            assert {2} == cluster.isr
        else:
            cluster.world.start_broker(1)
            assert [b"a", b"b"] == cluster.values(P)


def test_whoever_may_lead_out_of_sync_by_now_is_elected_at_the_next_interval() -> None:
    """`unclean.leader.election.interval.ms`: no broker need come or go for it."""
    cluster = Replicated(unclean_leader_election_interval_ms=10_000)
    cluster.produce(b"a")
    cluster.world.stop_broker(1)
    cluster.world.stop_broker(3)
    assert OK is cluster.produce(b"b").error
    cluster.world.stop_broker(2)
    cluster.world.start_broker(1)
    cluster.world.advance(20_000)
    assert -1 == cluster.leader(P), "nobody has allowed it yet"
    cluster.set_default("unclean.leader.election.enable", "true")
    assert -1 == cluster.leader(P)
    cluster.world.advance(10_000)
    assert 1 == cluster.leader(P)
    assert {1} == cluster.isr
    assert [b"a"] == cluster.values(P)


@pytest.mark.parametrize("while_it_runs", [False, True])
def test_an_eligible_replica_leads_although_it_is_out_of_sync(while_it_runs: bool) -> None:
    """KIP-966: below min.insync.replicas nothing is committed, so whoever was in sync has all that is."""
    cluster = Replicated(min_insync_replicas=1 if while_it_runs else 3)
    if while_it_runs:
        cluster.set_default("min.insync.replicas", "3")
    cluster.produce(b"a")
    cluster.world.stop_broker(2, cleanly=True)
    assert ((1, 3), (2,)) == (cluster.partition().isr, cluster.partition().eligible_replicas)
    cluster.world.stop_broker(1)
    cluster.world.stop_broker(3)
    last = cluster.partition()
    cluster.world.start_broker(2)
    assert 2 == cluster.leader(P)
    assert [b"a"] == cluster.values(P)
    assert last is not cluster.partition()


def test_a_crash_costs_a_replica_its_eligibility() -> None:
    """KIP-966: what it had it may have lost; where none is left that is eligible, the last leader leads again."""
    cluster = Replicated(min_insync_replicas=3)
    cluster.produce(b"a")
    for node_id in (2, 1, 3):
        cluster.world.stop_broker(node_id)
    for node_id, eligible in ((2, (1, 3)), (1, (3,))):
        cluster.world.start_broker(node_id)
        after = cluster.partition()
        assert (-1, (), eligible, (3,)) == (
            cluster.leader(P),
            after.isr,
            tuple(sorted(after.eligible_replicas)),
            after.last_known_eligible,
        )
    cluster.world.start_broker(3)
    assert 3 == cluster.leader(P)
    assert [b"a"] == cluster.values(P)
    assert ({1, 2, 3}, (), ()) == (
        cluster.isr,
        cluster.partition().eligible_replicas,
        cluster.partition().last_known_eligible,
    )


def test_with_enough_replicas_in_sync_none_is_eligible_beside_them() -> None:
    """KIP-966: whoever was in sync may lack what is committed once fewer replicas suffice for that."""
    cluster = Replicated(min_insync_replicas=1)
    cluster.set_default("min.insync.replicas", "3")
    cluster.world.stop_broker(2)
    assert ((1, 3), (2,)) == (cluster.partition().isr, cluster.partition().eligible_replicas)
    cluster.set_default("retention.ms", "7")
    assert (2,) == cluster.partition().eligible_replicas
    cluster.set_default("min.insync.replicas", "2")
    assert ((1, 3), ()) == (cluster.partition().isr, cluster.partition().eligible_replicas)


@pytest.mark.parametrize(
    ("version", "error"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_a_new_leader_does_not_know_yet_how_far_all_are(version: int, error: ErrorCode) -> None:
    cluster = Replicated()
    cluster.lag(100, 2)
    cluster.lag(LAG, 3)
    cluster.produce(b"a", acks=LEADER)
    cluster.world.advance(100)
    cluster.world.stop_broker(1)
    assert 2 == cluster.leader(P)
    asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=LATEST)])
    request = ListOffsetsRequest(replica_id=-1, topics=[asked])
    [topic] = cluster.ask(2, request, version).topics
    assert error is ErrorCode(topic.partitions[0].error_code)
    cluster.world.advance(LAG)
    [topic] = cluster.ask(2, request, version).topics
    assert (OK, 1) == (topic.partitions[0].error_code, topic.partitions[0].offset)


# ---------------------------------------------------------------------- coordinators


def test_a_key_whose_record_is_not_committed_is_busy() -> None:
    cluster = Replicated()
    producer = Producer.started(cluster)
    assert OK is producer.send(P)
    cluster.lag(LAG)
    end = producer.ending(COMMIT)
    cluster.world.advance(LAG - 1)
    assert not end.arrived
    # The committed state is what is shown, and whoever wants to change it has to come back.
    assert "Ongoing" == cluster.state("x")
    assert ErrorCode.CONCURRENT_TRANSACTIONS is producer.end(COMMIT)[0]
    assert ErrorCode.CONCURRENT_TRANSACTIONS is Producer(cluster).init()
    cluster.world.advance(1)
    assert end.arrived
    assert OK is end.result()[0]
    assert "PrepareCommit" == cluster.state("x")
    cluster.world.advance(LAG)
    assert "CompleteCommit" != cluster.state("x"), "the marker is committed, the record that says so is not"
    cluster.world.advance(LAG)
    assert "CompleteCommit" == cluster.state("x")


def test_an_id_that_is_being_made_is_busy() -> None:
    cluster = Replicated()
    assert OK is Producer(cluster, tid="warm").init()
    cluster.lag(LAG)
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    first = cluster.send(1, request, 4)
    cluster.world.run()
    assert not first.arrived
    assert ErrorCode.CONCURRENT_TRANSACTIONS is Producer(cluster).init()
    cluster.world.advance(LAG)
    assert first.arrived


def test_an_end_that_was_not_committed_goes_with_its_coordinator() -> None:
    cluster = Replicated()
    producer = Producer.started(cluster)
    assert OK is producer.send(P)
    cluster.lag(LAG)
    end = producer.ending(COMMIT)
    cluster.world.run()
    assert not end.arrived
    cluster.move(cluster.log_of("x"), 2)
    assert ErrorCode.NOT_COORDINATOR is end.result()[0]
    assert "Ongoing" == cluster.state("x")
    cluster.lag(0)
    assert OK is producer.commit()
    cluster.world.run()
    assert "CompleteCommit" == cluster.state("x")
    assert [b"v"] == cluster.consumed(P)


def test_a_coordinator_loads_until_what_its_predecessor_wrote_is_committed() -> None:
    cluster = Replicated()
    producer = Producer.started(cluster)
    assert OK is producer.send(P)
    cluster.lag(0, 2)
    cluster.lag(LAG, 3)
    end = producer.ending(COMMIT)
    cluster.world.run()
    cluster.move(cluster.log_of("x"), 2)
    assert ErrorCode.NOT_COORDINATOR is end.result()[0]
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS is producer.end(COMMIT)[0]
    cluster.world.advance(LAG)
    assert "PrepareCommit" == cluster.state("x")
    cluster.world.advance(2 * LAG)
    # Broker 2 had the record, so the transaction is committed, and the client's retry is answered with that.
    assert OK is producer.commit()
    assert [b"v"] == cluster.consumed(P)


def test_offsets_are_committed_when_the_replicas_have_them() -> None:
    cluster = Replicated()
    producer = Producer.started(cluster)
    cluster.lag(LAG)
    done = producer.committing_offset(7)
    cluster.world.advance(LAG)
    assert not done.arrived
    assert OK is done.result()


# ---------------------------------------------------------------------- a replica is gone, and its leader hears later

HEARS_MS = 50


@pytest.mark.parametrize("min_insync", [1, 2])
def test_a_leader_that_has_not_heard_who_is_gone_commits_nothing_without_it(min_insync: int) -> None:
    # Who is eligible has all that is committed (KIP-966), and so has whoever is still in sync for its leader.
    cluster = Replicated(delay_ms=(HEARS_MS, HEARS_MS), min_insync_replicas=min_insync)
    cluster.world.advance(1_000)
    cluster.move(P, 2)
    cluster.world.advance(1_000)
    assert ({1, 2, 3}, 2) == (cluster.isr, cluster.leader(P))
    cluster.fence(3)
    assert {1, 2} == cluster.isr
    sent = cluster.produce(b"v")
    cluster.world.advance(HEARS_MS - 1)
    assert (False, 0) == (sent.answered, cluster.watermark())
    cluster.world.advance(1)
    assert (True, 1) == (sent.answered, cluster.watermark())
    assert OK is sent.error


def test_who_is_eligible_has_all_that_is_committed_however_late_its_leader_has_heard_of_it() -> None:
    cluster = Replicated(delay_ms=(HEARS_MS, HEARS_MS), min_insync_replicas=2)
    cluster.world.advance(1_000)
    cluster.move(P, 2)
    cluster.world.advance(1_000)
    for broker in (1, 3):
        cluster.fence(broker)
    sent = cluster.produce(b"v")
    cluster.world.advance(1_000)
    assert (False, (3,)) == (sent.answered, cluster.partition().eligible_replicas)
    cluster.fence(2)
    cluster.unfence(3)
    cluster.world.advance(1_000)
    assert (3, 0) == (cluster.leader(P), cluster.watermark())
    assert not sent.answered or sent.error is not OK
