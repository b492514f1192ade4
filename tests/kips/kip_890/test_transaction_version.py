"""KIP-890, "Transaction Protocol Feature Version (0)" and "Transaction protocol feature version gating ...".

Level 1 brings tagged fields in the transaction log; level 2 the epoch bump and implicit adding.
As in Kafka 4.4 the version of a request picks the protocol and only the client looks at the level; what the level
changes in the broker is the version of the log's values, and how the broker itself aborts.
"""

from __future__ import annotations

import pytest
from tests.kips.helpers import (
    ABORT,
    COMMIT,
    EPOCH_LAST,
    NEW,
    NEW_STYLES,
    OK,
    OLD,
    Cluster,
    P,
    Producer,
    Q,
    Style,
    every_client,
    every_level,
    new_clients,
)

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.registry import ApiKey

LEVELS_OF_NEW_CLIENTS = pytest.mark.parametrize("level", [1, 2])
UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION


# ---------------------------------------------------------------------- the feature


def features(cluster: Cluster, version: int) -> tuple[dict[str, tuple[int, int]], dict[str, int], int]:
    """Supported ranges, finalized levels and their epoch."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    response = cluster.ask(1, request, version)
    supported = {each.name: (each.min_version, each.max_version) for each in response.supported_features}
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    return supported, finalized, response.finalized_features_epoch


@every_level
@pytest.mark.parametrize("version", [3, 4, 5])
def test_the_level_is_told_in_api_versions(level: int, version: int) -> None:
    """Feature Version: a feature of its own, as KIP-584 has them; level 0 is as if it had never been set."""
    _, finalized, _ = features(Cluster(level), version)
    assert level == finalized.get("transaction.version", 0)
    assert (level > 0) is ("transaction.version" in finalized)


def test_two_levels_are_implemented() -> None:
    """Feature Version: this KIP implements two versions, above 0."""
    supported, _, _ = features(Cluster(), 4)
    assert (0, 2) == supported["transaction.version"]


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_the_level_is_dynamically_changeable(before: int, after: int) -> None:
    """Feature Version: similar to metadata.version, it can be changed at run time; clients see a newer epoch."""
    cluster = Cluster(before, brokers=2)
    _, _, epoch = features(cluster, 4)
    cluster.set_level(after)
    _, finalized, later = features(cluster, 4)
    assert after == finalized.get("transaction.version", 0)
    assert epoch < later
    assert [after, after] == [cluster.node(node_id).image.transaction_version for node_id in (1, 2)]


# ---------------------------------------------------------------------- level 1: flexible fields


@every_client
def test_the_level_gates_flexible_fields(level: int, style: Style) -> None:
    """Feature Version 1: flexible fields in state records, and the previous producer id, from level 1 on."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.transact(P)
    written = cluster.transaction_log("x")
    assert {min(level, 1)} == {each.version for each in written}
    previous = producer.pair[0] if level else -1
    assert {previous} == {each.summary[3] for each in written}


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0), (0, 2), (2, 0)])
def test_values_follow_the_level_of_the_moment(before: int, after: int) -> None:
    """Feature Version 1: the level of the moment counts, not the one at which the transaction began."""
    cluster = Cluster(before)
    producer = Producer.started(cluster, OLD)
    producer.begin(P)
    cluster.set_level(after)
    assert OK is producer.commit()
    versions = [min(before, 1)] * 2 + [min(after, 1)] * 2
    assert versions == [each.version for each in cluster.transaction_log("x")]


# ---------------------------------------------------------------------- the client's version in the record


@every_level
@pytest.mark.parametrize("version", range(6))
def test_the_version_in_the_record_follows_end_txn(level: int, version: int) -> None:
    """Gating: the transaction version of the client is stored, as its EndTxn tells it.

    The text has 1 for an old EndTxn above level 0; Kafka writes 0 at every level, and so it is here.
    """
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    producer.begin(P)
    error, _ = producer.end(COMMIT, version=version)
    if version == 5 and level == 0:
        assert UNSUPPORTED is error
        return
    assert OK is error
    expected = 2 if version == 5 else 0
    assert [expected, expected] == [each.summary[-1] for each in cluster.transaction_log("x")[-2:]]


