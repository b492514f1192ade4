"""What the brokers of a running cluster say: ends of partitions, open producers, transactions under way (KIP-664).

One connection to each broker, kept from look to look; client libraries of Python do not have these requests. A broker
that does not answer is left out for the rest of a look, and named.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec import Struct

from odradek.cli.usage import UsageError
from odradek.wire import registry
from odradek.wire.errors import DecodeError, ErrorCode
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.describe_producers_response import DescribeProducersResponse
from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.messages.describe_transactions_response import DescribeTransactionsResponse
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.fetch_response import FetchResponse
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.list_offsets_response import ListOffsetsResponse
from odradek.wire.messages.list_transactions_request import ListTransactionsRequest
from odradek.wire.messages.list_transactions_response import ListTransactionsResponse
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.messages.metadata_response import MetadataResponse
from odradek.wire.registry import ApiKey
from odradek_pipeline.access.config import PLAINTEXT, ClientConfig
from odradek_pipeline.access.connect import Connector, Entered
from odradek_pipeline.access.login import LoginRefused

__all__ = ["Brokers", "Layout", "OpenProducer", "Partition", "UnderWay"]

CLIENT_ID = "odradek-watch"
TIMEOUT_S = 5.0
FETCH_BYTES = 4 << 20
LATEST, EARLIEST = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
STATES_UNDER_WAY = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")

# Behind these versions topics are named by their ids, or something is asked for that a watch does not need.
_VERSIONS_MAX = {ApiKey.METADATA: 12, ApiKey.LIST_OFFSETS: 9, ApiKey.FETCH: 12}
_NEEDED = (ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS)

Partition = tuple[str, int]
Answer = TypeVar("Answer", bound=Struct)


@dataclass(frozen=True, slots=True)
class OpenProducer:
    """A producer that has a transaction open in a partition, as the partition's leader says."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_timestamp: int

    @property
    def at(self) -> Partition:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def identity(self) -> tuple[Partition, int, int, int]:
        """What makes it this transaction, and no later one of the same producer."""
        return self.at, self.producer_id, self.producer_epoch, self.start_offset


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A transaction that its coordinator has under way; times in milliseconds."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    start_ms: int
    timeout_ms: int
    partitions: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class Layout:
    """Brokers and leaders."""

    cluster_id: str
    addresses: Mapping[int, str]
    leaders: Mapping[Partition, tuple[int, int]]
    """Leader and its epoch; -1 where there is none."""

    def led_by(self, partitions: Iterable[Partition]) -> dict[int, list[Partition]]:
        """The partitions by their leader; those without one are left out."""
        found: dict[int, list[Partition]] = {}
        for at in partitions:
            leader, _ = self.leaders.get(at, (-1, -1))
            if leader >= 0:
                found.setdefault(leader, []).append(at)
        return found

    def of_topic(self, topic: str) -> dict[Partition, tuple[int, int]]:
        """Leaders of one topic."""
        return {at: leader for at, leader in self.leaders.items() if at[0] == topic}


class Gone(Exception):
    """A broker does not answer in this look."""


_REFUSALS = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
"""What does not go away by itself: somebody has to give a right."""


@dataclass(slots=True)
class Connection:
    """One broker: its client, and the versions that both sides know."""

    entered: Entered
    versions: Mapping[int, tuple[int, int]]
    is_used: bool = False
    """Whether anything but versions has been answered."""


