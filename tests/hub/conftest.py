"""A hub beside the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.hub.helpers import HubBeside

from odradek.control.client import HubClient


@pytest.fixture(scope="module")
def beside() -> Iterator[HubBeside]:
    """A hub in a thread of its own; its clusters outlive a test, as they outlive the calls of a suite."""
    with HubBeside() as running:
        yield running


@pytest.fixture
def hub(beside: HubBeside) -> Iterator[HubClient]:
    """A client of it; what a test has made is gone after it."""
    client = HubClient(beside.url)
    yield client
    for cluster in client.get("clusters"):
        client.delete("clusters", cluster["id"])
