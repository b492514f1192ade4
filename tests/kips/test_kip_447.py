"""KIP-447, "Producer scalability for exactly once semantics": offsets in a transaction, by members of a group."""

from __future__ import annotations

import pytest
from tests.kips.helpers import (
    ABORT,
    COMMIT,
    NEW,
    OK,
    OLD,
    Cluster,
    P,
    Pending,
    Producer,
    Q,
    Style,
    every_client,
    every_level,
)
from tests.kips.test_replicas import LAG, Replicated

from odradek.records.compression import Compression
from odradek.sim.model.reader import batches_of
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.wire.messages.offset_fetch_response import OffsetFetchResponse
from odradek.wire.registry import ApiKey

UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


def begin(producer: Producer) -> None:
    """Add the partition of the offsets, if this client does that itself."""
    if producer.style.add is not None:
        assert OK is producer.add_offsets(version=min(producer.style.add, 3))


@every_client
@pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])
def test_offsets_are_pending_until_the_marker(level: int, style: Style, outcome: bool) -> None:
    """RequireStable: while a transaction with offsets of the partition is open, they are unstable for who cares."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    begin(producer)
    assert OK is producer.commit_offset(3)
    assert OK is producer.commit()
    begin(producer)
    assert OK is producer.commit_offset(8)
    assert (UNSTABLE, 3) == (cluster.offset(stable=True), cluster.offset())
    assert -1 == cluster.offset(partition=Q, stable=True)
    assert OK is producer.finish(outcome)
    expected = 8 if outcome else 3
    assert (expected, expected) == (cluster.offset(stable=True), cluster.offset())


@every_client
def test_offsets_are_unstable_while_the_marker_is_on_its_way(level: int, style: Style) -> None:
    """RequireStable: what counts is the marker in the partition of the offsets, not the decision to commit."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    begin(producer)
    producer.commit_offset(3)
    markers = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    assert OK is producer.commit()
    assert (UNSTABLE, -1) == (cluster.offset(stable=True), cluster.offset())
    cluster.release(markers)
    assert 3 == cluster.offset(stable=True)


@every_client
def test_pending_offsets_survive_the_coordinator_of_the_group(level: int, style: Style) -> None:
    """RequireStable: pending offsets are in the log, and so is the marker that ends them."""
    cluster = Cluster(level, brokers=2)
    producer = Producer.started(cluster, style)
    begin(producer)
    producer.commit_offset(3)
    offsets = cluster.offsets_of()
    cluster.move(offsets, 3 - cluster.leader(offsets))
    assert UNSTABLE == cluster.offset(stable=True)
    assert OK is producer.commit()
    assert 3 == cluster.offset(stable=True)


def fetch(cluster: Cluster, *, stable: bool) -> Pending[tuple[ErrorCode, int]]:
    """Ask for the offset of t-0; the answer may take its time."""
    wanted = OffsetFetchRequestTopic(name=P[0], partition_indexes=[P[1]])
    request = OffsetFetchRequest(group_id="group", topics=[wanted], require_stable=stable)

    def read(response: OffsetFetchResponse) -> tuple[ErrorCode, int]:
        if response.error_code:
            return ErrorCode(response.error_code), -1
        [[partition]] = [topic.partitions for topic in response.topics]
        return ErrorCode(partition.error_code), partition.committed_offset

    pending = cluster.pending(cluster.leader(cluster.offsets_of()), request, 7, read)
    cluster.world.run()
    return pending


