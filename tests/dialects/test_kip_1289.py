"""The dialect kip-1289: acknowledgements of a share group inside a transaction, and what the draft gets wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.dialects.sharing import GROUP, LOCK_MS, SETTLED_MS, TEXT, Shop, T
from tests.dialects.steps import AUTHORIZER, everybody_may
from tests.kips.helpers import ABORT, COMMIT, OK
from tests.security.permissions import DENY, READ, TOPIC, TRANSACTIONAL_ID, WRITE, acl
from tests.security.permissions import GROUP as GROUP_RESOURCE

from odradek.faults.one_line import rule
from odradek.records.record import iterate_records
from odradek.records.state import SHARE_RECORDS, decode_record, decode_value
from odradek.releases.dialects.load import load
from odradek.releases.dialects.share_consumer import ACCEPT, REJECT, RELEASE, SharedRecord
from odradek.share.state import Delivery, Staged
from odradek.sim import World
from odradek.testing.dialects import Refusal
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.read_share_group_state_response import (
    PartitionResult,
    ReadShareGroupStateResponse,
    ReadStateResult,
)
from odradek.wire.messages.share_snapshot_value import ShareSnapshotValue
from odradek.wire.messages.share_update_value import ShareUpdateValue
from odradek.wire.registry import ApiKey

OUTCOMES = pytest.mark.parametrize("outcome", [COMMIT, ABORT])
GAP, RENEW = 0, 4
AVAILABLE, ACKNOWLEDGED, ARCHIVED = Delivery.AVAILABLE, Delivery.ACKNOWLEDGED, Delivery.ARCHIVED
TX_PENDING = Delivery.TX_PENDING


def values(records: list[SharedRecord]) -> list[bytes | None]:
    return [each.value for each in records]


# ---------------------------------------------------------------------- the request


def test_only_the_dialect_offers_it() -> None:
    """API 95 version 0 is in no release: without the dialect it is neither told nor served."""
    for dialect, unstable, told in ((TEXT, False, True), (None, False, False), (None, True, False)):
        world = World(topics=["t"], dialect=dialect, config={"unstable.api.versions.enable": str(unstable).lower()})
        keys = {each.api_key for each in world.client().ask(ApiVersionsRequest(), 0).api_keys}
        assert told == (ApiKey.TXN_SHARE_ACKNOWLEDGE in keys)
        served = world.nodes[1].router.handler(ApiKey.TXN_SHARE_ACKNOWLEDGE, 0, broker=True)
        assert told == (served is not None)


def test_it_goes_to_the_leader_of_the_records() -> None:
    """The producer sends it to the source partition's leader, not to the coordinator of its group, nor to that of its
    transactions, nor to that of the state.
    """
    shop = Shop(brokers=4)
    shop.poll(shop.member("first"))
    elsewhere = {1, 2, 3, 4} - {shop.cluster.leader(each) for each in shop.partitions_of_coordinators("x")}
    shop.cluster.move(T, min(elsewhere))
    member, producer = shop.member(), shop.producer()
    shop.stage(producer, member, *shop.poll(member))
    assert [(0, 0, TX_PENDING, 1)] == shop.states


def test_another_broker_is_not_the_leader() -> None:
    """A broker that does not lead the partition says so."""
    shop = Shop(brokers=2)
    member, producer = shop.member(), shop.producer()
    shop.poll(member)
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER is shop.error(producer, member, 0, 0, ACCEPT, to=3 - shop.cluster.leader(T))


def test_the_partition_of_the_state_is_in_the_transaction() -> None:
    """The leader adds the partitions of `__share_group_state` as plain partitions of the transaction."""
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    shop.stage(producer, member, *shop.poll(member))
    assert [shop.state_partition] == shop.cluster.described_partitions("x")


@pytest.mark.parametrize(
    "told",
    [
        {"transactional_id": None},
        {"transactional_id": ""},
        {"group_id": ""},
        {"member_id": ""},
        {"member_id": "m" * 37},
    ],
)
def test_a_request_without_names_is_refused(told: dict[str, Any]) -> None:
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    shop.poll(member)
    assert ErrorCode.INVALID_REQUEST is shop.error(producer, member, 0, 0, ACCEPT, **told)
    assert [] == shop.states


@pytest.mark.parametrize("kind", [RELEASE, RENEW, 5, -1])
def test_only_accept_reject_and_gap_are_staged(kind: int) -> None:
    """Staging a release or a renewal is refused, and changes nothing."""
    shop = Shop(b"a", b"b")
    member, producer = shop.member(), shop.producer()
    shop.poll(member)
    assert ErrorCode.INVALID_REQUEST is shop.error(producer, member, 0, 1, ACCEPT, kind)
    assert [] == shop.states
    assert [] == shop.cluster.described_partitions("x")
    assert OK is shop.error(producer, member, 0, 1, ACCEPT, GAP)


def test_batches_that_make_no_sense_are_refused() -> None:
    shop = Shop(b"a", b"b")
    member, producer = shop.member(), shop.producer()
    shop.poll(member)
    for first, last, types in ((1, 0, [ACCEPT]), (0, 1, [ACCEPT] * 3), (0, 0, [])):
        assert ErrorCode.INVALID_REQUEST is shop.error(producer, member, first, last, *types)


def test_it_needs_write_on_the_id_and_read_on_the_group_and_topic() -> None:
    shop = Shop(authorizer_class_name=AUTHORIZER, allow_everyone_if_no_acl_found="true")
    member, producer = shop.member(), shop.producer()
    shop.poll(member)
    needed = [(TOPIC, "t", READ), (GROUP_RESOURCE, GROUP, READ), (TRANSACTIONAL_ID, "x", WRITE)]
    errors = []
    for kind, name, operation in needed:
        everybody_may(shop.cluster, acl(kind, name, operation, permission=DENY))
        errors.append(shop.error(producer, member, 0, 0, ACCEPT))
    assert [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ] == errors


# ---------------------------------------------------------------------- how a transaction ends


@OUTCOMES
def test_records_are_staged_until_the_transaction_ends(outcome: bool) -> None:
    """ACQUIRED to TX_PENDING; a commit of accept makes ACKNOWLEDGED of it, an abort AVAILABLE."""
    shop = Shop(b"a", b"b")
    member, producer = shop.member(), shop.producer()
    shop.stage(producer, member, *shop.poll(member))
    assert [(0, 1, TX_PENDING, 1)] == shop.states
    assert [Staged(*producer.pair, ACKNOWLEDGED)] == [each.staged for each in shop.stored.batches]
    assert [] == shop.poll(member)
    shop.end(producer, commit=outcome)
    assert [(0, 1, ACKNOWLEDGED if outcome else AVAILABLE, 1)] == shop.states
    assert ([] if outcome else [b"a", b"b"]) == values(shop.poll(member))


def test_an_abort_uses_up_a_delivery() -> None:
    """The delivery count is not lowered by an abort."""
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    counts = []
    for _ in range(3):
        [record] = shop.poll(member)
        counts.append(record.count)
        shop.stage(producer, member, record)
        shop.end(producer, commit=ABORT)
    assert [1, 2, 3] == counts


@OUTCOMES
def test_a_rejection_archives_if_it_commits(outcome: bool) -> None:
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    shop.stage(producer, member, *shop.poll(member), kind=REJECT)
    shop.end(producer, commit=outcome)
    assert [(0, 0, ARCHIVED if outcome else AVAILABLE, 1)] == shop.states


@OUTCOMES
def test_a_rejection_goes_to_the_dead_letter_queue_if_it_commits(outcome: bool) -> None:
    """With a dead letter queue a commit of reject makes ARCHIVING of it, and the leader writes the dead letter."""
    shop = Shop(group={"errors.deadletterqueue.topic.name": "dlq.t"})
    member, producer = shop.member(), shop.producer()
    shop.stage(producer, member, *shop.poll(member), kind=REJECT)
    assert [Delivery.ARCHIVING] == [each.staged.outcome for each in shop.stored.batches if each.staged]
    shop.cluster.world.advance(SETTLED_MS)
    assert shop.cluster.node(1).image.topic("dlq.t") is None, "not before the end"
    shop.end(producer, commit=outcome)
    shop.cluster.world.advance(60_000)
    assert [(0, 0, ARCHIVED if outcome else AVAILABLE, 1)] == shop.states
    letters = shop.cluster.values(("dlq.t", 0)) if outcome else []
    assert ([None] if outcome else []) == letters


def test_a_later_leader_writes_the_dead_letter() -> None:
    """A leader that finds ARCHIVING after a move writes the dead letter, as of any rejection."""
    shop = Shop(brokers=2, group={"errors.deadletterqueue.topic.name": "dlq.t"})
    member, producer = shop.member(), shop.producer()
    shop.stage(producer, member, *shop.poll(member), kind=REJECT)
    held = shop.cluster.hold(ApiKey.READ_SHARE_GROUP_STATE)
    shop.end(producer, commit=COMMIT)
    assert [(0, 0, Delivery.ARCHIVING, 1)] == shop.states
    shop.cluster.move(T, 3 - shop.cluster.leader(T))
    shop.cluster.release(held)
    shop.poll(member)
    shop.cluster.world.advance(60_000)
    assert [(0, 0, ARCHIVED, 1)] == shop.states
    assert [None] == shop.cluster.values(("dlq.t", 0))


def test_a_part_of_the_records() -> None:
    """What is not in the request stays with its member, and comes to nobody by the end of the transaction."""
    shop = Shop(b"a", b"b", b"c", b"d")
    member, producer = shop.member(), shop.producer()
    records = shop.poll(member)
    shop.stage(producer, member, records[1])
    shop.stage(producer, member, records[2], kind=REJECT)
    shop.end(producer, commit=COMMIT)
    assert [(1, 1, ACKNOWLEDGED, 1), (2, 2, ARCHIVED, 1)] == shop.states
    member.acknowledge(records[0])
    member.acknowledge(records[3])
    assert {T: OK} == shop.do(member.commit())
    assert [(0, 1, ACKNOWLEDGED, 1), (2, 2, ARCHIVED, 1), (3, 3, ACKNOWLEDGED, 1)] == shop.states
    assert 4 == shop.stored.complete_count


def test_finished_records_are_counted() -> None:
    """The number of finished records, which is a group's lag, has those of the transaction from its marker on."""
    shop = Shop(b"a", b"b", b"c")
    member, producer = shop.member(), shop.producer()
    records = shop.poll(member)
    shop.stage(producer, member, *records[1:])
    assert 0 == shop.stored.complete_count
    shop.end(producer, commit=COMMIT)
    assert 2 == shop.stored.complete_count


