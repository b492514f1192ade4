"""Changes of feature levels, and the checks of them.

The table of metadata.version is Kafka's `MetadataVersion`; the rules and texts are those of `FeatureControlManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.config.table import Config
from odradek.metadata.change import Change
from odradek.metadata.features import ELIGIBLE_REPLICAS, KRAFT_VERSION, METADATA_VERSION, MIN_INSYNC
from odradek.metadata.image import MetadataImage, ResourceType
from odradek.releases.release import Release
from odradek.releases.table import WIDEST
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.config_record import ConfigRecord
from odradek.wire.messages.feature_level_record import FeatureLevelRecord
from odradek.wire.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

if TYPE_CHECKING:
    from odradek.wire.messages.update_features_request import UpdateFeaturesRequest

DEFAULTS = Config()

__all__ = ["UpgradeType", "update_features"]

# Levels of metadata.version that changed the records; a downgrade across one would lose data (`didMetadataChange`).
_CHANGED_METADATA = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33})

NO_FEATURES = (
    ErrorCode.INVALID_REQUEST,
    "Could not apply finalized feature update because the provided feature is not supported.",
)
"""The answer of a cluster with ZooKeeper, whose brokers support no feature."""


class UpgradeType(IntEnum):
    """The permitted direction of an update (UpdateFeatures v1+)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Update(Struct, frozen=True):
    """The requested change of one feature."""

    name: str
    level: int
    upgrade_type: int


def update_features(
    request: UpdateFeaturesRequest,
    image: MetadataImage,
    node_id: int,
    release: Release = WIDEST,
    config: Config = DEFAULTS,
) -> Change[UpdateFeaturesResponse]:
    """Apply all of the updates, or none and return the error of the first bad one.

    Version 0 of the request has AllowDowngrade, which Kafka's controller ignores too: it counts as an upgrade.
    """
    updates = [Update(u.feature, u.max_version_level, u.upgrade_type) for u in request.feature_updates]
    if not release.tells_features:
        return Change(_each_answered(updates, dict.fromkeys(updates, NO_FEATURES)))
    reasons = {update: _refusal(update, image, node_id, release) for update in updates}
    if release.updates_each_feature:
        return _each_updated(request, reasons, image)
    for reason in reasons.values():
        if reason is not None:
            message = f"The update failed for all features since the following feature had an error: {reason}"
            return Change(UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=message))
    results = [UpdatableFeatureResult(feature=update.name, error_message="NONE") for update in updates]
    reply = UpdateFeaturesResponse(error_message=None, results=results)
    if request.validate_only:
        return Change(reply)
    change = _changed(reply, updates, image)
    change.records += _one_min_insync(updates, image, config)
    return change


def _changed(
    reply: UpdateFeaturesResponse, updates: Iterable[Update], image: MetadataImage
) -> Change[UpdateFeaturesResponse]:
    """If a feature is named twice the last level counts, because its record comes last."""
    change = Change(reply)
    for update in updates:
        if update.name != KRAFT_VERSION:
            change.records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
        elif update.level > image.feature(KRAFT_VERSION):
            change.quorum_level = update.level
    return change


def _one_min_insync(updates: Iterable[Update], image: MetadataImage, config: Config) -> list[Struct]:
    """With eligible leader replicas the cluster's `min.insync.replicas` replaces those of brokers (KIP-966)."""
    if not any(update.name == ELIGIBLE_REPLICAS and update.level > 0 for update in updates):
        return []
    records: list[Struct] = []
    for (resource_type, name), values in image.configs.items():
        if resource_type == ResourceType.BROKER and name and MIN_INSYNC in values:
            records.append(ConfigRecord(resource_type=resource_type, resource_name=name, name=MIN_INSYNC, value=None))
    if MIN_INSYNC not in image.config(ResourceType.BROKER, ""):
        value = str(config.min_insync_replicas)
        records.append(ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=MIN_INSYNC, value=value))
    return records


def _each_updated(
    request: UpdateFeaturesRequest, reasons: Mapping[Update, str | None], image: MetadataImage
) -> Change[UpdateFeaturesResponse]:
    """Before 4.0 one bad update did not prevent the others."""
    refusals = {update: (ErrorCode.INVALID_UPDATE_VERSION, reason) for update, reason in reasons.items() if reason}
    response = _each_answered(reasons, refusals)
    response.error_message = ""
    if request.validate_only:
        return Change(response)
    return _changed(response, [update for update in reasons if update not in refusals], image)


def _each_answered(
    updates: Iterable[Update], refusals: Mapping[Update, tuple[ErrorCode, str]]
) -> UpdateFeaturesResponse:
    results = []
    for update in updates:
        error, message = refusals.get(update, (ErrorCode.NONE, None))
        results.append(UpdatableFeatureResult(feature=update.name, error_code=error, error_message=message))
    return UpdateFeaturesResponse(error_message=None, results=results)


def _refusal(update: Update, image: MetadataImage, node_id: int, release: Release) -> str | None:
    """The reason why a feature cannot have this level, or None (`FeatureControlManager.updateFeature`)."""
    reason = _unsupported(update, image, node_id, release) or _wrong_direction(update, image)
    if reason is not None:
        return f"Invalid update version {update.level} for feature {update.name}. {reason}"
    if update.name == METADATA_VERSION:
        return _lossy(update, image.feature(METADATA_VERSION))
    return None


def _unsupported(update: Update, image: MetadataImage, node_id: int, release: Release) -> str | None:
    if update.upgrade_type not in UpgradeType.__members__.values():
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    if update.level == 0 and update.name not in release.features:
        return f"Feature {update.name} not found."
    who: list[tuple[str, Mapping[str, tuple[int, int]]]] = [(f"Local controller {node_id}", release.features)]
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
    if update.level < current and update.name == KRAFT_VERSION:
        return "Can't downgrade the version of this feature."
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
