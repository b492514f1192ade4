"""A transactional producer for every dialect: what its text has a client do, without sockets and without a clock.

No released client speaks a draft. `Producer` speaks whatever a release or dialect offers: it takes the newest versions,
has its partitions added by Produce where they are, takes up the id and epoch that EndTxn answers, keeps a prepared
transaction where there is such a thing. Each of its steps is a generator: it yields what is to be asked (`Ask`) or
waited for (`Pause`), is sent the answer, and returns what came of it. `TransactionalProducer` runs them over sockets;
the tests run them in the simulated world.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from enum import Enum
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import Struct

from odradek.dialects.load import load
from odradek.net.client import BlockingClient
from odradek.records.record import Record, build_batch
from odradek.releases import RELEASES
from odradek.txn.entry import TIMEOUT_NEVER
from odradek.txn.rules import rules_of
from odradek.wire.codecs import PLAIN
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.init_producer_id_response import InitProducerIdResponse
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.releases import Release

__all__ = ["Ask", "Pause", "Producer", "Refusal", "Role", "Steps", "TransactionalProducer"]

T = TypeVar("T")
TopicPartition = tuple[str, int]
Pair = tuple[int, int]
NOBODY: Pair = (-1, -1)
RETRY_MS = 20
RETRIES_MAX = 500
METADATA_VERSION = 9
FIND_COORDINATOR_VERSION = 3
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

    `end_versions` and the like are the newest that the release offers, or what `versions` says instead.
    """

    def __init__(
        self,
        release: Release,
        transactional_id: str,
        *,
        timeout_ms: int = 60_000,
        level: int = 2,
        two_phase: bool = False,
        versions: Mapping[ApiKey, int] | None = None,
        now: Callable[[], int] = lambda: 0,
    ) -> None:
        self.release = release
        self.transactional_id = transactional_id
        self.timeout_ms = TIMEOUT_NEVER if two_phase else timeout_ms
        self.two_phase = two_phase
        self.pair: Pair = NOBODY
        self.ongoing: Pair = NOBODY
        """The transaction that was kept, if the last `init` kept one."""
        self.level = level
        self._seen = level
        self._is_dead = False
        self._codecs = release.codecs or PLAIN
        self._since = rules_of(release).since
        self._versions = dict(versions or {})
        self._now = now
        self._sequences: dict[TopicPartition, int] = {}
        self.partitions: set[TopicPartition] = set()
        """Those of the open transaction."""

    # ------------------------------------------------------------------ versions

    def version(self, api_key: ApiKey) -> int:
        """The version of a request that it sends: the newest one, or the newest of the old protocol."""
        if api_key in self._versions:
            return self._versions[api_key]
        apis = self.release.apis
        newest = apis[api_key.name][1] if apis is not None else self._codecs.newest_version(api_key)
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
        ask = Ask(Role.TRANSACTIONS, self.transactional_id, request, self.version(ApiKey.INIT_PRODUCER_ID))
        response: InitProducerIdResponse = yield from self._insist("InitProducerId", ask, _error)
        self._adopt((response.producer_id, response.producer_epoch))
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
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.pair[0],
            v3_and_below_producer_epoch=self.pair[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in _topics(new)],
        )
        version = min(self.version(ApiKey.ADD_PARTITIONS_TO_TXN), 3)
        yield from self._insist(
            "AddPartitionsToTxn",
            Ask(Role.TRANSACTIONS, self.transactional_id, request, version),
            lambda answer: _first(
                each.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            ),
        )
        self.partitions |= set(new)

    def send(self, topic: str, index: int, *values: bytes, pair: Pair | None = None) -> Steps[int]:
        """Produce to a partition, which is added before where Produce does not; the offset of the first record."""
        partition = (topic, index)
        if not self.adds_implicitly:
            yield from self.add([partition])
        producer_id, epoch = pair or self.pair
        sequence = self._sequences.get(partition, 0)
        batch = build_batch(
            [Record(timestamp=self._now(), value=value) for value in values],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=index, records=memoryview(batch))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        # From version 13 on topics have ids, which this producer does not keep.
        version = min(self.version(ApiKey.PRODUCE), 12)
        answer = yield from self._insist(
            "Produce",
            Ask(Role.LEADER, partition, request, version),
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )
        self._sequences[partition] = sequence + len(values)
        self.partitions.add(partition)
        offset: int = answer.responses[0].partition_responses[0].base_offset
        return offset

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> Steps[None]:
        """The offsets of a group as part of the transaction."""
        version = min(self.version(ApiKey.TXN_OFFSET_COMMIT), 5)
        if version < self._since.offsets_add:
            adding = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.pair[0],
                producer_epoch=self.pair[1],
                group_id=group,
            )
            asked = self.version(ApiKey.ADD_OFFSETS_TO_TXN)
            yield from self._insist(
                "AddOffsetsToTxn", Ask(Role.TRANSACTIONS, self.transactional_id, adding, asked), _error
            )
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, index), offset in offsets.items():
            committed = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            committed.committed_metadata = ""
            topics.setdefault(topic, []).append(committed)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        yield from self._insist(
            "TxnOffsetCommit",
            Ask(Role.GROUP, group, request, version),
            lambda answer: _first(each.error_code for topic in answer.topics for each in topic.partitions),
        )

    def end(self, *, commit: bool) -> Steps[EndTxnResponse]:
        """EndTxn; the id and epoch that it answers are taken up."""
        version = self.version(ApiKey.END_TXN)
        ask = Ask(Role.TRANSACTIONS, self.transactional_id, self._end_request(commit=commit), version)
        answer: EndTxnResponse = yield from self._insist("EndTxn", ask, _error)
        self.partitions.clear()
        self.ongoing = NOBODY
        self.level = self._seen
        if version >= self._since.end_bumps and answer.producer_id >= 0:
            self._adopt((answer.producer_id, answer.producer_epoch))
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

    def _end_request(self, *, commit: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            committed=commit,
        )

    def _insist(self, what: str, ask: Ask, error_of: Callable[[Any], int]) -> Steps[Any]:
        if self._is_dead:
            raise RuntimeError(f"{what}: this producer has met a fatal error, and only another one can go on.")
        for _ in range(RETRIES_MAX):
            answer = yield ask
            error = ErrorCode(error_of(answer))
            if error is ErrorCode.NONE:
                return answer
            if error not in RETRIED:
                break
            yield Pause(RETRY_MS)
        refusal = Refusal(what, error)
        self._is_dead = refusal.is_fatal
        raise refusal

    def _adopt(self, pair: Pair) -> None:
        if pair != self.pair:
            self._sequences = {}
        self.pair = pair


