"""Waiting for state that is said as data, over real sockets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from threading import Event

import pytest
from msgspec import Struct
from tests.hub.helpers import Till
from tests.unit.host.helpers import batch, produce_request

from odradek.control.messages.state import GroupView
from odradek.net.client import BlockingClient
from odradek.testing import Cluster, rule
from odradek.wire.error_fields import first_error
from odradek.wire.messages import streams_group_heartbeat_request as streams
from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest


def produced(cluster: Cluster, value: bytes) -> int:
    """The error of a produce."""
    with BlockingClient(cluster.bootstrap, client_id="t") as client:
        answer = client.ask(produce_request(batch(value)), 9)
    return int(answer.responses[0].partition_responses[0].error_code)


def test_a_request_that_is_held_and_offsets_that_come() -> None:
    with Cluster(topics=["t"]) as cluster, ThreadPoolExecutor(1) as pool:
        late = cluster.add_rule(rule("PRODUCE", name="late", hold=True))
        answer = pool.submit(produced, cluster, b"a")
        cluster.wait(rule={"name": "late", "held": 1})
        with pytest.raises(TimeoutError, match="the high_watermark of t-0 is 0, not 1"):
            cluster.wait(partition={"topic": "t", "partition": 0, "high_watermark": 1}, timeout_s=0.01)
        cluster.release(late)
        [rule_seen, partition] = cluster.wait(
            rule={"name": "late", "hits": 1}, partition={"topic": "t", "partition": 0, "high_watermark": 1}
        )
        assert 0 == answer.result()
        assert ("late", 1) == (rule_seen.name, rule_seen.hits)  # type: ignore[attr-defined]
        assert 1 == partition.high_watermark  # type: ignore[attr-defined]


def test_a_transactional_id() -> None:
    with Cluster() as cluster:
        with BlockingClient(cluster.bootstrap, client_id="t") as client:
            client.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000), 4)
        cluster.wait(transaction={"id": "x", "state": "Empty"})
        with pytest.raises(TimeoutError, match="x is in Empty"):
            cluster.wait(transaction={"id": "x", "state": "Ongoing"}, timeout_s=0.01)


def test_a_state_that_is_over() -> None:
    """It is told that the wait began too late, and when the state was there."""
    with Cluster(topics=["t"]) as cluster:
        with closing(Till(cluster.bootstrap)) as till:
            assert (0, 0, 0) == (till.add(), till.send(), till.end())
            cluster.wait(transaction={"id": "till-1", "state": "CompleteCommit"})
        Till(cluster.bootstrap).close()  # which makes it Empty
        cluster.wait(transaction={"id": "till-1", "state": "Empty"})
        late = r"till-1 is in Empty, it came to CompleteCommit at [\d:.]{12} and left it\.$"
        with pytest.raises(TimeoutError, match=late):
            cluster.wait(transaction={"id": "till-1", "state": "CompleteCommit"}, timeout_s=0.01)
        with pytest.raises(TimeoutError, match=r"till-1 is in Empty\.$"):
            cluster.wait(transaction={"id": "till-1", "state": "Dead"}, timeout_s=0.01)


CONSUMER = ConsumerGroupHeartbeatRequest(
    group_id="g", member_id="a", rebalance_timeout_ms=30_000, subscribed_topic_names=["t"], topic_partitions=[]
)
SHARE = ShareGroupHeartbeatRequest(group_id="g", member_id="a", subscribed_topic_names=["t"])
STREAMS = streams.StreamsGroupHeartbeatRequest(
    group_id="g",
    member_id="a",
    rebalance_timeout_ms=30_000,
    process_id="p",
    topology=streams.Topology(epoch=0, subtopologies=[streams.Subtopology(subtopology_id="0", source_topics=["t"])]),
    active_tasks=[],
    standby_tasks=[],
    warmup_tasks=[],
)


@pytest.mark.parametrize(("request_", "kind"), [(CONSUMER, "consumer"), (SHARE, "share"), (STREAMS, "streams")])
def test_members_of_a_group_of_a_newer_protocol(request_: Struct, kind: str) -> None:
    with Cluster(brokers=1, topics=["t"]) as cluster:
        with BlockingClient(cluster.bootstrap, client_id="mine") as client:
            assert 0 == first_error(client.ask(request_, 1))
        [group] = cluster.wait(group={"id": "g", "members": 1})
        assert isinstance(group, GroupView)
        assert (kind, [("a", "mine")]) == (group.type, [(each.member_id, each.client_id) for each in group.members])


@pytest.mark.parametrize(
    ("condition", "error", "text"),
    [
        ({}, ValueError, "nothing to wait for"),
        ({"transaction": {"id": "x"}}, ValueError, r"transaction: The field state is missing\.$"),
        ({"group": {"id": "g", "size": 1}}, ValueError, r"group.size: There is no field size here: there are id, st"),
        ({"rule": {"name": "nobody"}}, LookupError, "nobody"),
    ],
)
def test_what_cannot_be_waited_for(
    condition: Mapping[str, Mapping[str, object]], error: type[Exception], text: str
) -> None:
    with Cluster() as cluster, pytest.raises(error, match=text):
        cluster.wait(rule=condition.get("rule"), transaction=condition.get("transaction"), group=condition.get("group"))


def begun(cluster: Cluster) -> int:
    """The error of InitProducerId for a transactional id."""
    with BlockingClient(cluster.bootstrap, client_id="t") as client:
        answer = client.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000), 4)
    return int(answer.error_code)


def joined(cluster: Cluster) -> int:
    """The error of the heartbeat with which a member joins a group."""
    with BlockingClient(cluster.bootstrap, client_id="t") as client:
        return int(client.ask(CONSUMER, 1).error_code)


LONG_S, SOON_S = 600, 10
"""A wait looks once more when its time is over: what wakes it comes long before that."""


def has_open_waits(cluster: Cluster) -> bool:
    return cluster._running.changes.watcher is not None


Change = Callable[[Cluster], object]

CHANGES: Mapping[str, tuple[dict[str, Mapping[str, object]], Change]] = {
    "a transaction": ({"transaction": {"id": "x", "state": "Empty"}}, begun),
    "a partition": (
        {"partition": {"topic": "t", "partition": 0, "high_watermark": 1, "last_stable_offset": 1}},
        lambda cluster: produced(cluster, b"a"),
    ),
    "a group": ({"group": {"id": "g", "members": 1}}, joined),
    "a rule that is hit": ({"rule": {"name": "seen"}}, begun),
    "several": (
        {"rule": {"name": "seen"}, "transaction": {"id": "x", "state": "Empty"}, "group": {"id": "g", "members": 1}},
        lambda cluster: (begun(cluster), joined(cluster)),
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_wait_that_is_open_is_woken(case: str) -> None:
    """By what was done while nothing else happens in the cluster."""
    conditions, change = CHANGES[case]
    with ThreadPoolExecutor(1) as beside, Cluster(topics=["t"]) as cluster:
        cluster.add_rule(rule("INIT_PRODUCER_ID", name="seen", times="all", throttle_ms=1))
        waiting = beside.submit(cluster.wait, **conditions, timeout_s=LONG_S)
        cluster.wait_for(lambda: has_open_waits(cluster))
        change(cluster)
        assert len(conditions) == len(waiting.result(SOON_S))
        assert not has_open_waits(cluster)


def test_what_time_does_wakes_a_wait() -> None:
    """A transactional id is forgotten after a week, and its transaction is aborted before."""
    with ThreadPoolExecutor(1) as beside, Cluster(topics=["t"]) as cluster:
        begun(cluster)
        waiting = beside.submit(cluster.wait, transaction={"id": "x", "state": "none"}, timeout_s=LONG_S)
        cluster.wait_for(lambda: has_open_waits(cluster))
        cluster.advance(timedelta(days=8))
        [forgotten] = waiting.result(SOON_S)
        assert "none" == forgotten.state  # type: ignore[attr-defined]


def test_a_wait_for_a_rule_ends_when_the_rule_is_removed() -> None:
    """Which is no step of a broker; none makes one while its clock stands still and nobody asks it anything."""
    with ThreadPoolExecutor(1) as beside, Cluster() as cluster:
        seen = cluster.add_rule(rule("PRODUCE", name="seen", hold=True))
        cluster.freeze()
        waiting = beside.submit(cluster.wait, rule={"name": "seen"}, timeout_s=LONG_S)
        cluster.wait_for(lambda: has_open_waits(cluster))
        cluster.remove_rule(seen)
        with pytest.raises(LookupError, match="There is no rule seen"):
            waiting.result(SOON_S)


def test_a_wait_follows_a_partition_to_another_leader() -> None:
    with ThreadPoolExecutor(1) as beside, Cluster(brokers=3, topics=["t"]) as cluster:
        wanted = {"topic": "t", "partition": 0, "high_watermark": 1}
        waiting = beside.submit(cluster.wait, partition=wanted, timeout_s=LONG_S)
        cluster.wait_for(lambda: has_open_waits(cluster))
        cluster.stop_broker(cluster.leader("t", 0))
        leader = cluster.leader("t", 0)
        with BlockingClient(cluster.bootstrap.split(",")[cluster.broker_ids.index(leader)], client_id="t") as client:
            client.ask(produce_request(batch(b"a")), 9)
        [found] = waiting.result(SOON_S)
        assert (leader, 1) == (found.leader, found.high_watermark)  # type: ignore[attr-defined]


def test_what_replicas_acknowledge_wakes_a_wait() -> None:
    with ThreadPoolExecutor(1) as beside, Cluster(brokers=2, topics=["t"]) as cluster:
        leader = cluster.leader("t", 0)
        [other] = set(cluster.broker_ids) - {leader}
        cluster.set_replica_lag(other, None)
        wanted = {"topic": "t", "partition": 0, "high_watermark": 1}
        waiting = beside.submit(cluster.wait, partition=wanted, timeout_s=LONG_S)
        with BlockingClient(cluster.bootstrap.split(",")[cluster.broker_ids.index(leader)], client_id="t") as client:
            client.ask(produce_request(batch(b"a"), acks=1), 9)
        cluster.wait_for(lambda: has_open_waits(cluster))
        with pytest.raises(TimeoutError, match="the high_watermark of t-0 is 0, not 1"):
            cluster.wait(partition=wanted, timeout_s=0.01)
        cluster.set_replica_lag(other, 0)
        assert 1 == waiting.result(SOON_S)[0].high_watermark  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "waits",
    [
        lambda cluster: cluster.wait(transaction={"id": "x", "state": "Empty"}, timeout_s=60),
        lambda cluster: cluster.wait_for(lambda: False, timeout_s=60),
    ],
)
def test_who_waits_is_told_when_the_cluster_is_left(waits: Callable[[Cluster], object]) -> None:
    """By another thread; whether it has begun to wait by then makes no difference."""
    with ThreadPoolExecutor(1) as beside, Cluster() as cluster:
        begun = Event()

        def wait() -> None:
            begun.set()
            waits(cluster)

        waiting = beside.submit(wait)
        assert begun.wait(10)
    with pytest.raises(RuntimeError, match=r"the cluster (was left while|does not run)"):
        waiting.result(10)


async def test_brokers_of_the_same_loop_cannot_be_waited_for() -> None:
    async with Cluster() as cluster:
        with pytest.raises(RuntimeError, match="wait would keep its own brokers from working"):
            cluster.wait(transaction={"id": "x", "state": "Empty"})
