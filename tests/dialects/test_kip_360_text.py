"""The dialect kip-360-text: a test for each sentence of KIP-360 that a broker, or its client, has to keep."""

from __future__ import annotations

from typing import Any

import pytest
from tests.dialects.steps import Player
from tests.kips.helpers import EPOCH_LAST, OK, Cluster, P, Producer, Q, Style

from odradek.records.record import iterate_records
from odradek.records.state import decode_key
from odradek.releases.dialects.kip_360_text.producer import AbortableError, TextProducer
from odradek.releases.dialects.kip_360_text.tables import decode
from odradek.releases.dialects.load import load
from odradek.releases.dialects.producer import Pair, Refusal
from odradek.sim.model.reader import committed_values
from odradek.txn.entry import Entry, decode_entry, encode_entry
from odradek.txn.states import TxnState
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.apis import INIT_PRODUCER_ID, PRODUCE
from odradek.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.transaction_log_key import TransactionLogKey
from odradek.wire.registry import ApiKey

TEXT = load("kip-360-text")
STYLE = Style("text", produce=8, end=1, offsets=3, add=1, init=3)
FAILOVER = pytest.mark.parametrize("failover", [False, True], ids=["same-coordinator", "failover"])
STALE, UNKNOWN, OUT_OF_ORDER = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
)
NONE: Pair = (-1, -1)
EXPIRY_MS = 60_000
EXPIRING: dict[str, Any] = {
    "transactional_id_expiration_ms": EXPIRY_MS,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 10_000,
    "producer_id_expiration_check_interval_ms": 10_000,
}


def cluster_of(**how: object) -> Cluster:
    return Cluster(0, dialect=TEXT, **how)  # type: ignore[arg-type]


def started(*, epoch: int = 0, **how: object) -> tuple[Cluster, Producer]:
    cluster = cluster_of(**how)
    return cluster, Producer.started(cluster, STYLE, epoch=epoch)


def client(cluster: Cluster, tid: str | None = "x", **how: object) -> tuple[Player, TextProducer]:
    """The producer of the text, which has its id."""
    player = Player(cluster, tid, kind=TextProducer, level=0, **how)
    core = player.core
    assert isinstance(core, TextProducer)
    player.do(core.init())
    return player, core


def written(cluster: Cluster) -> list[bytes]:
    """The values of the id in the log, as they are."""
    topic, index = cluster.log_of("x")
    partition = cluster.node(cluster.leader((topic, index))).partitions[topic, index]
    found = []
    for batch in partition.log.batches():
        for record in iterate_records(batch):
            key = decode_key(record.key or b"", TransactionLogKey)
            if key is not None and key.transactional_id == "x" and record.value is not None:
                found.append(bytes(record.value))
    return found


def last_pair(cluster: Cluster) -> Pair:
    """LastProducerId and LastEpoch of the latest value."""
    entry = decode("x", written(cluster)[-1])
    assert entry is not None
    return entry.previous_producer_id, entry.last_producer_epoch


def entry_of(cluster: Cluster) -> Entry:
    entry = decode("x", written(cluster)[-1])
    assert entry is not None
    return entry


