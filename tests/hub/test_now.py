"""`GET /clusters/{id}/now`: a cluster in one answer, and no more of it than a person can read. Remedies of `/why`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from tests.hub.helpers import Till, made, refused

from odradek.control.client import HubClient
from odradek.control.stories import names

pytestmark = pytest.mark.slow

HOLD_END = {"name": "late", "match": {"api": "END_TXN"}, "act": {"hold": True}}


def now(hub: HubClient, cluster: str, **query: str | int) -> dict[str, Any]:
    answer: dict[str, Any] = hub.get("clusters", cluster, "now", **query)
    return answer


def opened(bootstrap: str, transactional_id: str = "till-1") -> Till:
    till = Till(bootstrap, transactional_id)
    assert (0, 0) == (till.add(), till.send())
    return till


@pytest.fixture
def held(hub: HubClient) -> Iterator[tuple[str, Till]]:
    """A cluster with an open transaction whose EndTxn a rule holds."""
    cluster, bootstrap = made(hub, topics=["t"])
    hub.post("clusters", cluster, "rules", body=HOLD_END)
    till = opened(bootstrap)
    with ThreadPoolExecutor(1) as beside:
        ending = beside.submit(till.end)
        hub.post("clusters", cluster, "wait", body={"rule": {"name": "late", "held": 1}})
        yield cluster, till
        hub.delete("clusters", cluster, "rules")
        ending.result(timeout=10)
    till.close()


def test_it_tells_what_the_other_calls_tell(hub: HubClient, held: tuple[str, Till]) -> None:
    cluster, _ = held
    hub.post("clusters", cluster, "time", body={"freeze": True})
    whole, view = hub.get("clusters", cluster), now(hub, cluster)
    for name in ("id", "bootstrap", "controller", "last_event", "brokers", "transactions", "groups"):
        assert whole[name] == view[name], name
    assert hub.get("clusters", cluster, "rules") == view["rules"]
    assert [hub.get("clusters", cluster, "partitions", "t", 0)] == view["partitions"]
    assert whole["features"] == {each["name"]: each["level"] for each in view["features"]}
    assert all(each["lowest"] <= each["level"] <= each["highest"] for each in view["features"])
    [waiting] = view["waiting"]
    [parked] = whole["parked"]
    assert parked == {name: waiting[name] for name in parked}
    assert ("late", "held", ["till-1"]) == (waiting["rule"], waiting["kept"], waiting["ids"]["transactional_id"])
    assert {} == view["left_out"]


def test_it_tells_when_a_transaction_is_aborted(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    hub.post("clusters", cluster, "time", body={"freeze": True})
    with ExitStack() as exits:
        exits.callback(opened(bootstrap).close)
        [transaction] = now(hub, cluster)["transactions"]
        wait = transaction["aborted_at_ms"] - hub.get("clusters", cluster, "time")["now_ms"]
        assert wait >= transaction["timeout_ms"]
        hub.post("clusters", cluster, "time", body={"advance_ms": wait - 1})
        assert "Ongoing" == now(hub, cluster)["transactions"][0]["state"]
        hub.post("clusters", cluster, "time", body={"advance_ms": 1})
        hub.post("clusters", cluster, "wait", body={"transaction": {"id": "till-1", "state": "CompleteAbort"}})
        assert [None] == [each["aborted_at_ms"] for each in now(hub, cluster)["transactions"]]


def test_so_many_of_each_kind_and_those_at_rest_are_left_out_first(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, topics=["a:4", "t:1"])
    with ExitStack() as exits:
        for name in ("a", "b", "c"):
            till = opened(bootstrap, name)
            exits.callback(till.close)
            assert 0 == till.end()
            hub.post("clusters", cluster, "wait", body={"transaction": {"id": name, "state": "CompleteCommit"}})
        exits.callback(opened(bootstrap, "d").close)
        view = now(hub, cluster, most=2)
        assert ["a", "d"] == [each["transactional_id"] for each in view["transactions"]]
        assert [("a", 0), ("t", 0)] == [(each["topic"], each["partition"]) for each in view["partitions"]]
        assert {"transactions": 2, "partitions": 3} == view["left_out"]
        assert 4 == len(now(hub, cluster)["transactions"])


def test_what_is_looked_for_is_found_by_what_it_has_to_do_with(hub: HubClient, held: tuple[str, Till]) -> None:
    cluster, _ = held

    def found(text: str) -> dict[str, int]:
        view = now(hub, cluster, find=text)
        kinds = ("transactions", "partitions", "waiting", "rules")
        return {kind: len(view[kind]) for kind in kinds if view[kind]}

    everything = {"transactions": 1, "partitions": 1, "waiting": 1, "rules": 1}
    assert everything == found("")
    assert {"transactions": 1, "partitions": 1, "waiting": 1} == found("TILL-1")
    assert {"transactions": 1, "partitions": 1} == found("t-0")
    assert {"waiting": 1, "rules": 1} == found("late")
    assert {"waiting": 1} == found("end_txn")
    assert {} == found("<img")
    assert 1 == len(now(hub, cluster, find="<img")["brokers"])


def test_a_partition_that_nobody_leads_is_told(hub: HubClient) -> None:
    cluster, _ = made(hub, topics=["t"])
    hub.post("clusters", cluster, "brokers", 1, "stop")
    view = now(hub, cluster)
    assert ([], [{"topic": "t", "partition": 0}]) == (view["partitions"], view["leaderless"])
    assert [] == now(hub, cluster, find="other")["leaderless"]


def test_more_batches_of_a_partition(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    till = opened(bootstrap)
    for _ in range(24):
        assert 0 == till.send()
    till.close()

    def offsets(partition: dict[str, Any]) -> list[int]:
        return [batch["base_offset"] for batch in partition["last_batches"]]

    of_partition = ("clusters", cluster, "partitions", "t", 0)
    assert list(range(15, 25)) == offsets(hub.get(*of_partition))
    assert list(range(22, 25)) == offsets(hub.get(*of_partition, batches=3))
    assert list(range(25)) == offsets(hub.get(*of_partition, batches=1000))
    assert list(range(20, 25)) == offsets(now(hub, cluster, batches=5)["partitions"][0])
    for name, wrong in (("batches", "1001"), ("batches", "0"), ("batches", "many"), ("batches", "-1")):
        status, problem = refused(lambda name=name, wrong=wrong: hub.get(*of_partition, **{name: wrong}))  # type: ignore[misc]
        assert (400, f"Batches is a number from 1 to 1000, not {wrong}.") == (status, problem["detail"])
    assert 400 == refused(lambda: now(hub, cluster, most=0))[0]


def test_stories_are_listed(hub: HubClient) -> None:
    stories = hub.get("stories")
    assert names() == [each["name"] for each in stories]
    assert all(each["about"].endswith((".", ")")) for each in stories)


# ---------------------------------------------------------------------- remedies


def remedies(hub: HubClient, cluster: str, about: str) -> list[dict[str, Any]]:
    """What ends what is stuck of this kind."""
    reasons = hub.get("clusters", cluster, "why")["reasons"]
    return [remedy for each in reasons if each["about"] == about and each["stuck"] for remedy in each["remedies"]]


def make(hub: HubClient, cluster: str, remedy: dict[str, Any]) -> None:
    hub.call(remedy["method"], f"/clusters/{cluster}{remedy['path']}", remedy["body"])


@pytest.mark.parametrize("about", ["rule", "partition", "transaction"])
def test_a_rule_that_holds_is_released(hub: HubClient, held: tuple[str, Till], about: str) -> None:
    cluster, _ = held
    first = remedies(hub, cluster, about)[0]
    assert ("Release late", "/rules/late/release") == (first["label"], first["path"])
    make(hub, cluster, first)
    hub.post("clusters", cluster, "wait", body={"transaction": {"id": "till-1", "state": "CompleteCommit"}})
    assert [] == remedies(hub, cluster, about)


@pytest.mark.parametrize("about", ["partition", "transaction"])
def test_the_clock_goes_on_to_the_timeout(hub: HubClient, about: str) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    hub.post("clusters", cluster, "time", body={"freeze": True})
    till = opened(bootstrap)
    [remedy] = remedies(hub, cluster, about)
    assert "/time" == remedy["path"]
    make(hub, cluster, remedy)
    hub.post("clusters", cluster, "wait", body={"transaction": {"id": "till-1", "state": "CompleteAbort"}})
    assert [] == remedies(hub, cluster, about)
    till.close()


@pytest.mark.parametrize(("deed", "back"), [("stop", "start"), ("pause", "resume")])
def test_a_broker_comes_back(hub: HubClient, deed: str, back: str) -> None:
    cluster, _ = made(hub, topics=["t"], node_ids=[4])
    hub.post("clusters", cluster, "brokers", 4, deed)
    [remedy] = remedies(hub, cluster, "broker")
    assert (f"{back.capitalize()} broker 4", f"/brokers/4/{back}") == (remedy["label"], remedy["path"])
    if deed == "stop":
        assert {remedy["path"]} == {each["path"] for each in remedies(hub, cluster, "partition")}
    make(hub, cluster, remedy)
    assert ["running"] == [each["state"] for each in hub.get("clusters", cluster, "brokers")]
    assert [] == remedies(hub, cluster, "broker")


def test_the_clock_goes_again(hub: HubClient) -> None:
    cluster, _ = made(hub)
    hub.post("clusters", cluster, "time", body={"freeze": True})
    [reason] = [each for each in hub.get("clusters", cluster, "why")["reasons"] if each["about"] == "time"]
    make(hub, cluster, reason["remedies"][0])
    assert not hub.get("clusters", cluster, "time")["frozen"]


def test_a_name_in_the_path_of_a_remedy_is_quoted(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    name = "<img src=x onerror=alert(1)>/%2F?"
    hub.post("clusters", cluster, "rules", body={**HOLD_END, "name": name})
    till = opened(bootstrap)
    with ThreadPoolExecutor(1) as beside:
        ending = beside.submit(till.end)
        hub.post("clusters", cluster, "wait", body={"rule": {"name": name, "held": 1}})
        remedy = remedies(hub, cluster, "rule")[0]
        assert "/rules/%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E%2F%252F%3F/release" == remedy["path"]
        make(hub, cluster, remedy)
        assert 0 == ending.result(timeout=10)
    till.close()
