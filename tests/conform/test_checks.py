"""Judgements over exchanges that are made by hand: each is right about one that is kept and one that is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from odradek.conform.checks import (
    Added,
    Check,
    Committed,
    Epochs,
    Follows,
    GroupOffset,
    Member,
    Never,
    Paced,
    Quiet,
    Same,
    Seen,
    Sequences,
    Which,
    Witnessed,
)
from odradek.conform.exchange import Answered, Asked, Exchange, lines

MS = 1_000_000


class Story:
    """An exchange, told request by request."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.seq = 0

    def next(self) -> int:
        self.seq += 1
        return self.seq

    def ask(
        self,
        api: str,
        body: dict[str, Any] | None = None,
        *,
        version: int = 5,
        client: str = "p1",
        answer: dict[str, Any] | None = None,
        error: str | None = "NONE",
        at_ms: float = 0,
        from_broker: bool = False,
    ) -> Story:
        """A request, which is answered at once; with `error=None` it has no answer."""
        seq = self.next()
        answered = None
        if error is not None:
            answered = Answered(seq=self.next(), ts_ns=int(at_ms * MS), error=error, body=answer or {})
        self.asked.append(
            Asked(
                seq=seq,
                ts_ns=int(at_ms * MS),
                node=1,
                connection=1,
                correlation=seq,
                api=api,
                version=version,
                client=client,
                from_broker=from_broker,
                body=body or {},
                answer=answered,
            )
        )
        return self

    def produce(self, sequence: int, *, epoch: int = 0, records: int = 1, partition: int = 0, **more: Any) -> Story:
        summary = {
            "records": records,
            "producerId": 7,
            "producerEpoch": epoch,
            "baseSequence": sequence,
            "transactional": True,
        }
        topic = {"topicId": "id-of-orders", "partitionData": [{"index": partition, "records": summary}]}
        return self.ask("PRODUCE", {"topicData": [topic]}, version=12, **more)

    def init(self, epoch: int = 0) -> Story:
        return self.ask("INIT_PRODUCER_ID", {}, answer={"producerId": 7, "producerEpoch": epoch})

    def end(self, *, epoch: int = 0, then: int = 1, commit: bool = True, version: int = 5, **more: Any) -> Story:
        told = {"producerId": 7, "producerEpoch": then} if version >= 5 else {}
        body = {"transactionalId": "t", "producerId": 7, "producerEpoch": epoch, "committed": commit}
        return self.ask("END_TXN", body, answer=told, version=version, **more)

    def add(self, *partitions: int, **more: Any) -> Story:
        body = {
            "v3AndBelowProducerId": 7,
            "v3AndBelowProducerEpoch": 0,
            "v3AndBelowTopics": [{"name": "orders", "partitions": list(partitions)}],
        }
        return self.ask("ADD_PARTITIONS_TO_TXN", body, version=3, **more)


def wrong(
    check: Check, story: Story, marks: dict[str, int] | None = None, committed: Sequence[str] = (), offset: int = -1
) -> list[str]:
    seen = Witnessed(
        exchange=Exchange(asked=story.asked, topics={"id-of-orders": "orders"}),
        marks=marks or {},
        committed=lambda topic, wanted: list(committed),
        group_offset=lambda group, topic, partition, wanted: offset,
    )
    return check.judge(seen)


def test_epochs_follow_the_answers_of_end_txn() -> None:
    kept = Story().init().produce(0).end().produce(0, epoch=1).end(epoch=1, then=2)
    assert [] == wrong(Epochs(), kept)
    stale = Story().init().produce(0).end().produce(1, epoch=0)
    [told] = wrong(Epochs(), stale)
    assert "PRODUCE v12 carries producer id 7 and epoch 0; the newest that the client was told are 7 and 1." == told


def test_epochs_stay_with_the_older_end_txn() -> None:
    assert [] == wrong(Epochs(), Story().init().produce(0).end(version=4).produce(1))
    assert wrong(Epochs(), Story().init().produce(0).end(version=4).produce(0, epoch=1))


