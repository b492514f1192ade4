"""The releases of Apache Kafka that a broker can be served as: what each offers, and where its answers are its own.

Recorded from real brokers (`tests/oracle/releases`); the tests compare this table with what they said.
Everything here is decided once, when a node starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from odradek.host.call import Around
    from odradek.txn.rules import Rules
    from odradek.wire.codecs import Codecs
    from odradek.wire.messages import ApiKey

__all__ = ["FEATURES", "LATEST", "RELEASES", "WIDEST", "ProducerRules", "Release", "Verification", "release_of"]

Range = tuple[int, int]
"""Lowest and highest version, or level."""

LATEST = "4.4"
_NAMES = ("2.8", "3.3", "3.6", "3.9", "4.0", "4.3", "4.4")

_HIGHEST: Mapping[str, tuple[int | None, ...]] = {
    "PRODUCE": (9, 9, 9, 11, 12, 13, 13),
    "FETCH": (12, 13, 15, 17, 17, 18, 18),
    "LIST_OFFSETS": (6, 7, 8, 9, 10, 11, 11),
    "METADATA": (11, 12, 12, 12, 13, 13, 13),
    "OFFSET_COMMIT": (8, 8, 8, 9, 9, 10, 10),
    "OFFSET_FETCH": (7, 8, 8, 9, 9, 10, 10),
    "FIND_COORDINATOR": (3, 4, 4, 6, 6, 6, 6),
    "JOIN_GROUP": (7, 9, 9, 9, 9, 9, 9),
    "HEARTBEAT": (4, 4, 4, 4, 4, 4, 4),
    "LEAVE_GROUP": (4, 5, 5, 5, 5, 5, 5),
    "SYNC_GROUP": (5, 5, 5, 5, 5, 5, 5),
    "DESCRIBE_GROUPS": (5, 5, 5, 5, 6, 6, 6),
    "LIST_GROUPS": (4, 4, 4, 5, 5, 5, 5),
    "SASL_HANDSHAKE": (1, 1, 1, 1, 1, 1, 1),
    "API_VERSIONS": (3, 3, 3, 4, 4, 4, 5),
    "CREATE_TOPICS": (7, 7, 7, 7, 7, 7, 7),
    "DELETE_TOPICS": (6, 6, 6, 6, 6, 6, 6),
    "DELETE_RECORDS": (2, 2, 2, 2, 2, 2, 2),
    "INIT_PRODUCER_ID": (4, 4, 4, 5, 5, 5, 5),
    "OFFSET_FOR_LEADER_EPOCH": (4, 4, 4, 4, 4, 4, 4),
    "ADD_PARTITIONS_TO_TXN": (3, 3, 4, 5, 5, 5, 5),
    "ADD_OFFSETS_TO_TXN": (3, 3, 3, 4, 4, 4, 4),
    "END_TXN": (3, 3, 3, 4, 5, 5, 5),
    "WRITE_TXN_MARKERS": (1, 1, 1, 1, 1, 2, 2),
    "TXN_OFFSET_COMMIT": (3, 3, 3, 4, 5, 5, 6),
    "DESCRIBE_ACLS": (2, 3, 3, 3, 3, 3, 3),
    "CREATE_ACLS": (2, 3, 3, 3, 3, 3, 3),
    "DELETE_ACLS": (2, 3, 3, 3, 3, 3, 3),
    "DESCRIBE_CONFIGS": (4, 4, 4, 4, 4, 4, 4),
    "ALTER_CONFIGS": (2, 2, 2, 2, 2, 2, 2),
    "ALTER_REPLICA_LOG_DIRS": (2, 2, 2, 2, 2, 2, 2),
    "DESCRIBE_LOG_DIRS": (2, 4, 4, 4, 4, 5, 5),
    "SASL_AUTHENTICATE": (2, 2, 2, 2, 2, 2, 2),
    "CREATE_PARTITIONS": (3, 3, 3, 3, 3, 3, 3),
    "CREATE_DELEGATION_TOKEN": (2, None, 3, 3, 3, 3, 3),
    "RENEW_DELEGATION_TOKEN": (2, None, 2, 2, 2, 2, 2),
    "EXPIRE_DELEGATION_TOKEN": (2, None, 2, 2, 2, 2, 2),
    "DESCRIBE_DELEGATION_TOKEN": (2, None, 3, 3, 3, 3, 3),
    "DELETE_GROUPS": (2, 2, 2, 2, 2, 2, 3),
    "ELECT_LEADERS": (2, 2, 2, 2, 2, 2, 2),
    "INCREMENTAL_ALTER_CONFIGS": (1, 1, 1, 1, 1, 1, 1),
    "ALTER_PARTITION_REASSIGNMENTS": (0, 0, 0, 0, 0, 1, 1),
    "LIST_PARTITION_REASSIGNMENTS": (0, 0, 0, 0, 0, 0, 0),
    "OFFSET_DELETE": (0, 0, 0, 0, 0, 0, 0),
    "DESCRIBE_CLIENT_QUOTAS": (1, 1, 1, 1, 1, 1, 1),
    "ALTER_CLIENT_QUOTAS": (1, 1, 1, 1, 1, 1, 1),
    "DESCRIBE_USER_SCRAM_CREDENTIALS": (0, None, 0, 0, 0, 0, 0),
    "ALTER_USER_SCRAM_CREDENTIALS": (0, None, 0, 0, 0, 0, 0),
    "UNREGISTER_BROKER": (None, 0, 0, 0, 0, 0, 0),
    "UNREGISTER_CONTROLLER": (None, None, None, None, None, None, 0),
    "ADD_RAFT_VOTER": (None, None, None, 0, 0, 1, 1),
    "REMOVE_RAFT_VOTER": (None, None, None, 0, 0, 0, 0),
    "DESCRIBE_QUORUM": (None, 1, 1, 2, 2, 2, 2),
    "UPDATE_FEATURES": (0, 1, 1, 1, 2, 2, 2),
    "DESCRIBE_CLUSTER": (0, 0, 0, 1, 2, 2, 2),
    "DESCRIBE_PRODUCERS": (0, 0, 0, 0, 0, 0, 0),
    "DESCRIBE_TRANSACTIONS": (None, 0, 0, 0, 0, 0, 0),
    "LIST_TRANSACTIONS": (None, 0, 0, 1, 1, 2, 2),
    "CONSUMER_GROUP_HEARTBEAT": (None, None, None, 0, 1, 1, 1),
    "CONSUMER_GROUP_DESCRIBE": (None, None, None, 0, 1, 1, 1),
    "STREAMS_GROUP_HEARTBEAT": (None, None, None, None, None, 0, 1),
    "STREAMS_GROUP_DESCRIBE": (None, None, None, None, None, 0, 1),
    "STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE": (None, None, None, None, None, None, 0),
    "GET_TELEMETRY_SUBSCRIPTIONS": (None, None, None, 0, 0, 0, 0),
    "PUSH_TELEMETRY": (None, None, None, 0, 0, 0, 0),
    "LIST_CONFIG_RESOURCES": (None, None, None, 0, 0, 1, 1),
    "DESCRIBE_TOPIC_PARTITIONS": (None, None, None, 0, 0, 0, 0),
    "SHARE_GROUP_HEARTBEAT": (None, None, None, None, None, 1, 1),
    "SHARE_GROUP_DESCRIBE": (None, None, None, None, None, 1, 1),
    "SHARE_FETCH": (None, None, None, None, None, 2, 2),
    "SHARE_ACKNOWLEDGE": (None, None, None, None, None, 2, 2),
    "INITIALIZE_SHARE_GROUP_STATE": (None, None, None, None, None, 0, 0),
    "READ_SHARE_GROUP_STATE": (None, None, None, None, None, 0, 0),
    "WRITE_SHARE_GROUP_STATE": (None, None, None, None, None, 1, 1),
    "DELETE_SHARE_GROUP_STATE": (None, None, None, None, None, 0, 0),
    "READ_SHARE_GROUP_STATE_SUMMARY": (None, None, None, None, None, 1, 1),
    "DESCRIBE_SHARE_GROUP_OFFSETS": (None, None, None, None, None, 1, 1),
    "ALTER_SHARE_GROUP_OFFSETS": (None, None, None, None, None, 0, 0),
    "DELETE_SHARE_GROUP_OFFSETS": (None, None, None, None, None, 0, 0),
}
"""The highest version of each API that Odradek serves, by release in the order of `_NAMES`; None: not there."""

_LOWEST_SINCE_4_0: Mapping[str, int] = {
    "FETCH": 4,
    "LIST_OFFSETS": 1,
    "OFFSET_COMMIT": 2,
    "OFFSET_FETCH": 1,
    "CREATE_TOPICS": 2,
    "DELETE_TOPICS": 1,
    "OFFSET_FOR_LEADER_EPOCH": 2,
    "WRITE_TXN_MARKERS": 1,
    "DESCRIBE_ACLS": 1,
    "CREATE_ACLS": 1,
    "DELETE_ACLS": 1,
    "DESCRIBE_CONFIGS": 1,
    "ALTER_REPLICA_LOG_DIRS": 1,
    "CREATE_DELEGATION_TOKEN": 1,
    "RENEW_DELEGATION_TOKEN": 1,
    "EXPIRE_DELEGATION_TOKEN": 1,
    "DESCRIBE_DELEGATION_TOKEN": 1,
    "DESCRIBE_LOG_DIRS": 1,
}
"""What KIP-896 has left of the APIs that began at 0."""

_LOWEST_OF_SHARES: Mapping[str, int] = {
    "SHARE_GROUP_HEARTBEAT": 1,
    "SHARE_GROUP_DESCRIBE": 1,
    "SHARE_FETCH": 1,
    "SHARE_ACKNOWLEDGE": 1,
}
"""What was a preview in version 0."""

_LOWEST_PRODUCE_SINCE_4_0 = 3
"""Told to begin at 0 all the same, for a client that decides about compression by it (KAFKA-18659)."""


class Verification(Struct, frozen=True):
    """Whose transactional writes the coordinator is asked about first (KIP-890, part 1)."""

    records: bool = True
    offsets: bool = True
    answers_abortable: bool = True
    """The coordinator calls a partition that is not in the transaction so; it was INVALID_TXN_STATE before."""
    explains_errors: bool = False
    """A Produce that fails so has the error's own description for a message."""


