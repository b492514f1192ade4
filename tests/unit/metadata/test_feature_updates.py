"""What a feature may be changed to, row by row as Kafka 4.4 answers (recorded from a real broker)."""

import pytest
from msgspec.structs import replace
from tests.unit.metadata.helpers import broker, image_of, level

from odradek.metadata.feature_updates import update_features
from odradek.metadata.image import MetadataImage
from odradek.releases.release import Release
from odradek.releases.table import RELEASES, WIDEST
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.feature_level_record import FeatureLevelRecord
from odradek.wire.messages.k_raft_version_record import KRaftVersionRecord
from odradek.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.wire.messages.update_features_response import UpdateFeaturesResponse

TV, MV, GV, KV = "transaction.version", "metadata.version", "group.version", "kraft.version"
PREFIX = "The update failed for all features since the following feature had an error: "
NO_DOWNGRADE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
)
NO_TYPE = "The controller does not support the given upgrade type."
LOSSY = "Refusing to perform the requested downgrade because it might delete metadata information."
UNSAFE = "Unsafe metadata downgrade is not supported in this version."


def finalized(**levels: int) -> MetadataImage:
    return image_of(level(**{"metadata_version": 33, "group_version": 1, "transaction_version": 2} | levels), broker(1))


def update(
    *updates: tuple[str, int, int], image: MetadataImage | None = None, validate_only: bool = False
) -> tuple[list[tuple[str, int]], UpdateFeaturesResponse]:
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=wanted, upgrade_type=kind)
            for name, wanted, kind in updates
        ],
        validate_only=validate_only,
    )
    change = update_features(request, image or finalized(), 1)
    written = [record for record in change.records if isinstance(record, FeatureLevelRecord)]
    return [(record.name, record.feature_level) for record in written], change.reply


@pytest.mark.parametrize(
    ("name", "wanted", "kind", "reason"),
    [
        (TV, 3, 1, f"Invalid update version 3 for feature {TV}. Local controller 1 only supports versions 0-2"),
        (TV, 3, 4, f"Invalid update version 3 for feature {TV}. {NO_TYPE}"),
        (TV, -1, 1, f"Invalid update version -1 for feature {TV}. A feature version cannot be less than 0."),
        (TV, -1, 4, f"Invalid update version -1 for feature {TV}. {NO_TYPE}"),
        (TV, 1, 1, f"Invalid update version 1 for feature {TV}. {NO_DOWNGRADE}"),
        (TV, 2, 0, f"Invalid update version 2 for feature {TV}. {NO_TYPE}"),
        (TV, 2, 4, f"Invalid update version 2 for feature {TV}. {NO_TYPE}"),
        ("nope", 1, 1, "Invalid update version 1 for feature nope. Local controller 1 does not support this feature."),
        ("nope", 0, 1, "Invalid update version 0 for feature nope. Feature nope not found."),
        ("nope", -1, 1, "Invalid update version -1 for feature nope. A feature version cannot be less than 0."),
        ("", 1, 1, "Invalid update version 1 for feature . Local controller 1 does not support this feature."),
        (MV, 34, 1, f"Invalid update version 34 for feature {MV}. Local controller 1 only supports versions 7-33"),
        (MV, 6, 2, f"Invalid update version 6 for feature {MV}. Local controller 1 only supports versions 7-33"),
        (MV, 0, 2, f"Invalid update version 0 for feature {MV}. Local controller 1 only supports versions 7-33"),
        (MV, 24, 1, f"Invalid update version 24 for feature {MV}. {NO_DOWNGRADE}"),
        (MV, 24, 2, f"Unsupported metadata.version downgrade from 33 to 24. {LOSSY}"),
        (MV, 24, 3, f"Unsupported metadata.version downgrade from 33 to 24. {UNSAFE}"),
        (MV, 32, 2, f"Unsupported metadata.version downgrade from 33 to 32. {LOSSY}"),
    ],
)
def test_a_refused_update(name: str, wanted: int, kind: int, reason: str) -> None:
    written, reply = update((name, wanted, kind))

    assert [] == written
    assert (ErrorCode.INVALID_UPDATE_VERSION, PREFIX + reason, []) == (
        reply.error_code,
        reply.error_message,
        reply.results,
    )


