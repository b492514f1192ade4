"""Brokers stop and start over real sockets, in every order, the controller as well: nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
from msgspec import Struct

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.net.client import BlockingClient
from odradek.records.record import Record, build_batch
from odradek.sim.model.reader import batches_of, committed_values
from odradek.testing import Cluster
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

pytestmark = pytest.mark.slow

BROKERS = (1, 2, 3)
PARTITIONS = (0, 1, 2)
TID, GROUP = "tid", "group"
TRIES = 200
"""Each is a turn of the brokers' loop: what they have to tell one another is told in far fewer."""
AGAIN = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}


class Client:
    """A transactional producer and a reader; it asks again as real clients do."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.addresses = dict(zip(BROKERS, cluster.bootstrap.split(","), strict=True))
        self.pair = (-1, -1)
        self.written: dict[int, list[bytes]] = {index: [] for index in PARTITIONS}
        self.transactions = 0
        self.sequences = dict.fromkeys(PARTITIONS, 0)

    def ask(self, topic: str, index: int, request: Struct, version: int, error_of: Callable[[Any], int]) -> Any:
        """Ask the leader of a partition, whoever it is by then."""
        error = None
        for _ in range(TRIES):
            leader = self.cluster.leader(topic, index)
            if leader < 0:
                continue
            with BlockingClient(self.addresses[leader], client_id="client") as connection:
                response = connection.ask(request, version)
            error = ErrorCode(error_of(response))
            if error is ErrorCode.NONE:
                return response
            assert error in AGAIN, (request, error)
        raise AssertionError(f"{type(request).__name__} is answered {error} again and again")

    def coordinate(self, request: Struct, version: int, error_of: Callable[[Any], int]) -> Any:
        """Ask the coordinator of the transactional id."""
        kind = CoordinatorKind.TRANSACTION
        return self.ask(kind.topic, partition_for(TID, 3), request, version, error_of)

    def init(self) -> None:
        """InitProducerId."""
        request = InitProducerIdRequest(transactional_id=TID, transaction_timeout_ms=60_000)
        response = self.coordinate(request, 5, lambda answer: answer.error_code)
        self.pair = response.producer_id, response.producer_epoch

    def delete_and_create_again(self) -> None:
        """The topic goes, and another one of its name comes."""
        with BlockingClient(self.addresses[1], client_id="admin") as connection:
            deletion = DeleteTopicsRequest(topic_names=["t"], timeout_ms=30_000)
            assert [0] == [each.error_code for each in connection.ask(deletion, 5).responses]
            topic = CreatableTopic(name="t", num_partitions=3, replication_factor=3)
            creation = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
            assert [0] == [each.error_code for each in connection.ask(creation, 7).topics]

    def send(self) -> None:
        """A record to each partition, as part of the transaction."""
        for index in PARTITIONS:
            value = f"{self.transactions}-{index}-{self.sequences[index]}".encode()
            records = build_batch(
                [Record(timestamp=0, value=value)],
                producer_id=self.pair[0],
                producer_epoch=self.pair[1],
                base_sequence=self.sequences[index],
                transactional=True,
            )
            data = PartitionProduceData(index=index, records=memoryview(records))
            topics = [TopicProduceData(name="t", partition_data=[data])]
            request = ProduceRequest(transactional_id=TID, acks=-1, timeout_ms=30_000, topic_data=topics)
            self.ask("t", index, request, 12, lambda answer: answer.responses[0].partition_responses[0].error_code)
            self.sequences[index] += 1
            self.written[index].append(value)

    def commit(self) -> None:
        """The offset of the group, and the end of the transaction."""
        self.transactions += 1
        offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=self.transactions)
        offset.committed_metadata = ""
        commit = TxnOffsetCommitRequest(
            transactional_id=TID,
            group_id=GROUP,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[offset])],
        )
        place = CoordinatorKind.GROUP.topic, partition_for(GROUP, 3)
        self.ask(*place, commit, 5, lambda answer: answer.topics[0].partitions[0].error_code)
        end = EndTxnRequest(transactional_id=TID, producer_id=self.pair[0], producer_epoch=self.pair[1], committed=True)
        response = self.coordinate(end, 5, lambda answer: answer.error_code)
        self.pair = response.producer_id, response.producer_epoch
        self.sequences = dict.fromkeys(PARTITIONS, 0)

    def check(self) -> None:
        """What was committed is there, once and in order; the group is where it was left."""
        for index in PARTITIONS:
            assert self.written[index] == self.read(index)
        wanted = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
        request = OffsetFetchRequest(group_id=GROUP, topics=[wanted], require_stable=True)
        place = CoordinatorKind.GROUP.topic, partition_for(GROUP, 3)
        response = self.ask(*place, request, 7, _error_of_offset)
        assert self.transactions == response.topics[0].partitions[0].committed_offset

    def read(self, index: int) -> list[bytes | None]:
        """A whole partition, read_committed, once everything in it is decided."""
        values: list[bytes | None] = []
        offset = 0
        for _ in range(TRIES):
            wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            topics = [FetchTopic(topic="t", partitions=[wanted])]
            request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, isolation_level=1, topics=topics)
            response = self.ask("t", index, request, 11, lambda answer: answer.responses[0].partitions[0].error_code)
            [data] = response.responses[0].partitions
            values += committed_values(data)
            offset = max([offset, *(batch.next_offset for batch in batches_of(data))])
            if offset == data.high_watermark:
                return values
        raise AssertionError(f"a transaction stays open in partition {index}")


def _error_of_offset(response: Any) -> int:
    code: int = response.error_code or response.topics[0].partitions[0].error_code
    # Its marker is on its way; the offset is not stable until then.
    return ErrorCode.CONCURRENT_TRANSACTIONS if code == ErrorCode.UNSTABLE_OFFSET_COMMIT else code


def running_cluster() -> Cluster:
    return Cluster(
        brokers=3,
        topics=["t:3:3"],
        transaction_version=2,
        config={
            "transaction.state.log.num.partitions": 3,
            "offsets.topic.num.partitions": 3,
            "transaction.state.log.replication.factor": 3,
            # One broker is to be enough.
            "transaction.state.log.min.isr": 1,
            "offsets.topic.replication.factor": 3,
        },
    )


@pytest.mark.parametrize("order", list(permutations(BROKERS)))
def test_one_after_the_other_stops_and_starts_amid_transactions(order: tuple[int, ...]) -> None:
    with running_cluster() as cluster:
        client = Client(cluster)
        client.init()
        for broker in order:
            client.send()
            cluster.stop_broker(broker)
            client.send()
            client.commit()
            client.check()
            client.send()
            cluster.start_broker(broker)
            client.commit()
            client.check()


@pytest.mark.parametrize("order", list(permutations(BROKERS)))
def test_all_of_them_stop_and_start_in_any_order(order: tuple[int, ...]) -> None:
    with running_cluster() as cluster:
        client = Client(cluster)
        client.init()
        client.send()
        client.commit()
        client.send()
        for broker in BROKERS:
            cluster.stop_broker(broker)
        for broker in order:
            cluster.start_broker(broker)
            # The last one to go is the only one that has everything: before, nobody leads.
            if broker == BROKERS[-1]:
                client.commit()
            if 0 < cluster.leader("t", 0):
                client.check()
        client.send()
        client.commit()
        client.check()


def test_a_topic_that_was_deleted_stays_deleted_and_its_successor_stays() -> None:
    """A broker that starts reads of the deletion again: it ends the log of that topic, not of the next of its name."""
    with running_cluster() as cluster:
        client = Client(cluster)
        client.delete_and_create_again()
        client.init()
        client.send()
        client.commit()
        for broker in (1, 2, 3, 1):
            cluster.stop_broker(broker)
            cluster.start_broker(broker)
            client.check()