@pytest.mark.parametrize(("version", "expected"), [(0, 0), (1, 0), (2, 0), (3, 0), (4, 2), (5, 2)])
@LEVELS_OF_NEW_CLIENTS
def test_the_version_in_the_record_follows_the_latest_add(level: int, version: int, expected: int) -> None:
    """Gating: as in Kafka it is stored with each add, too: 2 where a broker adds for its client."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    if version < 4:
        cluster.add_partitions("x", producer.pair, Q)
        assert OK is producer.add(P, version=version)
    else:
        producer.begin(Q)
        cluster.add_partitions("x", producer.pair, P, version=version)
    assert expected == cluster.last_written("x").summary[-1]


# ---------------------------------------------------------------------- level 2: the broker's own aborts


@pytest.mark.parametrize(
    ("level", "style", "version"),
    [(0, OLD, 0), (1, OLD, 0), (1, NEW, 0), (2, OLD, 2), (2, NEW, 2)],
    ids=lambda value: str(value),
)
@pytest.mark.parametrize("cause", ["fence", "timeout"])
def test_the_level_gates_how_the_broker_aborts(level: int, style: Style, version: int, cause: str) -> None:
    """Feature Version 2: the epoch bump; the broker's own aborts go by its level, whatever the client's style is."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.begin(P)
    producer.send(P)
    if cause == "fence":
        assert ErrorCode.CONCURRENT_TRANSACTIONS is Producer(cluster, style).init()
    else:
        cluster.world.advance(producer.timeout_ms + 20_000)
    assert ["0:data@0", "1:ABORT@1"] == cluster.log(P)
    assert ("CompleteAbort", 1) == (cluster.state("x"), cluster.describe("x").producer_epoch)
    assert version == cluster.last_written("x").summary[-1]
    # With the bump protocol the owner is taken for somebody who retries; else it is fenced.
    answer = (OK, (producer.pair[0], 1)) if level == 2 else (ErrorCode.PRODUCER_FENCED, None)
    assert answer == producer.init_answer(producer.pair, version=5)


# ---------------------------------------------------------------------- new clients at level 0


@pytest.fixture
def at_0() -> tuple[Cluster, Producer]:
    """A producer that has its id at level 0."""
    cluster = Cluster(0)
    return cluster, Producer.started(cluster, OLD)


def assert_usable(producer: Producer) -> None:
    """The id works on in the old style."""
    producer.transact(P, b"usable")
    assert OK is producer.init()
    producer.transact(P, b"usable")
    assert "CompleteCommit" == producer.cluster.state(producer.tid)


@new_clients
def test_produce_of_a_new_client_at_level_0(at_0: tuple[Cluster, Producer], style: Style) -> None:
    """Feature Version: below level 2 new clients use the old protocol; who does not is refused, every time."""
    cluster, producer = at_0
    for _ in range(3):
        assert UNSUPPORTED is producer.send(P, version=style.produce)
    assert ("Empty", (0, 0)) == (cluster.state("x"), cluster.stable(P))
    assert_usable(producer)


@pytest.mark.parametrize("version", [5, 6])
def test_txn_offset_commit_of_a_new_client_at_level_0(at_0: tuple[Cluster, Producer], version: int) -> None:
    """Feature Version: the same for TxnOffsetCommit."""
    cluster, producer = at_0
    for _ in range(3):
        assert UNSUPPORTED is producer.commit_offset(1, version=version)
    assert "Empty" == cluster.state("x")
    assert_usable(producer)


@pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])
def test_end_txn_of_a_new_client_at_level_0(at_0: tuple[Cluster, Producer], outcome: bool) -> None:
    """Feature Version: the same for EndTxn; the transaction stays open, and can be ended in the old style."""
    cluster, producer = at_0
    producer.begin(P)
    for _ in range(3):
        assert (UNSUPPORTED, None) == producer.end(outcome, version=5)
    assert "Ongoing" == cluster.state("x")
    assert OK is producer.finish(outcome)
    assert_usable(producer)


def test_an_abort_of_nothing_at_level_0(at_0: tuple[Cluster, Producer]) -> None:
    """Feature Version: the same where no transaction is open."""
    _, producer = at_0
    for _ in range(3):
        assert (UNSUPPORTED, None) == producer.end(ABORT, version=5)
    assert_usable(producer)


