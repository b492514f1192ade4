"""Transactional producers, as scripts that behave like real ones: they retry, abort, bump, and restart when fenced.

The older style adds its partitions, and bumps its epoch after an abort; the newer style does neither (KIP-890).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.internal_topics import CoordinatorKind
from odradek.records.record import Record, build_batch
from odradek.sim.clients.directories import Directory, Images, Lookups, offered
from odradek.sim.schedules.schedule import PARTITIONS, Player, Send, Txn
from odradek.sim.world.actors import Ask, AskAll, Script, Sleep
from odradek.sim.world.dice import Dice
from odradek.sim.world.world import World
from odradek.txn.decision_tables import rules_of
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.produce_response import ProduceResponse, TopicProduceResponse
from odradek.wire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.registry import ApiKey

__all__ = ["AGAIN", "LONG_MS", "TOPIC", "MustAbort", "MustRestart", "Producer", "Transaction", "WalksAway"]

TopicPartition = tuple[str, int]
TOPIC = "t"
LONG_MS = 60_000
"""A transaction with this timeout stays open until the end of the run if its producer dies."""
PATIENCE_MS = 3_000
"""How long a producer waits for a coordinator's answer."""
NOBODY = (-1, -1)
INIT_VERSION = 5

AGAIN = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
ABORTABLE = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
"""Produce errors that lose only the transaction; after any other error the producer is lost."""


NOT_A_MEMBER = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
"""TxnOffsetCommit errors of a member whose work belongs to another one by now."""


class _Sent(Struct):
    """A batch in flight."""

    values: list[bytes]
    sequence: int
    request: ProduceRequest


class Transaction(Struct):
    """One transaction, as its producer sees it."""

    producer: str
    number: int
    style: str
    pair: tuple[int, int]
    values: dict[TopicPartition, list[bytes]] = {}
    elsewhere: dict[TopicPartition, list[bytes]] = {}
    """Values that it sent to the topic that is deleted and made again."""
    told_elsewhere: dict[bytes, int] = {}
    """When these values were acknowledged."""
    told: list[tuple[TopicPartition, int, list[bytes]]] = []
    """(Partition, first offset, values) of each acknowledged batch."""
    refused: list[tuple[TopicPartition, int]] = []
    """(Partition, sequence) of batches refused as out of order although no earlier batch is missing."""
    shut_out: list[TopicPartition] = []
    """Partitions whose leader refused a batch because the transaction is not open."""
    with_offset: bool = False
    work: int | None = None
    """The number that it processed, if it was the work of a group."""
    commit_asked: bool = False
    outcome: str = "unknown"


class MustAbort(Exception):
    """The transaction has failed; the producer goes on."""


class WalksAway(Exception):
    """The producer dies with its transaction open, and no other instance follows it."""


class MustRestart(Exception):
    """The producer is fenced."""


class MustRecover(MustRestart):
    """The coordinator has lost the producer's state: the producer may ask for the next epoch (KIP-360)."""


