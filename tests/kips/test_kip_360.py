"""KIP-360, "Improve reliability of idempotent/transactional producer"."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kips.helpers import (
    ABORT,
    EPOCH_LAST,
    NEW,
    OK,
    OLD,
    Cluster,
    P,
    Producer,
    Q,
    Style,
    every_client,
    every_level,
)

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest

FENCED = ErrorCode.PRODUCER_FENCED
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
EXPIRY_MS = 60_000
EXPIRING: dict[str, Any] = {
    "transactional_id_expiration_ms": EXPIRY_MS,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 10_000,
    "producer_id_expiration_ms": EXPIRY_MS,
    "producer_id_expiration_check_interval_ms": 10_000,
}
WITH_A_PAIR = pytest.mark.parametrize("version", [3, 4, 5])
FAILOVER = pytest.mark.parametrize("failover", [False, True], ids=["same-coordinator", "failover"])
LAST_EPOCH_TAG = 360


def fenced_as(version: int) -> ErrorCode:
    """The KIP says INVALID_PRODUCER_EPOCH; KIP-588 gave it a name of its own from version 4 on."""
    return FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH


def fail_over(cluster: Cluster, tid: str = "x") -> None:
    """Another coordinator takes the id over, with nothing but the log."""
    cluster.move(cluster.log_of(tid))


# ---------------------------------------------------------------------- Safe Epoch Incrementing: 1, nothing provided


@every_level
@pytest.mark.parametrize("version", range(6))
def test_1a_the_first_call_gives_a_new_producer_id(level: int, version: int) -> None:
    """Safe Epoch Incrementing, 1a: without a current producer id, a new one and epoch 0."""
    cluster = Cluster(level)
    x, y = (Producer(cluster, OLD, tid=tid).init_answer(version=version) for tid in ("x", "y"))
    assert x[1] is not None
    assert y[1] is not None
    assert (0, 0) == (x[1][1], y[1][1])
    assert x[1][0] != y[1][0]


@every_level
@pytest.mark.parametrize("version", range(6))
def test_1b_another_call_bumps_the_epoch(level: int, version: int) -> None:
    """Safe Epoch Incrementing, 1b i: otherwise the epoch is bumped, and the last epoch is empty."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    x = producer.pair[0]
    assert [(OK, (x, 1)), (OK, (x, 2))] == [producer.init_answer(version=version) for _ in range(2)]
    # The last epoch is empty: whoever had it before was another instance, and is fenced.
    assert (FENCED, None) == producer.init_answer((x, 1), version=5)


@every_level
@pytest.mark.parametrize("version", range(6))
def test_1b_an_overflow_gives_another_producer_id(level: int, version: int) -> None:
    """Safe Epoch Incrementing, 1b ii: on overflow a new producer id with epoch 0, and the last pair is empty."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD, epoch=EPOCH_LAST)
    x = producer.pair
    error, got = producer.init_answer(version=version)
    assert OK is error
    assert got is not None
    assert 0 == got[1]
    assert x[0] != got[0]
    assert (FENCED, None) == producer.init_answer(x, version=5)


# ---------------------------------------------------------------------- 2, a pair is provided


@every_level
@WITH_A_PAIR
def test_2a_the_current_pair_is_bumped(level: int, version: int) -> None:
    """Safe Epoch Incrementing, 2a i: the provided pair is the current one, so the epoch is bumped."""
    producer = Producer.started(Cluster(level), OLD)
    x = producer.pair[0]
    assert (OK, (x, 1)) == producer.init_answer((x, 0), version=version)
    assert (OK, (x, 2)) == producer.init_answer((x, 1), version=version)


@every_level
@WITH_A_PAIR
def test_2a_an_overflow_gives_another_producer_id(level: int, version: int) -> None:
    """Safe Epoch Incrementing, 2a ii: on overflow a new producer id with epoch 0."""
    producer = Producer.started(Cluster(level), OLD, epoch=EPOCH_LAST)
    error, got = producer.init_answer(producer.pair, version=version)
    assert OK is error
    assert got is not None
    assert 0 == got[1]
    assert producer.pair[0] != got[0]


@every_level
@WITH_A_PAIR
def test_2b_the_last_pair_is_answered_the_current_one(level: int, version: int) -> None:
    """Safe Epoch Incrementing, 2b: the provided pair is the last one, so the current one is returned, each time."""
    producer = Producer.started(Cluster(level), OLD)
    x = producer.pair[0]
    assert OK is producer.init((x, 0), version=version)
    for _ in range(3):
        assert (OK, (x, 1)) == producer.init_answer((x, 0), version=version)
    assert (OK, (x, 2)) == producer.init_answer((x, 1), version=version)
    assert (fenced_as(version), None) == producer.init_answer((x, 0), version=version)


@every_level
@WITH_A_PAIR
def test_2b_after_an_overflow(level: int, version: int) -> None:
    """Safe Epoch Incrementing, 2b: the retry of a request that gave a new producer id gets that one again."""
    producer = Producer.started(Cluster(level), OLD, epoch=EPOCH_LAST)
    x = producer.pair
    assert OK is producer.init(x, version=version)
    for _ in range(3):
        assert (OK, producer.pair) == producer.init_answer(x, version=version)


@every_level
@WITH_A_PAIR
@pytest.mark.parametrize("epoch", [1, 7, EPOCH_LAST - 1])
def test_2b_up_to_the_last_epoch(level: int, version: int, epoch: int) -> None:
    """Safe Epoch Incrementing, 2b: the retry of every bump is told, that of the bump to the last epoch included."""
    producer = Producer.started(Cluster(level), OLD, epoch=epoch)
    x = producer.pair[0]
    for _ in range(3):
        assert (OK, (x, epoch + 1)) == producer.init_answer((x, epoch), version=version)


@pytest.mark.parametrize("level", [1, 2])
@WITH_A_PAIR
@pytest.mark.parametrize("epoch", [0, EPOCH_LAST - 1, EPOCH_LAST])
def test_2b_spans_a_failover(level: int, version: int, epoch: int) -> None:
    """Safe Epoch Incrementing: a retry may span coordinator failover, so the last epoch is in the transaction log."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD, epoch=epoch)
    before = producer.pair
    assert OK is producer.init(before, version=version)
    for _ in range(3):
        fail_over(cluster)
        assert (OK, producer.pair) == producer.init_answer(before, version=version)


