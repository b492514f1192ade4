"""A snapshot that is a directory, opened by a real Kafka, and by Odradek after it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.net.test_fork import TIMEOUT_S, committed, hang, produce, read, stable_end
from tests.oracle.real_kafka import free_port
from tests.swap.systems import Kafka, directory

from odradek.testing import Cluster

pytestmark = pytest.mark.skipif(not os.environ.get("ODRADEK_SWAP"), reason="make swap: it needs a real Kafka")

CONFIG = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2, "log.segment.bytes": 1_048_576}
LARGE = "x" * 200_000


def first_letters(system: object, count: int, *, committed: bool) -> list[str]:
    return [value[:1] for value in read(system, count, committed=committed, wait_s=TIMEOUT_S)]  # type: ignore[arg-type]


@pytest.mark.parametrize("is_fork", [False, True])
def test_a_real_kafka_goes_on_with_a_snapshot(tmp_path: Path, is_fork: bool) -> None:
    """With the snapshot itself, and with what a fork of it has left."""
    with Cluster(data_dir=tmp_path / "origin", topics=["orders"], config=CONFIG) as origin:
        for number in range(10):
            produce(origin, f"{number}{LARGE}")
        hang(origin, timeout_ms=600_000)
        root = tmp_path / "kafka"
        root.mkdir()
        snapshot = origin.snapshot(tmp_path / "kept" if is_fork else directory(root))
        produce(origin, "of the origin")
    written = "0123456789o"
    if is_fork:
        with Cluster(from_=snapshot, data_dir=directory(root)) as fork:
            produce(fork, "f")
        written += "f"
    kafka = Kafka(root, free_port())
    kafka.start()
    try:
        assert [*written] == first_letters(kafka, len(written), committed=False)
        assert 10 == stable_end(kafka)  # type: ignore[arg-type]
        produce(kafka, "k")  # type: ignore[arg-type]
        Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "stuck"}).init_transactions(60)
        expected = [*written.replace("o", ""), "k"]
        assert expected == first_letters(kafka, len(expected), committed=True)
        assert 0 > committed(kafka, stable=True)  # type: ignore[arg-type]
        assert [] == kafka.complaints()
    finally:
        kafka.stop()
    with Cluster(data_dir=directory(root)) as again:
        produce(again, "a")
        assert [*expected, "a"] == first_letters(again, len(expected) + 1, committed=True)
