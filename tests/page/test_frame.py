"""The frame of the page: it opens, and shows nothing wrong, from a file and from a hub."""

from __future__ import annotations

from pathlib import Path

import msgspec
from playwright.async_api import expect
from tests.page.browser import Pages
from tests.page.histories import two_runs

from odradek.control.client import HubClient
from odradek.page.document import document
from odradek.show.command import Shown
from odradek.show.difference import difference


async def test_a_file_opens(pages: Pages) -> None:
    page = await pages.of_file({})
    await expect(page.get_by_role("heading", name="Odradek")).to_be_visible()


async def test_one_file_is_the_whole_page(pages: Pages, tmp_path: Path) -> None:
    left, right = two_runs()
    shown = Shown(histories=(left, right), difference=difference(left, right))
    path = tmp_path / "page.html"
    path.write_text(document(msgspec.json.encode(shown)))
    page = await pages.of_path(path, "#then&id=till-2")
    await expect(page.get_by_role("option", name="InitProducerId v5")).to_be_visible()
    await page.keyboard.press("?")
    await page.get_by_role("dialog", name="Keys").get_by_role("button", name="Close").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.get_by_role("link", name="Two runs").click()
    await expect(page.locator(".differs")).to_have_count(2)
    assert await page.locator(".lanes").first.evaluate("box => getComputedStyle(box).overflowY") == "auto"


async def test_the_views_are_links(pages: Pages) -> None:
    left, right = two_runs()
    page = await pages.of_file({"histories": [left, right], "difference": difference(left, right)})
    await expect(page.get_by_role("link", name="Then")).to_have_attribute("aria-current", "page")
    await page.get_by_role("link", name="Two runs").click()
    await expect(page.get_by_role("link", name="Two runs")).to_have_attribute("aria-current", "page")
    assert await page.title() == "Two runs · Odradek"
    await page.go_back()
    await expect(page.get_by_role("link", name="Then")).to_have_attribute("aria-current", "page")


async def test_it_is_dark_where_its_reader_is(pages: Pages) -> None:
    page = await pages.of_file({}, scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = await page.evaluate(ground)
    await page.emulate_media(color_scheme="light")
    assert "rgb(255, 255, 255)" == await page.evaluate(ground) != dark


async def test_a_hub_opens(pages: Pages, hub: HubClient) -> None:
    hub.post("clusters", body={"id": "kitchen"})
    page = await pages.live(hub.url)
    await expect(page.get_by_role("heading", name="Odradek")).to_be_visible()
    told = await page.evaluate('import("/page/source.js").then(({ source }) => source.get("clusters"))')
    assert ["kitchen"] == [cluster["id"] for cluster in told]
