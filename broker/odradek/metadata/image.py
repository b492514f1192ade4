"""A broker's knowledge of its cluster: an immutable image, as of one offset of the metadata log.

There is one copy of each log, and a replica is the offset up to which it has acknowledged (`log.followers`). A leader
proposes the in-sync replicas, and the controller decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from msgspec import Struct

from odradek.access.acls import Acl

if TYPE_CHECKING:
    from odradek.access.credential import ScramCredential
    from odradek.access.tokens import Token

__all__ = [
    "CLIENT_ID",
    "EMPTY",
    "IP",
    "NO_LEADER",
    "REPLICA_LAG",
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

REPLICA_LAG = "odradek.replica.lag.ms"
NO_LEADER = -1
TRANSACTION_VERSION = "transaction.version"
"""The leader of a partition without an available replica."""

USER, CLIENT_ID, IP = "user", "client-id", "ip"
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""The entity of a limit: types and names, sorted by type. None as a name stands for all without one of their own."""

K = TypeVar("K")
V = TypeVar("V")
_NO_CONFIGS: Mapping[str, str] = MappingProxyType({})


def _nothing() -> Mapping[K, V]:
    return MappingProxyType({})


class ResourceType(IntEnum):
    """Types of resources with configs, numbered as in ConfigRecord and DescribeConfigs."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class EndpointImage(Struct, frozen=True):
    """The address of one listener of a broker."""

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
    features: Mapping[str, tuple[int, int]] = _nothing()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[bytes, ...] = ()

    def endpoint(self, listener: str) -> EndpointImage:
        """The address for clients of this listener; the first one if their listener has no name."""
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
    """A partition: its leader, leader epoch and replicas."""

    index: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    directories: tuple[bytes, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    """The replicas that a reassignment adds."""
    removing_replicas: tuple[int, ...] = ()
    """The replicas that a reassignment removes when all added ones are in sync."""
    eligible_replicas: tuple[int, ...] = ()
    """Replicas that are out of sync, and have all committed records (KIP-966)."""
    last_known_eligible: tuple[int, ...] = ()
    """The last leader, if no replica is in sync."""


class TopicImage(Struct, frozen=True):
    """A topic and its partitions by index."""

    name: str
    id: bytes
    partitions: Mapping[int, PartitionImage] = _nothing()

    @property
    def replication_factor(self) -> int:
        """Replicas of each partition."""
        return len(self.partitions[0].replicas) if self.partitions else 0


class MetadataImage(Struct, frozen=True):
    """The content of the metadata log up to `offset`, without an open metadata transaction."""

    offset: int = -1
    """The last offset in the image, which clients see as the epoch of the finalized features."""
    epoch: int = 0
    brokers: Mapping[int, BrokerImage] = _nothing()
    topics: Mapping[str, TopicImage] = _nothing()
    topics_by_id: Mapping[bytes, TopicImage] = _nothing()
    configs: Mapping[tuple[int, str], Mapping[str, str]] = _nothing()
    features: Mapping[str, int] = _nothing()
    """Finalized levels; a feature at level 0 is missing."""
    next_producer_id: int = 0
    scram: Mapping[tuple[str, int], ScramCredential] = _nothing()
    """SCRAM credentials by user and mechanism number."""
    acls: Mapping[bytes, Acl] = _nothing()
    """The permissions, by id."""
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = _nothing()
    """The limits of clients, by entity and key."""
    tokens: Mapping[str, Token] = _nothing()
    """The delegation tokens, by id."""

    def topic(self, name: str) -> TopicImage | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        return self.topics_by_id.get(topic_id)

    def partition(self, name: str, index: int) -> PartitionImage | None:
        """A partition by the name of its topic."""
        topic = self.topics.get(name)
        return None if topic is None else topic.partitions.get(index)

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The overrides of a resource; a broker named "" stands for the defaults of all."""
        return self.configs.get((resource_type, name), _NO_CONFIGS)

    def replica_lag_ms(self, broker: int, default: int) -> int:
        """The delay (ms) with which a broker acknowledges replicated records; -1: never."""
        for name in (str(broker), ""):
            text = self.config(ResourceType.BROKER, name).get(REPLICA_LAG)
            if text is not None:
                return int(text)
        return default

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