class Producer:
    """One instance of a transactional id."""

    def __init__(
        self,
        world: World,
        *,
        plan: Player,
        timeout_ms: int,
        goes_on: Callable[[], bool],
        journal: list[Transaction],
        newest: Mapping[ApiKey, int] | None = None,
    ) -> None:
        self.world = world
        self.name = plan.name
        self.tid = plan.transactional_id
        self.new = plan.newer
        self._newest = newest or {}
        """The newest API versions of a client that does not know the brokers' dialect."""
        since = rules_of(world.config.release).since
        behind = 0 if self.new else 1
        self.init_version = self._offered(ApiKey.INIT_PRODUCER_ID, INIT_VERSION)
        self.produce_version = self._offered(ApiKey.PRODUCE, since.produce_adds - behind)
        """The first version of the newer style, or the last one of the older style."""
        self.offsets_version = self._offered(ApiKey.TXN_OFFSET_COMMIT, since.offsets_add - behind)
        self.end_version = self._offered(ApiKey.END_TXN, since.end_bumps - behind)
        self.add_version = self._offered(ApiKey.ADD_PARTITIONS_TO_TXN, 3)
        self.add_offsets_version = self._offered(ApiKey.ADD_OFFSETS_TO_TXN, 3)
        self.random = Dice(plan.seed)
        """Random numbers for details outside the schedule; each transaction has a seed of its own."""
        self.directory: Directory = (
            Lookups(world, f"{plan.seed} lookups") if plan.looks_up else Images(world, lambda: self.random)
        )
        self.plan = plan
        self.timeout_ms = timeout_ms
        self.goes_on = goes_on
        self.journal = journal
        self.group = f"group-{self.name}"
        self.pair = NOBODY
        self.sequences: dict[TopicPartition, int] = {}
        self.over: dict[tuple[int, int], dict[TopicPartition, int]] = {}
        """Ends of the logs when the producer learned that an id and epoch are over."""
        self.met: Counter[str] = Counter()
        """Errors that it received, and timeouts."""

    def script(self) -> Script:
        yield Sleep(self.plan.begins_ms + self.random.randrange(100))
        yield from self._restart()
        for number, plan in enumerate(self.plan.transactions):
            self.random = Dice(plan.seed)
            yield Sleep(plan.pause_ms)
            yield from self._get_ready()
            if not self.goes_on():
                return
            transaction = Transaction(self.name, number, "new" if self.new else "old", self.pair)
            self.journal.append(transaction)
            try:
                yield from self._transact(transaction, plan)
            except WalksAway:
                transaction.outcome = "aborted"
                return
            except MustRestart as lost:
                if not transaction.commit_asked:
                    transaction.outcome = "aborted"
                if isinstance(lost, MustRecover):
                    yield from self._recover()
                    continue
                yield Sleep(self.random.randrange(500))
                yield from self._restart()

    def _recover(self) -> Script:
        """Ask for the next epoch at once, as real producers do, because EndTxn would be refused too."""
        try:
            yield from self._init(self.pair)
        except MustRestart:
            yield Sleep(self.random.randrange(500))
            yield from self._restart()

    def _get_ready(self) -> Script:
        """Wait until the next transaction may begin."""
        yield from ()

    def _restart(self) -> Script:
        while True:
            try:
                yield from self._init(NOBODY)
                return
            except MustRestart:
                yield Sleep(100)

    def _transact(self, transaction: Transaction, plan: Txn) -> Script:
        try:
            if not self.new and plan.sends:
                yield from self._add(list(dict.fromkeys((send.topic, send.partition) for send in plan.sends)))
            numbered = list(enumerate(plan.sends))
            if plan.together:
                numbered = yield from self._produce_together(transaction, numbered)
            for number, send in numbered:
                yield from self._produce(transaction, send, number)
                yield Sleep(send.pause_ms)
            if plan.offset:
                yield from self._commit_own_offset(transaction, plan.offset_patience_ms)
            for group in plan.groups:
                name = f"{self.name}/{transaction.number}"
                yield from self._commit_offset(transaction, group=group, offset=transaction.number, metadata=name)
            yield from self._rest(plan.rests_ms)
            dies = self.timeout_ms < LONG_MS and not self.goes_on() and plan.seed % 2
            if plan.ending == "walk away" or dies:
                raise WalksAway
        except MustAbort:
            yield from self._end(transaction, commit=False)
            if not self.new:
                yield from self._init(self.pair)
            return
        yield from self._end(transaction, commit=plan.ending == "commit", changes_mind=plan.changes_mind)

    def _rest(self, milliseconds: int) -> Script:
        if milliseconds:
            yield Sleep(milliseconds)

    def _add(self, partitions: list[TopicPartition]) -> Script:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.tid,
            v3_and_below_producer_id=self.pair[0],
            v3_and_below_producer_epoch=self.pair[1],
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(topic, [index for name, index in partitions if name == topic])
                for topic in dict.fromkeys(name for name, _ in partitions)
            ],
        )
        yield from self._until_done(
            CoordinatorKind.TRANSACTION,
            self.tid,
            request,
            self.add_version,
            lambda response: response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )

    def _produce(self, transaction: Transaction, send: Send, number: int) -> Script:
        """Send batches to a partition; send those that were refused again, in the order of their sequences."""
        partition = (send.topic, send.partition)
        waiting = self._batches(transaction, send, number)
        for _ in range(50):
            leader = yield from self.directory.leader(partition)
            if leader >= 0:
                requests = tuple(sent.request for sent in waiting)
                responses = yield AskAll(leader, requests, self.produce_version, send.patience_ms, send.hangs_up)
                self._note_leader(partition, leader, responses)
                lost = self._take_answers(transaction, partition, waiting, responses)
                if not waiting:
                    return
                if lost and send.gives_up:
                    # The batch may still be in flight when the transaction is over and the next one has begun.
                    raise MustAbort
            yield Sleep(self.random.randint(5, 60))
        raise MustAbort

    def _produce_together(
        self, transaction: Transaction, numbered: list[tuple[int, Send]]
    ) -> Generator[Sleep | Ask | AskAll, Any, list[tuple[int, Send]]]:
        """Send the first batch for each partition, in one request for each leader; return the rest."""
        firsts = {send.partition: (number, send) for number, send in reversed(numbered) if send.topic == TOPIC}
        waiting = {
            (TOPIC, index): self._batches(transaction, replace(send, records=send.records[:1]), number)
            for index, (number, send) in sorted(firsts.items())
        }
        patience_ms = min((send.patience_ms for _, send in firsts.values()), default=0)
        gives_up = any(send.gives_up for _, send in firsts.values())
        hangs_up = all(send.hangs_up for _, send in firsts.values())
        for _ in range(50):
            led: dict[int, list[TopicPartition]] = {}
            for partition in waiting:
                led.setdefault((yield from self.directory.leader(partition)), []).append(partition)
            led.pop(-1, None)
            for leader, partitions in led.items():
                request = _together([waiting[partition][0].request for partition in partitions])
                [response] = yield AskAll(leader, (request,), self.produce_version, patience_ms, hangs_up)
                for position, partition in enumerate(partitions):
                    own = None if response is None else _answer_to(response, position)
                    self._note_leader(partition, leader, [own])
                    lost = self._take_answers(transaction, partition, waiting[partition], [own])
                    if lost and gives_up:
                        raise MustAbort
            waiting = {partition: sent for partition, sent in waiting.items() if sent}
            if not waiting:
                sent = {number for number, _ in firsts.values()}
                return [(number, send) for number, send in numbered if number not in sent]
            yield Sleep(self.random.randint(5, 60))
        raise MustAbort

    def _batches(self, transaction: Transaction, send: Send, number: int) -> list[_Sent]:
        partition = (send.topic, send.partition)
        is_elsewhere = send.topic != TOPIC
        all_values = transaction.elsewhere if is_elsewhere else transaction.values
        waiting = []
        sequence = self.sequences.get(partition, 0)
        for batch_number, records in enumerate(send.records):
            name = (
                f"{self.name}/{transaction.number}/{send.partition + PARTITIONS * is_elsewhere}/{number}/{batch_number}"
            )
            values = [f"{name}/{each}".encode() for each in range(records)]
            # Batches in flight count: they may be in the log without an acknowledgement.
            all_values.setdefault(partition, []).extend(values)
            waiting.append(_Sent(values, sequence, self._request(partition, values, sequence)))
            sequence += len(values)
        return waiting

    def _request(self, partition: TopicPartition, values: list[bytes], sequence: int) -> ProduceRequest:
        records = build_batch(
            [Record(timestamp=self.world.now, value=value) for value in values],
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=partition[1], records=memoryview(records))
        return ProduceRequest(
            transactional_id=self.tid,
            acks=-1,
            timeout_ms=2_000,
            topic_data=[TopicProduceData(name=partition[0], partition_data=[data])],
        )

    def _take_answers(
        self, transaction: Transaction, partition: TopicPartition, waiting: list[_Sent], responses: list[Any]
    ) -> bool:
        """Remove the acknowledged batches; True if an answer is missing."""
        taken: list[_Sent] = []
        for position, (sent, response) in enumerate(zip(waiting, responses, strict=True)):
            answer = None if response is None else response.responses[0].partition_responses[0]
            error = None if answer is None else answer.error_code
            self._meet("PRODUCE", error)
            if answer is not None and error == ErrorCode.NONE:
                taken.append(sent)
                self.sequences[partition] = self.sequences.get(partition, 0) + len(sent.values)
                if partition[0] == TOPIC:
                    transaction.told.append((partition, answer.base_offset, sent.values))
                else:
                    transaction.told_elsewhere.update(dict.fromkeys(sent.values, self.world.now))
            elif error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and len(taken) < position:
                # An earlier batch was refused: both are sent again.
                continue
            elif error is not None and error not in AGAIN:
                if error == ErrorCode.INVALID_TXN_STATE and self.new and partition[0] == TOPIC:
                    transaction.shut_out.append(partition)
                if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                    transaction.refused.append((partition, sent.sequence))
                raise MustAbort if error in ABORTABLE else MustRestart
        waiting[:] = [sent for sent in waiting if sent not in taken]
        return None in responses

    def _commit_own_offset(self, transaction: Transaction, patience_ms: int) -> Script:
        transaction.with_offset = True
        yield from self._commit_offset(
            transaction, group=self.group, offset=transaction.number, patience_ms=patience_ms
        )

    def _commit_offset(
        self,
        transaction: Transaction,
        *,
        group: str,
        offset: int,
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        patience_ms: int = 0,
        metadata: str = "",
    ) -> Script:
        if not self.new:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.tid,
                producer_id=self.pair[0],
                producer_epoch=self.pair[1],
                group_id=group,
            )
            yield from self._until_done(
                CoordinatorKind.TRANSACTION,
                self.tid,
                request,
                self.add_offsets_version,
                lambda response: response.error_code,
            )
        committed = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        committed.committed_metadata = metadata
        commit = TxnOffsetCommitRequest(
            transactional_id=self.tid,
            group_id=group,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[committed])],
        )
        response = yield from self._until_done(
            CoordinatorKind.GROUP,
            group,
            commit,
            self.offsets_version,
            lambda response: response.topics[0].partitions[0].error_code,
            abortable=NOT_A_MEMBER | {ErrorCode.TRANSACTION_ABORTABLE},
            asks_once=patience_ms > 0,
            patience_ms=patience_ms or PATIENCE_MS,
        )
        if response is None:
            # It may still be in flight when the transaction is over and the next one has begun.
            raise MustAbort

    def _end(self, transaction: Transaction, *, commit: bool, changes_mind: bool = False) -> Script:
        request = EndTxnRequest(
            transactional_id=self.tid, producer_id=self.pair[0], producer_epoch=self.pair[1], committed=commit
        )
        transaction.commit_asked = commit
        response = yield from self._until_done(
            CoordinatorKind.TRANSACTION,
            self.tid,
            request,
            self.end_version,
            lambda answer: answer.error_code,
            # Without a partition an older client's transaction has not begun, so there is nothing to abort.
            fine=frozenset() if self.new or commit else frozenset({ErrorCode.INVALID_TXN_STATE}),
            asks_once=changes_mind,
        )
        if response is None:
            # The commit may be decided already; then the coordinator must say so.
            commit = False
            response = yield from self._until_done(
                CoordinatorKind.TRANSACTION,
                self.tid,
                replace(request, committed=False),
                self.end_version,
                lambda answer: answer.error_code,
            )
            if not self.new:
                transaction.outcome = "aborted"
                yield from self._init(self.pair)
                return
        transaction.outcome = "committed" if commit else "aborted"
        if self.new:
            self._adopt((response.producer_id, response.producer_epoch))

    def _init(self, pair: tuple[int, int]) -> Script:
        request = InitProducerIdRequest(
            transactional_id=self.tid,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=pair[0],
            producer_epoch=pair[1],
        )
        response = yield from self._until_done(
            CoordinatorKind.TRANSACTION, self.tid, request, self.init_version, lambda answer: answer.error_code
        )
        # InitProducerId is answered when all markers of the last transaction are written.
        self.over[self.pair] = {(log.topic, log.index): log.end_offset for log in self.world.store.logs()}
        self._adopt((response.producer_id, response.producer_epoch))

    def _adopt(self, pair: tuple[int, int]) -> None:
        self.pair = pair
        self.sequences = {}

    def _until_done(
        self,
        kind: CoordinatorKind,
        key: str,
        request: Struct,
        version: int,
        error_of: Any,
        *,
        abortable: frozenset[ErrorCode] = frozenset(),
        fine: frozenset[ErrorCode] = frozenset(),
        asks_once: bool = False,
        patience_ms: int = PATIENCE_MS,
    ) -> Generator[Sleep | Ask, Any, Any]:
        """Ask the current coordinator until there is a final answer: success, or an error that a retry does not change.

        None if a request had no answer and is not repeated.
        """
        while True:
            node_id = yield from self.directory.coordinator(kind, key)
            response = None if node_id < 0 else (yield Ask(node_id, request, version, patience_ms))
            told = None if response is None else error_of(response)
            self._meet(type(request).__name__, told)
            if node_id >= 0:
                self.directory.answered(kind, key, node_id, told)
            if asks_once and response is None and node_id >= 0:
                return None
            if response is not None:
                error = ErrorCode(error_of(response))
                if error is ErrorCode.NONE or error in fine:
                    return response
                if error is ErrorCode.INVALID_PRODUCER_ID_MAPPING and self.plan.recovers:
                    raise MustRecover
                if error not in AGAIN:
                    raise MustAbort if error in abortable else MustRestart
                if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not self.goes_on():
                    # A topic that is deleted when the trouble is over is not made again.
                    raise MustAbort
            yield Sleep(self.random.randint(5, 100))

    def _meet(self, request: str, error: int | None) -> None:
        if error != ErrorCode.NONE:
            self.met[f"{request} {'lost' if error is None else ErrorCode(error).name}"] += 1

    def _offered(self, api_key: ApiKey, version: int) -> int:
        """The version, or the newest one of the brokers or their dialect if that is lower."""
        newest = offered(self.world, api_key, version)
        return min(newest, self._newest.get(api_key, newest))

    def _note_leader(self, partition: TopicPartition, leader: int, responses: list[ProduceResponse | None]) -> None:
        """Pass the answer of a leader to the directory, or that there was none."""
        for response in responses:
            answer = None if response is None else response.responses[0].partition_responses[0]
            error = None if answer is None else answer.error_code
            self.directory.led(partition, leader, error, None if answer is None else answer.current_leader)


def _together(requests: list[ProduceRequest]) -> ProduceRequest:
    """Join requests with one partition each of the same topic."""
    first = requests[0]
    data = [request.topic_data[0].partition_data[0] for request in requests]
    return replace(first, topic_data=[TopicProduceData(name=first.topic_data[0].name, partition_data=data)])


def _answer_to(response: ProduceResponse, position: int) -> ProduceResponse:
    """The part of a response for one of its partitions."""
    [topic] = response.responses
    return ProduceResponse([TopicProduceResponse(topic.name, topic.topic_id, [topic.partition_responses[position]])])
