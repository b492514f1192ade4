"""What DescribeConfigs shows."""

from odradek.config.inert_defaults import INERT_DEFAULTS
from odradek.config.keys import Kind
from odradek.config.table import BROKER_KEYS, Config, ConfigSource
from odradek.metadata.describe import (
    Entry,
    Synonym,
    TopicEntries,
    broker_default_entries,
    broker_entries,
    group_entries,
)

TOPIC, BROKER, CLUSTER, STATIC, DEFAULT = 1, 2, 3, 4, 5


def topic(name: str, config: Config | None = None, **overrides: str) -> Entry:
    values = {key.replace("_", "."): value for key, value in overrides.items()}
    return next(entry for entry in TopicEntries(config or Config()).of(values) if entry.name == name)


def of_broker(name: str, config: Config, **facts: str) -> Entry:
    return next(entry for entry in broker_entries(config, facts) if entry.name == name)


def test_a_default() -> None:
    assert Entry(
        "max.message.bytes",
        "1048588",
        ConfigSource.DEFAULT,
        Kind.INT,
        synonyms=(Synonym("message.max.bytes", "1048588", DEFAULT),),
    ) == topic("max.message.bytes")


def test_every_layer_is_a_synonym_the_best_first() -> None:
    config = Config.parse({"message.max.bytes": "1"}).dynamic(
        cluster={"message.max.bytes": "2"}, broker={"message.max.bytes": "3"}
    )

    entry = topic("max.message.bytes", config, max_message_bytes="4")

    assert ("4", TOPIC, False, False) == (entry.value, entry.source, entry.read_only, entry.sensitive)
    assert [("4", TOPIC), ("3", BROKER), ("2", CLUSTER), ("1", STATIC), ("1048588", DEFAULT)] == [
        (synonym.value, synonym.source) for synonym in entry.synonyms
    ]
    assert ("3", BROKER) == (topic("max.message.bytes", config).value, topic("max.message.bytes", config).source)


def test_a_coarser_unit_gives_the_value_but_is_no_synonym() -> None:
    # Kafka drops synonyms up to the key itself, and log.retention.ms has no value.
    entry = topic("retention.ms", Config.parse({"log.retention.hours": "1"}))

    assert ("3600000", DEFAULT, ()) == (entry.value, entry.source, entry.synonyms)


def test_values_are_shown_as_they_are_understood() -> None:
    assert "compact,delete" == topic("cleanup.policy", cleanup_policy="compact, delete").value
    assert "0.5" == topic("min.cleanable.dirty.ratio", min_cleanable_dirty_ratio="0.50").value
    assert "true" == topic("preallocate", preallocate="TRUE").value
    assert "" == topic("cleanup.policy", cleanup_policy="").value


def test_an_internal_key_is_shown_where_it_is_set() -> None:
    assert 37 == len(TopicEntries(Config()).of({}))
    assert "9" == topic("internal.segment.bytes", internal_segment_bytes="9").value
    assert "1073741824" == topic("segment.bytes", internal_segment_bytes="9").value


def test_a_key_of_the_broker() -> None:
    config = Config.parse({"num.partitions": "3"})

    assert Entry(
        "num.partitions",
        "3",
        ConfigSource.STATIC_BROKER,
        Kind.INT,
        read_only=True,
        synonyms=(Synonym("num.partitions", "3", STATIC), Synonym("num.partitions", "1", DEFAULT)),
    ) == of_broker("num.partitions", config)
    assert not of_broker("message.max.bytes", config).read_only


def test_finer_units_come_first_among_the_synonyms_of_a_broker() -> None:
    config = Config.parse({"log.retention.hours": "2"}).dynamic(cluster={"log.retention.ms": "5"}, broker={})

    assert [("log.retention.ms", "5"), ("log.retention.hours", "2"), ("log.retention.hours", "168")] == [
        (synonym.name, synonym.value) for synonym in of_broker("log.retention.ms", config).synonyms
    ]
    assert [("2", STATIC), ("168", DEFAULT)] == [
        (synonym.value, synonym.source) for synonym in of_broker("log.retention.hours", config).synonyms
    ]
    assert (None, ()) == (of_broker("log.roll.ms", config).value, of_broker("log.roll.ms", config).synonyms)


def test_all_keys_are_shown() -> None:
    assert BROKER_KEYS.keys() | INERT_DEFAULTS.keys() == {entry.name for entry in broker_entries(Config(), {})}


def test_a_release_shows_internal_keys_where_they_are_set_and_ours_where_they_are_changed() -> None:
    def shown(config: Config) -> set[str]:
        return {entry.name for entry in broker_entries(config, {})}

    internal, ours = "unstable.api.versions.enable", "odradek.replica.lag.ms"
    plain = Config.parse({"odradek.as.kafka": "4.4", ours: "5"})
    assert {internal, ours, "odradek.as.kafka"} <= shown(Config())
    assert not {internal, ours, "odradek.as.kafka"} & shown(plain)
    assert internal in shown(Config.parse({"odradek.as.kafka": "4.4", internal: "false"}))
    assert ours in shown(plain.dynamic(cluster={}, broker={ours: "7"}))


