"""A transactional producer for every dialect: the steps of the text's client, without sockets and without a clock.

No released client speaks a draft. `Producer` speaks whatever a release or dialect offers: it uses the newest versions,
lets Produce add its partitions if it can, adopts the id and epoch in the answer of EndTxn, and keeps a prepared
transaction where that exists. Other behaviour of a text's client is in the `producer.py` of its folder: a subclass of
this one (`producer_class`). Each step is a generator: it yields a request (`Ask`) or a wait (`Pause`), is sent the
answer (None: it was lost), and returns its result. `run_by` runs them: `odradek.testing.dialects` over sockets, the
simulator and the tests in the simulated world.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Never, TypeVar

from msgspec import Struct

from odradek.records.record import Record, build_batch
from odradek.txn.decision_tables import rules_of
from odradek.txn.entry import TIMEOUT_NEVER
from odradek.txn.partitions import by_topic
from odradek.wire.codecs import PLAIN
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.init_producer_id_response import InitProducerIdResponse
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.releases.release import Release

__all__ = [
    "NOBODY",
    "RETRIES_MAX",
    "RETRY_MS",
    "Ask",
    "Pair",
    "Pause",
    "Producer",
    "Refusal",
    "Role",
    "Steps",
    "TopicPartition",
    "error_of",
    "first_error",
    "run_at_once",
    "run_by",
]

T = TypeVar("T")
E = TypeVar("E")
S = TypeVar("S")
TopicPartition = tuple[str, int]
Pair = tuple[int, int]
NOBODY: Pair = (-1, -1)
KEEPS_SINCE = 6
"""The version of InitProducerId that keeps a prepared transaction."""
RETRY_MS = 20
RETRIES_MAX = 500
RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Errors after which every client retries, after a pause."""


class Role(Enum):
    """The receiver of a request."""

    TRANSACTIONS = "coordinator of the transactional id"
    GROUP = "coordinator of the group"
    LEADER = "leader of the partition"
    BROKER = "the broker with this id"
    ANYBODY = "any broker"


class Ask(Struct, frozen=True):
    """A request to be sent; the answer is sent back into the generator."""

    role: Role
    key: str | TopicPartition
    request: Struct
    version: int


class Pause(Struct, frozen=True):
    """Wait for this time (ms)."""

    milliseconds: int


Steps = Generator[Ask | Pause, Any, T]


def run_by(serve: Callable[[Ask | Pause], Generator[E, S, object]], steps: Steps[T]) -> Generator[E, S, T]:
    """Run the steps of a client to their end. `serve` gives the answer to each, or None if there is none."""
    answer: object = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as stop:
            done: T = stop.value
            return done
        answer = yield from serve(step)


def run_at_once(serve: Callable[[Ask | Pause], object], steps: Steps[T]) -> T:
    """The same, where `serve` is a plain function."""

    def served(step: Ask | Pause) -> Generator[Never, object, object]:
        yield from ()
        return serve(step)

    try:
        next(run_by(served, steps))
    except StopIteration as stop:
        done: T = stop.value
        return done
    raise AssertionError("a plain function does not yield")


