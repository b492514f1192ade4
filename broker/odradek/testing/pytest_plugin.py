"""Fixtures for tests that need a broker; installed with the package.

A test fails at its end if a rule of a cluster that runs has not seen what it expects.
Override `kafka_cluster_options` in a conftest.py to choose brokers, topics or configuration.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """A test ends with what the rules of its clusters say: what they expect in vain, what their functions raise."""
    try:
        yield
    except BaseException as error:
        _verify(error)
        raise
    _verify(None)


def _verify(error: BaseException | None) -> None:
    module = sys.modules.get("odradek.testing.proof")  # a test that has not imported it has no cluster
    if module is not None:
        module.verify_running(error)
