"""Real clients commit, abort, send offsets in transactions, are fenced and time out."""

from collections.abc import Callable

import pytest
from tests.clients.driver import FAMILIES, Result

pytestmark = [pytest.mark.client, pytest.mark.slow]

END_TXN = 26
RECORDS_PER_TRANSACTION = 10
CLIENTS = [*FAMILIES, "java 3.6.2"]  # the last one has every transaction verified by its coordinator (KIP-890 part 1)


@pytest.fixture(autouse=True)
def _broker_has_transactions(advertised: set[int]) -> None:
    if END_TXN not in advertised:
        pytest.skip("the broker does not offer transactions")


@pytest.mark.parametrize("family", CLIENTS)
def test_commits_and_aborts(client: Callable[..., Result], family: str) -> None:
    result = client(family, "transactions", transactions=20)
    assert 11 * RECORDS_PER_TRANSACTION == result.counts["committed_records"]


@pytest.mark.parametrize("family", CLIENTS)
def test_sends_offsets_in_the_transaction(client: Callable[..., Result], family: str) -> None:
    result = client(family, "txn-offsets", records=1000)
    assert 1000 == result.counts["records"]
    assert result.counts["aborted"] > 0


@pytest.mark.parametrize("family", CLIENTS)
def test_a_zombie_is_fenced(client: Callable[..., Result], family: str) -> None:
    assert client(family, "zombie").counts["fenced"]


@pytest.mark.parametrize("family", CLIENTS)
def test_a_transaction_times_out(client: Callable[..., Result], family: str) -> None:
    assert client(family, "txn-timeout").counts["refused"]
