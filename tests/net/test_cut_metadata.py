"""A metadata log that ends sooner than it did: all is there, or a line says what is gone, or the start is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from tests.net.warned import warned

from odradek.cli.usage import UsageError
from odradek.log.files.names import CLEAN_STOP, RECOVERY_POINTS
from odradek.log.metadata_log import METADATA_FOLDER
from odradek.net.client import BlockingClient
from odradek.records.batch import batches
from odradek.testing import Cluster
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.messages.describe_transactions_response import TransactionState
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata_request import MetadataRequest

pytestmark = [pytest.mark.client, pytest.mark.slow]

TIMEOUT_S = 30
RUNS = 4
CONFIG = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
LOG = f"{METADATA_FOLDER}/{0:020d}.log"


class Seen(Struct):
    """What clients see of a cluster."""

    ends: dict[str, int]
    """By topic, where its log ends."""
    retention_ms: dict[str, str | None]


class Made(Struct):
    """A directory that has stopped cleanly, after some runs."""

    path: Path
    whole: bytes
    """The metadata log."""
    seen: Seen

    @property
    def boundaries(self) -> list[int]:
        found, at = [0], 0
        for batch in batches(memoryview(self.whole)):
            at += len(batch.view)
            found.append(at)
        return found


def transact(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "till", "log_level": 0})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, "a")
    producer.commit_transaction(TIMEOUT_S)


def transaction(bootstrap: str) -> TransactionState:
    with BlockingClient(bootstrap, client_id="look", timeout_s=TIMEOUT_S) as client:
        [found] = client.ask(DescribeTransactionsRequest(transactional_ids=["till"]), 0).transaction_states
    return found


def produce(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(topic, "b")
    assert 0 == producer.flush(TIMEOUT_S)


def look(bootstrap: str) -> Seen:
    """Raises AssertionError for a partition that nobody serves."""
    seen = Seen({}, {})
    with BlockingClient(bootstrap, client_id="look", timeout_s=TIMEOUT_S) as client:
        topics = [each.name or "" for each in client.ask(MetadataRequest(topics=None), 12).topics]
        for topic in topics:
            partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
            asked = ListOffsetsRequest(
                replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
            )
            [one] = client.ask(asked, 7).topics[0].partitions
            assert ErrorCode.NONE == one.error_code, f"{topic}: {ErrorCode(one.error_code).name}"
            resource = DescribeConfigsResource(
                resource_type=2, resource_name=topic, configuration_keys=["retention.ms"]
            )
            [described] = client.ask(DescribeConfigsRequest(resources=[resource]), 4).results
            if not topic.startswith("__"):
                seen.ends[topic] = one.offset
                seen.retention_ms[topic] = described.configs[0].value
    return seen


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    path = tmp_path_factory.mktemp("cut") / "data"
    for run in range(RUNS):
        with Cluster(data_dir=path, topics=["orders", f"topic-{run}"], config=CONFIG) as cluster:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            keep = ConfigEntry("retention.ms", f"{run + 1}000000000", incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ResourceType.TOPIC, "orders", incremental_configs=[keep])
            admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
            transact(cluster.bootstrap, "orders")
            seen = look(cluster.bootstrap)
    return Made(path, (path / LOG).read_bytes(), seen)


def check(made: Made, path: Path, size: int, *, killed: bool) -> None:
    """The metadata log ends here, after a clean stop or a kill."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(made.path, path)
    (path / LOG).write_bytes(made.whole[:size])
    if killed:
        for name in (CLEAN_STOP, RECOVERY_POINTS):
            (path / name).unlink()
    if size < made.boundaries[1]:
        with pytest.raises(UsageError, match=r"and no metadata: half a copy\.$"):
            Cluster(data_dir=path, config=CONFIG).__enter__()
        return
    with warned() as told, Cluster(data_dir=path, config=CONFIG) as cluster:
        seen = look(cluster.bootstrap)
        produce(cluster.bootstrap, "orders")
        grown = look(cluster.bootstrap).ends["orders"]
    assert grown == seen.ends.get("orders", 0) + 1
    assert seen == made.seen or told
    if size < made.boundaries[-1]:
        assert any("what was changed in between is gone" in each for each in told)


def test_between_any_two_batches(made: Made, tmp_path: Path) -> None:
    """No checksum tells of it."""
    for size in made.boundaries:
        check(made, tmp_path / "data", size, killed=False)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(st.data())
def test_at_any_byte(made: Made, tmp_path: Path, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, len(made.whole)), label="size")
    check(made, tmp_path / "data", size, killed=data.draw(st.booleans(), label="killed"))


def test_a_log_with_later_leader_epochs_is_led_as_by_kafka(made: Made, tmp_path: Path) -> None:
    """Kafka 4.4 forgets them: "New epoch entry caused truncation of conflicting entries".

    There, too, the marker of a coordinator of an earlier epoch is refused.
    """
    path = tmp_path / "data"
    shutil.copytree(made.path, path)
    epochs = (path / "orders-0" / "leader-epoch-checkpoint").read_text().split()[2:]
    assert int(epochs[-2]) > RUNS
    first_run = next(size for size in made.boundaries if b"topic-0" in made.whole[:size])
    (path / LOG).write_bytes(made.whole[:first_run])
    with warned() as told, Cluster(data_dir=path, config=CONFIG) as cluster:
        assert made.seen.ends["orders"] == look(cluster.bootstrap).ends["orders"]
        produce(cluster.bootstrap, "orders")
    older = "metadata_is_older partitions=__consumer_offsets-0, __transaction_state-0, orders-0, topic-0-0 reason="
    assert any(each.startswith(older) for each in told)
    later = (path / "orders-0" / "leader-epoch-checkpoint").read_text().split()[2:]
    assert later[-1] == str(made.seen.ends["orders"])
    with warned() as told, Cluster(data_dir=path, config=CONFIG) as again:
        assert made.seen.ends["orders"] + 1 == look(again.bootstrap).ends["orders"]
    assert [] == [each for each in told if "orders-0" in each]


def test_a_transaction_waits_until_starts_have_brought_its_coordinator_the_epoch_that_it_had(
    made: Made, tmp_path: Path
) -> None:
    """Partitions know the epoch of the coordinator that ended the last transaction, and refuse markers of earlier ones.

    Each start leads in a later epoch. In Kafka 4.4 it is the same.
    """
    path = tmp_path / "data"
    shutil.copytree(made.path, path)
    first_run = next(size for size in made.boundaries if b"topic-0" in made.whole[:size])
    (path / LOG).write_bytes(made.whole[:first_run])
    seen = []
    for start in range(RUNS):
        with warned(), Cluster(data_dir=path, config=CONFIG) as cluster:
            if not start:
                transact(cluster.bootstrap, "orders")
            seen.append(transaction(cluster.bootstrap).transaction_state)
    waits = seen.index("CompleteCommit")
    assert 1 <= waits
    assert ["PrepareCommit"] * waits + ["CompleteCommit"] * (RUNS - waits) == seen
    with warned(), Cluster(data_dir=path, config=CONFIG) as again:
        transact(again.bootstrap, "orders")
