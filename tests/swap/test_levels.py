"""Feature levels between the lowest and the highest: Kafka's tool formats the directory, and both go on in turns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.swap.releases import see, work
from tests.swap.systems import Kafka, System
from tests.swap.turns import LARGE, both, differences, settled

pytestmark = pytest.mark.skipif(not os.environ.get("ODRADEK_SWAP"), reason="make swap: it needs a real Kafka")

LEVELS: Mapping[str, Mapping[str, int]] = {
    "3.4": {"metadata.version": 8, "transaction.version": 0, "group.version": 0},
    "3.6": {"metadata.version": 13, "transaction.version": 1, "group.version": 0},
    "3.7": {"metadata.version": 17, "transaction.version": 2, "group.version": 0},
    "3.9": {"metadata.version": 21, "transaction.version": 0, "group.version": 0},
    "4.0": {"metadata.version": 23, "transaction.version": 1, "eligible.leader.replicas.version": 1},
    "4.1": {"metadata.version": 27, "transaction.version": 2, "share.version": 1, "streams.version": 0},
    "4.4": {"metadata.version": 33, "share.version": 1, "eligible.leader.replicas.version": 0},
}
"""Finalized levels, by the release that had this metadata.version."""


@pytest.mark.parametrize("first", ["Kafka", "Odradek"])
@pytest.mark.parametrize("levels", [pytest.param(LEVELS[each], id=each, marks=LARGE) for each in LEVELS])
def test_both_go_on_at_levels_between(levels: Mapping[str, int], first: str, tmp_path: Path) -> None:
    systems: tuple[System, ...] = both(tmp_path)
    kafka = systems[0]
    assert isinstance(kafka, Kafka)
    [node] = kafka.nodes
    node.features = {**levels}
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in node.properties.items()))
    node.format()
    if first != kafka.name:
        systems = systems[::-1]
    before: Mapping[str, Any] | None = None
    for number, system in enumerate((*systems, systems[0]), start=1):
        try:
            system.start()
            if before is not None:
                assert [] == [*differences(before, settled(system, before))], system.name
            work(system.bootstrap, number)
            assert 10 * number == see(system.bootstrap).offset
            before = settled(system)
            assert {name: level for name, level in levels.items() if level}.items() <= before["features"].items()
            assert not {name for name, level in levels.items() if not level} & before["features"].keys()
        finally:
            system.stop()
        assert [] == system.complaints()