def test_offsets_without_records_are_staged_as_gaps() -> None:
    """A consumer gives markers back as gaps, with the records around them."""
    shop = Shop()
    writer = shop.producer("writer")
    writer.do(writer.core.send(*T, b"b"))
    shop.end(writer, commit=COMMIT)
    member, producer = shop.member(), shop.producer()
    records = shop.poll(member)
    assert [b"a", b"b"] == values(records)
    shop.stage(producer, member, *records)
    assert [(0, 1, TX_PENDING, 1), (2, 2, TX_PENDING, 1)] == shop.states
    shop.end(producer, commit=COMMIT)
    assert [(0, 1, ACKNOWLEDGED, 1), (2, 2, ARCHIVED, 1)] == shop.states


# ---------------------------------------------------------------------- locks, members, sessions


def test_staging_ends_the_lock() -> None:
    """From then on the timeout of the transaction holds the record, which is longer."""
    shop = Shop()
    member, producer = shop.member(), shop.producer(timeout_ms=600_000)
    shop.stage(producer, member, *shop.poll(member))
    for _ in range(4):
        shop.cluster.world.advance(LOCK_MS)
        assert [] == shop.poll(shop.member())
    shop.end(producer, commit=COMMIT)
    assert [(0, 0, ACKNOWLEDGED, 1)] == shop.states


