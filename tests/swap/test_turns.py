"""The judge of turns: it plays anew where Kafka says that it has forgotten markers, and looks until nothing moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from tests.oracle.real_kafka import OF_CLIENTS, free_port
from tests.swap import turns
from tests.swap.systems import FORGETS, Kafka, Odradek, directory, free_ports
from tests.swap.turns import PLAYS, at_rest, played

LINE = f"INFO Couldn't find leader endpoint for partitions Set(t-0), {FORGETS} (kafka.coordinator)\n"
Play = Callable[[Path, Kafka, Odradek], None]


def failing(fails: int, says: str) -> tuple[list[Path], Play]:
    """A play that fails so often, and its tries; Kafka says so each time."""
    tries: list[Path] = []

    def play(root: Path, kafka: Kafka, odradek: Odradek) -> None:
        tries.append(root)
        assert not directory(root).exists()
        kafka.nodes[0].log.parent.mkdir(parents=True)
        kafka.nodes[0].log.write_text(says)
        assert len(tries) > fails, "a value is missing"

    return tries, play


@pytest.mark.parametrize(("fails", "says"), [(0, ""), (0, LINE), (1, LINE), (PLAYS - 1, LINE)])
def test_a_play_in_which_kafka_has_forgotten_markers_begins_anew(tmp_path: Path, fails: int, says: str) -> None:
    tries, play = failing(fails, says)
    played(tmp_path, play)
    assert fails + 1 == len(set(tries))


@pytest.mark.parametrize(
    ("says", "expected"), [("", 1), ("INFO Skipping recovery of 27 logs (kafka)\n", 1), (LINE, PLAYS)]
)
def test_a_play_fails_at_once_otherwise_and_after_some_of_these(tmp_path: Path, says: str, expected: int) -> None:
    tries, play = failing(PLAYS, says)
    with pytest.raises(AssertionError, match="a value is missing"):
        played(tmp_path, play)
    assert expected == len(tries)


def seen(state: str, **others: int) -> Mapping[str, Any]:
    return {"transactions": {"t": (state, 1)}, **others}


def test_a_system_rests_when_it_shows_the_same_twice_and_owes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty: Mapping[str, Any] = {"transactions": {}}
    owing, moving, resting = seen("PrepareAbort", a=1), seen("Ongoing", a=2), seen("Ongoing", a=3)
    looks: Iterator[Mapping[str, Any]] = chain([empty, empty, owing, owing, moving, resting], repeat(resting))
    monkeypatch.setattr(turns, "look", lambda bootstrap: next(looks))
    assert resting == at_rest(Odradek(tmp_path, free_port()), lambda found: found["a"] > 0)


def test_ports_are_those_that_no_client_gets() -> None:
    first = free_ports(3)
    ports = [first, first + 1, first + 2, free_port(), free_port()]
    assert len({*ports}) == len(ports)
    if OF_CLIENTS.exists():
        assert max(ports) < int(OF_CLIENTS.read_text().split()[0])
