"""What a node is given by whoever runs it: where its facts and lines go, and what holds its certificates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from odradek.core.machine import Fact
from odradek.host.loggers import Logger, Loggers

if TYPE_CHECKING:
    from odradek.config.table import Config

__all__ = ["Certificates", "EventSink", "Facts", "Logger"]

LOGGED_FACTS = frozenset(
    {
        "log_segment_dropped",
        "replication_factor_lowered",
        "metadata_fault",
        "group_record_skipped",
        "broker_fenced",
        "log_truncated",
    }
)
"""Facts that an operator should see without an event log."""


class EventSink(Protocol):
    """Takes the facts of a node for the event log."""

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None: ...


class Certificates(Protocol):
    """The certificates of the listeners, which whoever opened them holds; files are read on its side."""

    def complaint(self, config: Config) -> str | None:
        """Why the listeners could not go on with this configuration, in Kafka's words; None if they could."""

    def adopt(self, config: Config) -> None:
        """Go on with this configuration, and with files that have changed."""


class Facts:
    """The facts of one node."""

    def __init__(self, node_id: int, log: Loggers, events: EventSink | None) -> None:
        self._node_id = node_id
        self._log = log
        self._events = events
        self.told = events is not None or log.tells_facts
        """Whether somebody listens to more than an operator; a fact that nobody hears need not be made."""

    def listen(self) -> None:
        """The levels of loggers are others: facts may be heard that were not before, or no longer."""
        self.told = self._events is not None or self._log.tells_facts

    def emit(self, facts: Sequence[Fact]) -> None:
        """Pass facts on."""
        log = self._log
        for fact in facts:
            if fact.kind in LOGGED_FACTS:
                log.warning(fact.kind, node=self._node_id, **fact.fields)
            elif log.tells_facts:
                log.debug(fact.kind, node=self._node_id, **fact.fields)
        if self._events is not None:
            self._events.emit(self._node_id, facts)

    def tell(self, fact: Fact) -> None:
        """Pass one on that comes with every request, and is none of `LOGGED_FACTS`."""
        if self._log.tells_facts:
            self._log.debug(fact.kind, node=self._node_id, **fact.fields)
        if self._events is not None:
            self._events.emit(self._node_id, (fact,))
