"""Take it along: what the page downloads is what the hub makes, and what a file names makes the same."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from msgspec import to_builtins
from playwright.async_api import Page, expect
from tests.exports.histories import two_transactions
from tests.hub.helpers import HubBeside, Till, made
from tests.page.browser import Pages, violations

from odradek.control.client import HubClient
from odradek.show.exports import FORMS

MADE = ("html", "events", *FORMS)


@pytest.fixture
def kitchen(hub: HubClient) -> str:
    """A cluster in which x has committed."""
    cluster, bootstrap = made(hub, id="kitchen", topics=["t"])
    till = Till(bootstrap, "x")
    assert (0, 0, 0) == (till.add(), till.send(), till.end())
    hub.post("clusters", cluster, "wait", body={"transaction": {"id": "x", "state": "CompleteCommit"}})
    till.close()
    return cluster


async def downloaded(page: Page, form: str) -> tuple[str, bytes]:
    """The name and the content of what the button of a form saves."""
    async with page.expect_download() as coming:
        await page.locator(f'tr[data-form="{form}"] button').click()
    download = await coming.value
    return download.suggested_filename, content_of(await download.path())


def content_of(path: Path) -> bytes:
    return path.read_bytes()


@pytest.mark.parametrize("form", MADE)
async def test_each_button_saves_what_the_hub_makes(pages: Pages, hub: HubClient, kitchen: str, form: str) -> None:
    page = await pages.live(hub.url, f"#take&cluster={kitchen}")
    name, content = await downloaded(page, form)
    assert name.startswith("kitchen.")
    beginnings = {"html": b"<!doctype html>", "events": b'{"ts_ns":', "svg": b"<svg ", "mermaid": b"sequenceDiagram\n"}
    beginnings |= {"shiviz": b"(?<event>.*)", "perfetto": b"\n"}
    assert content.startswith(beginnings[form])
    assert b"x" in content


async def test_a_transaction_that_is_named_is_the_one(pages: Pages, hub: HubClient, kitchen: str) -> None:
    page = await pages.live(hub.url, f"#take&cluster={kitchen}&id=x")
    await expect(page.get_by_label("Transactional id")).to_have_value("x")
    assert "kitchen-x.svg" == (await downloaded(page, "svg"))[0]
    assert "kitchen.jsonl" == (await downloaded(page, "events"))[0]


async def test_what_the_hub_refuses_is_told(pages: Pages, hub: HubClient, kitchen: str) -> None:
    page = await pages.live(hub.url, f"#take&cluster={kitchen}")
    await page.get_by_label("Transactional id").fill("nobody")
    await page.locator('tr[data-form="svg"] button').click()
    await expect(page.get_by_role("alert")).to_contain_text("nobody")
    await expect(page.locator('tr[data-form="svg"] button')).to_be_enabled()
    pages.troubles = [trouble for trouble in pages.troubles if "404" not in trouble]


async def test_a_token_is_sent(pages: Pages) -> None:
    with HubBeside("secret") as guarded:
        made(HubClient(guarded.url, token="secret"), id="kitchen", topics=["t"])
        page = await pages.live(guarded.url, "#take&cluster=kitchen")
        await page.get_by_role("textbox", name="Token").fill("secret")
        await page.get_by_role("button", name="Go on").click()
        name, content = await downloaded(page, "events")
        assert (name, content[:9]) == ("kitchen.jsonl", b'{"ts_ns":')
    pages.troubles = [trouble for trouble in pages.troubles if "401" not in trouble and "CONNECTION" not in trouble]


async def test_a_file_names_the_commands(pages: Pages) -> None:
    history = to_builtins(two_transactions()) | {"title": "what went wrong.jsonl"}
    page = await pages.of_file({"histories": [history], "transaction": "y"}, "#take")
    codes = await page.locator("td:last-child code").all_inner_texts()
    words = [shlex.split(code) for code in codes if code.startswith("odradek")]
    assert [[*word[:5]] for word in words] == [
        ["odradek", "show", "what went wrong.jsonl", "--transaction", "y"]
    ] * len(FORMS)
    assert {word[-1] for word in words} == {f"what went wrong.jsonl{form.ending}" for form in FORMS.values()}


async def test_two_runs_are_for_what_compares_them(pages: Pages) -> None:
    runs = [to_builtins(two_transactions()) | {"title": title} for title in ("bad.jsonl", "good.jsonl")]
    page = await pages.of_file({"histories": runs}, "#take")
    await expect(page.locator('tr[data-form="svg"] code')).to_have_text("odradek show bad.jsonl -o bad.jsonl.svg")
    both = "odradek show bad.jsonl good.jsonl -o bad.jsonl.shiviz"
    await expect(page.locator('tr[data-form="shiviz"] code')).to_have_text(both)


async def test_it_can_be_read_and_heard(pages: Pages, hub: HubClient, kitchen: str) -> None:
    page = await pages.live(hub.url, f"#take&cluster={kitchen}", width=800)
    await expect(page.get_by_role("button", name="Download: Perfetto")).to_be_visible()
    assert [] == await violations(page)
    width = await page.evaluate("document.documentElement.scrollWidth")
    assert width <= 800