@WITH_A_PAIR
def test_2b_does_not_span_a_failover_at_level_0(version: int) -> None:
    """Safe Epoch Incrementing: at level 0 a value of the log has no room for it."""
    cluster = Cluster(0)
    producer = Producer.started(cluster, OLD)
    x = producer.pair[0]
    assert OK is producer.init((x, 0), version=version)
    fail_over(cluster)
    assert (fenced_as(version), None) == producer.init_answer((x, 0), version=version)
    assert (OK, (x, 2)) == producer.init_answer((x, 1), version=version)


@every_level
@WITH_A_PAIR
def test_2c_anything_else_is_refused(level: int, version: int) -> None:
    """Safe Epoch Incrementing, 2c: the bump is only allowed if the provided epoch is the current one."""
    producer = Producer.started(Cluster(level), OLD, epoch=7)
    x = producer.pair[0]
    for pair in ((x, 6), (x, 8), (x + 1, 7), (x + 1000, 7), (x + 1, EPOCH_LAST)):
        assert (fenced_as(version), None) == producer.init_answer(pair, version=version)
    assert (OK, (x, 8)) == producer.init_answer((x, 7), version=version)


@every_client
@FAILOVER
def test_a_producer_that_was_fenced_cannot_bump(level: int, style: Style, failover: bool) -> None:
    """Safe Epoch Incrementing, 3: if another producer has bumped the epoch, this one must not continue."""
    cluster = Cluster(level)
    first = Producer.started(cluster, style)
    first.transact(P)
    assert OK is Producer(cluster, style).init()
    if failover:
        fail_over(cluster)
    for version in (3, 4, 5):
        assert (fenced_as(version), None) == first.init_answer(first.pair, version=version)


@every_client
def test_after_the_bump_sequences_begin_at_0(level: int, style: Style) -> None:
    """Safe Epoch Incrementing, 4: the producer resets its sequences to 0 and continues with the next transaction."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.transact(P, b"a", b"b")
    assert OK is producer.init(producer.pair)
    producer.begin(P)
    assert OUT_OF_ORDER is producer.send(P, sequence=2)
    assert OK is producer.send(P, b"c", sequence=0)
    assert OK is producer.commit()
    assert [b"a", b"b", b"c"] == cluster.consumed(P)


@every_client
def test_the_way_out_of_an_abortable_error(level: int, style: Style) -> None:
    """Safe Epoch Incrementing, 1 and 2: abort the transaction, request a bump with the current epoch, go on."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.begin(P)
    assert OK is producer.send(P, b"a")
    assert OUT_OF_ORDER is producer.send(P, b"lost", sequence=5)
    assert OK is producer.abort()
    assert OK is producer.init(producer.pair)
    producer.transact(P, b"b")
    assert [b"b"] == cluster.consumed(P)


