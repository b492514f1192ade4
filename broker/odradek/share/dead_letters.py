"""The dead letter queues of share groups (KIP-1191): the topics that get the records that a group gives up.

A broker writes as itself, with Produce requests to the leader of the queue's partition: one after the other to each
leader, so that records that come meanwhile go together. A record that cannot be written is lost to the queue, and never
holds up its group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.access.acls import CLUSTER_NAME, AclOperation, AclResource
from odradek.config.table import TopicConfig
from odradek.core.flow import Wait
from odradek.core.machine import Fact
from odradek.metadata.features import SHARE_VERSION
from odradek.metadata.image import ResourceType
from odradek.records.batch import HEADER_BYTES, InvalidBatch
from odradek.records.record import Header, Record, build_batch, iterate_records, record_size
from odradek.share.partition import DeadLetters
from odradek.share.state import ShareKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.create_topics_response import CreateTopicsResponse
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.produce_response import ProduceResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.counters import DeadLetterCounts
    from odradek.host.exchange import Serving
    from odradek.host.peers import Peers
    from odradek.log.partition import Partition
    from odradek.metadata.image import MetadataImage, TopicImage

__all__ = ["DeadLetterQueues", "has_queue"]

QUEUE = "errors.deadletterqueue.topic.name"
COPIES = "errors.deadletterqueue.copy.record.enable"
OPT_IN = "errors.deadletterqueue.group.enable"
SHARE_VERSION_WITH_QUEUES = 2
CREATE_TOPICS_VERSION = 7
ATTEMPTS = 5
BACKOFF_MS = 1000
BACKOFF_MAX_MS = 30_000
JITTER_PERCENT = 20
PRODUCE_TIMEOUT_MS = 30_000
ACKS_ALL = -1

PASSING_CREATION = frozenset({ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.THROTTLING_QUOTA_EXCEEDED})
PASSING_PRODUCE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER})
"""Errors behind which Kafka tries again; no answer at all is another reason to."""


def has_queue(image: MetadataImage, own: Mapping[str, str]) -> bool:
    """Whether a group with these configs has a dead letter queue: a wrong name switches it on, and fails each write."""
    return bool(own.get(QUEUE)) and image.feature(SHARE_VERSION) >= SHARE_VERSION_WITH_QUEUES


class _Failed(Exception):
    """The records do not get into the queue; the text says why."""


class _Waiting(Struct):
    """A batch for a partition of a queue, until the leader has answered for it."""

    topic: str
    topic_id: bytes
    index: int
    records: list[Record]
    group_id: str
    wait: Wait[ErrorCode | None]


class _Batch:
    """A batch in the making, of at most `limit` bytes; what comes first may be larger."""

    def __init__(self, limit: int) -> None:
        self.records: list[Record] = []
        self._limit = limit
        self._size = HEADER_BYTES

    def take(self, records: Sequence[Record]) -> bool:
        """Add these records; False, and none of them is added, if they do not all fit."""
        began = (self.records or records)[0].timestamp
        size = self._size + sum(
            record_size(record, timestamp_delta=record.timestamp - began, offset_delta=offset)
            for offset, record in enumerate(records, len(self.records))
        )
        if self.records and size > self._limit:
            return False
        self.records += records
        self._size = size
        return True


class DeadLetterQueues:
    """Writes records that groups give up, for the share partitions that this broker leads."""

    def __init__(self, node: Serving, peers: Peers) -> None:
        self._peers = peers
        self._version = node.router.newest(ApiKey.PRODUCE)
        self._authority = node.authority
        self._metadata = node.metadata
        self._settings = node.settings
        self._clock = node.clock
        self._kernel = node.kernel
        self._turns = node.turns
        self._random = node.random
        self._facts = node.facts
        self._waiting: dict[int, list[_Waiting]] = {}
        """By leader; a leader that is here is being asked, and gets what lies here next."""
        self._counters = node.counters

    async def write(self, key: ShareKey, partition: Partition, letters: DeadLetters) -> None:
        """Write these records to the queue of their group, or tell the operator that they are lost to it."""
        try:
            await self._write(key, partition, letters)
        except _Failed as failed:
            fields = {"group_id": key.group_id, "topic": partition.topic, "partition": partition.index}
            offsets = {"first_offset": letters.first, "last_offset": letters.last}
            self._facts.emit([Fact("dead_letters_lost", {**fields, **offsets, "reason": str(failed)})])

    async def _write(self, key: ShareKey, partition: Partition, letters: DeadLetters) -> None:
        queue = await self._queue(key.group_id)
        limit = self._config_of(queue.name).max_message_bytes
        copies = self._metadata.image.config(ResourceType.GROUP, key.group_id).get(COPIES) == "true"
        sources = _sources(partition, letters, limit) if copies else {}
        told = [
            ("__dlq.errors.topic", partition.topic),
            ("__dlq.errors.partition", str(partition.index)),
            ("__dlq.errors.offset", ""),
            ("__dlq.errors.group", key.group_id),
            ("__dlq.errors.delivery.count", str(letters.count)),
            ("__dlq.errors.message", letters.cause),
        ]

        def record(offset: int) -> Record:
            source = sources.get(offset)
            headers: tuple[Header, ...] = tuple((name, (text or str(offset)).encode()) for name, text in told)
            return Record(
                timestamp=self._clock.now,
                key=None if source is None else source.key,
                value=None if source is None else source.value,
                headers=headers,
            )

        for batch in _batches(map(record, range(letters.first, letters.last + 1)), limit):
            await self._produced(key.group_id, partition.index, batch)

    async def _queue(self, group_id: str) -> TopicImage:
        """The topic of the group's queue, created if that is allowed."""
        for backoff_ms in self._backoffs():
            name = self._checked(group_id)
            topic = self._metadata.image.topic(name)
            if topic is not None:
                return topic
            error = await self._create(name)
            if error is not None and error is not ErrorCode.NONE and error not in PASSING_CREATION:
                raise _Failed(f"Topic {name} could not be created: {error.name}.")
            topic = self._metadata.image.topic(name)
            if topic is not None:
                return topic
            await self._kernel.sleep(backoff_ms)
        raise _Failed(f"Topic {name} could not be created in {ATTEMPTS} attempts.")

    def _checked(self, group_id: str) -> str:
        """The name of the queue's topic; raises `_Failed` where it may not be one. In the order of Kafka 4.4."""
        image, config = self._metadata.image, self._settings.config
        name = image.config(ResourceType.GROUP, group_id).get(QUEUE, "")
        if not name:
            raise _Failed("The group has no dead letter queue any more.")
        if name.startswith("__"):
            raise _Failed(f"A dead letter queue cannot be called {name}.")
        if image.topic(name) is not None:
            if not self._config_of(name).errors_deadletterqueue_group_enable:
                raise _Failed(f"Topic {name} does not allow dead letters ({OPT_IN}).")
        elif not config.errors_deadletterqueue_auto_create_topics_enable:
            raise _Failed(f"Topic {name} does not exist, and is not to be created.")
        prefix = config.errors_deadletterqueue_topic_name_prefix
        if not name.startswith(prefix):
            raise _Failed(f"The name {name} does not begin with {prefix}.")
        return name

    async def _create(self, name: str) -> ErrorCode | None:
        create = AclOperation.CREATE
        if not self._may(create, AclResource.CLUSTER, CLUSTER_NAME) and not self._may(create, AclResource.TOPIC, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        configs = {OPT_IN: "true", "message.timestamp.type": "CreateTime"}
        wanted = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=self._settings.config.request_timeout_ms)
        response = await self._peers.call_controller(
            ApiKey.CREATE_TOPICS, request, CREATE_TOPICS_VERSION, CreateTopicsResponse
        )
        return None if response is None else ErrorCode(response.topics[0].error_code)

    def _config_of(self, topic: str) -> TopicConfig:
        return TopicConfig.resolve(self._metadata.image.config(ResourceType.TOPIC, topic), self._settings.config)

    def _backoffs(self) -> Iterator[int]:
        """Milliseconds to wait behind each attempt."""
        for attempt in range(ATTEMPTS):
            backoff_ms = min(BACKOFF_MS << attempt, BACKOFF_MAX_MS)
            yield backoff_ms * (100 + self._random.randint(-JITTER_PERCENT, JITTER_PERCENT)) // 100

    async def _produced(self, group_id: str, index: int, records: list[Record]) -> None:
        """Have the leader append one batch; the topic is checked anew before each attempt."""
        for backoff_ms in self._backoffs():
            topic = await self._queue(group_id)
            partition = topic.partitions[index % len(topic.partitions)]
            if self._metadata.image.is_alive(partition.leader):
                wait: Wait[ErrorCode | None] = Wait(self._kernel)
                self._enqueue(
                    partition.leader,
                    _Waiting(topic.name, topic.id, index % len(topic.partitions), records, group_id, wait),
                )
                error = await wait
                if error is ErrorCode.NONE:
                    self._counts(group_id).records += len(records)
                    return
                if error is not None and error not in PASSING_PRODUCE:
                    raise _Failed(f"Topic {topic.name} refused the records: {error.name}.")
            await self._kernel.sleep(backoff_ms)
        raise _Failed(f"The records could not be written in {ATTEMPTS} attempts.")

    def _enqueue(self, leader: int, waiting: _Waiting) -> None:
        queue = self._waiting.get(leader)
        if queue is not None:
            queue.append(waiting)
            return
        self._waiting[leader] = [waiting]
        self._kernel.spawn(self._ask(leader))

    async def _ask(self, leader: int) -> None:
        """Send what waits for a leader, one request after the other."""
        while taken := self._waiting[leader]:
            self._waiting[leader] = []
            await self._send(leader, taken)
        del self._waiting[leader]

    async def _send(self, leader: int, taken: Sequence[_Waiting]) -> None:
        """One request, with a batch for each partition; records that do not fit go with the next one."""
        batches: dict[tuple[str, bytes, int], _Batch] = {}
        full: set[tuple[str, bytes, int]] = set()
        sent: list[_Waiting] = []
        later: list[_Waiting] = []
        for each in taken:
            key = each.topic, each.topic_id, each.index
            if key not in batches:
                batches[key] = _Batch(self._config_of(each.topic).max_message_bytes)
            if key not in full and batches[key].take(each.records):
                sent.append(each)
            else:
                full.add(key)
                later.append(each)
        self._waiting[leader] = later + self._waiting[leader]
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[])
        errors: dict[tuple[bytes, int], ErrorCode] = {}
        for (topic, topic_id, index), batch in batches.items():
            if not self._may(AclOperation.WRITE, AclResource.TOPIC, topic):
                errors[topic_id, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                continue
            data = PartitionProduceData(index=index, records=memoryview(build_batch(batch.records)))
            request.topic_data.append(TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data]))
        for group_id in {each.group_id for each in sent}:
            self._counts(group_id).produces += 1
        if request.topic_data:
            deadline = self._clock.now + PRODUCE_TIMEOUT_MS
            response = await self._peers.call(
                leader, ApiKey.PRODUCE, self._version, request, ProduceResponse, deadline=deadline
            )
            errors |= {} if response is None else _errors(response)
        for each in sent:
            error = errors.get((each.topic_id, each.index))
            if error is not ErrorCode.NONE:
                self._counts(each.group_id).failed_produces += 1
            each.wait.settle(error)
            await self._turns.breathe_behind()

    def _may(self, operation: AclOperation, kind: AclResource, name: str) -> bool:
        """Whether brokers may do this: they write and create as themselves, whoever rejected the record."""
        return self._authority is None or self._authority.allows_broker(operation, kind, name)

    def _counts(self, group_id: str) -> DeadLetterCounts:
        return self._counters.dead_letters_of(group_id)


