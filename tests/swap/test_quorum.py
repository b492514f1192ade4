"""Quorums whose voters are in the log (kraft.version 1, KIP-853): Kafka and Odradek tell the same level and voters."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest
from tests.net.test_formatted import levels_and_users, quorum_of, voters
from tests.swap.judges import dump
from tests.swap.members import wait_for
from tests.swap.states import UPGRADE, set_features
from tests.swap.systems import Kafka, Odradek, System, folders, is_cut
from tests.swap.turns import LARGE, both

from odradek.log.files.marks import read_meta
from odradek.log.files.names import META
from odradek.metadata.api.started_with import QUORUM_VOTERS
from odradek.metadata.features import KRAFT_VERSION, METADATA_VERSION
from odradek.wire.messages.update_features_request import FeatureUpdateKey

pytestmark = pytest.mark.skipif(not os.environ.get("ODRADEK_SWAP"), reason="make swap: it needs a real Kafka")

THREE = 3
ENDS = ("stop", "kill", "kill", "stop")


class Told(NamedTuple):
    levels: Mapping[str, int]
    voters: Sequence[tuple[int, bytes]]
    nodes: Sequence[int]
    """Whose addresses it tells."""


def told(system: System) -> Told:
    """What it tells when it has read its metadata."""
    found = Told({}, [], [])

    def has_read() -> bool:
        nonlocal found
        nodes = sorted(each.node_id for each in quorum_of(system.bootstrap).nodes)
        found = Told(levels_and_users(system.bootstrap)[0], sorted(voters(system.bootstrap)), nodes)
        return METADATA_VERSION in found.levels and bool(found.voters)

    wait_for(has_read, "the metadata is read")
    return found


def upgrade(bootstrap: str) -> None:
    set_features(bootstrap, FeatureUpdateKey(KRAFT_VERSION, 1, upgrade_type=UPGRADE))


def take_turns(systems: Sequence[System], root: Path, *, ends: Sequence[str] = ("stop",)) -> None:
    """Each of them tells the level, and that the nodes of the directories are the voters; then it ends, as is said."""
    seen = []
    killed = False
    for system, end in zip(systems, cycle(ends), strict=False):
        try:
            system.start()
            seen.append(told(system))
        finally:
            getattr(system, end)()
        assert [] == [line for line in system.complaints() if not (killed and is_cut(line))]
        killed = end == "kill"
    metas = [read_meta((each / META).read_bytes()) for each in folders(root)]
    own = [(each.node_id, each.directory_id) for each in metas]
    nodes = [each.node_id for each in metas]
    assert seen == [Told({**seen[0].levels, KRAFT_VERSION: 1}, own, nodes)] * len(systems)
    for each in folders(root):
        assert [] == dump(each, only=("metadata",))


def formatted(kafka: Kafka) -> None:
    """Have Kafka's tool make the directories of nodes whose voters are in their log."""
    first, *others = kafka.nodes
    named = ("--initial-controllers", ",".join(initial(first.quorum))) if others else ("--standalone",)
    for node in kafka.nodes:
        file = node.directory / "server.properties"
        node.directory.mkdir(exist_ok=True)
        known = {**node.properties, "controller.quorum.bootstrap.servers": f"127.0.0.1:{node.controller_port}"}
        del known[QUORUM_VOTERS]
        file.write_text("".join(f"{key}={value}\n" for key, value in known.items()))
        words = ("format", *named, "--cluster-id", node.cluster_id, "--config", str(file))
        subprocess.run(node.command("kafka.tools.StorageTool", *words, level="WARN"), check=True, capture_output=True)


def initial(quorum: Mapping[int, int]) -> Iterable[str]:
    """The voters of a new quorum, each with the id that its directory gets."""
    for node_id, port in quorum.items():
        # Kafka's ids do not begin with a dash.
        directory_id = base64.urlsafe_b64encode(b"D" + uuid4().bytes[1:]).decode().rstrip("=")
        yield f"{node_id}@127.0.0.1:{port}:{directory_id}"


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


@pytest.mark.parametrize("first", [pytest.param(each, marks=LARGE) for each in (Kafka.name, Odradek.name)])
def test_both_go_on_with_three_directories_that_name_their_voters(first: str, tmp_path: Path) -> None:
    kafka, odradek = both(tmp_path, brokers=THREE, voters_in_log=True)
    formatted(kafka)
    systems: tuple[System, ...] = (kafka, odradek) if first == kafka.name else (odradek, kafka)
    take_turns([*systems, *systems, systems[0]], tmp_path, ends=ENDS)


@pytest.mark.parametrize("first", [pytest.param(each, marks=LARGE) for each in (Kafka.name, Odradek.name)])
def test_both_go_on_when_one_of_them_has_written_three_voters(first: str, tmp_path: Path) -> None:
    kafka, odradek = both(tmp_path, brokers=THREE, voters_in_log=True)
    systems: tuple[System, ...] = (kafka, odradek) if first == kafka.name else (odradek, kafka)
    try:
        systems[0].start()
        upgrade(systems[0].bootstrap)
    finally:
        systems[0].stop()
    take_turns([*systems[::-1], *systems[::-1]], tmp_path, ends=ENDS[::-1])