def test_a_key_that_the_release_does_not_know_is_shown_where_it_is_set_and_not_what_it_is() -> None:
    config = Config.parse({"odradek.as.kafka": "4.3", "group.streams.assignors": "sticky"})

    shown = {entry.name: entry for entry in broker_entries(config, {})}
    assert not {"max.decompressed.message.bytes", "log.remote.copy.lag.ms"} & shown.keys()
    assert (None, True) == (shown["group.streams.assignors"].value, shown["group.streams.assignors"].sensitive)


def test_a_password_is_one_that_may_be_changed_while_it_runs() -> None:
    password = of_broker("ssl.truststore.password", Config.parse({"ssl.truststore.password": "secret"}))

    assert (None, STATIC, Kind.PASSWORD) == (password.value, password.source, password.kind)
    assert (False, True) == (password.read_only, password.sensitive)


def test_facts_and_keys_without_effect_are_read_only_as_in_kafka() -> None:
    config = Config.parse({"num.io.threads": "4", "log.dirs": "/here"})

    fact = of_broker("node.id", config, **{"node.id": "1"})
    changeable = of_broker("listeners", config, listeners="PLAINTEXT://h:1")
    inert = of_broker("log.dirs", config)
    dynamic = of_broker("num.io.threads", config)

    assert ("1", STATIC, Kind.INT, True) == (fact.value, fact.source, fact.kind, fact.read_only)
    assert ("PLAINTEXT://h:1", STATIC, Kind.LIST, False) == (
        changeable.value,
        changeable.source,
        changeable.kind,
        changeable.read_only,
    )
    assert [("PLAINTEXT://h:1", STATIC), ("PLAINTEXT://:9092", DEFAULT)] == [
        (synonym.value, synonym.source) for synonym in changeable.synonyms
    ]
    assert ("/here", STATIC, True, False) == (inert.value, inert.source, inert.read_only, inert.sensitive)
    assert ("4", STATIC, False, False) == (dynamic.value, dynamic.source, dynamic.read_only, dynamic.sensitive)


def test_what_nobody_knows_could_be_secret() -> None:
    config = Config().dynamic(cluster={}, broker={"plug.in.password": "hush"})

    entry = of_broker("plug.in.password", config)

    assert (None, BROKER, 0, True, True) == (entry.value, entry.source, entry.kind, entry.read_only, entry.sensitive)
    assert "hush" not in str(broker_default_entries({"plug.in.password": "hush"}))


def test_passwords_are_never_shown() -> None:
    passwords = ["ssl.key.password", "sasl.jaas.config", "ssl.keystore.key", "delegation.token.secret.key"]
    config = Config.parse(dict.fromkeys(passwords, "hush"))

    assert [(None, True)] * 4 == [
        (of_broker(name, config).value, of_broker(name, config).sensitive) for name in passwords
    ]


def test_a_key_of_a_listener_is_known_by_the_key_for_all_of_them() -> None:
    texts = {
        "listener.name.internal.ssl.truststore.type": "PKCS12",
        "listener.name.internal.ssl.truststore.password": "hush",
    }
    entries = {entry.name: entry for entry in broker_entries(Config().dynamic(cluster={}, broker=texts), {})}
    kind, secret = (entries[name] for name in texts)
    assert (kind.value, kind.kind, kind.sensitive, kind.read_only) == ("PKCS12", Kind.STRING, False, True)
    assert [(each.name, each.value) for each in kind.synonyms] == [
        ("listener.name.internal.ssl.truststore.type", "PKCS12"),
        ("ssl.truststore.type", "JKS"),
    ]
    assert (secret.value, secret.kind, secret.sensitive) == (None, Kind.PASSWORD, True)


def test_the_defaults_of_the_cluster() -> None:
    assert [
        Entry(
            "log.retention.ms",
            "5",
            ConfigSource.DYNAMIC_DEFAULT_BROKER,
            Kind.LONG,
            synonyms=(Synonym("log.retention.ms", "5", CLUSTER),),
        )
    ] == broker_default_entries({"log.retention.ms": "5"})


def test_a_group() -> None:
    entries = {entry.name: entry for entry in group_entries({"consumer.session.timeout.ms": "46000"}, Config())}

    session, heartbeat = entries["consumer.session.timeout.ms"], entries["consumer.heartbeat.interval.ms"]
    assert ("46000", ConfigSource.GROUP) == (session.value, session.source)
    assert [("consumer.session.timeout.ms", "46000"), ("group.consumer.session.timeout.ms", "45000")] == [
        (synonym.name, synonym.value) for synonym in session.synonyms
    ]
    assert ("5000", DEFAULT) == (heartbeat.value, heartbeat.source)


def test_the_first_version_knows_only_defaults() -> None:
    assert topic("retention.ms").is_default
    assert not topic("retention.ms", retention_ms="5").is_default
