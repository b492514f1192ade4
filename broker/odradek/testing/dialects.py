"""A transactional producer of any dialect over sockets; the steps themselves are `odradek.dialects.producer`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Self, TypeVar

from odradek.dialects.load import load, producer_class
from odradek.dialects.producer import (
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
)
from odradek.net.client import BlockingClient
from odradek.releases import RELEASES
from odradek.wire.codecs import PLAIN
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from odradek.wire.messages.init_producer_id_response import InitProducerIdResponse

__all__ = [
    "NOBODY",
    "Ask",
    "Pair",
    "Pause",
    "Producer",
    "Refusal",
    "Role",
    "Steps",
    "TransactionalProducer",
    "producer_class",
]

T = TypeVar("T")
METADATA_VERSION = 9
FIND_COORDINATOR_VERSION = 3


class TransactionalProducer:
    """A producer over sockets; `dialect` is a name or a folder, or a release such as "4.4"."""

    def __init__(self, dialect: str | PathLike[str], bootstrap: str, transactional_id: str, **how: Any) -> None:
        name = fspath(dialect)
        self.release = RELEASES[name] if name in RELEASES else load(name)
        kind = Producer if name in RELEASES else producer_class(name)
        self.core = kind(self.release, transactional_id, now=lambda: time.time_ns() // 1_000_000, **how)
        self._bootstrap = bootstrap.split(",")[0]
        self._clients: dict[str, BlockingClient] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def init(self, *, keep: bool = False) -> InitProducerIdResponse:
        """See `Producer.init`."""
        return self._run(self.core.init(keep=keep))

    def begin(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """See `Producer.begin`."""
        self._run(self.core.begin(partitions))

    def send(self, topic: str, index: int, *values: bytes) -> int:
        """See `Producer.send`."""
        return self._run(self.core.send(topic, index, *values))

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """See `Producer.commit_offsets`."""
        self._run(self.core.commit_offsets(group, offsets))

    def commit(self) -> Any:
        """Commit with EndTxn; the response may have more fields in a dialect."""
        return self._run(self.core.end(commit=True))

    def abort(self) -> Any:
        """Abort with EndTxn; the response may have more fields in a dialect."""
        return self._run(self.core.end(commit=False))

    def prepare(self) -> Pair:
        """See `Producer.prepare`."""
        return self.core.prepare()

    def complete(self, prepared: Pair) -> bool:
        """See `Producer.complete`."""
        return self._run(self.core.complete(prepared))

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _run(self, steps: Steps[T]) -> T:
        answer: object = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as stop:
                done: T = stop.value
                return done
            if isinstance(step, Pause):
                time.sleep(step.milliseconds / 1000)
                answer = None
            else:
                answer = self._client(self._address(step)).ask(step.request, step.version)

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
        if ask.role is Role.LEADER:
            assert isinstance(ask.key, tuple)
            topic, index = ask.key
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
            found = first.ask(asked, METADATA_VERSION)
            leader = next(each.leader_id for each in found.topics[0].partitions if each.partition_index == index)
            return next(f"{each.host}:{each.port}" for each in found.brokers if each.node_id == leader)
        kind = 1 if ask.role is Role.TRANSACTIONS else 0
        for _ in range(RETRIES_MAX):
            found = first.ask(FindCoordinatorRequest(key=str(ask.key), key_type=kind), FIND_COORDINATOR_VERSION)
            if found.error_code == ErrorCode.NONE:
                return f"{found.host}:{found.port}"
            time.sleep(RETRY_MS / 1000)
        raise Refusal("FindCoordinator", ErrorCode(found.error_code))
