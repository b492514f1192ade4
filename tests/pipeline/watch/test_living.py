"""`odradek audit logs --bootstrap`: incidents of copied files, held against what the running cluster says of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from tests.pipeline.commands.test_wrong_calls import exit_code
from tests.pipeline.watch.test_running import LEVEL_0, committed, late_batch, open_one

from odradek.testing import Cluster
from odradek_pipeline.audit.result import Result, Severity, anomalies_frame, anomaly
from odradek_pipeline.incidents.search import Findings, Search, incidents_frame
from odradek_pipeline.watch.brokers import Brokers
from odradek_pipeline.watch.living import ask_living, held_against
from odradek_pipeline.watch.names import Names

pytestmark = pytest.mark.client


def result_of(name: str, **where: object) -> Result:
    """An audit with one incident about a transaction."""
    of = "txn-hanging" if name == "hanging-transaction" else name
    rows = [anomaly(of, Severity.BAD, "of the files", partition=0, **where)]
    search = Search(Findings(rows, [], pd.DataFrame({"topic": [], "partition": []})))
    search.add(name, [0])
    result = Result("logs", anomalies_frame(rows))
    result.incidents = incidents_frame(search.incidents)
    return result


def asked(result: Result, bootstrap: str) -> dict[str, str]:
    brokers = Brokers(bootstrap, timeout_s=2.0)
    try:
        held_against(result, ask_living(bootstrap, brokers, 1_800_000_000_000))
    finally:
        brokers.close()
    assert result.incidents is not None
    (row,) = result.incidents.to_dict("records")
    return row


def producer_of(bootstrap: str, name: str) -> int:
    brokers, names = Brokers(bootstrap), Names()
    assert brokers.begin()
    names.read(brokers)
    brokers.close()
    return next(number for number, of in names.of_producer.items() if of == name)


def test_what_hangs_in_the_cluster_too_has_its_command() -> None:
    with Cluster(topics=["orders"], transaction_version=0, config=LEVEL_0, seed=1) as cluster:
        committed(cluster.bootstrap, "shop")
        late_batch(cluster.bootstrap, "shop")
        producer_id = producer_of(cluster.bootstrap, "shop")
        found = result_of("hanging-transaction", topic="orders", offset=2, producer_id=producer_id)
        row = asked(found, cluster.bootstrap)
        assert "no coordinator has it under way, and it was still open" in row["cluster"]
        assert (
            f"--bootstrap-server {cluster.bootstrap} abort --topic orders --partition 0 --start-offset 2" in row["run"]
        )
        assert found.is_bad
        # The files say another offset: that one is not open any more.
        other = result_of("hanging-transaction", topic="orders", offset=1, producer_id=producer_id)
        row = asked(other, cluster.bootstrap)
        assert ("info", "") == (row["severity"], row["run"])
        assert "has another one open since offset 2" in row["cluster"] or "open since offset 2" in row["cluster"]
        assert not other.is_bad
        assert other.anomalies["detail"].iloc[0].endswith("the cluster says that it is over")


def test_what_has_ended_or_is_under_way_has_no_command() -> None:
    with Cluster(topics=["orders"], seed=1) as cluster:
        producer = committed(cluster.bootstrap, "shop")
        open_one(producer)
        producer_id = producer_of(cluster.bootstrap, "shop")
        row = asked(
            result_of("hanging-transaction", topic="orders", offset=2, producer_id=producer_id), cluster.bootstrap
        )
        assert "shop is Ongoing for its coordinator" in row["cluster"]
        assert ("info", "") == (row["severity"], row["run"])
        producer.commit_transaction(30)
        row = asked(
            result_of("hanging-transaction", topic="orders", offset=2, producer_id=producer_id), cluster.bootstrap
        )
        assert "has no transaction of producer" in row["cluster"]
        assert ("info", "") == (row["severity"], row["run"])
        gone = asked(result_of("hanging-transaction", topic="gone", offset=2, producer_id=1), cluster.bootstrap)
        assert "There is no gone-0 any more." == gone["cluster"]
        of = {
            "topic": "__transaction_state",
            "transactional_id": "shop",
            "producer_id": producer_id,
            "producer_epoch": 0,
        }
        stuck = asked(result_of("stuck-prepare", **of), cluster.bootstrap)
        assert "No coordinator has shop under way any more." == stuck["cluster"]
        assert ("info", "") == (stuck["severity"], stuck["run"])


def test_a_directory_is_not_removed_where_no_other_replica_is_in_sync() -> None:
    with Cluster(topics=["orders"], seed=1) as cluster:
        row = asked(result_of("missing-segment", topic="orders", offset=2, path="/kafka/orders-0"), cluster.bootstrap)
        assert row["run"].startswith("Remove nothing: no other replica is in sync.")
        assert "In sync of orders-0 are the replicas on " in row["cluster"]
        index = result_of("bad-index", topic="orders", offset=-1, path="/kafka/orders-0/0.index")
        assert "Stop the broker, remove" in asked(index, cluster.bootstrap)["run"], "it is built again from the segment"


def test_nobody_answers() -> None:
    found = result_of("hanging-transaction", topic="orders", offset=2, producer_id=1)
    row = asked(found, "127.0.0.1:9")
    assert row["run"].startswith("Nothing yet: nobody answers at ")
    assert "abort" not in row["run"]
    assert found.is_bad, "what nobody denies stays"


def test_the_command_asks_before_it_prints(
    recorded: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = ["audit", "logs", "--master", "none", recorded("hang"), "--out", tmp_path / "audit"]
    assert 1 == exit_code(*logs)
    assert "abort --topic orders" in capsys.readouterr().out
    with Cluster(topics=["orders"], seed=1) as cluster:
        assert 0 == exit_code(*logs, "--bootstrap", cluster.bootstrap)
    said = capsys.readouterr().out
    assert "cluster: The leader of orders-0 has no transaction of producer 1 open since offset 36 any more." in said
    assert "abort --topic" not in said
