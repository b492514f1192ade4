"""What a fault is, where it is planted, and all that are declared; each with the incident that tells of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.pipeline.corpus.edit import (
    Log,
)

__all__ = ["FAULTS", "Fault", "each", "fault", "orders"]

ONE, MANY, THREE, STOPPED = "restarts", "deleted_records", "three_brokers", "java_level_2_clean_stop"
KILLED, LEVEL_1, GROUPS, PLAIN = "java_level_1_killed", "level_0", "groups", "codecs"
HIGH, RECOVERY = "replication-offset-checkpoint", "recovery-point-offset-checkpoint"
START, CLEANED = "log-start-offset-checkpoint", "cleaner-offset-checkpoint"
Plant = Callable[[Path], object]


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    group: str
    name: str
    base: str
    """The recorded situation it is planted into."""
    plant: Plant
    expected: str
    """The incident, or several with `|` of which one tells it; with a leading `~` a problem of severity info."""

    is_missed: bool = False
    """Known not to be told, or not by its name: the table counts it as missed."""

    @property
    def names(self) -> list[str]:
        """The incidents that tell of it."""
        return self.expected.split("|")

    def __str__(self) -> str:
        return f"{self.group}: {self.name}"


FAULTS: list[Fault] = []


def fault(group: str, name: str, base: str, expected: str, *, is_missed: bool = False) -> Callable[[Plant], Plant]:
    """Declare one."""

    def declare(plant: Plant) -> Plant:
        FAULTS.append(Fault(group, name, base, plant, expected, is_missed))
        return plant

    return declare


def each(group: str, base: str, expected: str, plants: dict[str, Plant]) -> None:
    """Declare several."""
    for name, plant in plants.items():
        fault(group, name, base, expected)(plant)


def orders(root: Path, number: int = 0, broker: int = 1) -> Log:
    return Log(root, f"orders-{number}", broker)
