"""A hub in a thread beside the tests, and what tests ask of it and of its brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, Self, TypeVar

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from odradek.cli.logs import make_logger
from odradek.control.client import HubClient, HubRefused
from odradek.control.hub import Hub
from odradek.control.serving import listen, listening
from odradek.net.client import BlockingClient
from odradek.net.event_loop import loop_options
from odradek.records.record import Record, build_batch
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

__all__ = ["HubBeside", "Till", "refused"]

T = TypeVar("T")


class HubBeside:
    """A hub that listens on a free port of loopback, in a thread of its own."""

    def __init__(self, token: str | None = None) -> None:
        self._token = token
        self._exits = ExitStack()
        self._portal: BlockingPortal

    def __enter__(self) -> Self:
        with ExitStack() as exits:
            where = listening("127.0.0.1:0", self._token)
            self.url = where.url
            self._portal = exits.enter_context(start_blocking_portal(backend_options=loop_options()))
            self.hub = Hub(log=make_logger(level="error"))
            exits.enter_context(self._portal.wrap_async_context_manager(listen(self.hub, where)))
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def until_done(self, act: Callable[[], Awaitable[T]]) -> T:
        """What a coroutine function returns that runs in the event loop of the hub."""
        return self._portal.call(act)

    def within(self, look: Callable[[], T]) -> T:
        """What a function returns in the thread of the hub."""
        return self._portal.call(look)


class Till:
    """A transactional producer of a few raw requests, on one connection to a cluster of one broker."""

    def __init__(self, bootstrap: str, transactional_id: str = "till-1") -> None:
        self.connection = BlockingClient(bootstrap, client_id="till")
        self.id = transactional_id
        init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        begun = self.connection.ask(init, 4)
        assert 0 == begun.error_code, begun
        self.pair = begun.producer_id, begun.producer_epoch
        self._sequence = 0

    def add(self, partition: int = 0) -> int:
        """AddPartitionsToTxn; its error."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.pair[0],
            v3_and_below_producer_epoch=self.pair[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[partition])],
        )
        [topic] = self.connection.ask(request, 3).results_by_topic_v3_and_below
        error: int = topic.results_by_partition[0].partition_error_code
        return error

    def send(self, value: bytes = b"one coffee") -> int:
        """A record to partition 0; the error of the Produce."""
        records = build_batch(
            [Record(timestamp=0, value=value)],
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            base_sequence=self._sequence,
            transactional=True,
        )
        self._sequence += 1
        data = PartitionProduceData(index=0, records=memoryview(records))
        topics = [TopicProduceData(name="t", partition_data=[data])]
        request = ProduceRequest(transactional_id=self.id, acks=-1, timeout_ms=30_000, topic_data=topics)
        error: int = self.connection.ask(request, 11).responses[0].partition_responses[0].error_code
        return error

    def end(self, *, commit: bool = True) -> int:
        """EndTxn; its error."""
        request = EndTxnRequest(
            transactional_id=self.id, producer_id=self.pair[0], producer_epoch=self.pair[1], committed=commit
        )
        error: int = self.connection.ask(request, 3).error_code
        return error

    def close(self) -> None:
        """Hang up."""
        self.connection.close()


def refused(call: Callable[[], object]) -> tuple[int, dict[str, Any]]:
    """The status and the problem that a call is answered with."""
    with pytest.raises(HubRefused) as caught:
        call()
    return caught.value.status, caught.value.problem


def made(hub: HubClient, **body: object) -> tuple[str, str]:
    """A new cluster: its id and its bootstrap."""
    cluster = hub.post("clusters", body=body)
    return cluster["id"], cluster["bootstrap"]
