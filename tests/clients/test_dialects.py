"""Real clients, which speak no dialect, with their plain transactions against brokers that do."""

from __future__ import annotations

import pytest
from tests.clients.driver import Failure, play
from tests.clients.lacking import with_toolchains

from odradek.testing import Cluster

pytestmark = [pytest.mark.client, pytest.mark.slow]

OLDER = [("java", "3.6.2"), ("confluent-kafka", "2.16.1"), ("kafka-python", "3.0.12")]
NEWEST = ("java", "4.4.0")
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


def test_a_client_of_the_second_bump_is_fenced_by_kip_890_text(name: str) -> None:
    """EndTxn 4 is to it the version that only knows a further error: it does not read the epoch that it is given."""
    with pytest.raises(Failure, match="ProducerFencedException"):
        played("kip-890-text", NEWEST, "txn-offsets", name)