@pytest.mark.parametrize("version", [4, 5])
def test_a_broker_that_adds_at_level_0_is_refused_as_a_whole(at_0: tuple[Cluster, Producer], version: int) -> None:
    """Feature Version: AddPartitionsToTxn of a broker fails with a top-level error and no results."""
    cluster, producer = at_0
    for _ in range(3):
        response = cluster.add_partitions("x", producer.pair, P, version=version)
        assert (UNSUPPORTED, []) == (response.error_code, response.results_by_transaction)
    assert_usable(producer)


@pytest.mark.parametrize("version", [4, 5])
def test_at_level_0_an_add_is_checked_before_it_is_refused(at_0: tuple[Cluster, Producer], version: int) -> None:
    """Feature Version: what is wrong with the request itself comes first, and what is there need not be added."""
    cluster, producer = at_0
    x, epoch = producer.pair

    def answer(tid: str, pair: tuple[int, int]) -> ErrorCode:
        response = cluster.add_partitions(tid, pair, P, version=version)
        assert OK == response.error_code
        [[topic]] = [each.topic_results for each in response.results_by_transaction]
        return ErrorCode(topic.results_by_partition[0].partition_error_code)

    assert ErrorCode.INVALID_PRODUCER_ID_MAPPING is answer("unknown", (x, epoch))
    assert ErrorCode.INVALID_PRODUCER_ID_MAPPING is answer("x", (x + 1, epoch))
    assert ErrorCode.PRODUCER_FENCED is answer("x", (x, epoch + 1))
    producer.begin(P)
    assert OK is answer("x", (x, epoch))
    markers = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    assert OK is producer.commit()
    assert ErrorCode.CONCURRENT_TRANSACTIONS is answer("x", (x, epoch))
    cluster.release(markers)


@new_clients
def test_at_level_0_a_new_produce_to_a_partition_that_is_there(at_0: tuple[Cluster, Producer], style: Style) -> None:
    """Feature Version: a partition that its client has added itself takes even a Produce of the new version."""
    cluster, producer = at_0
    producer.begin(P)
    assert OK is producer.send(P, b"a", version=style.produce)
    assert OK is producer.commit()
    assert [b"a"] == cluster.consumed(P)


def test_verification_works_at_level_0(at_0: tuple[Cluster, Producer]) -> None:
    """Feature Version: part 1 of the KIP needs no level."""
    cluster, producer = at_0
    producer.begin(P)
    assert [OK, ErrorCode.TRANSACTION_ABORTABLE] == cluster.verify("x", producer.pair, P, Q)


# ---------------------------------------------------------------------- up and down while something is under way


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("style", NEW_STYLES, ids=str)
def test_upgrade_within_a_transaction(before: int, style: Style) -> None:
    """New Servers: who sees a new level waits for its transaction to complete; then InitProducerId bumps once."""
    cluster = Cluster(before)
    producer = Producer.started(cluster, OLD)
    producer.begin(P)
    producer.send(P, b"old")
    cluster.set_level(2)
    assert OK is producer.commit()
    producer.style = style
    assert OK is producer.init(producer.pair)
    assert 1 == producer.epoch
    producer.transact(P, b"new")
    assert [b"old", b"new"] == cluster.consumed(P)
    assert ["0:data@0", "1:COMMIT@0", "2:data@1", "3:COMMIT@2"] == cluster.log(P)


@pytest.mark.parametrize("before", [0, 1])
def test_upgrade_and_the_new_end_of_an_old_transaction(before: int) -> None:
    """New Servers: a transaction that began in the old style may be ended in the new one."""
    cluster = Cluster(before)
    producer = Producer.started(cluster, OLD)
    producer.begin(P)
    producer.send(P, b"a")
    cluster.set_level(2)
    assert (OK, (producer.pair[0], 1)) == producer.end(COMMIT, version=5)
    assert ["0:data@0", "1:COMMIT@1"] == cluster.log(P)
    assert [0, 2, 2] == [each.summary[-1] for each in cluster.transaction_log("x")[-3:]]


@new_clients
def test_downgrade_2_to_1_within_a_transaction(style: Style) -> None:
    """New Servers: with a lower level the transaction is finished, and the next one uses the old protocol."""
    cluster = Cluster(2)
    producer = Producer.started(cluster, style)
    producer.send(P, b"a")
    cluster.set_level(1)
    assert OK is producer.send(P, b"b")
    assert OK is producer.send(Q, b"c")
    assert OK is producer.commit()
    producer.style = OLD
    producer.transact(P, b"d")
    assert [b"a", b"b", b"d"] == cluster.consumed(P)


