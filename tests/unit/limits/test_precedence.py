"""Which limit counts for whom: all 256 sets of entities, held to Kafka's own `ClientQuotaManager`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from odradek.limits.precedence import Limits
from odradek.metadata.image import CLIENT_ID, USER, QuotaEntity

KEY = "producer_byte_rate"
SETS = json.loads((Path(__file__).parent / "precedence_of_kafka.json").read_text())
"""By set of entities, one bit for each: for each of `ASKED`, whose use is counted together, and the limit."""
ENTITIES: tuple[QuotaEntity, ...] = (
    ((USER, "u"),),
    ((USER, None),),
    ((CLIENT_ID, "c"),),
    ((CLIENT_ID, None),),
    ((CLIENT_ID, "c"), (USER, "u")),
    ((CLIENT_ID, None), (USER, "u")),
    ((CLIENT_ID, "c"), (USER, None)),
    ((CLIENT_ID, None), (USER, None)),
)
ASKED = (("u", "c"), ("u", "d"), ("v", "c"), ("v", "d"), ("u", ""), ("v", ""))


def limits(chosen: int, key: str = KEY) -> Limits:
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = {
        entity: {key: 100.0 + number} for number, entity in enumerate(ENTITIES) if chosen >> number & 1
    }
    return Limits(quotas, KEY)


@pytest.mark.parametrize("chosen", range(256))
def test_as_kafka_chooses_it(chosen: int) -> None:
    found = []
    made = limits(chosen)
    for user, client_id in ASKED:
        sharers = made.sharers(user, client_id)
        found.append([*sharers, made.of(sharers)])
    assert SETS[chosen] == found


def test_other_keys_and_addresses_count_for_nobody() -> None:
    assert not limits(255, "consumer_byte_rate")
    assert not Limits({(("ip", "10.0.0.7"),): {KEY: 1.0}}, KEY)
