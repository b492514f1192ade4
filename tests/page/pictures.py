"""Pictures of the page for README and docs, light and dark: `make pictures`, where there is a Chromium."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from playwright.async_api import Browser, Page
from tests.hub.helpers import HubBeside, Till, made
from tests.page.browser import CHROMIUM, Pages, Scheme, chromium

from odradek.control.client import HubClient

__all__ = ["draw"]

SCHEMES: tuple[Scheme, ...] = ("light", "dark")
CLUSTER = "kitchen"
VIEWS = {
    "now": (f"#now&cluster={CLUSTER}", "till-2"),
    "then": (f"#then&cluster={CLUSTER}&id=till-1", "EndTxn"),
}
"""The address of each view, and a text that it shows when it is complete."""


def draw(folder: Path) -> list[Path]:
    """Write page-VIEW-SCHEME.png for each view; nothing without a browser."""
    if CHROMIUM is None:
        return []
    with HubBeside() as beside, _a_commit_that_is_held(HubClient(beside.url)):
        return asyncio.run(_drawn(beside.url, folder))


@contextmanager
def _a_commit_that_is_held(hub: HubClient) -> Iterator[None]:
    """till-1 has committed, and a rule holds the commit of till-2."""
    cluster, bootstrap = made(hub, id=CLUSTER, topics=["t"])
    first, second = Till(bootstrap, "till-1"), Till(bootstrap, "till-2")
    assert (0, 0, 0) == (first.add(), first.send(), first.end())
    hub.post("clusters", cluster, "wait", body={"transaction": {"id": "till-1", "state": "CompleteCommit"}})
    rule = {"name": "commit", "match": {"api": "END_TXN"}, "act": {"hold": True}}
    hub.post("clusters", cluster, "rules", body=rule)
    assert (0, 0) == (second.add(), second.send())
    with ThreadPoolExecutor(1) as waiting:
        ending = waiting.submit(second.end)
        hub.post("clusters", cluster, "wait", body={"rule": {"name": "commit", "held": 1}})
        yield
        hub.delete("clusters", cluster, "rules")
        with suppress(TimeoutError):  # it waits less long than drawing takes
            ending.result()
    first.close()
    second.close()


async def _drawn(url: str, folder: Path) -> list[Path]:
    async with chromium() as browser:
        return [await _view(browser, url, folder, name, scheme) for name in VIEWS for scheme in SCHEMES]


async def _view(browser: Browser, url: str, folder: Path, name: str, scheme: Scheme) -> Path:
    address, text = VIEWS[name]
    pages = Pages(browser)
    page = await pages.live(url, address, scheme=scheme)
    await _complete(page, text)
    path = folder / f"page-{name}-{scheme}.png"
    await page.screenshot(path=path)
    await pages.close()
    assert [] == pages.troubles
    return path


async def _complete(page: Page, text: str) -> None:
    await page.get_by_text(text).first.wait_for()
    await page.wait_for_load_state("networkidle")
