"""Three brokers of which the second and the third are ended, frozen and started again, real ones and ours.

The first is the controller and stays. Partitions 0 and 1 of the coordinators' topics are at the first broker alone, the
last one is at the second, and the third follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.oracle.asking import ask, create_topic, partitions
from tests.oracle.client import ConnectionClosed, NoAnswer
from tests.oracle.player import (
    COORDINATOR_PARTITIONS,
    FAR_PARTITION,
    TRANSIENT,
    Neighbour,
    Nodes,
    name_at,
    wait_until,
)
from tests.oracle.real_kafka import CONTROLLER_ID, PROPERTIES, RealKafka

from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.testing import Cluster

__all__ = ["BROKERS", "COORDINATED", "OUR_PROPERTIES", "OdradekCluster", "RealCluster", "addresses"]

BROKERS = (CONTROLLER_ID, 2, 3)
COORDINATED = ("__transaction_state", "__consumer_offsets")
FAR_REPLICAS = [2, 3]
PREFERRED = 0

SESSION_MS = PROPERTIES["broker.session.timeout.ms"]
SESSION = timedelta(milliseconds=int(SESSION_MS))
OUR_PROPERTIES: Mapping[str, str] = {"broker.session.timeout.ms": SESSION_MS, "odradek.strict.replication": "true"}
KEPT = {"retention.ms": "-1"}
"""Records whose time a scenario chose are old, and would be deleted half a minute after a broker's start."""
NOBODY = 1 << 40
"""A producer id that nobody has."""
FETCH_WAIT_MS = 100
DRAINED_S = 0.5
"""After which no leader owes a frozen broker an answer that holds what is appended from now on."""
PATIENCE_S = 30.0
REAL_PROPERTIES: Mapping[str, str] = {
    "auto.leader.rebalance.enable": "false",
    "replica.fetch.wait.max.ms": str(FETCH_WAIT_MS),
    "replica.fetch.backoff.ms": "100",
}


