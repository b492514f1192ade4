"""What a topic may be configured with; texts are those of a real broker."""

import pytest

from odradek.config.table import Config
from odradek.metadata.topic_configs import invalid_topic_configs
from odradek.wire.errors import ErrorCode


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"retention.ms": "-1", "cleanup.policy": "compact,delete"},
        {"cleanup.policy": ""},
        {"cleanup.policy": "compact,compact"},
        {"preallocate": "TRUE", "min.cleanable.dirty.ratio": "0.50", "retention.ms": " 5 "},
        {"follower.replication.throttled.replicas": "*", "leader.replication.throttled.replicas": "0:1,1:2"},
        {"internal.segment.bytes": "100"},
        {"max.compaction.lag.ms": "1"},
        {"remote.storage.enable": "false"},
    ],
)
def test_permitted(overrides: dict[str, str | None]) -> None:
    assert invalid_topic_configs(overrides, Config()) is None


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"nope": "1"}, "Unknown topic config name: nope"),
        ({"a": None, "retention.ms": "x", "b": None}, "Null value not supported for topic configs: a,b"),
        ({"segment.bytes": "10"}, "Invalid value 10 for configuration segment.bytes: Value must be at least 1048576"),
        (
            {"cleanup.policy": "foo"},
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            {"preallocate": "maybe"},
            "Invalid value maybe for configuration preallocate: Expected value to be either true or false",
        ),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
    ],
)
def test_refused(overrides: dict[str, str | None], message: str) -> None:
    failure = invalid_topic_configs(overrides, Config())

    assert failure is not None
    assert (ErrorCode.INVALID_CONFIG, message) == (failure.error, failure.message)


def test_lags_may_contradict_what_the_broker_says() -> None:
    broker = Config.parse({"log.cleaner.min.compaction.lag.ms": "100"})

    assert invalid_topic_configs({"max.compaction.lag.ms": "5"}, broker) is not None
    assert invalid_topic_configs({"max.compaction.lag.ms": "5", "min.compaction.lag.ms": "0"}, broker) is None