@pytest.mark.parametrize(
    ("level", "style", "again"),
    [(0, OLD, False), (1, OLD, False), (1, NEW, False), (2, OLD, True), (2, NEW, True)],
    ids=str,
)
def test_with_a_transaction_open(level: int, style: Style, again: bool) -> None:
    """Safe Epoch Incrementing: with its transaction open the owner is asked to come again, once it is aborted.

    As in Kafka it has fenced itself; only at level 2 the broker knows it again by the epoch before the bump.
    """
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.begin(P)
    producer.send(P)
    x = producer.pair
    assert (ErrorCode.CONCURRENT_TRANSACTIONS, None) == producer.init_answer(x)
    assert ["0:data@0", "1:ABORT@1"] == cluster.log(P)
    expected = (OK, (x[0], 1)) if again else (FENCED, None)
    assert [expected, expected] == [producer.init_answer(x), producer.init_answer(x)]


@pytest.mark.parametrize("outcome", ["commit", "abort", "timeout", "fence"])
@FAILOVER
def test_the_epoch_before_the_bump_of_a_transaction_is_a_last_epoch_too(outcome: str, failover: bool) -> None:
    """Safe Epoch Incrementing, 2b: at level 2 the end of a transaction bumps, and its retry is told as well."""
    cluster = Cluster(2)
    producer = Producer.started(cluster, NEW)
    x = producer.pair
    producer.send(P)
    if outcome == "timeout":
        cluster.world.advance(producer.timeout_ms + 20_000)
    elif outcome == "fence":
        Producer(cluster, NEW).init()
    else:
        assert OK is producer.end(outcome == "commit")[0]
    if failover:
        fail_over(cluster)
    for _ in range(2):
        assert (OK, (x[0], 1)) == producer.init_answer(x)


# ---------------------------------------------------------------------- InvalidProducerIdMapping


@every_client
@WITH_A_PAIR
def test_expired_and_no_mapping(level: int, style: Style, version: int) -> None:
    """InvalidProducerIdMapping, 2: no mapping exists, so a new producer id is generated for the provided pair."""
    cluster = Cluster(level, **EXPIRING)
    producer = Producer.started(cluster, style)
    producer.transact(P, b"a")
    old = producer.pair
    cluster.world.advance(EXPIRY_MS + 20_000)
    assert ErrorCode.INVALID_PRODUCER_ID_MAPPING is producer.send(P)
    assert OK is producer.init(old, version=version)
    assert 0 == producer.epoch
    assert old[0] != producer.pair[0]
    producer.transact(P, b"b")
    assert [b"a", b"b"] == cluster.consumed(P)


@every_client
@WITH_A_PAIR
def test_expired_and_another_mapping(level: int, style: Style, version: int) -> None:
    """InvalidProducerIdMapping, 3: a different producer id has been assigned, so this producer is fenced in effect."""
    cluster = Cluster(level, **EXPIRING)
    producer = Producer.started(cluster, style)
    producer.transact(P)
    cluster.world.advance(EXPIRY_MS + 20_000)
    newer = Producer.started(cluster, style)
    assert newer.pair[0] != producer.pair[0]
    assert (fenced_as(version), None) == producer.init_answer(producer.pair, version=version)


@every_level
def test_an_open_transaction_keeps_its_id_from_expiring(level: int) -> None:
    """InvalidProducerIdMapping: only an id that nobody uses expires."""
    cluster = Cluster(level, **EXPIRING)
    producer = Producer.started(cluster, OLD, timeout_ms=10 * EXPIRY_MS)
    producer.begin(P)
    producer.send(P, b"a")
    cluster.world.advance(2 * EXPIRY_MS)
    assert OK is producer.send(P, b"b")
    assert OK is producer.commit()
    assert [b"a", b"b"] == cluster.consumed(P)


# ---------------------------------------------------------------------- Prolonged producer state retention