def test_a_lost_answer_tells_no_epoch() -> None:
    assert [] == wrong(Epochs(), Story().init().produce(0).end(error=None).end().produce(0, epoch=1))


HERE = "(orders-0, producer id 7, epoch 0)"
REFUSED = "NOT_LEADER_OR_FOLLOWER"


@pytest.mark.parametrize(
    "story",
    [
        Story().produce(0).produce(1),
        Story().produce(0, records=3).produce(3),
        Story().produce(0).produce(0, epoch=1),
        Story().produce(0).produce(0, partition=1),
        Story().produce(0, error=REFUSED).produce(0),
        Story().produce(0, error=None).produce(0).produce(1),
    ],
)
def test_sequences_without_a_gap(story: Story) -> None:
    assert [] == wrong(Sequences(), story)


@pytest.mark.parametrize(
    ("story", "sentence"),
    [
        (Story().produce(1), f"Sequence 1 {HERE} came where 0 is next."),
        (Story().produce(0).produce(2), f"Sequence 2 {HERE} came where 1 is next."),
        (Story().produce(0).produce(0), f"Sequence 0 {HERE} was sent again after it had been acknowledged."),
        (
            Story().produce(0, error=REFUSED).produce(0, records=2),
            f"Sequence 0 {HERE} stood for 1 records, and then 2.",
        ),
    ],
)
def test_sequences_that_are_wrong(story: Story, sentence: str) -> None:
    assert [sentence] == wrong(Sequences(), story)


def test_the_epoch_may_have_to_change() -> None:
    assert ["All batches had the same epoch."] == wrong(Sequences(bumps=True), Story().produce(0).produce(1))
    assert [] == wrong(Sequences(bumps=True), Story().produce(0).produce(0, epoch=1))


def test_partitions_are_added_before_they_are_written() -> None:
    assert [] == wrong(Added(), Story().add(0, 1).produce(0).produce(0, partition=1))
    assert ["A batch for orders-1 was sent before it was added."] == wrong(
        Added(), Story().add(0).produce(0, partition=1)
    )
    assert wrong(Added(), Story().add(0, error="CONCURRENT_TRANSACTIONS").produce(0))
    assert wrong(Added(), Story().add(0).produce(0).end(version=4).produce(1))


def test_partitions_are_added_once() -> None:
    twice = Story().add(0).produce(0).add(0)
    assert [] == wrong(Added(), twice)
    assert ["orders-0 was added to the transaction a second time."] == wrong(Added(once=True), twice)
    assert [] == wrong(Added(once=True), Story().add(0, error="CONCURRENT_TRANSACTIONS").add(0).end().add(0))


def test_nothing_is_sent_while_a_transaction_ends() -> None:
    during = Story().init().produce(0)
    during.ask("END_TXN", {"producerId": 7, "producerEpoch": 0, "committed": True}, error=None).produce(1)
    [told] = wrong(Quiet(), during)
    assert "PRODUCE v12 of p1: NONE was sent between EndTxn and its answer." == told
    late = Story().init().produce(0).end(error=None).produce(1)
    late.asked[2].answer = Answered(seq=late.next(), ts_ns=0, error="NONE", body={})
    assert ["PRODUCE v12 of p1: NONE was sent between EndTxn and its answer."] == wrong(Quiet(), late)
    assert [] == wrong(Quiet(), Story().init().produce(0).end().produce(0, epoch=1))


def test_retries_pause() -> None:
    story = Story().end(error="CONCURRENT_TRANSACTIONS", at_ms=0).end(error="CONCURRENT_TRANSACTIONS", at_ms=20)
    assert [] == wrong(Paced(api="END_TXN", pause_ms=10), story)
    story.end(at_ms=21)
    assert ["END_TXN was sent again 1.0 ms after CONCURRENT_TRANSACTIONS, without a pause."] == wrong(
        Paced(api="END_TXN", pause_ms=10), story
    )