@pytest.mark.parametrize(
    ("name", "current", "wanted", "kind"),
    [
        (TV, 2, 2, 1),
        (TV, 2, 2, 2),
        (TV, 2, 2, 3),
        (TV, 2, 1, 2),
        (TV, 2, 0, 2),
        (TV, 2, 0, 3),
        (TV, 0, 2, 1),
        (TV, 1, 2, 1),
        (GV, 1, 0, 2),
        (MV, 33, 33, 1),
        (MV, 33, 33, 2),
        (MV, 24, 33, 1),
        (MV, 29, 28, 2),
        (MV, 29, 28, 3),
        (MV, 29, 24, 2),
    ],
)
def test_a_granted_update(name: str, current: int, wanted: int, kind: int) -> None:
    written, reply = update((name, wanted, kind), image=finalized(**{name.replace(".", "_"): current}))

    assert [(name, wanted)] == written
    assert (0, None) == (reply.error_code, reply.error_message)
    assert [(name, 0, "NONE")] == [(r.feature, r.error_code, r.error_message) for r in reply.results]


def test_up_with_a_type_that_goes_down() -> None:
    written, reply = update((TV, 2, 2), image=finalized(transaction_version=1))

    assert [] == written
    assert (
        f"{PREFIX}Invalid update version 2 for feature {TV}. Can't downgrade to a newer version." == reply.error_message
    )


def test_across_a_level_that_changed_metadata() -> None:
    # 23 changed what is written, so nobody goes back below it.
    _, reply = update((MV, 22, 2), image=finalized(metadata_version=29))

    assert f"{PREFIX}Unsupported metadata.version downgrade from 29 to 22. {LOSSY}" == reply.error_message


def test_validate_only_writes_nothing() -> None:
    written, reply = update((TV, 1, 2), validate_only=True)

    assert ([], 0) == (written, reply.error_code)


def test_one_bad_update_spoils_all() -> None:
    written, reply = update((TV, 1, 2), ("nope", 1, 1))

    assert ([], ErrorCode.INVALID_UPDATE_VERSION) == (written, reply.error_code)
    assert "feature nope" in (reply.error_message or "")


def test_of_a_feature_named_twice_both_are_written_in_order() -> None:
    written, reply = update((TV, 1, 2), (TV, 2, 1))

    assert [(TV, 1), (TV, 2)] == written
    assert [TV, TV] == [result.feature for result in reply.results]


@pytest.mark.parametrize(
    ("current", "wanted", "level"), [(0, [0], 0), (0, [1], 1), (1, [1], 0), (0, [1, 0], 1), (0, [0, 1], 1)]
)
@pytest.mark.parametrize("release", [WIDEST, RELEASES["3.9"]])
def test_the_version_of_the_quorum_is_no_record_of_a_feature(
    release: Release, current: int, wanted: list[int], level: int
) -> None:
    """Kafka writes control records, and only where the level rises."""
    quorum = [KRaftVersionRecord(k_raft_version=current)]
    image = image_of(quorum, broker(1, kraft_version=1), base=finalized(metadata_version=20))
    wishes = [(KV, each, 1) for each in wanted] + [(MV, 21, 1)]
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=each, upgrade_type=kind) for name, each, kind in wishes
        ]
    )

    change = update_features(request, image, 1, release)

    assert level == change.quorum_level
    assert [FeatureLevelRecord(name=MV, feature_level=21)] == list(change.records)
    assert 0 == update_features(replace(request, validate_only=True), image, 1, release).quorum_level


def test_updates_are_measured_against_what_is_finalized_not_against_each_other() -> None:
    written, _ = update((TV, 0, 2), (TV, 1, 1))

    assert [] == written


def test_no_updates() -> None:
    assert ([], 0) == (update()[0], update()[1].error_code)


def test_a_broker_that_cannot_follow_blocks() -> None:
    image = image_of(level(metadata_version=33), broker(2, transaction_version=1))

    _, reply = update((TV, 2, 1), image=image)

    assert (
        f"{PREFIX}Invalid update version 2 for feature {TV}. Broker 2 only supports versions 0-1" == reply.error_message
    )


def test_up_to_3_9_a_bad_update_keeps_no_other_from_being_carried_out() -> None:
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=TV, max_version_level=1, upgrade_type=1),
            FeatureUpdateKey(feature=MV, max_version_level=14, upgrade_type=1),
        ]
    )
    image = image_of(level(metadata_version=13), broker(1))

    change = update_features(request, image, 1, RELEASES["3.6"])

    assert [FeatureLevelRecord(name=MV, feature_level=14)] == list(change.records)
    assert (ErrorCode.NONE, "") == (change.reply.error_code, change.reply.error_message)
    assert [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NONE] == [each.error_code for each in change.reply.results]


def test_a_cluster_with_zookeeper_supports_no_feature() -> None:
    request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature=MV, max_version_level=7)])

    change = update_features(request, image_of(level(metadata_version=7), broker(1)), 1, RELEASES["2.8"])

    assert [] == list(change.records)
    assert [ErrorCode.INVALID_REQUEST] == [each.error_code for each in change.reply.results]
