"""*Now*: what the page shows equals what the hub says, and every button is the call that it shows."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Locator, Page, Request, expect
from tests.hub.helpers import HubBeside, Till
from tests.page.browser import Pages, StubHub, violations

from odradek.control.client import HubClient
from odradek.net.client import BlockingClient
from odradek.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

HOSTILE = "<img src=x onerror=alert(1)>"
ODD = 'é\x00" $(x) `y` \\n\u2028\U0001f9f6'
HOLD_END = {"name": "late", "match": {"api": "END_TXN"}, "act": {"hold": True}, "expect": {"hits": 1}}


class Kitchen:
    """A cluster in which something goes on: one transaction is committed, one open, and the end of one is held."""

    def __init__(self, hub: HubClient, name: str = "till", rule: str = "late") -> None:
        self.hub = hub
        made = hub.post("clusters", body={"id": "kitchen", "topics": ["t:2"], "lease_s": 0})
        self.bootstrap: str = made["bootstrap"]
        done = self.opened(f"{name}-1")
        assert 0 == done.end()
        self.wait(transaction={"id": f"{name}-1", "state": "CompleteCommit"})
        lost = self.opened(f"{name}-2")
        assert 0 == lost.end(commit=False)
        self.wait(transaction={"id": f"{name}-2", "state": "CompleteAbort"})
        self.post("rules", body={**HOLD_END, "name": rule})
        self.rule, self.open, self.ending = rule, self.opened(f"{name}-3"), self.opened(f"{name}-4")
        self._beside = ThreadPoolExecutor(1)
        self._ended = self._beside.submit(self.ending.end)
        self.wait(rule={"name": rule, "held": 1})
        self._tills = [done, lost, self.open, self.ending]

    def opened(self, name: str) -> Till:
        till = Till(self.bootstrap, name)
        assert (0, 0) == (till.add(), till.send())
        return till

    def get(self, *parts: str | int, **query: str | int) -> Any:
        return self.hub.get("clusters", "kitchen", *parts, **query)

    def post(self, *parts: str | int, body: object = None) -> Any:
        return self.hub.post("clusters", "kitchen", *parts, body=body)

    def wait(self, **what: object) -> None:
        self.post("wait", body=what)

    def close(self) -> None:
        if "kitchen" in [each["id"] for each in self.hub.get("clusters")]:
            self.hub.delete("clusters", "kitchen")
        self._beside.shutdown()
        for till in self._tills:
            till.close()

    def ended(self) -> int:
        """The error of the EndTxn that was held."""
        return self._ended.result(timeout=10)


@contextmanager
def kitchen_of(hub: HubClient, **names: str) -> Iterator[Kitchen]:
    kitchen = Kitchen(hub, **names)
    try:
        yield kitchen
    finally:
        kitchen.close()


@pytest.fixture
def kitchen(hub: HubClient) -> Iterator[Kitchen]:
    with kitchen_of(hub) as made:
        yield made


def committed(bootstrap: str, group: str, client_id: str = "cook") -> None:
    """A group without members that has committed offset 1 of t-0."""
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=HOSTILE)]
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)])
    errors = []
    for broker in bootstrap.split(","):
        with BlockingClient(broker, client_id=client_id) as client:
            [topic] = client.ask(request, 8).topics
            errors.append(topic.partitions[0].error_code)
    assert 0 in errors


async def opened(pages: Pages, hub: HubClient, view: str = "now", **look: Any) -> Page:
    page = await pages.live(hub.url, f"#{view}&cluster=kitchen", **look)
    await expect(page.locator(".clusterline h2") if view == "now" else page.locator(".reason").first).to_be_visible()
    return page


def row(page: Page, kind: str, name: str) -> Locator:
    """The row of a thing, by its name."""
    exact = re.compile(f"^{re.escape(name)}$")
    return page.locator(f".thing.{kind}").filter(has=page.locator(".name", has_text=exact))


# ---------------------------------------------------------------------- what is shown


async def test_it_shows_what_the_hub_says(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    committed(kitchen.bootstrap, "staff")
    page = await opened(pages, hub)
    told = kitchen.get("now")
    await expect(page.locator(".clusterline")).to_contain_text(told["bootstrap"])
    assert 4 == len(told["transactions"])
    await expect(page.locator(".thing.transaction")).to_have_count(4)
    for each in told["transactions"]:
        there = row(page, "transaction", each["transactional_id"])
        await expect(there.locator(".state").first).to_have_text(each["state"])
        await expect(there).to_contain_text(f"producer {each['producer_id']}, epoch {each['producer_epoch']}")
        names = [f"{partition['topic']}-{partition['partition']}" for partition in each["partitions"]]
        assert names == await there.locator(".where > .links").first.locator("a").all_inner_texts()
    for each in told["partitions"]:
        there = row(page, "partition", f"{each['topic']}-{each['partition']}")
        offsets = (each["log_start_offset"], each["last_stable_offset"], each["high_watermark"])
        await expect(there.locator(".offsets")).to_have_text("start {} · LSO {} · HW {}".format(*offsets))
        markers = [batch["marker"][0] for batch in each["last_batches"] if batch["marker"]]
        assert markers == await there.locator(".strip .marker text").all_text_contents()
        assert len(each["last_batches"]) - len(markers) == await there.locator(".strip .batch").count()
    [waiting] = told["waiting"]
    await expect(page.locator(".thing.waiting .name")).to_have_text(f"{waiting['api']} v{waiting['version']}")
    await expect(page.locator(".thing.waiting .state")).to_have_text("held")
    await expect(page.locator(".thing.waiting")).to_contain_text("by rule late")
    await expect(row(page, "rule", "late")).to_contain_text("holds 1")
    await expect(row(page, "rule", "late")).to_contain_text("1 hit of 1")
    await expect(row(page, "group", "staff")).to_contain_text("0 members, ")
    behind = told["partitions"][0]["high_watermark"] - 1
    await expect(row(page, "group", "staff")).to_contain_text(f"{behind} behind")
    for each in told["brokers"]:
        await expect(row(page, "broker", f"Broker {each['id']}")).to_contain_text(f"{each['host']}:{each['port']}")
    for each in told["features"]:
        await expect(row(page, "feature", each["name"])).to_contain_text(f"level {each['level']}")


async def test_data_has_the_fate_of_its_transaction(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub)
    shapes = page.locator(".thing.partition").first.locator(".strip > g")
    kinds = [
        each.split()[:2] for each in await shapes.evaluate_all("each => each.map(({classList}) => classList.value)")
    ]
    assert [
        ["batch", "committed"],
        ["marker", "commit"],
        ["batch", "aborted"],
        ["marker", "abort"],
        ["batch", "open"],
        ["batch", "open"],
    ] == kinds
    titles = await shapes.locator("title").all_text_contents()
    assert "1 record of till-1, committed, offset 0" == titles[0]
    assert "ABORT marker of till-2, offset 3" == titles[3]
    assert "1 record of till-4, open, offset 5" == titles[5]


async def test_batches_without_records_and_holes(pages: Pages, kitchen: Kitchen) -> None:
    """As compaction leaves them: offsets that no batch has, and batches that only keep a sequence number."""
    told = kitchen.get("now")
    batch = told["partitions"][0]["last_batches"][0]
    bare = {**batch, "records": 0, "base_offset": 4, "last_offset": 6}
    told["partitions"] = [{**told["partitions"][0], "last_batches": [batch, bare], "open_transactions": []}]
    page = await pages.live(StubHub(lambda _, path, *__: told if path.endswith("/now") else [{"id": "kitchen"}]))
    strip = page.locator(".thing.partition .strip")
    await expect(strip.locator(".hole title")).to_have_text(["3 offsets without a batch, from 1"])
    await expect(strip.locator(".bare title")).to_have_text(["a batch without records of till-1, offsets 4 to 6"])


async def test_what_is_open_stays_so_while_it_is_updated(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub)
    there = row(page, "transaction", "till-3")
    await there.locator("summary").click()
    await there.get_by_label("Broker that coordinates till-3").focus()
    before = await there.evaluate_handle("(node) => node")
    await page.evaluate("document.querySelector('main').scrollTo(0, 60)")
    assert 0 == kitchen.open.end()
    await expect(there.locator(".state").first).to_have_text("CompleteCommit")
    await expect(page.locator(".thing.transaction")).to_have_count(4)
    assert await page.evaluate("(node) => node.isConnected && node.querySelector('details').open", before)
    assert "Broker that coordinates till-3" == await page.evaluate("document.activeElement.ariaLabel")
    assert 60 == await page.evaluate("document.querySelector('main').scrollTop")


async def test_a_partition_shows_more_of_its_batches(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    for _ in range(40):
        assert 0 == kitchen.open.send()
    page = await opened(pages, hub)
    there = row(page, "partition", "t-0")
    await expect(there.locator(".strip .batch, .strip .marker")).to_have_count(30)
    await there.locator("summary").first.click()
    await expect(there.locator("tbody tr")).to_have_count(30)
    await there.get_by_role("button", name="Show up to 1,000 batches").click()
    whole = kitchen.get("partitions", "t", 0, batches=1000)["last_batches"]
    await expect(there.locator("tbody tr")).to_have_count(len(whole))
    await expect(there.locator("tbody tr").last.locator("td").first).to_have_text("0")


async def test_hostile_names_are_text(pages: Pages, hub: HubClient) -> None:
    with kitchen_of(hub, name=HOSTILE, rule=HOSTILE) as kitchen:
        committed(kitchen.bootstrap, HOSTILE, client_id=HOSTILE)
        page = await opened(pages, hub)
        for kind, name in (("transaction", f"{HOSTILE}-3"), ("rule", HOSTILE), ("group", HOSTILE)):
            await expect(row(page, kind, name)).to_be_visible()
            await row(page, kind, name).locator("summary").click()
        await page.goto(f"{hub.url}/#why&cluster=kitchen")
        await expect(page.locator(".reason").filter(has_text=f"Rule {HOSTILE} holds")).to_be_visible()
        await page.locator(".reason a", has_text=f"transaction {HOSTILE}-4").first.click()
        await expect(row(page, "transaction", f"{HOSTILE}-4")).to_be_focused()
        assert 0 == await page.locator("main img").count()


async def test_a_partition_that_nobody_leads(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub)
    kitchen.post("brokers", 1, "stop")
    await expect(row(page, "partition", "t-0")).to_contain_text("no leader")
    await page.goto(f"{hub.url}/#now&cluster=kitchen&at=partition/t-1")
    await expect(row(page, "partition", "t-1")).to_be_focused()
    kitchen.post("brokers", 1, "start")
    await expect(row(page, "partition", "t-0")).to_contain_text("broker 1")
    await expect(page.locator(".thing.partition")).to_have_count(2)


async def test_requests_that_cannot_be_told_apart_have_a_row_each(pages: Pages, kitchen: Kitchen) -> None:
    told = kitchen.get("now")
    [waiting] = told["waiting"]
    told["waiting"] = [waiting] * 3
    page = await pages.live(StubHub(lambda _, path, *__: told if path.endswith("/now") else [{"id": "kitchen"}]))
    await expect(page.locator(".thing.waiting")).to_have_count(3)
    told["waiting"] = [waiting] * 2
    await expect(page.locator(".thing.waiting")).to_have_count(2)


# ---------------------------------------------------------------------- buttons


def call_of(curl: str) -> tuple[str, str, Any]:
    """What a command of curl asks: the method, the path and the body."""
    words = shlex.split(curl)
    assert "curl" == words.pop(0)
    url, given = words.pop(), dict(zip(words[::2], words[1::2], strict=True))
    body = given.get("-d")
    method = given.get("-X", "GET" if body is None else "POST")
    return method, urlsplit(url).path, None if body is None else json.loads(body)


async def pressed(page: Page, place: Locator, label: str, *, sure: bool = False) -> str:
    """Press a button and see that it makes the call which it shows; the command for it."""
    button = place.get_by_role("button", name=label, exact=True)
    toggle = place.get_by_role("button", name=f"The call of {label}", exact=True)
    await toggle.click()
    curl = await place.get_by_label("curl", exact=True).locator("visible=true").inner_text()
    await page.keyboard.press("Escape")
    await expect(toggle).to_have_attribute("aria-expanded", "false")
    await expect(toggle).to_be_focused()
    made: list[tuple[str, str, Any]] = []

    def hear(request: Request) -> None:
        if request.method != "GET":
            made.append((request.method, urlsplit(request.url).path, request.post_data_json))

    page.on("request", hear)
    async with page.expect_response(lambda response: response.request.method != "GET") as answered:
        await button.click()
        if sure:
            await place.get_by_role("button", name=f"{label}: sure?", exact=True).click()
    assert (await answered.value).ok
    page.remove_listener("request", hear)
    assert [call_of(curl)] == made
    return curl


async def test_a_held_request_is_released(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub)
    await pressed(page, page.locator(".thing.waiting"), "Release")
    assert 0 == kitchen.ended()
    await expect(page.locator(".thing.waiting")).to_have_count(0)
    await expect(page.locator(".said")).to_have_text("Release: 1 released.")


async def test_of_several_held_requests_one_is_released(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    kitchen.post(
        "rules", body={"name": "all", "match": {"api": "END_TXN"}, "when": {"times": "all"}, "act": {"hold": True}}
    )
    tills = [kitchen.opened(f"more-{number}") for number in range(2)]
    with ThreadPoolExecutor(2) as beside:
        ended = [beside.submit(till.end) for till in tills]
        kitchen.wait(rule={"name": "all", "held": 2})
        page = await opened(pages, hub)
        there = page.locator(".thing.waiting").filter(has_text="by rule all").first
        await pressed(page, there, "Release one")
        await expect(row(page, "rule", "all")).to_contain_text("holds 1")
        await expect(there.get_by_role("button", name="Release one", exact=True)).to_be_hidden()
        await pressed(page, there, "Release")
        assert [0, 0] == [each.result(timeout=10) for each in ended]
    for till in tills:
        till.close()


async def test_a_delayed_request_is_taken_to_its_time(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    kitchen.post("time", body={"freeze": True})
    kitchen.post("rules", body={"name": "slow", "match": {"api": "PRODUCE"}, "act": {"delay_ms": 20_000}})
    with ThreadPoolExecutor(1) as beside:
        sent = beside.submit(kitchen.open.send)
        page = await opened(pages, hub)
        there = page.locator(".thing.waiting").filter(has_text="by rule slow")
        await expect(there).to_contain_text("20 s longer at most")
        curl = await pressed(page, there, "To its time")
        assert {"advance_ms": 20_000} == call_of(curl)[2]
        assert 0 == sent.result(timeout=10)


async def test_a_dropped_request_is_never_answered(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    kitchen.post("rules", body={"name": "lost", "match": {"api": "PRODUCE"}, "act": {"drop": True}})
    with ThreadPoolExecutor(1) as beside:
        sent = beside.submit(kitchen.open.send)
        page = await opened(pages, hub)
        there = page.locator(".thing.waiting").filter(has_text="is never answered: it was dropped by rule lost")
        await expect(there.locator(".state")).to_have_text("dropped")
        await expect(there.get_by_role("button", name="To its time", exact=True)).to_be_hidden()
        await pressed(page, page.locator(".part.brokers > .deeds"), "Disconnect all clients")
        with pytest.raises(ConnectionError):
            sent.result(timeout=10)
    await expect(there).to_have_count(0)


async def test_a_rule_is_released_and_removed(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub)
    await pressed(page, row(page, "rule", "late"), "Release")
    assert 0 == kitchen.ended()
    await expect(row(page, "rule", "late").get_by_role("button", name="Release", exact=True)).to_be_hidden()
    await pressed(page, row(page, "rule", "late"), "Remove")
    await expect(page.locator(".thing.rule")).to_have_count(0)
    assert [] == kitchen.get("rules")


async def test_a_request_goes_on_when_its_rule_is_removed(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub)
    await pressed(page, page.locator(".thing.waiting"), "Remove the rule")
    assert (0, []) == (kitchen.ended(), kitchen.get("rules"))


async def test_a_plan_is_armed_and_all_rules_are_removed(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub)
    arming = page.locator(".arming")
    await arming.locator("summary").click()
    for name in await arming.locator("#example option").all_inner_texts():
        await arming.locator("#example").select_option(name)
        await pressed(page, arming, "Arm")
    armed = [each["name"] for each in kitchen.get("rules")]
    assert ["late", "markers", "lost-answer", "slow-produce", "refused"] == armed
    await expect(page.locator(".thing.rule .name")).to_have_text(armed)
    await arming.locator("textarea").fill("{")
    await expect(arming).to_contain_text("This is no JSON yet.")
    await expect(arming.get_by_role("button", name="Arm", exact=True)).to_be_hidden()
    await pressed(page, page.locator(".part.rules > .deeds"), "Remove all rules", sure=True)
    assert [] == kitchen.get("rules")


async def test_the_clock(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub)
    clock = page.locator(".part.clock")
    await pressed(page, clock, "Freeze")
    before = kitchen.get("time")
    assert before["frozen"]
    await expect(clock).to_contain_text("stands still")
    await clock.get_by_label("How far it is advanced").focus()
    for _ in range(2):
        await page.keyboard.press("ArrowRight")
    await pressed(page, clock, "Advance 2 min")
    assert 120_000 == kitchen.get("time")["now_ms"] - before["now_ms"]
    await pressed(page, clock, "Resume")
    assert not kitchen.get("time")["frozen"]
    await expect(clock).to_contain_text("goes")


async def test_a_transaction_is_taken_to_its_timeout(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    kitchen.post("time", body={"freeze": True})
    page = await opened(pages, hub)
    there = row(page, "transaction", "till-3")
    await expect(there.get_by_role("progressbar")).to_be_visible()
    await pressed(page, there, "To its timeout")
    kitchen.wait(transaction={"id": "till-3", "state": "CompleteAbort"})
    await expect(there.locator(".state").first).to_have_text("CompleteAbort")
    await expect(there.get_by_role("progressbar")).to_be_hidden()


async def test_an_epoch_is_set(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub)
    there = row(page, "transaction", "till-1")
    await there.locator("summary").click()
    await there.get_by_label("Producer epoch of till-1").fill("32766")
    await pressed(page, there, "Set epoch")
    assert 32766 == kitchen.get("transactions", "till-1")["producer_epoch"]
    await expect(there).to_contain_text("epoch 32766")
    opened_one = row(page, "transaction", "till-3")
    await opened_one.locator("summary").click()
    await expect(opened_one.get_by_role("button", name="Set epoch", exact=True)).to_be_hidden()


async def test_brokers_leaders_and_coordinators(pages: Pages, hub: HubClient) -> None:
    made = hub.post("clusters", body={"id": "kitchen", "brokers": 3, "topics": ["t:1"]})
    committed(made["bootstrap"], "staff")
    page = await opened(pages, hub)

    def state(broker: int) -> str:
        states = {each["id"]: each["state"] for each in hub.get("clusters", "kitchen", "brokers")}
        return str(states[broker])

    there = row(page, "broker", "Broker 2")
    for label, expected in (("Pause", "paused"), ("Resume", "running"), ("Stop", "stopped"), ("Start", "running")):
        await pressed(page, there, label)
        assert expected == state(2)
        await expect(there.locator(".state").first).to_have_text(expected)
    await pressed(page, there, "Crash")
    assert "stopped" == state(2)
    await pressed(page, there, "Start")
    await pressed(page, page.locator(".part.brokers > .deeds"), "Disconnect all clients")

    partition = row(page, "partition", "t-0")
    await partition.locator("summary").first.click()
    for broker in (1, 3):
        await partition.get_by_label("Broker that leads t-0").select_option(str(broker))
        await pressed(page, partition, "Move leader")
        assert broker == hub.get("clusters", "kitchen", "partitions", "t", 0)["leader"]
        await expect(partition).to_contain_text(f"broker {broker}, epoch")

    group = row(page, "group", "staff")
    await group.locator("summary").click()
    for broker in (1, 3):
        await group.get_by_label("Broker that coordinates group staff").select_option(str(broker))
        await pressed(page, group, "Move coordinator")
        await expect(group).to_contain_text(f"broker {broker}")
        assert broker == hub.get("clusters", "kitchen", "groups", "staff")["coordinator"]


async def test_a_coordinator_of_transactions_is_moved(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    """To the same broker, in a new leader epoch; what it held in memory is read from the log again."""
    page = await opened(pages, hub)
    there = row(page, "transaction", "till-3")
    await there.locator("summary").click()
    await pressed(page, there, "Move coordinator")
    await expect(there).to_contain_text("Ongoing")
    assert "Ongoing" == kitchen.get("transactions", "till-3")["state"]


async def test_a_feature_is_finalized(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub)
    there = row(page, "feature", "transaction.version")
    await there.locator("summary").click()
    await there.get_by_label("Level of transaction.version").fill("1")
    await pressed(page, there, "Finalize")
    assert 1 == kitchen.get()["features"]["transaction.version"]
    await expect(there.locator("summary")).to_contain_text("level 1")


async def test_a_cluster_is_made_reset_and_removed(pages: Pages, hub: HubClient) -> None:
    page = await pages.live(hub.url)
    making = page.locator(".making")
    await expect(page.locator(".nobody")).to_be_visible()
    await expect(making.locator("#new-story option")).not_to_have_count(1)
    await making.get_by_label("Name", exact=True).fill("kitchen")
    await making.get_by_label("Brokers", exact=True).fill("3")
    await making.get_by_label("Topics, as NAME:PARTITIONS").fill("extra:2, more")
    await making.get_by_label("From a story").select_option("late-produce-after-abort")
    await expect(making).to_contain_text("A batch comes after its transaction was aborted")
    await pressed(page, making, "Make the cluster")
    await expect(page.locator(".clusterline h2")).to_have_text("kitchen")
    told = hub.get("clusters", "kitchen")
    assert 3 == len(told["brokers"])
    assert {"extra", "more", "orders"} == {each["topic"] for each in told["partitions"]}
    assert {"late", "over"} <= {each["name"] for each in told["rules"]}
    hub.post("clusters", "kitchen", "time", body={"freeze": True})
    await pressed(page, page.locator(".clusterline"), "Reset", sure=True)
    assert not hub.get("clusters", "kitchen", "time")["frozen"]
    await pressed(page, page.locator(".clusterline"), "Remove", sure=True)
    assert [] == hub.get("clusters")
    await expect(page.locator(".nobody")).to_be_visible()
    assert "cluster=" not in page.url
    # A look that was under way when the cluster went.
    pages.troubles[:] = [each for each in pages.troubles if "404 (Not Found)" not in each]


async def test_a_refusal_is_told(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub)
    arming = page.locator(".arming")
    await arming.locator("summary").click()
    await arming.locator("textarea").fill('{"match": {"api": "END_TXM"}}')
    await arming.get_by_role("button", name="Arm", exact=True).click()
    await expect(page.locator(".said.bad")).to_contain_text("There is no API END_TXM: did you mean END_TXN?")
    assert [] != pages.troubles
    pages.troubles[:] = [each for each in pages.troubles if "400 (Bad Request)" not in each]


# ---------------------------------------------------------------------- the calls as text


def play(command: list[str], **variables: str) -> None:
    """Run what a page has shown."""
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=30, check=False)
    assert 0 == done.returncode, done.stderr


@pytest.mark.parametrize("language", ["curl", "Python"])
async def test_the_text_of_a_call_does_what_the_button_does(pages: Pages, hub: HubClient, language: str) -> None:
    rule = """it's "late" $HOME"""
    with kitchen_of(hub, rule=rule) as kitchen:
        page = await opened(pages, hub)

        async def run(place: Locator, label: str) -> None:
            await place.get_by_role("button", name=f"The call of {label}", exact=True).click()
            text = await place.get_by_label(language, exact=True).locator("visible=true").inner_text()
            await page.keyboard.press("Escape")
            play([sys.executable, "-c", text] if language == "Python" else ["sh", "-ec", f"{text} -sSf"])

        await run(page.locator(".part.clock"), "Freeze")
        assert kitchen.get("time")["frozen"]
        await run(row(page, "rule", rule), "Release")
        assert 0 == kitchen.ended()
        arming = page.locator(".arming")
        await arming.locator("summary").click()
        plan = {"name": ODD, "when": {"times": "all", "probability": 0.5}, "act": {"hold": False, "delay_ms": 1}}
        await arming.locator("textarea").fill(json.dumps(plan, ensure_ascii=False))
        await run(arming, "Arm")
        assert {rule, ODD} == {each["name"] for each in kitchen.get("rules")}
        await run(row(page, "rule", rule), "Remove")
        assert rule not in [each["name"] for each in kitchen.get("rules")]


