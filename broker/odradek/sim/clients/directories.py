"""How clients find leaders and coordinators: directly in a broker's image, or by requests as real clients do.

Real clients ask any broker (FindCoordinator, Metadata), keep the answer, and use it until an error or a lost
connection. Of two leaders of a partition they believe the one with the higher epoch (KIP-320). An error response may
name a newer leader, which they ask at once (KIP-951).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from random import Random
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.sim.world.actors import Ask
from odradek.sim.world.dice import Dice
from odradek.sim.world.world import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import fetch_response, produce_response
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from odradek.wire.primitives import ZERO_UUID
from odradek.wire.registry import ApiKey

__all__ = [
    "NOBODY",
    "NOT_KNOWN",
    "Directory",
    "Images",
    "Hint",
    "Known",
    "Looks",
    "Lookups",
    "coordinators_told",
    "find_request",
    "key_type",
    "metadata_request",
    "offered",
]

TopicPartition: TypeAlias = tuple[str, int]
Looks: TypeAlias = Generator[Ask, Any, int]
"""A lookup as a script; returns the id of a broker, or `NOBODY`."""
NOBODY = -1
PATIENCE_MS = 800
"""Timeout of a lookup."""
BATCHED_SINCE = 4
"""First version of FindCoordinator with several keys (KIP-699)."""
FIND_VERSIONS = (1, 3, 4, 6)
METADATA_VERSIONS = (10, 11, 12, 13)
"""All of them have leader epochs, and topic ids, which differ when a topic is made again."""
MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Errors after which a client looks for the coordinator again. One that loads is asked again."""
OUTDATED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Errors after which it asks for the metadata again."""


class Known(Struct, frozen=True):
    """A client's knowledge of a partition."""

    leader: int = NOBODY
    epoch: int = -1
    topic_id: bytes = ZERO_UUID


NOT_KNOWN = Known()


Hint: TypeAlias = produce_response.LeaderIdAndEpoch | fetch_response.LeaderIdAndEpoch
"""The current leader in an error response (KIP-951)."""


class Directory(Protocol):
    """Finds leaders and coordinators for a client.

    A Protocol: clients look leaders up in images, or ask brokers.
    """

    def anyone(self) -> int:
        """A broker for requests that every broker can serve."""
        ...

    def coordinator(self, kind: CoordinatorKind, key: str) -> Looks:
        """The coordinator of an id, as far as the client knows."""
        ...

    def leader(self, partition: TopicPartition) -> Looks:
        """The leader of a partition, as far as the client knows."""
        ...

    def known(self, partition: TopicPartition) -> Known:
        """The client's knowledge of a partition."""
        ...

    def answered(self, kind: CoordinatorKind, key: str, node_id: int, error: int | None) -> None:
        """Note the error code of a coordinator's answer; None: there was no answer."""
        ...

    def led(self, partition: TopicPartition, node_id: int, error: int | None, hint: Hint | None = None) -> None:
        """Note the error code of a leader's answer; None: there was no answer."""
        ...


class Images:
    """Reads the metadata image of a random running broker; it may be out of date."""

    def __init__(self, world: World, random: Callable[[], Random]) -> None:
        self._world = world
        self._random = random

    def anyone(self) -> int:
        """A random running broker."""
        return self._random().choice(self._world.running)

    def coordinator(self, kind: CoordinatorKind, key: str) -> Looks:
        """The leader of the id's partition."""
        yield from ()
        topic = self._world.nodes[self.anyone()].image.topic(kind.topic)
        assert topic is not None
        return topic.partitions[partition_for(key, len(topic.partitions))].leader

    def leader(self, partition: TopicPartition) -> Looks:
        """The leader in the image of a broker."""
        yield from ()
        return self._world.leader_known_to(self.anyone(), *partition)

    def known(self, partition: TopicPartition) -> Known:
        return NOT_KNOWN

    def answered(self, kind: CoordinatorKind, key: str, node_id: int, error: int | None) -> None:
        """It keeps nothing."""

    def led(self, partition: TopicPartition, node_id: int, error: int | None, hint: Hint | None = None) -> None:
        """It keeps nothing."""


