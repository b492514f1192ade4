"""A snapshot that is a directory, opened by a real Kafka, and by Odradek after it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.net.copies import copy_while_it_runs
from tests.net.test_fork import TIMEOUT_S, committed, hang, produce, read, stable_end
from tests.oracle.real_kafka import free_port
from tests.swap.judges import dump
from tests.swap.systems import Kafka, directory, is_cut

from odradek.testing import Cluster

pytestmark = pytest.mark.skipif(not os.environ.get("ODRADEK_SWAP"), reason="make swap: it needs a real Kafka")

CONFIG = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2, "log.segment.bytes": 1_048_576}
LARGE = "x" * 200_000


def first_letters(system: object, count: int, *, committed: bool) -> list[str]:
    return [value[:1] for value in read(system, count, committed=committed, wait_s=TIMEOUT_S)]  # type: ignore[arg-type]


@pytest.mark.parametrize("left_by", ["snapshot", "fork", "killed fork"])
def test_a_real_kafka_goes_on_with_a_snapshot(tmp_path: Path, left_by: str) -> None:
    """With the snapshot itself, with what a fork of it leaves that stops cleanly, and with what a killed one leaves.

    Partitions without records have no folder in a fork: Kafka makes them. Of one that had records, and whose folder is
    gone, it makes an empty one.
    """
    is_fork = left_by != "snapshot"
    with Cluster(
        data_dir=tmp_path / "origin", topics=["orders", "untouched", "gone", "empty"], config=CONFIG
    ) as origin:
        produce(origin, "u", topic="untouched")
        produce(origin, "g", topic="gone")
        for number in range(10):
            produce(origin, f"{number}{LARGE}")
        hang(origin, timeout_ms=600_000)
        root = tmp_path / "kafka"
        root.mkdir()
        snapshot = origin.snapshot(tmp_path / "kept" if is_fork else directory(root))
        produce(origin, "of the origin")
    written = "0123456789o"
    if is_fork:
        with Cluster(from_=snapshot, data_dir=tmp_path / "fork") as fork:
            produce(fork, "f")
            indexes = list((tmp_path / "fork" / "untouched-0").glob("*index"))
            if left_by == "killed fork":
                copy_while_it_runs(tmp_path / "fork", directory(root))
        assert [] == indexes
        assert [] == dump(tmp_path / "fork")
        if left_by == "fork":
            shutil.copytree(tmp_path / "fork", directory(root))
        written += "f"
        assert not (directory(root) / "empty-0").exists()
        shutil.rmtree(directory(root) / "gone-0")
    kafka = Kafka(root, free_port())
    kafka.start()
    try:
        assert [*written] == first_letters(kafka, len(written), committed=False)
        assert 10 == stable_end(kafka)  # type: ignore[arg-type]
        assert 1 == stable_end(kafka, "untouched")  # type: ignore[arg-type]
        assert 0 == stable_end(kafka, "empty")  # type: ignore[arg-type]
        assert (0 if is_fork else 1) == stable_end(kafka, "gone")  # type: ignore[arg-type]
        produce(kafka, "k")  # type: ignore[arg-type]
        Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "stuck"}).init_transactions(60)
        expected = [*written.replace("o", ""), "k"]
        assert expected == first_letters(kafka, len(expected), committed=True)
        assert 0 > committed(kafka, stable=True)  # type: ignore[arg-type]
        complaints = kafka.complaints()
        if left_by == "killed fork":
            # Ends of logs that the fork had reserved, and indexes that it was made without.
            complaints = [line for line in complaints if not is_cut(line) and "rebuilding index files" not in line]
        assert [] == complaints
    finally:
        kafka.stop()
    assert [] == dump(directory(root))
    with Cluster(data_dir=directory(root)) as again:
        produce(again, "a")
        assert [*expected, "a"] == first_letters(again, len(expected) + 1, committed=True)
