"""The brokers' clock: hours and days of it pass in a test that waits for none of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from msgspec import Struct

from odradek.net.client import BlockingClient
from odradek.net.clock import Clock
from odradek.testing import Cluster
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.describe_groups_request import DescribeGroupsRequest
from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.wire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

pytestmark = pytest.mark.slow

SECOND, MINUTE, HOUR, DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))


# ---------------------------------------------------------------------- the clock by itself


def test_it_is_that_of_the_machine_and_goes_on_by_what_it_is_advanced(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    _machine_says(monkeypatch, 1000)
    assert (1000, 0) == (clock.now(), clock.ahead_ms)
    clock.advance(250)
    assert (1250, 250) == (clock.now(), clock.ahead_ms)
    _machine_says(monkeypatch, 1010)
    assert 1260 == clock.now()


def test_it_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    _machine_says(monkeypatch, 1000)
    assert 1000 == clock.now()
    _machine_says(monkeypatch, 400)
    assert 1000 == clock.now()
    with pytest.raises(ValueError, match="never goes back, so it is not advanced by -1 ms"):
        clock.advance(-1)


def test_it_stands_still_and_goes_on_from_where_it_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    _machine_says(monkeypatch, 1000)
    clock.freeze()
    _machine_says(monkeypatch, 9000)
    clock.freeze()
    assert (1000, True) == (clock.now(), clock.frozen)
    clock.advance(50)
    assert 1050 == clock.now()
    clock.resume()
    assert (1050, False) == (clock.now(), clock.frozen)
    _machine_says(monkeypatch, 9100)
    clock.resume()
    assert (1150, -7950) == (clock.now(), clock.ahead_ms)


def _machine_says(monkeypatch: pytest.MonkeyPatch, now_ms: int) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: now_ms * 1_000_000)


# ---------------------------------------------------------------------- what brokers do by it


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics=["t"]) as running:
        running.freeze()
        yield running


def ask(cluster: Cluster, request: Struct, version: int) -> Any:
    """On a connection of its own: an old one has been idle for too long after a jump."""
    with BlockingClient(cluster.bootstrap, client_id="test") as connection:
        return connection.ask(request, version)


def init(cluster: Cluster) -> tuple[int, int]:
    answer = ask(cluster, InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 5)
    assert 0 == answer.error_code
    return answer.producer_id, answer.producer_epoch


def state_of(cluster: Cluster) -> str | ErrorCode:
    [state] = ask(cluster, DescribeTransactionsRequest(transactional_ids=["x"]), 0).transaction_states
    return ErrorCode(state.error_code) if state.error_code else str(state.transaction_state)


def test_a_transactional_id_is_forgotten_after_seven_days(cluster: Cluster) -> None:
    init(cluster)
    cluster.advance(7 * DAY - MINUTE)
    assert "Empty" == state_of(cluster)
    # The check itself comes once an hour (transaction.remove.expired.transaction.cleanup.interval.ms).
    cluster.advance(HOUR + MINUTE)
    assert ErrorCode.TRANSACTIONAL_ID_NOT_FOUND is state_of(cluster)


def test_a_transaction_that_takes_too_long_is_aborted(cluster: Cluster) -> None:
    producer_id, epoch = init(cluster)
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
    addition = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=topics,
    )
    ask(cluster, addition, 3)
    cluster.advance(59 * SECOND)
    assert "Ongoing" == state_of(cluster)
    # The check itself comes every ten seconds (transaction.abort.timed.out.transaction.cleanup.interval.ms).
    cluster.advance(11 * SECOND)
    assert "CompleteAbort" == state_of(cluster)
    commit = EndTxnRequest(transactional_id="x", producer_id=producer_id, producer_epoch=epoch, committed=True)
    assert ErrorCode.PRODUCER_FENCED == ask(cluster, commit, 4).error_code


def test_offsets_of_a_group_without_members_are_forgotten(cluster: Cluster) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    commit = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])])
    assert 0 == ask(cluster, commit, 8).topics[0].partitions[0].error_code
    fetch = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])

    def committed() -> int:
        offset: int = ask(cluster, fetch, 7).topics[0].partitions[0].committed_offset
        return offset

    cluster.advance(7 * DAY - MINUTE)  # offsets.retention.minutes
    assert 7 == committed()
    cluster.advance(11 * MINUTE)  # offsets.retention.check.interval.ms
    assert -1 == committed()


def group(cluster: Cluster) -> tuple[str, int]:
    [described] = ask(cluster, DescribeGroupsRequest(groups=["g"]), 5).groups
    return described.group_state, len(described.members)


def join_request() -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def test_a_member_that_is_not_heard_of_leaves_its_group() -> None:
    with Cluster(config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        cluster.freeze()
        joined = ask(cluster, join_request(), 3)
        sync = SyncGroupRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        sync.assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")]
        assert 0 == ask(cluster, sync, 3).error_code
        cluster.advance(44 * SECOND)
        assert ("Stable", 1) == group(cluster)
        cluster.advance(2 * SECOND)
        assert ("Empty", 0) == group(cluster)


def test_nothing_is_due_while_the_clock_stands_still() -> None:
    with Cluster(config={"group.initial.rebalance.delay.ms": 1}) as cluster, ThreadPoolExecutor() as beside:
        cluster.freeze()
        joining = beside.submit(ask, cluster, join_request(), 3)
        while group(cluster)[0] != "PreparingRebalance":
            pass
        for _ in range(50):  # which take longer than a millisecond
            assert ("PreparingRebalance", 1) == group(cluster)
        cluster.advance(timedelta(milliseconds=1))
        assert 0 == joining.result().error_code


def test_what_was_due_meanwhile_happens_when_the_clock_goes_on() -> None:
    with Cluster(config={"group.initial.rebalance.delay.ms": 1}) as cluster:
        cluster.freeze()
        cluster.advance(HOUR)
        cluster.resume()
        assert 0 == ask(cluster, join_request(), 3).error_code


async def test_a_broker_that_starts_again_has_the_time_of_the_others() -> None:
    async with Cluster(brokers=2) as cluster:
        cluster.freeze()
        cluster.advance(DAY)
        cluster.stop_broker(2)
        cluster.start_broker(2)
        cluster.advance(HOUR)
        one, other = (cluster._node(broker).clock.now for broker in cluster.broker_ids)
        assert one == other


def test_the_clock_ends_before_the_numbers_of_records_do() -> None:
    with Cluster() as cluster:
        before = cluster._running.clock.now()
        with pytest.raises(ValueError, match="The clock of brokers ends 4611686018427387904 ms after 1970"):
            cluster._call(lambda: cluster._running.advance(1 << 62))
        assert cluster._running.clock.now() < before + 60_000
        cluster.advance(timedelta.max)


def test_the_clock_is_not_turned_back() -> None:
    with Cluster() as cluster, pytest.raises(ValueError, match="never goes back"):
        cluster.advance(-SECOND)
