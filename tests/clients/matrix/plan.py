"""What is played: the clients, the brokers they meet, the scenarios; and the smaller set for every change."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from odradek.releases.table import LATEST
from odradek.releases.table import RELEASES as SERVED

__all__ = [
    "BROKERS",
    "CLIENTS",
    "MECHANISMS",
    "OWN",
    "RELEASES",
    "SCENARIOS",
    "TRANSACTIONAL",
    "Broker",
    "Cell",
    "Client",
    "core",
    "everything",
]


@dataclasses.dataclass(frozen=True)
class Client:
    """A release of a client library; the newest of its family also meets brokers of other releases."""

    family: str
    version: str
    newest: bool = False
    optional: bool = False
    """Played only where the machine happens to have what it needs."""

    def __str__(self) -> str:
        return f"{self.family} {self.version}"


@dataclasses.dataclass(frozen=True)
class Broker:
    """A kind of broker: a level of transaction.version, one that changes, or another release of Kafka."""

    name: str
    transaction_version: int | None = None
    as_kafka: str | None = None
    changes: bool = False
    secured: bool = False
    """Whether it asks who comes, over SASL_SSL, and lets them do what ACLs say."""

    @property
    def tries(self) -> int:
        """More where connections are cut: kafkajs gives up when it loses one while it looks for its coordinator."""
        return 5 if self.changes else 2


@dataclasses.dataclass(frozen=True)
class Cell:
    """One scenario played by one client against one broker."""

    client: Client
    broker: Broker
    scenario: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names the cell in the results."""
        return self.client.family, self.client.version, self.broker.name, self.scenario

    def __str__(self) -> str:
        return f"{self.client}, {self.broker.name}, {self.scenario}"


def _versions(family: str, *versions: str) -> tuple[Client, ...]:
    return tuple(Client(family, version, newest=version == versions[-1]) for version in versions)


CLIENTS: tuple[Client, ...] = (
    *_versions("java", "0.11.0.3", "1.0.2", "2.1.1", "2.8.2", "3.3.2", "3.6.2", "3.9.2", "4.0.2", "4.4.0"),
    *_versions("kafka-share", "4.4.0"),
    *_versions("kafka-streams", "4.3.1"),
    Client("confluent-kafka", "1.9.2", optional=True),  # its wheels end with Python 3.10
    *_versions("confluent-kafka", "2.3.0", "2.16.1"),
    *_versions("kafka-python", "2.0.2", "2.2.21", "3.0.12"),
    *_versions("aiokafka", "0.8.1", "0.14.0"),
    *_versions("franz-go", "v1.10.4", "v1.22.2"),
    *_versions("sarama", "v1.61.1", "v1.61.1+max"),
    *_versions("kafka-go", "v0.4.51"),
    *_versions("kafkajs", "2.2.4"),
    *_versions("platformatic", "1.35.0", "2.12.1"),
    *_versions("krafka", "0.28.1"),
    *_versions("rskafka", "0.6.0"),
)

RELEASES = tuple(release for release in SERVED if release not in ("4.3", LATEST))
"""The releases that `--as-kafka` knows beside the one that is served without it.

Not 4.3, which differs from it in the versions of seven requests only, and to which Kafka's own tests are played.
"""

BROKERS: tuple[Broker, ...] = (
    Broker("level 0", transaction_version=0),
    Broker("level 1", transaction_version=1),
    Broker("level 2", transaction_version=2),
    Broker("level changes", transaction_version=1, changes=True),
    Broker("SASL_SSL and ACLs", transaction_version=2, secured=True),
    *(Broker(f"as Kafka {release}", as_kafka=release) for release in RELEASES),
)

PLAIN = ("produce-consume", "idempotent", "group", "admin")
CONSUMER_PROTOCOL: Mapping[str, tuple[str, ...]] = {
    "java": ("4.0.2", "4.4.0"),
    "confluent-kafka": ("2.16.1",),
    "franz-go": ("v1.22.2",),
}
"""The releases of clients that can join a group of KIP-848."""
TRANSACTIONAL = ("transactions", "txn-offsets", "zombie", "txn-timeout")
SERVES_CONSUMER_PROTOCOL = ("level 2", "SASL_SSL and ACLs", "as Kafka 4.0")
SERVES_NEWER_GROUPS = ("level 2", "SASL_SSL and ACLs")
MECHANISMS: Mapping[str, str] = {
    **dict.fromkeys(("java", "kafka-streams", "kafka-share"), "SCRAM-SHA-512"),
    **dict.fromkeys(("confluent-kafka", "kafka-python", "aiokafka"), "SCRAM-SHA-512"),
    **dict.fromkeys(("franz-go", "sarama", "kafka-go"), "SCRAM-SHA-512"),
    **dict.fromkeys(("kafkajs", "platformatic"), "SCRAM-SHA-512"),
    **dict.fromkeys(("krafka", "rskafka"), "SCRAM-SHA-512"),
}
"""How the newest release of each family logs in."""
OWN: Mapping[str, tuple[str, ...]] = {"kafka-share": (), "kafka-streams": ("word-count",)}
"""Scenarios of families that play nothing else."""
STREAMS_PROTOCOL: Mapping[str, tuple[str, ...]] = {"kafka-streams": ("4.3.1",)}
"""The releases of clients that can join a group of KIP-1071."""
SHARES: Mapping[str, tuple[str, ...]] = {"kafka-share": ("4.4.0",)}
"""The releases of clients that can join a group of KIP-932."""
CORE_EVERYWHERE = ("transactions", "word-count")
SCENARIOS: tuple[str, ...] = (*PLAIN, "consumer-protocol", *TRANSACTIONAL, "word-count", "streams-protocol", "share")


def everything() -> Iterator[Cell]:
    """Every client at every level, and the newest ones also against every release."""
    for broker in BROKERS:
        for client in CLIENTS:
            if _meets(client, broker):
                for scenario in _scenarios(client, broker):
                    yield Cell(client, broker, scenario)


def _meets(client: Client, broker: Broker) -> bool:
    if broker.secured:
        return client.newest and client.family in MECHANISMS
    return broker.as_kafka is None or client.newest


def _scenarios(client: Client, broker: Broker) -> Iterator[str]:
    yield from OWN.get(client.family, (*PLAIN, *TRANSACTIONAL))
    # Groups do not depend on transaction.version, and before 4.0 no broker has the protocol.
    if broker.name in SERVES_CONSUMER_PROTOCOL and client.version in CONSUMER_PROTOCOL.get(client.family, ()):
        yield "consumer-protocol"
    if broker.name in SERVES_NEWER_GROUPS and client.version in STREAMS_PROTOCOL.get(client.family, ()):
        yield "streams-protocol"
    if broker.name in SERVES_NEWER_GROUPS and client.version in SHARES.get(client.family, ()):
        yield "share"


def core() -> Iterator[Cell]:
    """The newest client of each family: all scenarios at level 2, transactions against every other broker."""
    for cell in everything():
        everywhere = ("transactions",) if cell.broker.secured else CORE_EVERYWHERE
        if cell.client.newest and (cell.broker.name == "level 2" or cell.scenario in everywhere):
            yield cell
