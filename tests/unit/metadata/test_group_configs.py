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


@pytest.mark.parametrize(
    ("values", "newest", "before"),
    [
        (
            {"consumer.session.timeout.ms": "1"},
            "in the range 1000 to 60000 inclusive.",
            "greater than or equal to {min}",
        ),
        (
            {"consumer.session.timeout.ms": "60001"},
            "in the range 1000 to 60000 inclusive.",
            "less than or equal to {max}",
        ),
        ({"consumer.session.timeout.ms": "1000"}, None, None),
    ],
)
def test_a_value_out_of_range_as_4_4_and_4_3(values: dict[str, str], newest: str | None, before: str | None) -> None:
    narrow = {"group.consumer.min.session.timeout.ms": "1000", "group.consumer.heartbeat.interval.ms": "999"}
    bounds = {edge: f"group.consumer.{edge}.session.timeout.ms" for edge in ("min", "max")}
    for release, words in (("4.4", newest), ("4.3", before)):
        complaint = invalid_group_configs(values, Config.parse({**narrow, "odradek.as.kafka": release}))
        expected = None if words is None else f"consumer.session.timeout.ms must be {words.format(**bounds)}"
        assert expected == complaint


def test_a_group_of_4_3_has_no_key_that_came_later() -> None:
    values = {"streams.assignor.name": "sticky"}

    assert invalid_group_configs(values, Config.parse({})) is None
    complaint = invalid_group_configs(values, Config.parse({"odradek.as.kafka": "4.3"}))
    assert complaint == "Unknown group config name: streams.assignor.name"


def test_a_group_begins_with_what_the_broker_has() -> None:
    config = Config.parse({"group.streams.num.standby.replicas": "2"})

    assert "2" == default_text(GROUP_KEYS["streams.num.standby.replicas"], config)
    assert "sticky" == default_text(GROUP_KEYS["streams.assignor.name"], config)
    assert "latest" == default_text(GROUP_KEYS["share.auto.offset.reset"], config)