FATAL = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Errors after which a new producer has to begin (KIP-890, "InvalidPidMappingException is fatal to new clients")."""


class Refusal(Exception):
    """A request was refused with an error after which no client retries."""

    def __init__(self, what: str, error: ErrorCode) -> None:
        super().__init__(f"{what}: {error.name}")
        self.error = error

    @property
    def is_fatal(self) -> bool:
        """Whether the producer cannot go on; otherwise its transaction has to be aborted."""
        return self.error in FATAL


class Producer:
    """One transactional id. `release`: that of its brokers; `level`: their finalized transaction.version.

    It sends the newest versions that the release offers, or those in `versions`. `careful`: it also does what its text
    has forgotten, if it has (`docs/dialects.md`).
    """

    older: ClassVar[Mapping[ApiKey, int]] = {}
    """The newest versions for a client that does not know the text, where they are below those offered."""

    def __init__(
        self,
        release: Release,
        transactional_id: str | None,
        *,
        timeout_ms: int = 60_000,
        level: int = 2,
        two_phase: bool = False,
        careful: bool = False,
        versions: Mapping[ApiKey, int] | None = None,
        now: Callable[[], int] = lambda: 0,
    ) -> None:
        self.release = release
        self.transactional_id = transactional_id
        self.timeout_ms = TIMEOUT_NEVER if two_phase else timeout_ms
        self.two_phase = two_phase
        self.careful = careful
        self.pair: Pair = NOBODY
        self.ongoing: Pair = NOBODY
        """The transaction that the last `init` kept, if any."""
        self.level = level
        self._seen = level
        self._is_dead = False
        self._in_doubt = False
        self.codecs = release.codecs or PLAIN
        self._since = rules_of(release).since
        self._versions = dict(versions or {})
        self._now = now
        self.sequences: dict[TopicPartition, int] = {}
        self.partitions: set[TopicPartition] = set()
        """The partitions of the open transaction."""

    @property
    def tid(self) -> str:
        """The transactional id; only for a producer that has one."""
        assert self.transactional_id is not None, "an idempotent producer has no transactions"
        return self.transactional_id

    def version(self, api_key: ApiKey) -> int:
        """The version of a request that it sends: the newest, or the newest of the old protocol."""
        if api_key in self._versions:
            return self._versions[api_key]
        apis = self.release.apis
        newest = apis[api_key.name][1] if apis is not None else self.codecs.newest_version(api_key)
        if self.level >= 2:
            return newest
        # Below level 2 a client uses the old protocol, whatever the brokers offer (KIP-890, "New Servers").
        limits = {
            ApiKey.PRODUCE: self._since.produce_adds,
            ApiKey.TXN_OFFSET_COMMIT: self._since.offsets_add,
            ApiKey.END_TXN: self._since.end_bumps,
        }
        return min(newest, limits[api_key] - 1) if api_key in limits else newest

    @property
    def adds_implicitly(self) -> bool:
        """Whether Produce adds its partitions."""
        return self.version(ApiKey.PRODUCE) >= self._since.produce_adds

    @property
    def keeps(self) -> bool:
        """Whether there are prepared transactions that outlive their producer (KIP-939)."""
        return self.version(ApiKey.INIT_PRODUCER_ID) >= KEEPS_SINCE and self.level >= 2

    def init(self, *, keep: bool = False, pair: Pair = NOBODY) -> Steps[InitProducerIdResponse]:
        """InitProducerId: an id and epoch; an earlier instance's transaction ends, unless it is kept."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=pair[0],
            producer_epoch=pair[1],
            enable2_pc=self.two_phase,
            keep_prepared_txn=keep,
        )
        ask = Ask(Role.TRANSACTIONS, self.tid, request, self.version(ApiKey.INIT_PRODUCER_ID))
        response: InitProducerIdResponse = yield from self.insist("InitProducerId", ask, error_of)
        self.adopt((response.producer_id, response.producer_epoch))
        self.ongoing = response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
        self.partitions.clear()
        return response

    def see(self, level: int) -> Steps[bool]:
        """The brokers have finalized another level; returns whether the open transaction had to be aborted.

        "If we see a new one, we will wait for the transaction to complete before upgrading. If we see a lower MV, we
        should abort the transaction and start again with the old protocol" (KIP-890, "New Servers").
        """
        self._seen = level
        aborts = bool(self.partitions) and level < self.level
        if aborts:
            yield from self.end(commit=False)
        if not self.partitions:
            self.level = level
        return aborts

    def add(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """AddPartitionsToTxn, as a client sends it."""
        new = sorted(set(partitions) - self.partitions)
        if not new:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.tid,
            v3_and_below_producer_id=self.pair[0],
            v3_and_below_producer_epoch=self.pair[1],
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in by_topic(new).items()
            ],
        )
        version = min(self.version(ApiKey.ADD_PARTITIONS_TO_TXN), 3)
        yield from self.insist(
            "AddPartitionsToTxn",
            Ask(Role.TRANSACTIONS, self.tid, request, version),
            lambda answer: first_error(
                each.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            ),
        )
        self.partitions |= set(new)

    def begin(self, partitions: Iterable[TopicPartition] = ()) -> Steps[None]:
        """beginTransaction; partitions that are given are added here, unless Produce adds them."""
        if not self.adds_implicitly:
            yield from self.add(partitions)

    def send(self, topic: str, index: int, *values: bytes, pair: Pair | None = None) -> Steps[int]:
        """Produce to a partition, which is added first unless Produce adds it; the offset of the first record."""
        partition = (topic, index)
        if not self.adds_implicitly:
            yield from self.add([partition])
        return (yield from self.produce(partition, values, pair=pair))

    def produce(self, partition: TopicPartition, values: Sequence[bytes], *, pair: Pair | None = None) -> Steps[int]:
        """Produce alone: one batch, which is the next of the partition; the offset of its first record."""
        sequence = self.sequences.get(partition, 0)
        request = self.batch_request(partition, values, sequence=sequence, pair=pair)
        # From version 13 on topics have ids, which this producer does not keep.
        version = min(self.version(ApiKey.PRODUCE), 12)
        answer = yield from self.insist(
            "Produce",
            Ask(Role.LEADER, partition, request, version),
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )
        self.sequences[partition] = sequence + len(values)
        self.partitions.add(partition)
        offset: int = answer.responses[0].partition_responses[0].base_offset
        return offset

    def batch_request(
        self, partition: TopicPartition, values: Sequence[bytes], *, sequence: int, pair: Pair | None = None
    ) -> ProduceRequest:
        """A Produce of one batch; retries keep its id, epoch and sequence."""
        producer_id, epoch = pair or self.pair
        batch = build_batch(
            [Record(timestamp=self._now(), value=value) for value in values],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=self.transactional_id is not None,
        )
        data = PartitionProduceData(index=partition[1], records=memoryview(batch))
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=partition[0], partition_data=[data])],
        )

    def add_offsets(self, group: str) -> Steps[None]:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.tid,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            group_id=group,
        )
        version = self.version(ApiKey.ADD_OFFSETS_TO_TXN)
        yield from self.insist("AddOffsetsToTxn", Ask(Role.TRANSACTIONS, self.tid, request, version), error_of)

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> Steps[None]:
        """The offsets of a group as part of the transaction."""
        version = min(self.version(ApiKey.TXN_OFFSET_COMMIT), 5)
        if version < self._since.offsets_add:
            yield from self.add_offsets(group)
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, index), offset in offsets.items():
            committed = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            committed.committed_metadata = ""
            topics.setdefault(topic, []).append(committed)
        request = TxnOffsetCommitRequest(
            transactional_id=self.tid,
            group_id=group,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        yield from self.insist(
            "TxnOffsetCommit",
            Ask(Role.GROUP, group, request, version),
            lambda answer: first_error(each.error_code for topic in answer.topics for each in topic.partitions),
        )

    def end(self, *, commit: bool) -> Steps[EndTxnResponse]:
        """EndTxn; the producer adopts the id and epoch in its answer."""
        version = self.end_version(commit=commit)
        ask = Ask(Role.TRANSACTIONS, self.tid, self.end_request(commit=commit), version)
        answer: EndTxnResponse = yield from self.insist("EndTxn", ask, error_of)
        self.partitions.clear()
        self.ongoing = NOBODY
        self.level = self._seen
        if version >= self._since.end_bumps and answer.producer_id >= 0:
            self.adopt((answer.producer_id, answer.producer_epoch))
        elif self._in_doubt:
            # Requests that may still arrive have the old epoch, and are refused (KIP-360).
            yield from self.init(pair=self.pair)
        self._in_doubt = False
        return answer

    def prepare(self) -> Pair:
        """KIP-939's prepareTransaction: the state of the open transaction that an external store remembers."""
        return self.pair

    def complete(self, prepared: Pair) -> Steps[bool]:
        """KIP-939's completeTransaction: commit if the kept transaction is this one, otherwise abort.

        Without a kept transaction nothing is sent: the prepared one was committed before.
        """
        if self.ongoing == NOBODY:
            return True
        commit = prepared == self.ongoing
        yield from self.end(commit=commit)
        return commit

    def end_version(self, *, commit: bool) -> int:
        """The version of EndTxn that it sends."""
        return self.version(ApiKey.END_TXN)

    def end_request(self, *, commit: bool) -> EndTxnRequest:
        """EndTxn as it is sent; a text may add fields."""
        return EndTxnRequest(
            transactional_id=self.tid,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            committed=commit,
        )

    def insist(self, what: str, ask: Ask, error_of: Callable[[Any], int]) -> Steps[Any]:
        """Send until an answer comes after which no client retries; `Refusal` if it is an error."""
        if self._is_dead:
            raise RuntimeError(f"{what}: this producer has met a fatal error, and only another one can go on.")
        for _ in range(RETRIES_MAX):
            answer = yield ask
            if answer is None:
                # The request may have been carried out, or may be later; the same request is sent again.
                error = ErrorCode.NETWORK_EXCEPTION
                yield Pause(RETRY_MS)
                continue
            error = ErrorCode(error_of(answer))
            if error is ErrorCode.NONE:
                return answer
            if error not in RETRIED:
                break
            yield Pause(RETRY_MS)
        refusal = Refusal(what, error)
        self._is_dead = refusal.is_fatal
        raise refusal

    def gave_up(self) -> None:
        """A batch is given up without an answer, and may be written later; its transaction has to be aborted."""
        self._in_doubt = True

    def revive(self) -> None:
        """Go on after an error that is fatal for other producers."""
        self._is_dead = False

    def adopt(self, pair: Pair) -> None:
        """Adopt this id and epoch; another one starts new sequences."""
        if pair != self.pair:
            self.sequences = {}
        self.pair = pair


def error_of(answer: Any) -> int:
    """The error of an answer that has one."""
    return int(answer.error_code)


def first_error(errors: Iterable[int]) -> int:
    """The first error of several, or none."""
    return next((error for error in errors if error), 0)
