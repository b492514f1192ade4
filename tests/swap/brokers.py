"""Directories of three brokers: how they are made, damaged at one node, started, and looked at.

All of them have stopped cleanly, one after the other, so that the last one is alone in every ISR: `LAST` has led
everything, `FIRST` has stopped before. A row damages the replica of one partition, or the directory of one node.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Producer
from msgspec import Struct
from tests.net.warned import warned
from tests.swap.damages import SEGMENT_BYTES, SEGMENTS, Damage, write_orders
from tests.swap.outcomes import (
    FOLDER,
    ORDERS,
    OTHER,
    REFUSES,
    STARTS,
    TIMEOUT_S,
    Lines,
    Seen,
    append,
    plain,
    seen,
    told_lines,
)
from tests.swap.systems import Kafka, directory, free_ports, shared

from odradek.cli.usage import UsageError
from odradek.log.files.marks import read_meta
from odradek.log.files.names import segment_file
from odradek.net.client import BlockingClient
from odradek.testing import Cluster
from odradek.wire.messages.metadata_request import MetadataRequest

__all__ = [
    "BROKERS",
    "FIRST",
    "LAST",
    "Replicas",
    "answer_of_kafkas",
    "answer_of_odradeks",
    "at",
    "make_brokers",
    "make_empty_brokers",
]

BROKERS = 3
FIRST, LAST = 1, 3
ISR_S = 60


class Replicas(Struct, omit_defaults=True):
    """The outcome of a start of three nodes."""

    how: str
    runs: Sequence[int] = ()
    """The nodes that serve."""
    logs: Mapping[str, Seen] = {}
    isr: Mapping[str, Sequence[int]] = {}
    """By partition, when it does not change any more."""
    says: Sequence[str] = ()


def at(node_id: int, damage: Damage) -> Damage:
    """The same in the directory of this node."""
    return lambda path: damage(path / f"broker-{node_id}")


def make_brokers(path: Path) -> None:
    """Three brokers that have stopped cleanly; the log of `ORDERS` is that of `damages.py`."""
    config = {**shared(BROKERS), "log.segment.bytes": str(SEGMENT_BYTES)}
    topics = [f"{ORDERS}:1:{BROKERS}", f"{OTHER}:1:{BROKERS}"]
    with Cluster(data_dir=path, brokers=BROKERS, topics=topics, config=config, log=Lines()) as cluster:
        write_orders(cluster.bootstrap)
    for node_id in range(1, BROKERS + 1):
        files = (path / f"broker-{node_id}" / FOLDER).glob("*.log")
        assert [segment_file(base, ".log") for base in SEGMENTS] == sorted(each.name for each in files)


def make_empty_brokers(path: Path, partitions: int) -> None:
    """The same topics with more partitions, and without the records of the first topic."""
    config = {**shared(BROKERS), "log.segment.bytes": str(SEGMENT_BYTES)}
    topics = [f"{ORDERS}:{partitions}:{BROKERS}", f"{OTHER}:1:{BROKERS}"]
    with Cluster(data_dir=path, brokers=BROKERS, topics=topics, config=config, log=Lines()) as cluster:
        _fill(Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "log_level": 0}))


def _fill(producer: Producer) -> None:
    for word in ("a", "b"):
        producer.produce(OTHER, word)
        assert 0 == producer.flush(TIMEOUT_S)


def answer_of_odradeks(path: Path, times: Sequence[int]) -> Replicas:
    """Start Odradek on the directories, look at it, and stop it."""
    lines = Lines()
    try:
        with warned() as told, Cluster(data_dir=path, config=shared(BROKERS), log=lines, seed=1) as cluster:
            runs = cluster.broker_ids
            cluster.wait_for(lambda: all(set(isr) == set(runs) for isr in _partitions(cluster.bootstrap)[1].values()))
            logs, isr = look_at_leaders(cluster.bootstrap, times)
    except UsageError as refusal:
        return Replicas(REFUSES, says=[plain(str(refusal), path)])
    logged = [line for line in lines.lines if not line.startswith("broker_fenced")]
    assert sorted(logged) == sorted(told)
    return Replicas(STARTS, runs, logs, isr, [plain(line, path) for line in logged])


def answer_of_kafkas(root: Path, times: Sequence[int]) -> Replicas:
    """Start three nodes of a real Kafka, look at those that serve, and stop them."""
    kafka = Kafka(root, free_ports(BROKERS), brokers=BROKERS)
    path = directory(root)
    clusters = {read_meta(file.read_bytes()).cluster_id for file in path.glob("broker-*/meta.properties")}
    for node in kafka.nodes:
        node.cluster_id = min(clusters)
        node.start_timeout_s = 150
        node.jvm_options = ("-Xms64m", "-Xmx384m", *node.jvm_options[2:])
    with suppress(RuntimeError):
        kafka.start()
    try:
        running = [node for node in kafka.nodes if node.process is not None]
        logs: Mapping[str, Seen] = {}
        isr: Mapping[str, Sequence[int]] = {}
        for node in running:
            # One that takes itself for a node of another cluster is alone there.
            with suppress(OSError, AssertionError):
                rest(node.bootstrap, [each.node_id for each in running])
                logs, isr = look_at_leaders(node.bootstrap, times)
            if logs:
                break
        runs = [node.node_id for node in running if node.process is not None and node.process.poll() is None]
    finally:
        kafka.kill()
    says = [plain(f"{node.node_id}: {line}", path) for node in kafka.nodes for line in told_lines(node.log.read_text())]
    return Replicas(STARTS if logs else REFUSES, runs, logs, isr, says)


def rest(bootstrap: str, runs: Collection[int]) -> None:
    """Wait until all nodes that run are in sync everywhere; not for ever, for some never come to be."""
    ends = time.monotonic() + ISR_S
    while time.monotonic() < ends:
        leaders, isr = _partitions(bootstrap)
        if all(leaders.values()) and all(set(runs) <= set(each) for each in isr.values()):
            return
        time.sleep(0.5)


def _partitions(bootstrap: str) -> tuple[dict[tuple[str, int], str], dict[str, list[int]]]:
    """The address of each partition's leader, empty for none, and its ISR."""
    with BlockingClient(bootstrap.partition(",")[0], client_id="look", timeout_s=TIMEOUT_S) as client:
        found = client.ask(MetadataRequest(topics=None), 12)
    addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in found.brokers}
    partitions = {
        (topic.name or "", one.partition_index): one
        for topic in found.topics
        if not (topic.name or "").startswith("__")
        for one in topic.partitions
    }
    leaders = {key: addresses.get(one.leader_id, "") for key, one in sorted(partitions.items())}
    return leaders, {f"{topic}-{index}": sorted(one.isr_nodes) for (topic, index), one in sorted(partitions.items())}


def look_at_leaders(bootstrap: str, times: Sequence[int]) -> tuple[dict[str, Seen], dict[str, list[int]]]:
    """The logs of all partitions that have a leader, and the replicas in sync."""
    leaders, isr = _partitions(bootstrap)
    logs: dict[str, Seen] = {}
    for (topic, index), address in leaders.items():
        if address:
            with BlockingClient(address, client_id="look", timeout_s=TIMEOUT_S) as client:
                logs[f"{topic}-{index}"] = seen(client, topic, index, times)
    for topic, index in leaders:
        if f"{topic}-{index}" in logs:
            logs[f"{topic}-{index}"].appended = append(bootstrap, topic, index)
    return logs, isr
