"""The configuration: `Config` of a broker and `TopicConfig` of a topic, with Kafka's names and defaults.

An attribute is Kafka's key in snake case (`config.message_max_bytes`); its line has type, default and range. Keys of
Odradek begin with `odradek.`. The order of precedence is Kafka's (KIP-226): value of the topic, dynamic value of the
broker, dynamic default of the cluster, static value, default.
"""

from collections.abc import Mapping
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from odradek.config.addresses import parse_overrides
from odradek.config.keys import (
    INT_MAX,
    LONG_MAX,
    Annotated,
    BadValue,
    ConfigSource,
    Key,
    Kind,
    Scope,
    Value,
    boolean,
    choices,
    choices_any_case,
    double,
    gzip_level,
    integer,
    keys_of,
    listing,
    long,
    short,
    string,
    throttled_replicas,
    unlimited_or_positive,
    value_of,
)
from odradek.config.security import KEYS as SECURITY_KEYS
from odradek.config.security import LISTENER_PREFIX, SecurityConfig, is_listener_key, key_of
from odradek.config.share import ShareConfig
from odradek.config.without_effect import INERT_KEYS, NOMINAL_KEYS
from odradek.releases.release import Release
from odradek.releases.table import FEATURES, RELEASES, WIDEST, release_of

__all__ = ["BROKER_KEYS", "TOPIC_KEYS", "Config", "ConfigError", "ConfigSource", "TopicConfig", "inherited"]

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
CLUSTER = Scope.CLUSTER_WIDE
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
_AS_KAFKA = "odradek.as.kafka"
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The class of Kafka's selector that directs consumers to a replica in their rack (KIP-392)."""
_RACK = "broker.rack"
_LEADER = "org.apache.kafka.common.replica.LeaderSelector"
_REPLICATION_FACTOR = "default.replication.factor"
_INITIAL_DELAY = "group.initial.rebalance.delay.ms"
_REPLICAS = 3
"""The assumed number of replicas in production clusters, for defaults here."""
_DECOMPRESSED_MAX = 2_147_483_639


class ConfigError(ValueError):
    """A configuration that cannot be used; the text is one clear sentence for its author."""


