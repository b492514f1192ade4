"""Quorums whose voters are in the log (kraft.version 1, KIP-853): Kafka and Odradek tell the same level and voters."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.net.test_formatted import levels_and_users, voters
from tests.swap.judges import dump
from tests.swap.members import wait_for
from tests.swap.systems import Kafka, Odradek, System, directory
from tests.swap.turns import LARGE, both

from odradek.log.files.marks import read_meta
from odradek.log.files.names import META
from odradek.metadata.features import KRAFT_VERSION, METADATA_VERSION
from odradek.net.client import BlockingClient
from odradek.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

pytestmark = pytest.mark.skipif(not os.environ.get("ODRADEK_SWAP"), reason="make swap: it needs a real Kafka")


class Told(NamedTuple):
    levels: Mapping[str, int]
    voters: Sequence[tuple[int, bytes]]


def told(system: System) -> Told:
    """What it tells when it has read its metadata."""
    found = Told({}, [])

    def has_read() -> bool:
        nonlocal found
        found = Told(levels_and_users(system.bootstrap)[0], voters(system.bootstrap))
        return METADATA_VERSION in found.levels and bool(found.voters)

    wait_for(has_read, "the metadata is read")
    return found


def upgrade(bootstrap: str) -> None:
    wanted = FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=1, upgrade_type=1)
    with BlockingClient(bootstrap, client_id="operator") as client:
        assert 0 == client.ask(UpdateFeaturesRequest(feature_updates=[wanted]), 2).error_code


def take_turns(systems: Sequence[System], root: Path) -> None:
    """Each of them tells the level, and that the node of the directory is the voter."""
    seen = []
    for system in systems:
        try:
            system.start()
            seen.append(told(system))
        finally:
            system.stop()
        assert [] == system.complaints()
    directory_id = read_meta((directory(root) / META).read_bytes()).directory_id
    assert seen == [Told({**seen[0].levels, KRAFT_VERSION: 1}, [(1, directory_id)])] * len(systems)
    assert [] == dump(directory(root), only=("metadata",))


def formatted(kafka: Kafka) -> None:
    """Have Kafka's tool make a directory whose only voter is in its log."""
    [node] = kafka.nodes
    del node.properties["controller.quorum.voters"]
    file = node.directory / "server.properties"
    node.directory.mkdir(exist_ok=True)
    known = {**node.properties, "controller.quorum.bootstrap.servers": f"127.0.0.1:{node.controller_port}"}
    file.write_text("".join(f"{key}={value}\n" for key, value in known.items()))
    words = ("format", "--standalone", "--cluster-id", node.cluster_id, "--config", str(file))
    subprocess.run(node.command("kafka.tools.StorageTool", *words, level="WARN"), check=True, capture_output=True)


@pytest.mark.parametrize("first", [pytest.param(Kafka.name, marks=LARGE), Odradek.name])
def test_both_go_on_with_a_directory_that_names_its_voter(first: str, tmp_path: Path) -> None:
    kafka, odradek = both(tmp_path)
    formatted(kafka)
    systems = (kafka, odradek) if first == kafka.name else (odradek, kafka)
    take_turns([*systems, *systems], tmp_path)


@pytest.mark.parametrize("first", [pytest.param(Kafka.name, marks=LARGE), Odradek.name])
def test_both_go_on_when_one_of_them_has_written_the_voter(first: str, tmp_path: Path) -> None:
    """At first the voter is that of `controller.quorum.voters`, and in no record."""
    kafka, odradek = both(tmp_path)
    systems: tuple[System, ...] = (kafka, odradek) if first == kafka.name else (odradek, kafka)
    try:
        systems[0].start()
        assert KRAFT_VERSION not in told(systems[0]).levels
        upgrade(systems[0].bootstrap)
    finally:
        systems[0].stop()
    take_turns([*systems[::-1], *systems[::-1]], tmp_path)
