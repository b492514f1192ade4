"""What a Python client program supplies, what the command line says, and how a scenario fails."""

import dataclasses
import os
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

__all__ = [
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "Client",
    "Failed",
    "Member",
    "Options",
    "Reader",
    "Record",
    "Security",
    "Transactional",
    "check",
    "security",
    "until",
]

READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"


class Record(NamedTuple):
    partition: int
    offset: int
    key: bytes
    value: bytes


class Reader(Protocol):
    """Reads all partitions of a topic from the beginning, outside any group."""

    def poll(self, seconds: float) -> list[Record]: ...
    def close(self) -> None: ...


class Member(Reader, Protocol):
    """A member of a consumer group that commits only when told to."""

    def assigned(self) -> set[int]: ...
    def commit(self) -> None:
        """Commits what was polled; a commit that comes too late for a rebalance is silently dropped."""

    def seek(self, partition: int, offset: int) -> None: ...


class Transactional(Protocol):
    """A transactional producer whose transactional id has been initialised."""

    def begin(self) -> None: ...
    def send(self, topic: str, partition: int, key: bytes, value: bytes) -> None: ...
    def flush(self) -> None: ...
    def send_offsets(self, topic: str, offsets: dict[int, int], member: Any) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Client(Protocol):
    """What a family supplies. A method that this release lacks raises NotImplementedError."""

    version: str
    consumer_protocol: bool
    """Whether members speak the protocol of KIP-848; read by the families that can."""

    def produce(
        self, topic: str, records: Iterable[tuple[int, bytes, bytes]], *, compression: str, idempotent: bool
    ) -> list[int]:
        """Sends with acks=all; the offsets in the order of the records.

        Idempotent: in several batches per partition, as many in flight as the client allows.
        Otherwise: one request in flight per connection, because no client promises order of more if one is retried.
        """

    def reader(self, topic: str, partitions: int, isolation: str) -> Reader: ...
    def member(self, topic: str, group: str, *, records_max: int = 500) -> Member: ...
    def transactional(self, transactional_id: str, *, timeout_ms: int = 60_000) -> Transactional: ...

    def create_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> None: ...
    def delete_topic(self, topic: str) -> None: ...
    def topics(self) -> set[str]: ...
    def partitions(self, topic: str) -> list[int]:
        """The number of in-sync replicas of each partition that has a leader."""

    def config(self, topic: str, name: str) -> str: ...
    def alter_config(self, topic: str, name: str, value: str) -> None: ...
    def create_partitions(self, topic: str, total: int) -> None: ...
    def start_offset(self, topic: str, partition: int) -> int: ...
    def end_offset(self, topic: str, partition: int, isolation: str = READ_UNCOMMITTED) -> int: ...
    def delete_records(self, topic: str, partition: int, before: int) -> None: ...
    def groups(self) -> set[str]: ...
    def group_offsets(self, group: str, topic: str, partitions: int) -> dict[int, int]:
        """The committed offsets; a partition without one is left out."""

    def commit_outside(self, group: str, topic: str, partition: int, offset: int) -> None: ...
    def delete_group(self, group: str) -> None: ...
    def brokers(self) -> int: ...


@dataclasses.dataclass(frozen=True)
class Options:
    """The one argument style of all client programs."""

    bootstrap: str
    scenario: str
    topic: str = "checked"
    group: str = ""
    transactional_id: str = ""
    compression: str = "none"
    records: int = 1000
    partitions: int = 3
    transactions: int = 20
    timeout: int = 60


class Security(NamedTuple):
    """How a client gets in where the broker asks who it is: SASL_SSL."""

    ca: str
    """The file of the authority's certificate, as PEM."""
    mechanism: str
    username: str
    password: str


def security() -> "Security | None":
    """What the environment says of it; None: nobody is asked."""
    if "CLIENT_SSL_CA" not in os.environ:
        return None
    told = (os.environ[f"CLIENT_SASL_{name}"] for name in ("MECHANISM", "USERNAME", "PASSWORD"))
    return Security(os.environ["CLIENT_SSL_CA"], *told)


class Failed(Exception):
    """The broker did not do as it should."""


def check(holds: object, message: str) -> None:
    if not holds:
        raise Failed(message)


def until(options: Options, what: str, holds: Callable[[], object]) -> None:
    end = time.monotonic() + options.timeout
    while not holds():
        check(time.monotonic() < end, f"timed out waiting for {what}")
        time.sleep(0.02)
