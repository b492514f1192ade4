"""The leader's questions to coordinators: one request at a time, one place for each id."""

from collections.abc import Mapping
from typing import cast

import pytest

from odradek.core.machine import Answered, Parked
from odradek.txn.partitions import TopicPartition
from odradek.txn.verification import Failures, VerificationRequest, Verifier
from odradek.txn.verification_errors import TransactionOperation
from odradek.wire.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

P: TopicPartition = ("t", 0)
Q: TopicPartition = ("t", 1)
DEFAULT, GENERIC, ADD = TransactionOperation
B1, B2 = 1, 2


class Leader:
    """A verifier, and what became of each question by a name of the test's choice."""

    def __init__(self) -> None:
        self.verifier = Verifier(request_timeout_ms=30_000)
        self.now = 1000
        self.verdicts: dict[str, dict[TopicPartition, int]] = {}
        self._names: dict[object, str] = {}

    def ask(
        self,
        name: str,
        *,
        tid: str = "x",
        epoch: int = 0,
        partitions: tuple[TopicPartition, ...] = (P,),
        operation: TransactionOperation = ADD,
        coordinator: int | None = B1,
    ) -> None:
        decision = self.verifier.ask(
            coordinator=coordinator,
            transactional_id=tid,
            producer_id=7,
            producer_epoch=epoch,
            partitions=partitions,
            operation=operation,
            now=self.now,
        )
        match decision:
            case Answered(reply=reply):
                self._note(name, reply)
            case Parked(token=token):
                self._names[token] = name
            case _:
                raise AssertionError(decision)
        self.drain()

    def send(self) -> list[VerificationRequest]:
        requests = list(self.verifier.due(self.now))
        self.drain()
        return requests

    def answer(self, request: VerificationRequest, results: Mapping[str, Mapping[TopicPartition, int]]) -> None:
        self.verifier.answered(request, response(results), self.now)
        self.drain()

    def drain(self) -> None:
        released, self.verifier.released = self.verifier.released, []
        for token, failures in released:
            self._note(self._names.pop(token), cast("Failures", failures))

    def _note(self, name: str, failures: Failures) -> None:
        assert name not in self.verdicts
        self.verdicts[name] = {partition: int(error) for partition, error in failures.items()}


def response(results: Mapping[str, Mapping[TopicPartition, int]]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=tid,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                        ],
                    )
                    for (topic, index), code in partitions.items()
                ],
            )
            for tid, partitions in results.items()
        ]
    )


@pytest.fixture
def leader() -> Leader:
    return Leader()


def asked(request: VerificationRequest) -> list[tuple[str, int, bool, list[tuple[str, list[int]]]]]:
    return [
        (each.transactional_id, each.producer_epoch, each.verify_only, [(t.name, t.partitions) for t in each.topics])
        for each in request.request.transactions
    ]


class TestRequests:
    def test_a_question_goes_out_and_comes_back(self, leader: Leader) -> None:
        leader.ask("first", partitions=(P, Q))
        (request,) = leader.send()
        assert (B1, leader.now + 30_000) == (request.node_id, request.deadline)
        assert [("x", 0, False, [("t", [0, 1])])] == asked(request)
        leader.answer(request, {"x": {P: 0, Q: 51}})
        assert {"first": {Q: 51}} == leader.verdicts

    @pytest.mark.parametrize(("operation", "verify_only"), [(DEFAULT, True), (GENERIC, True), (ADD, False)])
    def test_what_is_asked(self, leader: Leader, operation: TransactionOperation, verify_only: bool) -> None:
        leader.ask("first", operation=operation)
        (request,) = leader.send()
        assert [verify_only] == [each.verify_only for each in request.request.transactions]

    def test_a_request_is_given_once(self, leader: Leader) -> None:
        leader.ask("first")
        assert 1 == len(leader.send())
        assert [] == leader.send()

    def test_what_comes_meanwhile_goes_out_together(self, leader: Leader) -> None:
        leader.ask("first", tid="a")
        (first,) = leader.send()
        leader.ask("second", tid="b")
        leader.ask("third", tid="c", operation=DEFAULT)
        leader.ask("again", tid="a")
        assert [] == leader.send()
        leader.answer(first, {"a": {P: 0}})
        (second,) = leader.send()
        assert ["b", "c", "a"] == [each.transactional_id for each in second.request.transactions]
        leader.answer(second, {"c": {P: 0}, "a": {P: 0}, "b": {P: 0}})
        assert {"first": {}, "second": {}, "third": {}, "again": {}} == leader.verdicts

    def test_each_coordinator_has_its_own_turn(self, leader: Leader) -> None:
        leader.ask("first", tid="a", coordinator=B1)
        leader.ask("second", tid="b", coordinator=B2)
        assert [B1, B2] == [request.node_id for request in leader.send()]

    def test_without_a_coordinator(self, leader: Leader) -> None:
        leader.ask("first", coordinator=None, partitions=(P, Q))
        assert {"first": {P: 15, Q: 15}} == leader.verdicts
        assert [] == leader.send()


