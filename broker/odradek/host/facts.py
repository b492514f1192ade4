"""Interfaces that the driver gives a node: the event log, and the certificates of its listeners."""

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
        "dead_letters_lost",
    }
)
"""Facts that an operator should see without an event log."""


class EventSink(Protocol):
    """Takes the facts of a node for the event log.

    A Protocol: files, the hub and the simulator take facts, and are above.
    """

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None: ...


class Certificates(Protocol):
    """The certificates of the listeners, on the driver's side, which reads their files.

    A Protocol: the driver that reads files is above.
    """

    def complaint(self, config: Config) -> str | None:
        """Why the listeners cannot use this configuration, in Kafka's words; None if they can."""

    def adopt(self, config: Config) -> None:
        """Use this configuration, and read changed files."""


class Facts:
    def __init__(self, node_id: int, log: Loggers, events: EventSink | None) -> None:
        self._node_id = node_id
        self._log = log
        self._events = events
        self.told = events is not None or log.tells_facts
        """Whether facts have any reader besides the operator; otherwise they need not be made."""

    def listen(self) -> None:
        """Adopt changed levels of loggers."""
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
        """Emit a fact that comes with every request, and is not one of `LOGGED_FACTS`."""
        if self._log.tells_facts:
            self._log.debug(fact.kind, node=self._node_id, **fact.fields)
        if self._events is not None:
            self._events.emit(self._node_id, (fact,))
