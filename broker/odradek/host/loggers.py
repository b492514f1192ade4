"""The loggers of a broker and their levels, under Kafka's names (BROKER_LOGGER resources, KIP-412).

A name logs the subject of its class: lines for an operator, and from DEBUG on facts of the event log (docs/events.md);
many
names have nothing to log here. The default level is that of the process. Levels last as long as the broker, as in
Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

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
"""The lines and facts of each of Kafka's loggers, by name. All others are the root's."""
_LOGGER_OF = {event: name for name, events in LOGGERS.items() for event in events}


class Logger(Protocol):
    """The node's log: structlog's bound logger, or a fake.

    A Protocol: structlog makes its classes at run time, and a command has its own (`cli/logs.py`).
    """

    def debug(self, event: str, **fields: object) -> object: ...
    def info(self, event: str, **fields: object) -> object: ...
    def warning(self, event: str, **fields: object) -> object: ...
    def error(self, event: str, **fields: object) -> object: ...


@runtime_checkable
class Leveled(Protocol):
    """A logger that knows its level (structlog's do).

    A Protocol: loggers of structlog and that of a command have no base in common.
    """

    def get_effective_level(self) -> int: ...


@runtime_checkable
class Opened(Protocol):
    """A logger that can write below its own level.

    A Protocol: the logger of a command is above, in `cli/logs.py`.
    """

    def opened(self) -> Logger: ...


class Loggers:
    """The logger of a node, with a level for each of its names."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._set: dict[str, int] = {}
        self.tells_facts = self._level(ROOT) <= _DEBUG
        """Whether facts that do not concern an operator are logged too."""

    def levels(self) -> dict[str, str]:
        """The effective level of each logger."""
        from odradek.host.silent_loggers import SILENT_LOGGERS  # few clients ask for them

        return {name: _NAMES.get(self._level(name), "INFO") for name in (*LOGGERS, *SILENT_LOGGERS, ROOT)}

    def set_level(self, name: str, level: str) -> None:
        """Set the level of a logger."""
        self._set[name] = LEVELS[level]
        self._look()

    def unset_level(self, name: str) -> None:
        """Return to the root's level."""
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
        """The logger for a line; None if its level is too low."""
        if not self._set:
            return self._log
        name = _LOGGER_OF.get(event, ROOT)
        wanted = self._set.get(name) or self._set.get(ROOT)
        if wanted is None:
            return self._log
        if level < wanted:
            return None
        return self._log.opened() if isinstance(self._log, Opened) else self._log

    def debug(self, event: str, **fields: object) -> None:
        if log := self._to(event, _DEBUG):
            log.debug(event, **fields)

    def info(self, event: str, **fields: object) -> None:
        if log := self._to(event, _INFO):
            log.info(event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        if log := self._to(event, _WARN):
            log.warning(event, **fields)

    def error(self, event: str, **fields: object) -> None:
        if log := self._to(event, _ERROR):
            log.error(event, **fields)
