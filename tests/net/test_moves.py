"""Leaders and coordinators that a test moves: nothing that is committed is lost unless the test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from odradek.metadata.image import ResourceType
from odradek.net.client import BlockingClient
from odradek.records.record import Record, build_batch
from odradek.testing import Cluster
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

STATE = "__transaction_state"
ONE_PARTITION = {
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.min.isr": 1,
    "offsets.topic.num.partitions": 1,
}
UNREADY = "ELIGIBLE_LEADERS_NOT_AVAILABLE, it is not in sync"


def address(cluster: Cluster, broker: int) -> str:
    return cluster.bootstrap.split(",")[cluster.broker_ids.index(broker)]


def produce(cluster: Cluster) -> int:
    """The error of a produce to t-0 at its leader."""
    data = PartitionProduceData(index=0, records=memoryview(build_batch([Record(timestamp=1, value=b"v")])))
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    with BlockingClient(address(cluster, cluster.leader("t", 0)), client_id="client") as client:
        [topic] = client.ask(request, 9).responses
    return int(topic.partition_responses[0].error_code)


def isr(cluster: Cluster, topic: str) -> list[int]:
    registered = cluster._node().image.partition(topic, 0)
    assert registered is not None
    return sorted(registered.isr)


def falls_out_of_sync(cluster: Cluster) -> bool:
    """Whether nobody else is in sync with the coordinator after another minute."""
    cluster.advance(timedelta(minutes=1))
    return isr(cluster, STATE) == [3]


@pytest.fixture
def lagging() -> Iterator[Cluster]:
    """Three brokers, of which 3 leads everything and 1 and 2 have fallen out of sync."""
    with Cluster(brokers=3, topics=["t"], config=ONE_PARTITION) as cluster:
        for topic in ("t", STATE, "__consumer_offsets"):
            cluster.move_leader(topic, 0, to=3)
        for broker in (1, 2):
            cluster.set_replica_lag(broker, None)
        assert 0 == produce(cluster)
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        with ThreadPoolExecutor(1) as beside, BlockingClient(address(cluster, 3), client_id="client") as client:
            asked = beside.submit(client.ask, request, 4)
            cluster.wait_for(lambda: falls_out_of_sync(cluster))
            asked.result()
        assert [3] == isr(cluster, "t")
        yield cluster


def test_a_broker_out_of_sync_leads_only_if_what_is_lost_may_be(lagging: Cluster) -> None:
    end = lagging.wait(partition={"topic": "t", "partition": 0, "high_watermark": 1})
    with pytest.raises(RuntimeError, match=rf"t-0 cannot be moved to broker 1: {UNREADY} \(the ISR is \[3\]\)"):
        lagging.move_leader("t", 0, to=1)
    assert 3 == lagging.leader("t", 0)
    assert end
    assert 1 == lagging.move_leader("t", 0, to=1, unclean=True)
    [after] = lagging.wait(partition={"topic": "t", "partition": 0})
    assert 0 == after.high_watermark  # type: ignore[attr-defined]


def test_the_next_leader_is_in_sync(lagging: Cluster) -> None:
    assert [3, 3] == [lagging.move_leader("t", 0) for _ in range(2)]
    lagging.set_replica_lag(2, 0)
    lagging.advance(timedelta(seconds=1))
    lagging.wait_for(lambda: isr(lagging, "t") == [2, 3])
    assert [2, 3, 2] == [lagging.move_leader("t", 0) for _ in range(3)]
    assert 1 == lagging.move_leader("t", 0, to=1, unclean=True)


@pytest.mark.parametrize("move", [Cluster.move_transaction_coordinator, Cluster.move_group_coordinator])
def test_a_coordinator_forgets_nothing_by_itself(lagging: Cluster, move: Callable[..., int]) -> None:
    if move is Cluster.move_transaction_coordinator:
        assert [3, 3] == [move(lagging, "x") for _ in range(2)]
        with pytest.raises(RuntimeError, match=f"{STATE}-0 cannot be moved to broker 2: {UNREADY}"):
            move(lagging, "x", to=2)
    assert 2 == move(lagging, "x", to=2, unclean=True)


def test_nobody_leads_by_force_what_waits_for_its_replica(lagging: Cluster) -> None:
    lagging.stop_broker(3)
    assert -1 == lagging.leader("t", 0)
    nobody = r"BROKER_NOT_AVAILABLE, no broker in sync runs \(the ISR is \[\]\)"
    with pytest.raises(RuntimeError, match=nobody):
        lagging.move_leader("t", 0)
    with pytest.raises(RuntimeError, match=nobody):
        lagging.move_transaction_coordinator("x")
    with pytest.raises(RuntimeError, match=UNREADY):
        lagging.move_transaction_coordinator("x", to=1)
    with pytest.raises(RuntimeError, match="broker 3: BROKER_NOT_AVAILABLE"):
        lagging.move_transaction_coordinator("x", to=3)
    lagging.start_broker(3)
    assert 3 == lagging.leader("t", 0)
    assert 3 == lagging.move_transaction_coordinator("x")


def test_a_broker_without_a_replica_gets_everything_from_the_leader() -> None:
    with Cluster(brokers=2, topics=["t:1:1"]) as cluster:
        other = {1: 2, 2: 1}[cluster.leader("t", 0)]
        assert 0 == produce(cluster)
        assert other == cluster.move_leader("t", 0)
        [view] = cluster.wait(partition={"topic": "t", "partition": 0, "high_watermark": 1})
        assert view.replicas == [other]  # type: ignore[attr-defined]
        cluster.stop_broker(other)
        with pytest.raises(RuntimeError, match=UNREADY):
            cluster.move_leader("t", 0, to=3 - other)


# ---------------------------------------------------------------------- nobody is there

WITHOUT_A_CONTROLLER: dict[str, Callable[[Cluster], object]] = {
    "level": lambda cluster: cluster.set_transaction_version(1),
    "same level": lambda cluster: cluster.set_transaction_version(2),
    "lag": lambda cluster: cluster.set_replica_lag(1, 5),
    "configs": lambda cluster: cluster._controls.alter_configs(ResourceType.TOPIC, "t", {"retention.ms": "5"}),
}


def test_without_brokers_nobody_decides() -> None:
    with Cluster(brokers=2, topics=["t"], config=ONE_PARTITION) as cluster:
        for broker in (1, 2):
            cluster.stop_broker(broker)
        assert -1 == cluster.leader("t", 0)
        for decide in WITHOUT_A_CONTROLLER.values():
            with pytest.raises(RuntimeError, match=r"^no broker runs, and so there is no controller: start"):
                decide(cluster)
        for move in (cluster.move_transaction_coordinator, cluster.move_group_coordinator):
            with pytest.raises(RuntimeError, match="BROKER_NOT_AVAILABLE, no broker in sync runs"):
                move("x")
            for unclean in (False, True):
                with pytest.raises(RuntimeError, match=r"broker 1: BROKER_NOT_AVAILABLE$"):
                    move("x", to=1, unclean=unclean)
        with pytest.raises(LookupError):
            cluster.set_producer_epoch("x", 5)
        cluster.start_broker(2)
        cluster.start_broker(1)
        assert 2 == cluster.leader("t", 0)
        cluster.set_transaction_version(1)


def test_an_epoch_that_cannot_be_written_is_refused() -> None:
    config = {**ONE_PARTITION, "transaction.state.log.replication.factor": 2, "transaction.state.log.min.isr": 2}
    with Cluster(brokers=2, config=config) as cluster:
        cluster.move_transaction_coordinator("x", to=1)
        with BlockingClient(address(cluster, 1), client_id="client") as client:
            assert (
                0 == client.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000), 4).error_code
            )
        cluster.stop_broker(2)
        with pytest.raises(RuntimeError, match=r"^the coordinator of x cannot write to its log: NOT_ENOUGH_REPLICAS$"):
            cluster.set_producer_epoch("x", 5)
        cluster.start_broker(2)
        cluster.set_producer_epoch("x", 5)
