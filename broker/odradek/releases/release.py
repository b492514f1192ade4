"""A release of Kafka, or a dialect, as a value: the versions and features that it offers, and its switches.

A switch exists only where a recorded answer of a real broker, or the text of a dialect, differs from Kafka 4.4.
Everything here is decided once, when a node starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from odradek.wire.codecs import Codecs

__all__ = ["GROUPS", "TRANSACTIONS", "ProducerRules", "Range", "Release", "Verification"]

T = TypeVar("T")
Range = tuple[int, int]
"""Lowest and highest version, or level."""

GROUPS = "group.version"
TRANSACTIONS = "transaction.version"


class Verification(Struct, frozen=True):
    """The transactional writes that are verified with the coordinator first (KIP-890, part 1)."""

    records: bool = True
    offsets: bool = True
    answers_abortable: bool = True
    """For a partition outside the transaction: TRANSACTION_ABORTABLE; before, INVALID_TXN_STATE."""
    explains_errors: bool = False
    """A Produce that fails in verification has the error's own description as its message."""


class ProducerRules(Struct, frozen=True):
    """The leader's checks of producers, where they changed in the course of KIP-890."""

    asks_by_epoch: bool = True
    """A batch with a newer epoch than the open transaction's is verified; before, it joined without verification."""
    refuses_older_epochs: bool = True
    """A batch with an older epoch than the log's last one is refused at once; before, the coordinator decided alone."""
    begins_at_zero: bool = True
    """A client with a new epoch in each transaction starts with sequence 0 in each partition."""
    refuses_unknown: bool = False
    """A batch with a sequence above 0, of a producer without known sequences, is answered UNKNOWN_PRODUCER_ID."""
    stable_where_batch_begins: bool = True
    """The last stable offset for a transaction that begins below the log start is the base offset of the batch with the
    log start; before 4.0 it was the log start itself."""
    kept_as_long_as_ids: bool = False
    """Producers expire after transactional.id.expiration.ms, not after producer.id.expiration.ms."""
    keeps_sessions: bool = False
    """A producer that was in a transaction here may begin the next one without verification, if the marker said so."""


class Release(Struct, frozen=True, kw_only=True):
    """The offer and behaviour of a node's release.

    A dialect is a release too, with tables and messages of its own (`odradek.releases.dialects`).
    """

    name: str
    title: str = ""
    """The title of a dialect."""
    base: str | None = None
    """The release or dialect on which a dialect is based."""
    apis: Mapping[str, Range] | None
    """The versions that ApiVersions lists, by the name of the API; None: all that Odradek serves."""
    unstable_apis: Mapping[str, int] = {}
    """The highest versions with `unstable.api.versions.enable`, where they differ."""
    lowest_produce: int = 0
    """Older versions of Produce end the connection, although ApiVersions lists them."""
    features: Mapping[str, Range]
    """The supported levels of features, of those that Odradek has."""
    unstable_features: Mapping[str, Range] = {}
    """The supported levels with `unstable.feature.versions.enable`, where they differ."""
    levels: Mapping[str, int]
    """The levels that a new cluster finalizes."""
    tells_features: bool = True
    """False with ZooKeeper; the metadata.version in `features` is then used only inside Odradek."""
    updates_each_feature: bool = False
    """UpdateFeatures applies each update that it can; since 4.0 all or none."""
    keeps_zstd_from_old_fetches: bool = False
    """A topic with `compression.type=zstd` refuses Fetch below version 10; since 4.0 it does not."""
    fetch_session_shards: int = 8
    """The number of shards of the fetch session cache; 1 before 3.7 (KAFKA-9401)."""
    fences_before_waiting: bool = False
    """AddPartitionsToTxn with an old epoch is fenced while markers are owed; from 4.0 on: CONCURRENT_TRANSACTIONS."""
    share_markers_match_exactly: bool = False
    """The marker of a transaction settles only acknowledgements of share groups that were staged with its very epoch;
    drafts of KIP-1289."""
    verification: Verification = Verification()
    producers: ProducerRules = ProducerRules()
    first_group_epoch: int = 1
    """The epoch of a group of the consumer protocol before its first member joins."""
    commits_with_older_epochs: bool = True
    """Whether a member may commit with an older epoch for partitions that it has kept since then (KIP-1251)."""
    names_directories: bool = True
    """`meta.properties` has the id of its directory, and the mark of a clean stop the broker's epoch; since 3.7."""
    offset_value_version: int = 4
    """The version of the records of committed offsets; 4, which has the id of the topic, since 4.1."""
    tells_task_offset_intervals: bool = True
    """The heartbeat answer to a streams group member has the interval of its tasks' offsets."""
    defaults: Mapping[str, str] = {}
    """Defaults of broker keys that differ from Kafka 4.4's."""
    lacks: frozenset[str] = frozenset()
    """Keys of brokers, topics and groups that do not exist; all others of Kafka 4.4 do."""
    names_bounds: bool = False
    """The error for a group's value out of range names the key of the bound, in place of the bound."""
    codecs: Codecs | None = None
    """The codecs of its messages; None: Kafka's."""
    parts: Mapping[type, object] = {}
    """Values that a dialect brings for rooms above this one, by their type; only those rooms use them."""

    def part(self, kind: type[T]) -> T | None:
        """The value of this type that a dialect brings; None for a release of Kafka."""
        return cast("T | None", self.parts.get(kind))

    @property
    def has_transaction_version(self) -> bool:
        """Whether the feature exists, and with it transactions that record the version of their client's protocol."""
        return TRANSACTIONS in self.features

    @property
    def has_group_version(self) -> bool:
        """Whether groups of the consumer protocol are enabled; before, they were a preview."""
        return GROUPS in self.features

    def with_unstable_features(self) -> Release:
        """The release with `unstable.feature.versions.enable`."""
        return replace(self, features={**self.features, **self.unstable_features})
