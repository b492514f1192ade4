"""Fixtures for tests that need a broker; installed with the package.

Override `kafka_cluster_options` in a conftest.py to choose brokers, topics or configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from odradek.testing import Cluster

__all__ = ["kafka_bootstrap", "kafka_cluster", "kafka_cluster_options"]


@pytest.fixture
def kafka_cluster_options() -> dict[str, Any]:
    """Keyword arguments of `odradek.testing.Cluster`."""
    return {}


@pytest.fixture
def kafka_cluster(kafka_cluster_options: dict[str, Any]) -> Iterator[Cluster]:
    """A fresh cluster for each test, in a thread of its own."""
    from odradek.testing import Cluster

    with Cluster(**kafka_cluster_options) as cluster:
        yield cluster


@pytest.fixture
def kafka_bootstrap(kafka_cluster: Cluster) -> str:
    """Where a client of the test connects: `HOST:PORT`, several separated by commas."""
    return kafka_cluster.bootstrap
