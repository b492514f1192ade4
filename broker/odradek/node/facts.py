"""Where the facts of a node go: to the event log of a test, and those that matter to an operator to the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from odradek.log.machine import Fact
from odradek.node.loggers import Logger, Loggers

__all__ = ["EventSink", "Facts", "Logger"]

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
        for fact in facts:
            if fact.kind in LOGGED_FACTS:
                self._log.warning(fact.kind, node=self._node_id, **fact.fields)
            elif self._log.tells_facts:
                self._log.debug(fact.kind, node=self._node_id, **fact.fields)
        if self._events is not None:
            self._events.emit(self._node_id, facts)
