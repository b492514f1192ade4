"""The stories with confluent-kafka. The rules of each prove that it happened."""

from __future__ import annotations

import pytest
from tests.stories.confluent import PLAYED
from tests.stories.outcomes import load

from odradek.control.stories import names
from odradek.testing import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.client]


def test_every_story_is_played() -> None:
    stories = load()
    assert set(PLAYED) == {name for name in names() if "confluent-kafka" in stories[name].clients}


@pytest.mark.parametrize("story", PLAYED)
def test_a_story(story: str) -> None:
    with Cluster(story=story) as cluster:
        outcome = PLAYED[story](cluster)
        assert outcome in load()[story].clients["confluent-kafka"].possible