class ProducerRules(Struct, frozen=True):
    """How the leader of a partition keeps producers, where that changed in the course of KIP-890."""

    asks_by_epoch: bool = True
    """A newer epoch than that of the open transaction is asked about; it simply joined before."""
    refuses_older_epochs: bool = True
    """An epoch older than the last one in the log is refused at once; only the coordinator was asked before."""
    begins_at_zero: bool = True
    """The first batch in a partition, of a client whose every transaction has its own epoch, has the sequence 0."""
    refuses_unknown: bool = False
    """A batch that does not begin at 0, of a producer whose sequences are not known, is UNKNOWN_PRODUCER_ID."""
    stable_where_batch_begins: bool = True
    """Of a transaction that begins below the log start, the last stable offset is where the batch begins that holds the
    log start; before 4.0 it was the log start itself."""
    kept_as_long_as_ids: bool = False
    """Forgotten after transactional.id.expiration.ms, not after producer.id.expiration.ms."""
    keeps_sessions: bool = False
    """Who was in a transaction here may begin the next one unasked, if the marker said so."""


class Release(Struct, frozen=True, kw_only=True):
    """What a node of this release offers and how it behaves.

    A dialect is a release too: one of another text, with tables and messages of its own (`odradek.dialects`).
    """

    name: str
    title: str = ""
    """What text it is of, for a dialect."""
    base: str | None = None
    """The release, or other dialect, that a dialect is over."""
    apis: Mapping[str, Range] | None
    """The versions that ApiVersions tells, by the name of the API; None: all that Odradek serves."""
    unstable_apis: Mapping[str, int] = {}
    """The highest versions with `unstable.api.versions.enable`, where they are others."""
    lowest_produce: int = 0
    """Older versions of Produce end the connection, whatever was told."""
    features: Mapping[str, Range]
    """The features that it supports, of those that Odradek has."""
    unstable_features: Mapping[str, Range] = {}
    """What it supports with `unstable.feature.versions.enable`, where that is more."""
    levels: Mapping[str, int]
    """What a new cluster finalizes."""
    tells_features: bool = True
    """Not with ZooKeeper; the metadata.version in `features` is then our own affair."""
    updates_each_feature: bool = False
    """UpdateFeatures carries out what it can; since 4.0 all or nothing."""
    keeps_zstd_from_old_fetches: bool = False
    """A topic with `compression.type=zstd` is not for Fetch below 10; since 4.0 nobody looks."""
    fetch_session_shards: int = 8
    """Into how many parts the slots of fetch sessions are divided; before 3.7 they were not (KAFKA-9401)."""
    fences_before_waiting: bool = False
    """Who adds partitions with an old epoch hears so while markers are owed; since 4.0 CONCURRENT_TRANSACTIONS."""
    verification: Verification = Verification()
    producers: ProducerRules = ProducerRules()
    first_group_epoch: int = 1
    """Of a group of the consumer protocol before its first member joins."""
    commits_with_older_epochs: bool = True
    """Whether a member may commit with an epoch since which it has had all that it commits (KIP-1251)."""
    tells_task_offset_intervals: bool = True
    """A member of a streams group hears how often offsets of its tasks are wanted."""
    defaults: Mapping[str, str] = {}
    """Broker configuration that is another unless it is given."""
    lacks: frozenset[str] = frozenset()
    """Keys of brokers, topics and groups that it does not know; the others are those of Kafka 4.4."""
    names_bounds: bool = False
    """A group's value that is out of range is told the key of the bound, not the bound."""
    rules: Rules | None = None
    """The tables of transactions; None: those of Kafka 4.4."""
    codecs: Codecs | None = None
    """How its messages are written; None: as Kafka's."""
    around: Mapping[ApiKey, Around] = {}
    """What stands around a route: it is given the call and the route itself, and answers."""

    @property
    def has_transaction_version(self) -> bool:
        """Whether there is the feature, and with it transactions that know what kind of client theirs is."""
        return _TRANSACTIONS in self.features

    @property
    def has_group_version(self) -> bool:
        """Whether groups of the consumer protocol are more than a preview, which is off."""
        return _GROUPS in self.features

    def with_unstable_features(self) -> Release:
        """The same where `unstable.feature.versions.enable` is set."""
        return replace(self, features={**self.features, **self.unstable_features})


