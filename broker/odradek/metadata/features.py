"""Feature levels (KIP-584, KIP-1022): the effects of metadata.version, and the brokers that support a level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from odradek.metadata.image import TRANSACTION_VERSION, MetadataImage

if TYPE_CHECKING:
    from odradek.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
    from odradek.wire.messages.feature_level_record import FeatureLevelRecord

__all__ = [
    "DIRECTORIES_SINCE",
    "ELIGIBLE_REPLICAS",
    "ELIGIBLE_REPLICAS_SINCE",
    "GROUP_VERSION",
    "KRAFT_VERSION",
    "MIN_INSYNC",
    "METADATA_TRANSACTIONS",
    "METADATA_VERSION",
    "STREAMS_VERSION",
    "SHARE_VERSION",
    "TRANSACTION_VERSION",
    "level_in",
    "record_version",
    "unsupported_levels",
]

METADATA_VERSION = "metadata.version"
GROUP_VERSION = "group.version"
ELIGIBLE_REPLICAS = "eligible.leader.replicas.version"
"""The feature of eligible leader replicas (KIP-966)."""
KRAFT_VERSION = "kraft.version"
"""The feature of a quorum whose voters can change while it runs (KIP-853)."""
STREAMS_VERSION = "streams.version"
SHARE_VERSION = "share.version"
MIN_INSYNC = "min.insync.replicas"
"""The key that becomes the cluster's with eligible leader replicas (KIP-966)."""

ELIGIBLE_REPLICAS_SINCE = 23
"""The first metadata.version with eligible leader replicas in its records (4.0-IV1); the feature depends on it."""
DIRECTORIES_SINCE = 17
"""The first metadata.version with the directories of replicas in its records (3.7-IV2, KIP-858)."""
METADATA_TRANSACTIONS = 13
"""The first metadata.version with metadata transactions (KIP-868)."""

# The metadata.version from which a record has a higher version than 0, the highest first.
_RECORD_VERSIONS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "BrokerRegistrationChangeRecord": ((30, 3), (17, 2), (7, 1)),
    "PartitionChangeRecord": ((23, 2), (17, 1)),
    "PartitionRecord": ((23, 2), (17, 1)),
    "RegisterBrokerRecord": ((30, 4), (17, 3), (8, 2), (7, 1)),
}


def record_version(record: Struct, metadata_version: int) -> int:
    """The version of a record; where it depends on what it says, no higher than that."""
    name = type(record).__name__
    if name == "BrokerRegistrationChangeRecord":
        change = cast("BrokerRegistrationChangeRecord", record)
        if not change.log_dirs and change.cordoned_log_dirs is None:
            # It says only that the broker is fenced or not, or that it begins a controlled shutdown.
            return int(bool(change.in_controlled_shutdown))
    for since, version in _RECORD_VERSIONS.get(name, ()):
        if metadata_version >= since:
            return version
    return 0


def level_in(records: Iterable[Struct], feature: str) -> int:
    """The level that these records give a feature; 0 if none does."""
    level = 0
    for record in records:
        if type(record).__name__ == "FeatureLevelRecord":
            given = cast("FeatureLevelRecord", record)
            if given.name == feature:
                level = given.feature_level
    return level


def unsupported_levels(image: MetadataImage, features: Mapping[str, tuple[int, int]]) -> str | None:
    """The reason why a broker with these features cannot register: it does not support a finalized level."""
    for name, level in image.features.items():
        low, high = features.get(name, (0, 0))
        if not low <= level <= high:
            return f"feature {name} is finalized at {level}, the broker supports {low} to {high}"
    return None