class Lookups:
    """Asks brokers, and keeps the answers."""

    def __init__(self, world: World, seed: str) -> None:
        self._dice = Dice(seed)
        self._find_version = offered(world, ApiKey.FIND_COORDINATOR, self._dice.choice(FIND_VERSIONS))
        self._metadata_version = offered(world, ApiKey.METADATA, self._dice.choice(METADATA_VERSIONS))
        self._bootstrap = [broker.node_id for broker in world.spec.brokers]
        self._brokers = self._bootstrap
        """The brokers in the last metadata, without those that did not answer since."""
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        self._partitions: dict[TopicPartition, Known] = {}
        self._outdated = False
        """Whether the metadata is to be asked for again; the old one serves until then."""

    def anyone(self) -> int:
        """A known broker; with none left it starts with its bootstrap brokers again (KIP-899)."""
        return self._dice.choice(self._brokers or self._bootstrap)

    def coordinator(self, kind: CoordinatorKind, key: str) -> Looks:
        """The known coordinator, or the answer to FindCoordinator."""
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        node_id = self.anyone()
        version = self._find_version
        response = yield Ask(node_id, find_request(kind, [key], version), version, PATIENCE_MS)
        if response is None:
            self._lost(node_id)
            return NOBODY
        [found] = coordinators_told(key, response, version)
        if found.error_code != ErrorCode.NONE:
            return NOBODY
        self._coordinators[kind, key] = found.node_id
        return found.node_id

    def leader(self, partition: TopicPartition) -> Looks:
        """The known leader, after a Metadata request if the metadata is out of date."""
        if self._outdated or self.known(partition).leader < 0:
            node_id = self.anyone()
            topics = sorted({partition[0], *(name for name, _ in self._partitions)})
            told: MetadataResponse | None = yield Ask(
                node_id, metadata_request(topics), self._metadata_version, PATIENCE_MS
            )
            if told is None:
                self._lost(node_id)
            else:
                self._take(told)
        return self.known(partition).leader

    def known(self, partition: TopicPartition) -> Known:
        """Its knowledge of a partition."""
        return self._partitions.get(partition, NOT_KNOWN)

    def answered(self, kind: CoordinatorKind, key: str, node_id: int, error: int | None) -> None:
        """Forget a coordinator that refused, or did not answer."""
        if error is None:
            self._lost(node_id)
        elif error in MOVED and self._coordinators.get((kind, key)) == node_id:
            del self._coordinators[kind, key]

    def led(self, partition: TopicPartition, node_id: int, error: int | None, hint: Hint | None = None) -> None:
        """Ask for the metadata again after a refusal or without an answer, unless the answer names a newer leader."""
        if error is None:
            self._lost(node_id)
        elif error in OUTDATED:
            before = self.known(partition)
            if hint is not None and hint.leader_id >= 0 and hint.leader_epoch > before.epoch:
                self._partitions[partition] = Known(hint.leader_id, hint.leader_epoch, before.topic_id)
                # The metadata request runs beside the retry, and may be answered before or after it.
                self._outdated = self._outdated or self._dice.random() < 0.5
            else:
                self._outdated = True

    def _lost(self, node_id: int) -> None:
        self._brokers = [each for each in self._brokers if each != node_id]
        self._coordinators = {key: each for key, each in self._coordinators.items() if each != node_id}
        self._outdated = True

    def _take(self, told: MetadataResponse) -> None:
        self._brokers = [broker.node_id for broker in told.brokers]
        self._outdated = False
        for each in told.topics:
            self._take_topic(each)

    def _take_topic(self, topic: MetadataResponseTopic) -> None:
        name = topic.name or ""
        if topic.error_code != ErrorCode.NONE:
            self._outdated = True
            self._partitions = {key: known for key, known in self._partitions.items() if key[0] != name}
        for partition in topic.partitions:
            before = self.known((name, partition.partition_index))
            if partition.error_code in OUTDATED:
                self._outdated = True
            if before.topic_id == topic.topic_id and partition.leader_epoch < before.epoch:
                # This broker lags behind the one of the last answer.
                continue
            told = Known(partition.leader_id, partition.leader_epoch, topic.topic_id)
            self._partitions[name, partition.partition_index] = told


def offered(world: World, api_key: ApiKey, version: int) -> int:
    """The version, or the newest one of the brokers if that is lower."""
    apis = world.config.release.apis
    return version if apis is None else min(version, apis[api_key.name][1])


def key_type(kind: CoordinatorKind) -> int:
    """The key type of a kind of coordinator in FindCoordinator."""
    return 1 if kind is CoordinatorKind.TRANSACTION else 0


def find_request(kind: CoordinatorKind, keys: list[str], version: int) -> FindCoordinatorRequest:
    """A FindCoordinator request for these ids; older versions take one id."""
    if version >= BATCHED_SINCE:
        return FindCoordinatorRequest(key_type=key_type(kind), coordinator_keys=keys)
    [key] = keys
    return FindCoordinatorRequest(key=key, key_type=key_type(kind))


def coordinators_told(key: str, response: FindCoordinatorResponse, version: int) -> Iterator[Coordinator]:
    """The coordinator of each id in a response; older versions do not repeat the id, which is `key`."""
    if version >= BATCHED_SINCE:
        yield from response.coordinators
        return
    yield Coordinator(key, response.node_id, response.host, response.port, response.error_code)


def metadata_request(topics: list[str]) -> MetadataRequest:
    """A Metadata request for these topics, without their automatic creation."""
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics], allow_auto_topic_creation=False)
