"""The two brokers of a column: the real one of the release, and Odradek in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.oracle.asking import ask
from tests.oracle.brokers import ALIKE, OdradekBroker, RealBroker, started
from tests.oracle.phantom import Phantom
from tests.oracle.player import Broker, Neighbour
from tests.oracle.releases.columns import Column
from tests.oracle.releases.ranges import told
from tests.oracle.releases.real import ReleasedKafka
from tests.oracle.session import Start

from odradek.wire.registry import ApiKey

__all__ = ["odradek", "real"]

PHANTOM_VERSIONS = {"3.3": (0, 0), "3.6": (1, 0)}
"""In which versions a release knows BrokerRegistration and BrokerHeartbeat, if not in those that the phantom speaks."""


class ReleasedBroker(RealBroker):
    """A real Kafka of an older release as a scenario sees it."""

    kafka: ReleasedKafka

    def make_phantom(self) -> Phantom:
        registration, heartbeat = PHANTOM_VERSIONS.get(self.kafka.release, (4, 1))
        cluster = ask(self.address, ApiKey.DESCRIBE_CLUSTER, 0, {})
        phantom = Phantom(
            ("127.0.0.1", self.kafka.controller_port),
            cluster_id=cluster.cluster_id,
            registration_version=registration,
            heartbeat_version=heartbeat,
        )
        newest = max(told(self.address)["api_versions"].values(), key=lambda answer: len(answer["supported"]))
        phantom.register([(name, low, high) for name, (low, high) in newest["supported"].items()])
        return phantom


def real(column: Column) -> Start:
    """Starts real brokers of this release, at this level."""

    @contextmanager
    def start(level: int, properties: Mapping[str, str], neighbour: Neighbour) -> Iterator[Broker]:
        kafka = ReleasedKafka(
            column.release,
            transaction_version=None if column.only_level else level,
            properties={**ALIKE, **properties},
            features={"eligible.leader.replicas.version": 0} if column.release == "4.0" else None,
        )
        with started(kafka, ReleasedBroker, neighbour) as broker:
            yield broker

    return start


def odradek(column: Column) -> Start:
    """Starts Odradek as this release, at this level."""

    @contextmanager
    def start(level: int, properties: Mapping[str, str], neighbour: Neighbour) -> Iterator[Broker]:
        from odradek.testing import Cluster

        config = {**ALIKE, **properties}
        brokers = 2 if neighbour else 1
        with Cluster(config=config, as_kafka=column.release, transaction_version=level, brokers=brokers) as cluster:
            yield OdradekBroker(cluster, neighbour)

    return start
