"""Odradek as an older release answers as real brokers of that release did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.oracle import recorded as answers
from tests.oracle.releases.chosen import chosen_scenarios, played_as
from tests.oracle.releases.columns import COLUMNS, Column
from tests.oracle.releases.differences import DIFFERENCES, reason
from tests.oracle.releases.ranges import LACKING, PREVIEWS, RANGES, asked, keys, told
from tests.oracle.releases.real import VERSIONS
from tests.oracle.releases.recorded import ANSWERS, KAFKA, ODRADEK, answers_path, recorded
from tests.oracle.releases.starts import odradek
from tests.oracle.scenario import Scenario, load_all
from tests.oracle.session import Stage, Stages, needs
from tests.oracle.transcript import difference

from odradek.config.table import Config
from odradek.host.router import SERVED, Router
from odradek.releases.table import FEATURES, LATEST, RELEASES, release_of
from odradek.testing import Cluster
from odradek.wire.registry import ApiKey

SCENARIOS = chosen_scenarios()
PLAYED = [
    pytest.param(
        scenario, column, id=f"{scenario.path}-{column.name}", marks=[pytest.mark.slow] if scenario.waits else []
    )
    for scenario in SCENARIOS
    for column in recorded(scenario)
]
RECORDED = json.loads(RANGES.read_text())
LACKING_FEATURES: Mapping[str, str] = {}
"""The same for features."""

CONFIGS = [release for release in RELEASES if "configs" in RECORDED[release] and release != "4.0"]
"""Releases whose keys were recorded; with 4.0 and before they are those of 4.4."""


def stage(scenario: Scenario, column: Column) -> Stage:
    scenarios = [each for each in SCENARIOS if needs(each) == needs(scenario) and column in recorded(each)]
    return Stage(played_as(scenarios, column.release), column.level, odradek(column))


@pytest.fixture(scope="module")
def stages() -> Iterator[Stages]:
    with Stages() as stages:
        yield stages


@pytest.mark.parametrize(("scenario", "column"), PLAYED)
def test_answers(stages: Stages, scenario: Scenario, column: Column) -> None:
    expected = (recorded(scenario, ODRADEK) or recorded(scenario))[column]
    actual = stages.get((column, needs(scenario)), lambda: stage(scenario, column)).play(scenario)
    assert not (lines := difference(expected, actual)), "\n".join(["", *lines])


def test_the_newest_release_takes_nothing_that_kafka_4_has_dropped() -> None:
    """Only without `--as-kafka` are the versions of older clients served too."""
    [scenario] = [each for each in load_all() if each.path == "api_versions/versions-that-kafka-4-has-dropped"]
    newest = Column("4.4", 2, only_level=False)
    with Stage([scenario], newest.level, odradek(newest)) as stage:
        actual = stage.play(scenario)
    assert not (lines := difference(answers.recorded(scenario, answers.KAFKA)[2], actual)), "\n".join(["", *lines])


def test_every_difference_has_its_reason_and_is_still_one() -> None:
    for scenario in SCENARIOS:
        if ours := recorded(scenario, ODRADEK):
            kafka = recorded(scenario)
            assert reason(scenario), scenario.path
            assert ours.keys() == kafka.keys(), scenario.path
            assert any(difference(kafka[column], ours[column]) for column in kafka), scenario.path
    assert DIFFERENCES.keys() <= {each.path for each in SCENARIOS if recorded(each, ODRADEK)}


def test_there_are_no_answers_to_scenarios_that_are_gone() -> None:
    known = {answers_path(scenario, who) for scenario in SCENARIOS for who in (KAFKA, ODRADEK)}
    assert set(ANSWERS.rglob("*.txt")) <= known


def test_the_pages_count_the_scenarios() -> None:
    docs = Path(__file__).parents[3] / "docs"
    releases = [{column.release for column in recorded(scenario)} for scenario in SCENARIOS]
    oldest, newest = (sum(release in each for each in releases) for release in ("2.8", "4.3"))
    played = sum(map(bool, releases))
    told = f"and {played} scenarios ({oldest} of them could be played to 2.8, {newest} to 4.3)."
    assert told in (docs / "releases.md").read_text(encoding="utf-8"), told
    of_all = f"holds some {len(load_all()) // 10 * 10} scenarios"
    assert of_all in (docs / "oracle.md").read_text(encoding="utf-8"), of_all


def test_the_releases_are_those_that_were_asked() -> None:
    assert list(RECORDED) == list(RELEASES) == list(VERSIONS)
    assert {column.release for column in COLUMNS} == RELEASES.keys() - {LATEST}


@pytest.mark.parametrize("release", RELEASES)
def test_the_ranges_are_those_that_the_release_tells(release: str) -> None:
    expected = {api: tuple(told) for api, told in RECORDED[release]["apis"].items() if api not in LACKING}

    assert expected == {key.name: (low, high) for key, low, high in Router(RELEASES[release]).ranges()}


@pytest.mark.parametrize("release", [release for release in RELEASES if "unstable" in RECORDED[release]])
def test_what_is_offered_with_the_switches_for_what_is_unstable(release: str) -> None:
    more = RECORDED[release]["unstable"]
    newest = max(RECORDED[release]["api_versions"].values(), key=lambda answer: len(answer["supported"]))
    apis = {api: tuple(told) for api, told in {**RECORDED[release]["apis"], **more["apis"]}.items()}
    preview = PREVIEWS if release == "4.0" else frozenset[str]()
    router = Router(RELEASES[release], unstable_versions=True)
    config = Config.parse({"odradek.as.kafka": release, "unstable.feature.versions.enable": "true"})

    assert {api: told for api, told in apis.items() if api not in LACKING.keys() | preview} == {
        key.name: (low, high) for key, low, high in router.ranges()
    }
    assert dict(config.release.features) == {
        name: tuple(levels) for name, levels in {**newest["supported"], **more["features"]}.items()
    }


@pytest.mark.parametrize("release", CONFIGS)
def test_the_names_of_the_configs(release: str) -> None:
    with Cluster(as_kafka=release) as cluster:
        host, port = cluster.bootstrap.split(":")
        told = keys((host, int(port)), node_id=1)

    for kind, names in RECORDED[release]["configs"].items():
        assert set(names) == set(told[kind]), kind


def test_what_a_release_does_not_know_is_refused() -> None:
    fields = {"config_operation": 0, "value": "1"}
    lacked = {(2, "t"): "remote.copy.lag.ms", (32, "g"): "streams.assignor.name"}
    with Cluster(as_kafka="4.3", topics={"t": 1}) as cluster:
        host, port = cluster.bootstrap.split(":")
        resources = [
            {"resource_type": kind, "resource_name": name, "configs": [{"name": key, **fields}]}
            for (kind, name), key in lacked.items()
        ]
        answer = asked((host, int(port)), ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": resources})

    assert ["Unknown topic config name: remote.copy.lag.ms", "Unknown group config name: streams.assignor.name"] == [
        response.error_message for response in answer.responses
    ]


def test_what_is_lacking_is_told_by_a_release_and_not_served() -> None:
    told = {api for recorded in RECORDED.values() for api in recorded["apis"]}
    features = {name for recorded in RECORDED.values() for name in recorded["api_versions"]["5"]["supported"]}

    assert LACKING.keys() <= told - {served.api_key.name for served in SERVED if served.is_for_clients}
    assert LACKING_FEATURES.keys() <= features - set(FEATURES)


@pytest.mark.parametrize("release", RELEASES)
def test_the_answers_to_every_version_of_api_versions(release: str) -> None:
    """All that is told, but for the APIs and features that Odradek does not have."""
    with Cluster(as_kafka=release) as cluster:
        host, port = cluster.bootstrap.split(":")
        answers = told((host, int(port)))["api_versions"]

    assert len(answers) == len(RECORDED[release]["api_versions"])
    for version, answer in answers.items():
        expected = RECORDED[release]["api_versions"][str(version)]
        for kind in ("supported", "finalized"):
            assert answer[kind] == {
                name: levels for name, levels in expected[kind].items() if name not in LACKING_FEATURES
            }
        assert (answer["error_code"], answer["has_epoch"]) == (expected["error_code"], expected["has_epoch"])
        assert (answer["apis"] == 1) == (expected["apis"] == 1), (
            "a version that is too new is told the range of this API"
        )


@pytest.mark.parametrize("release", RELEASES)
def test_the_levels_of_a_new_cluster(release: str) -> None:
    newest = next(each for each in reversed(RECORDED[release]["api_versions"].values()) if each["error_code"] == 0)
    finalized = {name: high for name, (_, high) in newest["finalized"].items() if name not in LACKING_FEATURES}

    levels = {name: level for name, level in release_of(release).levels.items() if level}

    assert finalized == (levels if release_of(release).tells_features else {})
