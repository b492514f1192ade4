"""What a group may set: sentences of Kafka, as far as the recorded scenarios (`tests/oracle`) do not get there."""

from __future__ import annotations

import pytest

from odradek.config.table import Config
from odradek.metadata.group_configs import GROUP_KEYS, default_text, invalid_group_configs

NARROW = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.max.heartbeat.interval.ms": "60000",
    "group.streams.max.standby.replicas": "0",
}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({}, None),
        (
            {"consumer.session.timeout.ms": "5000"},
            "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms",
        ),
        ({"consumer.session.timeout.ms": "5001"}, None),
        (
            {"consumer.heartbeat.interval.ms": "45000"},
            "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms",
        ),
        ({"streams.num.standby.replicas": "1"}, "streams.num.standby.replicas must be less than or equal to 0"),
        ({"streams.rack.aware.assignment.tags": "a, b"}, None),
        ({"streams.acceptable.recovery.lag": "5000000000"}, None),
        ({"share.no.such": "1"}, "Unknown group config name: share.no.such"),
    ],
)
def test_what_a_group_may_set(values: dict[str, str], complaint: str | None) -> None:
    assert complaint == invalid_group_configs(values, Config.parse(NARROW))


def test_a_group_begins_with_what_the_broker_has() -> None:
    config = Config.parse({"group.streams.num.standby.replicas": "2"})

    assert "2" == default_text(GROUP_KEYS["streams.num.standby.replicas"], config)
    assert "sticky" == default_text(GROUP_KEYS["streams.assignor.name"], config)
    assert "latest" == default_text(GROUP_KEYS["share.auto.offset.reset"], config)
