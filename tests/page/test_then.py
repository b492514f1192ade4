"""The view of what happened: every step is drawn, and found, followed, filtered and told in all its fields."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, Page, expect
from tests.page.browser import Pages, violations
from tests.page.histories import Telling, a_failure, a_transaction, long

from odradek.show.history import History, Lane, Step


def steps_of(page: Page) -> Locator:
    """The rows of steps that are in the document."""
    return page.get_by_role("option")


def step_of(page: Page, name: str) -> Locator:
    """The row of a step by a part of its name."""
    return page.get_by_role("option", name=name)


async def then(pages: Pages, history: History, address: str = "", **look: object) -> Page:
    """The view, from a file."""
    page = await pages.of_file({"histories": [history]}, f"#then{address}", **look)
    await expect(page.get_by_role("listbox", name="Steps")).to_be_visible()
    return page


async def test_every_step_of_a_history_is_there(pages: Pages) -> None:
    history = a_transaction()
    page = await then(pages, history, height=1600)
    await expect(steps_of(page)).to_have_count(len(history.steps))
    for lane in history.lanes:
        head = page.get_by_role("button", name=f"Hide the {lane.kind} {lane.name}", exact=True)
        await expect(head).to_contain_text(lane.about)
    names = [await row.get_attribute("aria-label") for row in await steps_of(page).all()]
    assert "0.000 s, InitProducerId v5, from client till to coordinator broker 1" == names[0]
    assert [step.text in str(name) for step, name in zip(history.steps, names, strict=True)] == [True] * len(names)


async def test_arrows_lie_between_their_lanes(pages: Pages) -> None:
    page = await then(pages, a_transaction())
    row = step_of(page, "Produce v12")
    wire = await row.locator(".wire").bounding_box()
    heads = [page.get_by_role("button", name=f"Hide the {lane}") for lane in ("client till", "broker broker 1")]
    client, broker = [await head.bounding_box() for head in heads]
    assert wire is not None
    assert client is not None
    assert broker is not None
    assert abs(wire["x"] - (client["x"] + client["width"] / 2)) < 2
    assert abs(wire["x"] + wire["width"] - (broker["x"] + broker["width"] / 2)) < 2
    await expect(row.locator(".wire")).not_to_have_class(re.compile("answer"))
    await expect(step_of(page, "Produce answered").locator(".wire")).to_have_class(re.compile("answer"))


async def test_a_pause_is_a_line_of_its_own(pages: Pages) -> None:
    page = await then(pages, a_transaction())
    await expect(page.get_by_text("1.25 s later")).to_be_visible()


@pytest.mark.parametrize("width", [1280, 800])
async def test_times_have_room_however_long_it_lasted(pages: Pages, width: int) -> None:
    telling = Telling()
    telling.mark("state_change", 3, "Empty → Ongoing")
    telling.pause(400_000_000)
    telling.mark("state_change", 3, "Ongoing → Dead")
    page = await then(pages, telling.history(), width=width)
    await expect(page.get_by_text("111 h 6 min later")).to_be_visible()
    time, box = [await page.locator(each).last.bounding_box() for each in (".row time", ".lanes")]
    assert time is not None
    assert box is not None
    assert time["x"] >= box["x"]


async def test_an_error_has_a_sign_and_not_only_a_colour(pages: Pages) -> None:
    page = await then(pages, a_failure(), "&step=46")
    row = step_of(page, "INVALID_PRODUCER_EPOCH")
    await expect(row.locator(".label")).to_contain_text("✕")
    await expect(row).to_have_accessible_name(re.compile("error INVALID_PRODUCER_EPOCH$"))
    await expect(page.get_by_text("✕ 2 errors")).to_be_visible()


async def test_one_transaction_is_followed(pages: Pages) -> None:
    history = a_failure()
    page = await then(pages, history, height=2400)
    await page.get_by_role("combobox", name="Follow a transactional id").fill("till-3")
    await page.keyboard.press("Enter")
    about = [step for step in history.steps if step.transactional_id == "till-3"]
    await expect(steps_of(page)).to_have_count(len(about))
    assert "id=till-3" in page.url
    await expect(page.get_by_role("button", name="Hide the broker broker 2")).to_have_count(0)

    await page.get_by_label("Show others, faded").check()
    await expect(steps_of(page)).to_have_count(len(history.steps))
    await expect(page.locator(".row.faded")).to_have_count(len(history.steps) - len(about))
    await page.get_by_role("button", name="Follow no transactional id").click()
    await expect(page.locator(".row.faded")).to_have_count(0)
    assert "id=" not in page.url


async def test_a_click_on_an_id_follows_it(pages: Pages) -> None:
    page = await then(pages, a_failure())
    await step_of(page, "InitProducerId v5").first.hover()
    await step_of(page, "InitProducerId v5").first.get_by_title("Follow till-2").click()
    await expect(page.get_by_role("combobox", name="Follow a transactional id")).to_have_value("till-2")
    await expect(step_of(page, "Metadata")).to_have_count(0)


async def test_a_lane_is_hidden_and_brought_back(pages: Pages) -> None:
    history = a_failure()
    page = await then(pages, history, height=2400)
    await page.get_by_role("button", name="Hide the partition orders-2").click()
    left = [step for step in history.steps if 4 not in (step.source, step.target)]
    await expect(steps_of(page)).to_have_count(len(left))
    await page.reload()
    await expect(steps_of(page)).to_have_count(len(left))
    await page.get_by_role("button", name="Show orders-2 again").click()
    await expect(steps_of(page)).to_have_count(len(history.steps))


async def test_search_leaves_what_matches_with_its_request(pages: Pages) -> None:
    page = await then(pages, a_failure())
    await page.keyboard.press("/")
    await page.keyboard.type("invalid_producer")
    await expect(steps_of(page)).to_have_count(2)
    await expect(step_of(page, "Produce v12")).to_be_visible()
    await page.get_by_role("searchbox", name="Search").fill("no such thing")
    await expect(page.get_by_text("No step has “no such thing”.")).to_be_visible()
    await page.get_by_role("searchbox", name="Search").fill("marker_written abort")
    await expect(steps_of(page)).to_have_count(1)


async def test_the_next_error_comes_into_view(pages: Pages) -> None:
    page = await then(pages, a_failure(), height=500)
    await page.keyboard.press("e")
    await expect(page.get_by_role("option", selected=True)).to_contain_text("INVALID_PRODUCER_EPOCH")
    await expect(page.get_by_role("option", selected=True)).to_be_in_viewport()
    await page.get_by_role("button", name="Next error").click()
    await expect(page.get_by_role("option", selected=True)).to_contain_text("COORDINATOR_NOT_AVAILABLE")
    await page.keyboard.press("Shift+E")
    await expect(page.get_by_role("option", selected=True)).to_contain_text("INVALID_PRODUCER_EPOCH")


async def test_keys_move_and_open(pages: Pages) -> None:
    page = await then(pages, a_failure())
    await page.get_by_role("listbox", name="Steps").focus()
    for _ in range(3):
        await page.keyboard.press("ArrowDown")
    await expect(page.get_by_role("option", selected=True)).to_contain_text("InitProducerId v5")
    active = await page.get_by_role("listbox", name="Steps").get_attribute("aria-activedescendant")
    assert active == await page.get_by_role("option", selected=True).get_attribute("id")
    await page.keyboard.press("Enter")
    details = page.get_by_role("complementary", name="Details of the step")
    await expect(details.get_by_role("heading", name="InitProducerId v5")).to_be_visible()
    await page.keyboard.press("ArrowRight")
    await expect(details.get_by_role("heading", name="InitProducerId answered")).to_be_visible()
    await page.keyboard.press("End")
    await expect(page.get_by_role("option", selected=True)).to_contain_text("COORDINATOR_NOT_AVAILABLE")
    await page.keyboard.press("Escape")
    await expect(details).to_be_hidden()
    await expect(page.get_by_role("listbox", name="Steps")).to_be_focused()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()


async def test_a_request_and_its_response_lie_beside_each_other(pages: Pages) -> None:
    page = await then(pages, a_failure())
    await page.keyboard.press("e")
    await page.keyboard.press("Enter")
    details = page.get_by_role("complementary", name="Details of the step")
    sides = await details.locator(".exchange > section").all()
    await expect(sides[0]).to_contain_text("till-4")
    await expect(sides[1].locator(".failed")).to_have_text("errorCode✕ 47")
    boxes = [await each.bounding_box() for each in sides]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"]
    await expect(details).to_contain_text("answered after 3.1 ms")


async def test_a_kip_is_a_link_to_its_page(pages: Pages) -> None:
    page = await then(pages, a_failure(), "&step=6")
    link = page.get_by_role("link", name="KIP-890")
    await expect(link).to_have_attribute(
        "href", "https://cwiki.apache.org/confluence/display/KAFKA/KIP-890%3A+Transactions+Server-Side+Defense"
    )


async def test_a_link_shows_what_was_shown(pages: Pages) -> None:
    history = long(3_000)
    page = await then(pages, history, "&id=till-3&step=1290&q=produce")
    chosen = next(step for step in history.steps if step.seq == 1290)
    await expect(page.get_by_role("searchbox", name="Search")).to_have_value("produce")
    await expect(page.get_by_role("complementary", name="Details of the step")).to_contain_text(chosen.text)
    await page.evaluate("location.hash = '#then'")
    await expect(page.get_by_role("complementary", name="Details of the step")).to_be_hidden()
    await page.evaluate("location.hash = '#then&step=2000'")
    await expect(page.get_by_role("option", selected=True)).to_have_attribute("aria-label", re.compile("."))
    await expect(page.get_by_role("option", selected=True)).to_be_in_viewport()
    await expect(page.get_by_role("searchbox", name="Search")).to_have_value("")


async def test_only_rows_in_view_are_in_the_document(pages: Pages) -> None:
    history = long(20_000)
    page = await then(pages, history)
    await expect(page.get_by_text(f"{len(history.steps):,} events")).to_be_visible()
    assert await page.locator(".row").count() < 60
    await page.get_by_role("listbox", name="Steps").focus()
    await page.keyboard.press("End")
    last = page.get_by_role("option", selected=True)
    await expect(last).to_be_in_viewport()
    await expect(last).to_contain_text(history.steps[-1].text)
    assert await page.locator(".row").count() < 60


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>throw 1</script>",
    "\u202etill-\u202d\u2066 \u200f\u061c",
    "ש" * 40,
    "🦆" * 300,
    "x" * 5_000,
    "a\nb\t\x07c",
    "'\" onclick=alert(1) &lt;",
]


@pytest.mark.parametrize("width", [1280, 800])
async def test_hostile_texts_are_texts(pages: Pages, width: int) -> None:
    lanes = tuple(Lane(key=f"client:{text}", kind="client", name=text, about=text) for text in HOSTILE)
    telling = Telling(lanes)
    for at, text in enumerate(HOSTILE):
        asked = telling.ask(at, (at + 1) % len(lanes), "PRODUCE", 12, {text: text}, transactional_id=text, kip=text)
        telling.answer(asked, {"error_message": text, "error_code": 1}, error=text)
        telling.mark(text, at, text, transactional_id=text, fields={text: [text]})
    history = telling.history(title=HOSTILE[0], note=HOSTILE[0])
    page = await then(pages, history, width=width)
    await expect(steps_of(page)).not_to_have_count(0)
    assert 0 == await page.locator("main img, main script").count()
    for step in history.steps:
        await page.evaluate(f"location.hash = '#then&step={step.seq}'")
        await expect(page.get_by_role("option", selected=True)).to_be_in_viewport()
        details = page.get_by_role("complementary", name="Details of the step")
        assert step.text[:20].strip() in (await details.locator("h2").text_content() or "")
        assert await details.evaluate("box => box.scrollWidth <= box.clientWidth")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    heads = [await head.bounding_box() for head in await page.locator("button.head").all()]
    assert all(head is not None and head["height"] < 80 for head in heads)
    for text in HOSTILE[:3]:
        await page.evaluate("id => { location.hash = '#then&id=' + encodeURIComponent(id) }", text)
        await expect(page.get_by_role("combobox", name="Follow a transactional id")).to_have_value(text)
    assert 0 == await page.locator("main img, main script").count()


@pytest.mark.parametrize("width", [1280, 800])
async def test_it_is_accessible(pages: Pages, width: int) -> None:
    page = await then(pages, a_failure(), "&id=till-4&others=faded&hide=broker:2&step=46", width=width)
    await expect(page.get_by_role("complementary", name="Details of the step")).to_be_visible()
    assert [] == await violations(page)
    await page.keyboard.press("?")
    assert [] == await violations(page)


async def test_tab_goes_through_the_page_as_it_is_read(pages: Pages) -> None:
    page = await then(pages, a_transaction())
    heard = []
    for _ in range(10):
        await page.keyboard.press("Tab")
        heard.append(
            await page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.textContent.trim()")
        )
    assert heard == [
        "Then",
        "Take it along",
        "Follow a transactional id",
        "Search",
        "Keys",
        "Hide the client till",
        "Hide the broker broker 1",
        "Hide the broker broker 2",
        "Hide the coordinator broker 1",
        "Hide the partition orders-2",
    ]


async def test_it_prints_all_steps(pages: Pages) -> None:
    history = a_failure()
    page = await then(pages, history, height=400)
    await page.emulate_media(media="print")
    await page.evaluate("dispatchEvent(new Event('beforeprint'))")
    await expect(steps_of(page)).to_have_count(len(history.steps))
    await expect(page.get_by_role("searchbox", name="Search")).to_be_hidden()


async def test_nothing_moves_for_a_reader_who_wants_no_motion(pages: Pages) -> None:
    page = await then(pages, a_transaction(), reduced_motion="reduce")
    await page.locator(".row").first.evaluate("row => { row.style.transition = 'opacity 1s' }")
    lasting = "[...document.querySelectorAll('*')].filter(each => getComputedStyle(each).transitionDuration !== '0s')"
    assert 0 == await page.evaluate(f"{lasting}.length")
    await page.emulate_media(reduced_motion="no-preference")
    assert 1 == await page.evaluate(f"{lasting}.length")


def test_the_helper_tells_steps_in_their_order() -> None:
    steps: tuple[Step, ...] = a_failure().steps
    assert [step.seq for step in steps] == sorted(step.seq for step in steps)
