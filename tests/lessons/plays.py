"""What the clients do in each story, so that it comes about; `PLAYS` by the names of the stories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from tests.kips.producer import Producer
from tests.kips.styles import OLD, Style
from tests.kips.view import OK, TopicPartition
from tests.lessons.members import BEAT_MS, Classic, Member, Sharer, Thread
from tests.lessons.stage import COORDINATOR, GROUP, ORDERS, TILL, Stage

from odradek.records.record import Record, build_batch
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

__all__ = ["PLAYS"]

COPIES: TopicPartition = ("copies", 0)
LETTERS = "dlq.orders"
V3 = Style("kafka-3.3", produce=9, end=3, offsets=3, add=3, init=4)
"""What a client speaks with a Kafka 3.3."""
ABORTABLE = ErrorCode.TRANSACTION_ABORTABLE
MARKERS_MS = 20


def reads(stage: Stage, partition: TopicPartition = ORDERS) -> list[bytes | None]:
    """What a consumer of committed records gets."""
    return stage.named("reader").consumed(partition)


def order(stage: Stage, value: bytes, partition: TopicPartition = ORDERS) -> None:
    """A record without a transaction, of somebody else."""
    batch = build_batch([Record(timestamp=stage.world.now, value=value)])
    data = [PartitionProduceData(index=partition[1], records=memoryview(batch))]
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=partition[0], partition_data=data)]
    )
    stage.named("shop").ask(stage.leader(partition), request, 9)


def ends(producer: Producer, *, commit: bool) -> None:
    """EndTxn, and the time that its markers need."""
    assert OK is producer.finish(commit)
    producer.cluster.world.advance(MARKERS_MS)


def commits(producer: Producer, *values: bytes) -> None:
    """One whole transaction, as if nothing could happen."""
    producer.begin(ORDERS)
    assert OK is producer.send(ORDERS, *values)
    ends(producer, commit=True)


# ---------------------------------------------------------------------- the transaction is lost, its producer is not


def abortable_on_add_offsets(stage: Stage) -> None:
    till = stage.till(OLD)
    till.begin(COPIES)
    assert OK is till.send(COPIES, b"copy")
    assert ABORTABLE is till.add_offsets(GROUP)
    ends(till, commit=False)
    till.begin(COPIES)
    assert OK is till.send(COPIES, b"copy")
    assert OK is till.add_offsets(GROUP)
    assert OK is till.commit_offset(1, group=GROUP, partition=ORDERS)
    ends(till, commit=True)
    assert [b"copy"] == reads(stage, COPIES)


def abortable_on_add_partitions(stage: Stage) -> None:
    till = stage.till(OLD)
    till.begin(ORDERS)
    assert OK is till.send(ORDERS, b"coffee")
    assert ABORTABLE is till.add(COPIES)
    ends(till, commit=False)
    commits(till, b"cake")
    assert [b"cake"] == reads(stage)


def abortable_on_commit_offsets(stage: Stage) -> None:
    till = stage.till()
    assert OK is till.send(COPIES, b"copy")
    assert ABORTABLE is till.commit_offset(1, group=GROUP, partition=ORDERS)
    ends(till, commit=False)
    assert OK is till.send(COPIES, b"copy")
    assert OK is till.commit_offset(1, group=GROUP, partition=ORDERS)
    ends(till, commit=True)
    assert [b"copy"] == reads(stage, COPIES)


def abortable_on_end(stage: Stage) -> None:
    till = stage.till()
    assert OK is till.send(ORDERS, b"coffee")
    assert ABORTABLE is till.commit()
    ends(till, commit=False)
    commits(till, b"cake")
    assert [b"cake"] == reads(stage)


def abortable_on_produce(stage: Stage) -> None:
    till = stage.till()
    assert ABORTABLE is till.send(ORDERS, b"coffee")
    ends(till, commit=False)
    commits(till, b"cake")
    assert [b"cake"] == reads(stage)


# ---------------------------------------------------------------------- markers, answers and coordinators


def restarts(stage: Stage) -> None:
    till = stage.till()
    assert OK is till.send(ORDERS, b"coffee")
    ends(till, commit=True)
    stage.world.advance(1_000)
    assert [b"coffee"] == reads(stage)


def concurrent(stage: Stage) -> None:
    till = stage.till(OLD)
    commits(till, b"coffee")
    assert OK is stage.again(partial(till.add, ORDERS), ErrorCode.CONCURRENT_TRANSACTIONS, every_ms=400)
    assert OK is till.send(ORDERS, b"cake")
    ends(till, commit=True)
    assert [b"coffee", b"cake"] == reads(stage)


def answer_is_lost(stage: Stage) -> None:
    """EndTxn has no answer, and is sent again with what the client knew before."""
    till = stage.till()
    assert OK is till.send(ORDERS, b"coffee")
    stage.gives_up(till.ending(True))
    error = till.commit()
    while error is ErrorCode.CONCURRENT_TRANSACTIONS:
        stage.world.advance(600)
        error = till.commit()
    assert OK is error
    commits(till, b"cake")
    assert [b"coffee", b"cake"] == reads(stage)


def loading(stage: Stage) -> None:
    till = stage.till()
    errors = stage.until_done(partial(till.send, ORDERS, b"coffee"))
    assert errors
    # The client still asks the broker that it knows.
    error = stage.named("till").ask(COORDINATOR, _commit_of(till), till.style.end).error_code
    assert ErrorCode.NOT_COORDINATOR == error, error
    stage.named("till").find_coordinator(TILL)
    ends(till, commit=True)
    assert [b"coffee"] == reads(stage)


def _commit_of(till: Producer) -> EndTxnRequest:
    return EndTxnRequest(transactional_id=TILL, producer_id=till.pair[0], producer_epoch=till.pair[1], committed=True)


def moves_in_prepare(stage: Stage) -> None:
    till = stage.till()
    assert OK is till.send(ORDERS, b"coffee")
    assert OK is till.commit()
    stage.world.advance(500)
    assert [b"coffee"] == reads(stage)


def downgrade(stage: Stage) -> None:
    till = stage.till()
    error = till.send(ORDERS, b"coffee")
    assert ErrorCode.UNSUPPORTED_VERSION is error, error
    second = stage.till(OLD, client_id="till-again")
    commits(second, b"cake")
    assert [b"cake"] == reads(stage)


def overflow(stage: Stage) -> None:
    first = stage.till()
    stage.world.advance(10)
    second = stage.till(client_id="till-again")
    assert first.pair[0] != second.pair[0]
    commits(second, b"coffee")
    commits(second, b"cake")
    assert [b"coffee", b"cake"] == reads(stage)


def fenced(stage: Stage) -> None:
    first = stage.till()
    assert OK is first.send(ORDERS, b"coffee")
    ending = first.ending(True)
    second = stage.till(client_id="till-again", starts=False)
    stage.again(second.init, ErrorCode.CONCURRENT_TRANSACTIONS, every_ms=100)
    error, _ = ending.result()
    assert ErrorCode.CONCURRENT_TRANSACTIONS is error, error
    error, _ = first.end(True)
    assert ErrorCode.PRODUCER_FENCED is error, error
    commits(second, b"cake")
    assert [b"cake"] == reads(stage)


def kip_360(stage: Stage) -> None:
    till = stage.till(OLD)
    till.begin(ORDERS)
    assert ErrorCode.UNKNOWN_PRODUCER_ID is till.send(ORDERS, b"coffee")
    ends(till, commit=False)
    assert OK is till.init(till.pair)
    commits(till, b"cake")
    assert [b"cake"] == reads(stage)


# ---------------------------------------------------------------------- records that come late


def late(stage: Stage, style: Style, refusal: ErrorCode | None) -> None:
    """A record is given up while it is on its way, its transaction aborted, and somebody else writes the next one."""
    till = stage.till(style)
    till.begin(ORDERS)
    sending = till.sending(ORDERS, b"late")
    stage.world.advance(500)
    ends(till, commit=False)
    stage.world.advance(500)
    order(stage, b"next")
    if refusal is not None:
        assert refusal is ErrorCode(sending.result().error_code)
        assert [b"next"] == reads(stage)
    else:
        assert [] == reads(stage)


def leader_moves(stage: Stage) -> None:
    till = stage.till()
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER is till.send(ORDERS, b"coffee")
    stage.named("till").ask_for_metadata()
    assert OK is till.send(ORDERS, b"coffee")
    ends(till, commit=True)
    assert [b"coffee"] == reads(stage)


def marker_between(stage: Stage) -> None:
    till = stage.till(OLD, timeout_ms=1_000)
    till.begin(ORDERS)
    refusal = till.send(ORDERS, b"coffee")
    assert refusal is not OK
    error = till.abort()
    assert error is not OK, error
    second = stage.till(OLD, client_id="till-again")
    commits(second, b"cake")
    assert [b"cake"] == reads(stage)


def times_out(stage: Stage) -> None:
    till = stage.till(timeout_ms=1_000)
    assert OK is till.send(ORDERS, b"coffee")
    assert ErrorCode.INVALID_PRODUCER_EPOCH is till.send(ORDERS, b"tea")
    assert OK is till.abort()
    commits(till, b"cake")
    assert [b"cake"] == reads(stage)


def expires(stage: Stage) -> None:
    till = stage.till()
    commits(till, b"coffee")
    stage.world.advance(100)
    refusal = till.send(ORDERS, b"tea")
    assert ErrorCode.INVALID_PRODUCER_ID_MAPPING is refusal, refusal
    second = stage.till(client_id="till-again")
    commits(second, b"cake")
    assert [b"coffee", b"cake"] == reads(stage)


def verification_is_lost(stage: Stage) -> None:
    till = stage.till(OLD)
    till.begin(ORDERS)
    refusal = till.send(ORDERS, b"coffee")
    assert refusal is not OK
    assert OK is till.send(ORDERS, b"coffee")
    ends(till, commit=True)
    assert [b"coffee"] == reads(stage)


# ---------------------------------------------------------------------- groups


def beats(*members: Member | Thread, times: int) -> None:
    for _ in range(times):
        for member in members:
            member.beat()
        members[0].stage.world.advance(BEAT_MS)


def member_expires(stage: Stage) -> None:
    member = Member(stage, GROUP)
    beats(member, times=3)
    assert OK is member.commit(1)
    assert ErrorCode.UNKNOWN_MEMBER_ID is member.beat()
    member.epoch, member.owned = 0, None
    beats(member, times=3)
    assert member.owned == [0, 1]


def offsets_of_another_epoch(stage: Stage, refusal: ErrorCode | None) -> None:
    """Offsets are on their way while another member joins: their member falls silent, or goes on with less."""
    one, other = Member(stage, "late"), Member(stage, "other")
    beats(one, times=3)
    till = stage.till()
    assert OK is till.send(COPIES, b"copy")
    committing = till.committing_offset(1, group=GROUP, partition=ORDERS, member=one.member_id, generation=one.epoch)
    while not committing.arrived:
        beats(*([other] if refusal else [one, other]), times=1)
    assert (refusal or OK) is committing.result()
    ends(till, commit=refusal is None)
    assert ([] if refusal else [b"copy"]) == reads(stage, COPIES)


def offsets_after_a_rebalance(stage: Stage) -> None:
    one, other = Classic(stage, "late", session_ms=1_000), Classic(stage, "other", session_ms=1_000)
    one.join()
    assert OK is one.syncing((one.member_id,)).result()
    till = stage.till()
    assert OK is till.send(COPIES, b"copy")
    committing = till.committing_offset(1, group=GROUP, partition=ORDERS, member=one.member_id, generation=one.epoch)
    answer = other.joining().result()
    other.member_id = answer.member_id
    joining = other.joining()
    stage.world.advance(100)
    assert ErrorCode.REBALANCE_IN_PROGRESS is one.beat()
    one.join()
    other.epoch = joining.result().generation_id
    one.syncing((one.member_id, other.member_id))
    error = committing.result()
    assert ErrorCode.ILLEGAL_GENERATION is error, error
    ends(till, commit=False)
    assert [] == reads(stage, COPIES)


def unstable(stage: Stage) -> None:
    till = stage.till()
    assert OK is till.send(COPIES, b"copy")
    assert OK is till.commit_offset(1, group=GROUP, partition=ORDERS)
    ends(till, commit=True)
    reader = stage.named("cook")

    def asked() -> ErrorCode:
        wanted = OffsetFetchRequestTopic(name=ORDERS[0], partition_indexes=[0])
        request = OffsetFetchRequest(group_id=GROUP, topics=[wanted], require_stable=True)
        answer = reader.ask(reader.leader(reader.offsets_of(GROUP)), request, 7)
        [result] = answer.topics[0].partitions
        return ErrorCode(result.error_code)

    assert OK is stage.again(asked, ErrorCode.UNSTABLE_OFFSET_COMMIT, every_ms=500)
    assert 1 == reader.offset(group=GROUP, partition=ORDERS, stable=True)


def changes_protocol(stage: Stage) -> None:
    classic, modern = Classic(stage, "classic"), Member(stage, "modern")
    classic.join()
    assert OK is classic.syncing((classic.member_id,)).result()
    assert OK is classic.beat()
    beats(modern, times=2)
    assert ErrorCode.REBALANCE_IN_PROGRESS is classic.beat()
    classic.join()
    stage.gives_up(classic.syncing((classic.member_id,)))
    assert OK is classic.syncing((classic.member_id,)).result()
    for _ in range(4):
        beats(modern, times=1)
        if classic.beat() is ErrorCode.REBALANCE_IN_PROGRESS:
            classic.join()
            assert OK is classic.syncing((classic.member_id,)).result()
    assert modern.owned is not None
    assert 1 == len(modern.owned), modern.owned
    classic.leave()
    beats(modern, times=15)
    assert [0, 1] == modern.owned


def share_lock(stage: Stage) -> None:
    order(stage, b"coffee")
    sharer = Sharer(stage, "sharer")
    sharer.configure(share_auto_offset_reset="earliest")
    for _ in range(3):
        sharer.beat()
        stage.world.advance(500)
    assert {0: 1} == sharer.delivered()
    refusal = sharer.accept(0)
    assert ErrorCode.INVALID_RECORD_STATE is refusal, refusal
    assert {0: 2} == sharer.delivered()
    assert OK is sharer.accept(0)


def share_aborted(stage: Stage) -> None:
    sharer = Sharer(stage, "sharer")
    sharer.configure(share_auto_offset_reset="earliest", share_isolation_level="read_committed")
    for _ in range(3):
        sharer.beat()
        stage.world.advance(500)
    till = stage.till()
    assert OK is till.send(ORDERS, b"coffee")
    ends(till, commit=False)
    assert {} == sharer.fetch(wait_ms=500)
    stage.world.advance(1_000)
    assert OK is till.send(ORDERS, b"cake")
    ends(till, commit=True)
    stage.world.advance(1_000)
    got = sharer.delivered()
    assert {0, 2} & set(got) == {2}, got
    assert OK is sharer.accept(2)


def dead_letter(stage: Stage) -> Sharer:
    """A record is given back as often as it may be delivered, and becomes a dead letter."""
    order(stage, b"coffee")
    sharer = Sharer(stage, "sharer")
    sharer.configure(share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name=LETTERS)
    for _ in range(3):
        sharer.beat()
        stage.world.advance(500)
    for delivery in range(1, 3):
        assert {0: delivery} == sharer.delivered()
        assert OK is sharer.release(0)
    stage.world.advance(5_000)
    return sharer


def written_letters(stage: Stage) -> int:
    """How many records the queue has."""
    facts = [fact for _, fact in stage.world.facts if fact.kind == "lso_moved" and fact.fields["topic"] == LETTERS]
    return int(str(facts[-1].fields["hw"]))


def answer_to_a_letter_is_lost(stage: Stage) -> None:
    sharer = dead_letter(stage)
    assert 2 == written_letters(stage)
    order(stage, b"cake")
    assert {1: 1} == sharer.delivered()
    assert OK is sharer.accept(1)


def leader_moves_with_a_letter(stage: Stage) -> None:
    sharer = dead_letter(stage)
    assert 1 == written_letters(stage)
    sharer.session = 0
    assert {} == sharer.fetch(wait_ms=500)
    stage.world.advance(1_000)
    assert 2 == written_letters(stage)


def thread_expires(stage: Stage) -> None:
    thread = Thread(stage, "streams")
    beats(thread, times=3)
    till = stage.till(client_id="streams-producer")
    assert OK is till.send(ORDERS_OUT, b"1")
    assert OK is till.commit_offset(1, group=GROUP, partition=ORDERS, member=thread.member_id, generation=thread.epoch)
    ends(till, commit=True)
    beats(thread, times=5)
    assert OK is till.send(ORDERS_OUT, b"2")
    assert ErrorCode.UNKNOWN_MEMBER_ID is thread.beat()
    ends(till, commit=False)
    thread.epoch = 0
    beats(thread, times=3)


ORDERS_OUT: TopicPartition = ("counts", 0)

PLAYS: Mapping[str, Callable[[Stage], None]] = MappingProxyType(
    {
        "abortable-error-on-add-offsets": abortable_on_add_offsets,
        "abortable-error-on-add-partitions": abortable_on_add_partitions,
        "abortable-error-on-commit-offsets": abortable_on_commit_offsets,
        "abortable-error-on-end": abortable_on_end,
        "abortable-error-on-produce": abortable_on_produce,
        "broker-restarts-with-pending-markers": restarts,
        "concurrent-transactions-after-commit": concurrent,
        "consumer-member-expires": member_expires,
        "consumer-offsets-after-expiry": partial(offsets_of_another_epoch, refusal=ErrorCode.UNKNOWN_MEMBER_ID),
        "consumer-offsets-an-epoch-late": partial(offsets_of_another_epoch, refusal=None),
        "coordinator-loading": loading,
        "coordinator-moves-in-prepare": moves_in_prepare,
        "dead-letter-answer-lost": answer_to_a_letter_is_lost,
        "dead-letter-leader-moves": leader_moves_with_a_letter,
        "downgrade-under-way": downgrade,
        "end-txn-answer-lost-in-complete": answer_is_lost,
        "end-txn-answer-lost-in-prepare": answer_is_lost,
        "end-txn-lost-in-ongoing": answer_is_lost,
        "epoch-overflow": overflow,
        "fenced-by-a-second-instance": fenced,
        "group-changes-protocol": changes_protocol,
        "kip-360-recovery": kip_360,
        "late-produce-after-abort": partial(late, style=OLD, refusal=ErrorCode.TRANSACTION_ABORTABLE),
        "late-produce-undefended": partial(late, style=V3, refusal=None),
        "leader-moves-with-open-transaction": leader_moves,
        "marker-between-verification-and-append": marker_between,
        "offset-commit-after-rebalance": offsets_after_a_rebalance,
        "producer-id-expires": expires,
        "share-aborted-records": share_aborted,
        "share-lock-expires": share_lock,
        "streams-member-expires": thread_expires,
        "transaction-times-out-during-a-produce": times_out,
        "unstable-offset-commit": unstable,
        "verification-times-out": verification_is_lost,
    }
)
