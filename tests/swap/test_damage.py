"""Data directories that are not as they should be: Odradek answers as a real Kafka 4.4 did, or as the table says.

`damage.json` has what Kafka did (`python -m tests.swap.damage record`); `make swap` asks a real Kafka again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.swap.damage import CASES, INSTEAD, RECORDED, TOLD, locked, prepared
from tests.swap.damages import make_directory, times_of
from tests.swap.outcomes import REFUSES, STARTS, Answer, answer_of_kafka, answer_of_odradek

pytestmark = [pytest.mark.client, pytest.mark.slow]

KAFKA = msgspec.json.decode(RECORDED.read_bytes(), type=dict[str, Answer])
AGAIN = (
    "no middle segment",
    "a transaction index is garbage",
    "a log start behind the end",
    "meta.properties of version 2",
    "no metadata log",
)
"""The rows that a real Kafka answers again in `make swap`."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sequence[int]]:
    base = tmp_path_factory.mktemp("whole") / "data"
    make_directory(base)
    return base, times_of(base)


def outcome(answer: Answer) -> tuple[str, object]:
    """The comparable part of an answer: Kafka refuses, or ends a little later."""
    return (STARTS if answer.how == STARTS else REFUSES), answer.logs if answer.how == STARTS else {}


@pytest.mark.parametrize("name", CASES)
def test_odradek(name: str, whole: tuple[Path, Sequence[int]], tmp_path: Path) -> None:
    base, times = whole
    path = prepared(base, tmp_path, CASES[name])
    with locked(path, CASES[name]):
        found = answer_of_odradek(path, times)
    expected, _ = INSTEAD.get(name, (KAFKA[name], ""))
    assert outcome(expected) == outcome(found)
    told = TOLD.get(name, ())
    assert len(told) == len(found.says)
    assert all(part in line for part, line in zip(told, found.says, strict=True))
    if found.how == REFUSES:
        assert told
        assert found.says[0].endswith(".")
        assert "\n" not in found.says[0]
        # Whoever has mended it can start: it was left as it was, and nobody holds it.
        with locked(path, CASES[name]):
            assert found == answer_of_odradek(path, times)


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
    path = prepared(base, tmp_path, CASES[name])
    with locked(path, CASES[name]):
        assert outcome(KAFKA[name]) == outcome(answer_of_kafka(tmp_path, times))
