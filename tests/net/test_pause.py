"""A broker that is paused hears nothing: its connections stay open, its clock goes on, and what it was told waits."""

from __future__ import annotations

import asyncio
import struct
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from odradek.core.machine import Refused
from odradek.net.client import BlockingClient
from odradek.testing import Cluster
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.metadata_request import MetadataRequest

pytestmark = pytest.mark.slow

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 42, -1)


def addresses(cluster: Cluster) -> dict[int, str]:
    return dict(zip(cluster.broker_ids, cluster.bootstrap.split(","), strict=True))


def served(cluster: Cluster, times: int = 20) -> None:
    """Another broker serves meanwhile: whatever the paused one would do has had its chance."""
    with BlockingClient(addresses(cluster)[1], client_id="other") as other:
        for _ in range(times):
            other.ask(MetadataRequest(topics=None), 9)


def test_a_paused_broker_answers_when_it_is_resumed() -> None:
    with (
        Cluster(brokers=2) as cluster,
        ThreadPoolExecutor() as beside,
        BlockingClient(addresses(cluster)[2], client_id="old") as old,
    ):
        old.ask(MetadataRequest(topics=None), 9)
        cluster.pause_broker(2)
        waiting = [
            beside.submit(old.ask, MetadataRequest(topics=None), 9),
            beside.submit(_ask_on_a_new_connection, addresses(cluster)[2]),
        ]
        served(cluster)
        assert not any(each.done() for each in waiting)
        cluster.resume_broker(2)
        assert [2, 2] == [len(each.result().brokers) for each in waiting]


def _ask_on_a_new_connection(address: str) -> Any:
    with BlockingClient(address, client_id="new") as new:
        return new.ask(MetadataRequest(topics=None), 9)


@pytest.mark.parametrize("already", [True, False], ids=["an old connection", "a new one"])
async def test_a_paused_broker_reads_nothing_in_the_loop_of_the_test(already: bool) -> None:
    """The event loop of asyncio itself, which is not that of a cluster beside the test."""
    async with Cluster() as cluster:
        host, _, port = cluster.bootstrap.rpartition(":")
        if not already:
            cluster.pause_broker(1)
        reader, writer = await asyncio.open_connection(host, int(port))
        if already:
            writer.write(API_VERSIONS)
            await reader.readexactly(8)
            await reader.read(4096)
            cluster.pause_broker(1)
        writer.write(API_VERSIONS)
        for _ in range(50):
            await asyncio.sleep(0)
        assert b"" == bytes(reader._buffer)  # type: ignore[attr-defined]
        cluster.resume_broker(1)
        assert 42 == struct.unpack_from(">i", await reader.readexactly(8), 4)[0]
        writer.close()


def _coordinated_by(cluster: Cluster, broker: int) -> str:
    """A transactional id that this broker coordinates."""
    for index in range(1000):
        if not isinstance(cluster._node(broker).transaction_coordinators.of(f"x{index}"), Refused):
            return f"x{index}"
    raise AssertionError(f"broker {broker} coordinates nothing")


def test_markers_wait_for_a_paused_leader() -> None:
    one_replica = {"default.replication.factor": 1, "transaction.state.log.replication.factor": 1}
    with Cluster(brokers=2, topics=["t:2"], config=one_replica) as cluster:
        [index] = [index for index in range(2) if cluster.leader("t", index) == 2]
        with BlockingClient(addresses(cluster)[1], client_id="till") as client:
            transactional_id = _coordinated_by(cluster, 1)
            init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
            begun = client.ask(init, 4)
            addition = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=begun.producer_id,
                v3_and_below_producer_epoch=begun.producer_epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[index])],
            )
            end = EndTxnRequest(
                transactional_id=transactional_id,
                producer_id=begun.producer_id,
                producer_epoch=begun.producer_epoch,
                committed=True,
            )

            def add() -> ErrorCode:
                [topic] = client.ask(addition, 3).results_by_topic_v3_and_below
                return ErrorCode(topic.results_by_partition[0].partition_error_code)

            assert ErrorCode.NONE is add()
            cluster.pause_broker(2)
            assert 0 == client.ask(end, 3).error_code
            served(cluster)
            assert ErrorCode.CONCURRENT_TRANSACTIONS is add()
            cluster.resume_broker(2)
            served(cluster)
            assert ErrorCode.NONE is add()


def test_the_clock_of_a_paused_broker_goes_on() -> None:
    with Cluster() as cluster:
        cluster.freeze()
        cluster.pause_broker(1)
        before = cluster._node(1).clock.now
        cluster.advance(timedelta(hours=1))
        assert before + 3_600_000 == cluster._node(1).clock.now


