"""Pages in a real browser.

All tests here share one event loop, because a browser belongs to the loop in which it was started.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from tests.clients.lacking import missing
from tests.hub.helpers import HubBeside
from tests.page.browser import CHROMIUM, Pages, chromium

from odradek.control.client import HubClient

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put every test of this folder on the loop of the browser, and let its pages close before its clusters go.

    A page that still looks when its cluster is gone logs a 404. So `pages` starts last, and ends first.
    """
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if isinstance(item, pytest.Function) and "pages" in item.fixturenames:
                item.fixturenames.sort(key="pages".__eq__)
            if pytest_asyncio.is_async_test(item):
                item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all tests of a process."""
    if CHROMIUM is None:
        missing("There is no Chromium: `make chromium` as root installs Debian's.")
    async with chromium() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def pages(browser: Browser) -> AsyncIterator[Pages]:
    """Opens pages. An error in one of them, on its console or in a call to another host fails the test."""
    opened = Pages(browser)
    yield opened
    await opened.close()
    assert [] == opened.troubles


@pytest.fixture(scope="module")
def beside() -> Iterator[HubBeside]:
    """A hub in a thread of its own."""
    with HubBeside() as running:
        yield running


@pytest.fixture
def hub(beside: HubBeside) -> Iterator[HubClient]:
    """A client of it; the clusters that a test has made are gone after it."""
    client = HubClient(beside.url)
    yield client
    for cluster in client.get("clusters"):
        client.delete("clusters", cluster["id"])