def test_staged_records_are_not_staged_again() -> None:
    """… and not acknowledged without the transaction either."""
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    [record] = shop.poll(member)
    shop.stage(producer, member, record)
    other = shop.producer("other")
    for tried in (producer, other):
        assert ErrorCode.INVALID_RECORD_STATE is shop.error(tried, member, 0, 0, ACCEPT)
    member.acknowledge(record)
    assert {T: ErrorCode.INVALID_RECORD_STATE} == shop.do(member.commit())
    shop.end(producer, commit=COMMIT)
    assert [(0, 0, ACKNOWLEDGED, 1)] == shop.states


def test_only_the_owner_stages() -> None:
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    shop.poll(member)
    assert ErrorCode.INVALID_RECORD_STATE is shop.error(producer, shop.member("thief"), 0, 0, ACCEPT)
    assert [] == shop.states


def test_a_lock_that_has_ended_stages_nothing() -> None:
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    shop.poll(member)
    shop.cluster.world.advance(LOCK_MS + 1)
    assert ErrorCode.INVALID_RECORD_STATE is shop.error(producer, member, 0, 0, ACCEPT)


def test_what_another_transaction_has_finished_is_not_acknowledged_again() -> None:
    """ShareAcknowledge passes over offsets before the start; a transaction would count the work of another one again.

    Found by `odradek sim --workload share-work --seed 49`.
    """
    shop = Shop()
    member, heir = shop.member(), shop.member("heir")
    shop.poll(member)
    shop.cluster.world.advance(LOCK_MS + 1)
    first, second = shop.producer("first"), shop.producer("second")
    shop.stage(second, heir, *shop.poll(heir))
    shop.end(second, commit=COMMIT)
    assert ErrorCode.INVALID_RECORD_STATE is shop.error(first, member, 0, 0, ACCEPT)