@new_clients
def test_downgrade_2_to_1_and_the_old_end_of_a_new_transaction(style: Style) -> None:
    """New Servers: the same when the client ends it in the old style: no bump, and the count goes on."""
    cluster = Cluster(2)
    producer = Producer.started(cluster, style)
    producer.send(P, b"a")
    cluster.set_level(1)
    assert (OK, None) == producer.end(COMMIT, version=4)
    assert ["0:data@0", "1:COMMIT@0"] == cluster.log(P)
    producer.style = OLD
    producer.transact(P, b"b")
    assert [b"a", b"b"] == cluster.consumed(P)


@new_clients
def test_downgrade_2_to_0_within_a_transaction(style: Style) -> None:
    """New Servers: level 0 cannot end it in the new style, but in the old style, and nothing is wedged."""
    cluster = Cluster(2)
    producer = Producer.started(cluster, style)
    producer.send(P, b"a")
    cluster.set_level(0)
    assert (UNSUPPORTED, None) == producer.end(COMMIT)
    assert (OK, None) == producer.end(COMMIT, version=4)
    assert (0, 0) == (cluster.last_written("x").version, cluster.last_written("x").summary[-1])
    producer.style = OLD
    producer.transact(P, b"b")
    assert [b"a", b"b"] == cluster.consumed(P)


@new_clients
def test_downgrade_2_to_0_and_the_timeout(style: Style) -> None:
    """New Servers: a client that never comes back is aborted as at level 0."""
    cluster = Cluster(2)
    producer = Producer.started(cluster, style)
    producer.send(P)
    cluster.set_level(0)
    cluster.world.advance(producer.timeout_ms + 20_000)
    assert ["0:data@0", "1:ABORT@1"] == cluster.log(P)
    assert ("CompleteAbort", 0) == (cluster.state("x"), cluster.last_written("x").version)


@pytest.mark.parametrize("failover", [False, True])
@pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])
def test_downgrade_2_to_0_between_transactions(failover: bool, outcome: bool) -> None:
    """Old Servers: a downgrade is graceful; what the value cannot hold any more is left out."""
    cluster = Cluster(2)
    producer = Producer.started(cluster, NEW)
    producer.transact(P, outcome=outcome)
    cluster.set_level(0)
    if failover:
        cluster.move(cluster.log_of("x"))
    producer.style = OLD
    assert OK is producer.init()
    assert 2 == producer.epoch
    assert_usable(producer)


@pytest.mark.parametrize("failover", [False, True])
@pytest.mark.parametrize("epoch", [0, EPOCH_LAST])
def test_downgrade_2_to_0_while_markers_are_owed(failover: bool, epoch: int) -> None:
    """Old Servers: who writes the markers after a downgrade writes them with the bumped epoch."""
    cluster = Cluster(2)
    producer = Producer.started(cluster, NEW, epoch=epoch)
    assert OK is producer.send(P, b"a")
    markers = cluster.hold(ApiKey.WRITE_TXN_MARKERS, times=1)
    assert OK is producer.commit()
    cluster.set_level(0)
    if failover:
        cluster.move(cluster.log_of("x"))
        cluster.world.advance(60_000)
    cluster.release(markers)
    assert [f"0:data@{epoch}", f"1:COMMIT@{epoch + 1}"] == cluster.log(P)[:2]
    described = cluster.describe("x")
    assert ("CompleteCommit", *producer.pair) == (
        described.transaction_state,
        described.producer_id,
        described.producer_epoch,
    )
    assert 0 == cluster.last_written("x").version
    producer.style = OLD
    assert_usable(producer)


@pytest.mark.parametrize("level", [1, 2])
def test_an_id_whose_transaction_timed_out_gets_another_epoch_after_a_downgrade_to_0(level: int) -> None:
    """What the coordinator has noted of the client has no place in a record of version 0."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, timeout_ms=1_000)
    producer.transact(P, b"first")
    producer.begin(P)
    producer.send(P, b"late")
    cluster.world.advance(60_000)
    assert "CompleteAbort" == cluster.state("x")
    cluster.set_level(0)

    cluster.force_epoch("x", 32_000)

    assert 32_000 == cluster.describe("x").producer_epoch
    assert 0 == cluster.last_written("x").version
