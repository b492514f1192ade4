"""Which tests are not expected to pass, and why: `expectations.toml`."""

from __future__ import annotations

import enum
import re
import tomllib
from pathlib import Path

from msgspec import Struct
from tests.kafka.results import Outcome, Test

__all__ = ["Expectations", "Kind", "Reason", "Verdict"]

FILE = Path(__file__).with_name("expectations.toml")


class Kind(enum.StrEnum):
    """Why a test need not pass."""

    JVM = "jvm"
    """It looks into the JVM, where there is no broker."""
    ABSENT = "absent"
    """It needs something that Odradek does not have."""
    DIFFERS = "differs"
    """Odradek answers otherwise on purpose."""
    OPEN = "open"
    """A mistake that is known."""
    FLAKY = "flaky"
    """It fails now and then, against Kafka's own brokers too; it may pass."""


NOT_APPLICABLE = frozenset({Kind.JVM, Kind.ABSENT})


class Reason(Struct, frozen=True):
    """A reason, and the words for it."""

    name: str
    kind: Kind
    text: str

    @property
    def not_applicable(self) -> bool:
        """Whether the test says nothing about what Odradek does."""
        return self.kind in NOT_APPLICABLE


class Verdict(enum.StrEnum):
    """What an outcome means."""

    PASSED = "passed"
    FAILED = "failed"
    EXPECTED = "expected"
    """It did not pass, and the file says why."""
    SURPRISE = "surprise"
    """It passed, though the file says that it does not."""


class Expectations:
    """The file: reasons, and the tests of each class that have one."""

    def __init__(self, file: Path = FILE) -> None:
        told = tomllib.loads(file.read_text())
        self.reasons = {name: Reason(name, Kind(it["kind"]), it["text"]) for name, it in told["reasons"].items()}
        self._patterns: list[tuple[str, re.Pattern[str], Reason]] = []
        for class_, listed in told.get("tests", {}).items():
            for reason, patterns in listed.items():
                for pattern in patterns:
                    self._patterns.append((class_, _compiled(pattern), self.reasons[reason]))

    @property
    def classes(self) -> list[str]:
        """The classes of which something is said."""
        return [class_ for class_, _, _ in self._patterns]

    def used(self) -> set[Reason]:
        """The reasons that some test has."""
        return {reason for _, _, reason in self._patterns}

    def reason(self, test: Test) -> Reason | None:
        """Why a test is not expected to pass, if it is not."""
        name = str(test).partition(".")[2]
        for class_, pattern, reason in self._patterns:
            if class_ == test.class_ and pattern.fullmatch(name):
                return reason
        return None

    def verdict(self, test: Test, outcome: Outcome) -> Verdict:
        """What an outcome of Odradek means."""
        reason = self.reason(test)
        if outcome.result in ("passed", "skipped"):
            surprise = outcome.result == "passed" and reason is not None and reason.kind is not Kind.FLAKY
            return Verdict.SURPRISE if surprise else Verdict.PASSED
        return Verdict.FAILED if reason is None else Verdict.EXPECTED


def _compiled(pattern: str) -> re.Pattern[str]:
    """Names have brackets in them, so only the star is special."""
    return re.compile(".*".join(map(re.escape, pattern.split("*"))))