def _apis(name: str) -> dict[str, Range]:
    column = _NAMES.index(name)
    lowest = {**_LOWEST_OF_SHARES, **(_LOWEST_SINCE_4_0 if column >= _NAMES.index("4.0") else {})}
    return {api: (lowest.get(api, 0), highest) for api, row in _HIGHEST.items() if (highest := row[column]) is not None}


_GROUPS = "group.version"
_METADATA = "metadata.version"
_SHARES = "share.version"
_STREAMS = "streams.version"
_TRANSACTIONS = "transaction.version"
_ELIGIBLE = "eligible.leader.replicas.version"
_KRAFT = "kraft.version"

FEATURES = (_METADATA, _GROUPS, _SHARES, _TRANSACTIONS, _ELIGIBLE, _KRAFT, _STREAMS)
"""The features that Odradek has: all that Kafka 4.4 has.
"""

_LATEST_FEATURES: Mapping[str, Range] = {
    _GROUPS: (0, 1),
    _KRAFT: (0, 1),
    _METADATA: (7, 33),
    _SHARES: (0, 2),
    _STREAMS: (0, 1),
    _TRANSACTIONS: (0, 2),
    _ELIGIBLE: (0, 1),
}
_LATEST_LEVELS: Mapping[str, int] = {_GROUPS: 1, _METADATA: 33, _SHARES: 2, _TRANSACTIONS: 2, _ELIGIBLE: 1, _STREAMS: 1}

