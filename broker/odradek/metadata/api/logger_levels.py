"""BROKER_LOGGER resources: the levels of a broker's own loggers, which no log of metadata holds (KIP-412).

Kafka's `LoggingController` is the reference for the checks, their order and their sentences.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Protocol

from odradek.config.keys import NODE_ID_BITS, ConfigSource, whole_number
from odradek.host.coordinators import HasCoordinators
from odradek.host.loggers import LEVELS, ROOT
from odradek.host.seams import HasFacts, HasLoggers, HasPartitions
from odradek.metadata.change import Failure
from odradek.metadata.configs import Operation, Step, malformed
from odradek.metadata.describe import Entry
from odradek.wire.errors import ErrorCode

__all__ = ["Node", "alter_levels", "logger_entries"]

_VALID_LEVELS = ", ".join(sorted(LEVELS))


class Node(HasCoordinators, HasFacts, HasLoggers, HasPartitions, Protocol):
    """What a change of levels touches of a broker."""

    @property
    def node_id(self) -> int: ...


def logger_entries(node: Node, name: str) -> list[Entry] | Failure:
    """The loggers of the broker with this id."""
    if not name:
        return _refused("Broker id must not be empty")
    wanted = whole_number(name, NODE_ID_BITS)
    if wanted is None:
        return _refused(f"Broker id must be an integer, but it is: {name}")
    if wanted != node.node_id:
        return _refused(f"Unexpected broker id, expected {node.node_id} but received {name}")
    source = ConfigSource.DYNAMIC_BROKER_LOGGER
    return [Entry(logger, level, source) for logger, level in sorted(node.log.levels().items())]


def alter_levels(node: Node, name: str, steps: Sequence[Step], *, validate_only: bool) -> Failure | None:
    """Take every step or none; why not."""
    failure = malformed(steps) or _misdirected(node, name) or _first_invalid(node, steps)
    if failure is not None or validate_only:
        return failure
    for step in steps:
        if step.operation == Operation.SET:
            node.log.set_level(step.name, step.value or "")
        else:
            node.log.unset_level(step.name)
    _listen(node)
    return None


def _misdirected(node: Node, name: str) -> Failure | None:
    wanted = whole_number(name, NODE_ID_BITS)
    if wanted is None:
        return _refused(f"Node id must be an integer, but it is: {name}")
    if wanted != node.node_id:
        return _refused(f"Unexpected node id. Expected {node.node_id}, but received {name}")
    return None


def _first_invalid(node: Node, steps: Sequence[Step]) -> Failure | None:
    names = node.log.levels()
    return next(filter(None, (_invalid(step, names) for step in steps)), None)


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


def _listen(node: Node) -> None:
    """Have facts made that are logged from now on, and no longer those that nobody hears."""
    node.facts.listen()
    for shard in node.coordinators.of_transactions():
        shard.machine.tells = node.facts.told
    for partition in node.partitions.values():
        if node.facts.told != (partition.facts is not None):
            partition.facts = [] if node.facts.told else None


def _refused(message: str) -> Failure:
    return Failure(ErrorCode.INVALID_REQUEST, message)
