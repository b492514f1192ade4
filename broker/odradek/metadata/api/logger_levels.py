"""BROKER_LOGGER resources: the levels of a broker's own loggers, which are not in the metadata log (KIP-412).

Kafka's `LoggingController` is the reference for the checks, their order and their sentences.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from odradek.config.keys import NODE_ID_BITS, ConfigSource, whole_number
from odradek.host.loggers import LEVELS, ROOT
from odradek.metadata.change import Failure
from odradek.metadata.configs import Operation, Step, malformed
from odradek.metadata.describe import Entry
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.host.host import Host
    from odradek.host.shard import CoordinatorsOf
    from odradek.txn.shard import TransactionShard


__all__ = ["LoggerLevels"]

_VALID_LEVELS = ", ".join(sorted(LEVELS))


class LoggerLevels:
    """The levels of the loggers of one broker."""

    def __init__(self, node: Host, coordinators: CoordinatorsOf[TransactionShard]) -> None:
        self._node_id = node.node_id
        self._loggers = node.log
        self._facts = node.facts
        self._coordinators = coordinators
        self._partitions = node.partitions

    def entries(self, name: str) -> list[Entry] | Failure:
        """The loggers of the broker with this id."""
        if not name:
            return _refused("Broker id must not be empty")
        wanted = whole_number(name, NODE_ID_BITS)
        if wanted is None:
            return _refused(f"Broker id must be an integer, but it is: {name}")
        if wanted != self._node_id:
            return _refused(f"Unexpected broker id, expected {self._node_id} but received {name}")
        source = ConfigSource.DYNAMIC_BROKER_LOGGER
        return [Entry(logger, level, source) for logger, level in sorted(self._loggers.levels().items())]

    def alter(self, name: str, steps: Sequence[Step], *, validate_only: bool) -> Failure | None:
        """Apply every step, or none and return the reason."""
        failure = malformed(steps) or self._misdirected(name) or self._first_invalid(steps)
        if failure is not None or validate_only:
            return failure
        for step in steps:
            if step.operation == Operation.SET:
                self._loggers.set_level(step.name, step.value or "")
            else:
                self._loggers.unset_level(step.name)
        self._listen()
        return None

    def _misdirected(self, name: str) -> Failure | None:
        wanted = whole_number(name, NODE_ID_BITS)
        if wanted is None:
            return _refused(f"Node id must be an integer, but it is: {name}")
        if wanted != self._node_id:
            return _refused(f"Unexpected node id. Expected {self._node_id}, but received {name}")
        return None

    def _first_invalid(self, steps: Sequence[Step]) -> Failure | None:
        names = self._loggers.levels()
        return next(filter(None, (_invalid(step, names) for step in steps)), None)

    def _listen(self) -> None:
        """Create the facts that are logged at the new levels, and stop creating the others."""
        self._facts.listen()
        for shard in self._coordinators.led():
            shard.machine.tells = self._facts.told
        for partition in self._partitions.values():
            if self._facts.told != (partition.facts is not None):
                partition.facts = [] if self._facts.told else None


def _invalid(step: Step, names: Container[str]) -> Failure | None:
    if step.operation not in (Operation.SET, Operation.DELETE):
        known = step.operation in tuple(Operation)
        what = f"{Operation(step.operation).name} operation" if known else f"Unknown operation type {step.operation}"
        return _refused(f"{what} is not allowed for the BROKER_LOGGER resource")
    if step.name not in names:
        return Failure(ErrorCode.INVALID_CONFIG, f"Logger {step.name} does not exist!")
    if step.operation == Operation.DELETE:
        return _refused("Removing the log level of the root logger is not allowed") if step.name == ROOT else None
    if step.value not in LEVELS:
        said = f"Cannot set the log level of {step.name} to {step.value} as it is not a supported log level."
        return Failure(ErrorCode.INVALID_CONFIG, f"{said} Valid log levels are {_VALID_LEVELS}")
    return None


def _refused(message: str) -> Failure:
    return Failure(ErrorCode.INVALID_REQUEST, message)
