"""The judge's own client: it reads what is committed, and acts as another producer where a scenario needs one.

Its requests have versions that every broker since Kafka 2.1 serves, so that it can be sent to any broker; its client id
is JUDGE, and no judgement looks at its requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct

from odradek.net.client import BlockingClient
from odradek.records.record import Record, build_batch, iterate_records
from odradek.sim.model.reader import batches_of, committed_batches
from odradek.wire.errors import DecodeError, ErrorCode
from odradek.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

__all__ = ["Aide", "AideFailed", "JUDGE"]

JUDGE = "odradek-judge"
METADATA, FETCH, FIND_COORDINATOR, INIT_PRODUCER_ID, OFFSET_FETCH, PRODUCE, CREATE_TOPICS = 5, 4, 1, 0, 3, 3, 2
GROUP_KEY, TRANSACTION_KEY = 0, 1
READ_COMMITTED = 1
BYTES_MAX = 16 << 20
PAUSE_S = 0.03
PATIENCE_S = 10.0
WAKE_S = 60.0
"""A broker that has just started makes its internal topics at the first request for a coordinator."""
TRIED_AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)

T = TypeVar("T")


class AideFailed(Exception):
    """The judge could not do its own part; the text is one sentence."""


class _Refused(Exception):
    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class Committed(Struct, frozen=True, kw_only=True):
    """The values of one partition that a read_committed consumer gets."""

    values: list[str]
    is_stable: bool
    """Whether no transaction is open in it."""


class Aide:
    """Blocks, so it runs on a thread of its own."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap.split(",")[0]

    def wake(self) -> None:
        """Wait until the broker has coordinators of groups and of transactions: what it does for the first request
        that needs one is no time of a client.
        """
        for kind in (GROUP_KEY, TRANSACTION_KEY):
            self._patiently(partial(self._coordinator, JUDGE, kind), WAKE_S)
        self._patiently(partial(self._init_producer_id, JUDGE), WAKE_S)

    def committed(self, topic: str) -> dict[int, Committed]:
        """The committed values of every partition of a topic."""
        return self._patiently(lambda: self._committed(topic))

    def group_offset(self, group: str, topic: str, partition: int) -> int:
        """The committed offset of a group; -1 if there is none."""
        return self._patiently(lambda: self._group_offset(group, topic, partition))

    def fence(self, transactional_id: str) -> None:
        """Be a newer instance of a transactional producer: its InitProducerId, and nothing else."""
        self._patiently(lambda: self._init_producer_id(transactional_id))

    def put(self, topic: str, value: str, partition: int = 0) -> None:
        """Write a record without a transaction."""
        self._patiently(lambda: self._put(topic, value, partition))

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str] = MappingProxyType({})) -> None:
        """Create a topic with one replica, and wait until it has leaders."""
        self._patiently(lambda: self._create(topic, partitions, configs))
        self._patiently(lambda: self._leaders(topic))

    def _patiently(self, act: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
        ends = time.monotonic() + patience_s
        while True:
            try:
                return act()
            except (_Refused, OSError, DecodeError) as error:
                if time.monotonic() > ends or (isinstance(error, _Refused) and error.error not in TRIED_AGAIN):
                    raise AideFailed(f"The judge's own client failed at {self._bootstrap}: {error}.") from None
            time.sleep(PAUSE_S)

    @contextmanager
    def _at(self, address: str) -> Iterator[BlockingClient]:
        with BlockingClient(address, client_id=JUDGE, timeout_s=PATIENCE_S) as client:
            yield client

    def _leaders(self, topic: str) -> dict[int, str]:
        with self._at(self._bootstrap) as client:
            answer = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), METADATA)
        at = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
        [told] = answer.topics
        _check(told.error_code)
        if any(each.leader_id not in at for each in told.partitions):
            raise _Refused(ErrorCode.LEADER_NOT_AVAILABLE)
        return {each.partition_index: at[each.leader_id] for each in told.partitions}

    def _coordinator(self, key: str, kind: int) -> str:
        with self._at(self._bootstrap) as client:
            answer = client.ask(FindCoordinatorRequest(key=key, key_type=kind), FIND_COORDINATOR)
        _check(answer.error_code)
        return f"{answer.host}:{answer.port}"

    def _committed(self, topic: str) -> dict[int, Committed]:
        return {index: self._read(topic, index, address) for index, address in self._leaders(topic).items()}

    def _read(self, topic: str, index: int, address: str) -> Committed:
        values: list[str] = []
        position = 0
        with self._at(address) as client:
            while True:
                wanted = FetchPartition(partition=index, fetch_offset=position, partition_max_bytes=BYTES_MAX)
                request = FetchRequest(
                    isolation_level=READ_COMMITTED,
                    max_bytes=BYTES_MAX,
                    topics=[FetchTopic(topic=topic, partitions=[wanted])],
                )
                data = client.ask(request, FETCH).responses[0].partitions[0]
                _check(data.error_code)
                batches = [each for each in batches_of(data) if each.last_offset < data.last_stable_offset]
                for batch, is_seen in committed_batches(data, batches):
                    if is_seen and batch.last_offset >= position:
                        values += [(each.value or b"").decode("utf-8", "replace") for each in iterate_records(batch)]
                if batches:
                    position = batches[-1].next_offset
                if not batches or position >= data.last_stable_offset:
                    return Committed(values=values, is_stable=data.last_stable_offset == data.high_watermark)

    def _group_offset(self, group: str, topic: str, partition: int) -> int:
        with self._at(self._coordinator(group, GROUP_KEY)) as client:
            wanted = OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])
            answer = client.ask(OffsetFetchRequest(group_id=group, topics=[wanted]), OFFSET_FETCH)
        _check(answer.error_code)
        found = answer.topics[0].partitions[0]
        _check(found.error_code)
        return int(found.committed_offset)

    def _init_producer_id(self, transactional_id: str) -> None:
        with self._at(self._coordinator(transactional_id, TRANSACTION_KEY)) as client:
            request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
            _check(client.ask(request, INIT_PRODUCER_ID).error_code)

    def _put(self, topic: str, value: str, partition: int) -> None:
        batch = build_batch([Record(timestamp=time.time_ns() // 1_000_000, value=value.encode())])
        data = TopicProduceData(
            name=topic, partition_data=[PartitionProduceData(index=partition, records=bytes(batch))]
        )
        with self._at(self._leaders(topic)[partition]) as client:
            answer = client.ask(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data]), PRODUCE)
        _check(answer.responses[0].partition_responses[0].error_code)

    def _create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        given = [CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=given)
        with self._at(self._bootstrap) as client:
            answer = client.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=5_000), CREATE_TOPICS)
        error = answer.topics[0].error_code
        if error != ErrorCode.TOPIC_ALREADY_EXISTS:
            _check(error)


def _check(error_code: int) -> None:
    if error_code:
        raise _Refused(ErrorCode(error_code))