@dataclass(slots=True)
class Brokers:
    """The brokers of a cluster; `begin` opens a look, everything else belongs to it."""

    bootstrap: str
    timeout_s: float = TIMEOUT_S
    config: ClientConfig = PLAINTEXT
    away: dict[str, str] = field(default_factory=dict)
    """Brokers that have not answered in this look, by address, and why."""
    refused: dict[str, str] = field(default_factory=dict)
    """What could not be asked in this look for want of a right, and the error."""
    layout: Layout = field(default_factory=lambda: Layout("", {}, {}))
    _connector: Connector = field(init=False)
    _connections: dict[str, Connection] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._connector = Connector(CLIENT_ID, self.timeout_s, self.config)

    def close(self) -> None:
        """Hang up on all."""
        for address in list(self._connections):
            self._drop(address)

    def begin(self) -> bool:
        """Ask for brokers and leaders anew; False where nobody answers."""
        self.away, self.refused = {}, {}
        return self.refresh()

    def refresh(self) -> bool:
        """Brokers and leaders as they are now."""
        said = self.ask_any(MetadataRequest(None, False), ApiKey.METADATA, MetadataResponse)
        if said is None:
            return False
        self.layout = _layout(said)
        return True

    def ask_any(self, request: Struct, api: ApiKey, answer: type[Answer]) -> Answer | None:
        """What the first broker says that answers; None where none does."""
        known = [*self.layout.addresses.values(), *(one.strip() for one in self.bootstrap.split(","))]
        for address in dict.fromkeys(known):
            with contextlib.suppress(Gone):
                return self._ask(address, request, api, answer)
        return None

    # ------------------------------------------------------------------ partitions

    def ends(self, isolation: int, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The high watermark of each partition, or its last stable offset; those that nobody tells are left out."""
        return self._offsets(LATEST, isolation, partitions)

    def starts(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The first offset of each partition."""
        return self._offsets(EARLIEST, READ_UNCOMMITTED, partitions)

    def _offsets(self, time: int, isolation: int, partitions: Iterable[Partition]) -> dict[Partition, int]:
        found: dict[Partition, int] = {}
        for leader, led in self.layout.led_by(partitions).items():
            topics = [
                ListOffsetsTopic(name, [ListOffsetsPartition(number, -1, time) for number in numbers])
                for name, numbers in _by_topic(led)
            ]
            request = ListOffsetsRequest(-1, isolation, topics)
            with contextlib.suppress(Gone):
                said = self._ask(self._address(leader), request, ApiKey.LIST_OFFSETS, ListOffsetsResponse)
                for topic in said.topics:
                    for one in topic.partitions:
                        if one.error_code == ErrorCode.NONE:
                            found[topic.name, one.partition_index] = one.offset
                        self._note(f"topic {topic.name}", one.error_code)
        return found

    def producers(self, partitions: Iterable[Partition]) -> tuple[list[OpenProducer], set[Partition]]:
        """Who has a transaction open in these partitions, and of which of them that is known."""
        opened: list[OpenProducer] = []
        told: set[Partition] = set()
        for leader, led in self.layout.led_by(partitions).items():
            request = DescribeProducersRequest([TopicRequest(name, numbers) for name, numbers in _by_topic(led)])
            with contextlib.suppress(Gone):
                said = self._ask(self._address(leader), request, ApiKey.DESCRIBE_PRODUCERS, DescribeProducersResponse)
                for topic in said.topics:
                    for one in topic.partitions:
                        if one.error_code != ErrorCode.NONE:
                            self._note(f"topic {topic.name}", one.error_code)
                            continue
                        told.add((topic.name, one.partition_index))
                        opened += [
                            OpenProducer(
                                topic.name,
                                one.partition_index,
                                producer.producer_id,
                                producer.producer_epoch,
                                producer.current_txn_start_offset,
                                producer.last_timestamp,
                            )
                            for producer in one.active_producers
                            if producer.current_txn_start_offset >= 0
                        ]
        return opened, told

    def records(self, offsets: Mapping[Partition, int]) -> dict[Partition, tuple[bytes, int]]:
        """Batches of each partition from its offset on, and its high watermark; those that nobody tells are left out.

        An offset that its leader does not have is told as a high watermark of -1.
        """
        found: dict[Partition, tuple[bytes, int]] = {}
        for leader, led in self.layout.led_by(offsets).items():
            topics = [
                FetchTopic(name, partitions=[_wanted(number, offsets[name, number]) for number in numbers])
                for name, numbers in _by_topic(led)
            ]
            request = FetchRequest(max_bytes=FETCH_BYTES, min_bytes=0, topics=topics)
            with contextlib.suppress(Gone):
                said = self._ask(self._address(leader), request, ApiKey.FETCH, FetchResponse)
                for topic in said.responses:
                    for one in topic.partitions:
                        if one.error_code == ErrorCode.NONE:
                            found[topic.topic, one.partition_index] = bytes(one.records or b""), one.high_watermark
                        elif one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                            found[topic.topic, one.partition_index] = b"", -1
                        else:
                            self._note(f"topic {topic.topic}", one.error_code)
        return found

    # ------------------------------------------------------------------ coordinators

    def under_way(self) -> tuple[list[UnderWay], str]:
        """The transactions that any coordinator has under way, and why there may be more; empty where there are none.

        Every broker is asked, since each lists what it coordinates.
        """
        found: list[UnderWay] = []
        doubts = ""
        for address in self.layout.addresses.values():
            request = ListTransactionsRequest(list(STATES_UNDER_WAY))
            try:
                said = self._ask(address, request, ApiKey.LIST_TRANSACTIONS, ListTransactionsResponse)
                if said.error_code != ErrorCode.NONE:
                    doubts = f"{address} answers {ErrorCode(said.error_code).name}"
                    continue
                names = [one.transactional_id for one in said.transaction_states]
                described, doubt = self.describe(address, names)
                found += described
                doubts = doubts or doubt
            except Gone:
                doubts = f"{address} does not answer"
        return found, doubts

    def describe(self, address: str, names: list[str]) -> tuple[list[UnderWay], str]:
        """What the coordinator at this address says of these transactional ids, if they are under way; and doubts."""
        if not names:
            return [], ""
        request = DescribeTransactionsRequest(names)
        said = self._ask(address, request, ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsResponse)
        found: list[UnderWay] = []
        doubt = ""
        for one in said.transaction_states:
            if one.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                continue  # it has expired since it was listed
            if one.error_code != ErrorCode.NONE:
                self._note(f"transactional id {one.transactional_id}", one.error_code)
                doubt = f"{address} answers {ErrorCode(one.error_code).name} for {one.transactional_id}"
                continue
            if one.transaction_state in STATES_UNDER_WAY:
                partitions = frozenset((topic.topic, number) for topic in one.topics for number in topic.partitions)
                found.append(
                    UnderWay(
                        one.transactional_id,
                        one.producer_id,
                        one.producer_epoch,
                        one.transaction_state,
                        one.transaction_start_time_ms,
                        one.transaction_timeout_ms,
                        partitions,
                    )
                )
        return found, doubt

    def described(self, leader: int, name: str) -> tuple[list[UnderWay], str]:
        """The same of one transactional id, at the leader of its partition of the coordinators' log."""
        try:
            return self.describe(self._address(leader), [name])
        except Gone:
            return [], f"broker {leader} does not answer"

    # ------------------------------------------------------------------ connections

    def _address(self, node_id: int) -> str:
        address = self.layout.addresses.get(node_id)
        if address is None:
            raise Gone
        return address

    def _ask(self, address: str, request: Struct, api: ApiKey, answer: type[Answer]) -> Answer:
        """One answer; raises Gone where there is none, and for the rest of the look."""
        if address in self.away:
            raise Gone
        before = self._connections.get(address)
        if before is not None:
            try:
                return self._asked(before, address, request, api, answer)
            except (OSError, ValueError, DecodeError) as error:
                self._drop(address)
                if isinstance(error, TimeoutError):
                    self.away[address] = self._why(error, before)
                    raise Gone from error
            # A broker hangs up on who is idle for long, or whose login has ended; it is there all the same.
        connection: Connection | None = None
        try:
            connection = self._connection(address)
            return self._asked(connection, address, request, api, answer)
        except (OSError, ValueError, DecodeError) as error:
            self._drop(address)
            self.away[address] = self._why(error, connection)
            raise Gone from error

    def _asked(
        self, connection: Connection, address: str, request: Struct, api: ApiKey, answer: type[Answer]
    ) -> Answer:
        if connection.entered.is_over:
            raise ConnectionError
        said = connection.entered.client.ask(request, self._version(address, connection, api))
        connection.is_used = True
        assert isinstance(said, answer)
        return said

    def _why(self, error: Exception, connection: Connection | None) -> str:
        """Why a broker does not answer; one that hangs up on a newcomer may want another way in."""
        if isinstance(error, ConnectionError) and not isinstance(error, LoginRefused) and error.errno is None:
            is_new = connection is None or not connection.is_used
            if is_new and self.config.protocol != "SASL_SSL" and "hang" not in str(error):
                return f"{error} (security.protocol is {self.config.protocol}: --command-config)"
        return getattr(error, "strerror", None) or str(error) or type(error).__name__

    def _note(self, what: str, code: int) -> None:
        if code in _REFUSALS:
            self.refused[what] = ErrorCode(code).name

    def _connection(self, address: str) -> Connection:
        found = self._connections.get(address)
        if found is None:
            entered = self._connector.enter(address)
            try:
                said = entered.client.ask(ApiVersionsRequest(), 0)
            except BaseException:
                entered.client.close()
                raise
            versions = {one.api_key: (one.min_version, one.max_version) for one in said.api_keys}
            found = self._connections[address] = Connection(entered, versions)
        return found

    def _version(self, address: str, connection: Connection, api: ApiKey) -> int:
        lowest, newest = connection.versions.get(api, (0, -1))
        version = min(newest, _VERSIONS_MAX.get(api, registry.newest_version(api)))
        if version < lowest:
            since = " (Apache Kafka has it since 3.0)" if api in _NEEDED else ""
            raise UsageError(f"The broker at {address} does not know {api.name}{since}: it cannot be watched.")
        return version

    def _drop(self, address: str) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.entered.client.close()


def _layout(said: MetadataResponse) -> Layout:
    addresses = {one.node_id: f"{_bracketed(one.host)}:{one.port}" for one in said.brokers}
    leaders = {
        (topic.name, one.partition_index): (one.leader_id, one.leader_epoch)
        for topic in said.topics
        if topic.name is not None and topic.error_code == ErrorCode.NONE
        for one in topic.partitions
    }
    return Layout(said.cluster_id or "", addresses, leaders)


def _wanted(partition: int, offset: int) -> FetchPartition:
    return FetchPartition(partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _by_topic(partitions: Iterable[Partition]) -> Iterator[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    yield from found.items()
