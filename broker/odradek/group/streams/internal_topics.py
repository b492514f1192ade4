"""The topics that a Kafka Streams application needs for itself, made by the coordinator of its group (KIP-1071).

A heartbeat is answered at once, and a failure is told with the next one: errors are kept for a while, and a topic is
not asked for again before that while is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics_request import CreateTopicsRequest
from odradek.wire.messages.create_topics_response import CreateTopicsResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.host import Host
    from odradek.host.peers import Peers
    from odradek.wire.messages.create_topics_request import CreatableTopic

__all__ = ["StreamsTopics"]


CREATE_TOPICS_VERSION = 7
MAX_ERRORS = 1000
"""How many errors are kept; the oldest go first."""


class StreamsTopics:
    """Asks the controller for topics, for each by one request at a time."""

    def __init__(self, node: Host, peers: Peers) -> None:
        self._peers = peers
        self._settings = node.settings
        self._clock = node.clock
        self._kernel = node.kernel
        self._under_way: set[str] = set()
        self._errors: dict[str, tuple[str, int]] = {}
        """By topic, the error, and until when it is kept (ms)."""

    def make(self, topics: Mapping[str, CreatableTopic], keep_ms: int) -> None:
        """Ask for those that are not being made already; keep errors for `keep_ms`."""
        wanted = [topic for name, topic in topics.items() if name not in self._under_way and not self._error_of(name)]
        if wanted:
            self._under_way.update(topic.name for topic in wanted)
            self._kernel.spawn(self._made(wanted, keep_ms))

    def errors(self, names: Iterable[str]) -> dict[str, str]:
        """The errors of those of these topics that could not be made."""
        return {name: error for name in names if (error := self._error_of(name)) is not None}

    def _error_of(self, name: str) -> str | None:
        error, until = self._errors.get(name, (None, 0))
        if error is not None and until <= self._clock.now:
            del self._errors[name]
            return None
        return error

    async def _made(self, topics: Collection[CreatableTopic], keep_ms: int) -> None:
        request = CreateTopicsRequest(topics=list(topics), timeout_ms=self._settings.config.request_timeout_ms)
        try:
            response = await self._peers.call_controller(
                ApiKey.CREATE_TOPICS, request, CREATE_TOPICS_VERSION, CreateTopicsResponse
            )
        finally:
            self._under_way.difference_update(topic.name for topic in topics)
        for result in [] if response is None else response.topics:
            if result.error_code != ErrorCode.NONE:
                error = result.error_message or ErrorCode(result.error_code).name
                self._errors.pop(result.name, None)
                self._errors[result.name] = error, self._clock.now + keep_ms
        while len(self._errors) > MAX_ERRORS:
            del self._errors[next(iter(self._errors))]
