"""What a broker knows of its cluster: an immutable image, as of one offset of the metadata log.

There is one copy of each log, and a replica is how far it has acknowledged (`log.followers`); who is in sync is decided
by the controller, as the leader proposes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec import Struct

from odradek.access.acls import Acl
from odradek.access.credential import ScramCredential
from odradek.access.tokens import Token

__all__ = [
    "CLIENT_ID",
    "EMPTY",
    "IP",
    "NO_LEADER",
    "USER",
    "BrokerImage",
    "EndpointImage",
    "MetadataImage",
    "PartitionImage",
    "QuotaEntity",
    "ResourceType",
    "TRANSACTION_VERSION",
    "TopicImage",
]

NO_LEADER = -1
TRANSACTION_VERSION = "transaction.version"
"""Leader of a partition none of whose replicas is there."""

USER, CLIENT_ID, IP = "user", "client-id", "ip"
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Whose limits they are: types and names in the order of the types; the name None is for all that have no own."""

_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class ResourceType(IntEnum):
    """What has configs, numbered as in ConfigRecord and DescribeConfigs."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class EndpointImage(Struct, frozen=True):
    """Where a listener of a broker can be reached."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class BrokerImage(Struct, frozen=True):
    """A registered broker."""

    id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[EndpointImage, ...]
    features: Mapping[str, tuple[int, int]] = _NOTHING
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[bytes, ...] = ()

    def endpoint(self, listener: str) -> EndpointImage:
        """What clients of this listener are told; the first where they came over none that has a name."""
        for endpoint in self.endpoints:
            if endpoint.name == listener:
                return endpoint
        return self.endpoints[0]

    @property
    def host(self) -> str:
        """The host of its first listener."""
        return self.endpoints[0].host

    @property
    def port(self) -> int:
        """The port of its first listener."""
        return self.endpoints[0].port


class PartitionImage(Struct, frozen=True):
    """A partition: who leads it, since when, and who could."""

    index: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    directories: tuple[bytes, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    """Of the replicas, those that a reassignment brings."""
    removing_replicas: tuple[int, ...] = ()
    """Of the replicas, those that leave when all that come are in sync."""
    eligible_replicas: tuple[int, ...] = ()
    """Out of sync, and yet known to have all that is committed (KIP-966)."""
    last_known_eligible: tuple[int, ...] = ()
    """Who led last, when nobody is in sync."""


class TopicImage(Struct, frozen=True):
    """A topic and its partitions by index."""

    name: str
    id: bytes
    partitions: Mapping[int, PartitionImage] = _NOTHING

    @property
    def replication_factor(self) -> int:
        """Replicas of each partition."""
        return len(self.partitions[0].replicas) if self.partitions else 0


class MetadataImage(Struct, frozen=True):
    """Everything that the metadata log says up to `offset`, outside of an open metadata transaction."""

    offset: int = -1
    """Last offset that is contained; clients see it as the epoch of the finalized features."""
    epoch: int = 0
    brokers: Mapping[int, BrokerImage] = _NOTHING
    topics: Mapping[str, TopicImage] = _NOTHING
    topics_by_id: Mapping[bytes, TopicImage] = _NOTHING
    configs: Mapping[tuple[int, str], Mapping[str, str]] = _NOTHING
    features: Mapping[str, int] = _NOTHING
    """Finalized levels; a feature at level 0 is not there."""
    next_producer_id: int = 0
    scram: Mapping[tuple[str, int], ScramCredential] = _NOTHING
    """What is kept of passwords, by user and number of the mechanism."""
    acls: Mapping[bytes, Acl] = _NOTHING
    """The permissions, by id."""
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = _NOTHING
    """The limits of clients, by entity and key."""
    tokens: Mapping[str, Token] = _NOTHING
    """The delegation tokens, by id."""

    def topic(self, name: str) -> TopicImage | None:
        """A topic by name."""
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        """A topic by id."""
        return self.topics_by_id.get(topic_id)

    def partition(self, name: str, index: int) -> PartitionImage | None:
        """A partition by the name of its topic."""
        topic = self.topics.get(name)
        return None if topic is None else topic.partitions.get(index)

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The overrides of a resource; the name "" of a broker means the defaults of all."""
        return self.configs.get((resource_type, name), _NOTHING)

    def feature(self, name: str) -> int:
        """The finalized level of a feature; 0 if there is none."""
        return self.features.get(name, 0)

    @property
    def transaction_version(self) -> int:
        """The finalized level of transaction.version."""
        return self.features.get(TRANSACTION_VERSION, 0)

    def is_alive(self, broker_id: int) -> bool:
        """Whether a broker is registered and not fenced."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced


EMPTY = MetadataImage()
"""The image before the first record."""
