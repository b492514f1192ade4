"""The table of releases, and what it does to configuration and router."""

from __future__ import annotations

import pytest

from odradek.config.table import Config, ConfigError
from odradek.host.router import SERVED, Router
from odradek.releases.table import FEATURES, LATEST, RELEASES, WIDEST, release_of
from odradek.wire.registry import APIS, ApiKey


def number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def test_without_a_name_it_is_the_newest_and_all_that_odradek_has() -> None:
    assert release_of(None) is WIDEST
    assert LATEST == WIDEST.name == max(RELEASES, key=number)
    assert [
        served.api_key for served in SERVED if served.is_told and served.is_for_clients and not served.is_draft
    ] == [key for key, _, _ in Router().ranges()]


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_offers_no_more_than_odradek_can_read(release: str) -> None:
    served = {key: (low, high) for key, low, high in Router().ranges()}

    for key, low, high in Router(RELEASES[release]).ranges():
        assert served[key][0] <= low <= high <= served[key][1], key.name


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_told_is_served_and_nothing_else(release: str) -> None:
    router = Router(RELEASES[release])
    told = {key: range(low, high + 1) for key, low, high in Router(RELEASES[release], tells_all=True).ranges()}

    for api_key in [served.api_key for served in SERVED if served.is_for_clients]:
        for version in range(-1, APIS[api_key].highest + 3):
            expected = version in told.get(api_key, ())
            if api_key is ApiKey.PRODUCE:
                expected = expected and version >= RELEASES[release].lowest_produce
            assert expected == (router.handler(api_key, version, broker=False) is not None)


@pytest.mark.parametrize(("release", "highest"), [(None, 6), ("4.4", 6), ("4.3", 6), ("4.0", 5), ("3.3", 4)])
def test_only_the_newest_has_unstable_versions(release: str | None, highest: int) -> None:
    assert highest == Router(release_of(release), unstable_versions=True).newest(ApiKey.INIT_PRODUCER_ID)


def test_only_brokers_are_served_what_only_brokers_ask() -> None:
    router = Router(RELEASES["2.8"])

    assert router.handler(ApiKey.ALLOCATE_PRODUCER_IDS, 0, broker=True) is not None
    assert router.handler(ApiKey.ALLOCATE_PRODUCER_IDS, 0, broker=False) is None


@pytest.mark.parametrize("release", RELEASES)
def test_the_levels_of_a_new_cluster_are_the_release_s(release: str) -> None:
    config = Config.parse({"odradek.as.kafka": release})

    levels = tuple(getattr(config, f"odradek_{feature.replace('.', '_')}") for feature in FEATURES)
    assert levels == tuple(RELEASES[release].levels.get(feature, 0) for feature in FEATURES)


def test_the_levels_without_a_release() -> None:
    config = Config.parse({})

    assert (33, 1, 2, 1) == (
        config.odradek_metadata_version,
        config.odradek_group_version,
        config.odradek_transaction_version,
        config.odradek_streams_version,
    )
    assert 2 == Config().odradek_transaction_version


def test_dynamic_values_keep_the_release_and_its_levels() -> None:
    config = Config.parse({"odradek.as.kafka": "3.6"}).dynamic(cluster={"message.max.bytes": "1000"}, broker={})

    assert ("3.6", 14, 0) == (
        config.odradek_as_kafka,
        config.odradek_metadata_version,
        config.odradek_transaction_version,
    )


@pytest.mark.parametrize(
    ("release", "key", "level", "reason"),
    [
        ("3.9", "transaction.version", 2, "it does not have the feature"),
        ("2.8", "metadata.version", 33, "it does not have the feature"),
        ("4.0", "metadata.version", 26, "it has 7 to 25"),
        ("3.6", "group.version", 1, "it does not have the feature"),
    ],
)
def test_a_level_that_the_release_lacks(release: str, key: str, level: int, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Config.parse({"odradek.as.kafka": release, f"odradek.{key}": str(level)})
    assert f"Kafka {release} has no level {level} of {key}: {reason}." == str(refused.value)
