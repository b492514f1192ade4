"""Logs with messages of magic 0 and 1: Odradek reads, compacts and goes on with them as a real Kafka 4.4 did.

`old_sets.json` has what Kafka did (`python -m tests.swap.old_sets record`); `make swap` asks a real Kafka again.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.net.warned import warned
from tests.oracle.real_kafka import free_port
from tests.swap.judges import dump
from tests.swap.old_sets import (
    BEFORE,
    DELETED,
    QUIET,
    READ,
    RECORDED,
    SOON,
    cleaned,
    fetched_before_batches,
    files_of,
    indexes,
    make_directory,
    make_directory_of,
    read,
    story,
    tell,
    wait_until_cleaned,
)
from tests.swap.systems import SHARED, Kafka, directory, shared
from tests.swap.turns import differences

from odradek.log.files.indexes import write_offset_index, write_time_index
from odradek.log.files.walk import index_of_segment, walk
from odradek.testing import Cluster

pytestmark = [pytest.mark.client, pytest.mark.slow]

KAFKA: dict[str, Any] = json.loads(RECORDED.read_bytes())


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "data"
    make_directory(path)
    return path


@pytest.fixture
def root(base: Path, tmp_path: Path) -> Path:
    shutil.copytree(base, directory(tmp_path))
    return tmp_path


def as_json(told: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(told))
    return found


def test_clients_see_what_they_see_of_kafka(root: Path) -> None:
    with warned() as told, Cluster(data_dir=directory(root), config={**SHARED, **QUIET}, seed=1) as cluster:
        found = as_json(story(cluster.bootstrap, directory(root)))
    assert all("the indexes are made" in line for line in told), told
    assert [] == [*differences({key: KAFKA[key] for key in found}, found)]
    if os.environ.get("ODRADEK_SWAP"):
        assert [] == dump(directory(root))


@pytest.mark.parametrize("base_offset", [0, 60])
def test_indexes_are_made_of_old_messages_as_by_kafka(base: Path, base_offset: int) -> None:
    name = f"{READ}-6/{base_offset:020d}"
    view = memoryview((base / f"{name}.log").read_bytes())
    found = walk(view, base_offset, checks=True)
    interval_bytes = int(SHARED["log.index.interval.bytes"])
    by_offset, by_time = index_of_segment(view, found, interval_bytes=interval_bytes)
    assert KAFKA["indexes"][f"{READ}-6/{base_offset}.index"] == write_offset_index(base_offset, by_offset).hex()
    assert KAFKA["indexes"][f"{READ}-6/{base_offset}.timeindex"] == write_time_index(base_offset, by_time).hex()


def test_an_older_release_converts_them_down(tmp_path: Path) -> None:
    make_directory_of(BEFORE, tmp_path)
    with warned(), Cluster(data_dir=tmp_path, as_kafka=BEFORE, seed=1) as cluster:
        found = fetched_before_batches(cluster.bootstrap)
    assert [] == [*differences(KAFKA["fetched before batches"], found)]


def test_compaction_and_retention_leave_what_they_leave_in_kafka(root: Path) -> None:
    with warned(), Cluster(data_dir=directory(root), config={**SHARED, **SOON}, seed=1):
        wait_until_cleaned(directory(root))
    if os.environ.get("ODRADEK_SWAP"):
        assert [] == dump(directory(root))
    assert [] == [*differences(KAFKA["cleaned"], as_json(cleaned(directory(root))))]


def test_replicas_get_them_as_they_are(tmp_path: Path) -> None:
    data = tmp_path / "data"
    make_directory(data, brokers=3)
    with warned(), Cluster(data_dir=data, brokers=3, config={**shared(3), **QUIET}, seed=1) as cluster:
        story(cluster.bootstrap.partition(",")[0], data / "broker-3")
    for index in DELETED:
        one, *others = [files_of(data / f"broker-{node_id}" / f"{READ}-{index}") for node_id in (1, 2, 3)]
        assert one
        assert [one, one] == others


def test_a_fork_has_them(root: Path, tmp_path: Path) -> None:
    config = {**SHARED, **QUIET}
    kept = tmp_path / "kept"
    with warned(), Cluster(data_dir=directory(root), config=config, seed=1) as cluster:
        cluster.snapshot(kept)
    for fork in (Cluster(from_=kept, seed=1), Cluster(from_=kept, data_dir=tmp_path / "fork", seed=1)):
        with warned(), fork as forked:
            assert [] == [*differences(KAFKA["read"], as_json(read(forked.bootstrap, directory(root))))]


@pytest.mark.skipif(not os.environ.get("ODRADEK_SWAP"), reason="make swap: it needs a real Kafka")
def test_kafka(root: Path) -> None:
    told = as_json(tell(Kafka(root, free_port(), settings=QUIET), root))
    assert [] == [*differences({key: KAFKA[key] for key in told}, told)]
    assert KAFKA["indexes"] == indexes(directory(root))
