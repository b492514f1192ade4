"""Produce (key 0), versions 0 to 13.

Version 1 adds the throttle time, 2 the log append time and record timestamps (magic 1), 3 transactional ids and record
batches (magic 2), 5 the log start offset, 7 zstd, 8 errors per record and their message (KIP-467), 9 is flexible,
10 adds the current leader (KIP-951), 11 may be answered TRANSACTION_ABORTABLE, 12 adds a partition to its transaction
implicitly (both KIP-890), 13 names topics by id.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from odradek.core.internal_topics import INTERNAL_TOPICS
from odradek.core.machine import Refused
from odradek.host.call import Call, CloseConnection
from odradek.host.leaders import current_leader
from odradek.host.replicas import HasReplicas
from odradek.host.replication import HasReplication
from odradek.host.seams import HasAside, HasClock, HasConfig, HasLog, HasMetadata, HasPartitions, HasRules, HasTurns
from odradek.log.partition import NOT_ENOUGH_REPLICAS
from odradek.records.batch import COMPRESSION_MASK, TRANSACTIONAL, InvalidBatch, parse_batch
from odradek.records.compression import Compression
from odradek.records.validate import Rejected, TakesLong, validate_produce
from odradek.txn.admission import Admission, Applicant
from odradek.txn.verification_errors import ERROR_DESCRIPTIONS, produce_operation
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from odradek.log.partition import Partition
    from odradek.records.batch import Batch
    from odradek.records.validate import Validated
    from odradek.txn.verification_errors import TransactionOperation
    from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

__all__ = ["Write", "produce"]


class Node(
    HasAside,
    HasClock,
    HasConfig,
    HasLog,
    HasMetadata,
    HasPartitions,
    HasReplicas,
    HasReplication,
    HasRules,
    HasTurns,
    Protocol,
):
    """What a Produce touches of its broker."""

    @property
    def admission(self) -> Admission: ...


ACKS_ALL = -1
APPENDED_AT_ONCE = 100
"""Partitions that are appended to before others may go on."""
LEADERS_SINCE = 10
TOPIC_IDS_SINCE = 13
LOOKS_FOR_ZSTD = range(3, 7)
CODECS = frozenset(Compression)
ATTRIBUTES_AT = 22
"""Where the bits of a batch stand that are in use."""
ADMIN_CLIENT = "__admin_client"
"""The client id that may write to internal topics."""
CLOSED_TOPIC = Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
SEVERAL_PRODUCERS = Refused(
    ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
)
NO_NAME_FOR_ID = Refused(ErrorCode.UNKNOWN_TOPIC_ID)


class Write(Applicant, kw_only=True):
    """What one partition of the request comes to: a batch that may be appended, or a refusal."""

    batch: Batch
    rejected: Rejected | None = None
    """What is wrong with the records: Kafka sees it in the log, after the coordinator was asked about the batch."""
    end_offset: int = -1
    """Where the replicas in sync have to get to, if they take their time."""


async def produce(node: Node, call: Call) -> ProduceResponse | None:
    """Append to each partition what belongs to it; with acks=0 there is no answer, and an error ends the connection."""
    request: ProduceRequest = call.request
    version = call.version
    if request.transactional_id is None and _has_transactional_records(request):
        return _all_refused(request, Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    if version in LOOKS_FOR_ZSTD and _names_no_codec(node, request):
        return _all_refused(request, Refused(ErrorCode.UNKNOWN_SERVER_ERROR))
    topics = request.topic_data
    if len(topics) != 1 or len(topics[0].partition_data) != 1:
        topics = _each_once(topics)
    admitted: list[list[Write | PartitionProduceResponse]] = []
    transactional: list[Write] = []
    read = False
    for topic in topics:
        name = _name_of(node, topic, version)
        writes: list[Write | PartitionProduceResponse] = []
        for data in topic.partition_data:
            # A batch may hold a thousand times what was sent.
            if read and await node.turns.breathe(call):
                # Another topic may have got the name of the one with this id.
                name = _name_of(node, topic, version)
            read = True
            try:
                write = _admit(node, name, data, call)
            except TakesLong:
                write = await _admit_aside(node, name, data, call)
            writes.append(write)
            if isinstance(write, Write) and write.batch.attributes & TRANSACTIONAL:
                transactional.append(write)
        admitted.append(writes)
    if transactional:
        await _admit_to_transaction(node, request, transactional, version)
    failed, room = False, APPENDED_AT_ONCE
    leaders: dict[int, NodeEndpoint] = {}
    unacknowledged: list[tuple[Write, PartitionProduceResponse]] = []
    responses = []
    for topic, writes in zip(topics, admitted, strict=True):
        answers = []
        for data, write in zip(topic.partition_data, writes, strict=True):
            room -= 1
            if room < 0:
                room = APPENDED_AT_ONCE
                await node.turns.breathe(call)
            answer = _append(node, data.index, write, call) if isinstance(write, Write) else write
            if answer.error_code != 0:
                failed = True
                if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= LEADERS_SINCE:
                    _tell_leader(node, _name_of(node, topic, version), answer, leaders, call.peer.listener)
            elif isinstance(write, Write) and write.end_offset >= 0:
                unacknowledged.append((write, answer))
            answers.append(answer)
        if answers:
            responses.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
    if request.acks == 0:
        if failed:
            raise CloseConnection("produce_with_acks_0_failed")
        return None
    if unacknowledged and request.acks == ACKS_ALL:
        await _acknowledged(node, request, unacknowledged)
        for write, answer in unacknowledged:
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= LEADERS_SINCE:
                _tell_leader(node, write.partition.topic, answer, leaders, call.peer.listener)
    return ProduceResponse(responses, 0, list(leaders.values()))


def _each_once(topics: list[TopicProduceData]) -> list[TopicProduceData]:
    """Of a partition that is named twice the records that come last, as in Kafka, which keeps them in a map."""
    first: dict[tuple[str, bytes], TopicProduceData] = {}
    last: dict[tuple[str, bytes], dict[int, PartitionProduceData]] = {}
    named = 0
    for topic in topics:
        named += len(topic.partition_data)
        key = topic.name, topic.topic_id
        first.setdefault(key, topic)
        last.setdefault(key, {}).update({data.index: data for data in topic.partition_data})
    if len(last) < len(topics) or sum(map(len, last.values())) < named:
        for key, topic in first.items():
            topic.partition_data = list(last[key].values())
    return list(first.values())


def _has_transactional_records(request: ProduceRequest) -> bool:
    """Whether a batch of the request says so of itself; Kafka asks nothing else about it here."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is not None and len(records) > ATTRIBUTES_AT and records[ATTRIBUTES_AT] & TRANSACTIONAL:
                try:
                    parse_batch(memoryview(records))
                except InvalidBatch:
                    continue
                return True
    return False