def _errors(response: ProduceResponse) -> Mapping[tuple[bytes, int], ErrorCode]:
    """The errors by topic id and partition."""
    return {
        (topic.topic_id, partition.index): ErrorCode(partition.error_code)
        for topic in response.responses
        for partition in topic.partition_responses
    }


def _sources(partition: Partition, letters: DeadLetters, limit: int) -> Mapping[int, Record]:
    """The records to copy, by offset; one that is gone or larger than the limit of the queue is copied without.

    All of a batch that is larger than that when it is decompressed, and all from the first one that is gone.
    """
    found: dict[int, Record] = {}
    log = partition.log
    if letters.first < log.start_offset:
        return found
    for batch in partition.committed_since(letters.first):
        if batch.base_offset > letters.last:
            break
        if batch.is_control:
            continue
        try:
            records = list(iterate_records(batch, limit=limit)) if batch.compression else list(iterate_records(batch))
        except InvalidBatch:
            continue
        for record in records:
            if (
                letters.first <= record.offset <= letters.last
                and len(record.key or b"") + len(record.value or b"") <= limit
            ):
                found[record.offset] = record
    return found


def _batches(records: Iterator[Record], limit: int) -> Iterator[list[Record]]:
    """Cut into batches of at most `limit` bytes; a record that is larger than that goes alone."""
    batch = _Batch(limit)
    for record in records:
        if not batch.take([record]):
            yield batch.records
            batch = _Batch(limit)
            batch.take([record])
    if batch.records:
        yield batch.records