_SINCE_4_4 = frozenset({_SHARES, _STREAMS})
"""Features that 4.0 does not know."""

_LATEST_UNSTABLE: Mapping[str, Range] = {_METADATA: (7, 34)}

WIDEST = Release(
    name=LATEST,
    apis=None,
    features=_LATEST_FEATURES,
    unstable_features=_LATEST_UNSTABLE,
    levels=_LATEST_LEVELS,
)
"""Kafka 4.4, and the versions beside it that clients from 0.11 on speak."""


_KRAFT_SINCE = 21
"""The metadata.version of the first release with kraft.version, 3.9."""


def _before_transaction_version(
    name: str, level: int, verification: Verification, *, tells_features: bool = True
) -> Release:
    return Release(
        name=name,
        apis=_apis(name),
        features={_METADATA: (1, level), **({_KRAFT: (0, 1)} if level >= _KRAFT_SINCE else {})},
        levels={_METADATA: level},
        tells_features=tells_features,
        updates_each_feature=True,
        verification=verification,
        keeps_zstd_from_old_fetches=True,
        fetch_session_shards=8 if level >= _KRAFT_SINCE else 1,
        fences_before_waiting=True,
        producers=ProducerRules(
            asks_by_epoch=False, refuses_older_epochs=False, begins_at_zero=False, stable_where_batch_begins=False
        ),
    )


