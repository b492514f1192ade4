"""The topics that a Kafka Streams application needs for itself, made by the coordinator of its group (KIP-1071).

Whoever asks is answered at once, and hears of a failure with the next heartbeat: errors are kept for a while, and a
topic is not asked for again before that while is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from odradek.host.peers import HasPeers
from odradek.host.seams import HasClock, HasConfig, HasKernel
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics_request import CreateTopicsRequest
from odradek.wire.messages.create_topics_response import CreateTopicsResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.wire.messages.create_topics_request import CreatableTopic

__all__ = ["HasStreamsTopics", "StreamsTopics"]


class HasStreamsTopics(Protocol):
    """Topics that are made for Kafka Streams applications."""

    @property
    def streams_topics(self) -> StreamsTopics: ...


class Node(HasClock, HasConfig, HasKernel, HasPeers, Protocol):
    """What making these topics touches of the broker."""


CREATE_TOPICS_VERSION = 7
MAX_ERRORS = 1000
"""So many errors are kept; the oldest go first."""


class StreamsTopics:
    """Has topics made, each by one request at a time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._under_way: set[str] = set()
        self._errors: dict[str, tuple[str, int]] = {}
        """By topic, why it could not be made, and until when that holds (ms)."""

    def make(self, topics: Mapping[str, CreatableTopic], keep_ms: int) -> None:
        """Have those made that nobody is making; errors are kept for so long."""
        wanted = [topic for name, topic in topics.items() if name not in self._under_way and not self._error_of(name)]
        if wanted:
            self._under_way.update(topic.name for topic in wanted)
            self._node.kernel.spawn(self._made(wanted, keep_ms))

    def errors(self, names: Iterable[str]) -> dict[str, str]:
        """Why those of these topics that could not be made could not."""
        return {name: error for name in names if (error := self._error_of(name)) is not None}

    def _error_of(self, name: str) -> str | None:
        error, until = self._errors.get(name, (None, 0))
        if error is not None and until <= self._node.now:
            del self._errors[name]
            return None
        return error

    async def _made(self, topics: Collection[CreatableTopic], keep_ms: int) -> None:
        node = self._node
        request = CreateTopicsRequest(topics=list(topics), timeout_ms=node.config.request_timeout_ms)
        try:
            response = await node.peers.call_controller(
                ApiKey.CREATE_TOPICS, request, CREATE_TOPICS_VERSION, CreateTopicsResponse
            )
        finally:
            self._under_way.difference_update(topic.name for topic in topics)
        for result in [] if response is None else response.topics:
            if result.error_code != ErrorCode.NONE:
                error = result.error_message or ErrorCode(result.error_code).name
                self._errors.pop(result.name, None)
                self._errors[result.name] = error, node.now + keep_ms
        while len(self._errors) > MAX_ERRORS:
            del self._errors[next(iter(self._errors))]
