"""Keys, values, precedence and defaults."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import odradek
from odradek.config.keys import BadValue, Kind, Scope, name_of, text_of
from odradek.config.table import BROKER_KEYS, TOPIC_KEYS, Config, ConfigError, ConfigSource, TopicConfig
from odradek.config.without_effect import INERT_DYNAMIC_KEYS, INERT_KEYS, NOMINAL_KEYS

HOUR_MS = 3_600_000
SOURCES = Path(odradek.__file__).parent


def test_defaults_are_kafkas() -> None:
    config = Config.parse({})

    assert 1_048_588 == config.message_max_bytes
    assert 104_857_600 == config.socket_request_max_bytes
    assert 600_000 == config.connections_max_idle_ms
    assert 50 == config.offsets_topic_num_partitions
    assert 900_000 == config.transaction_max_timeout_ms
    assert ("delete",) == config.log_cleanup_policy
    assert config.log_retention_ms is None


@pytest.mark.parametrize(
    ("brokers", "given", "factor"),
    [(1, None, 1), (2, None, 2), (3, None, 3), (9, None, 3), (3, "1", 1), (3, "2", 2), (1, "3", 3)],
)
def test_several_brokers_mean_several_replicas_unless_a_number_is_given(
    brokers: int, given: str | None, factor: int
) -> None:
    texts = {"num.partitions": "7"} | ({} if given is None else {"default.replication.factor": given})
    config = Config.parse(texts).for_brokers(brokers)

    assert (factor, 7) == (config.default_replication_factor, config.num_partitions)
    assert (config.layers == Config.parse(texts).layers) is (given is not None or brokers == 1), "told twice"
    dynamic = config.dynamic(cluster={"message.max.bytes": "9"}, broker={})
    assert (factor, 9) == (dynamic.default_replication_factor, dynamic.message_max_bytes)


def test_a_new_group_does_not_wait() -> None:
    assert 0 == Config.parse({}).group_initial_rebalance_delay_ms


def test_our_own_keys_have_a_prefix() -> None:
    config = Config.parse({"odradek.log.memory.bytes.max": "2000000", "odradek.strict.replication": "true"})

    assert 2_000_000 == config.odradek_log_memory_bytes_max
    assert config.odradek_strict_replication is True


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("num.partitions", " 7 ", 7),
        ("message.max.bytes", "+5", 5),
        ("log.retention.ms", "-1", -1),
        ("auto.create.topics.enable", "FALSE", False),
        ("log.cleanup.policy", "compact, delete", ("compact", "delete")),
        ("log.cleanup.policy", "compact,compact", ("compact",)),
        ("log.cleanup.policy", "", ()),
        ("log.cleaner.min.cleanable.ratio", "0.25", 0.25),
        ("group.consumer.migration.policy", "UPGRADE", "UPGRADE"),
        ("broker.rack", "r1", "r1"),
    ],
)
def test_a_value_is_parsed(name: str, text: str, value: object) -> None:
    assert value == getattr(Config.parse({name: text}), name.replace(".", "_"))


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("num.partitions", "x", "Invalid value x for configuration num.partitions: Not a number of type INT."),
        ("num.partitions", "0", "Invalid value 0 for configuration num.partitions: Value must be at least 1."),
        (
            "num.partitions",
            "2147483648",
            "Invalid value 2147483648 for configuration num.partitions: Not a number of type INT.",
        ),
        ("log.roll.ms", "1_000", "Invalid value 1_000 for configuration log.roll.ms: Not a number of type LONG."),
        (
            "auto.create.topics.enable",
            "yes",
            "Invalid value yes for configuration auto.create.topics.enable: Expected value to be either true or false.",
        ),
        (
            "log.cleanup.policy",
            "delete,shred",
            "Invalid value shred for configuration log.cleanup.policy: String must be one of: compact, delete.",
        ),
        (
            "log.cleaner.min.cleanable.ratio",
            "1.5",
            "Invalid value 1.5 for configuration log.cleaner.min.cleanable.ratio: Value must be no more than 1.",
        ),
        (
            "log.cleaner.min.cleanable.ratio",
            "much",
            "Invalid value much for configuration log.cleaner.min.cleanable.ratio: Not a number of type DOUBLE.",
        ),
        (
            "log.retention.hours",
            "0",
            "Invalid value 0 for configuration log.retention.hours: Value must be -1 (unlimited) or at least 1.",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1.",
        ),
        (
            "group.consumer.migration.policy",
            "sideways",
            (
                "Invalid value sideways for configuration group.consumer.migration.policy: String must be one of "
                "(case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL."
            ),
        ),
        ("num.partition", "1", "Unknown configuration key num.partition; did you mean num.partitions?"),
        ("quite.something.else.altogether", "1", "Unknown configuration key quite.something.else.altogether."),
    ],
)
def test_a_bad_setting_is_one_clear_sentence(name: str, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Config.parse({name: text})

    assert sentence == str(raised.value)


def test_keys_without_effect_are_accepted_and_named() -> None:
    config = Config.parse({"num.io.threads": "4", "log.preallocate": "true", "num.partitions": "3"})

    assert ["log.preallocate", "num.io.threads"] == config.without_effect


def test_the_lists_of_keys_fit_together() -> None:
    assert not INERT_KEYS & BROKER_KEYS.keys()
    assert BROKER_KEYS.keys() >= NOMINAL_KEYS
    assert INERT_KEYS >= INERT_DYNAMIC_KEYS


def test_every_default_is_permitted() -> None:
    keys = [key for key in (*BROKER_KEYS.values(), *TOPIC_KEYS.values()) if text_of(key.default) is not None]
    assert [(key.name, key.default) for key in keys] == [
        (key.name, key.parse(text_of(key.default) or "")) for key in keys
    ]


def test_a_dynamic_value_wins_over_a_static_one() -> None:
    config = Config.parse({"message.max.bytes": "100", "log.roll.ms": "5"})

    dynamic = config.dynamic(
        cluster={"message.max.bytes": "200", "log.retention.ms": "9"}, broker={"message.max.bytes": "300"}
    )

    assert (300, 9, 5) == (dynamic.message_max_bytes, dynamic.log_retention_ms, dynamic.log_roll_ms)
    assert [ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER, ConfigSource.STATIC_BROKER] == [
        source for source, _ in dynamic.layers
    ]


def test_dynamic_values_are_replaced_as_a_whole() -> None:
    config = Config.parse({"message.max.bytes": "100"})

    again = config.dynamic(cluster={"message.max.bytes": "200"}, broker={}).dynamic(cluster={}, broker={})

    assert 100 == again.message_max_bytes
    assert config == again


def test_a_topic_inherits_from_the_broker() -> None:
    config = Config.parse({"message.max.bytes": "77", "log.cleanup.policy": "compact", "min.insync.replicas": "2"})

    topic = TopicConfig.resolve({}, config)

    assert (77, ("compact",), 2) == (topic.max_message_bytes, topic.cleanup_policy, topic.min_insync_replicas)
    assert topic.compacts
    assert not topic.deletes


def test_a_topic_override_wins() -> None:
    topic = TopicConfig.resolve({"max.message.bytes": "5"}, Config.parse({"message.max.bytes": "77"}))

    assert 5 == topic.max_message_bytes


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-1"}, -1),
    ],
)
def test_retention_by_the_finest_unit(settings: dict[str, str], retention_ms: int) -> None:
    assert retention_ms == TopicConfig.resolve({}, Config.parse(settings)).retention_ms


def test_segments_below_the_public_minimum() -> None:
    assert 1000 == TopicConfig.resolve({"internal.segment.bytes": "1000"}, Config()).segment_bytes


@given(st.text(max_size=12), st.sampled_from([*BROKER_KEYS.values(), *TOPIC_KEYS.values()]))
def test_any_text_is_a_value_or_a_bad_one(text: str, key) -> None:  # type: ignore[no-untyped-def]
    try:
        value = key.parse(text)
    except BadValue:
        return
    shown = text_of(value)
    assert shown is not None
    assert value == key.parse(shown)


def test_scopes_are_kafkas() -> None:
    assert BROKER_KEYS["message.max.bytes"].rule.scope is Scope.CLUSTER_WIDE
    assert BROKER_KEYS["num.partitions"].rule.scope is Scope.READ_ONLY
    assert BROKER_KEYS["log.retention.hours"].rule.kind is Kind.INT


def test_a_key_is_used_or_said_to_be_without_effect() -> None:
    text = "\n".join(path.read_text() for path in SOURCES.rglob("*.py") if path.parent.name != "config")
    used = {key.name for key in BROKER_KEYS.values() if f".{key.attribute}" in text}
    # Everybody else asks for what follows from these: `config.release`, `config.verifies_records`.
    assert ".verifies_records" in text
    used |= {"odradek.as.kafka", "transaction.partition.verification.enable", "unstable.feature.versions.enable"}
    for key in TOPIC_KEYS.values():
        if f".{key.attribute}" in text or key.name == "cleanup.policy":
            used |= {name_of(synonym) for synonym in key.rule.synonyms}

    unused = BROKER_KEYS.keys() - used

    assert unused - NOMINAL_KEYS == set(), "a setting that nobody reads: use it, or list it in without_effect.py"
    assert NOMINAL_KEYS - unused == set(), "a setting that is used: take it out of without_effect.py"


def test_a_topics_settings_are_written_down_and_read() -> None:
    """As in a snapshot and in the beginning of a recording."""
    config = TopicConfig(cleanup_policy=("compact", "delete"), retention_ms=5)
    assert config == msgspec.msgpack.decode(msgspec.msgpack.encode(config), type=TopicConfig)
