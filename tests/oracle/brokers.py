"""The two brokers that scenarios are played against, configured alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tests.oracle.asking import ask, create_topic, partitions
from tests.oracle.clusters import BROKERS, COORDINATED, OUR_PROPERTIES, OdradekCluster, RealCluster, addresses
from tests.oracle.phantom import PHANTOM_ID, PHANTOM_PORT, Phantom
from tests.oracle.player import (
    COORDINATOR_PARTITIONS,
    FAR_PARTITION,
    POLL_LIMIT_S,
    Broker,
    Neighbour,
    Nodes,
    wait_until,
)
from tests.oracle.real_kafka import RealKafka

from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.testing import Armed, Cluster

__all__ = ["ALIKE", "OdradekBroker", "RealBroker", "odradek", "real", "started"]

Kafka = TypeVar("Kafka", bound=RealKafka)

ALIKE: Mapping[str, str] = {
    "default.replication.factor": "1",
    "offsets.topic.num.partitions": str(COORDINATOR_PARTITIONS),
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": str(COORDINATOR_PARTITIONS),
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": str(COORDINATOR_PARTITIONS),
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Timed-out transactions are looked for more often than every ten seconds.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
"""What both are configured with, so that the same names fall on the same partitions."""

SHORT_LIVED = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options for a virtual machine that has more to do with starting than with running."""

TELEMETRY = "odradek.telemetry"
TELEMETRY_SINK = Path(__file__).parent / "telemetry" / "TelemetrySink.java"
"""What a real broker has instead: Kafka takes the metrics of clients only if a plug-in does."""

SHARES = "__share_group_state"
FIRST, SECOND = 1, PHANTOM_ID
COORDINATED_BY_BOTH = [[SECOND if index == FAR_PARTITION else FIRST] for index in range(COORDINATOR_PARTITIONS)]
TOPIC, SET = 2, 0


def let_one_suffice(address: tuple[str, int], topic: str) -> None:
    """One replica in sync is enough for who wants all."""
    config = {"name": "min.insync.replicas", "config_operation": SET, "value": "1"}
    resource = {"resource_type": TOPIC, "resource_name": topic, "configs": [config]}
    ask(address, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})


class RealBroker:
    """A real Kafka as a scenario sees it."""

    settle_s = 0.3
    patience_s = POLL_LIMIT_S
    nodes: Nodes | None = None

    def __init__(self, kafka: RealKafka, neighbour: Neighbour) -> None:
        self.kafka = kafka
        self.neighbour = neighbour
        self.address = ("127.0.0.1", kafka.port)
        self.ports = {PHANTOM_PORT: "OTHER_PORT", kafka.port: "PORT"}
        self.phantom = self.make_phantom() if neighbour else None
        self.following: dict[str, ExitStack] = {}
        """What keeps the phantom in sync, by topic."""

    def address_of(self, topic: str) -> tuple[str, int]:
        return self.address

    def restart(self, *, crash: bool) -> None:
        if crash:
            self.kafka.kill()
        else:
            self.kafka.stop()
        self.kafka.start()

    def settle(self) -> None:
        pass

    def hold(self, topic: str) -> None:
        assert self.phantom is not None
        self.phantom.wake()
        create_topic(self.address, topic, replicas=[[FIRST, SECOND]], configs={"min.insync.replicas": "2"})
        self.phantom.sleep()
        assert wait_until(lambda: self.in_sync(topic) == [FIRST]), "the phantom stays in sync"

    def release(self, topic: str) -> None:
        if topic in self.following:
            self.follow_no_more(topic)
            assert wait_until(lambda: self.in_sync(topic) == [FIRST]), "the phantom stays in sync"
        else:
            let_one_suffice(self.address, topic)

    def follow(self, topic: str, *, lagging: bool) -> None:
        assert self.phantom is not None
        if not lagging:
            self.hold(topic)
            return
        self.following[topic] = exits = ExitStack()
        exits.enter_context(self.phantom.awake())
        create_topic(self.address, topic, replicas=[[FIRST, SECOND]])
        assert wait_until(lambda: self.in_sync(topic) == [FIRST, SECOND]), "the phantom is not in sync"

    def follow_no_more(self, topic: str) -> None:
        assert self.phantom is not None
        if topic in self.following:
            self.following.pop(topic).close()
            self.phantom.sleep()

    def give_away(self, topic: str) -> None:
        create_topic(self.address, topic, replicas=[[SECOND]])
        assert wait_until(lambda: [each.leader_id for each in partitions(self.address, topic)] == [SECOND])

    def give_coordinators_away(self) -> None:
        """Create the coordinators' topics as the broker would, but for the last partition of each."""
        for name in (*COORDINATED, SHARES):
            create_topic(self.address, name, replicas=COORDINATED_BY_BOTH, configs={"cleanup.policy": "compact"})

    def make_phantom(self) -> Phantom:
        cluster = ask(self.address, ApiKey.DESCRIBE_CLUSTER, 0, {})
        client = {"client_software_name": "oracle", "client_software_version": "1"}
        supported = ask(self.address, ApiKey.API_VERSIONS, 4, client).supported_features
        phantom = Phantom(("127.0.0.1", self.kafka.controller_port), cluster_id=cluster.cluster_id)
        phantom.register([(each.name, each.min_version, each.max_version) for each in supported])
        return phantom

    def in_sync(self, topic: str) -> list[int]:
        return [node for partition in partitions(self.address, topic) for node in partition.isr_nodes]