async def test_a_text_is_copied(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub, permissions=["clipboard-read", "clipboard-write"])
    clock = page.locator(".part.clock")
    await clock.get_by_role("button", name="The call of Freeze", exact=True).click()
    await clock.get_by_role("button", name="Copy curl").click()
    await expect(clock.get_by_role("button", name="Copy curl")).to_have_text("Copied")
    copied = await page.evaluate("navigator.clipboard.readText()")
    assert ("POST", "/clusters/kitchen/time", {"freeze": True}) == call_of(copied)


async def test_a_token_is_asked_for_and_is_in_no_text(pages: Pages) -> None:
    with HubBeside(token="very secret") as guarded:
        hub = HubClient(guarded.url, token="very secret")
        hub.post("clusters", body={"id": "kitchen"})
        page = await pages.live(guarded.url)
        await page.get_by_role("textbox", name="Token").fill("a guess")
        await page.get_by_role("button", name="Go on").click()
        await expect(page.get_by_text("It has refused that one.")).to_be_visible()
        await page.get_by_role("textbox", name="Token").fill("very secret")
        await page.get_by_role("button", name="Go on").click()
        clock = page.locator(".part.clock")
        await expect(clock).to_contain_text("goes")
        await clock.get_by_role("button", name="The call of Freeze", exact=True).click()
        assert '"Authorization: Bearer $ODRADEK_HUB_TOKEN"' in await clock.get_by_label("curl", exact=True).inner_text()
        python = await clock.get_by_label("Python", exact=True).inner_text()
        play([sys.executable, "-c", python], ODRADEK_HUB_TOKEN="very secret")
        assert hub.get("clusters", "kitchen", "time")["frozen"]
        assert "very secret" not in await page.content()
        assert "secret" not in page.url
    pages.troubles[:] = [each for each in pages.troubles if "401 (Unauthorized)" not in each]