@pytest.mark.parametrize("away", [-2, -1, 1])
def test_the_member_epoch_is_checked(away: int) -> None:
    """A stale epoch is refused, and so is one of the future."""
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    shop.poll(member)
    error = shop.error(producer, member, 0, 0, ACCEPT, member_epoch=member.epoch + away)
    assert ErrorCode.STALE_MEMBER_EPOCH is error
    assert [] == shop.states


def test_a_member_that_is_not_there_is_refused() -> None:
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    shop.poll(member)
    assert ErrorCode.UNKNOWN_MEMBER_ID is shop.error(producer, member, 0, 0, ACCEPT, member_id="other")
    assert ErrorCode.GROUP_ID_NOT_FOUND is shop.error(producer, member, 0, 0, ACCEPT, group_id="other")


@OUTCOMES
def test_a_member_that_leaves_takes_nothing_with_it(outcome: bool) -> None:
    """The member is looked at when records are staged, never at the marker; the end of its session releases others."""
    shop = Shop(b"a", b"b")
    member, producer, heir = shop.member(), shop.producer(), shop.member("heir")
    records = shop.poll(member)
    shop.stage(producer, member, records[0])
    shop.do(member.leave())
    shop.do(heir.heartbeat())
    assert [b"b"] == values(shop.poll(heir))
    shop.end(producer, commit=outcome)
    assert ([] if outcome else [b"a"]) == values(shop.poll(heir))


def test_a_member_that_expires_takes_nothing_with_it() -> None:
    shop = Shop()
    member, producer = shop.member(), shop.producer(timeout_ms=600_000)
    shop.stage(producer, member, *shop.poll(member))
    shop.cluster.world.advance(120_000)
    heir = shop.member("heir")
    assert [] == shop.poll(heir)
    shop.end(producer, commit=ABORT)
    assert [b"a"] == values(shop.poll(heir))


# ---------------------------------------------------------------------- producers


def test_a_marker_of_another_transaction_settles_nothing() -> None:
    """Neither that of another id, nor one of an earlier epoch."""
    shop = Shop(b"a", b"b")
    member, producer, other = shop.member(), shop.producer(), shop.producer("other")
    first, second = shop.poll(member)
    shop.stage(producer, member, first)
    shop.stage(other, member, second)
    assert [shop.state_partition] == shop.cluster.described_partitions("other")
    shop.end(other, commit=COMMIT)
    assert [(0, 0, TX_PENDING, 1), (1, 1, ACKNOWLEDGED, 1)] == shop.states
    shop.end(producer, commit=ABORT)
    assert [(0, 0, AVAILABLE, 1), (1, 1, ACKNOWLEDGED, 1)] == shop.states


