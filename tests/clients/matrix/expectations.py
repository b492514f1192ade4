"""What is not expected to pass, and why: what a client lacks, and where it fails against a real broker as well."""

from __future__ import annotations

import dataclasses
import fnmatch
import tomllib
from pathlib import Path

from tests.clients.matrix.plan import BROKERS, CLIENTS, OWN, Cell

__all__ = ["Expectations", "Failure", "Lacking", "families_that_play"]

FILE = Path(__file__).with_name("expectations.toml")
EVERY = ("*",)


@dataclasses.dataclass(frozen=True)
class Lacking:
    """Scenarios for which a client has no means."""

    family: str
    reason: str
    scenarios: tuple[str, ...]
    versions: tuple[str, ...] = EVERY
    brokers: tuple[str, ...] = EVERY

    def covers(self, cell: Cell) -> bool:
        """Whether it is about this cell."""
        return (
            cell.client.family == self.family
            and _any(cell.client.version, self.versions)
            and _any(cell.broker.name, self.brokers)
            and _any(cell.scenario, self.scenarios)
        )


@dataclasses.dataclass(frozen=True)
class Failure(Lacking):
    """Scenarios in which a client fails, and the evidence that it does so against a real broker too."""

    evidence: str = ""


class Expectations:
    """The two lists, as they stand in the file."""

    def __init__(self, file: Path = FILE) -> None:
        told = tomllib.loads(file.read_text())
        self.lacking = [Lacking(**_tuples(entry)) for entry in told.get("lacking", [])]
        self.failures = [Failure(**_tuples(entry)) for entry in told.get("failure", [])]
        for failure in self.failures:
            assert failure.evidence, f"a known failure of {failure.family} has no evidence"

    def lacks(self, cell: Cell) -> Lacking | None:
        """Why the client cannot play the scenario, if it cannot."""
        return next((entry for entry in self.lacking if entry.covers(cell)), None)

    def fails(self, cell: Cell) -> Failure | None:
        """The known failure that covers the cell, if there is one."""
        return next((entry for entry in self.failures if entry.covers(cell)), None)


def families_that_play(scenario: str) -> list[str]:
    """The families whose newest release has the means for a scenario; they have no scenarios of their own."""
    expectations = Expectations()
    newest = [client for client in CLIENTS if client.newest and client.family not in OWN]
    return [client.family for client in newest if expectations.lacks(Cell(client, BROKERS[0], scenario)) is None]


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _tuples(entry: dict[str, object]) -> dict[str, object]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
