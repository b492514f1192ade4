"""The loggers of a broker: Kafka's names for what it logs, and from which level on (BROKER_LOGGER resources, KIP-412).

A name logs what its class is about: lines for an operator, and from DEBUG on facts of the event log (docs/events.md);
of many names there is nothing to log here. A level that was never set is the one that the process logs at.
Levels last as long as the broker, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

__all__ = ["LEVELS", "LOGGERS", "ROOT", "Logger", "Loggers"]

ROOT = "root"
LEVELS: Mapping[str, int] = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Kafka's levels, numbered as those of Python."""
_NAMES = {number: name for name, number in LEVELS.items()}
_DEBUG, _INFO, _WARN, _ERROR = LEVELS["DEBUG"], LEVELS["INFO"], LEVELS["WARN"], LEVELS["ERROR"]

LOGGERS: Mapping[str, tuple[str, ...]] = {
    "kafka.coordinator.transaction.TransactionCoordinator": (
        "fenced",
        "init_producer_id",
        "partitions_added",
        "state_change",
        "transaction_kept",
    ),
    "kafka.network.SocketServer": ("certificate_unmapped", "connection_closed", "unsecured_tokens_accepted"),
    "kafka.request.logger": ("request", "response"),
    "kafka.server.KafkaApis": ("answer_unwritable", "flow_failed", "request_failed", "step_failed"),
    "org.apache.kafka.controller.QuorumController": (
        "broker_fenced",
        "controller_activated",
        "metadata_transaction_aborted",
        "metadata_transaction_began",
        "metadata_transaction_ended",
        "replication_factor_lowered",
    ),
    "org.apache.kafka.coordinator.group.GroupCoordinatorService": ("group_record_skipped", "group_state_change"),
    "org.apache.kafka.image.loader.MetadataLoader": ("feature_changed", "metadata_fault"),
    "org.apache.kafka.server.ClientMetricsManager": ("telemetry_pushed", "telemetry_refused"),
    "org.apache.kafka.server.transaction.AddPartitionsToTxnManager": (
        "parked",
        "resumed",
        "verify_end",
        "verify_start",
    ),
    "org.apache.kafka.storage.internals.log.UnifiedLog": (
        "log_segment_dropped",
        "log_truncated",
        "lso_moved",
        "marker_written",
        "records_refused",
        "transaction_closed",
        "transaction_opened",
    ),
    "state.change.logger": ("leadership_given_up", "leadership_taken"),
}
"""What each of Kafka's loggers logs here: lines and facts by their names. Everything else is the root's."""
_LOGGER_OF = {event: name for name, events in LOGGERS.items() for event in events}


class Logger(Protocol):
    """What the node logs to: structlog's bound logger, or a fake."""

    def debug(self, event: str, **fields: Any) -> Any: ...
    def info(self, event: str, **fields: Any) -> Any: ...
    def warning(self, event: str, **fields: Any) -> Any: ...
    def error(self, event: str, **fields: Any) -> Any: ...


@runtime_checkable
class Leveled(Protocol):
    """A logger that can say from which level on it writes (structlog's can)."""

    def get_effective_level(self) -> int: ...


@runtime_checkable
class Opened(Protocol):
    """A logger that can write more than its own level lets through."""

    def opened(self) -> Logger: ...


class Loggers:
    """The logger of a node, with a level for each of its names."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._set: dict[str, int] = {}
        self.tells_facts = self._level(ROOT) <= _DEBUG
        """Whether facts that are no operator's concern are logged too."""

    def levels(self) -> dict[str, str]:
        """The effective level of each logger."""
        from odradek.host.silent_loggers import SILENT_LOGGERS  # few clients ask for them

        return {name: _NAMES.get(self._level(name), "INFO") for name in (*LOGGERS, *SILENT_LOGGERS, ROOT)}

    def set_level(self, name: str, level: str) -> None:
        """Log from this level on."""
        self._set[name] = LEVELS[level]
        self._look()

    def unset_level(self, name: str) -> None:
        """Log from the root's level on."""
        self._set.pop(name, None)
        self._look()

    def _look(self) -> None:
        self.tells_facts = any(level <= _DEBUG for level in (self._level(ROOT), *self._set.values()))

    def _level(self, name: str) -> int:
        level = self._set.get(name) or self._set.get(ROOT)
        if level is not None:
            return level
        return self._log.get_effective_level() if isinstance(self._log, Leveled) else _INFO

    def _to(self, event: str, level: int) -> Logger | None:
        """Who writes a line, if anybody does."""
        if not self._set:
            return self._log
        name = _LOGGER_OF.get(event, ROOT)
        wanted = self._set.get(name) or self._set.get(ROOT)
        if wanted is None:
            return self._log
        if level < wanted:
            return None
        return self._log.opened() if isinstance(self._log, Opened) else self._log

    # ------------------------------------------------------------------ as a logger

    def debug(self, event: str, **fields: object) -> None:
        """Log at DEBUG."""
        if log := self._to(event, _DEBUG):
            log.debug(event, **fields)

    def info(self, event: str, **fields: object) -> None:
        """Log at INFO."""
        if log := self._to(event, _INFO):
            log.info(event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log at WARN."""
        if log := self._to(event, _WARN):
            log.warning(event, **fields)

    def error(self, event: str, **fields: object) -> None:
        """Log at ERROR."""
        if log := self._to(event, _ERROR):
            log.error(event, **fields)
