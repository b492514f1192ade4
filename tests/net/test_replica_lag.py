"""The lag of replicas over real sockets, as a test of an application sets it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from odradek.net.client import BlockingClient
from odradek.records.record import Record, build_batch
from odradek.testing import Cluster
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

DAY = timedelta(days=1)


def produce(cluster: Cluster, *, timeout_ms: int = 60_000) -> ErrorCode:
    batch = build_batch([Record(timestamp=1, value=b"v")])
    data = PartitionProduceData(index=0, records=memoryview(batch))
    request = ProduceRequest(
        acks=-1, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name="t", partition_data=[data])]
    )
    broker = cluster.leader("t", 0)
    address = cluster.bootstrap.split(",")[cluster.broker_ids.index(broker)]
    with BlockingClient(address, client_id="client") as client:
        [topic] = client.ask(request, 9).responses
    return ErrorCode(topic.partition_responses[0].error_code)


def test_a_produce_waits_for_replicas_that_lag() -> None:
    with Cluster(brokers=2, topics=["t:1:2"]) as cluster:
        follower = next(each for each in cluster.broker_ids if each != cluster.leader("t", 0))
        assert ErrorCode.NONE is produce(cluster)
        cluster.set_replica_lag(follower, None)
        assert ErrorCode.REQUEST_TIMED_OUT is produce(cluster, timeout_ms=1)
        cluster.set_replica_lag(follower, 20)
        assert ErrorCode.NONE is produce(cluster)
        cluster.set_replica_lag(follower, 0)
        assert ErrorCode.NONE is produce(cluster, timeout_ms=1)


def test_a_paused_broker_acknowledges_nothing() -> None:
    with Cluster(brokers=2, topics=["t:1:2"]) as cluster:
        cluster.move_leader("t", 0, to=1)
        cluster.pause_broker(2)
        assert ErrorCode.REQUEST_TIMED_OUT is produce(cluster, timeout_ms=1)
        cluster.advance(DAY)
        # It lags for too long, and the leader goes on without it.
        assert ErrorCode.NONE is produce(cluster)
        cluster.resume_broker(2)
        assert ErrorCode.NONE is produce(cluster, timeout_ms=1)


def test_a_lag_that_makes_no_sense() -> None:
    with Cluster(brokers=2) as cluster:
        with pytest.raises(ValueError, match="replicas take no -5 ms to acknowledge: give 0 or more, or None for ever"):
            cluster.set_replica_lag(1, -5)
        with pytest.raises(LookupError, match="there is no broker 7"):
            cluster.set_replica_lag(7, 5)
