"""The list of requests that the bench of the longest steps plays grows with every API."""

from __future__ import annotations

import pytest
from bench.worst import SHORT, WORST, Survey

from odradek.host.router import SERVED
from odradek.wire.messages import APIS


def test_every_api_is_played_or_is_known_to_be_short() -> None:
    served = {each.api_key for each in SERVED if not APIS[each.api_key].draft}
    played = {each.api_key for each in WORST.values()}
    assert served == played | SHORT
    assert not played & SHORT


@pytest.mark.parametrize("name", ["DescribeAcls", "DeleteShareGroupState"])
def test_a_request_is_played_behind_the_one_it_needs(name: str) -> None:
    assert Survey().play(name)
