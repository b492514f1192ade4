"""Stories step by step: every one opens, is stepped through to its end, and asks for its guilty message."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect
from tests.page.browser import Pages, violations

from odradek.control.client import HubClient
from odradek.page.lessons import LessonView, lesson_names, lesson_view

LATE = "late-produce-after-abort"


def last(view: LessonView) -> int:
    """The number of the last step."""
    return len(view.steps)


def heading(page: Page, view: LessonView, number: int):  # type: ignore[no-untyped-def]
    return page.get_by_role("heading", name=f"{number}. {view.steps[number - 1].title}", exact=True)


async def answer(page: Page, view: LessonView) -> None:
    """Name the guilty message."""
    await expect(page.get_by_role("heading", name="Which message is the guilty one?")).to_be_visible()
    guilty = view.steps[view.guilty - 1].title
    await page.get_by_role("button", name=f"{view.guilty}. {guilty}", exact=True).click()
    await expect(page.locator(".verdict")).to_contain_text(view.answer)


@pytest.mark.parametrize("name", lesson_names())
async def test_a_story_is_stepped_through(pages: Pages, hub: HubClient, name: str) -> None:
    view = lesson_view(name)
    page = await pages.live(hub.url, f"#story={name}")
    await expect(page.get_by_role("heading", name=view.title)).to_be_visible()
    await expect(page.get_by_text(view.symptom)).to_be_visible()
    for number, step in enumerate(view.steps, 1):
        await page.keyboard.press("ArrowRight")
        if number == view.guilty:
            await answer(page, view)
        await expect(heading(page, view, number)).to_be_visible()
        await expect(page.locator(".lesson-text")).to_contain_text(step.text)
        if step.rule is not None:
            shown = page.locator("figure.rule")
            await expect(shown).to_contain_text(step.rule.quote or step.rule.says)
            await expect(shown.get_by_role("link")).to_contain_text(step.rule.kip)
        told = next(each for each in view.history.steps if each.seq == step.seq)
        await expect(page.locator('.row[aria-selected="true"]')).to_contain_text(told.text[:40])
    await page.keyboard.press("ArrowRight")
    await expect(page.get_by_role("heading", name="What a client must do")).to_be_visible()
    for done in view.clients:
        await expect(page.get_by_role("row", name=done.client)).to_contain_text(f"{done.outcome}: {done.meaning}")
    await expect(page.get_by_role("button", name="Next →")).to_be_disabled()


async def test_all_stories_are_listed_by_theme(pages: Pages, hub: HubClient) -> None:
    page = await pages.live(hub.url, "#story")
    links = page.locator(".stories li a")
    await expect(links).to_have_count(len(lesson_names()))
    assert [] == await violations(page)
    await page.get_by_role("link", name=lesson_view(LATE).title).click()
    await expect(page.get_by_role("heading", name=lesson_view(LATE).title)).to_be_visible()
    assert page.url.endswith(f"#story={LATE}")


async def test_the_address_names_the_step(pages: Pages, hub: HubClient) -> None:
    view = lesson_view(LATE)
    page = await pages.live(hub.url, f"#story={LATE}&step=4")
    await expect(heading(page, view, 4)).to_be_visible()
    await page.keyboard.press("ArrowLeft")
    await expect(heading(page, view, 3)).to_be_visible()
    assert page.url.endswith("step=3")
    await page.get_by_role("button", name="Next →").click()
    await expect(heading(page, view, 4)).to_be_visible()
    assert [] == await violations(page)


async def test_nothing_that_comes_later_is_shown(pages: Pages, hub: HubClient) -> None:
    view = lesson_view(LATE)
    page = await pages.live(hub.url, f"#story={LATE}&step=1")
    await expect(heading(page, view, 1)).to_be_visible()
    await expect(page.get_by_role("option").last).to_have_attribute("aria-selected", "true")
    await expect(page.get_by_text("marker ABORT")).to_have_count(0)


async def test_an_event_is_opened(pages: Pages, hub: HubClient) -> None:
    page = await pages.live(hub.url, f"#story={LATE}&step=2")
    await page.get_by_role("option", name="Produce v11").click()
    opened = page.get_by_role("complementary", name="Details of the event")
    await expect(opened).to_contain_text("topicData")
    await expect(opened).to_contain_text("There is none in this window")
    await page.keyboard.press("ArrowRight")
    await expect(opened).to_be_hidden()


async def test_a_wrong_answer_is_explained(pages: Pages, hub: HubClient) -> None:
    view = lesson_view(LATE)
    page = await pages.live(hub.url, f"#story={LATE}&step=1")
    await page.get_by_role("button", name="Next →").click()
    for wrong in (1, 3):
        choice = page.get_by_role("button", name=f"{wrong}. {view.steps[wrong - 1].title}", exact=True)
        await choice.click()
        await expect(page.get_by_role("status").filter(has_text=view.steps[wrong - 1].title)).to_be_visible()
        await expect(choice).to_be_disabled()
    assert [] == await violations(page)
    await page.get_by_role("button", name="Show me the answer").click()
    await expect(page.locator(".verdict")).to_contain_text(view.answer)


async def test_the_guilty_message_is_named_by_its_arrival(pages: Pages, hub: HubClient) -> None:
    view = lesson_view(LATE)
    [arrives] = view.guilty_again
    page = await pages.live(hub.url, f"#story={LATE}&step=1")
    await expect(heading(page, view, 1)).to_be_visible()
    await page.keyboard.press("ArrowRight")
    await page.get_by_role("button", name=f"{arrives}. {view.steps[arrives - 1].title}", exact=True).click()
    await expect(page.locator(".verdict")).to_contain_text("Right: it is this message")
    await expect(heading(page, view, view.guilty)).to_be_visible()


async def test_a_cluster_of_the_story_is_made(pages: Pages, hub: HubClient) -> None:
    view = lesson_view(LATE)
    page = await pages.live(hub.url, f"#story={LATE}&step={last(view) + 1}")
    await page.get_by_role("button", name="Play it on this hub").click()
    await expect(page.get_by_text("curl -X POST")).to_be_visible()
    [made] = hub.get("clusters")
    await expect(page.locator(".lesson")).to_contain_text(made["bootstrap"])
    assert "late" in [rule["name"] for rule in hub.get("clusters", made["id"], "rules")]


async def test_a_story_that_there_is_not(pages: Pages, hub: HubClient) -> None:
    page = await pages.live(hub.url, "#story=no-such-story")
    await expect(page.get_by_role("alert")).to_contain_text("There is no story no-such-story")
    assert 1 == len(pages.troubles)  # the browser says that the hub has answered 404
    pages.troubles.clear()


async def test_a_story_as_a_file(pages: Pages) -> None:
    view = lesson_view(LATE)
    page = await pages.of_file({"lesson": view}, "#story&step=2")
    await expect(heading(page, view, 2)).to_be_visible()
    await page.keyboard.press("ArrowRight")
    await expect(heading(page, view, 3)).to_be_visible()
