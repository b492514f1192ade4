"""Pictures of transactions in a real browser: what is drawn lies in the picture, and nothing in it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, Page
from tests.exports.histories import HOSTILE, hostile_texts, named, two_transactions

from odradek.show.svg import drawn
from odradek.show.transaction import of_transaction

BOXES = """() => {
  const outer = document.querySelector("svg").getBoundingClientRect();
  const inside = ({ left, right, top, bottom }) =>
    left >= outer.left && right <= outer.right && top >= outer.top && bottom <= outer.bottom;
  return [...document.querySelectorAll("svg text, svg rect, svg line, svg path")]
    .filter((each) => !inside(each.getBoundingClientRect()))
    .map((each) => each.outerHTML);
}"""
INKS = """() => ["page", "name", "arrow"].map((name) => {
  const style = getComputedStyle(document.querySelector(`svg .${name}`));
  return name === "arrow" ? style.stroke : style.fill;
})"""


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """An empty page; a dialog, an error or a call to the network fails the test."""
    context = await browser.new_context(viewport={"width": 1280, "height": 1600})
    opened, troubles = await context.new_page(), list[str]()
    opened.on("dialog", lambda dialog: troubles.append(dialog.message))
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on("request", lambda request: troubles.append(request.url))
    yield opened
    await context.close()
    assert [] == troubles


async def test_all_of_it_lies_in_the_picture(page: Page) -> None:
    await page.set_content(drawn(of_transaction(two_transactions(), "y")))
    assert [] == await page.evaluate(BOXES)
    texts = await page.locator("svg text").all_text_contents()
    assert "PrepareAbort → CompleteAbort, epoch 1" in texts


async def test_it_is_dark_where_its_reader_is(page: Page) -> None:
    await page.set_content(drawn(of_transaction(two_transactions(), "x")))
    inks = {}
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        inks[scheme] = await page.evaluate(INKS)
    assert all(one != other for one, other in zip(inks["light"], inks["dark"], strict=True))


async def test_nothing_that_a_client_names_runs(page: Page) -> None:
    for text in (HOSTILE, '<img src="x" onerror="alert(1)">', *hostile_texts(5)):
        await page.set_content(drawn(named(text)))
        assert await page.locator("img, script, svg a, svg image, svg foreignObject").count() == 0
        assert await page.locator("svg text").count() == 7
