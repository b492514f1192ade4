"""Kafka's own decoders read what the coordinators write: kafka-dump-log over the three logs that hold their state."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from msgspec.structs import replace
from tests.clients.driver import tool
from tests.clients.lacking import with_toolchains
from tests.net.test_share_groups import ACCEPT, RELEASE, members
from tests.net.test_wait import STREAMS

from odradek.net.client import BlockingClient
from odradek.records.state import GROUP_RECORDS, SHARE_RECORDS, TRANSACTION_RECORDS
from odradek.testing import Cluster
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic

pytestmark = [pytest.mark.client, pytest.mark.slow]

WAIT_S = 20
NOT_WRITTEN = {"LegacyOffsetCommit", "ConsumerGroupPartitionMetadata"}
"""Kinds of record that Kafka 4.4 reads and no longer writes."""
DECODERS = {
    "__consumer_offsets": ("--offsets-decoder", GROUP_RECORDS),
    "__share_group_state": ("--share-group-state-decoder", SHARE_RECORDS),
    "__transaction_state": ("--transaction-log-decoder", TRANSACTION_RECORDS),
}
CONFIG = {
    "offsets_topic_num_partitions": 1,
    "transaction_state_log_num_partitions": 1,
    "share_coordinator_state_topic_num_partitions": 1,
    "share_coordinator_snapshot_update_records_per_snapshot": 2,
    "group_streams_initial_rebalance_delay_ms": 0,
    "group_streams_assignment_interval_ms": 0,
    "group_consumer_assignment_interval_ms": 0,
    "group_consumer_min_heartbeat_interval_ms": 100,
    "group_consumer_heartbeat_interval_ms": 100,
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """A segment of each log, as Kafka would have it on its disk, after groups of every kind were at work."""
    with members("m", **CONFIG) as (cluster, [sharer]):
        sharer.produce(4)
        sharer.fetch()
        sharer.acknowledge(0, 1, ACCEPT)
        sharer.acknowledge(2, 2, RELEASE)
        sharer.acknowledge(3, 3, ACCEPT)
        streams_group(cluster)
        consumed(cluster, "classic-group", "t")
        consumed(cluster, "consumer-group", "^t.*", {"group.protocol": "consumer"})
        folder = tmp_path_factory.mktemp("logs")
        yield {topic: segment(cluster, topic, folder) for topic in DECODERS}


def consumed(cluster: Cluster, group: str, topic: str, settings: dict[str, str] | None = None) -> None:
    """A member reads a record, and copies its offset in a transaction and without one."""
    own = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, **(settings or {})}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **own})
    consumer.subscribe([topic])
    cluster.wait_for(lambda: consumer.poll(0.1), timeout_s=WAIT_S)
    consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": group})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("t", b"copy", partition=0)
    producer.send_offsets_to_transaction([TopicPartition("t", 0, 2)], consumer.consumer_group_metadata(), WAIT_S)
    producer.commit_transaction(WAIT_S)
    consumer.close()


def streams_group(cluster: Cluster) -> None:
    with BlockingClient(cluster.bootstrap, client_id="threads") as client:
        assert 0 == client.ask(replace(STREAMS, group_id="streams-group"), 1).error_code


def segment(cluster: Cluster, topic: str, folder: Path) -> Path:
    """What a replica would fetch and put on its disk."""
    asked = FetchTopic(topic=topic, partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 24)])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, topics=[asked])
    with BlockingClient(cluster.bootstrap, client_id="copy") as client:
        records = client.ask(request, 12).responses[0].partitions[0].records
    path = folder / f"{topic}-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(records)
    return path


@pytest.mark.parametrize("topic", DECODERS)
def test_kafka_reads_every_record(topic: str, logs: dict[str, Path]) -> None:
    option, kinds = DECODERS[topic]
    with with_toolchains("kafka-tools"):
        dumped = tool("DumpLogSegments", option, "--files", str(logs[topic]))
    records = [line for line in dumped.splitlines() if re.match(r"\|? *offset: ", line)]
    keys = [json.loads(found[1]) for line in records if (found := re.search(r"key: (\{.*?\}) payload:", line))]
    markers = [line for line in records if "endTxnMarker" in line]
    assert records
    assert len(records) == len(keys) + len(markers), dumped
    assert "Could not decode" not in dumped
    assert "Found invalid" not in dumped
    assert [] == [line for line in dumped.splitlines() if "isvalid: false" in line]
    read = {kinds[int(key["type"])] for key in keys}
    assert read == set(kinds.values()) - NOT_WRITTEN, dumped