def commit_later(cluster: Cluster, offset: int) -> None:
    """Commit an offset of t-0 without a transaction; nobody waits for the answer."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    request = OffsetCommitRequest(
        group_id="group", topics=[OffsetCommitRequestTopic(name=P[0], partitions=[partition])]
    )
    cluster.send(cluster.leader(cluster.offsets_of()), request, 7)
    cluster.world.run()


def test_offsets_of_a_transaction_are_unstable_before_the_replicas_have_them() -> None:
    """RequireStable: what is written and not committed yet counts, and is waited for; others read what is committed."""
    cluster = Replicated()
    producer = Producer.started(cluster, OLD)
    begin(producer)
    assert OK is producer.commit_offset(3)
    assert OK is producer.commit()
    begin(producer)
    cluster.lag(LAG)
    written = producer.committing_offset(8)
    cluster.world.run()
    assert not written.arrived
    stable, other = fetch(cluster, stable=True), fetch(cluster, stable=False)
    assert other.arrived
    assert (OK, 3) == other.result()
    assert not stable.arrived
    cluster.world.advance(LAG)
    assert stable.arrived
    assert (UNSTABLE, -1) == stable.result()


def test_stable_offsets_are_those_that_were_written_last() -> None:
    """RequireStable: a commit whose replicas lag is waited for, and nothing that is written later."""
    cluster = Replicated()
    commit_later(cluster, 3)
    cluster.lag(LAG)
    commit_later(cluster, 9)
    stable, other = fetch(cluster, stable=True), fetch(cluster, stable=False)
    cluster.world.advance(LAG // 2)
    commit_later(cluster, 12)
    cluster.world.advance(LAG // 2)
    assert (True, True) == (stable.arrived, other.arrived)
    assert ((OK, 9), (OK, 3)) == (stable.result(), other.result())


@pytest.mark.parametrize("to", [2, 1], ids=["another broker", "the same again"])
def test_who_waits_for_stable_offsets_is_sent_to_the_next_coordinator(to: int) -> None:
    """RequireStable: the error of a write that is not committed when the coordinator goes."""
    cluster = Replicated(replica_lag_time_max_ms=60_000)
    cluster.lag(None)
    commit_later(cluster, 9)
    stable = fetch(cluster, stable=True)
    assert not stable.arrived
    cluster.move(cluster.offsets_of(), to)
    cluster.lag(0)
    assert (ErrorCode.NOT_COORDINATOR, -1) == stable.result(within_ms=0)


def test_nobody_waits_for_stable_offsets_for_ever() -> None:
    """RequireStable: the error of a write that is not committed in time (`offsets.commit.timeout.ms`)."""
    cluster = Replicated(replica_lag_time_max_ms=60_000)
    cluster.lag(None)
    commit_later(cluster, 9)
    stable = fetch(cluster, stable=True)
    cluster.world.advance(5_000)
    assert (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1) == stable.result(within_ms=0)


@every_client
def test_a_later_commit_outside_of_the_transaction_wins(level: int, style: Style) -> None:
    """Pending offsets: whichever was written later counts, not whichever came into force later."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    begin(producer)
    producer.commit_offset(3)
    committed = OffsetCommitRequestPartition(partition_index=0, committed_offset=9, committed_metadata="")
    request = OffsetCommitRequest(
        group_id="group", topics=[OffsetCommitRequestTopic(name=P[0], partitions=[committed])]
    )
    response = cluster.ask(cluster.leader(cluster.offsets_of()), request, 7)
    assert [OK] == [each.error_code for each in response.topics[0].partitions]
    assert OK is producer.commit()
    assert 9 == cluster.offset(stable=True)


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize(
    ("version", "error"),
    [
        (3, ErrorCode.ILLEGAL_GENERATION),
        (4, ErrorCode.ILLEGAL_GENERATION),
        (5, ErrorCode.ILLEGAL_GENERATION),
        (6, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_generation_of_a_group_that_does_not_exist(level: int, version: int, error: ErrorCode) -> None:
    """Group metadata in TxnOffsetCommit: the member and its generation are checked by the coordinator of the group."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD if version < 5 else NEW)
    begin(producer)
    assert error is producer.commit_offset(3, version=version, member="m", generation=1)
    assert OK is producer.commit_offset(3, version=version)


@every_level
def test_a_zombie_commits_no_offsets(level: int) -> None:
    """Fencing: offsets of a fenced producer are refused by the log of the offsets itself."""
    cluster = Cluster(level)
    first = Producer.started(cluster, OLD)
    begin(first)
    assert OK is first.commit_offset(3)
    second = Producer(cluster, OLD)
    assert ErrorCode.CONCURRENT_TRANSACTIONS is second.init()
    assert OK is second.init()
    for version in range(7):
        assert ErrorCode.INVALID_PRODUCER_EPOCH is first.commit_offset(4, version=version)
    assert -1 == cluster.offset(stable=True)


@every_level
@pytest.mark.parametrize("version", range(7))
def test_a_partition_that_does_not_exist_adds_nothing(level: int, version: int) -> None:
    """TxnOffsetCommit: with nothing left to commit nobody is asked."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert missing is producer.commit_offset(3, partition=("t", 99), version=version)
    assert "Empty" == cluster.state("x")


@every_level
@pytest.mark.parametrize("version", range(7))
def test_a_group_without_a_name(level: int, version: int) -> None:
    """TxnOffsetCommit: INVALID_GROUP_ID, and nobody is asked."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    assert ErrorCode.INVALID_GROUP_ID is producer.commit_offset(3, group="", version=version)
    assert "Empty" == cluster.state("x")


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_offsets_are_compressed_as_the_operator_wants_and_read_again(codec: Compression) -> None:
    """`offsets.topic.compression.codec`; whoever takes over reads what was written."""
    cluster = Cluster(offsets_topic_compression_codec=int(codec))
    producer = Producer.started(cluster, NEW)
    assert OK is producer.commit_offset(3)
    assert OK is producer.commit()
    offsets = cluster.offsets_of()
    written = [batch for batch in batches_of(cluster.fetched(offsets)) if not batch.is_control]
    assert {codec} == {batch.compression for batch in written}
    cluster.move(offsets)
    assert 3 == cluster.offset(stable=True)
