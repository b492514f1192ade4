"""Stories step by step: every one opens, is stepped through to its end, and asks its question there."""

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


def choice(page: Page, view: LessonView, number: int):  # type: ignore[no-untyped-def]
    return page.get_by_role("button", name=f"{number}. {view.steps[number - 1].choice}", exact=True)


def wrong_choices(view: LessonView) -> list[int]:
    return [number for number, step in enumerate(view.steps, 1) if step.not_guilty]


def shown(text: str) -> str:
    """A text of a lesson without its backquotes."""
    return text.replace("`", "")


async def answer(page: Page, view: LessonView) -> None:
    """Choose wrongly once, then rightly."""
    await expect(page.get_by_role("heading", name=view.question)).to_be_visible()
    wrong = wrong_choices(view)[-1]
    await choice(page, view, wrong).click()
    await expect(page.locator(".said-no")).to_contain_text(view.steps[wrong - 1].not_guilty)
    await expect(choice(page, view, wrong)).to_be_disabled()
    await expect(page.locator(".row.guilty")).to_have_count(0)
    await choice(page, view, view.guilty).click()
    await expect(page.locator(".verdict")).to_contain_text(view.answer)
    await expect(page.locator(".verdict")).to_contain_text("Right.")


@pytest.mark.parametrize("name", lesson_names())
async def test_a_story_is_stepped_through(pages: Pages, hub: HubClient, name: str) -> None:
    view = lesson_view(name)
    page = await pages.live(hub.url, f"#story={name}")
    await expect(page.get_by_role("heading", name=view.title)).to_be_visible()
    await expect(page.locator(".symptom")).to_contain_text(shown(view.symptom))
    for number, step in enumerate(view.steps, 1):
        await expect(page.locator(".asked")).to_have_count(0)
        await page.keyboard.press("ArrowRight")
        await expect(heading(page, view, number)).to_be_visible()
        await expect(page.locator(".lesson-text")).to_contain_text(shown(step.text))
        if step.rule is not None:
            rule = page.locator("figure.rule")
            await expect(rule).to_contain_text(step.rule.quote or step.rule.says)
            await expect(rule.get_by_role("link")).to_contain_text(step.rule.kip)
        told = next(each for each in view.history.steps if each.seq == step.seq)
        await expect(page.locator('.row[aria-selected="true"]')).to_contain_text(told.text[:40])
    await answer(page, view)
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
    await expect(opened).to_contain_text("not answered yet at this step")
    await page.keyboard.press("ArrowRight")
    await expect(opened).to_be_hidden()


async def test_each_wrong_choice_is_explained(pages: Pages, hub: HubClient) -> None:
    view = lesson_view(LATE)
    page = await pages.live(hub.url, f"#story={LATE}&step={last(view)}")
    for wrong in wrong_choices(view):
        await choice(page, view, wrong).click()
        await expect(page.locator(".said-no")).to_contain_text(view.steps[wrong - 1].not_guilty)
        await expect(choice(page, view, wrong)).to_be_disabled()
    assert [] == await violations(page)
    await page.get_by_role("button", name="Show me the answer").click()
    await expect(page.locator(".verdict")).to_contain_text(view.answer)
    assert [] == await violations(page)


async def test_the_message_is_named_by_its_arrival(pages: Pages, hub: HubClient) -> None:
    view = lesson_view(LATE)
    [arrives] = view.guilty_again
    page = await pages.live(hub.url, f"#story={LATE}&step={last(view)}")
    await choice(page, view, arrives).click()
    await expect(page.locator(".verdict")).to_contain_text("Right: it belongs to the same message")


async def test_the_question_can_be_passed_over(pages: Pages, hub: HubClient) -> None:
    view = lesson_view(LATE)
    page = await pages.live(hub.url, f"#story={LATE}&step={last(view)}")
    await expect(page.get_by_role("heading", name=view.question)).to_be_visible()
    await page.get_by_role("button", name="Next →").click()
    await expect(page.get_by_role("heading", name="What a client must do")).to_be_visible()


