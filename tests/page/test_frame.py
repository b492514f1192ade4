"""The frame of the page: it opens, and shows nothing wrong, from a file and from a hub."""

from __future__ import annotations

from playwright.async_api import expect
from tests.page.browser import Pages

from odradek.control.client import HubClient


async def test_a_file_opens(pages: Pages) -> None:
    page = await pages.of_file({})
    await expect(page.get_by_role("heading", name="Odradek")).to_be_visible()


async def test_a_hub_opens(pages: Pages, hub: HubClient) -> None:
    hub.post("clusters", body={"id": "kitchen"})
    page = await pages.live(hub.url)
    await expect(page.get_by_role("heading", name="Odradek")).to_be_visible()
    told = await page.evaluate('import("/page/source.js").then(({ source }) => source.get("clusters"))')
    assert ["kitchen"] == [cluster["id"] for cluster in told]