def _names_no_codec(node: Node, request: ProduceRequest) -> bool:
    """Whether a batch for a partition that exists names a codec that there is not.

    Versions 3 to 6 may not bring zstd (KIP-110). Kafka reads the codec for that before anything else, and fails with
    all of the request where it cannot; newer versions are refused by the log, each partition by itself.
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            if not data.records or node.image.partition(topic.name, data.index) is None:
                continue
            try:
                batch = parse_batch(memoryview(data.records))
            except InvalidBatch:
                continue
            if batch.attributes & COMPRESSION_MASK not in CODECS:
                return True
    return False


def _all_refused(request: ProduceRequest, refused: Refused) -> ProduceResponse:
    if request.acks == 0:
        raise CloseConnection("produce_with_acks_0_failed")
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name, topic.topic_id, [_refused(data.index, refused) for data in topic.partition_data]
            )
            for topic in request.topic_data
        ],
        0,
        [],
    )


def _name_of(node: Node, topic: TopicProduceData, version: int) -> str | None:
    if version < TOPIC_IDS_SINCE:
        return topic.name
    known = node.image.topic_by_id(topic.topic_id)
    return None if known is None else known.name


def _tell_leader(
    node: Node, topic: str | None, answer: PartitionProduceResponse, leaders: dict[int, NodeEndpoint], listener: str
) -> None:
    """KIP-951: whoever asks the wrong broker is told the right one."""
    found = None if topic is None else current_leader(node, topic, answer.index, listener)
    if found is not None:
        answer.current_leader = LeaderIdAndEpoch(leader_id=found.leader_id, leader_epoch=found.leader_epoch)
        found.tell_endpoint(leaders, NodeEndpoint)


def _admit(node: Node, name: str | None, data: PartitionProduceData, call: Call) -> Write | PartitionProduceResponse:
    if name is None:
        return _refused(data.index, NO_NAME_FOR_ID)
    partition = node.replicas.find(name, data.index)
    if partition is None:
        refused = node.replicas.led(name, data.index)
        assert isinstance(refused, Refused)
        return _refused(data.index, refused)
    records = data.records
    assert not isinstance(records, bytes), "what was read from a frame is a view"
    if _is_closed(partition, call):
        return _closed(data.index, partition, records)
    validated = validate_produce(
        records, produce_version=call.version, topic=partition.rules, now=node.now, partition=data.index, at_once=True
    )
    return _judged(node, partition, records, validated)


async def _admit_aside(
    node: Node, name: str | None, data: PartitionProduceData, call: Call
) -> Write | PartitionProduceResponse:
    """Admit a batch that may be read while others are served; it is looked up again when it is appended."""
    records = data.records
    assert name is not None, "records of no topic are not read"
    assert not isinstance(records, bytes), "what was read from a frame is a view"
    partition = node.partitions[name, data.index]
    validated = await node.aside.do(
        partial(
            validate_produce,
            records,
            produce_version=call.version,
            topic=partition.rules,
            now=node.now,
            partition=data.index,
        )
    )
    return _judged(node, partition, records, validated)


def _judged(
    node: Node, partition: Partition, records: memoryview | None, validated: Validated | Rejected
) -> Write | PartitionProduceResponse:
    if not isinstance(validated, Rejected):
        return _write(partition, validated.batch)
    node.log.debug("records_refused", topic=partition.topic, partition=partition.index, reason=validated.reason)
    if validated.of_request or records is None:
        return _rejected(partition.index, validated, partition)
    try:
        write = _write(partition, parse_batch(records))
    except InvalidBatch:  # messages of an older format, which are of no transaction
        return _rejected(partition.index, validated, partition)
    write.rejected = validated
    return write


def _write(partition: Partition, batch: Batch) -> Write:
    return Write(partition, batch.producer_id, batch.producer_epoch, batch.base_sequence, batch=batch)


async def _admit_to_transaction(node: Node, request: ProduceRequest, writes: list[Write], version: int) -> None:
    """Give each transactional write its guard, or its refusal (KIP-890)."""
    transactional_id = request.transactional_id
    assert transactional_id is not None, "transactional records without an id are refused"
    if not node.release.verification.records:
        return
    # A batch without a producer id is plain data, whatever its transactional bit says.
    producing = [write for write in writes if write.producer_id >= 0]
    if len(producing) > 1 and len({(write.producer_id, write.producer_epoch) for write in producing}) > 1:
        _refuse_all(writes, SEVERAL_PRODUCERS)
        return
    rules = node.rules
    operation = produce_operation(version, rules.since)
    if not producing or (operation.verifies_only and not node.config.verifies_records):
        return

    def judge(operation: TransactionOperation, failure: ErrorCode) -> Refused:
        error = rules.produce_error(operation, failure)
        return Refused(error.error, error.message)

    await node.admission.admit(
        producing,
        transactional_id=transactional_id,
        operation=operation,
        judge=judge,
        retry_within_ms=min(node.config.add_partitions_to_txn_retry_backoff_max_ms, request.timeout_ms),
    )
    if node.release.verification.explains_errors:
        for write in producing:
            if write.refused is not None and write.refused.message is None:
                write.refused = Refused(write.refused.error, ERROR_DESCRIPTIONS.get(write.refused.error))


def _refuse_all(writes: list[Write], refused: Refused) -> None:
    for write in writes:
        write.refused = refused


def _closed(index: int, partition: Partition, records: memoryview | None) -> Write | PartitionProduceResponse:
    """A transactional batch is verified all the same before it is refused."""
    try:
        return _write(partition, parse_batch(records or memoryview(b"")))
    except InvalidBatch:
        return _refused(index, CLOSED_TOPIC)


def _append(node: Node, index: int, write: Write, call: Call) -> PartitionProduceResponse:
    partition = write.partition
    refused = write.refused or node.replicas.lost(partition) or _unwritable(node, partition, call)
    if refused is not None:
        start = partition.log_start_offset if refused is NOT_ENOUGH_REPLICAS else -1
        return _refused(index, refused, log_start_offset=start)
    if write.rejected is not None:
        return _rejected(index, write.rejected, partition)
    batch = write.batch
    if batch.attributes & TRANSACTIONAL:
        appended = partition.append_client(
            batch,
            now=node.now,
            guard=write.guard,
            verification_enabled=node.config.verifies_records,
        )
    else:
        appended = partition.append_client(batch, now=node.now)
    if isinstance(appended, Refused):
        return _refused(index, appended, log_start_offset=_start_told(partition, appended.error))
    node.replicas.appended(partition)
    if partition.log.mark is not None:
        write.end_offset = appended.next_offset
    return PartitionProduceResponse(index, 0, appended.base_offset, appended.log_append_time, appended.log_start_offset)


async def _acknowledged(
    node: Node, request: ProduceRequest, written: list[tuple[Write, PartitionProduceResponse]]
) -> None:
    """Wait until all replicas in sync have what was written; an answer that comes too late says so."""
    deadline = node.now + request.timeout_ms
    for write, answer in written:
        error = await node.replication.committed(write.partition, write.end_offset, deadline=deadline)
        if error is ErrorCode.NONE and write.partition.is_short:
            error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        answer.error_code = error


def _is_closed(partition: Partition, call: Call) -> bool:
    return partition.topic in INTERNAL_TOPICS and call.client_id != ADMIN_CLIENT


def _unwritable(node: Node, partition: Partition, call: Call) -> Refused | None:
    """What Kafka looks at only after the coordinator was asked."""
    acks = call.request.acks
    if not -1 <= acks <= 1:
        return Refused(ErrorCode.INVALID_REQUIRED_ACKS)
    if _is_closed(partition, call):
        return CLOSED_TOPIC
    return NOT_ENOUGH_REPLICAS if acks == ACKS_ALL and partition.is_short else None


def _start_told(partition: Partition, error: ErrorCode) -> int:
    """Kafka's refusals of an append tell where the log starts, but for a few that it knows well."""
    return -1 if error in WITHOUT_LOG_START else partition.log_start_offset


def _refused(index: int, refused: Refused, *, log_start_offset: int = -1) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=refused.error,
        base_offset=-1,
        log_start_offset=log_start_offset,
        error_message=refused.message,
    )


def _rejected(index: int, rejected: Rejected, partition: Partition) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=rejected.error,
        base_offset=-1,
        log_start_offset=-1 if rejected.of_request else _start_told(partition, rejected.error),
        error_message=rejected.message,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=position, batch_index_error_message=message)
            for position, message in rejected.record_errors
        ],
    )