def test_requests_are_seen_by_what_they_carry() -> None:
    story = Story().end(commit=False).end(error="PRODUCER_FENCED", client="p2")
    assert [] == wrong(Seen(api="END_TXN", fields={"committed": False}), story)
    assert ["No END_TXN with committed true of p1 was sent."] == wrong(
        Seen(api="END_TXN", client="p1", fields={"committed": True}), story
    )
    assert [] == wrong(Seen(api="END_TXN", error=["PRODUCER_FENCED"], answer={"producerEpoch": 1}), story)
    assert ["END_TXN of p2 was sent 1 time, and should be 2 times or more."] == wrong(
        Seen(api="END_TXN", client="p2", at_least=2), story
    )
    assert wrong(Seen(api="END_TXN", at_most=1), story)
    assert [] == wrong(Never(api="END_TXN", versions="0-4"), story)
    assert wrong(Never(api="END_TXN", versions="5+"), story)


def test_those_of_brokers_do_not_count() -> None:
    assert [] == wrong(Never(api="ADD_PARTITIONS_TO_TXN"), Story().add(0, from_broker=True))


def test_marks_cut_the_exchange() -> None:
    story = Story().end().end()
    marks = {"hit:lost": 1, "answer:lost": 2}
    assert [] == wrong(Seen(api="END_TXN", after="answer:lost", at_most=1), story, marks)
    assert wrong(Never(api="END_TXN", before="answer:lost"), story, marks)
    # A mark that was not reached lies behind everything.
    assert [] == wrong(Never(api="END_TXN", after="hit:nothing"), story, marks)


def test_values_stay_the_same() -> None:
    assert [] == wrong(Same(api="END_TXN", same=["committed"]), Story().end().end())
    [told] = wrong(Same(api="END_TXN", same=["producerEpoch"]), Story().end().end(epoch=1))
    assert "producerEpoch of END_TXN was [0] and then [1]: it has to stay the same." == told


def test_one_request_follows_the_answer_to_another() -> None:
    behind = Which(api="FIND_COORDINATOR", error="NONE")
    assert [] == wrong(Follows(api="INIT_PRODUCER_ID", behind=behind), Story().ask("FIND_COORDINATOR").init())
    assert wrong(Follows(api="INIT_PRODUCER_ID", behind=behind), Story().init())
    assert wrong(
        Follows(api="INIT_PRODUCER_ID", behind=behind), Story().ask("FIND_COORDINATOR", error="NOT_COORDINATOR").init()
    )


def test_what_is_committed() -> None:
    assert [] == wrong(Committed(values=["a"]), Story(), committed=["a"])
    assert ["Committed in orders is a, b; it should be a."] == wrong(
        Committed(values=["a"]), Story(), committed=["a", "b"]
    )
    assert [] == wrong(GroupOffset(offset=3), Story(), offset=3)
    assert ["Committed for group kitchen is offset -1; it should be 3."] == wrong(GroupOffset(offset=3), Story())


def test_offsets_are_those_of_the_member() -> None:
    def committed_by(member: str, generation: int) -> Story:
        joined = Story().ask("JOIN_GROUP", client="c1", answer={"memberId": "c1-a", "generationId": 4})
        return joined.ask("TXN_OFFSET_COMMIT", {"memberId": member, "generationIdOrMemberEpoch": generation})

    assert [] == wrong(Member(), committed_by("c1-a", 4))
    assert ["TxnOffsetCommit carries no member of generation -1; the consumer is c1-a of generation 4."] == wrong(
        Member(), committed_by("", -1)
    )


def test_the_exchange_as_text() -> None:
    story = Story().ask("METADATA").init().produce(0).end(error=None)
    told = lines(Exchange(asked=story.asked, topics={}))
    assert not any("METADATA" in line for line in told)
    assert "  0.0ms  p1 -> 1  END_TXN v5  transactionalId=t producerId=7 producerEpoch=0 committed=True" in told[-2]
    assert told[-1].endswith("(no answer)")