class Config(ShareConfig, frozen=True, kw_only=True):
    """The configuration of one broker."""

    layers: tuple[tuple[ConfigSource, Mapping[str, str]], ...] = ()
    """The texts from which the configuration was made, in order of precedence."""
    release: Release = WIDEST
    """The release of Kafka, or the dialect; it is not a key."""

    # connections and requests
    socket_request_max_bytes: Annotated[int, integer(1)] = 104_857_600
    socket_listen_backlog_size: Annotated[int, integer(1)] = 50
    connections_max_idle_ms: Annotated[int, long()] = 600_000
    max_connections: Annotated[int, integer(0, scope=CLUSTER)] = INT_MAX
    max_connections_per_ip: Annotated[int, integer(0, scope=CLUSTER)] = INT_MAX
    max_connections_per_ip_overrides: Annotated[str, string(CLUSTER)] = ""
    max_connection_creation_rate: Annotated[int, integer(0, scope=CLUSTER)] = INT_MAX
    queued_max_requests: Annotated[int, integer(1)] = 500
    queued_max_request_bytes: Annotated[int, long()] = -1
    quota_window_num: Annotated[int, integer(1)] = 11
    quota_window_size_seconds: Annotated[int, integer(1)] = 1
    controller_quota_window_num: Annotated[int, integer(1)] = 11
    controller_quota_window_size_seconds: Annotated[int, integer(1)] = 1
    telemetry_max_bytes: Annotated[int, integer(1)] = 1_048_576
    request_timeout_ms: Annotated[int, integer()] = 30_000
    unstable_api_versions_enable: Annotated[bool, boolean()] = False
    unstable_feature_versions_enable: Annotated[bool, boolean()] = False
    broker_rack: Annotated[str | None, string()] = None

    # produce and fetch
    message_max_bytes: Annotated[int, integer(0, scope=CLUSTER)] = 1_048_588
    max_decompressed_message_bytes: Annotated[int, integer(1, _DECOMPRESSED_MAX, CLUSTER)] = _DECOMPRESSED_MAX
    fetch_max_bytes: Annotated[int, integer(1024)] = 57_671_680
    max_incremental_fetch_session_cache_slots: Annotated[int, integer(0)] = 1000
    max_request_partition_size_limit: Annotated[int, integer(1)] = 2000
    compression_type: Annotated[str, choices(*_CODECS, scope=CLUSTER)] = "producer"
    compression_gzip_level: Annotated[int, gzip_level(CLUSTER)] = -1
    compression_lz4_level: Annotated[int, integer(1, 17, CLUSTER)] = 9
    compression_zstd_level: Annotated[int, integer(-131_072, 22, CLUSTER)] = 3

    # topics
    num_partitions: Annotated[int, integer(1)] = 1
    default_replication_factor: Annotated[int, integer()] = 1
    min_insync_replicas: Annotated[int, integer(1, scope=CLUSTER)] = 1
    auto_create_topics_enable: Annotated[bool, boolean()] = True
    delete_topic_enable: Annotated[bool, boolean()] = True
    unclean_leader_election_enable: Annotated[bool, boolean(CLUSTER)] = False
    unclean_leader_election_interval_ms: Annotated[int, long(1)] = 300_000
    replica_lag_time_max_ms: Annotated[int, long()] = 30_000
    replica_selector_class: Annotated[str | None, choices(RACK_AWARE, _LEADER)] = None

    # logs
    log_cleanup_policy: Annotated[tuple[str, ...], listing("compact", "delete", scope=CLUSTER)] = ("delete",)
    log_cleaner_enable: Annotated[bool, boolean()] = True
    log_cleaner_backoff_ms: Annotated[int, long(0, scope=CLUSTER)] = 15_000
    log_cleaner_delete_retention_ms: Annotated[int, long(0, scope=CLUSTER)] = 86_400_000
    log_cleaner_min_compaction_lag_ms: Annotated[int, long(0, scope=CLUSTER)] = 0
    log_cleaner_max_compaction_lag_ms: Annotated[int, long(1, scope=CLUSTER)] = LONG_MAX
    log_cleaner_min_cleanable_ratio: Annotated[float, double(0, 1, CLUSTER)] = 0.5
    log_retention_bytes: Annotated[int, long(scope=CLUSTER)] = -1
    log_retention_ms: Annotated[int | None, unlimited_or_positive(Kind.LONG, CLUSTER)] = None
    log_retention_minutes: Annotated[int | None, unlimited_or_positive(Kind.INT)] = None
    log_retention_hours: Annotated[int, unlimited_or_positive(Kind.INT)] = 168
    log_retention_check_interval_ms: Annotated[int, long(1)] = 300_000
    log_roll_ms: Annotated[int | None, long(1, scope=CLUSTER)] = None
    log_roll_hours: Annotated[int, integer(1)] = 168
    log_roll_jitter_ms: Annotated[int | None, long(0, scope=CLUSTER)] = None
    log_roll_jitter_hours: Annotated[int, integer(0)] = 0
    log_segment_bytes: Annotated[int, integer(1_048_576, scope=CLUSTER)] = 1_073_741_824
    log_segment_delete_delay_ms: Annotated[int, long(0, scope=CLUSTER)] = 60_000
    log_message_timestamp_type: Annotated[str, choices(*_TIMESTAMP_TYPES, scope=CLUSTER)] = "CreateTime"
    log_message_timestamp_before_max_ms: Annotated[int, long(0, scope=CLUSTER)] = LONG_MAX
    log_message_timestamp_after_max_ms: Annotated[int, long(0, scope=CLUSTER)] = HOUR_MS
    log_index_interval_bytes: Annotated[int, integer(0, scope=CLUSTER)] = 4096
    log_index_size_max_bytes: Annotated[int, integer(4, scope=CLUSTER)] = 10_485_760
    log_flush_interval_messages: Annotated[int, long(1, scope=CLUSTER)] = LONG_MAX
    log_flush_interval_ms: Annotated[int | None, long(scope=CLUSTER)] = None
    log_flush_scheduler_interval_ms: Annotated[int, long()] = LONG_MAX
    log_preallocate: Annotated[bool, boolean(CLUSTER)] = False
    log_local_retention_bytes: Annotated[int, long(-2, scope=CLUSTER)] = -2
    log_local_retention_ms: Annotated[int, long(-2, scope=CLUSTER)] = -2
    log_remote_copy_lag_bytes: Annotated[int, long(-1, scope=CLUSTER)] = -1
    log_remote_copy_lag_ms: Annotated[int, long(-1, scope=CLUSTER)] = 0

    # committed offsets
    offset_metadata_max_bytes: Annotated[int, integer()] = 4096
    offsets_commit_timeout_ms: Annotated[int, integer(1)] = 5000
    offsets_retention_minutes: Annotated[int, integer(1)] = 10_080
    offsets_retention_check_interval_ms: Annotated[int, long(1)] = 600_000
    offsets_topic_num_partitions: Annotated[int, integer(1)] = 50
    offsets_topic_replication_factor: Annotated[int, short(1)] = 3
    offsets_topic_segment_bytes: Annotated[int, integer(1)] = 104_857_600
    offsets_topic_compression_codec: Annotated[int, integer(0, 4)] = 0

    # groups Kafka's list also has "streams" and "share"; it names only protocols that are served.
    group_coordinator_rebalance_protocols: Annotated[
        tuple[str, ...], listing("consumer", "classic", "share", "streams")
    ] = ("classic", "consumer", "streams")
    # Kafka waits 3000 ms for more members of a new group; tests should not wait that long.
    group_initial_rebalance_delay_ms: Annotated[int, integer(0)] = 0
    group_min_session_timeout_ms: Annotated[int, integer()] = 6000
    group_max_session_timeout_ms: Annotated[int, integer()] = 1_800_000
    group_max_size: Annotated[int, integer(1)] = INT_MAX
    group_consumer_assignors: Annotated[tuple[str, ...], listing("uniform", "range")] = ("uniform", "range")
    group_consumer_migration_policy: Annotated[
        str, choices_any_case("disabled", "downgrade", "upgrade", "bidirectional")
    ] = "bidirectional"
    group_consumer_max_size: Annotated[int, integer(1)] = INT_MAX
    group_consumer_heartbeat_interval_ms: Annotated[int, integer(1)] = 5000
    group_consumer_min_heartbeat_interval_ms: Annotated[int, integer(1)] = 5000
    group_consumer_max_heartbeat_interval_ms: Annotated[int, integer(1)] = 15_000
    group_consumer_session_timeout_ms: Annotated[int, integer(1)] = 45_000
    group_consumer_min_session_timeout_ms: Annotated[int, integer(1)] = 45_000
    group_consumer_max_session_timeout_ms: Annotated[int, integer(1)] = 60_000
    group_consumer_assignment_interval_ms: Annotated[int, integer(0, scope=CLUSTER)] = 1000
    group_consumer_min_assignment_interval_ms: Annotated[int, integer(0)] = 0
    group_consumer_max_assignment_interval_ms: Annotated[int, integer(0)] = 15_000
    group_consumer_regex_refresh_interval_ms: Annotated[int, integer(10_000)] = 600_000
    group_streams_assignors: Annotated[tuple[str, ...], listing("sticky")] = ("sticky",)
    group_streams_max_size: Annotated[int, integer(1)] = INT_MAX
    group_streams_heartbeat_interval_ms: Annotated[int, integer(1)] = 5000
    group_streams_min_heartbeat_interval_ms: Annotated[int, integer(1)] = 5000
    group_streams_max_heartbeat_interval_ms: Annotated[int, integer(1)] = 15_000
    group_streams_session_timeout_ms: Annotated[int, integer(1)] = 45_000
    group_streams_min_session_timeout_ms: Annotated[int, integer(1)] = 45_000
    group_streams_max_session_timeout_ms: Annotated[int, integer(1)] = 60_000
    group_streams_assignment_interval_ms: Annotated[int, integer(0, scope=CLUSTER)] = 1000
    group_streams_min_assignment_interval_ms: Annotated[int, integer(0)] = 0
    group_streams_max_assignment_interval_ms: Annotated[int, integer(0)] = 15_000
    # Kafka waits 3000 ms for more members of a new group; tests should not wait that long.
    group_streams_initial_rebalance_delay_ms: Annotated[int, integer(0)] = 0
    group_streams_num_standby_replicas: Annotated[int, integer(0)] = 0
    group_streams_max_standby_replicas: Annotated[int, integer(0)] = 2
    group_streams_rack_aware_assignment_tags: Annotated[tuple[str, ...], listing()] = ()
    group_streams_task_offset_interval_ms: Annotated[int, integer(1)] = 60_000
    group_streams_min_task_offset_interval_ms: Annotated[int, integer(1)] = 15_000
    group_streams_acceptable_recovery_lag: Annotated[int, long(0)] = 10_000

    # producers and transactions
    producer_id_expiration_ms: Annotated[int, integer(1, scope=CLUSTER)] = 86_400_000
    producer_id_expiration_check_interval_ms: Annotated[int, integer(1)] = 600_000
    transactional_id_expiration_ms: Annotated[int, integer(1)] = 604_800_000
    transaction_max_timeout_ms: Annotated[int, integer(1)] = 900_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: Annotated[int, integer(1)] = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: Annotated[int, integer(1)] = HOUR_MS
    transaction_partition_verification_enable: Annotated[bool, boolean(CLUSTER)] = True
    transaction_two_phase_commit_enable: Annotated[bool, boolean()] = False
    transaction_state_log_num_partitions: Annotated[int, integer(1)] = 50
    transaction_state_log_replication_factor: Annotated[int, short(1)] = 3
    transaction_state_log_min_isr: Annotated[int, integer(1)] = 2
    transaction_state_log_segment_bytes: Annotated[int, integer(1)] = 104_857_600
    add_partitions_to_txn_retry_backoff_ms: Annotated[int, integer(1)] = 20
    add_partitions_to_txn_retry_backoff_max_ms: Annotated[int, integer(0)] = 100

    # the metadata log
    broker_session_timeout_ms: Annotated[int, integer()] = 9000
    broker_heartbeat_interval_ms: Annotated[int, integer()] = 2000
    metadata_max_idle_interval_ms: Annotated[int, integer(0)] = 500
    metadata_log_segment_bytes: Annotated[int, integer(8_388_608)] = 1_073_741_824
    metadata_log_segment_ms: Annotated[int, long()] = 604_800_000
    metadata_max_retention_bytes: Annotated[int, long()] = 104_857_600
    metadata_max_retention_ms: Annotated[int, long()] = 604_800_000
    metadata_log_max_record_bytes_between_snapshots: Annotated[int, long(1)] = 20_971_520
    metadata_log_max_snapshot_interval_ms: Annotated[int, long(0)] = HOUR_MS

    # our own
    odradek_as_kafka: Annotated[str | None, choices(*RELEASES)] = None
    """The release of Kafka. Without one it is the newest, and requests of older clients are served too."""
    odradek_log_memory_bytes_max: Annotated[int, long(1_048_576)] = 2 * 1024**3
    """Memory for all logs of the process; when it is full, the oldest segments are dropped first."""
    odradek_internal_topics_at_start: Annotated[bool, boolean()] = True
    """Create the coordinators' topics at the start, as in a used cluster; else the first request waits for them."""
    odradek_auto_created_topics_at_once: Annotated[bool, boolean()] = True
    """Create a missing topic before Metadata is answered; Kafka first answers UNKNOWN_TOPIC_OR_PARTITION."""
    odradek_fetch_yields: Annotated[bool, boolean()] = True
    """Whether a Fetch that waits is answered early: its connection has another request, or is about to read more."""
    odradek_strict_replication: Annotated[bool, boolean()] = False
    """Refuse a replication factor above the number of brokers, as Kafka does."""
    odradek_replica_lag_ms: Annotated[int, long(-1, scope=CLUSTER)] = 0
    """The time after which the followers on a broker acknowledge records of their leaders, in ms; -1: never."""
    odradek_telemetry: Annotated[bool, boolean()] = False
    """Accept the metrics that clients push (KIP-714); a broker of Kafka does so only with a plug-in."""
    odradek_metadata_version: Annotated[int, integer(7, 34)] = 33
    """Feature levels of a new cluster, as set by `kafka-storage format --feature`; 0 leaves a feature out.

    The defaults are those of the newest release; each release has its own.
    """
    odradek_transaction_version: Annotated[int, integer(0, 2)] = 2
    odradek_group_version: Annotated[int, integer(0, 1)] = 1
    odradek_eligible_leader_replicas_version: Annotated[int, integer(0, 1)] = 1
    odradek_kraft_version: Annotated[int, integer(0, 1)] = 0
    odradek_streams_version: Annotated[int, integer(0, 1)] = 1
    odradek_share_version: Annotated[int, integer(0, 2)] = 2
    odradek_metadata_batch_records_max: Annotated[int, integer(1)] = 10_000
    """An operation with more records than this is written as a metadata transaction (Kafka's maxRecordsPerBatch)."""

    @classmethod
    def parse(cls, overrides: Mapping[str, str], dialect: Release | None = None) -> Self:
        """The configuration with these static values; raises `ConfigError` for an unknown key or a bad value."""
        if dialect is not None and _AS_KAFKA in overrides:
            raise ConfigError(f"A broker is a release of Kafka or a dialect; {dialect.name} is over {dialect.base}.")
        for name in overrides:
            known = is_listener_key(name) if name.startswith(LISTENER_PREFIX) else name in _TAKEN
            if not known:
                raise ConfigError(_unknown(name))
        try:
            for name, text in overrides.items():
                if security_key := key_of(name):
                    security_key.parse(text)
            config = cls._of(((ConfigSource.STATIC_BROKER, dict(overrides)),), dialect)
            parse_overrides(config.max_connections_per_ip_overrides)
            return config
        except BadValue as error:
            raise ConfigError(f"{error}.") from None

    def dynamic(self, *, cluster: Mapping[str, str], broker: Mapping[str, str]) -> Self:
        """The same static values with dynamic ones above them, which the controller has already validated."""
        static = tuple(layer for layer in self.layers if layer[0] is ConfigSource.STATIC_BROKER)
        above = ((ConfigSource.DYNAMIC_BROKER, dict(broker)), (ConfigSource.DYNAMIC_DEFAULT_BROKER, dict(cluster)))
        return self._of(tuple(layer for layer in above if layer[1]) + static, self.release)

    def with_static(self, more: Mapping[str, str]) -> Self:
        """The same with more static values, which replace those that were set."""
        layers = [
            (source, {**texts, **more}) if source is ConfigSource.STATIC_BROKER else (source, texts)
            for source, texts in self.layers
        ]
        return self._of(tuple(layers), self.release)

    def for_brokers(self, brokers: int) -> Self:
        """The same for a cluster of this size: topics have up to three replicas unless a number is set.

        With Kafka's default of one, stopping a broker would make its topics unavailable, which tests do not expect.
        """
        given = any(_REPLICATION_FACTOR in texts for _, texts in self.layers)
        if brokers == 1 or given:
            return self
        static = (ConfigSource.STATIC_BROKER, {_REPLICATION_FACTOR: str(min(_REPLICAS, brokers))})
        return self._of((*self.layers, static), self.release)

    @property
    def gathers_members(self) -> bool:
        """Whether the first generation of a classic group waits for clients that are about to join, and no longer."""
        is_set = any(_INITIAL_DELAY in texts for _, texts in self.layers)
        return not is_set and not self.group_initial_rebalance_delay_ms

    def in_rack(self, rack: str | None) -> Self:
        """The same for one broker, if `broker.rack` has the racks of all brokers."""
        if self.broker_rack == rack or self.broker_rack is None:
            return self
        layers = [
            (source, texts | {_RACK: rack or ""} if _RACK in texts else texts)
            for source, texts in ((source, dict(texts)) for source, texts in self.layers)
        ]
        return self._of(tuple(layers), self.release)

    @property
    def limits_connections(self) -> bool:
        """Whether any limit applies to connections."""
        limits = self.max_connections, self.max_connections_per_ip, self.max_connection_creation_rate
        return bool(self.max_connections_per_ip_overrides) or limits != (INT_MAX, INT_MAX, INT_MAX)

    @property
    def verifies_records(self) -> bool:
        """Whether the first transactional write to a partition is verified with the coordinator (KIP-890, part 1)."""
        return self.transaction_partition_verification_enable and self.release.verification.records

    @property
    def verifies_offsets(self) -> bool:
        """Whether offset commits of a transaction are verified with the coordinator."""
        return self.transaction_partition_verification_enable and self.release.verification.offsets

    @property
    def without_effect(self) -> list[str]:
        """The keys that are set and have no effect here."""
        names = {name for _, texts in self.layers for name in texts}
        return sorted(names & (INERT_KEYS | NOMINAL_KEYS) - SECURITY_KEYS.keys())

    def security(self, listener: str = "", mechanism: str = "") -> SecurityConfig:
        """The security settings for a listener and one of its mechanisms, if they are named."""
        texts: dict[str, str] = {}
        for _, layer in reversed(self.layers):
            texts |= layer
        return SecurityConfig.of(texts, listener=listener, mechanism=mechanism)

    @classmethod
    def _of(cls, layers: tuple[tuple[ConfigSource, Mapping[str, str]], ...], release: Release | None) -> Self:
        values: dict[str, Value] = {}
        for _, texts in reversed(layers):
            for name, text in texts.items():
                if key := BROKER_KEYS.get(name):
                    values[key.attribute] = key.parse(text)
        as_kafka = values.get("odradek_as_kafka")
        release = release or release_of(as_kafka if isinstance(as_kafka, str) else None)
        if values.get("unstable_feature_versions_enable"):
            release = release.with_unstable_features()
        for name, text in release.defaults.items():
            values.setdefault(BROKER_KEYS[name].attribute, BROKER_KEYS[name].parse(text))
        for feature in FEATURES:
            attribute = f"odradek_{feature.replace('.', '_')}"
            level = values.setdefault(attribute, release.levels.get(feature, 0))
            assert isinstance(level, int), f"{attribute} is a number"
            low, high = release.features.get(feature, (0, 0))
            if not low <= level <= high:
                raise BadValue(_lacks(release, feature, level))
        return replace(cls(layers=layers, release=release), **values)


