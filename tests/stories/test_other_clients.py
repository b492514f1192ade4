"""The stories with the Java client and franz-go, whose programs have a scenario for each."""

from __future__ import annotations

import pytest
from tests.stories.outcomes import load
from tests.stories.scenarios import SCENARIOS, outcome_of, played

from odradek.control.stories import names
from odradek.testing import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.client]


def test_there_is_a_scenario_for_every_story() -> None:
    assert set(names()) == set(SCENARIOS)


@pytest.mark.parametrize(
    ("family", "story"),
    [(family, story) for story in SCENARIOS for family in ("java", "franz-go") if family in load()[story].clients],
)
def test_a_story(family: str, story: str) -> None:
    with Cluster(story=story) as cluster:
        outcome = outcome_of(played(family, story, cluster.bootstrap))
        assert outcome in load()[story].clients[family].possible
