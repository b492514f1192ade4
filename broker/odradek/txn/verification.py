"""The leader's questions to transaction coordinators: is this partition in the transaction, or add it (KIP-890).

Kafka's `AddPartitionsToTxnManager`.
One request at a time is under way to each coordinator; what comes up meanwhile waits and goes out together.
A transactional id has one place in that queue: a second question of the id takes it or is turned away, by its epoch.

The contract is that of a machine without a log: `ask` parks; `due` gives the requests to send, each once;
what becomes of a request is reported with `answered` or `lost`; `released` has the verdicts of those who wait.
A verdict lists the partitions that failed; empty means that the append may go on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.core.machine import Answered, Decision, Fact, Machine, Parked
from odradek.txn.decision_tables import SHIPPED, Rules
from odradek.txn.partitions import TopicPartition, by_topic
from odradek.txn.verification_errors import TransactionOperation
from odradek.wire.error_maps import error_of
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from odradek.wire.messages.add_partitions_to_txn_response import (
        AddPartitionsToTxnResponse,
        AddPartitionsToTxnResult,
    )

__all__ = ["BUCKETS_MS", "Failures", "Question", "VerificationRequest", "Verifier"]


BUCKETS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000)


class VerificationMetrics:
    """Counts since the broker started."""

    __slots__ = ("counts", "duration_ms_max", "duration_ms_sum", "failures", "verifications")

    def __init__(self) -> None:
        self.verifications = 0
        """Answered questions, whatever the answer."""
        self.failures = 0
        """Partitions that failed (VerificationFailureRate counts these)."""
        self.duration_ms_sum = 0
        self.duration_ms_max = 0
        self.counts = [0] * (len(BUCKETS_MS) + 1)
        """Answers by duration: up to each bound of `BUCKETS_MS`, and beyond the last."""

    def at_once(self, failures: int) -> None:
        """Count a question that was answered in the millisecond in which it was asked."""
        self.verifications += 1
        self.failures += failures
        self.counts[0] += 1

    def took(self, duration_ms: int) -> None:
        """Count the answer to one question."""
        self.duration_ms_sum += duration_ms
        self.duration_ms_max = max(self.duration_ms_max, duration_ms)
        self.counts[bisect_left(BUCKETS_MS, duration_ms)] += 1

    def buckets(self) -> list[tuple[float, int]]:
        """Pairs of an upper bound (ms) and the number of answers up to it."""
        return list(zip((*BUCKETS_MS, float("inf")), accumulate(self.counts), strict=True))


Failures = Mapping[TopicPartition, ErrorCode]


class VerificationRequest(Struct, frozen=True):
    """Questions to one coordinator, and when they count as lost (ms)."""

    key: Hashable
    node_id: int
    questions: tuple[Question, ...]
    deadline: int

    @property
    def request(self) -> AddPartitionsToTxnRequest:
        """The message for a coordinator on another broker."""
        return _request(self.questions)


class Question(Struct):
    """One question: the partitions of a producer, and its time."""

    token: Hashable
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    verify_only: bool
    asked_at: int

    def failing(self, error: ErrorCode) -> dict[TopicPartition, ErrorCode]:
        return dict.fromkeys(self.partitions, error)


class _Round(Struct):
    """The questions that go to one coordinator together.

    As in Kafka, the `operation` of the first question decides for all how errors are interpreted.
    """

    operation: TransactionOperation
    questions: dict[str, Question]


class Verifier(Machine["VerificationRequest"]):
    """All questions of one broker."""

    def __init__(self, *, request_timeout_ms: int, rules: Rules = SHIPPED) -> None:
        super().__init__()
        self._rules = rules
        self.metrics = VerificationMetrics()
        self._request_timeout_ms = request_timeout_ms
        self._waiting: dict[int, _Round] = {}
        self.under_way: dict[int, tuple[VerificationRequest, _Round]] = {}
        """Requests without an answer, with their questions, by coordinator."""
        self._count = 0
        self.tells = True
        """Whether facts have any reader; otherwise none are made."""

    def ask(
        self,
        *,
        coordinator: int | None,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        operation: TransactionOperation,
        now: int,
    ) -> Decision[Failures]:
        """Put a question to a coordinator (None: its partition has no leader)."""
        self._count += 1
        question = Question(
            ("verified", transactional_id, ("verification", self._count)),
            transactional_id,
            producer_id,
            producer_epoch,
            partitions,
            operation.verifies_only,
            now,
        )
        if self.tells:
            self._fact(question, "verify_start")
        if coordinator is None:
            return self._turned_away(question, ErrorCode.COORDINATOR_NOT_AVAILABLE, now)
        waiting = self._waiting.setdefault(coordinator, _Round(operation, {}))
        standing = waiting.questions.get(transactional_id)
        if standing is not None:
            if producer_epoch < standing.producer_epoch:
                return self._turned_away(question, ErrorCode.INVALID_PRODUCER_EPOCH, now)
            # With the same epoch the client is likely retrying: the earlier request gets an error it may retry.
            fenced = producer_epoch > standing.producer_epoch
            error = ErrorCode.INVALID_PRODUCER_EPOCH if fenced else ErrorCode.NETWORK_EXCEPTION
            self._release(standing, standing.failing(error), now)
            del waiting.questions[transactional_id]
        waiting.questions[transactional_id] = question
        return Parked(question.token)

    def due(self, now: int) -> Sequence[VerificationRequest]:
        """The requests to send now; those that timed out count as lost."""
        if self.under_way:
            for request, _ in list(self.under_way.values()):
                if request.deadline <= now:
                    self.lost(request, now)
        requests: list[VerificationRequest] = []
        if not self._waiting:
            return requests
        for node_id in list(self._waiting):
            if node_id in self.under_way:
                continue
            waiting = self._waiting.pop(node_id)
            self._count += 1
            request = VerificationRequest(
                ("verify", node_id, self._count),
                node_id,
                tuple(waiting.questions.values()),
                now + self._request_timeout_ms,
            )
            self.under_way[node_id] = (request, waiting)
            requests.append(request)
        return requests

    def wake_at(self) -> int | None:
        """When the first request under way counts as lost."""
        if not self.under_way:
            return None
        return min((request.deadline for request, _ in self.under_way.values()), default=None)

    def answered(self, request: VerificationRequest, response: AddPartitionsToTxnResponse, now: int) -> None:
        """The coordinator's response."""
        if response.error_code != ErrorCode.NONE:
            self.refused(request, error_of(response.error_code), now)
            return
        asked = self._returned(request)
        if asked is None:
            return
        for result in response.results_by_transaction:
            question = asked.questions.pop(result.transactional_id, None)
            if question is not None:
                self._release(question, self._failures(_results(result), asked.operation), now)
        if asked.questions:
            self._release_all(asked, ErrorCode.NETWORK_EXCEPTION, now)

    def decided(
        self,
        request: VerificationRequest,
        results: Mapping[str, Mapping[TopicPartition, ErrorCode]],
        now: int,
    ) -> None:
        """A coordinator on this broker has decided each question, by transactional id."""
        asked = self._returned(request)
        if asked is None:
            return
        for question in request.questions:
            self._release(question, self._failures(results[question.transactional_id], asked.operation), now)

    def refused(self, request: VerificationRequest, error: ErrorCode, now: int) -> None:
        """The coordinator has refused all of them with one error."""
        asked = self._returned(request)
        if asked is not None:
            self._release_all(asked, self._rules.request_verdict(error), now)

    def lost(self, request: VerificationRequest, now: int) -> None:
        """No answer came: the connection broke, or the request timed out."""
        asked = self._returned(request)
        if asked is not None:
            self._release_all(asked, ErrorCode.NETWORK_EXCEPTION, now)

    def _returned(self, request: VerificationRequest) -> _Round | None:
        """The round of a request; None if it was given up before."""
        under_way = self.under_way.get(request.node_id)
        if under_way is None or under_way[0].key != request.key:
            return None
        del self.under_way[request.node_id]
        return under_way[1]

    def _turned_away(self, question: Question, error: ErrorCode, now: int) -> Answered[Failures]:
        failures = question.failing(error)
        self._judged(question, failures, now)
        return Answered(failures)

    def _failures(self, results: Mapping[TopicPartition, ErrorCode], operation: TransactionOperation) -> Failures:
        failures = {}
        for partition, error in results.items():
            if error is not ErrorCode.NONE:
                failures[partition] = self._rules.verdict(operation, error)
        return failures

    def _release_all(self, asked: _Round, error: ErrorCode, now: int) -> None:
        for question in asked.questions.values():
            self._release(question, question.failing(error), now)

    def _release(self, question: Question, failures: Failures, now: int) -> None:
        self._judged(question, failures, now)
        self.released.append((question.token, failures))

    def _judged(self, question: Question, failures: Failures, now: int) -> None:
        duration_ms, metrics = now - question.asked_at, self.metrics
        metrics.verifications += 1
        metrics.failures += len(failures)
        if duration_ms:
            metrics.took(duration_ms)
        else:
            metrics.counts[0] += 1
        if self.tells:
            self._fact(question, "verify_end", failures=failures, duration_ms=duration_ms)

    def _fact(self, question: Question, kind: str, *, failures: Failures | None = None, duration_ms: int = 0) -> None:
        for partition in question.partitions:
            fields: dict[str, object] = {
                "transactional_id": question.transactional_id,
                "producer_id": question.producer_id,
                "producer_epoch": question.producer_epoch,
                "topic": partition[0],
                "partition": partition[1],
            }
            if failures is not None:
                error = failures.get(partition, ErrorCode.NONE)
                fields["verdict"] = "accepted" if error is ErrorCode.NONE else "refused"
                fields["error"] = error.name
                fields["duration_ns"] = duration_ms * 1_000_000
            self.facts.append(Fact(kind, fields))


def _request(questions: Sequence[Question]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=question.transactional_id,
                producer_id=question.producer_id,
                producer_epoch=question.producer_epoch,
                verify_only=question.verify_only,
                topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=indexes)
                    for name, indexes in by_topic(question.partitions).items()
                ],
            )
            for question in questions
        ]
    )


def _results(result: AddPartitionsToTxnResult) -> dict[TopicPartition, ErrorCode]:
    return {
        (topic.name, partition.partition_index): error_of(partition.partition_error_code)
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
