"""Real clients, which speak no dialect, with their plain transactions against brokers that do."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.clients.driver import Failure, play
from tests.clients.lacking import with_toolchains
from tests.clients.toolchain import go_program

from odradek.testing import Cluster

pytestmark = [pytest.mark.client, pytest.mark.slow]

OLDER = [("java", "3.6.2"), ("confluent-kafka", "2.16.1"), ("kafka-python", "3.0.12")]
NEWEST = ("java", "4.4.0")
HERE = Path(__file__).parent
TWO_PHASE = {"transaction.two.phase.commit.enable": True}
SCENARIOS = pytest.mark.parametrize("scenario", ["transactions", "txn-offsets"])


def played(dialect: str, client: tuple[str, str], scenario: str, topic: str) -> bool:
    family, version = client
    with with_toolchains(family), Cluster(brokers=3, dialect=dialect) as cluster:
        bootstrap = cluster.bootstrap.split(",")[0]
        return play(
            family, scenario, bootstrap, version=version, topic=topic, records=600, transactions=12, timeout=60
        ).ok


@SCENARIOS
@pytest.mark.parametrize("client", OLDER, ids=" ".join)
def test_an_older_client_notices_nothing_of_kip_890_text(client: tuple[str, str], scenario: str, name: str) -> None:
    assert played("kip-890-text", client, scenario, name)


@SCENARIOS
@pytest.mark.parametrize("client", [*OLDER, NEWEST], ids=" ".join)
def test_clients_notice_nothing_of_kip_939(client: tuple[str, str], scenario: str, name: str) -> None:
    assert played("kip-939", client, scenario, name)


@SCENARIOS
@pytest.mark.parametrize("client", [*OLDER, NEWEST], ids=" ".join)
def test_clients_notice_nothing_of_kip_360_text(client: tuple[str, str], scenario: str, name: str) -> None:
    assert played("kip-360-text", client, scenario, name)


@SCENARIOS
def test_a_client_from_before_end_txn_3_notices_nothing_of_kip_609_draft(scenario: str, name: str) -> None:
    assert played("kip-609-draft", OLDER[1], scenario, name)


@pytest.mark.parametrize("client", [OLDER[0], OLDER[2], NEWEST], ids=" ".join)
def test_a_client_with_kafkas_end_txn_3_ends_nothing(client: tuple[str, str], name: str, tmp_path: Path) -> None:
    """Version 3 is flexible to it: the broker cannot read that, and closes the connection each time."""
    family, version = client
    events = tmp_path / "events.jsonl"
    with with_toolchains(family), Cluster(dialect="kip-609-draft", events=events) as cluster:
        bootstrap = cluster.bootstrap.split(",")[0]
        with pytest.raises(Failure, match="no end after"):
            play(family, "transactions", bootstrap, version=version, topic=name, records=20, transactions=2, timeout=25)
    kinds = {json.loads(line)["kind"] for line in events.read_text().splitlines()}
    assert "transaction_opened" in kinds
    assert "transaction_closed" not in kinds


def test_a_client_of_the_second_bump_is_fenced_by_kip_890_text(name: str) -> None:
    """EndTxn 4 is to it the version that only knows a further error: it does not read the epoch that it is given.

    Where it is told to try again it does not come that far: the id of -1 in that answer is no number of tagged fields.
    """
    with pytest.raises(Failure, match=r"ProducerFencedException|EndTxnResponseData\.read"):
        played("kip-890-text", NEWEST, "txn-offsets", name)


@pytest.mark.builds
@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_franz_go_ends_what_another_one_of_it_has_prepared(outcome: str) -> None:
    """KIP-939: franz-go's producer leaves its transaction open; another client keeps it with InitProducerId 6."""
    with (
        with_toolchains("franz-go"),
        Cluster(brokers=3, dialect="kip-939", topics="orders:1", config=TWO_PHASE) as cluster,
    ):
        program = go_program(HERE / "franz-go-two-phase")
        done = subprocess.run(
            [program, cluster.bootstrap.split(",")[0], "orders", "id", outcome],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
    assert ("", 0) == (done.stderr, done.returncode)
    told = json.loads(done.stdout)
    producer_id, epoch = told["prepared"]
    assert [producer_id, epoch] == told["ongoing"]
    assert [producer_id, epoch + 1] == told["owner"]
    assert (5 if outcome == "commit" else 0) == told["seen"]
