"""Real clients send compressed batches, idempotently, and read them back; the other scenarios are the matrix's."""

from collections.abc import Callable

import pytest
from tests.clients.driver import Result
from tests.clients.matrix.expectations import families_that_play

pytestmark = [pytest.mark.client, pytest.mark.slow]

RECORDS = 30_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Codecs that a client does not bring with it.
NOT_OFFERED: dict[str, set[str]] = {}


@pytest.mark.parametrize(
    ("family", "codec"),
    [
        (family, codec)
        for family in families_that_play("idempotent")
        for codec in CODECS
        if codec not in NOT_OFFERED.get(family, ())
    ],
)
def test_records_come_back_in_order(client: Callable[..., Result], family: str, codec: str) -> None:
    result = client(family, "idempotent", records=RECORDS, compression=codec)
    assert {"records": RECORDS} == result.counts
