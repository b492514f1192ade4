"""Produce (key 0), versions 0 to 13.

Version 1 adds the throttle time, 2 the log append time and record timestamps (magic 1), 3 transactional ids and record
batches (magic 2), 5 the log start offset, 7 zstd, 8 errors per record and their message (KIP-467), 9 is flexible,
10 adds the current leader (KIP-951), 11 may be answered TRANSACTION_ABORTABLE, 12 adds a partition to its transaction
implicitly (both KIP-890), 13 names topics by id.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import allowed_on_each, asks, denied, in_series
from odradek.core.internal_topics import INTERNAL_TOPICS
from odradek.core.machine import Refused
from odradek.host.call import Call, CloseConnection, Serve
from odradek.host.endpoint import endpoint
from odradek.host.leaders import current_leader
from odradek.log.partition import NOT_ENOUGH_REPLICAS
from odradek.records.batch import COMPRESSION_MASK, MAGIC_AT, TRANSACTIONAL, InvalidBatch, parse_batch
from odradek.records.compression import Compression
from odradek.records.validate import Rejected, TakesLong, validate_produce
from odradek.txn.admission import Applicant
from odradek.txn.verification_errors import ERROR_DESCRIPTIONS, produce_operation
from odradek.wire.api import Api
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.produce_request import ProduceRequest, TopicProduceData
from odradek.wire.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from odradek.access.authority import Authority
    from odradek.host.host import Host
    from odradek.host.replicas import Replicas
    from odradek.log.partition import Partition
    from odradek.records.batch import Batch
    from odradek.txn.admission import Admission
    from odradek.txn.verification_errors import TransactionOperation
    from odradek.wire.messages.produce_request import PartitionProduceData

__all__ = ["ProduceApi", "Write"]

PRODUCE: Api[ProduceRequest, ProduceResponse | None] = Api(ApiKey.PRODUCE)
"""Without an answer where the client wants none (acks=0)."""

ACKS_ALL = -1
APPENDED_AT_ONCE = 100
"""Partitions that are appended to before others may go on."""
LEADERS_SINCE = 10
TOPIC_IDS_SINCE = 13
LOOKS_FOR_ZSTD = range(3, 7)
CODECS = frozenset(Compression)
ATTRIBUTES_AT = 22
"""Offsets in a batch: the low byte of its attributes, and its magic."""
ADMIN_CLIENT = "__admin_client"
"""The client id that may write to internal topics."""
CLOSED_TOPIC = Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
INVALID_ACKS = Refused(ErrorCode.INVALID_REQUIRED_ACKS)
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
    """A partition of the request: a batch that may be appended, or its refusal."""

    batch: Batch
    rejected: Rejected | None = None
    """A fault of the records. Kafka finds it in the log, after the coordinator was asked about the batch."""
    end_offset: int = -1
    """The offset that the replicas in sync must reach, if they are not there at once."""


@asks("WRITE on the transactional id for transactional records")
async def _may_use_id(
    authority: Authority, call: Call[ProduceRequest], serve: Serve[ProduceRequest, ProduceResponse | None]
) -> ProduceResponse | None:
    """A transactional batch needs WRITE on the transactional id; the topics are judged one by one."""
    request = call.request
    if any(_has_transactional_bit(data.records) for topic in request.topic_data for data in topic.partition_data):
        tid = request.transactional_id
        if tid is None or not authority.allows(call, AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, tid):
            return denied(call, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ProduceResponse)
    return await serve(call)


def _has_transactional_bit(records: memoryview | bytes | None) -> bool:
    return (
        records is not None
        and len(records) > ATTRIBUTES_AT
        and records[MAGIC_AT] >= 2
        and bool(records[ATTRIBUTES_AT] & TRANSACTIONAL)
    )


def _answered(response: ProduceResponse | None) -> list[TopicProduceResponse]:
    assert response is not None, "a Produce that is refused in part is answered"
    return response.responses


def _asked(request: ProduceRequest) -> list[TopicProduceData]:
    return request.topic_data


class ProduceApi:
    """Produce."""

    def __init__(self, node: Host, replicas: Replicas, admission: Callable[[], Admission]) -> None:
        """`admission` is called by the first transactional batch, which imports it."""
        self._replicas = replicas
        self._replication = replicas.replication
        self._make_admission = admission
        self._metadata = node.metadata
        self._settings = node.settings
        self._clock = node.clock
        self._turns = node.turns
        self._aside = node.aside
        self._log = node.log

    @endpoint(
        PRODUCE,
        needs=in_series(
            _may_use_id,
            allowed_on_each(
                AclOperation.WRITE,
                AclResource.TOPIC,
                asked=_asked,
                answered=_answered,
                name=lambda topic: topic.name,
                topic_id=lambda topic: topic.topic_id,
                ids_since=TOPIC_IDS_SINCE,
            ),
        ),
    )
    async def produce(self, call: Call[ProduceRequest]) -> ProduceResponse | None:
        """Append to each partition its records; with acks=0 there is no answer, and an error ends the connection."""
        request, version = call.request, call.version
        if request.transactional_id is not None and self._turns.asked and self._turns.has_clock:
            # The end of a transaction comes first, because an open one holds up all readers of committed records. By
            # the next turn all requests that came together are there, and the markers of the ended ones are written.
            await self._turns.next()
        if request.transactional_id is None and _has_transactional_records(request):
            return _all_refused(request, Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        if version in LOOKS_FOR_ZSTD and self._names_no_codec(request):
            return _all_refused(request, Refused(ErrorCode.UNKNOWN_SERVER_ERROR))
        topics = request.topic_data
        if len(topics) != 1 or len(topics[0].partition_data) != 1:
            topics = _each_once(topics)
        admitted: list[list[Write | PartitionProduceResponse]] = []
        transactional: list[Write] = []
        read = False
        for topic in topics:
            name = topic.name if version < TOPIC_IDS_SINCE else self._name_of(topic)
            writes: list[Write | PartitionProduceResponse] = []
            for data in topic.partition_data:
                # A batch may hold a thousand times what was sent.
                if read and await self._turns.breathe(call) and version >= TOPIC_IDS_SINCE:
                    # Another topic may have got the name of the one with this id.
                    name = self._name_of(topic)
                read = True
                try:
                    write = self._admit(name, data, call)
                except TakesLong:
                    write = await self._admit_aside(name, data, call)
                writes.append(write)
                if isinstance(write, Write) and write.batch.attributes & TRANSACTIONAL:
                    transactional.append(write)
            admitted.append(writes)
        if transactional:
            await self._admit_to_transaction(request, transactional, version)
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
                    await self._turns.breathe(call)
                answer = self._append(data.index, write, call) if isinstance(write, Write) else write
                if answer.error_code != 0:
                    failed = True
                    if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= LEADERS_SINCE:
                        name = topic.name if version < TOPIC_IDS_SINCE else self._name_of(topic)
                        self._tell_leader(name, answer, leaders, call.peer.listener)
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
            await self._acknowledged(request, unacknowledged)
            for write, answer in unacknowledged:
                if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= LEADERS_SINCE:
                    self._tell_leader(write.partition.topic, answer, leaders, call.peer.listener)
        return ProduceResponse(responses, 0, list(leaders.values()))

    @cached_property
    def _admission(self) -> Admission:
        return self._make_admission()

    def _names_no_codec(self, request: ProduceRequest) -> bool:
        """Whether a batch for an existing partition names an unknown codec.

        Versions 3 to 6 may not bring zstd (KIP-110). For that Kafka reads the codec before anything else, and fails the
        whole request if it is unknown. In newer versions the log refuses the batch of each partition by itself.
        """
        for topic in request.topic_data:
            for data in topic.partition_data:
                if not data.records or self._metadata.image.partition(topic.name, data.index) is None:
                    continue
                try:
                    batch = parse_batch(memoryview(data.records))
                except InvalidBatch:
                    continue
                if batch.attributes & COMPRESSION_MASK not in CODECS:
                    return True
        return False

    def _name_of(self, topic: TopicProduceData) -> str | None:
        known = self._metadata.image.topics_by_id.get(topic.topic_id)
        return None if known is None else known.name

    def _tell_leader(
        self, topic: str | None, answer: PartitionProduceResponse, leaders: dict[int, NodeEndpoint], listener: str
    ) -> None:
        """Name the leader to a client that asked the wrong broker (KIP-951)."""
        found = None if topic is None else current_leader(self._metadata.image, topic, answer.index, listener)
        if found is not None:
            answer.current_leader = LeaderIdAndEpoch(leader_id=found.leader_id, leader_epoch=found.leader_epoch)
            found.tell_endpoint(leaders, NodeEndpoint)

    def _admit(
        self, name: str | None, data: PartitionProduceData, call: Call[ProduceRequest]
    ) -> Write | PartitionProduceResponse:
        """The batch of one partition, or its refusal. Raises `TakesLong` for records that are to be read aside."""
        if name is None:
            return _refused(data.index, NO_NAME_FOR_ID)
        partition = self._replicas.find(name, data.index)
        if partition is None:
            refused = self._replicas.led(name, data.index)
            assert isinstance(refused, Refused)
            return _refused(data.index, refused)
        records = data.records
        assert not isinstance(records, bytes), "what was read from a frame is a view"
        if name in INTERNAL_TOPICS and call.client_id != ADMIN_CLIENT:
            return _closed(data.index, partition, records)
        validated = validate_produce(
            records,
            produce_version=call.version,
            topic=partition.rules,
            now=self._clock.now,
            partition=data.index,
            at_once=True,
        )
        if isinstance(validated, Rejected):
            return self._rejected(partition, records, validated)
        batch = validated.batch
        return Write(partition, batch.producer_id, batch.producer_epoch, batch.base_sequence, batch=batch)

    async def _admit_aside(
        self, name: str | None, data: PartitionProduceData, call: Call[ProduceRequest]
    ) -> Write | PartitionProduceResponse:
        """Admit a batch whose records are read while others are served; it is looked up again when it is appended."""
        records = data.records
        assert name is not None, "records of no topic are not read"
        assert not isinstance(records, bytes), "what was read from a frame is a view"
        partition = self._replicas.find(name, data.index)
        assert partition is not None, "it was found a moment ago"
        validated = await self._aside.do(
            partial(
                validate_produce,
                records,
                produce_version=call.version,
                topic=partition.rules,
                now=self._clock.now,
                partition=data.index,
            )
        )
        return (
            self._rejected(partition, records, validated)
            if isinstance(validated, Rejected)
            else _write(partition, validated.batch)
        )

    def _rejected(
        self, partition: Partition, records: memoryview | None, rejected: Rejected
    ) -> Write | PartitionProduceResponse:
        """Records with a fault; of a batch that can be parsed the coordinator is asked first, as in Kafka."""
        self._log.debug("records_refused", topic=partition.topic, partition=partition.index, reason=rejected.reason)
        if rejected.of_request or records is None:
            return _rejected(partition.index, rejected, partition)
        try:
            write = _write(partition, parse_batch(records))
        except InvalidBatch:  # messages of an older format, which are of no transaction
            return _rejected(partition.index, rejected, partition)
        write.rejected = rejected
        return write

    async def _admit_to_transaction(self, request: ProduceRequest, writes: list[Write], version: int) -> None:
        """Give each transactional write its guard, or its refusal (KIP-890)."""
        transactional_id = request.transactional_id
        assert transactional_id is not None, "transactional records without an id are refused"
        verification, config = self._settings.release.verification, self._settings.config
        if not verification.records:
            return
        # A batch without a producer id is plain data, whatever its transactional bit says.
        alone = len(writes) == 1 and writes[0].producer_id >= 0
        producing = writes if alone else [write for write in writes if write.producer_id >= 0]
        if not alone and len({(write.producer_id, write.producer_epoch) for write in producing}) > 1:
            _refuse_all(writes, SEVERAL_PRODUCERS)
            return
        rules = self._admission.rules
        operation = produce_operation(version, rules.since)
        if not producing or (operation.verifies_only and not self._settings.verifies_records):
            return

        def judge(operation: TransactionOperation, failure: ErrorCode) -> Refused:
            error = rules.produce_error(operation, failure)
            return Refused(error.error, error.message)

        await self._admission.admit(
            producing,
            transactional_id=transactional_id,
            operation=operation,
            judge=judge,
            retry_within_ms=min(config.add_partitions_to_txn_retry_backoff_max_ms, request.timeout_ms),
        )
        if verification.explains_errors:
            for write in producing:
                if write.refused is not None and write.refused.message is None:
                    write.refused = Refused(write.refused.error, ERROR_DESCRIPTIONS.get(write.refused.error))

    def _append(self, index: int, write: Write, call: Call[ProduceRequest]) -> PartitionProduceResponse:
        partition = write.partition
        acks = call.request.acks
        refused = write.refused or self._replicas.lost(partition)
        # Kafka checks the following only after the coordinator was asked.
        if refused is None:
            if not -1 <= acks <= 1:
                refused = INVALID_ACKS
            elif partition.topic in INTERNAL_TOPICS and call.client_id != ADMIN_CLIENT:
                refused = CLOSED_TOPIC
            elif acks == ACKS_ALL and partition.is_short:
                refused = NOT_ENOUGH_REPLICAS
        if refused is not None:
            start = partition.log_start_offset if refused is NOT_ENOUGH_REPLICAS else -1
            return _refused(index, refused, log_start_offset=start)
        if write.rejected is not None:
            return _rejected(index, write.rejected, partition)
        batch = write.batch
        if batch.attributes & TRANSACTIONAL:
            appended = partition.append_client(
                batch,
                now=self._clock.now,
                guard=write.guard,
                verification_enabled=self._settings.verifies_records,
            )
        else:
            appended = partition.append_client(batch, now=self._clock.now)
        if isinstance(appended, Refused):
            return _refused(index, appended, log_start_offset=_start_told(partition, appended.error))
        self._replicas.appended(partition)
        if partition.log.mark is not None:
            write.end_offset = appended.next_offset
        return PartitionProduceResponse(
            index, 0, appended.base_offset, appended.log_append_time, appended.log_start_offset
        )

    async def _acknowledged(
        self, request: ProduceRequest, written: list[tuple[Write, PartitionProduceResponse]]
    ) -> None:
        """Wait until all replicas in sync have the records; after the timeout the answer says that they have not."""
        deadline = self._clock.now + request.timeout_ms
        for write, answer in written:
            error = await self._replication.committed(write.partition, write.end_offset, deadline=deadline)
            if error is ErrorCode.NONE and write.partition.is_short:
                error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            answer.error_code = error


def _write(partition: Partition, batch: Batch) -> Write:
    return Write(partition, batch.producer_id, batch.producer_epoch, batch.base_sequence, batch=batch)


def _closed(index: int, partition: Partition, records: memoryview | None) -> Write | PartitionProduceResponse:
    """The batch of a topic that is closed to clients; a transactional one is verified before it is refused."""
    try:
        return _write(partition, parse_batch(records or memoryview(b"")))
    except InvalidBatch:
        return _refused(index, CLOSED_TOPIC)


def _each_once(topics: list[TopicProduceData]) -> list[TopicProduceData]:
    """The last records of each partition, if it is named twice: Kafka keeps them in a map."""
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
    """Whether a batch has the transactional bit; Kafka checks nothing else about it here."""
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


def _refuse_all(writes: list[Write], refused: Refused) -> None:
    for write in writes:
        write.refused = refused


def _start_told(partition: Partition, error: ErrorCode) -> int:
    """The log start offset in the refusal of an append; Kafka leaves it out for a few errors."""
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
