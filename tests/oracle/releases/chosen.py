"""Which scenarios are played against older releases: those about transactions, and some of their own.

The scenarios of the newest release speak its versions; a release that lacks one is asked in the highest that it has.
Those of `releases/scenarios` are played as they stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tests.oracle.releases.ranges import highest_versions
from tests.oracle.releases.real import has_controller, has_groups_of_every_kind, has_transaction_version
from tests.oracle.requests import api_key
from tests.oracle.scenario import SCENARIOS, Scenario, Step, parse_file

__all__ = ["FILES", "chosen_scenarios", "played_as"]

OWN = Path(__file__).parent / "scenarios"

FILES = (
    "commit_and_abort",
    "coordinators",
    "end_txn",
    "epoch_overflow",
    "expiration",
    "features",
    "fencing",
    "fetch",
    "groups",
    "idempotent_produce",
    "init_producer_id",
    "markers",
    "offsets",
    "offsets_in_transactions",
    "other_brokers",
    "pending_markers",
    "produce",
    "restarts",
    "verification",
    "verification_off",
)
"""The files of `tests/oracle/scenarios` that are played; what is told of topics and configs is 4.4's everywhere."""

OF_GROUPS = ("consumer_protocol", "share_groups", "streams_members", "streams_topics", "update_features")
"""Those that releases play besides that have groups of every kind, from 4.3 on."""

NEEDS_CONTROLLER = ("hold", "elsewhere", "follower")
"""Verbs that take a second broker, which is registered with a KRaft controller."""


def chosen_scenarios() -> list[Scenario]:
    """The scenarios of these files, and those of releases alone."""
    paths = [*(SCENARIOS / f"{name}.txt" for name in (*FILES, *OF_GROUPS)), *sorted(OWN.glob("*.txt"))]
    return [scenario for path in paths for scenario in parse_file(path)]


def played_as(scenarios: Iterable[Scenario], release: str) -> list[Scenario]:
    """Those that can be played against the release, in versions that it has; what a step is called stays."""
    return [
        scenario
        if scenario.topic not in (*FILES, *OF_GROUPS)
        else replace(scenario, steps=tuple(in_versions_of(release, scenario.steps)))
        for scenario in scenarios
        if fits(scenario, release)
    ]


def fits(scenario: Scenario, release: str) -> bool:
    """Whether the real broker has the means."""
    if scenario.topic in OF_GROUPS:
        return has_groups_of_every_kind(release)
    if scenario.has("feature"):
        return has_transaction_version(release)
    return has_controller(release) or not (scenario.brokers > 1 or scenario.has(*NEEDS_CONTROLLER))


def in_versions_of(release: str, steps: tuple[Step, ...]) -> Iterator[Step]:
    highest = highest_versions(release)
    for step in steps:
        known = highest.get(api_key(step.verb).name, step.version) if step.is_request else step.version
        yield replace(step, version=min(step.version, known))