def test_an_older_marker_is_not_even_written() -> None:
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    former = producer.pair
    producer.do(producer.core.init(pair=former))
    assert producer.pair > former
    shop.stage(producer, member, *shop.poll(member))
    error = shop.cluster.write_marker(shop.state_partition, former, COMMIT, transaction_version=2)
    assert ErrorCode.INVALID_PRODUCER_EPOCH is error
    assert [(0, 0, TX_PENDING, 1)] == shop.states


def test_a_fenced_producer_stages_nothing() -> None:
    """As of AddPartitionsToTxn: an older epoch is INVALID_PRODUCER_EPOCH; the record stays with its member."""
    shop = Shop()
    member, former = shop.member(), shop.producer()
    shop.poll(member)
    owner = shop.producer()
    assert ErrorCode.INVALID_PRODUCER_EPOCH is shop.error(former, member, 0, 0, ACCEPT)
    other = shop.producer("other")
    wrong_id = shop.error(owner, member, 0, 0, ACCEPT, producer_id=other.pair[0])
    assert ErrorCode.INVALID_PRODUCER_ID_MAPPING is wrong_id
    assert [] == shop.states
    assert OK is shop.error(owner, member, 0, 0, ACCEPT)


def test_a_new_instance_aborts_what_was_staged() -> None:
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    shop.stage(producer, member, *shop.poll(member))
    shop.producer()
    shop.cluster.world.advance(SETTLED_MS)
    assert [(0, 0, AVAILABLE, 1)] == shop.states
    assert [b"a"] == values(shop.poll(member))
    with pytest.raises(Refusal):
        shop.end(producer, commit=COMMIT)


def test_a_transaction_that_times_out_gives_records_back() -> None:
    shop = Shop()
    member, producer = shop.member(), shop.producer(timeout_ms=10_000)
    shop.stage(producer, member, *shop.poll(member))
    shop.cluster.world.advance(30_000)
    assert [(0, 0, AVAILABLE, 1)] == shop.states
    assert [b"a"] == values(shop.poll(member))


def test_the_transaction_before_is_waited_for() -> None:
    """CONCURRENT_TRANSACTIONS while markers are owed, of which the leader waits a little, as a Produce does."""
    shop = Shop(b"a", b"b")
    member, producer = shop.member(), shop.producer()
    shop.stage(producer, member, shop.poll(member)[0])
    held = shop.cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    producer.do(producer.core.end(commit=COMMIT))
    assert ErrorCode.CONCURRENT_TRANSACTIONS is shop.error(producer, member, 1, 1, ACCEPT)
    shop.cluster.release(held)
    assert OK is shop.error(producer, member, 1, 1, ACCEPT)
    assert [(0, 0, ACKNOWLEDGED, 1), (1, 1, TX_PENDING, 1)] == shop.states


# ---------------------------------------------------------------------- levels


@OUTCOMES
def test_it_works_at_level_1(outcome: bool) -> None:
    """Markers then have the epoch of the transaction itself."""
    shop = Shop(level=1)
    member, producer = shop.member(), shop.producer()
    shop.stage(producer, member, *shop.poll(member))
    shop.end(producer, commit=outcome)
    assert [(0, 0, ACKNOWLEDGED if outcome else AVAILABLE, 1)] == shop.states


def test_level_0_has_no_room_for_it() -> None:
    """The log of a cluster at level 0 cannot hold what a broker adds."""
    shop = Shop(level=0)
    member, producer = shop.member(), shop.producer()
    shop.poll(member)
    assert ErrorCode.UNSUPPORTED_VERSION is shop.error(producer, member, 0, 0, ACCEPT)
    assert [] == shop.states


def test_a_cluster_without_share_groups_refuses_it() -> None:
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    shop.poll(member)
    shop.disable_share_groups()
    assert ErrorCode.UNSUPPORTED_VERSION is shop.error(producer, member, 0, 0, ACCEPT)


# ---------------------------------------------------------------------- the log, and who leads


def staged_values(shop: Shop) -> list[tuple[bytes, bytes]]:
    """Key and value of every record of the log of states with staged records."""
    [log] = [each for each in shop.cluster.world.store.logs() if (each.topic, each.index) == shop.state_partition]
    return [
        (record.key or b"", record.value or b"")
        for batch in log.batches()
        if batch.is_transactional and not batch.is_control
        for record in iterate_records(batch)
    ]