def delete_everything(cluster: Cluster, partition: tuple[str, int]) -> None:
    """DeleteRecords up to the high watermark."""
    topic = DeleteRecordsTopic(name=partition[0], partitions=[DeleteRecordsPartition(partition[1], -1)])
    response = cluster.ask(cluster.leader(partition), DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
    assert OK == response.topics[0].partitions[0].error_code


@every_client
def test_state_is_retained_when_the_log_is_gone(level: int, style: Style) -> None:
    """Prolonged retention: the cached state is retained even after it has been removed from the log."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.transact(P, b"a")
    delete_everything(cluster, P)
    assert [producer.pair] == [(each.producer_id, each.producer_epoch) for each in cluster.producers(P)]
    producer.begin(P)
    assert OUT_OF_ORDER is producer.send(P, sequence=7)
    assert OK is producer.send(P, b"b")
    assert OK is producer.commit()
    assert [b"b"] == cluster.values(P, offset=2)


def test_a_duplicate_is_told_when_the_log_is_gone() -> None:
    """Prolonged retention: so a retry of what was deleted meanwhile is a duplicate still."""
    cluster = Cluster()
    producer = Producer(cluster, OLD)
    producer.pair = (4711, 0)
    assert 0 == producer.produce(P, b"a", transactional=False).base_offset
    delete_everything(cluster, P)
    again = producer.produce(P, b"a", transactional=False, sequence=0)
    assert (OK, 0) == (again.error_code, again.base_offset)
    assert [] == cluster.values(P, offset=1)


@every_client
def test_state_is_removed_when_its_time_has_passed(level: int, style: Style) -> None:
    """Prolonged retention: it is removed only after the expiration time, Kafka's producer.id.expiration.ms."""
    cluster = Cluster(level, **EXPIRING)
    producer = Producer.started(cluster, style)
    producer.transact(P)
    cluster.world.advance(EXPIRY_MS - 20_000)
    assert [producer.pair[0]] == [each.producer_id for each in cluster.producers(P)]
    cluster.world.advance(40_000)
    assert [] == cluster.producers(P)


@every_client
def test_the_state_of_an_open_transaction_is_never_removed(level: int, style: Style) -> None:
    """Prolonged retention: a transaction that is open keeps its producer."""
    cluster = Cluster(level, **EXPIRING)
    producer = Producer.started(cluster, style, timeout_ms=10 * EXPIRY_MS)
    producer.begin(P)
    producer.send(P)
    cluster.world.advance(2 * EXPIRY_MS)
    assert [0] == [each.current_txn_start_offset for each in cluster.producers(P)]


@pytest.mark.parametrize("version", range(3, 14))
def test_unknown_producer_id_is_not_answered(version: int) -> None:
    """Prolonged retention: should the state be missing all the same, that is not an error any more."""
    cluster = Cluster()
    producer = Producer(cluster, OLD)
    producer.pair = (4711, 3)
    assert OK is producer.send(P, transactional=False, sequence=9, version=version)


# ---------------------------------------------------------------------- the idempotent producer


def test_an_idempotent_producer_bumps_its_epoch_itself() -> None:
    """Safe Epoch Incrementing: its producer id is unique, so it bumps locally, and begins at sequence 0 again."""
    cluster = Cluster()
    producer = Producer(cluster, OLD)
    producer.pair = (4711, 0)
    assert [OK, OK] == [producer.send(P, value, transactional=False) for value in (b"a", b"b")]
    assert OUT_OF_ORDER is producer.send(P, transactional=False, sequence=9)
    assert OUT_OF_ORDER is producer.send(P, transactional=False, pair=(4711, 1), sequence=2)
    assert OK is producer.send(P, b"c", transactional=False, pair=(4711, 1), sequence=0)
    assert ErrorCode.INVALID_PRODUCER_EPOCH is producer.send(P, transactional=False, sequence=2)
    assert [b"a", b"b", b"c"] == cluster.values(P)


# ---------------------------------------------------------------------- Public Interfaces


@every_level
@WITH_A_PAIR
@pytest.mark.parametrize("pair", [(5, -1), (-1, 5)])
@pytest.mark.parametrize("tid", ["x", None])
def test_one_without_the_other_is_no_request(level: int, version: int, pair: tuple[int, int], tid: str | None) -> None:
    """Public Interfaces: if either producer id or epoch is -1 and the other is not, INVALID_REQUEST."""
    cluster = Cluster(level)
    request = InitProducerIdRequest(
        transactional_id=tid, transaction_timeout_ms=1000, producer_id=pair[0], producer_epoch=pair[1]
    )
    response = cluster.ask(1, request, version)
    assert (ErrorCode.INVALID_REQUEST, -1, -1) == (
        response.error_code,
        response.producer_id,
        response.producer_epoch,
    )


@every_level
def test_without_a_transactional_id_every_call_gives_a_new_producer_id(level: int) -> None:
    """Public Interfaces: the pair is for transactional ids; without one it is ignored, as is the timeout."""
    cluster = Cluster(level)
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0, producer_id=5, producer_epoch=3)
    answers = [cluster.ask(1, request, 5) for _ in range(3)]
    assert {(OK, 0)} == {(each.error_code, each.producer_epoch) for each in answers}
    assert 3 == len({each.producer_id for each in answers})


@pytest.mark.parametrize(("level", "stored"), [(0, []), (1, [0, 0]), (2, [0, 0])])
def test_the_last_epoch_is_stored(level: int, stored: list[int]) -> None:
    """Public Interfaces: the transaction state has the last epoch, from the pair provided; Kafka has no field for it.

    It is kept in a tagged field of our own, which Kafka's readers skip.
    """
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    assert OK is producer.init(producer.pair)
    producer.begin(Q)
    found = [
        int.from_bytes(data, "big")
        for each in cluster.transaction_log("x")
        if each.value is not None
        for tag, data in each.value.unknown_tagged_fields
        if tag == LAST_EPOCH_TAG
    ]
    assert stored == found
    assert OK is producer.end(ABORT)[0]
