"""A transactional producer for every dialect: what its text has a client do, without sockets and without a clock.

No released client speaks a draft. `Producer` speaks whatever a release or dialect offers: it takes the newest versions,
has its partitions added by Produce where they are, takes up the id and epoch that EndTxn answers, keeps a prepared
transaction where there is such a thing. What else a text has its client do is in the `producer.py` of its folder: a
class below this one (`producer_class`). Each of its steps is a generator: it yields what is to be asked (`Ask`) or
waited for (`Pause`), is sent the answer (None: it is lost), and returns what came of it.
`odradek.testing.dialects` runs them over sockets; the simulator and the tests run them in the simulated world.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from msgspec import Struct

from odradek.records.record import Record, build_batch
from odradek.txn.entry import TIMEOUT_NEVER
from odradek.txn.partitions import by_topic
from odradek.txn.rules import rules_of
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
    from odradek.releases import Release

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
]

T = TypeVar("T")
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
"""What every client asks again, after a pause."""


class Role(Enum):
    """Whom a request is for."""

    TRANSACTIONS = "coordinator of the transactional id"
    GROUP = "coordinator of the group"
    LEADER = "leader of the partition"
    ANYBODY = "any broker"


class Ask(Struct, frozen=True):
    """A request to be sent; the answer is sent back into the generator."""

    role: Role
    key: str | TopicPartition
    request: Struct
    version: int


class Pause(Struct, frozen=True):
    """Wait so long (ms)."""

    milliseconds: int


Steps = Generator[Ask | Pause, Any, T]


FATAL = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""After these another producer has to begin (KIP-890, "InvalidPidMappingException is fatal to new clients")."""


class Refusal(Exception):
    """What was asked is refused with an error that no client asks again."""

    def __init__(self, what: str, error: ErrorCode) -> None:
        super().__init__(f"{what}: {error.name}")
        self.error = error

    @property
    def is_fatal(self) -> bool:
        """Whether the producer is of no use any more; else its transaction is to be aborted."""
        return self.error in FATAL


class Producer:
    """One transactional id. `release` is what its brokers are; `level` what they have finalized of transaction.version.

    It sends the newest versions that the release offers, or what `versions` says instead.
    `careful`: it does what its text has forgotten, where one has (`docs/dialects.md`).
    """

    older: ClassVar[Mapping[ApiKey, int]] = {}
    """The newest versions that may be sent by who knows nothing of the text, where those are not all that it offers."""

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
        """The transaction that was kept, if the last `init` kept one."""
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
        """Those of the open transaction."""

    @property
    def tid(self) -> str:
        """The transactional id, of one that has one."""
        assert self.transactional_id is not None, "an idempotent producer has no transactions"
        return self.transactional_id

    # ------------------------------------------------------------------ versions

    def version(self, api_key: ApiKey) -> int:
        """The version of a request that it sends: the newest one, or the newest of the old protocol."""
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
        """Whether its partitions are added by Produce."""
        return self.version(ApiKey.PRODUCE) >= self._since.produce_adds

    @property
    def keeps(self) -> bool:
        """Whether there are prepared transactions that outlive their producer (KIP-939)."""
        return self.version(ApiKey.INIT_PRODUCER_ID) >= KEEPS_SINCE and self.level >= 2

    # ------------------------------------------------------------------ steps

    def init(self, *, keep: bool = False, pair: Pair = NOBODY) -> Steps[InitProducerIdResponse]:
        """InitProducerId: an id and epoch, and the end of whatever a former self has left, unless it is kept."""
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
        """The brokers have finalized another level: whether the open transaction had to be aborted for it.

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
        """beginTransaction; partitions that are known before are added where Produce does not add them."""
        if not self.adds_implicitly:
            yield from self.add(partitions)

    def send(self, topic: str, index: int, *values: bytes, pair: Pair | None = None) -> Steps[int]:
        """Produce to a partition, which is added before where Produce does not; the offset of the first record."""
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
        """A Produce of one batch; its id, epoch and sequence are settled from now on, however often it is sent."""
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
        """AddOffsetsToTxn."""
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
        """EndTxn; the id and epoch that it answers are taken up."""
        version = self.end_version(commit=commit)
        ask = Ask(Role.TRANSACTIONS, self.tid, self.end_request(commit=commit), version)
        answer: EndTxnResponse = yield from self.insist("EndTxn", ask, error_of)
        self.partitions.clear()
        self.ongoing = NOBODY
        self.level = self._seen
        if version >= self._since.end_bumps and answer.producer_id >= 0:
            self.adopt((answer.producer_id, answer.producer_epoch))
        elif self._in_doubt:
            # What may come yet is left behind in the present epoch (KIP-360).
            yield from self.init(pair=self.pair)
        self._in_doubt = False
        return answer

    def prepare(self) -> Pair:
        """KIP-939's prepareTransaction: what an external store remembers of the open transaction."""
        return self.pair

    def complete(self, prepared: Pair) -> Steps[bool]:
        """KIP-939's completeTransaction: commit if that is the transaction that was kept, else abort.

        Where nothing was kept nothing is asked: what was prepared has been committed before.
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
        """EndTxn as it is sent; a text may have more in it."""
        return EndTxnRequest(
            transactional_id=self.tid,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            committed=commit,
        )

    def insist(self, what: str, ask: Ask, error_of: Callable[[Any], int]) -> Steps[Any]:
        """Ask until there is an answer that no retry would change; `Refusal` if that is an error."""
        if self._is_dead:
            raise RuntimeError(f"{what}: this producer has met a fatal error, and only another one can go on.")
        for _ in range(RETRIES_MAX):
            answer = yield ask
            if answer is None:
                # What was asked may have been done, or may be done yet; it is asked again as it was.
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
        """A batch is given up without an answer, and may be written yet; its transaction is to be aborted."""
        self._in_doubt = True

    def revive(self) -> None:
        """Go on after an error that is fatal to others."""
        self._is_dead = False

    def adopt(self, pair: Pair) -> None:
        """Go on with this id and epoch; another one begins its own count of sequences."""
        if pair != self.pair:
            self.sequences = {}
        self.pair = pair


def error_of(answer: Any) -> int:
    """The error of an answer that has one."""
    return int(answer.error_code)


def first_error(errors: Iterable[int]) -> int:
    """The first error of some, or none."""
    return next((error for error in errors if error), 0)
