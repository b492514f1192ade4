"""KIP-890, requests that wait for their coordinator: what was so before the wait need not be so after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.kips.helpers import (
    ABORT,
    GROUP,
    NEW,
    NEW_STYLES,
    OK,
    OLD,
    Cluster,
    P,
    Producer,
    Style,
    judged,
)

from odradek.faults.armed import Armed
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.registry import ApiKey

STYLES = pytest.mark.parametrize("style", [OLD, *NEW_STYLES], ids=str)
UNKNOWN, UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER
BY_ID_SINCE = 6
FAILED = ErrorCode.UNKNOWN_SERVER_ERROR


def delete(cluster: Cluster, topic: str) -> None:
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=5_000)
    assert [OK] == [each.error_code for each in cluster.ask(1, request, 5).responses]
    cluster.world.run()


def replace(cluster: Cluster, topic: str) -> None:
    """The topic goes, and another one gets its name."""
    delete(cluster, topic)
    wanted = CreatableTopic(name=topic, num_partitions=3, replication_factor=1)
    assert [OK] == [each.error_code for each in cluster.ask(1, CreateTopicsRequest([wanted], 5_000), 7).topics]
    cluster.world.run()


def begun(style: Style, *, brokers: int = 1) -> tuple[Cluster, Producer]:
    cluster = Cluster(2, brokers=brokers)
    producer = Producer.started(cluster, style)
    producer.begin(P)
    return cluster, producer


def verdict_on_its_way(cluster: Cluster) -> Armed:
    """The coordinator has said yes, and its answer is on its way for as long as it is held."""
    return cluster.answer(ApiKey.ADD_PARTITIONS_TO_TXN, judged(OK), times=1, hold=True)


# ---------------------------------------------------------------------- Produce


@STYLES
@pytest.mark.parametrize(("happens", "error"), [(delete, UNKNOWN), (replace, UNKNOWN_ID)])
def test_a_topic_that_is_deleted_meanwhile_is_not_written(
    style: Style, happens: Callable[[Cluster, str], None], error: ErrorCode
) -> None:
    cluster, producer = begun(style)
    verdict = verdict_on_its_way(cluster)
    sent = producer.sending(P, b"late")
    cluster.world.run()
    happens(cluster, "t")
    cluster.release(verdict)
    assert (error, -1) == (sent.result().error_code, sent.result().base_offset)
    if happens is replace:
        assert [] == cluster.values(P)


@STYLES
@pytest.mark.parametrize("comes_back", [False, True])
def test_a_leader_that_has_moved_meanwhile_is_told(style: Style, comes_back: bool) -> None:
    """Though it may have come back: the guard is that of the leadership before."""
    cluster, producer = begun(style, brokers=2)
    first = cluster.leader(P)
    verdict = verdict_on_its_way(cluster)
    sent = producer.sending(P, b"late")
    cluster.world.run()
    cluster.move(P, 3 - first)
    if comes_back:
        cluster.move(P, first)
    cluster.release(verdict)
    answer = sent.result()
    assert MOVED == answer.error_code
    if style.produce >= 10:
        told = answer.current_leader
        assert told is not None
        assert (cluster.leader(P), 2 if comes_back else 1) == (told.leader_id, told.leader_epoch)
    assert [] == cluster.values(P)
    cluster.world.disarm(verdict)
    assert OK is producer.send(P, b"again")


@pytest.mark.parametrize(("happens", "error"), [(delete, UNKNOWN), (replace, UNKNOWN_ID)])
def test_a_topic_that_is_deleted_while_the_partition_is_asked_about_again(
    happens: Callable[[Cluster, str], None], error: ErrorCode
) -> None:
    """Between two questions the leader waits, and looks the partition up before it asks the second time."""
    cluster, producer = begun(NEW)
    busy = cluster.answer(ApiKey.ADD_PARTITIONS_TO_TXN, judged(ErrorCode.CONCURRENT_TRANSACTIONS), times=1)
    asked = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    sent = producer.sending(P, b"late")
    cluster.world.run()
    assert 1 == busy.hits
    assert not sent.arrived
    happens(cluster, "t")
    assert error == sent.result().error_code
    assert [] == asked


@STYLES
def test_a_client_that_hangs_up_meanwhile_has_written_all_the_same(style: Style) -> None:
    """The request was received as a whole; only its answer has nowhere to go."""
    cluster, producer = begun(style)
    verdict = verdict_on_its_way(cluster)
    sent = producer.sending(P, b"late")
    cluster.world.run()
    connections = cluster.node(1).connections
    before = len(connections)
    sent.hang_up()
    assert before - 1 == len(connections)
    assert [] == cluster.values(P)
    cluster.release(verdict)
    cluster.world.run()
    assert [b"late"] == cluster.values(P)


# ---------------------------------------------------------------------- TxnOffsetCommit


@STYLES
@pytest.mark.parametrize("happens", [delete, replace])
def test_offsets_of_a_topic_that_is_deleted_meanwhile_are_not_committed(
    style: Style, happens: Callable[[Cluster, str], None]
) -> None:
    """Its successor of the same name would inherit them."""
    cluster, producer = begun(style)
    verdict = verdict_on_its_way(cluster)
    sent = producer.committing_offset(7)
    cluster.world.run()
    happens(cluster, "t")
    cluster.release(verdict)
    assert (UNKNOWN_ID if style.offsets >= BY_ID_SINCE else UNKNOWN) == sent.result()
    if happens is replace:
        assert -1 == cluster.offset()
        partition = cluster.node(1).partitions[cluster.offsets_of()]
        assert 0 == partition.log_end_offset


@STYLES
@pytest.mark.parametrize("comes_back", [False, True])
def test_offsets_are_not_committed_by_a_coordinator_that_was_moved(style: Style, comes_back: bool) -> None:
    cluster, producer = begun(style, brokers=2)
    place = cluster.offsets_of()
    first = cluster.leader(place)
    verdict = verdict_on_its_way(cluster)
    sent = producer.committing_offset(7)
    cluster.world.run()
    cluster.move(place, 3 - first)
    if comes_back:
        cluster.move(place, first)
    cluster.release(verdict)
    assert ErrorCode.NOT_COORDINATOR == sent.result()
    assert -1 == cluster.offset()
    if style.add is not None:
        assert OK is producer.add_offsets()
    assert OK is producer.commit_offset(7)
    assert OK is producer.commit()
    cluster.world.advance(1_000)
    assert 7 == cluster.offset()


@pytest.mark.parametrize("lag_ms", [0, 5])
def test_offsets_whose_transaction_ends_meanwhile_are_not_committed(lag_ms: int) -> None:
    """Race Condition: the marker takes the guard away, so that what was verified before it opens nothing behind it."""
    cluster = Cluster(2, brokers=2, offsets_topic_replication_factor=2, odradek_replica_lag_ms=lag_ms)
    producer = Producer.started(cluster, OLD)
    producer.begin(P)
    verdict = verdict_on_its_way(cluster)
    sent = producer.committing_offset(7)
    cluster.world.run()
    place = cluster.offsets_of()
    assert OK is cluster.write_marker(place, producer.pair, ABORT)
    cluster.release(verdict)
    assert ErrorCode.INVALID_TXN_STATE is sent.result()
    end = cluster.node(cluster.leader(place)).partitions[place].log_end_offset
    assert (1, -1) == (end, cluster.offset())
    assert end == cluster.stable(place)[0]


@STYLES
def test_offsets_of_a_client_that_hangs_up_meanwhile_are_written_all_the_same(style: Style) -> None:
    cluster, producer = begun(style)
    verdict = verdict_on_its_way(cluster)
    sent = producer.committing_offset(7)
    cluster.world.run()
    sent.hang_up()
    partition = cluster.node(1).partitions[cluster.offsets_of()]
    assert 0 == partition.log_end_offset
    cluster.release(verdict)
    cluster.world.run()
    assert 1 == partition.log_end_offset


# ---------------------------------------------------------------------- an append that is refused


def refuse_appends(cluster: Cluster, topic: str) -> None:
    """No record is small enough for the log of a coordinator any more."""
    config = AlterableConfig(name="max.message.bytes", value="1")
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])
    response = cluster.ask(1, IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert [OK] == [each.error_code for each in response.responses]
    cluster.world.run()


@pytest.mark.parametrize("style", [OLD, NEW], ids=str)
@pytest.mark.parametrize("outcome", [True, False], ids=["commit", "abort"])
def test_an_end_that_cannot_be_written_is_no_success(style: Style, outcome: bool) -> None:
    cluster, producer = begun(style)
    assert OK is producer.send(P, b"a")
    before = cluster.transaction_log("x")
    refuse_appends(cluster, "__transaction_state")
    assert (FAILED, None) == producer.end(outcome)
    cluster.world.advance(1_000)
    assert before == cluster.transaction_log("x")
    assert "Ongoing" == cluster.state("x")
    assert (0, 1) == cluster.stable(P)


def test_an_id_that_cannot_be_written_is_not_given() -> None:
    cluster = Cluster(2)
    refuse_appends(cluster, "__transaction_state")
    producer = Producer(cluster, NEW)
    assert FAILED is producer.init()
    assert [] == cluster.transaction_log("x")


@pytest.mark.parametrize("level", [0, 2])
def test_what_cannot_be_added_is_refused(level: int) -> None:
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    refuse_appends(cluster, "__transaction_state")
    assert FAILED is producer.add(P)
    assert FAILED is producer.add_offsets()
    assert [] == cluster.described_partitions("x")


def test_what_a_broker_cannot_add_is_not_written() -> None:
    cluster = Cluster(2)
    producer = Producer.started(cluster, NEW)
    refuse_appends(cluster, "__transaction_state")
    assert OK is not producer.send(P, b"a")
    assert [] == cluster.values(P)


@pytest.mark.parametrize("style", [OLD, NEW], ids=str)
def test_offsets_that_cannot_be_written_are_no_success(style: Style) -> None:
    cluster, producer = begun(style)
    if style.add is not None:
        assert OK is producer.add_offsets()
    refuse_appends(cluster, "__consumer_offsets")
    assert OK is not producer.commit_offset(7)
    assert -1 == cluster.offset(group=GROUP)