class TestEndings:
    def test_a_broken_connection(self, leader: Leader) -> None:
        leader.ask("first", partitions=(P, Q))
        (request,) = leader.send()
        leader.verifier.lost(request, leader.now)
        leader.drain()
        assert {"first": {P: 13, Q: 13}} == leader.verdicts

    def test_the_deadline(self, leader: Leader) -> None:
        leader.ask("first")
        (request,) = leader.send()
        leader.ask("second")
        assert request.deadline == leader.verifier.wake_at()
        leader.now = request.deadline - 1
        assert [] == leader.send()
        leader.now = request.deadline
        (second,) = leader.send()
        assert {"first": {P: 13}} == leader.verdicts
        leader.answer(request, {"x": {P: 0}})
        assert {"first": {P: 13}} == leader.verdicts
        leader.answer(second, {"x": {P: 0}})
        assert {"first": {P: 13}, "second": {}} == leader.verdicts
        assert leader.verifier.wake_at() is None

    @pytest.mark.parametrize(("code", "read"), [(31, 48), (35, 35), (9999, -1)])
    def test_an_answer_to_the_whole_request(self, leader: Leader, code: int, read: int) -> None:
        leader.ask("first", tid="a", partitions=(P, Q))
        leader.ask("second", tid="b")
        (request,) = leader.send()
        leader.verifier.answered(request, AddPartitionsToTxnResponse(error_code=code), leader.now)
        leader.drain()
        assert {"first": {P: read, Q: read}, "second": {P: read}} == leader.verdicts

    def test_an_id_that_the_answer_leaves_out(self, leader: Leader) -> None:
        leader.ask("first", tid="a")
        leader.ask("second", tid="b")
        (request,) = leader.send()
        leader.answer(request, {"b": {P: 0}, "nobody": {P: 0}})
        assert {"first": {P: 13}, "second": {}} == leader.verdicts


class TestOnePlaceForEachId:
    def test_as_a_live_broker_does_it(self, leader: Leader) -> None:
        leader.ask("under way")
        (request,) = leader.send()
        leader.ask("second")
        leader.ask("third", partitions=(Q,))
        assert {"second": {P: 13}} == leader.verdicts
        leader.ask("fourth", epoch=1)
        assert {"second": {P: 13}, "third": {Q: 47}} == leader.verdicts
        leader.ask("fifth")
        assert {P: 47} == leader.verdicts["fifth"]
        leader.answer(request, {"x": {P: 0}})
        assert {} == leader.verdicts["under way"]
        (request,) = leader.send()
        assert [("x", 1, False, [("t", [0])])] == asked(request)
        leader.answer(request, {"x": {P: 90}})
        assert {P: 47} == leader.verdicts["fourth"]

    def test_another_coordinator_is_another_queue(self, leader: Leader) -> None:
        leader.ask("first", coordinator=B1)
        leader.ask("second", coordinator=B2)
        assert {} == leader.verdicts


class TestWhoeverOpensTheRoundDecidesHowErrorsAreRead:
    def test_an_old_client_in_the_round_of_a_new_one(self, leader: Leader) -> None:
        leader.ask("new", tid="a", operation=GENERIC)
        leader.ask("old", tid="b", operation=DEFAULT)
        (request,) = leader.send()
        leader.answer(request, {"a": {P: 0}, "b": {P: 120}})
        assert {P: 120} == leader.verdicts["old"]

    def test_a_new_client_in_the_round_of_an_old_one(self, leader: Leader) -> None:
        leader.ask("old", tid="a", operation=DEFAULT)
        leader.ask("new", tid="b", operation=GENERIC)
        (request,) = leader.send()
        leader.answer(request, {"a": {P: 120}, "b": {P: 120}})
        assert {"old": {P: 48}, "new": {P: 48}} == leader.verdicts


def test_metrics_and_facts(leader: Leader) -> None:
    leader.ask("first", partitions=(P, Q))
    (request,) = leader.send()
    leader.now += 7
    leader.answer(request, {"x": {P: 0, Q: 49}})
    leader.ask("second", coordinator=None)
    metrics = leader.verifier.metrics
    assert (2, 2, 7) == (metrics.verifications, metrics.failures, metrics.duration_ms_sum)
    told = [
        (fact.kind, fact.fields["partition"], fact.fields.get("error"), fact.fields.get("duration_ns"))
        for fact in leader.verifier.facts
    ]
    assert [
        ("verify_start", 0, None, None),
        ("verify_start", 1, None, None),
        ("verify_end", 0, "NONE", 7_000_000),
        ("verify_end", 1, "INVALID_PRODUCER_ID_MAPPING", 7_000_000),
        ("verify_start", 0, None, None),
        ("verify_end", 0, "COORDINATOR_NOT_AVAILABLE", 0),
    ] == told


def test_a_client_that_has_gone_away_keeps_nobody(leader: Leader) -> None:
    leader.ask("first")
    (request,) = leader.send()
    (token,) = leader._names
    leader.verifier.abandoned(token)
    leader.answer(request, {"x": {P: 0}})
    assert {"first": {}} == leader.verdicts