class TransactionalProducer:
    """The same over sockets; `dialect` is a name or a folder, or a release such as "4.4"."""

    def __init__(self, dialect: str | PathLike[str], bootstrap: str, transactional_id: str, **how: Any) -> None:
        name = fspath(dialect)
        self.release = RELEASES[name] if name in RELEASES else load(name)
        self.core = Producer(self.release, transactional_id, now=lambda: time.time_ns() // 1_000_000, **how)
        self._bootstrap = bootstrap.split(",")[0]
        self._clients: dict[str, BlockingClient] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def init(self, *, keep: bool = False) -> InitProducerIdResponse:
        """See `Producer.init`."""
        return self._run(self.core.init(keep=keep))

    def send(self, topic: str, index: int, *values: bytes) -> int:
        """See `Producer.send`."""
        return self._run(self.core.send(topic, index, *values))

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """See `Producer.commit_offsets`."""
        self._run(self.core.commit_offsets(group, offsets))

    def commit(self) -> Any:
        """EndTxn; the answer, which a dialect may have given more fields."""
        return self._run(self.core.end(commit=True))

    def abort(self) -> Any:
        """The same."""
        return self._run(self.core.end(commit=False))

    def prepare(self) -> Pair:
        """See `Producer.prepare`."""
        return self.core.prepare()

    def complete(self, prepared: Pair) -> bool:
        """See `Producer.complete`."""
        return self._run(self.core.complete(prepared))

    def close(self) -> None:
        """Hang up."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _run(self, steps: Steps[T]) -> T:
        answer: object = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as stop:
                done: T = stop.value
                return done
            if isinstance(step, Pause):
                time.sleep(step.milliseconds / 1000)
                answer = None
            else:
                answer = self._client(self._address(step)).ask(step.request, step.version)

    def _client(self, address: str) -> BlockingClient:
        if address not in self._clients:
            self._clients[address] = BlockingClient(
                address, client_id="odradek-dialect", codecs=self.release.codecs or PLAIN
            )
        return self._clients[address]

    def _address(self, ask: Ask) -> str:
        first = self._client(self._bootstrap)
        if ask.role is Role.LEADER:
            assert isinstance(ask.key, tuple)
            topic, index = ask.key
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
            found = first.ask(asked, METADATA_VERSION)
            leader = next(each.leader_id for each in found.topics[0].partitions if each.partition_index == index)
            return next(f"{each.host}:{each.port}" for each in found.brokers if each.node_id == leader)
        kind = 1 if ask.role is Role.TRANSACTIONS else 0
        for _ in range(RETRIES_MAX):
            found = first.ask(FindCoordinatorRequest(key=str(ask.key), key_type=kind), FIND_COORDINATOR_VERSION)
            if found.error_code == ErrorCode.NONE:
                return f"{found.host}:{found.port}"
            time.sleep(RETRY_MS / 1000)
        raise Refusal("FindCoordinator", ErrorCode(found.error_code))


def _error(answer: Any) -> int:
    return int(answer.error_code)


def _first(errors: Iterable[int]) -> int:
    """The first error of some, or none."""
    return next((error for error in errors if error), 0)


def _topics(partitions: Iterable[TopicPartition]) -> Iterable[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics.items()