def delete_everything(cluster: Cluster, partition: tuple[str, int]) -> None:
    """DeleteRecords up to the high watermark."""
    topic = DeleteRecordsTopic(name=partition[0], partitions=[DeleteRecordsPartition(partition[1], -1)])
    response = cluster.ask(cluster.leader(partition), DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
    assert OK == response.topics[0].partitions[0].error_code


def lose_state(cluster: Cluster, partition: tuple[str, int]) -> None:
    """The records are deleted, and the next leader is a new replica: it knows only producers that are in the log."""
    delete_everything(cluster, partition)
    cluster.node(cluster.leader(partition)).partitions[partition].log.snapshots.clear()
    cluster.move(partition)


def remaining(cluster: Cluster, partition: tuple[str, int]) -> list[bytes | None]:
    """What a read_committed consumer sees of what has not been deleted."""
    start = cluster.node(cluster.leader(partition)).partitions[partition].log_start_offset
    return committed_values(cluster.fetched(partition, offset=start))


def failed_over(cluster: Cluster, failover: bool) -> None:
    if failover:
        cluster.move(cluster.log_of("x"))


# ---------------------------------------------------------------------- Motivation


@pytest.mark.parametrize("transactional", [True, False])
def test_state_that_is_lost_is_unknown_producer_id(transactional: bool) -> None:
    """Motivation: when the broker loses the state of a producer, it answers more of it with UNKNOWN_PRODUCER_ID."""
    cluster, producer = started()
    producer.begin(P)
    assert [OK, OK] == [producer.send(P, value, transactional=transactional) for value in (b"a", b"b")]
    lose_state(cluster, P)
    assert UNKNOWN is producer.send(P, b"c", transactional=transactional)
    assert [b"a", b"b"] != [*cluster.values(P, offset=2), b"c"]


def test_a_producer_that_nobody_knows_begins_at_0() -> None:
    """Rejected Alternatives: without state new messages are accepted only as long as they begin with sequence 0."""
    _, producer = started()
    producer.begin(P)
    assert UNKNOWN is producer.send(P, b"a", sequence=1)
    assert OK is producer.send(P, b"a", sequence=0)
    assert OUT_OF_ORDER is producer.send(P, b"a", sequence=5)


def test_a_marker_alone_says_nothing_of_sequences() -> None:
    """Chosen: where only a marker of the producer is left, its sequences are lost as well."""
    cluster, producer = started()
    producer.begin(P)
    assert OK is cluster.write_marker(P, producer.pair, True, version=1)
    assert UNKNOWN is producer.send(P, b"a", sequence=3)
    assert OK is producer.send(P, b"a", sequence=0)


# ---------------------------------------------------------------------- Safe Epoch Incrementing: the client


def test_the_way_out_of_unknown_producer_id() -> None:
    """1 to 4: ABORTABLE_ERROR, from which only an abort leads; a bump with the current epoch; sequences from 0."""
    cluster = cluster_of()
    player, core = client(cluster)
    player.do(core.send(*P, b"a"))
    player.do(core.end(commit=True))
    player.do(core.send(*P, b"b"))
    lose_state(cluster, P)
    inits = cluster.watch(ApiKey.INIT_PRODUCER_ID)
    with pytest.raises(AbortableError, match="UNKNOWN_PRODUCER_ID"):
        player.do(core.send(*P, b"c"))
    for steps in (core.send(*P, b"d"), core.add([Q]), core.commit_offsets("g", {P: 1}), core.end(commit=True)):
        with pytest.raises(AbortableError):
            player.do(steps)
    before = core.pair
    player.do(core.end(commit=False))
    assert [before] == [
        (call.request_of(INIT_PRODUCER_ID).producer_id, call.request_of(INIT_PRODUCER_ID).producer_epoch)
        for call in inits
    ]
    assert (before[0], before[1] + 1) == core.pair
    player.do(core.send(*P, b"e"))
    player.do(core.end(commit=True))
    assert [b"e"] == remaining(cluster, P)


def test_a_producer_that_was_fenced_cannot_bump() -> None:
    """3: if another producer has bumped the epoch, this will result in a fatal INVALID_PRODUCER_EPOCH error."""
    cluster = cluster_of()
    player, core = client(cluster)
    player.do(core.send(*P, b"a"))
    lose_state(cluster, P)
    with pytest.raises(AbortableError):
        player.do(core.send(*P, b"b"))
    client(cluster)
    with pytest.raises(Refusal, match="INVALID_PRODUCER_EPOCH") as refusal:
        player.do(core.end(commit=False))
    assert refusal.value.is_fatal
    with pytest.raises(RuntimeError, match="only another one can go on"):
        player.do(core.init())


@pytest.mark.parametrize("reply_only", [False, True])
def test_a_bump_is_retried_over_a_failover(reply_only: bool) -> None:
    """The text: the producer may fail to receive the response, and in the worst case a retry spans a failover."""
    cluster, producer = started()
    before = producer.pair
    cluster.lose(ApiKey.INIT_PRODUCER_ID, times=1, reply_only=reply_only)
    with pytest.raises(ConnectionError):
        producer.init(before)
    cluster.move(cluster.log_of("x"))
    assert (OK, (before[0], before[1] + 1)) == producer.init_answer(before)


# ---------------------------------------------------------------------- Safe Epoch Incrementing: the coordinator


def test_1a_the_first_call_gives_a_new_producer_id() -> None:
    """1a: without a current producer id, generate a new one and set epoch 0."""
    cluster, producer = started()
    assert 0 == producer.epoch
    assert NONE == last_pair(cluster)


def test_1b_another_call_bumps_the_epoch() -> None:
    """1b i: bump the epoch; the last producer id and epoch will be set to empty."""
    cluster, producer = started()
    x = producer.pair[0]
    assert OK is producer.init((x, 0))
    assert (x, 0) == last_pair(cluster)
    assert (OK, (x, 2)) == producer.init_answer()
    assert NONE == last_pair(cluster)
    assert (STALE, None) == producer.init_answer((x, 1))


def test_1b_an_overflow_gives_another_producer_id() -> None:
    """1b ii: a new producer id with epoch 0; the last producer id and epoch will be set to empty."""
    cluster, producer = started(epoch=EPOCH_LAST)
    x = producer.pair
    assert OK is producer.init()
    assert 0 == producer.epoch
    assert producer.pair[0] != x[0]
    assert NONE == last_pair(cluster)
    assert (STALE, None) == producer.init_answer(x)


def test_2a_the_current_pair_is_bumped() -> None:
    """2a i: the last producer id and epoch will be set to the previous ones."""
    cluster, producer = started()
    x = producer.pair[0]
    for epoch in (0, 1):
        assert (OK, (x, epoch + 1)) == producer.init_answer((x, epoch))
        assert (x, epoch) == last_pair(cluster)


def test_2a_an_overflow_gives_another_producer_id() -> None:
    """2a ii: generate a new producer id with epoch 0; the last ones will be set to the old ones."""
    cluster, producer = started(epoch=EPOCH_LAST)
    x = producer.pair
    assert OK is producer.init(x)
    assert 0 == producer.epoch
    assert x == last_pair(cluster)


@pytest.mark.parametrize("epoch", [0, 7, EPOCH_LAST - 1, EPOCH_LAST])
@FAILOVER
def test_2b_the_last_pair_is_answered_the_current_one(epoch: int, failover: bool) -> None:
    """2b: the provided pair matches the last one: the current one will be returned; a retry may span a failover."""
    cluster, producer = started(epoch=epoch)
    before = producer.pair
    assert OK is producer.init(before)
    for _ in range(3):
        failed_over(cluster, failover)
        assert (OK, producer.pair) == producer.init_answer(before)
        assert before == last_pair(cluster)


@FAILOVER
def test_2b_a_late_retry_leaves_the_open_transaction(failover: bool) -> None:
    """2b: nothing but the current pair is returned: a retry that comes late ends no transaction."""
    cluster, producer = started()
    before = producer.pair
    assert OK is producer.init(before)
    producer.begin(P)
    assert OK is producer.send(P, b"a")
    failed_over(cluster, failover)
    assert (OK, producer.pair) == producer.init_answer(before)
    assert TxnState.ONGOING is entry_of(cluster).state
    assert OK is producer.commit()
    assert [b"a"] == cluster.consumed(P)


@pytest.mark.parametrize("is_open", [False, True], ids=["resting", "open"])
@FAILOVER
def test_2c_anything_else_is_refused(is_open: bool, failover: bool) -> None:
    """2c: else INVALID_PRODUCER_EPOCH; a transaction that is open is none of the business of who is refused."""
    cluster, producer = started(epoch=7)
    x = producer.pair[0]
    if is_open:
        producer.begin(P)
        assert OK is producer.send(P, b"a")
    failed_over(cluster, failover)
    for pair in ((x, 5), (x, 6), (x, 8), (x + 1, 7), (x + 1000, 7), (x + 1, EPOCH_LAST)):
        assert (STALE, None) == producer.init_answer(pair)
    if is_open:
        assert OK is producer.commit()
        assert [b"a"] == cluster.consumed(P)
    else:
        assert (OK, (x, 8)) == producer.init_answer((x, 7))


def test_2c_at_the_end_of_epochs() -> None:
    """2c: also where no epoch is left, which Kafka answers UNKNOWN_SERVER_ERROR."""
    _, producer = started(epoch=EPOCH_LAST)
    assert (STALE, None) == producer.init_answer((producer.pair[0], 3))


def test_a_rotation_is_forgotten_when_its_owner_goes_on() -> None:
    """Chosen: with the next transaction the last pair of a rotation is empty, for its owner has heard of the new id."""
    cluster, producer = started(epoch=EPOCH_LAST)
    before = producer.pair
    assert OK is producer.init(before)
    producer.transact(P)
    assert NONE == last_pair(cluster)
    assert (STALE, None) == producer.init_answer(before)


# ---------------------------------------------------------------------- InvalidProducerIdMapping


def test_an_id_that_has_expired_goes_on() -> None:
    """1, 2: the producer asks with its pair; no mapping exists: it gets a new id, and continues after an abort."""
    cluster = cluster_of(**EXPIRING)
    player, core = client(cluster)
    player.do(core.send(*P, b"a"))
    player.do(core.end(commit=True))
    old = core.pair
    cluster.world.advance(EXPIRY_MS + 20_000)
    with pytest.raises(AbortableError, match="INVALID_PRODUCER_ID_MAPPING"):
        player.do(core.send(*P, b"lost"))
    player.do(core.end(commit=False))
    assert (True, 0) == (core.pair[0] != old[0], core.pair[1])
    player.do(core.send(*P, b"b"))
    player.do(core.end(commit=True))
    assert [b"a", b"b"] == cluster.consumed(P)


def test_an_id_that_another_one_has_by_now_is_fenced() -> None:
    """3: if a different producer id has been assigned: INVALID_PRODUCER_EPOCH, "there is a newer producer"."""
    cluster = cluster_of(**EXPIRING)
    player, core = client(cluster)
    cluster.world.advance(EXPIRY_MS + 20_000)
    client(cluster)
    with pytest.raises(AbortableError, match="INVALID_PRODUCER_ID_MAPPING"):
        player.do(core.send(*P, b"lost"))
    with pytest.raises(Refusal, match="INVALID_PRODUCER_EPOCH"):
        player.do(core.end(commit=False))


# ---------------------------------------------------------------------- Prolonged producer state retention


def test_state_is_retained_when_the_log_is_gone() -> None:
    """The text: Retain the cached producer state even after it has been removed from the log."""
    cluster, producer = started()
    producer.transact(P, b"a")
    delete_everything(cluster, P)
    assert [producer.pair] == [(each.producer_id, each.producer_epoch) for each in cluster.producers(P)]
    producer.begin(P)
    assert OK is producer.send(P, b"b")


def test_state_is_removed_with_the_transactional_id() -> None:
    """The text: remove it only when the transactional id expiration time has passed; no other time counts."""
    cluster, producer = started(producer_id_expiration_ms=1_000, **EXPIRING)
    producer.transact(P)
    cluster.world.advance(EXPIRY_MS - 20_000)
    assert [producer.pair[0]] == [each.producer_id for each in cluster.producers(P)]
    cluster.world.advance(40_000)
    assert [] == cluster.producers(P)


def test_a_new_leader_that_does_not_know_it_is_no_end() -> None:
    """The text: These edge cases are not fatal for the producer, for it can bump its epoch now."""
    cluster = cluster_of(brokers=2)
    player, core = client(cluster)
    player.do(core.send(*P, b"a"))
    player.do(core.end(commit=True))
    lose_state(cluster, P)
    cluster.move(P, 3 - cluster.leader(P))
    with pytest.raises(AbortableError, match="UNKNOWN_PRODUCER_ID"):
        player.do(core.send(*P, b"b"))
    player.do(core.end(commit=False))
    player.do(core.send(*P, b"c"))
    player.do(core.end(commit=True))
    assert [b"c"] == remaining(cluster, P)


# ---------------------------------------------------------------------- Simplified error handling


def test_a_batch_keeps_its_epoch_and_sequence() -> None:
    """1: assignment is permanent: a batch whose answer is lost is sent again as it was, and is there once."""
    cluster = cluster_of()
    player, core = client(cluster)
    sent = cluster.watch(ApiKey.PRODUCE)
    cluster.lose(ApiKey.PRODUCE, times=1, reply_only=True)
    assert 0 == player.do(core.send(*P, b"a"))
    assert 1 == player.do(core.send(*P, b"b"))
    batches = [call.request_of(PRODUCE).topic_data[0].partition_data[0].records for call in sent]
    first, again, _ = [bytes(records or b"") for records in batches]
    assert first == again
    player.do(core.end(commit=True))
    assert [b"a", b"b"] == cluster.consumed(P)


def test_a_fatal_error_fails_the_batches_behind_it() -> None:
    """2: all subsequent batches with a sequence fail; what came before it is delivered, in order."""
    cluster = cluster_of()
    player, core = client(cluster)
    player.do(core.send(*P, b"a"))
    calls = cluster.watch(ApiKey.PRODUCE)
    cluster.answer(ApiKey.PRODUCE, _too_large, times=1)
    came = player.do(core.send_all(*P, [b"b"], [b"c"], [b"d"]))
    assert [ErrorCode.MESSAGE_TOO_LARGE] * 3 == came
    assert 1 == len(calls)
    player.do(core.end(commit=False))
    assert (core.pair[1], {}) == (1, core.sequences)
    player.do(core.send(*P, b"e"))
    player.do(core.end(commit=True))
    assert [b"e"] == cluster.consumed(P)
    assert [b"a", b"e"] == cluster.values(P)


def _too_large(call: object) -> object:
    from odradek.wire.messages.produce_response import (
        PartitionProduceResponse,
        ProduceResponse,
        TopicProduceResponse,
    )

    answer = PartitionProduceResponse(index=P[1], error_code=ErrorCode.MESSAGE_TOO_LARGE, base_offset=-1)
    return ProduceResponse(responses=[TopicProduceResponse(name=P[0], partition_responses=[answer])])


def test_an_idempotent_producer_bumps_its_epoch_itself() -> None:
    """The text: If the user continues, the epoch will be bumped locally and the sequence number will be reset."""
    cluster = cluster_of()
    player, core = client(cluster, None)
    assert [0, 1] == player.do(core.send_all(*P, [b"a"], [b"b"]))
    lose_state(cluster, P)
    with pytest.raises(AbortableError, match="UNKNOWN_PRODUCER_ID"):
        player.do(core.send(*P, b"c"))
    inits = cluster.watch(ApiKey.INIT_PRODUCER_ID)
    before = core.pair
    core.go_on()
    assert (before[0], before[1] + 1) == core.pair
    assert 2 == player.do(core.send(*P, b"d"))
    assert [] == inits


# ---------------------------------------------------------------------- Public Interfaces


def test_init_producer_id_has_a_new_version() -> None:
    """The text: We will bump the InitProducerId API; nothing else is."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    told = {each.api_key: each.max_version for each in cluster_of().ask(1, request, 3).api_keys}
    assert (3, 1, 4, 8) == tuple(
        told[key] for key in (ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE)
    )


@pytest.mark.parametrize("pair", [(7, -1), (-1, 7)], ids=str)
def test_half_a_pair_is_invalid(pair: Pair) -> None:
    """The text: if either is initialized to -1 and the other is not, INVALID_REQUEST."""
    cluster, _ = started()
    request = InitProducerIdRequest(
        transactional_id="x", transaction_timeout_ms=1000, producer_id=pair[0], producer_epoch=pair[1]
    )
    assert ErrorCode.INVALID_REQUEST == cluster.ask(cluster.coordinator("x"), request, 3).error_code


def test_the_value_is_printed_as_it_is_written() -> None:
    """The transaction state message: version 1, all fields plain, in this order."""
    cluster, producer = started()
    assert OK is producer.init(producer.pair)
    producer.begin(P)
    value = written(cluster)[-1]
    entry = entry_of(cluster)
    expected = b"".join(
        [
            _int(1, 2),  # Version
            _int(producer.pair[0], 8),  # ProducerId
            _int(producer.pair[0], 8),  # LastProducerId
            _int(1, 2),  # CurrentEpoch
            _int(0, 2),  # LastEpoch
            _int(60_000, 4),  # TxnTimeoutDuration
            _int(TxnState.ONGOING, 1),  # TxnStatus
            _int(1, 4) + _int(1, 2) + b"t" + _int(1, 4) + _int(P[1], 4),  # TxnPartitions
            _int(entry.last_update_timestamp, 8),
            _int(entry.start_timestamp, 8),
        ]
    )
    assert expected == value


def _int(value: int, size: int) -> bytes:
    return int(value).to_bytes(size, "big", signed=True)


def test_a_value_from_before_is_read() -> None:
    """Compatibility: version 0 has no last pair."""
    old = Entry(
        transactional_id="x",
        producer_id=7,
        producer_epoch=3,
        timeout_ms=1,
        state=TxnState.ONGOING,
        last_update_timestamp=5,
        start_timestamp=4,
        partitions=(P,),
    )
    assert old == decode("x", encode_entry(old, 0))


@pytest.mark.parametrize("data", [b"", b"\0\2rest", b"\0\1short"], ids=["empty", "version 2", "short"])
def test_a_value_that_is_none_is_skipped(data: bytes) -> None:
    """A log must load whatever it holds."""
    assert decode("x", data) is None


def test_kafka_cannot_read_the_value() -> None:
    """What the text gets wrong: Kafka's own version 1 came later, with another layout under the same number."""
    cluster, producer = started()
    producer.transact(P)
    mine = entry_of(cluster)
    assert [mine] != [decode_entry("x", written(cluster)[-1])]


# ---------------------------------------------------------------------- Compatibility


def test_an_older_producer_may_reset_its_sequences() -> None:
    """The text: existing producers, which reset the sequence to 0 and continue in the same epoch, work on."""
    cluster, producer = started()
    producer.begin(P)
    assert OK is producer.send(P, b"a")
    lose_state(cluster, P)
    assert UNKNOWN is producer.send(P, b"b")
    assert OK is producer.send(P, b"b", sequence=0)


def test_with_an_older_broker_there_is_no_bump() -> None:
    """The text: After the transaction is aborted, we will reset the sequence number to 0 and continue."""
    cluster = cluster_of()
    player, core = client(cluster, versions={ApiKey.INIT_PRODUCER_ID: 2})
    player.do(core.send(*P, b"a"))
    lose_state(cluster, P)
    with pytest.raises(AbortableError):
        player.do(core.send(*P, b"b"))
    before = core.pair
    player.do(core.end(commit=False))
    assert (before, {}) == (core.pair, core.sequences)