_NOTHING = Verification(records=False, offsets=False)
_RECORDS_ONLY = Verification(offsets=False, answers_abortable=False, explains_errors=True)

_CONFIGS_SINCE_4_4 = """
errors.deadletterqueue.auto.create.topics.enable errors.deadletterqueue.topic.name.prefix group.streams.assignors
group.streams.rack.aware.assignment.tags group.streams.topology.description.plugin.class log.remote.copy.lag.bytes
log.remote.copy.lag.ms max.decompressed.message.bytes sasl.oauthbearer.allow.unverified.audience
sasl.oauthbearer.allow.unverified.issuer
group.share.dlq.manager.class.name group.streams.acceptable.recovery.lag group.streams.max.warmup.replicas
group.streams.min.task.offset.interval.ms group.streams.num.warmup.replicas group.streams.task.offset.interval.ms

errors.deadletterqueue.group.enable remote.copy.lag.bytes remote.copy.lag.ms

consumer.assignor.offload.enable errors.deadletterqueue.copy.record.enable errors.deadletterqueue.topic.name
share.assignor.offload.enable streams.acceptable.recovery.lag streams.assignor.name streams.assignor.offload.enable
streams.num.warmup.replicas streams.rack.aware.assignment.tags streams.task.offset.interval.ms
"""
"""Keys of brokers, of topics (one is named as a broker's), of groups; internal ones too."""

_TWO_PHASE_COMMIT: Mapping[str, int] = {"INIT_PRODUCER_ID": 6}

RELEASES: Mapping[str, Release] = {
    "2.8": _before_transaction_version("2.8", 7, _NOTHING, tells_features=False),
    "3.3": _before_transaction_version("3.3", 7, _NOTHING),
    "3.6": _before_transaction_version("3.6", 14, _RECORDS_ONLY),
    "3.9": _before_transaction_version("3.9", 21, Verification()),
    "4.0": Release(
        name="4.0",
        apis=_apis("4.0"),
        lowest_produce=_LOWEST_PRODUCE_SINCE_4_0,
        features={name: levels for name, levels in _LATEST_FEATURES.items() if name not in _SINCE_4_4}
        | {_METADATA: (7, 25)},
        unstable_features={_METADATA: (7, 26)},
        levels={_GROUPS: 1, _METADATA: 25, _TRANSACTIONS: 2},
        first_group_epoch=0,
        commits_with_older_epochs=False,
        defaults={"group.consumer.assignment.interval.ms": "0"},  # KIP-1263 came later
        producers=ProducerRules(refuses_older_epochs=False, begins_at_zero=False),
    ),
    "4.3": Release(
        name="4.3",
        apis=_apis("4.3"),
        unstable_apis=_TWO_PHASE_COMMIT,
        lowest_produce=_LOWEST_PRODUCE_SINCE_4_0,
        features={**_LATEST_FEATURES, _METADATA: (7, 30), _SHARES: (0, 1)},
        unstable_features={_METADATA: (7, 31)},
        levels={**_LATEST_LEVELS, _METADATA: 30, _SHARES: 1},
        lacks=frozenset(_CONFIGS_SINCE_4_4.split()),
        names_bounds=True,
        tells_task_offset_intervals=False,
    ),
    "4.4": Release(
        name="4.4",
        apis=_apis("4.4"),
        unstable_apis=_TWO_PHASE_COMMIT,
        lowest_produce=_LOWEST_PRODUCE_SINCE_4_0,
        features=_LATEST_FEATURES,
        unstable_features=_LATEST_UNSTABLE,
        levels=_LATEST_LEVELS,
    ),
}
"""Every release that can be asked for, by its name."""


def release_of(name: str | None) -> Release:
    """The release of this name; without one the newest, which then serves the versions of old clients too."""
    return WIDEST if name is None else RELEASES[name]
