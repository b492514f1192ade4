"""Two runs side by side: aligned at the first difference, which is marked and told."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, Page, expect
from tests.page.browser import Pages, violations
from tests.page.histories import CLIENT, Telling, long, tell, two_runs

from odradek.show.difference import difference
from odradek.show.history import History


async def compared(pages: Pages, left: History, right: History, address: str = "", **look: object) -> Page:
    """The view, from a file."""
    data = {"histories": [left, right], "difference": difference(left, right)}
    page = await pages.of_file(data, f"#compare{address}", **look)
    await expect(page.get_by_role("heading", name=left.title).first).to_be_visible()
    return page


def side(page: Page, history: History) -> Locator:
    """The steps of a run."""
    return page.get_by_role("listbox", name=f"Steps of {history.title}")


async def top(row: Locator) -> float:
    """Where a row is."""
    box = await row.bounding_box()
    assert box is not None
    return box["y"]


async def test_the_first_difference_is_told_and_lies_in_one_row(pages: Pages) -> None:
    left, right = two_runs()
    page = await compared(pages, left, right)
    await expect(page.get_by_text("They differ first in till-2, requests to the coordinator")).to_be_visible()
    marked = [side(page, run).locator(".differs") for run in (left, right)]
    for row in marked:
        await expect(row).to_contain_text("EndTxn v5")
        await expect(row).to_be_in_viewport()
        await expect(row).to_have_accessible_name(re.compile("^The first difference: "))
    assert await top(marked[0]) == await top(marked[1])


async def test_what_is_the_same_lies_in_the_same_row(pages: Pages) -> None:
    left, right = two_runs()
    page = await compared(pages, left, right, height=2000)
    rows = [[await top(row) for row in await side(page, run).get_by_role("option").all()] for run in (left, right)]
    of_left = dict(zip((step.seq for step in left.steps), rows[0], strict=True))
    of_right = dict(zip((step.seq for step in right.steps), rows[1], strict=True))
    pairs = difference(left, right).pairs
    assert len(pairs) > 10
    assert [of_left[one] for one, _ in pairs] == [of_right[other] for _, other in pairs]


@pytest.mark.parametrize("lacking", ["left", "right"])
async def test_a_run_that_ends_earlier_has_an_empty_row_there(pages: Pages, lacking: str) -> None:
    shorter, longer = Telling(), Telling()
    for telling in (shorter, longer):
        tell(telling, "till-2", 4000)
    longer.ask(CLIENT, 0, "END_TXN", 5, transactional_id="till-2")
    runs = (shorter.history("short"), longer.history("long"))
    left, right = runs if lacking == "left" else runs[::-1]
    page = await compared(pages, left, right)
    await expect(page.locator(".difference")).to_contain_text("short has nothing more there")
    await expect(side(page, runs[0]).locator(".differs")).to_have_text("nothing more here")
    await expect(side(page, runs[1]).locator(".differs")).to_contain_text("EndTxn v5")
    assert await top(side(page, runs[0]).locator(".differs")) == await top(side(page, runs[1]).locator(".differs"))


async def test_both_scroll_together(pages: Pages) -> None:
    left = long(2_000)
    page = await compared(pages, left, long(2_100), height=600)
    await expect(page.locator(".differs").first).to_be_in_viewport()
    boxes = page.locator(".lanes")
    await boxes.nth(1).evaluate("box => { box.scrollTop = 12345 }")
    await expect(boxes.nth(0)).to_have_js_property("scrollTop", 12345)
    await boxes.nth(0).evaluate("box => { box.scrollTop = 777 }")
    await expect(boxes.nth(1)).to_have_js_property("scrollTop", 777)
    await page.keyboard.press("d")
    await expect(page.locator(".differs").first).to_be_in_viewport()


async def test_runs_that_do_not_differ_are_shown_so(pages: Pages) -> None:
    left, _ = two_runs()
    page = await compared(pages, left, left)
    await expect(page.locator(".difference")).to_contain_text("do not differ")
    await expect(page.get_by_role("button", name="Go to the first difference")).to_be_disabled()
    await expect(page.locator(".differs")).to_have_count(0)


async def test_a_step_opens_and_its_like_is_marked_beside_it(pages: Pages) -> None:
    left, right = two_runs()
    page = await compared(pages, left, right)
    await side(page, left).get_by_role("option", name="Produce v12").click()
    details = page.get_by_role("complementary", name="Details of the step")
    await expect(details.get_by_role("heading", name="Produce v12")).to_be_visible()
    await expect(side(page, right).get_by_role("option", selected=True)).to_contain_text("Produce v12")
    await page.keyboard.press("Escape")
    await expect(details).to_be_hidden()


async def test_the_other_run_is_shown_alone_as_well(pages: Pages) -> None:
    left, right = two_runs()
    page = await compared(pages, left, right)
    await page.get_by_role("link", name="Then").click()
    await page.get_by_role("combobox", name="Run").select_option("failed.jsonl")
    await expect(page.get_by_role("option", name="Metadata v13")).to_be_visible()
    assert "run=1" in page.url


@pytest.mark.parametrize("width", [1280, 800])
async def test_it_is_accessible(pages: Pages, width: int) -> None:
    left, right = two_runs()
    page = await compared(pages, left, right, width=width)
    assert [] == await violations(page)


async def test_pairs_that_cross_do_not_end_the_rows(pages: Pages) -> None:
    """Brokers act in any order: then not all that is the same can lie in one row, and all steps are there anyway."""
    first, second = Telling(), Telling()
    for telling, order in ((first, (0, 1, 2)), (second, (2, 0, 1))):
        for at in order:
            telling.answer(telling.ask(CLIENT, 1, "CREATE_TOPICS", 7, transactional_id=f"till-{at}"))
    left, right = first.history("one"), second.history("two")
    page = await compared(pages, left, right)
    for run in (left, right):
        await expect(side(page, run).get_by_role("option")).to_have_count(6)
    beside = [await side(page, run).locator("[data-index='2']").text_content() for run in (left, right)]
    assert [True, True] == [str(text).endswith("CreateTopics v7") for text in beside]