class TopicConfig(Struct, frozen=True, kw_only=True):
    """The settings of one topic, resolved. Keyword arguments of a rule are the broker keys that give the default."""

    cleanup_policy: Annotated[tuple[str, ...], listing("compact", "delete", log_cleanup_policy=1)] = ("delete",)
    compression_type: Annotated[str, choices(*_CODECS, compression_type=1)] = "producer"
    compression_gzip_level: Annotated[int, gzip_level(compression_gzip_level=1)] = -1
    compression_lz4_level: Annotated[int, integer(1, 17, compression_lz4_level=1)] = 9
    compression_zstd_level: Annotated[int, integer(-131_072, 22, compression_zstd_level=1)] = 3
    delete_retention_ms: Annotated[int, long(0, log_cleaner_delete_retention_ms=1)] = 86_400_000
    errors_deadletterqueue_group_enable: Annotated[bool, boolean()] = False
    file_delete_delay_ms: Annotated[int, long(0, log_segment_delete_delay_ms=1)] = 60_000
    flush_messages: Annotated[int, long(1, log_flush_interval_messages=1)] = LONG_MAX
    flush_ms: Annotated[int, long(0, log_flush_interval_ms=1, log_flush_scheduler_interval_ms=1)] = LONG_MAX
    follower_replication_throttled_replicas: Annotated[
        tuple[str, ...], throttled_replicas("follower.replication.throttled.replicas")
    ] = ()
    index_interval_bytes: Annotated[int, integer(0, log_index_interval_bytes=1)] = 4096
    internal_segment_bytes: Annotated[int | None, integer(1)] = None
    leader_replication_throttled_replicas: Annotated[
        tuple[str, ...], throttled_replicas("leader.replication.throttled.replicas")
    ] = ()
    local_retention_bytes: Annotated[int, long(-2, log_local_retention_bytes=1)] = -2
    local_retention_ms: Annotated[int, long(-2, log_local_retention_ms=1)] = -2
    max_compaction_lag_ms: Annotated[int, long(1, log_cleaner_max_compaction_lag_ms=1)] = LONG_MAX
    max_decompressed_message_bytes: Annotated[int, integer(1, _DECOMPRESSED_MAX, max_decompressed_message_bytes=1)] = (
        _DECOMPRESSED_MAX
    )
    max_message_bytes: Annotated[int, integer(0, message_max_bytes=1)] = 1_048_588
    message_timestamp_after_max_ms: Annotated[int, long(0, log_message_timestamp_after_max_ms=1)] = HOUR_MS
    message_timestamp_before_max_ms: Annotated[int, long(0, log_message_timestamp_before_max_ms=1)] = LONG_MAX
    message_timestamp_type: Annotated[str, choices(*_TIMESTAMP_TYPES, log_message_timestamp_type=1)] = "CreateTime"
    min_cleanable_dirty_ratio: Annotated[float, double(0, 1, log_cleaner_min_cleanable_ratio=1)] = 0.5
    min_compaction_lag_ms: Annotated[int, long(0, log_cleaner_min_compaction_lag_ms=1)] = 0
    min_insync_replicas: Annotated[int, integer(1, min_insync_replicas=1)] = 1
    preallocate: Annotated[bool, boolean(log_preallocate=1)] = False
    remote_copy_lag_bytes: Annotated[int, long(-1, log_remote_copy_lag_bytes=1)] = -1
    remote_copy_lag_ms: Annotated[int, long(-1, log_remote_copy_lag_ms=1)] = 0
    remote_log_copy_disable: Annotated[bool, boolean()] = False
    remote_log_delete_on_disable: Annotated[bool, boolean()] = False
    remote_storage_enable: Annotated[bool, boolean()] = False
    retention_bytes: Annotated[int, long(log_retention_bytes=1)] = -1
    retention_ms: Annotated[
        int, long(-1, log_retention_ms=1, log_retention_minutes=MINUTE_MS, log_retention_hours=HOUR_MS)
    ] = 168 * HOUR_MS
    segment_bytes: Annotated[int, integer(1_048_576, log_segment_bytes=1)] = 1_073_741_824
    segment_index_bytes: Annotated[int, integer(4, log_index_size_max_bytes=1)] = 10_485_760
    segment_jitter_ms: Annotated[int, long(0, log_roll_jitter_ms=1, log_roll_jitter_hours=HOUR_MS)] = 0
    segment_ms: Annotated[int, long(1, log_roll_ms=1, log_roll_hours=HOUR_MS)] = 168 * HOUR_MS
    unclean_leader_election_enable: Annotated[bool, boolean(unclean_leader_election_enable=1)] = False

    @property
    def compacts(self) -> bool:
        """Whether old values of a key go."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether retention by time and size applies."""
        return "delete" in self.cleanup_policy

    @classmethod
    def resolve(cls, overrides: Mapping[str, str], config: Config) -> Self:
        """The settings of a topic with these overrides, which the controller has validated before.

        The brokers of a cluster, and forks, ask for the same ones again.
        """
        question = cls, id(config), frozenset(overrides.items())
        known = _RESOLVED.get(question)
        if known is not None and known[0] is config and isinstance(known[1], cls):
            return known[1]
        values: dict[str, Value] = {}
        for name, key in TOPIC_KEYS.items():
            text = overrides.get(name)
            values[key.attribute] = inherited(key, config) if text is None else key.parse(text)
        if values["internal_segment_bytes"] is not None:
            # Kafka's way to have segments below the public minimum; `segment_bytes` is what a log obeys.
            values["segment_bytes"] = values["internal_segment_bytes"]
        resolved = replace(cls(), **values)
        if len(_RESOLVED) >= _RESOLVED_MAX:
            _RESOLVED.clear()
        _RESOLVED[question] = config, resolved
        return resolved


