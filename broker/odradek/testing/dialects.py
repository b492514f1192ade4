"""A transactional producer of any dialect over sockets, and a share consumer whose acknowledgements it can send.

`odradek.releases.dialects.producer` and `odradek.releases.dialects.share_consumer` have their steps.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import uuid4

from odradek.net.client import BlockingClient
from odradek.releases.dialects.kip_1289.producer import SharingProducer
from odradek.releases.dialects.load import load, producer_class
from odradek.releases.dialects.producer import (
    NOBODY,
    RETRIES_MAX,
    RETRY_MS,
    Ask,
    Pair,
    Pause,
    Producer,
    Refusal,
    Role,
    Steps,
    TopicPartition,
    run_at_once,
)
from odradek.releases.dialects.share_consumer import (
    ACCEPT,
    REJECT,
    RELEASE,
    Acknowledgements,
    GroupMetadata,
    ShareConsumer,
    SharedRecord,
)
from odradek.releases.table import RELEASES
from odradek.wire.codecs import PLAIN
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from odradek.wire.messages.init_producer_id_response import InitProducerIdResponse

__all__ = [
    "ACCEPT",
    "NOBODY",
    "REJECT",
    "RELEASE",
    "Ask",
    "GroupMetadata",
    "Pair",
    "Pause",
    "Producer",
    "Refusal",
    "Role",
    "ShareConsumer",
    "SharedRecord",
    "Steps",
    "TransactionalProducer",
    "TransactionalShareConsumer",
    "producer_class",
]

T = TypeVar("T")
METADATA_VERSION = 9
FIND_COORDINATOR_VERSION = 3


class _OverSockets:
    """Runs the steps of a client; `dialect` is a name or a folder, or a release such as "4.4"."""

    def __init__(self, dialect: str | PathLike[str], bootstrap: str) -> None:
        name = fspath(dialect)
        self.release = RELEASES[name] if name in RELEASES else load(name)
        self._bootstrap = bootstrap.split(",")[0]
        self._clients: dict[str, BlockingClient] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _run(self, steps: Steps[T]) -> T:
        return run_at_once(self._serve, steps)

    def _serve(self, step: Ask | Pause) -> object:
        if isinstance(step, Pause):
            time.sleep(step.milliseconds / 1000)
            return None
        return self._client(self._address(step)).ask(step.request, step.version)

    def _client(self, address: str) -> BlockingClient:
        if address not in self._clients:
            self._clients[address] = BlockingClient(
                address, client_id="odradek-dialect", codecs=self.release.codecs or PLAIN
            )
        return self._clients[address]

    def _address(self, ask: Ask) -> str:
        if ask.role is Role.ANYBODY:
            return self._bootstrap
        first = self._client(self._bootstrap)
        if ask.role is Role.BROKER:
            brokers = first.ask(MetadataRequest(topics=[]), METADATA_VERSION).brokers
            return next(f"{each.host}:{each.port}" for each in brokers if str(each.node_id) == ask.key)
        if ask.role is Role.LEADER:
            assert isinstance(ask.key, tuple)
            topic, index = ask.key
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
            told = first.ask(asked, METADATA_VERSION)
            leader = next(each.leader_id for each in told.topics[0].partitions if each.partition_index == index)
            return next(f"{each.host}:{each.port}" for each in told.brokers if each.node_id == leader)
        kind = 1 if ask.role is Role.TRANSACTIONS else 0
        for _ in range(RETRIES_MAX):
            found = first.ask(FindCoordinatorRequest(key=str(ask.key), key_type=kind), FIND_COORDINATOR_VERSION)
            if found.error_code == ErrorCode.NONE:
                return f"{found.host}:{found.port}"
            time.sleep(RETRY_MS / 1000)
        raise Refusal("FindCoordinator", ErrorCode(found.error_code))


class TransactionalProducer(_OverSockets):
    """A producer over sockets; `dialect` is a name or a folder, or a release such as "4.4"."""

    def __init__(self, dialect: str | PathLike[str], bootstrap: str, transactional_id: str, **how: Any) -> None:
        super().__init__(dialect, bootstrap)
        name = fspath(dialect)
        kind = Producer if name in RELEASES else producer_class(name)
        self.core = kind(self.release, transactional_id, now=lambda: time.time_ns() // 1_000_000, **how)

    def init(self, *, keep: bool = False) -> InitProducerIdResponse:
        return self._run(self.core.init(keep=keep))

    def begin(self, partitions: Iterable[TopicPartition] = ()) -> None:
        self._run(self.core.begin(partitions))

    def send(self, topic: str, index: int, *values: bytes) -> int:
        return self._run(self.core.send(topic, index, *values))

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._run(self.core.commit_offsets(group, offsets))

    def acknowledge(self, said: Acknowledgements, member: GroupMetadata) -> None:
        """KIP-1289's `sendShareAcknowledgementsToTransaction`; only a producer of that dialect has it."""
        assert isinstance(self.core, SharingProducer), "the dialect has no acknowledgements in transactions"
        self._run(self.core.acknowledge(said, member))

    def commit(self) -> Any:
        """Commit with EndTxn; the response may have more fields in a dialect."""
        return self._run(self.core.end(commit=True))

    def abort(self) -> Any:
        """Abort with EndTxn; the response may have more fields in a dialect."""
        return self._run(self.core.end(commit=False))

    def prepare(self) -> Pair:
        return self.core.prepare()

    def complete(self, prepared: Pair) -> bool:
        return self._run(self.core.complete(prepared))


class TransactionalShareConsumer(_OverSockets):
    """A member of a share group over sockets, whose acknowledgements a producer may send with its transaction."""

    def __init__(
        self,
        dialect: str | PathLike[str],
        bootstrap: str,
        group_id: str,
        topics: Sequence[str],
        *,
        records_max: int = 500,
    ) -> None:
        super().__init__(dialect, bootstrap)
        self.core = ShareConsumer(group_id, topics, str(uuid4()), records_max=records_max)

    @property
    def metadata(self) -> GroupMetadata:
        """See `ShareConsumer.metadata`."""
        return self.core.metadata

    def join(self) -> None:
        """See `ShareConsumer.join`."""
        self._run(self.core.join())

    def heartbeat(self) -> None:
        """See `ShareConsumer.heartbeat`."""
        self._run(self.core.heartbeat())

    def poll(self, wait_ms: int = 500) -> list[SharedRecord]:
        """See `ShareConsumer.poll`."""
        return self._run(self.core.poll(wait_ms))

    def acknowledge(self, record: SharedRecord, kind: int = ACCEPT) -> None:
        """See `ShareConsumer.acknowledge`."""
        self.core.acknowledge(record, kind)

    def for_transaction(self) -> Acknowledgements:
        """See `ShareConsumer.for_transaction`."""
        return self.core.for_transaction()

    def commit(self) -> Mapping[TopicPartition, ErrorCode]:
        """See `ShareConsumer.commit`."""
        return self._run(self.core.commit())

    def leave(self) -> None:
        """See `ShareConsumer.leave`."""
        self._run(self.core.leave())
