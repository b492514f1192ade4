"""The judge of kills names the turn in which the files lost something."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.swap.hands import Hands

from odradek.log.files.walk import walk
from odradek.testing import Cluster

pytestmark = pytest.mark.client

TIMEOUT_S = 30
CONFIG = {"transaction.state.log.num.partitions": 2}


def written(root: Path) -> Hands:
    """A committed transaction and an aborted one, which their client was told of in the first turn."""
    hands = Hands(root, "t", 2)
    hands.begin("Odradek")
    with Cluster(topics=["t:2"], config=CONFIG, data_dir=root) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "writer-0"})
        producer.init_transactions(TIMEOUT_S)
        for value, end in (("1", producer.commit_transaction), ("2", producer.abort_transaction)):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce("t", f"writer-0-{value}...", partition=partition)
            producer.flush(TIMEOUT_S)
            end(TIMEOUT_S)
            hands.tell(f"writer-0-{value}", "committed" if value == "1" else "aborted")
    hands.look()
    return hands


def test_nothing_is_lost_in_a_directory_that_is_as_it_was(tmp_path: Path) -> None:
    hands = written(tmp_path)
    hands.begin("Kafka")
    hands.look()
    assert {} == hands.forgotten
    assert hands.loser("writer-0-1 was acknowledged, and is not in partition 1") is None
    assert "in the files of partition 1: committed after turn 1 (Odradek)" in hands.story("writer-0-1")


@pytest.mark.parametrize(("batches", "state"), [(1, "open"), (0, "absent")])
def test_a_loss_is_that_of_the_turn_after_which_it_is_seen(tmp_path: Path, batches: int, state: str) -> None:
    hands = written(tmp_path)
    hands.begin("Kafka")
    log = tmp_path / "t-1" / f"{0:020}.log"
    data = log.read_bytes()
    positions = walk(memoryview(data), 0, checks=True).positions
    log.write_bytes(data[: positions[batches]])
    hands.look()
    assert f"{state} after turn 2 (Kafka)" in hands.story("writer-0-1")
    lost = hands.loser("writer-0-1 was acknowledged, and is not in partition 1")
    assert lost == ("Kafka" if state == "absent" else None), "an open one may get its marker yet"


def test_a_transaction_that_is_complete_without_its_marker(tmp_path: Path) -> None:
    written(tmp_path)
    log = tmp_path / "t-0" / f"{0:020}.log"
    data = log.read_bytes()
    log.write_bytes(data[: walk(memoryview(data), 0, checks=True).positions[1]])
    hands = Hands(tmp_path, "t", 2)
    hands.begin("Kafka")
    hands.tell("writer-0-1", "committed")
    hands.look()
    assert {"writer-0"} == {name for name, *_ in hands.forgotten}
    assert "Kafka" == hands.loser("writer-0-1 was acknowledged, and is not in partition 0")
    assert "Kafka" == hands.loser("the group writer-0 has offset 3, and its last transaction has 4")