def test_a_paused_broker_may_be_stopped_and_hears_when_it_starts_again() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.pause_broker(2)
        cluster.stop_broker(2)
        with pytest.raises(RuntimeError, match="broker 2 is stopped"):
            cluster.pause_broker(2)
        cluster.start_broker(2)
        assert 2 == len(_ask_on_a_new_connection(addresses(cluster)[2]).brokers)


# ---------------------------------------------------------------------- it is fenced, as Kafka does it


REPLICATED = {"default.replication.factor": 3}
SESSION = timedelta(seconds=9)  # broker.session.timeout.ms
MOMENT = timedelta(milliseconds=1)


def brokers_of(cluster: Cluster) -> set[int]:
    """The brokers that clients are told of: those that are in service."""
    heard = next(each for each in cluster.broker_ids if each not in cluster._running.spec.unheard)
    with BlockingClient(addresses(cluster)[heard], client_id="other") as other:
        return {broker.node_id for broker in other.ask(MetadataRequest(topics=None), 9).brokers}


def led_by(cluster: Cluster, partitions: int) -> set[int]:
    return {cluster.leader("t", index) for index in range(partitions)}


def test_a_paused_broker_is_fenced_when_its_session_is_over_and_serves_again_when_it_is_resumed() -> None:
    with Cluster(brokers=3, topics=["t:6"], config=REPLICATED) as cluster:
        cluster.freeze()
        cluster.pause_broker(2)
        cluster.advance(SESSION - MOMENT)
        assert ({1, 2, 3}, {1, 2, 3}) == (brokers_of(cluster), led_by(cluster, 6))
        cluster.advance(MOMENT)
        assert ({1, 3}, {1, 3}) == (brokers_of(cluster), led_by(cluster, 6))
        cluster.resume_broker(2)
        assert {1, 2, 3} == brokers_of(cluster)
        cluster.move_leader("t", 0, to=2)
        assert 2 in led_by(cluster, 6)


def test_it_has_its_old_registration() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.freeze()
        before = cluster._node(1).image.brokers[2]
        cluster.pause_broker(2)
        cluster.advance(SESSION)
        assert cluster._node(1).image.brokers[2].fenced
        cluster.resume_broker(2)
        assert before == cluster._node(1).image.brokers[2]


def test_who_is_resumed_in_time_is_not_fenced() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.freeze()
        cluster.pause_broker(2)
        cluster.advance(SESSION / 2)
        cluster.resume_broker(2)
        cluster.pause_broker(2)
        cluster.advance(SESSION / 2)
        assert {1, 2} == brokers_of(cluster)
        cluster.advance(SESSION / 2)
        assert {1} == brokers_of(cluster)


def test_a_paused_controller_is_replaced_and_learns_it() -> None:
    with Cluster(brokers=3, topics=["t:6"], config=REPLICATED) as cluster:
        cluster.freeze()
        cluster.pause_broker(1)
        cluster.advance(SESSION)
        assert ({2, 3}, {2, 3}) == (brokers_of(cluster), led_by(cluster, 6))
        assert 2 == cluster._running.spec.controller_id
        cluster.resume_broker(1)
        cluster.move_leader("t", 0, to=1)
        served(cluster)
        assert cluster._node(1).controller.active is None
        assert {1, 2, 3} == brokers_of(cluster)


def test_where_all_are_paused_the_first_to_hear_again_controls_the_cluster() -> None:
    with Cluster(brokers=2, topics=["t:2"], config={"default.replication.factor": 2}) as cluster:
        cluster.freeze()
        for broker in cluster.broker_ids:
            cluster.pause_broker(broker)
        cluster.advance(2 * SESSION)
        cluster.resume_broker(2)
        cluster.advance(MOMENT)
        assert ({2}, {2}) == (brokers_of(cluster), led_by(cluster, 2))
        cluster.resume_broker(1)
        assert {1, 2} == brokers_of(cluster)


def test_one_that_is_stopped_and_one_that_starts_while_another_is_paused() -> None:
    with Cluster(brokers=3, topics=["t:6"], config=REPLICATED) as cluster:
        cluster.freeze()
        cluster.stop_broker(3)
        cluster.pause_broker(1)
        cluster.stop_broker(2)
        cluster.start_broker(2)
        cluster.advance(SESSION)
        assert ({2}, {2}) == (brokers_of(cluster), led_by(cluster, 6))
        cluster.resume_broker(1)
        cluster.start_broker(3)
        assert {1, 2, 3} == brokers_of(cluster)
