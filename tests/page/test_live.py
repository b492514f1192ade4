"""The page of a hub that is at work: it asks while somebody looks, says what it leaves out, and keeps its place."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, Page, expect
from tests.hub.helpers import Till
from tests.page.browser import Pages, StubHub, violations
from tests.page.ring import CLUSTER, Ring

from odradek.control.client import HubClient

EVERY_MS = 500
CLUSTERS_EVERY_MS = 3_000


async def live(pages: Pages, ring: Ring, address: str = "#then", **look: object) -> Page:
    """The view, from the stub, once the first events are there."""
    page = await pages.live(ring.hub, address, **look)
    await expect(steps(page).first).to_be_attached()
    return page


def steps(page: Page) -> Locator:
    """The rows of steps that are in the document."""
    return page.get_by_role("listbox", name="Steps").get_by_role("option")


async def hide(page: Page, *, hidden: bool) -> None:
    """What a browser does with a tab in the background."""
    await page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def newest(ring: Ring) -> re.Pattern[str]:
    """What is told of the number of events now."""
    return re.compile(f"Shows 500 of {ring.events:,} events")


async def test_the_newest_events_are_shown_and_the_others_counted(pages: Pages) -> None:
    ring = Ring(5_210)
    page = await live(pages, ring)
    await expect(page.get_by_text("Shows 500 of 5,210 events")).to_be_visible()
    last = steps(page).last
    await expect(last).to_be_in_viewport()
    assert {"most": "500"} == ring.asked[0]


async def test_it_asks_twice_a_second(pages: Pages) -> None:
    ring = Ring(per_ask=10)
    page = await live(pages, ring, clock=True)
    for asked in (2, 3, 4):
        await expect(page.get_by_text(newest(ring))).to_be_visible()
        await page.clock.run_for(EVERY_MS)
        await expect(page.get_by_text(f"of {5_210 + 10 * asked:,} events")).to_be_visible()
        assert asked == len(ring.asked)


async def test_it_asks_nothing_while_nobody_looks(pages: Pages) -> None:
    ring = Ring(per_ask=10)
    page = await live(pages, ring, clock=True)
    await hide(page, hidden=True)
    await page.clock.run_for(10 * EVERY_MS)
    assert 1 == len(ring.asked)
    await hide(page, hidden=False)
    await expect(page.get_by_text("of 5,230 events")).to_be_visible()
    assert 2 == len(ring.asked)


async def test_a_pause_ends_the_questions(pages: Pages) -> None:
    ring = Ring(per_ask=10)
    page = await live(pages, ring, clock=True)
    await page.get_by_role("button", name="Pause").click()
    await expect(page.get_by_text("5,220 events · paused")).to_be_visible()
    await page.clock.run_for(10 * EVERY_MS)
    assert 1 == len(ring.asked)
    await page.get_by_role("button", name="Follow the newest").click()
    await expect(page.get_by_text("of 5,230 events")).to_be_visible()
    await expect(steps(page).last).to_be_in_viewport()


async def test_scrolling_up_pauses_and_keeps_the_place(pages: Pages) -> None:
    ring = Ring(per_ask=10)
    page = await live(pages, ring)
    await page.mouse.move(600, 400)
    await page.mouse.wheel(0, -600)
    await expect(page.get_by_role("button", name="Follow the newest")).to_be_visible()
    asked = len(ring.asked)
    place = await page.locator(".lanes").evaluate("box => box.scrollTop")
    await hide(page, hidden=False)
    assert place == await page.locator(".lanes").evaluate("box => box.scrollTop")
    assert asked == len(ring.asked)


async def test_a_step_that_is_looked_at_stays(pages: Pages) -> None:
    ring = Ring(per_ask=10)
    page = await live(pages, ring, clock=True)
    await steps(page).last.click()
    await page.clock.run_for(10 * EVERY_MS)
    await expect(steps(page).and_(page.locator("[aria-selected=true]"))).to_be_in_viewport()
    await expect(page.get_by_role("complementary", name="Details of the step")).to_contain_text("event 5,220")
    assert 1 == len(ring.asked)


async def test_earlier_events_come_above_and_the_place_stays(pages: Pages) -> None:
    ring = Ring(1_200)
    page = await live(pages, ring)
    await page.get_by_role("button", name="Pause").click()
    await page.locator(".lanes").evaluate("box => { box.scrollTop = 360 }")
    first = page.locator("[data-index='10']")
    before = (await first.text_content(), await first.bounding_box())
    named = await first.get_attribute("aria-label")
    await page.get_by_role("button", name="Earlier events").click()
    await expect(page.get_by_text("Shows 1,000 of 1,200 events")).to_be_visible()
    assert {"most": "500", "before": "701"} == ring.asked[-1]
    assert named is not None
    moved = page.locator(f".row:has-text({str(before[0])[5:]!r})")
    assert before[1] is not None
    tops = [box["y"] for box in [await row.bounding_box() for row in await moved.all()] if box is not None]
    assert before[1]["y"] in tops
    await page.get_by_role("button", name="Earlier events").click()
    await expect(page.get_by_text("1,200 events · paused")).to_be_visible()
    await expect(page.get_by_role("button", name="Earlier events")).to_be_hidden()


async def test_the_hub_is_asked_for_one_transaction(pages: Pages) -> None:
    ring = Ring()
    page = await live(pages, ring)
    chosen = ring.window("1").transactions[0]
    await page.get_by_role("combobox", name="Follow a transactional id").fill(chosen)
    await page.keyboard.press("Enter")
    async with page.expect_response(re.compile(f"transaction={chosen}")):
        pass
    about = [step for step in ring.window("500", transaction=chosen).steps if step.transactional_id == chosen]
    await expect(page.get_by_text(f"{len(about)} steps · 500 of 5,210 events")).to_be_visible()
    await expect(steps(page).last).to_be_in_viewport()


async def test_a_link_to_a_step_shows_it_and_what_is_near(pages: Pages) -> None:
    ring = Ring(5_210, per_ask=10)
    page = await live(pages, ring, "#then&step=3000")
    await expect(steps(page).and_(page.locator("[aria-selected=true]"))).to_be_in_viewport()
    details = page.get_by_role("complementary", name="Details of the step")
    await expect(details).to_contain_text("event 3,000")
    await expect(page.get_by_role("button", name="Follow the newest")).to_be_visible()
    assert [{"most": "500", "before": "3250"}] == ring.asked
    await page.evaluate("location.hash = '#then&step=1000'")
    await expect(details).to_contain_text("event 1,000")


async def test_a_transaction_is_asked_for_while_the_view_is_paused_as_well(pages: Pages) -> None:
    ring = Ring()
    page = await live(pages, ring)
    await steps(page).last.click()
    chosen = ring.window("1").transactions[0]
    await page.keyboard.press("f")
    about = [step for step in ring.window("500", transaction=chosen).steps if step.transactional_id == chosen]
    await expect(page.get_by_text(f"{len(about)} steps · 500 of 5,210 events · paused")).to_be_visible()
    assert {"most": "500", "before": "5211", "transaction": chosen} == ring.asked[-1]
    await expect(steps(page).and_(page.locator("[aria-selected=true]"))).to_be_in_viewport()
    await page.get_by_role("button", name="Follow no transactional id").click()
    await expect(page.get_by_text("Shows 500 of 5,210 events · paused")).to_be_visible()


async def test_a_hub_that_does_not_answer_is_told_and_asked_again(pages: Pages) -> None:
    ring = Ring()
    answers = {"broken": True}

    def answer(method: str, path: str, query: dict[str, str], body: object) -> object:
        if path.endswith("history") and answers["broken"]:
            return 503, {"title": "Unavailable", "detail": "The cluster is being made."}
        return ring.answer(method, path, query, body)

    page = await pages.live(StubHub(answer), "#then")
    await expect(page.get_by_text("The cluster is being made.")).to_be_visible()
    answers["broken"] = False
    await expect(page.get_by_text("Shows 500 of 5,210 events")).to_be_visible()
    answers["broken"] = True
    await expect(page.get_by_text("The cluster is being made.")).to_be_visible()
    answers["broken"] = False
    await expect(page.get_by_text("Shows 500 of 5,210 events")).to_be_visible()
    assert all("503" in trouble for trouble in pages.troubles)
    pages.troubles.clear()


# ---------------------------------------------------------------------- the frame


async def test_the_token_is_asked_for_and_kept_in_the_tab_alone(pages: Pages) -> None:
    ring = Ring()

    def answer(method: str, path: str, query: dict[str, str], body: object) -> object:
        if hub.headers[-1].get("authorization") != "Bearer a secret":
            return 401, {"detail": "This hub wants its token."}
        return ring.answer(method, path, query, body)

    hub = StubHub(answer)
    page = await pages.live(hub, "#then")
    dialog = page.get_by_role("dialog", name="This hub wants a token")
    await expect(dialog.get_by_label("Token")).to_be_focused()
    assert [] == await violations(page)
    await page.keyboard.type("a guess")
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_text("It has refused that one.")).to_be_visible()
    await dialog.get_by_label("Token").fill("a secret")
    await dialog.get_by_role("button", name="Go on").click()
    await expect(page.get_by_text("Shows 500 of 5,210 events")).to_be_visible()
    assert ["a secret"] == await page.evaluate("Object.values(sessionStorage)")
    assert [] == await page.evaluate("[...Object.values(localStorage), document.cookie].filter(Boolean)")
    assert "secret" not in page.url
    assert all("401" in trouble for trouble in pages.troubles)
    pages.troubles.clear()


async def test_a_reader_without_a_token_is_not_asked_again_and_again(pages: Pages) -> None:
    hub = StubHub(lambda *_: (401, {"detail": "This hub wants its token."}))
    page = await pages.live(hub, "#then", clock=True)
    await page.get_by_role("button", name="Not now").click()
    await expect(page.get_by_text("This hub wants its token.")).to_be_visible()
    await page.clock.run_for(20_000)
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.get_by_role("button", name="Give the token").click()
    await expect(page.get_by_role("dialog", name="This hub wants a token")).to_be_visible()
    pages.troubles.clear()


async def test_the_cluster_is_chosen_in_the_bar_and_in_the_address(pages: Pages) -> None:
    ring = Ring(clusters=("bar", CLUSTER))
    page = await live(pages, ring, f"#then&cluster={CLUSTER}")
    picker = page.get_by_role("combobox", name="Cluster")
    await expect(picker).to_have_value(CLUSTER)
    assert f"clusters/{CLUSTER}/history" in {path for _, path, _, _ in ring.hub.asked}
    await picker.select_option("bar")
    async with page.expect_response(re.compile("clusters/bar/history")):
        pass
    assert page.url.endswith("#then&cluster=bar")
    assert await page.title() == "Then · bar · Odradek"


async def test_without_a_cluster_it_says_how_to_make_one_and_shows_it_then(pages: Pages) -> None:
    ring = Ring(clusters=())
    page = await pages.live(ring.hub, "#then", clock=True)
    await expect(page.get_by_role("heading", name="No cluster yet")).to_be_visible()
    ring.clusters = (CLUSTER,)
    await page.clock.run_for(CLUSTERS_EVERY_MS)
    await expect(page.get_by_text("Shows 500 of 5,210 events")).to_be_visible()


@pytest.mark.parametrize("width", [1280, 800])
async def test_it_is_accessible(pages: Pages, width: int) -> None:
    page = await live(pages, Ring(), width=width)
    assert [] == await violations(page)


async def test_a_real_hub_and_its_page_say_the_same(pages: Pages, hub: HubClient) -> None:
    till = Till(hub.post("clusters", body={"id": CLUSTER, "topics": ["t"]})["bootstrap"])
    assert (0, 0, 0) == (till.add(), till.send(), till.end())
    till.close()
    page = await pages.live(hub.url, f"#then&cluster={CLUSTER}", height=8000)
    told = hub.get("clusters", CLUSTER, "history", most=500)
    assert ["till-1"] == told["transactions"]
    await expect(page.get_by_text(f"{told['events']} events")).to_be_visible()
    await expect(steps(page)).to_have_count(len(told["steps"]))
    names = [str(await row.get_attribute("aria-label")) for row in await steps(page).all()]
    assert [step["text"] in name for step, name in zip(told["steps"], names, strict=True)] == [True] * len(names)
    for lane in told["lanes"]:
        await expect(
            page.get_by_role("button", name=f"Hide the {lane['kind']} {lane['name']}", exact=True)
        ).to_be_visible()