class Brokers:
    """What both have in common: what is asked of them, and waited for."""

    neighbour = Neighbour.COME_AND_GO
    settle_s = 0.0
    patience_s = PATIENCE_S

    def __init__(self, addresses: Mapping[int, tuple[str, int]]) -> None:
        self.addresses = addresses
        self.address = addresses[CONTROLLER_ID]
        self.ports = {port: f"PORT{node}" for node, (_, port) in addresses.items()}
        self.killed: set[int] = set()
        self.frozen: set[int] = set()

    @property
    def nodes(self) -> Nodes | None:
        return self

    # ------------------------------------------------------------------ what they do in their own way

    def end(self, node: int) -> None:
        raise NotImplementedError

    def bring_back(self, node: int) -> None:
        raise NotImplementedError

    def halt(self, node: int) -> None:
        raise NotImplementedError

    def go_on(self, node: int) -> None:
        raise NotImplementedError

    def let_session_end(self, node: int) -> None:
        """The session of a broker that is gone is over, now or soon."""

    # ------------------------------------------------------------------ brokers that come and go

    def broker_address(self, node: int) -> tuple[str, int]:
        return self.addresses[node]

    def kill(self, node: int) -> None:
        self.end(node)
        self.killed.add(node)
        self.frozen.discard(node)

    def start(self, node: int) -> None:
        self.bring_back(node)
        self.killed.discard(node)
        self.wait(lambda: all(node in self.known_to(each) for each in self.able()), f"broker {node} does not come back")

    def freeze(self, node: int) -> None:
        self.halt(node)
        self.frozen.add(node)

    def thaw(self, node: int) -> None:
        self.go_on(node)
        self.frozen.discard(node)

    def expire(self, node: int) -> None:
        self.let_session_end(node)
        self.wait(lambda: all(node not in self.known_to(each) for each in self.able()), f"broker {node} stays")
        time.sleep(self.settle_s)

    def restore(self) -> None:
        for node in sorted(self.frozen):
            self.thaw(node)
        for node in sorted(self.killed):
            self.start(node)
        self.wait(lambda: all(self.known_to(node) == set(BROKERS) for node in BROKERS), "brokers stay away")
        self.wait(lambda: all(map(self.is_in_sync, COORDINATED)), "coordinators stay out of sync")
        elected = [{"topic": name, "partitions": [FAR_PARTITION]} for name in COORDINATED]
        fields = {"election_type": PREFERRED, "topic_partitions": elected, "timeout_ms": 10000}
        ask(self.address, ApiKey.ELECT_LEADERS, 2, fields)
        self.wait(lambda: all(map(self.leads_as_at_first, COORDINATED)), "coordinators do not move back")
        self.wait(self.coordinates, "coordinators do not serve")

    def able(self) -> list[int]:
        """The brokers that can be asked."""
        return [node for node in BROKERS if node not in self.killed | self.frozen]

    def known_to(self, node: int) -> set[int]:
        """The brokers that one knows to be there."""
        try:
            return {each.node_id for each in ask(self.addresses[node], ApiKey.METADATA, 12, {"topics": []}).brokers}
        except (ConnectionClosed, NoAnswer):
            return set()

    def wait(self, holds: Callable[[], bool], else_: str) -> None:
        assert wait_until(holds, limit_s=2 * PATIENCE_S), else_

    # ------------------------------------------------------------------ topics

    def create(self, topic: str, replicas: list[list[int]], configs: Mapping[str, str]) -> None:
        create_topic(self.address, topic, replicas=replicas, configs={**KEPT, **configs})
        self.wait(lambda: self.is_in_sync(topic), f"{topic} is not in sync")
        self.wait(lambda: all(self.is_led_by(topic, index, ids[0]) for index, ids in enumerate(replicas)), "no leader")

    def is_in_sync(self, topic: str, replicas: Sequence[int] = ()) -> bool:
        """Whether every broker knows that every replica is in sync, and of the last partition that these are all."""
        for node in BROKERS:
            found = self.partitions(node, topic)
            if not found or any(set(each.isr_nodes) != set(each.replica_nodes) for each in found):
                return False
            if replicas and set(found[-1].replica_nodes) != set(replicas):
                return False
        return True

    def leads_as_at_first(self, topic: str) -> bool:
        found = (self.partitions(node, topic)[FAR_PARTITION] for node in BROKERS)
        return all(each.leader_id == each.replica_nodes[0] for each in found)

    def coordinates(self) -> bool:
        """Whether the coordinators that were moved have loaded, and all brokers have producer ids in hand."""
        key = name_at(FAR_PARTITION, "")
        end = {"transactional_id": key, "producer_id": NOBODY, "producer_epoch": 0}
        address = self.addresses[FAR_REPLICAS[0]]
        errors = [
            ask(address, ApiKey.END_TXN, 1, end).error_code,
            ask(address, ApiKey.OFFSET_FETCH, 5, {"group_id": key, "topics": None}).error_code,
            *(
                ask(self.addresses[node], ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": None}).error_code
                for node in BROKERS
            ),
        ]
        return not TRANSIENT & {ErrorCode(error).name for error in errors}

    def partitions(self, node: int, topic: str) -> Sequence[Any]:
        return partitions(self.addresses[node], topic)

    def is_led_by(self, topic: str, index: int, leader: int) -> bool:
        """Whether this broker serves a partition."""
        partition = {"partition_index": index, "timestamp": -1}
        fields = {"replica_id": -1, "topics": [{"name": topic, "partitions": [partition]}]}
        answer = ask(self.addresses[leader], ApiKey.LIST_OFFSETS, 6, fields)
        return bool(answer.topics[0].partitions[0].error_code == ErrorCode.NONE)

    def create_coordinated(self) -> None:
        """Create the coordinators' topics, where their places are to be."""
        for name in COORDINATED:
            replicas = [[2 if index == FAR_PARTITION else CONTROLLER_ID] for index in range(COORDINATOR_PARTITIONS)]
            self.create(name, replicas, {"cleanup.policy": "compact", "unclean.leader.election.enable": "false"})
            partition = {"partition_index": FAR_PARTITION, "replicas": FAR_REPLICAS}
            fields = {"topics": [{"name": name, "partitions": [partition]}], "timeout_ms": 10000}
            ask(self.address, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, fields)
            self.wait(lambda name=name: self.is_in_sync(name, FAR_REPLICAS), f"{name} is not in sync")  # type: ignore[misc]
        self.wait(self.coordinates, "coordinators do not serve")

    # ------------------------------------------------------------------ what scenarios of one broker do

    def address_of(self, topic: str) -> tuple[str, int]:
        """The leader of a topic's first partition; the first broker if there is none."""
        found = [each.leader_id for each in self.partitions(CONTROLLER_ID, topic)]
        return self.addresses.get(found[0] if found else CONTROLLER_ID, self.address)

    def restart(self, *, crash: bool) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        pass

    def hold(self, topic: str) -> None:
        raise NotImplementedError

    def release(self, topic: str) -> None:
        raise NotImplementedError

    def give_away(self, topic: str) -> None:
        raise NotImplementedError

    def follow(self, topic: str, *, lagging: bool) -> None:
        raise NotImplementedError

    def follow_no_more(self, topic: str) -> None:
        raise NotImplementedError


class RealCluster(Brokers):
    """Real brokers, each a process."""

    settle_s = 0.5

    def __init__(self, level: int, properties: Mapping[str, str], *, jvm_options: Iterable[str]) -> None:
        properties, options = {**REAL_PROPERTIES, **properties}, tuple(jvm_options)

        def broker(node: int, joins: RealKafka | None = None) -> RealKafka:
            return RealKafka(
                transaction_version=level, properties=properties, jvm_options=options, node_id=node, joins=joins
            )

        first = broker(CONTROLLER_ID)
        others = {node: broker(node, first) for node in BROKERS[1:]}
        self.kafkas = {CONTROLLER_ID: first, **others}
        super().__init__({node: ("127.0.0.1", kafka.port) for node, kafka in self.kafkas.items()})
        self.exits = ExitStack()

    def __enter__(self) -> RealCluster:
        with ExitStack() as exits:
            for kafka in self.kafkas.values():
                exits.callback(kafka.remove)
                exits.callback(kafka.kill)
            with ThreadPoolExecutor() as threads:
                list(threads.map(RealKafka.start, self.kafkas.values()))
            self.wait(lambda: all(self.known_to(node) == set(BROKERS) for node in BROKERS), "not all come")
            self.create_coordinated()
            self.exits = exits.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.exits.close()

    def end(self, node: int) -> None:
        self.kafkas[node].kill()

    def bring_back(self, node: int) -> None:
        self.kafkas[node].start()

    def halt(self, node: int) -> None:
        self.kafkas[node].freeze()
        time.sleep(DRAINED_S)

    def go_on(self, node: int) -> None:
        self.kafkas[node].thaw()


class OdradekCluster(Brokers):
    """Odradek's, all inside this process."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(addresses(cluster))
        self.cluster = cluster
        self.create_coordinated()

    def end(self, node: int) -> None:
        self.cluster.stop_broker(node)

    def bring_back(self, node: int) -> None:
        self.cluster.start_broker(node)

    def halt(self, node: int) -> None:
        self.cluster.pause_broker(node)

    def go_on(self, node: int) -> None:
        self.cluster.resume_broker(node)

    def let_session_end(self, node: int) -> None:
        if node in self.frozen:
            self.cluster.advance(SESSION)


def addresses(cluster: Cluster) -> dict[int, tuple[str, int]]:
    """Where each broker of ours listens."""
    hosts = [pair.rsplit(":", 1) for pair in cluster.bootstrap.split(",")]
    return {broker: (host, int(port)) for broker, (host, port) in zip(cluster.broker_ids, hosts, strict=True)}
