"""Data directories that are not as they should be: Odradek answers as a real Kafka 4.4 did, or as the table says.

The JSON file beside a table has what Kafka did (`python -m tests.swap.damage record`); `make swap` asks a real Kafka
again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from tests.swap import damage, damage_compacted
from tests.swap.damages import times_of
from tests.swap.outcomes import REFUSES, STARTS, Answer, answer_of_kafka, answer_of_odradek
from tests.swap.tables import Table, check_told, locked, prepared

pytestmark = [pytest.mark.client, pytest.mark.slow]

TABLES: Mapping[str, Table] = {"plain": damage.TABLE, "compacted": damage_compacted.TABLE}
KAFKA = {kind: table.answers() for kind, table in TABLES.items()}
ROWS = [pytest.param(kind, name, id=f"{kind}-{name}") for kind, table in TABLES.items() for name in table.cases]
AGAIN = (
    ("plain", "no middle segment"),
    ("plain", "a transaction index is garbage"),
    ("plain", "a log start behind the end"),
    ("plain", "meta.properties of version 2"),
    ("plain", "no metadata log"),
    ("compacted", "a pass that makes two segments into one ends after 3 of 15 renames"),
    ("compacted", "a compacted offset behind the end"),
)
"""The rows that a real Kafka answers again in `make swap`."""
Whole = Callable[[str], tuple[Path, Sequence[int]]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The directory of a kind of rows, and the times of its records."""
    made: dict[str, tuple[Path, Sequence[int]]] = {}

    def of(kind: str) -> tuple[Path, Sequence[int]]:
        if kind not in made:
            base = tmp_path_factory.mktemp(kind) / "data"
            TABLES[kind].make(base)
            made[kind] = base, times_of(base)
        return made[kind]

    return of


def outcome(answer: Answer) -> tuple[str, object]:
    """The comparable part of an answer: Kafka refuses, or ends a little later."""
    return (STARTS if answer.how == STARTS else REFUSES), answer.logs if answer.how == STARTS else {}


@pytest.mark.parametrize(("kind", "name"), ROWS)
def test_odradek(kind: str, name: str, whole: Whole, tmp_path: Path) -> None:
    base, times = whole(kind)
    table = TABLES[kind]
    case = table.cases[name]
    path = prepared(base, tmp_path, case)
    with locked(path, case):
        found = answer_of_odradek(path, times, settles=case.settles)
    expected, _ = table.instead.get(name, (KAFKA[kind][name], ""))
    assert outcome(expected) == outcome(found)
    check_told(table.told.get(name, ()), found.how, found.says)
    if found.how == REFUSES:
        # Whoever has mended it can start: it was left as it was, and nobody holds it.
        with locked(path, case):
            assert found == answer_of_odradek(path, times)


@pytest.mark.parametrize("kind", TABLES)
def test_a_difference_from_kafka_is_one_and_has_a_reason(kind: str) -> None:
    for name, (answer, because) in TABLES[kind].instead.items():
        assert outcome(KAFKA[kind][name]) != outcome(answer), name
        assert because


@pytest.mark.parametrize("kind", TABLES)
def test_every_row_was_recorded(kind: str) -> None:
    table = TABLES[kind]
    assert list(KAFKA[kind]) == list(table.cases)
    assert not {*table.told, *table.instead} - {*table.cases}


@pytest.mark.skipif(not os.environ.get("ODRADEK_SWAP"), reason="make swap: it needs a real Kafka")
@pytest.mark.parametrize(("kind", "name"), AGAIN)
def test_kafka(kind: str, name: str, whole: Whole, tmp_path: Path) -> None:
    base, times = whole(kind)
    case = TABLES[kind].cases[name]
    path = prepared(base, tmp_path, case)
    with locked(path, case):
        assert outcome(KAFKA[kind][name]) == outcome(answer_of_kafka(tmp_path, times, settles=case.settles))
