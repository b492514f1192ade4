"""A transactional producer that does what it is told, and speaks the versions of its style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.kips.cluster import ABORT, COMMIT, Cluster, partition_errors, topics_of
from tests.kips.styles import NEW, Style
from tests.kips.view import GROUP, OK, P, Pair, Pending, TopicPartition

from odradek.records.record import Record, build_batch
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.init_producer_id_response import InitProducerIdResponse
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.produce_response import PartitionProduceResponse, ProduceResponse
from odradek.wire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.messages.txn_offset_commit_response import TxnOffsetCommitResponse

__all__ = ["Producer"]

NOBODY: Pair = (-1, -1)


class Producer:
    """A client of one transactional id; it keeps its producer id and epoch, and counts its sequences."""

    def __init__(self, cluster: Cluster, style: Style = NEW, *, tid: str = "x", timeout_ms: int = 60_000) -> None:
        self.cluster = cluster
        self.style = style
        self.tid = tid
        self.timeout_ms = timeout_ms
        self.pair: Pair = NOBODY
        self.sequences: dict[TopicPartition, int] = {}

    @classmethod
    def started(
        cls, cluster: Cluster, style: Style = NEW, *, tid: str = "x", timeout_ms: int = 60_000, epoch: int = 0
    ) -> Producer:
        """A producer that has its id; at another epoch than the first if need be."""
        producer = cls(cluster, style, tid=tid, timeout_ms=timeout_ms)
        assert OK is producer.init()
        if epoch:
            cluster.force_epoch(tid, epoch)
            producer.pair = producer.pair[0], epoch
        return producer

    @property
    def epoch(self) -> int:
        """Its epoch."""
        return self.pair[1]

    # ------------------------------------------------------------------ InitProducerId

    def init(self, pair: Pair = NOBODY, *, version: int | None = None) -> ErrorCode:
        """InitProducerId; what it gets becomes its own."""
        error, got = self.init_answer(pair, version=version)
        if got is not None:
            self._adopt(got)
        return error

    def init_answer(self, pair: Pair = NOBODY, *, version: int | None = None) -> tuple[ErrorCode, Pair | None]:
        """The error of an InitProducerId, or the producer id and epoch; nothing is adopted."""
        # Before version 3 the request has no room for a producer id and epoch.
        version = max(self.style.init, 3 if pair != NOBODY else 0) if version is None else version
        request = InitProducerIdRequest(
            transactional_id=self.tid,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=pair[0],
            producer_epoch=pair[1],
        )
        response: InitProducerIdResponse = self.cluster.ask(self._coordinator, request, version)
        if response.error_code != OK:
            assert NOBODY == (response.producer_id, response.producer_epoch)
            return ErrorCode(response.error_code), None
        return OK, (response.producer_id, response.producer_epoch)

    def _adopt(self, pair: Pair) -> None:
        if pair != self.pair:
            self.sequences = {}
        self.pair = pair

    # ------------------------------------------------------------------ partitions

    def begin(self, *partitions: TopicPartition) -> None:
        """Add partitions to the transaction, if this client does that itself."""
        if self.style.add is not None:
            assert OK is self.add(*partitions)

    def add(self, *partitions: TopicPartition, pair: Pair | None = None, version: int | None = None) -> ErrorCode:
        """AddPartitionsToTxn as a client sends it."""
        producer_id, epoch = pair or self.pair
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.tid,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics_of(partitions, AddPartitionsToTxnTopic),
        )
        version = self.style.add if version is None else version
        assert version is not None, "this client does not add partitions"
        response = self.cluster.ask(self._coordinator, request, version)
        errors = set(partition_errors(response.results_by_topic_v3_and_below))
        assert 1 == len(errors), errors
        return errors.pop()

    def send(self, partition: TopicPartition, *values: bytes, **how: Any) -> ErrorCode:
        """Produce; the error of its one partition."""
        return ErrorCode(self.produce(partition, *values, **how).error_code)

    def produce(self, partition: TopicPartition, *values: bytes, **how: Any) -> PartitionProduceResponse:
        """Produce; the answer for its one partition. What was appended is counted."""
        answer = self.sending(partition, *values, **how).result()
        if answer.error_code == OK and "sequence" not in how and "pair" not in how:
            self.sequences[partition] = self.sequences.get(partition, 0) + max(1, len(values))
        return answer

    def sending(
        self,
        partition: TopicPartition,
        *values: bytes,
        sequence: int | None = None,
        pair: Pair | None = None,
        version: int | None = None,
        timeout_ms: int = 30_000,
        transactional: bool = True,
        node_id: int | None = None,
    ) -> Pending[PartitionProduceResponse]:
        """Produce, without waiting."""
        version = self.style.produce if version is None else version
        records = self._batch(
            values or (b"v",),
            pair or self.pair,
            sequence=self.sequences.get(partition, 0) if sequence is None else sequence,
            transactional=transactional,
        )
        request = ProduceRequest(
            transactional_id=self.tid,
            acks=-1,
            timeout_ms=timeout_ms,
            topic_data=[self._data(partition, records, version)],
        )
        node_id = self.cluster.leader(partition) if node_id is None else node_id
        return self.cluster.pending(node_id, request, version, _produced)

    def produce_together(
        self, partitions: Mapping[TopicPartition, Pair], *, version: int | None = None
    ) -> list[PartitionProduceResponse]:
        """One Produce with a first batch for each partition of a topic, of these producers, to a leader of all."""
        version = self.style.produce if version is None else version
        together: TopicProduceData | None = None
        for partition, pair in partitions.items():
            data = self._data(partition, self._batch((b"v",), pair, sequence=0, transactional=True), version)
            if together is None:
                together = data
            else:
                together.partition_data += data.partition_data
        assert together is not None
        request = ProduceRequest(transactional_id=self.tid, acks=-1, timeout_ms=30_000, topic_data=[together])
        response = self.cluster.ask(self.cluster.leader(next(iter(partitions))), request, version)
        return [partition for topic in response.responses for partition in topic.partition_responses]

    def _batch(self, values: Sequence[bytes], pair: Pair, *, sequence: int, transactional: bool) -> bytes:
        return build_batch(
            [Record(timestamp=self.cluster.world.now, value=value) for value in values],
            producer_id=pair[0],
            producer_epoch=pair[1],
            base_sequence=sequence,
            transactional=transactional,
        )

    def _data(self, partition: TopicPartition, records: bytes, version: int) -> TopicProduceData:
        topic, index = partition
        data = [PartitionProduceData(index=index, records=memoryview(records))]
        if version >= 13:
            return TopicProduceData(topic_id=self.cluster.topic_id(topic), partition_data=data)
        return TopicProduceData(name=topic, partition_data=data)

    # ------------------------------------------------------------------ offsets

    def add_offsets(self, group: str = GROUP, *, version: int = 3) -> ErrorCode:
        """AddOffsetsToTxn."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.tid, producer_id=self.pair[0], producer_epoch=self.pair[1], group_id=group
        )
        return ErrorCode(self.cluster.ask(self._coordinator, request, version).error_code)

    def commit_offset(self, offset: int, **how: Any) -> ErrorCode:
        """TxnOffsetCommit of one partition."""
        return self.committing_offset(offset, **how).result()

    def committing_offset(
        self,
        offset: int,
        *,
        group: str = GROUP,
        partition: TopicPartition = P,
        pair: Pair | None = None,
        version: int | None = None,
        member: str = "",
        generation: int = -1,
    ) -> Pending[ErrorCode]:
        """TxnOffsetCommit, without waiting."""
        version = self.style.offsets if version is None else version
        topic, index = partition
        named = {"topic_id": self.cluster.topic_id(topic)} if version >= 6 else {"name": topic}
        committed = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        committed.committed_metadata = ""
        request = TxnOffsetCommitRequest(
            transactional_id=self.tid,
            group_id=group,
            producer_id=(pair or self.pair)[0],
            producer_epoch=(pair or self.pair)[1],
            topics=[TxnOffsetCommitRequestTopic(partitions=[committed], **named)],
        )
        if version >= 3:
            request.member_id, request.generation_id_or_member_epoch = member, generation
        node_id = self.cluster.leader(self.cluster.offsets_of(group))
        return self.cluster.pending(node_id, request, version, _offset_committed)

    # ------------------------------------------------------------------ EndTxn

    def commit(self) -> ErrorCode:
        """EndTxn; a new pair becomes its own."""
        return self.finish(COMMIT)

    def abort(self) -> ErrorCode:
        """EndTxn; a new pair becomes its own."""
        return self.finish(ABORT)

    def finish(self, outcome: bool) -> ErrorCode:
        """EndTxn; a new pair becomes its own."""
        error, got = self.end(outcome)
        if got is not None:
            self._adopt(got)
        return error

    def end(
        self, outcome: bool, *, pair: Pair | None = None, version: int | None = None
    ) -> tuple[ErrorCode, Pair | None]:
        """EndTxn: the error, and the pair to go on with if there is one; nothing is adopted."""
        return self.ending(outcome, pair=pair, version=version).result()

    def ending(
        self, outcome: bool, *, pair: Pair | None = None, version: int | None = None
    ) -> Pending[tuple[ErrorCode, Pair | None]]:
        """EndTxn, without waiting."""
        request = EndTxnRequest(
            transactional_id=self.tid,
            producer_id=(pair or self.pair)[0],
            producer_epoch=(pair or self.pair)[1],
            committed=outcome,
        )
        version = self.style.end if version is None else version
        return self.cluster.pending(self._coordinator, request, version, _ended)

    def transact(self, partition: TopicPartition, *values: bytes, outcome: bool = COMMIT) -> None:
        """One whole transaction."""
        self.begin(partition)
        assert OK is self.send(partition, *values)
        assert OK is self.finish(outcome)

    @property
    def _coordinator(self) -> int:
        return self.cluster.coordinator(self.tid)


def _produced(response: ProduceResponse) -> PartitionProduceResponse:
    [topic] = response.responses
    [partition] = topic.partition_responses
    return partition


def _ended(response: EndTxnResponse) -> tuple[ErrorCode, Pair | None]:
    pair = response.producer_id, response.producer_epoch
    return ErrorCode(response.error_code), None if pair == NOBODY else pair


def _offset_committed(response: TxnOffsetCommitResponse) -> ErrorCode:
    [topic] = response.topics
    [partition] = topic.partitions
    return ErrorCode(partition.error_code)