@contextmanager
def real(level: int, properties: Mapping[str, str], neighbour: Neighbour) -> Iterator[Broker]:
    """A real Kafka with this transaction.version."""
    properties = {**ALIKE, **properties}
    if neighbour is Neighbour.COME_AND_GO:
        with RealCluster(level, properties, jvm_options=SHORT_LIVED) as cluster:
            yield cluster
        return
    plug_ins: list[Path] = []
    if properties.pop(TELEMETRY, None) == "true":
        plug_ins.append(TELEMETRY_SINK)
        properties["metric.reporters"] = TELEMETRY_SINK.stem
    kafka = RealKafka(transaction_version=level, properties=properties, jvm_options=SHORT_LIVED, plug_ins=plug_ins)
    with started(kafka, RealBroker, neighbour) as broker:
        yield broker


@contextmanager
def started(kafka: Kafka, seen_as: Callable[[Kafka, Neighbour], RealBroker], neighbour: Neighbour) -> Iterator[Broker]:
    """This real Kafka, with the neighbour that a scenario wants."""
    with ExitStack() as exits:
        exits.enter_context(kafka)
        broker = seen_as(kafka, neighbour)
        if neighbour is Neighbour.COORDINATES and broker.phantom is not None:
            exits.enter_context(broker.phantom.awake())
            broker.give_coordinators_away()
        yield broker


class OdradekBroker:
    """An Odradek inside this process as a scenario sees it: its first broker, leader of all but what is given away."""

    settle_s = 0.0
    patience_s = POLL_LIMIT_S
    nodes: Nodes | None = None

    def __init__(self, cluster: Cluster, neighbour: Neighbour) -> None:
        self.cluster = cluster
        self.neighbour = neighbour
        self.held: dict[str, Armed] = {}
        self.lagging: set[str] = set()
        self.addresses = addresses(cluster)
        self.address = self.addresses[FIRST]
        neighbour_port = self.addresses[SECOND][1] if neighbour else PHANTOM_PORT
        self.ports = {neighbour_port: "OTHER_PORT", self.address[1]: "PORT"}

    def address_of(self, topic: str) -> tuple[str, int]:
        return self.addresses[SECOND] if topic in self.held else self.address

    def restart(self, *, crash: bool) -> None:
        if self.neighbour:
            self.reload()
        else:
            self.cluster.stop_broker(FIRST)
            self.cluster.start_broker(FIRST)

    def reload(self) -> None:
        """What a restart does to the partitions of a broker, without another taking them over."""
        for topic in ask(self.address, ApiKey.METADATA, 12, {"topics": None}).topics:
            for partition in topic.partitions:
                if partition.leader_id == FIRST:
                    self.cluster.move_leader(topic.name, partition.partition_index, to=FIRST)

    def settle(self) -> None:
        for name in COORDINATED if self.neighbour else ():
            for partition in partitions(self.address, name):
                far = self.neighbour is Neighbour.COORDINATES and partition.partition_index == FAR_PARTITION
                leader = SECOND if far else FIRST
                if partition.leader_id != leader:
                    self.cluster.move_leader(name, partition.partition_index, to=leader)

    def hold(self, topic: str) -> None:
        from odradek.testing import rule

        create_topic(self.address, topic, replicas=[[SECOND]])
        markers = rule(ApiKey.WRITE_TXN_MARKERS, topic=topic, broker=SECOND, times="all", hold=True)
        self.held[topic] = self.cluster.add_rule(markers)

    def release(self, topic: str) -> None:
        if topic in self.held:
            self.cluster.remove_rule(self.held[topic])
        elif topic in self.lagging:
            self.cluster.stop_broker(SECOND)
        else:
            let_one_suffice(self.address, topic)

    def follow(self, topic: str, *, lagging: bool) -> None:
        if lagging:
            self.lagging.add(topic)
            self.cluster.set_replica_lag(SECOND, None)
            create_topic(self.address, topic, replicas=[[FIRST, SECOND]])
        else:
            create_topic(self.address, topic, replicas=[[FIRST, SECOND]], configs={"min.insync.replicas": "2"})
            self.cluster.stop_broker(SECOND)

    def follow_no_more(self, topic: str) -> None:
        self.cluster.start_broker(SECOND)
        if topic in self.lagging:
            self.cluster.set_replica_lag(SECOND, 0)

    def give_away(self, topic: str) -> None:
        create_topic(self.address, topic, replicas=[[SECOND]])


@contextmanager
def odradek(level: int, properties: Mapping[str, str], neighbour: Neighbour) -> Iterator[Broker]:
    """Odradek with this transaction.version."""
    from odradek.testing import Cluster

    config = {**ALIKE, **properties, "odradek.transaction.version": str(level)}
    if neighbour in (Neighbour.FOLLOWS, Neighbour.COME_AND_GO):
        config["odradek.internal.topics.at.start"] = "false"
    if neighbour is Neighbour.COME_AND_GO:
        with Cluster(config={**OUR_PROPERTIES, **config}, brokers=len(BROKERS)) as cluster:
            yield OdradekCluster(cluster)
        return
    with Cluster(config=config, brokers=2 if neighbour else 1) as cluster:
        broker = OdradekBroker(cluster, neighbour)
        if neighbour is Neighbour.FOLLOWS:
            # What the second broker had it would take along when it goes.
            for name in COORDINATED:
                create_topic(broker.address, name, replicas=[[FIRST]] * COORDINATOR_PARTITIONS)
        if neighbour is Neighbour.COORDINATES:
            create_topic(broker.address, SHARES, replicas=COORDINATED_BY_BOTH)
        yield broker
