"""Directories of three brokers that are not as they should be: Odradek answers as a Kafka did, or as the table says.

`damage_brokers.json` has what three nodes of a real Kafka 4.4 did (`python -m tests.swap.damage_brokers record`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.swap.brokers import LAST, Replicas, answer_of_kafkas, answer_of_odradeks, make_brokers
from tests.swap.damage_brokers import CASES, INSTEAD, RECORDED, TOLD, prepared
from tests.swap.damages import times_of
from tests.swap.outcomes import REFUSES
from tests.swap.tables import check_told

pytestmark = [pytest.mark.client, pytest.mark.slow]

KAFKA = msgspec.json.decode(RECORDED.read_bytes(), type=dict[str, Replicas])
AGAIN = ("no .log, at the last leader", "leader epochs are of the future, at a follower")
"""The rows that a real Kafka answers again in `make swap`."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sequence[int]]:
    base = tmp_path_factory.mktemp("whole") / "data"
    make_brokers(base)
    return base, times_of(base / f"broker-{LAST}")


def outcome(answer: Replicas) -> Replicas:
    """The comparable part of an answer: logs that clients see, nodes that serve, replicas in sync."""
    if answer.how == REFUSES:
        return Replicas(REFUSES)
    folders = [folder for folder in answer.logs if folder.startswith("orders")]
    return Replicas(
        answer.how,
        answer.runs,
        {folder: answer.logs[folder] for folder in folders},
        {folder: answer.isr[folder] for folder in folders},
    )


@pytest.mark.parametrize("name", CASES)
def test_odradek(name: str, whole: tuple[Path, Sequence[int]], tmp_path: Path) -> None:
    base, times = whole
    path = prepared(base, tmp_path, CASES[name])
    found = answer_of_odradeks(path, times)
    expected, _ = INSTEAD.get(name, (KAFKA[name], ""))
    assert outcome(expected) == outcome(found)
    check_told(TOLD.get(name, ()), found.how, found.says)
    if found.how == REFUSES:
        # Whoever has mended it can start: it was left as it was, and nobody holds it.
        assert found == answer_of_odradeks(path, times)


@pytest.mark.parametrize("name", INSTEAD)
def test_a_difference_from_kafka_is_one_and_has_a_reason(name: str) -> None:
    answer, because = INSTEAD[name]
    assert outcome(KAFKA[name]) != outcome(answer)
    assert because


def test_every_row_was_recorded() -> None:
    assert list(KAFKA) == list(CASES)
    assert not {*TOLD, *INSTEAD} - {*CASES}


@pytest.mark.skipif(not os.environ.get("ODRADEK_SWAP"), reason="make swap: it needs a real Kafka")
@pytest.mark.parametrize("name", AGAIN)
def test_kafka(name: str, whole: tuple[Path, Sequence[int]], tmp_path: Path) -> None:
    base, times = whole
    prepared(base, tmp_path, CASES[name])
    assert outcome(KAFKA[name]) == outcome(answer_of_kafkas(tmp_path, times))
