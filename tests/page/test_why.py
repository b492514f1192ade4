"""*Why*: the sentences of the hub, links to what they are about, and the buttons that end what is stuck."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect
from tests.page.browser import Pages, StubHub, violations
from tests.page.test_now import HOSTILE, Kitchen, call_of, kitchen_of, opened, pressed

from odradek.control.client import HubClient


@pytest.fixture
def kitchen(hub: HubClient) -> Iterator[Kitchen]:
    with kitchen_of(hub) as made:
        yield made


def reason(page: Page, about: str, text: str) -> Locator:
    """The reason about a kind of thing whose sentence has this text."""
    return page.locator(".reason").filter(has=page.locator(".state", has_text=about)).filter(has_text=text).first


async def test_it_says_what_the_hub_says(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    kitchen.post("time", body={"freeze": True})
    page = await opened(pages, hub, "why")
    told = kitchen.get("why")
    stuck = [each["sentence"] for each in told["reasons"] if each["stuck"]]
    notes = [each["sentence"] for each in told["reasons"] if not each["stuck"]]
    assert len(stuck) >= 4
    await expect(page.locator(".reason.stuck .sentence")).to_have_text(stuck)
    await expect(page.locator(".reason.note .sentence")).to_have_text(notes)
    await expect(page.locator(".calm")).to_be_hidden()
    await page.get_by_text("The newest events").click()
    await expect(page.locator(".newest pre")).to_have_text("\n".join(told["events"]))


async def test_every_reason_leads_to_what_it_is_about(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    for text in ("rule late", "partition t-0", "transaction till-4"):
        page = await opened(pages, hub, "why")
        kind, _, name = text.partition(" ")
        await reason(page, kind, name).get_by_role("link", name=text, exact=True).click()
        await expect(page.locator(f".thing.{kind}:focus .name")).to_have_text(name)


async def test_a_rule_is_released(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub, "why")
    await pressed(page, reason(page, "rule", "Rule late holds"), "Release late")
    assert 0 == kitchen.ended()
    await expect(reason(page, "rule", "Rule late holds")).to_be_hidden()


async def test_a_transaction_is_taken_to_its_timeout(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    kitchen.post("time", body={"freeze": True})
    page = await opened(pages, hub, "why")
    there = reason(page, "transaction", "Transaction till-3")
    await expect(there.get_by_role("button", name=re.compile("^Advance the clock by "))).to_be_visible()
    kitchen.post("time", body={"advance_ms": 45_000})
    await expect(there).to_contain_text("for 45")
    [button] = await there.get_by_role("button", name=re.compile("^Advance the clock by ")).all_inner_texts()
    [told] = [each for each in kitchen.get("why", about="till-3")["reasons"] if each["about"] == "transaction"]
    curl = await pressed(page, there, button)
    assert told["remedies"][0]["body"] == call_of(curl)[2]
    kitchen.wait(transaction={"id": "till-3", "state": "CompleteAbort"})
    await expect(there).to_be_hidden()


async def test_brokers_and_the_clock_go_on(pages: Pages, hub: HubClient) -> None:
    hub.post("clusters", body={"id": "kitchen", "brokers": 2, "topics": ["t:1:1"]})
    hub.post("clusters", "kitchen", "time", body={"freeze": True})
    hub.post("clusters", "kitchen", "brokers", 1, "stop")
    hub.post("clusters", "kitchen", "brokers", 2, "pause")
    page = await opened(pages, hub, "why")
    await pressed(page, reason(page, "broker", "Broker 1 is stopped"), "Start broker 1")
    await pressed(page, reason(page, "broker", "Broker 2 is paused"), "Resume broker 2")
    await pressed(page, reason(page, "time", "stands still"), "Resume the clock")
    assert ["running", "running"] == [each["state"] for each in hub.get("clusters", "kitchen", "brokers")]
    assert not hub.get("clusters", "kitchen", "time")["frozen"]
    await expect(page.locator(".calm")).to_be_visible()


async def test_one_thing_alone(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await pages.live(hub.url, "#why&cluster=kitchen&about=till-3")
    told = kitchen.get("why", about="till-3")
    await expect(page.locator(".reason")).to_have_count(len(told["reasons"]))
    await page.get_by_role("link", name="Show all").click()
    await expect(reason(page, "rule", "Rule late holds")).to_be_visible()


async def test_requests_that_wait_for_records_are_shown_to_those_who_ask(pages: Pages, kitchen: Kitchen) -> None:
    told = kitchen.get("why")
    fetch = {**told["reasons"][-1], "about": "request", "name": "FETCH", "sentence": "It waits.", "stuck": False}
    told["reasons"] = [{**fetch, "held_by": [], "remedies": []}] * 2
    page = await pages.live(StubHub(lambda _, path, *__: told if "/why" in path else [{"id": "kitchen"}]), "#why")
    await expect(page.locator(".calm")).to_be_visible()
    await expect(page.locator(".reason")).to_have_count(0)
    await page.get_by_text("2 requests wait for records").click()
    await expect(page.locator(".sentence")).to_have_text(["It waits."] * 2)


async def test_of_very_many_reasons_the_first_are_shown(pages: Pages, kitchen: Kitchen) -> None:
    told = kitchen.get("why")
    some = told["reasons"][0]
    told["reasons"] = [{**some, "sentence": f"{HOSTILE} {number}"} for number in range(250)]
    page = await pages.live(StubHub(lambda _, path, *__: told if "/why" in path else [{"id": "kitchen"}]), "#why")
    await expect(page.locator(".reason")).to_have_count(200)
    await expect(page.locator(".rest")).to_have_text("There is more to say: 50 sentences are not shown.")
    assert 0 == await page.locator("main img").count()


async def test_in_a_file_there_are_sentences_and_no_buttons(pages: Pages, kitchen: Kitchen) -> None:
    told: dict[str, Any] = kitchen.get("why")
    page = await pages.of_file({"why": told}, "#why")
    await expect(page.locator(".sentence").first).to_have_text(told["reasons"][0]["sentence"])
    assert 0 == await page.locator("main button").count()


async def test_it_can_be_used_by_everybody(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub, "why", width=800)
    assert [] == await violations(page)
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
