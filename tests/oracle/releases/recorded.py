"""The answers of older releases that are kept in the repository: one file for each scenario, with all releases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.oracle.releases.columns import Column, merge, parse
from tests.oracle.scenario import Scenario
from tests.oracle.transcript import Entry

__all__ = ["ANSWERS", "KAFKA", "ODRADEK", "answers_path", "recorded", "write"]

ANSWERS = Path(__file__).parent / "answers"
KAFKA, ODRADEK = "Apache Kafka", "Odradek as"
SUFFIXES = {KAFKA: ".txt", ODRADEK: ".odradek.txt"}


def answers_path(scenario: Scenario, who: str = KAFKA) -> Path:
    return ANSWERS / scenario.topic / f"{scenario.slug}{SUFFIXES[who]}"


def recorded(scenario: Scenario, who: str = KAFKA) -> dict[Column, list[Entry]]:
    """The recorded answers by column; none if nothing is recorded."""
    path = answers_path(scenario, who)
    return parse(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(scenario: Scenario, who: str, transcripts: Mapping[Column, list[Entry]]) -> None:
    path = answers_path(scenario, who)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(merge(who, transcripts), encoding="utf-8")