# ---------------------------------------------------------------------- what goes wrong


async def test_a_hub_that_goes_away_and_comes_back(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub)
    await page.route("**/clusters/**", lambda route: route.abort("connectionrefused"))
    await expect(page.get_by_role("alert")).to_contain_text("The hub does not answer.")
    await expect(row(page, "transaction", "till-3")).to_be_visible()
    await page.unroute("**/clusters/**")
    await expect(page.get_by_role("alert")).to_be_hidden()
    assert [] != pages.troubles
    pages.troubles[:] = [each for each in pages.troubles if "ERR_CONNECTION_REFUSED" not in each]


async def test_a_cluster_that_is_removed_while_it_is_shown(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub)
    kitchen.close()
    await expect(page.get_by_role("alert")).to_have_text(
        "The cluster kitchen is gone: it was removed, or its lease is over."
    )
    pages.troubles[:] = [each for each in pages.troubles if "404 (Not Found)" not in each]


async def test_nothing_is_asked_in_the_background(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    page = await opened(pages, hub)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/now?") else None)

    async def turn(hidden: bool) -> None:
        await page.evaluate(
            """(hidden) => { Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
                             document.dispatchEvent(new Event("visibilitychange")); }""",
            hidden,
        )

    async def quiet() -> None:
        before = len(asked)
        await page.wait_for_timeout(1200)
        assert before == len(asked)

    async with page.expect_request("**/now?"):
        pass
    await turn(True)  # a call is under way
    await page.wait_for_timeout(100)
    await quiet()
    async with page.expect_event("requestfinished", lambda request: request.url.endswith("/now?")):
        await turn(False)
    await page.wait_for_timeout(100)
    await turn(True)  # the next call has its time already
    await quiet()
    async with page.expect_request("**/now?"):
        await turn(False)


async def test_ten_thousand_partitions(pages: Pages, hub: HubClient) -> None:
    hub.post("clusters", body={"id": "kitchen", "topics": [f"many-{each}:1000" for each in range(10)]})
    page = await opened(pages, hub)
    await expect(page.locator(".part.partitions .rest")).to_have_text(
        "9,800 more are not shown here: search for what you look for."
    )
    await expect(page.locator(".thing.partition")).to_have_count(200)
    await page.get_by_label("Find").fill("many-7-99")
    found = [f"many-7-{each}" for each in (99, *range(990, 1000))]
    await expect(page.locator(".thing.partition .name")).to_have_text(found)
    await expect(page.locator(".part.partitions .rest")).to_be_hidden()
    await page.goto(f"{hub.url}/#now&cluster=kitchen&at=partition/many-9-500")
    await expect(row(page, "partition", "many-9-500")).to_be_focused()


async def test_five_thousand_transactions(pages: Pages, kitchen: Kitchen) -> None:
    told = kitchen.get("now")
    some = told["transactions"][0]
    told["transactions"] = [{**some, "transactional_id": f"till-{number}"} for number in range(200)]
    told["left_out"] = {"transactions": 4800}
    stub = StubHub(lambda _, path, *__: told if path.endswith("/now") else [{"id": "kitchen"}])
    page = await pages.live(stub)
    await expect(page.locator(".thing.transaction")).to_have_count(200)
    await expect(page.locator(".part.transactions h2")).to_have_text("Transactions 5,000")
    took = await page.evaluate(
        """() => new Promise((resolve) => { let last = performance.now(), worst = 0, left = 90;
             requestAnimationFrame(function frame(at) { worst = Math.max(worst, at - last); last = at;
               left-- ? requestAnimationFrame(frame) : resolve(worst); }); })"""
    )
    assert took < 1000, "the page stood still for a second"


# ---------------------------------------------------------------------- for everybody


async def test_it_can_be_used_by_everybody(pages: Pages, hub: HubClient, kitchen: Kitchen) -> None:
    committed(kitchen.bootstrap, "staff")
    page = await opened(pages, hub, width=800)
    for name in ("till-1", "t-0", "late", "staff", "transaction.version"):
        await (
            page.locator(".thing")
            .filter(has=page.locator(".name", has_text=re.compile(f"^{name}$")))
            .locator("summary")
            .first.click()
        )
    await page.locator(".arming summary").click()
    await page.get_by_role("button", name="The call of Freeze", exact=True).click()
    assert [] == await violations(page)
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