def test_staged_records_are_in_the_log() -> None:
    """A transactional batch of the producer, whose value has its id, its epoch and the state to become."""
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    shop.stage(producer, member, *shop.poll(member))
    [(_, value)] = staged_values(shop)
    assert TEXT.codecs is not None
    read = decode_value(value, TEXT.codecs.type_of(ShareUpdateValue))
    assert read is not None
    [batch] = read.state_batches
    told: Any = batch
    assert (*producer.pair, ACKNOWLEDGED) == (told.producer_id, told.producer_epoch, told.outcome)
    assert (0, 0, TX_PENDING, 1) == (
        batch.first_offset,
        batch.last_offset,
        batch.delivery_state,
        batch.delivery_count,
    )


def test_kafka_can_read_the_records_of_the_log() -> None:
    """The fields are tagged and the version stays 0, so only the state 5 is news to Kafka 4.4."""
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    shop.stage(producer, member, *shop.poll(member))
    [(key, value)] = staged_values(shop)
    _, read = decode_record(SHARE_RECORDS, key, value)
    assert isinstance(read, ShareUpdateValue)
    assert [5] == [each.delivery_state for each in read.state_batches]


@OUTCOMES
@pytest.mark.parametrize("updates", [0, 500])
def test_the_coordinator_reads_them_again(outcome: bool, updates: int) -> None:
    """From its log, from updates as from snapshots, before the marker as behind it."""
    shop = Shop(b"a", b"b", brokers=2, share_coordinator_snapshot_update_records_per_snapshot=updates)
    member, producer = shop.member(), shop.producer(timeout_ms=600_000)
    records = shop.poll(member)
    shop.stage(producer, member, records[0])
    member.acknowledge(records[1])
    assert {T: OK} == shop.do(member.commit())
    staged = [(0, 0, TX_PENDING, 1), (1, 1, ACKNOWLEDGED, 1)]
    before = shop.stored
    shop.cluster.move(shop.state_partition, 3 - shop.cluster.leader(shop.state_partition))
    assert staged == shop.states
    assert before.batches == shop.stored.batches
    shop.end(producer, commit=outcome)
    ended = [(0, 1, ACKNOWLEDGED, 1)] if outcome else [(0, 0, AVAILABLE, 1), (1, 1, ACKNOWLEDGED, 1)]
    for _ in range(2):
        assert ended == shop.states
        shop.cluster.move(shop.state_partition, 3 - shop.cluster.leader(shop.state_partition))
    assert ([] if outcome else [b"a"]) == values(shop.poll(member))


def test_snapshots_have_staged_records() -> None:
    shop = Shop(share_coordinator_snapshot_update_records_per_snapshot=0)
    member, producer = shop.member(), shop.producer()
    shop.stage(producer, member, *shop.poll(member))
    [(_, value)] = staged_values(shop)
    assert TEXT.codecs is not None
    read = decode_value(value, TEXT.codecs.type_of(ShareSnapshotValue))
    assert read is not None
    told: Any = read.state_batches[0]
    assert (*producer.pair, ACKNOWLEDGED) == (told.producer_id, told.producer_epoch, told.outcome)


@OUTCOMES
def test_a_new_leader_keeps_them_staged(outcome: bool) -> None:
    """Locks end with their leader; staged records are held by their transaction."""
    shop = Shop(b"a", b"b", brokers=2)
    member, producer = shop.member(), shop.producer()
    records = shop.poll(member)
    shop.stage(producer, member, records[0])
    shop.cluster.move(T, 3 - shop.cluster.leader(T))
    assert [b"b"] == values(shop.poll(member))
    shop.end(producer, commit=outcome)
    assert ([] if outcome else [b"a"]) == values(shop.poll(member))


def test_a_leader_that_is_deposed_stages_nothing() -> None:
    """The share coordinator knows a newer leader epoch; the transaction has the partition, and nothing in it."""
    shop = Shop(brokers=2)
    member, producer = shop.member(), shop.producer()
    shop.poll(member)
    held = shop.cluster.hold(ApiKey.WRITE_SHARE_GROUP_STATE)
    asked = shop.pending(producer, member, 0, 0, ACCEPT)
    shop.cluster.move(T, 3 - shop.cluster.leader(T))
    heir = shop.member("heir")
    shop.do(member.leave())
    shop.do(heir.heartbeat())
    assert [b"a"] == values(shop.poll(heir))
    shop.cluster.release(held)
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER is asked.result()
    assert [] == [each for each in shop.states if each[2] is TX_PENDING]


