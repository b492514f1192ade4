"""Feature levels (KIP-584, KIP-1022): what this broker supports, and what may follow what.

The table of metadata.version is Kafka's `MetadataVersion`; the rules and texts are those of `FeatureControlManager`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct

from odradek.metadata.change import Change
from odradek.metadata.image import MetadataImage
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.feature_level_record import FeatureLevelRecord
from odradek.wire.messages.update_features_request import UpdateFeaturesRequest
from odradek.wire.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

__all__ = [
    "GROUP_VERSION",
    "METADATA_TRANSACTIONS",
    "METADATA_VERSION",
    "SUPPORTED",
    "TRANSACTION_VERSION",
    "UpgradeType",
    "record_version",
    "refusal",
    "unsupported_levels",
    "update_features",
]

METADATA_VERSION = "metadata.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"

SUPPORTED: Mapping[str, tuple[int, int]] = {
    GROUP_VERSION: (0, 1),
    METADATA_VERSION: (7, 33),
    TRANSACTION_VERSION: (0, 2),
}
"""Lowest and highest level of each feature that is really served.

Kafka also has kraft.version, eligible.leader.replicas.version, share.version and streams.version: there are no votes,
no replication, no share groups and no streams groups here.
"""

METADATA_TRANSACTIONS = 13
"""The metadata.version from which there are metadata transactions (KIP-868)."""

# Levels of metadata.version that changed what is written; going back across one would lose it (`didMetadataChange`).
_CHANGED_METADATA = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33})

# From which metadata.version on a record is written in a higher version than 0, the highest first.
_RECORD_VERSIONS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "BrokerRegistrationChangeRecord": ((30, 3), (17, 2), (7, 1)),
    "PartitionChangeRecord": ((23, 2), (17, 1)),
    "PartitionRecord": ((23, 2), (17, 1)),
    "RegisterBrokerRecord": ((30, 4), (17, 3), (8, 2), (7, 1)),
}


class UpgradeType(IntEnum):
    """What an update of a feature may do (UpdateFeatures v1+)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Update(Struct, frozen=True):
    """A wanted change of one feature."""

    name: str
    level: int
    upgrade_type: int


def record_version(record: Struct, metadata_version: int) -> int:
    """The version in which a record is written."""
    for since, version in _RECORD_VERSIONS.get(type(record).__name__, ()):
        if metadata_version >= since:
            return version
    return 0


def update_features(
    request: UpdateFeaturesRequest, image: MetadataImage, node_id: int
) -> Change[UpdateFeaturesResponse]:
    """All of the updates, or none and the refusal of the first bad one.

    Version 0 of the request says AllowDowngrade, which Kafka's controller does not read either: it is an upgrade.
    """
    updates = [Update(u.feature, u.max_version_level, u.upgrade_type) for u in request.feature_updates]
    for update in updates:
        reason = refusal(update, image, node_id)
        if reason is not None:
            message = f"The update failed for all features since the following feature had an error: {reason}"
            return Change(UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=message))
    # Of a feature that is named twice the last level wins, because its record comes last.
    records: list[Struct] = [FeatureLevelRecord(name=update.name, feature_level=update.level) for update in updates]
    results = [UpdatableFeatureResult(feature=update.name, error_message="NONE") for update in updates]
    reply = UpdateFeaturesResponse(error_message=None, results=results)
    return Change(reply, [] if request.validate_only else records)


def refusal(update: Update, image: MetadataImage, node_id: int) -> str | None:
    """Why a feature cannot get this level, or None (`FeatureControlManager.updateFeature`)."""
    reason = _unsupported(update, image, node_id) or _wrong_direction(update, image)
    if reason is not None:
        return f"Invalid update version {update.level} for feature {update.name}. {reason}"
    if update.name == METADATA_VERSION:
        return _lossy(update, image.feature(METADATA_VERSION))
    return None


def unsupported_levels(image: MetadataImage, features: Mapping[str, tuple[int, int]]) -> str | None:
    """Why a broker with these features cannot join: a finalized level is outside of what it supports."""
    for name, level in image.features.items():
        low, high = features.get(name, (0, 0))
        if not low <= level <= high:
            return f"feature {name} is finalized at {level}, the broker supports {low} to {high}"
    return None


def _unsupported(update: Update, image: MetadataImage, node_id: int) -> str | None:
    if update.upgrade_type not in UpgradeType.__members__.values():
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    if update.level == 0 and update.name not in SUPPORTED:
        return f"Feature {update.name} not found."
    who: list[tuple[str, Mapping[str, tuple[int, int]]]] = [(f"Local controller {node_id}", SUPPORTED)]
    who += [(f"Broker {broker.id}", broker.features) for broker in image.brokers.values()]
    for name, features in who:
        low, high = features.get(update.name, (0, 0))
        if not low <= update.level <= high:
            if update.name not in features:
                return f"{name} does not support this feature."
            return f"{name} only supports versions {low}-{high}"
    return None


def _wrong_direction(update: Update, image: MetadataImage) -> str | None:
    current = image.feature(update.name)
    if update.level < current and update.upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > current and update.upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _lossy(update: Update, current: int) -> str | None:
    if not any(update.level < changed <= current for changed in _CHANGED_METADATA):
        return None
    prefix = f"Unsupported metadata.version downgrade from {current} to {update.level}. "
    if update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
        return prefix + "Unsafe metadata downgrade is not supported in this version."
    return prefix + "Refusing to perform the requested downgrade because it might delete metadata information."