async def test_at_the_last_step_all_rows_are_drawn(pages: Pages, hub: HubClient) -> None:
    """The answer to the last request, too, which comes after it."""
    view = lesson_view(LATE)
    assert view.history.steps[-1].seq > view.steps[-1].seq
    page = await pages.live(hub.url, f"#story={view.name}&step={last(view)}")
    await page.get_by_role("option").last.click()
    await page.keyboard.press("End")
    await expect(page.get_by_role("option").last).to_contain_text(view.history.steps[-1].text)


async def test_another_story_is_a_link(pages: Pages, hub: HubClient) -> None:
    view = lesson_view(LATE)
    page = await pages.live(hub.url, f"#story={LATE}&step={last(view)}")
    [other] = view.stories
    await page.get_by_role("link", name=other, exact=True).click()
    await expect(page.get_by_role("heading", name=lesson_view(other).title)).to_be_visible()


@pytest.mark.parametrize("width", [1280, 1400])
@pytest.mark.parametrize("name", ["unstable-offset-commit", "share-aborted-records"])
async def test_the_lanes_stay_beside_the_text(pages: Pages, hub: HubClient, name: str, width: int) -> None:
    """The last of them can be scrolled to, and is not below the text."""
    view = lesson_view(name)
    page = await pages.live(hub.url, f"#story={name}&step={last(view)}")
    await page.set_viewport_size({"width": width, "height": 800})
    await expect(heading(page, view, last(view))).to_be_visible()
    await page.evaluate("document.querySelector('.story .lanes').scrollLeft = 10_000")
    ends = "document.querySelector('.story .lanes .head:last-child').getBoundingClientRect().right"
    begins = "document.querySelector('.lesson').getBoundingClientRect().left"
    assert await page.evaluate(f"{ends} <= {begins} + 0.5")
    assert await page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


async def test_words_of_the_table_are_whole(pages: Pages, hub: HubClient) -> None:
    """A word in a cell is one box: it does not go on in the next line."""
    view = lesson_view(LATE)
    page = await pages.live(hub.url, f"#story={LATE}&step={last(view) + 1}")
    await expect(page.locator(".clients")).to_be_visible()
    broken = await page.evaluate("""() => [...document.querySelectorAll(".clients th, .clients td")].flatMap((cell) => {
      const text = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), broken = [];
      for (let node = text.nextNode(); node; node = text.nextNode()) {
        for (const { 0: word, index } of node.data.matchAll(/\\w+/g)) {
          const range = document.createRange();
          range.setStart(node, index);
          range.setEnd(node, index + word.length);
          if (range.getClientRects().length > 1) broken.push(word);
        }
      }
      return broken;
    })""")
    assert [] == broken


async def test_a_cluster_of_the_story_is_made(pages: Pages, hub: HubClient) -> None:
    view = lesson_view(LATE)
    page = await pages.live(hub.url, f"#story={LATE}&step={last(view) + 1}")
    await page.get_by_role("button", name="Play it on this hub").click()
    await expect(page.get_by_text("curl -X POST")).to_be_visible()
    [made] = hub.get("clusters")
    await expect(page.locator(".lesson")).to_contain_text(made["bootstrap"])
    assert "late" in [rule["name"] for rule in hub.get("clusters", made["id"], "rules")]


async def test_what_a_story_has_made_stays_when_the_page_finds_the_cluster(pages: Pages, hub: HubClient) -> None:
    view = lesson_view(LATE)
    page = await pages.live(hub.url, f"#story={LATE}&step={last(view) + 1}", clock=True)
    await page.get_by_role("button", name="Play it on this hub").click()
    await expect(page.get_by_text("curl -X POST")).to_be_visible()
    [made] = hub.get("clusters")
    await page.evaluate("dispatchEvent(new Event('clusters'))")
    await expect(page.get_by_label("Cluster")).to_have_value(made["id"])
    await expect(page.get_by_role("link", name="Why")).to_have_attribute("href", f"#why&cluster={made['id']}")
    await expect(page.get_by_text("curl -X POST")).to_be_visible()


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