def test_what_cannot_be_stored_is_acquired_still() -> None:
    """A write that fails gives the records back to their member, with their lock."""
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    [record] = shop.poll(member)
    held = shop.cluster.hold(ApiKey.WRITE_SHARE_GROUP_STATE)
    asked = shop.pending(producer, member, 0, 0, ACCEPT)
    shop.producer()  # another instance ends the transaction
    shop.cluster.release(held)
    assert ErrorCode.INVALID_PRODUCER_EPOCH is asked.result()
    assert [] == shop.states
    member.acknowledge(record)
    assert {T: OK} == shop.do(member.commit())


def test_a_write_without_an_answer_is_given_up() -> None:
    """The leader has given the record back to its member, so its later states replace what was stored meanwhile."""
    shop = Shop()
    member, producer = shop.member(), shop.producer(timeout_ms=600_000)
    [record] = shop.poll(member)
    lost = shop.cluster.lose(ApiKey.WRITE_SHARE_GROUP_STATE, reply_only=True)
    asked = shop.pending(producer, member, 0, 0, ACCEPT)
    assert ErrorCode.COORDINATOR_NOT_AVAILABLE is asked.result(within_ms=120_000)
    assert [(0, 0, TX_PENDING, 1)] == shop.states
    shop.cluster.release(lost)
    shop.cluster.world.advance(LOCK_MS + 1)
    assert [(0, 0, AVAILABLE, 1)] == shop.states
    shop.end(producer, commit=ABORT)
    assert [record.count + 1] == [each.count for each in shop.poll(shop.member("next"))]


def test_a_client_that_goes_leaves_nothing_locked() -> None:
    """The request of a client that reads nothing more ends with its connection, and its records go back."""
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    shop.poll(member)
    held = shop.cluster.hold(ApiKey.ADD_PARTITIONS_TO_TXN)
    shop.pending(producer, member, 0, 0, ACCEPT)
    node = shop.cluster.node(shop.cluster.leader(T))
    parked = {each.parked[0].api_key: each for each in node.connections.values() if each.parked is not None}
    shop.cluster.do(parked[ApiKey.TXN_SHARE_ACKNOWLEDGE].disconnected, node_id=node.node_id)
    shop.cluster.release(held)
    assert [] == shop.states
    assert OK is shop.error(producer, member, 0, 0, ACCEPT)


def test_a_read_that_fails_is_tried_again() -> None:
    """The leader asks the share coordinator what has become of the records, until it hears."""
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    shop.stage(producer, member, *shop.poll(member))
    failed = ReadShareGroupStateResponse(
        results=[ReadStateResult(partitions=[PartitionResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)])]
    )
    shop.cluster.answer(ApiKey.READ_SHARE_GROUP_STATE, lambda call: shop.codecs.own(failed), times=3)
    shop.end(producer, commit=ABORT)
    assert [b"a"] == values(shop.poll(member))


def test_a_read_from_before_a_staging_counts_for_nothing() -> None:
    """What was read before records were staged again says that they are available, and is not believed."""
    shop = Shop(b"a", b"b")
    member, producer, other = shop.member(), shop.producer(timeout_ms=600_000), shop.producer("other")
    first, second = shop.poll(member)
    shop.stage(producer, member, first)
    shop.stage(other, member, second)
    shop.end(other, commit=ABORT)
    [again] = shop.poll(member)
    shop.cluster.world.arm(rule(ApiKey.READ_SHARE_GROUP_STATE, answer_delay_ms=4_000))
    shop.cluster.world.advance(SETTLED_MS)
    shop.stage(other, member, again)
    shop.cluster.world.advance(4 * SETTLED_MS)
    assert [(0, 0, TX_PENDING, 1), (1, 1, TX_PENDING, 2)] == shop.states
    assert [] == shop.poll(member)