_RESOLVED_MAX = 64
_RESOLVED: dict[tuple[type[TopicConfig], int, frozenset[tuple[str, str]]], tuple[Config, TopicConfig]] = {}
"""Settings of topics, by their overrides and the identity of the configuration, which is kept beside them."""


def _lacks(release: Release, feature: str, level: int) -> str:
    has = release.features.get(feature)
    why = f"it has {has[0]} to {has[1]}" if has and release.tells_features else "it does not have the feature"
    name = release.name if release.base else f"Kafka {release.name}"
    return f"{name} has no level {level} of {feature}: {why}"


def inherited(key: Key, config: Config) -> Value:
    """The value of a topic key that has no override."""
    for attribute, factor in key.rule.synonyms.items():
        value = value_of(config, attribute)
        if value is not None:
            return max(value * factor, -1) if factor > 1 and isinstance(value, int) else value
    return key.default


def _unknown(name: str) -> str:
    from difflib import get_close_matches  # only a failed start needs it

    close = get_close_matches(name, sorted(_TAKEN), n=1)
    hint = f"; did you mean {close[0]}" if close else ""
    return f"Unknown configuration key {name}{hint}{'?' if close else '.'}"


BROKER_KEYS: Mapping[str, Key] = {key.name: key for key in keys_of(Config)}
"""The broker keys of the table, by Kafka's name."""
TOPIC_KEYS: Mapping[str, Key] = {key.name: key for key in keys_of(TopicConfig)}
"""The topic keys, by Kafka's name."""
_TAKEN = BROKER_KEYS.keys() | INERT_KEYS | SECURITY_KEYS.keys()
"""Every key that a configuration may have, except those of single listeners."""
