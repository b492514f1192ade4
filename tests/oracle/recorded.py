"""The answers kept in the repository: of the real broker, and of Odradek where they are meant to differ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.oracle.real_kafka import KAFKA_VERSION
from tests.oracle.scenario import Scenario
from tests.oracle.transcript import Entry, merge, parse

__all__ = ["ANSWERS", "KAFKA", "ODRADEK", "answers_path", "recorded", "write"]

ANSWERS = Path(__file__).parent / "answers"
KAFKA, ODRADEK = "kafka", "odradek"
SUFFIXES = {KAFKA: ".txt", ODRADEK: ".odradek.txt"}
HEADERS = {KAFKA: f"Apache Kafka {KAFKA_VERSION}", ODRADEK: "Odradek"}


def answers_path(scenario: Scenario, who: str) -> Path:
    return ANSWERS / scenario.topic / f"{scenario.slug}{SUFFIXES[who]}"


def recorded(scenario: Scenario, who: str) -> dict[int, list[Entry]]:
    """The recorded answers by level."""
    return parse(answers_path(scenario, who).read_text(encoding="utf-8"))


def write(scenario: Scenario, who: str, transcripts: Mapping[int, list[Entry]]) -> None:
    path = answers_path(scenario, who)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(merge(HEADERS[who], transcripts), encoding="utf-8")