def test_offsets_that_are_altered_end_what_was_staged() -> None:
    """The offsets of an empty group are altered: its state begins anew, and the marker settles nothing."""
    shop = Shop(b"a", b"b")
    member, producer = shop.member(), shop.producer()
    shop.stage(producer, member, *shop.poll(member))
    shop.do(member.leave())
    altered = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[altered])
    answer = shop.cluster.ask(1, AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic]), 0)
    assert OK == answer.error_code
    shop.end(producer, commit=COMMIT)
    assert (1, ()) == (shop.stored.start_offset, shop.stored.batches)
    assert [b"b"] == values(shop.poll(shop.member("next")))


# ---------------------------------------------------------------------- what the draft gets wrong


def literal(tmp_path: Path, *lines: str) -> Any:
    """The dialect with other switches."""
    (tmp_path / "dialect.toml").write_text("\n".join(['name = "literal"', 'base = "kip-1289"', *lines]))
    return load(str(tmp_path))


@OUTCOMES
@pytest.mark.parametrize("level", [1, 2])
def test_an_exact_match_settles_nothing_at_level_2(tmp_path: Path, level: int, outcome: bool) -> None:
    """The draft has a marker settle only what has its own id and epoch; at level 2 markers have the next epoch."""
    dialect = literal(tmp_path, "[switches]", "share_markers_match_exactly = true")
    shop = Shop(dialect=dialect, level=level)
    member, producer = shop.member(), shop.producer()
    shop.stage(producer, member, *shop.poll(member))
    shop.end(producer, commit=outcome)
    ended = ACKNOWLEDGED if outcome else AVAILABLE
    assert [(0, 0, TX_PENDING if level == 2 else ended, 1)] == shop.states
    if level == 2:
        shop.cluster.world.advance(3_600_000)
        assert [(0, 0, TX_PENDING, 1)] == shop.states, "no lock and no timeout ends it any more"


@pytest.mark.parametrize("verifies", [True, False])
def test_without_verification_a_late_write_is_never_settled(verifies: bool) -> None:
    """The draft adds the partition at one broker and writes at another: the transaction may end in between.

    At level 1 nothing tells the late write from one of the next transaction, unless the share coordinator verifies.
    """
    shop = Shop(level=1, transaction_partition_verification_enable=str(verifies).lower())
    member, producer = shop.member(), shop.producer()
    shop.poll(member)
    held = shop.cluster.hold(ApiKey.WRITE_SHARE_GROUP_STATE)
    asked = shop.pending(producer, member, 0, 0, ACCEPT)
    shop.end(producer, commit=ABORT)
    shop.cluster.release(held)
    assert (ErrorCode.TRANSACTION_ABORTABLE if verifies else OK) is asked.result()
    shop.cluster.world.advance(3_600_000)
    assert ([(0, 0, AVAILABLE, 1)] if verifies else [(0, 0, TX_PENDING, 1)]) == shop.states


def test_aborts_go_beyond_the_delivery_limit() -> None:
    """An abort makes AVAILABLE of every record, also of one that may be delivered no more: none is ever archived."""
    shop = Shop(group={"share.delivery.count.limit": "2"})
    member, producer = shop.member(), shop.producer()
    counts = []
    for _ in range(4):
        [record] = shop.poll(member)
        counts.append(record.count)
        shop.stage(producer, member, record)
        shop.end(producer, commit=ABORT)
    assert [1, 2, 3, 4] == counts
    assert [(0, 0, AVAILABLE, 4)] == shop.states


def test_a_retry_of_a_lost_answer_is_refused() -> None:
    """Staging a staged record fails, also for its own transaction: where an answer is lost only an abort is left."""
    shop = Shop()
    member, producer = shop.member(), shop.producer()
    [record] = shop.poll(member)
    shop.cluster.lose(ApiKey.TXN_SHARE_ACKNOWLEDGE, times=1, reply_only=True)
    with pytest.raises(Refusal) as refused:
        shop.stage(producer, member, record)
    assert ErrorCode.INVALID_RECORD_STATE is refused.value.error
    assert [(0, 0, TX_PENDING, 1)] == shop.states
    shop.end(producer, commit=ABORT)
    assert [b"a"] == values(shop.poll(member))
