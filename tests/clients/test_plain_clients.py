"""Real clients produce, consume, form groups and administer."""

from collections.abc import Callable

import pytest
from tests.clients.driver import FAMILIES, Result

pytestmark = [pytest.mark.client, pytest.mark.slow]

RECORDS = 100_000
STEPS = 12  # of the admin scenario
NOT_OFFERED = {"aiokafka": {"delete group"}}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produces_idempotently_and_consumes_in_order(
    client: Callable[..., Result], family: str, compression: str
) -> None:
    result = client(family, "produce-consume", records=RECORDS, compression=compression)
    assert {"records": RECORDS} == result.counts


@pytest.mark.parametrize("family", FAMILIES)
def test_a_group_of_two_rebalances_and_resumes(client: Callable[..., Result], family: str) -> None:
    result = client(family, "group", records=3000, partitions=4)
    assert 9005 == result.counts["records"]


@pytest.mark.parametrize("family", FAMILIES)
def test_administers(client: Callable[..., Result], family: str) -> None:
    result = client(family, "admin")
    assert STEPS == len(set(result.counts["steps"]) | NOT_OFFERED.get(family, set()))
