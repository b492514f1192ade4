"""Kafka's own tools for groups print here what a real Kafka made them print."""

from __future__ import annotations

import pytest
from tests.clients.group_tools import PROPERTIES, RECORDED, played, written
from tests.clients.lacking import with_toolchains

from odradek.testing import Cluster

pytestmark = [pytest.mark.client, pytest.mark.slow]


def test_they_print_what_they_print_of_a_real_kafka() -> None:
    with Cluster(config=PROPERTIES) as cluster, with_toolchains("tools"):
        assert RECORDED.read_text() == written(played(cluster.bootstrap))
