"""What came of each test, as a file for machines: docs/kafka-tests.json, one line for each test."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from tests.kafka.plan import CLASSES

__all__ = ["FILE", "ROOT", "Event", "Outcome", "Results", "Test"]

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "kafka-tests.json"
ERROR_MAX = 300


class Event(Struct, rename={"class_": "class"}):
    """A line of the JVM."""

    event: str
    id: str
    display: str
    class_: str = ""
    method: str = ""
    result: str = ""
    seconds: float = 0.0
    message: str | None = None
    trace: str | None = None
    out_of_reach: str | None = None


class Test(Struct, frozen=True, order=True):
    """One invocation of one method. `parameters` tell it from the others of the method."""

    __test__ = False  # not one of pytest's

    class_: str
    method: str
    parameters: str = ""

    def __str__(self) -> str:
        return f"{self.class_.rpartition('.')[2]}.{self.method}{f'[{self.parameters}]' if self.parameters else ''}"

    @classmethod
    def of(cls, event: Event) -> Test:
        """The test that an event is about."""
        number = re.search(r"\[test-template-invocation:(#\d+)\]$", event.id)
        parameters = f"{number[1]} {_parameters(event.display)}".strip() if number else ""
        return cls(event.class_, event.method or "(class)", parameters)


class Outcome(Struct):
    """What came of a test: passed, failed, skipped (the test itself does not want to be played) or hung."""

    result: str
    seconds: float = 0.0
    error: str = ""
    out_of_reach: str = ""

    @classmethod
    def of(cls, event: Event) -> Outcome:
        """What the end of a test says."""
        results = {"successful": "passed", "aborted": "skipped", "failed": "failed"}
        error = " ".join((event.message or "").split())[:ERROR_MAX]
        # A test that caught it goes on to fail for a reason that follows from it.
        return cls(results[event.result], round(event.seconds, 1), error, event.out_of_reach or "")


class Row(Struct, omit_defaults=True):
    """A test as the file has it: against Odradek, and against the brokers that came with it."""

    test: Test
    odradek: Outcome | None = None
    kafka: Outcome | None = None


class Results:
    """Outcomes by test; a run replaces those of the classes that it has played."""

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._put: set[tuple[str, str]] = set()
        self.rows: dict[Test, Row] = _read(file)

    def put(
        self, class_: str, outcomes: Mapping[Test, Outcome], *, real: bool, left_out: Collection[Test] = ()
    ) -> None:
        """Note what came of all tests of a class; what was left out stays as it was."""
        side = "kafka" if real else "odradek"
        self._put.add((class_, side))
        for row in self.of(class_):
            if row.test not in left_out or row.test in outcomes:
                setattr(row, side, None)
        for test, outcome in outcomes.items():
            setattr(self.rows.setdefault(test, Row(test)), side, outcome)
        self.rows = {test: row for test, row in self.rows.items() if row.odradek or row.kafka}

    def of(self, class_: str) -> list[Row]:
        """The tests of a class, in order."""
        return sorted((row for row in self.rows.values() if row.test.class_ == class_), key=lambda row: row.test)

    def write(self) -> None:
        """Write the file: what is still in the plan, in its order. What another run has written meanwhile stays."""
        with self._file.open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._take_up(_read(self._file))
            lines = [msgspec.json.encode(row).decode() for class_ in CLASSES for row in self.of(class_)]
            self._file.write_text('{"tests": [\n' + ",\n".join(lines) + "\n]}\n")

    def _take_up(self, written: Mapping[Test, Row]) -> None:
        """Have what the file says of the classes that were not put here."""
        for test in {**self.rows, **written}:
            ours, theirs = self.rows.setdefault(test, Row(test)), written.get(test, Row(test))
            for side in ("odradek", "kafka"):
                if (test.class_, side) not in self._put:
                    setattr(ours, side, getattr(theirs, side))
        self.rows = {test: row for test, row in self.rows.items() if row.odradek or row.kafka}


def _read(file: Path) -> dict[Test, Row]:
    if not file.exists() or not file.stat().st_size:
        return {}
    return {row.test: row for row in msgspec.json.decode(file.read_bytes(), type=dict[str, list[Row]])["tests"]}


def _parameters(display: str) -> str:
    """What the display name of an invocation says beside its method; it has two forms."""
    display = re.sub(r"\d{10,}", "…", display)  # a time
    if found := re.search(r"\.([a-zA-Z]\w*=.*?)\"?$", display):
        return found[1].replace('"', "")
    if found := re.search(r"Type=Raft-(\w+)", display):
        return found[1]
    return re.sub(r"^\[\d+\] ", "", display)[:60]
