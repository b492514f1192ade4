"""The hub over real HTTP: clusters, rules, state, control, waiting, and what it refuses."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.hub.helpers import HubBeside, Till, made, refused

from odradek.cli.usage import UsageError
from odradek.control.client import HubClient, HubRefused
from odradek.control.endpoints.asked import Endpoint
from odradek.control.endpoints.table import ENDPOINTS
from odradek.control.waits import waits_of
from odradek.net.client import BlockingClient
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.metadata_request import MetadataRequest

pytestmark = pytest.mark.slow

HOLD_MARKERS = {
    "name": "markers",
    "match": {"api": "WRITE_TXN_MARKERS"},
    "act": {"hold": True},
    "when": {"times": "all"},
}


# ---------------------------------------------------------------------- clusters


def test_a_cluster_is_there_when_it_is_answered(hub: HubClient) -> None:
    cluster = hub.post("clusters", body={"brokers": 3, "topics": ["t:2", {"name": "u", "partitions": 3}]})
    addresses = cluster["bootstrap"].split(",")
    assert [1, 2, 3] == [broker["id"] for broker in cluster["brokers"]]
    for address in addresses:
        with BlockingClient(address, client_id="test") as client:
            assert {"t": 2, "u": 3} == {
                topic.name: len(topic.partitions)
                for topic in client.ask(MetadataRequest(topics=None), 9).topics
                if not topic.is_internal
            }


def test_clusters_do_not_see_each_other(hub: HubClient) -> None:
    (one, _), (other, _) = made(hub, topics=["t"]), made(hub, id="mine", topics=["u"], transaction_version=0)
    assert "mine" == other
    assert ["t"] == [each["topic"] for each in hub.get("clusters", one, "partitions")]
    assert ["u"] == [each["topic"] for each in hub.get("clusters", other, "partitions")]
    assert 2 == hub.get("clusters", one)["features"]["transaction.version"]
    assert "transaction.version" not in hub.get("clusters", other)["features"]


def test_a_cluster_that_is_removed_ends_the_connections_of_its_clients(hub: HubClient) -> None:
    cluster, bootstrap = made(hub)
    with BlockingClient(bootstrap, client_id="test") as client:
        client.ask(MetadataRequest(topics=None), 9)
        hub.delete("clusters", cluster)
        with pytest.raises(ConnectionError, match="closed the connection"):
            client.ask(MetadataRequest(topics=None), 9)
    status, problem = refused(lambda: hub.get("clusters", cluster))
    assert 404 == status
    assert f"There is no cluster {cluster}: there is none." == problem["detail"]


def test_a_reset_cluster_is_as_new_on_the_same_ports(hub: HubClient) -> None:
    cluster, bootstrap = made(
        hub, topics=["t"], rules=[{"name": "first", "match": {"api": "FETCH"}, "act": {"drop": True}}]
    )
    till = Till(bootstrap)
    hub.post("clusters", cluster, "rules", body=HOLD_MARKERS)
    hub.post("clusters", cluster, "time", body={"freeze": True, "advance_ms": 5000})
    till.close()
    assert bootstrap == hub.post("clusters", cluster, "reset")["bootstrap"]
    state = hub.get("clusters", cluster)
    assert [] == state["transactions"]
    assert ["first"] == [rule["name"] for rule in state["rules"]]
    assert not state["time"]["frozen"]
    Till(bootstrap).close()


def test_a_cluster_of_a_dialect_and_one_of_a_release(hub: HubClient) -> None:
    made(hub, dialect="kip-890-text")
    cluster, _ = made(hub, as_kafka="3.6")
    assert "transaction.version" not in hub.get("clusters", cluster)["features"]
    status, problem = refused(lambda: made(hub, dialect="/tmp"))
    assert 400 == status
    assert problem["detail"].startswith("There is no dialect /tmp: there are")


def test_many_at_once(hub: HubClient) -> None:
    """Each serves a client of its own while the others do."""
    with ThreadPoolExecutor(8) as several:
        clusters = list(several.map(lambda _: made(hub, topics=["t"]), range(50)))
        assert 50 == len({cluster for cluster, _ in clusters})
        tills = list(several.map(lambda cluster: Till(cluster[1]), clusters))
        for step in (Till.add, Till.send, Till.end):
            assert [0] * 50 == list(several.map(step, tills))
    for till in tills:
        till.close()


# ---------------------------------------------------------------------- rules


def test_a_story_comes_with_its_cluster_and_its_rules(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, story="coordinator-loading", rules=[{"name": "mine"} | DROP_FETCH])
    assert 3 == len(bootstrap.split(","))
    assert ["records", "mine"] == [rule["name"] for rule in hub.get("clusters", cluster, "rules")]
    status, problem = refused(lambda: made(hub, story="coordinator"))
    assert (400, "There is no story coordinator: there is coordinator-loading") == (status, problem["detail"][:59])


def test_a_rule_acts_on_the_cluster(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    steps = [{"set_transaction_version": 0}]
    hub.post("clusters", cluster, "rules", body={"name": "level", "match": {"api": "END_TXN"}, "then": steps})
    till = Till(bootstrap)
    assert (0, 0, 0) == (till.add(), till.send(), till.end())
    hub.post("clusters", cluster, "wait", body={"rule": {"name": "level"}})
    assert 1 == hub.get("clusters", cluster, "rules", "level")["hits"]
    till.close()


DROP_FETCH = {"match": {"api": "FETCH"}, "act": {"drop": True}}


def test_a_rule_holds_is_released_and_proves_it(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    [rule] = hub.post("clusters", cluster, "rules", body=HOLD_MARKERS | {"expect": {"hits": 1}})
    assert "markers" == rule["name"]
    assert ["Rule markers expects 1 hit and had 0 hits; no request matched."] == hub.post(
        "clusters", cluster, "verify"
    )["unmet"]
    till = Till(bootstrap)
    assert (0, 0, 0) == (till.add(), till.send(), till.end())
    hub.post("clusters", cluster, "wait", body={"rule": {"name": "markers", "held": 1}})
    transaction = hub.get("clusters", cluster, "transactions", "till-1")
    assert "PrepareCommit" == transaction["state"]
    assert [{"topic": "t", "partition": 0}] == transaction["owed_markers"]
    assert 0 == hub.get("clusters", cluster, "partitions", "t", 0)["last_stable_offset"]

    assert {"released": 1} == hub.post("clusters", cluster, "rules", "markers", "release", body={"count": 1})
    came = hub.post(
        "clusters",
        cluster,
        "wait",
        body={
            "transaction": {"id": "till-1", "state": "CompleteCommit"},
            "partition": {"topic": "t", "partition": 0, "last_stable_offset": 2},
        },
    )
    assert [[], "COMMIT"] == [came["found"][0]["owed_markers"], came["found"][1]["last_batches"][-1]["marker"]]
    assert [] == hub.post("clusters", cluster, "verify")["unmet"]
    assert 1 == hub.delete("clusters", cluster, "rules", "markers")["hits"]
    assert [] == hub.get("clusters", cluster, "rules")
    till.close()


def test_a_request_that_a_rule_holds_is_parked_and_served_when_the_rule_goes(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    till = Till(bootstrap)
    hub.post("clusters", cluster, "rules", body=[{"name": "late", "match": {"api": "END_TXN"}, "act": {"hold": True}}])
    with ThreadPoolExecutor(1) as beside:
        assert 0 == till.add()
        ending = beside.submit(till.end)
        hub.post("clusters", cluster, "wait", body={"rule": {"name": "late"}})
        [parked] = hub.get("clusters", cluster, "parked")
        assert ("END_TXN", "late", "till") == (parked["api"], parked["rule"], parked["client_id"])
        hub.delete("clusters", cluster, "rules", "late")
        assert 0 == ending.result(10)
    assert [] == hub.get("clusters", cluster, "parked")
    till.close()


@pytest.mark.parametrize("act", [{"hold": True}, {"delay_ms": 600_000}])
def test_a_request_of_a_broker_to_itself_that_a_rule_keeps_is_parked(hub: HubClient, act: dict[str, object]) -> None:
    """The coordinator leads the partition, too: its markers come over no connection."""
    cluster, bootstrap = made(hub, topics=["t"])
    markers = {"name": "markers", "match": {"api": "WRITE_TXN_MARKERS"}, "act": act}
    hub.post("clusters", cluster, "rules", body=[markers])
    with closing(Till(bootstrap)) as till:
        assert (0, 0, 0) == (till.add(), till.send(), till.end())
        hub.post("clusters", cluster, "wait", body={"rule": {"name": "markers"}})
        [parked] = hub.get("clusters", cluster, "parked")
        assert ("WRITE_TXN_MARKERS", "markers", 1, True) == (
            parked["api"], parked["rule"], parked["broker"], parked["from_broker"],
        )  # fmt: skip
        assert (parked["deadline_ms"] is None) is ("hold" in act)
        [waiting] = hub.get("clusters", cluster, "now", find="t-0")["waiting"]
        assert ("WRITE_TXN_MARKERS", "held" if "hold" in act else "delayed") == (waiting["api"], waiting["kept"])
        hub.delete("clusters", cluster, "rules", "markers")
        assert [] == hub.get("clusters", cluster, "parked")


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"match": {"api": "END_TXM"}, "act": {"drop": True}}, "$.match.api", "END_TXN"),
        ({"match": {"api": "END_TXN"}, "act": {"dorp": True}}, "$.act.dorp", "drop"),
        ([{"match": {"api": "END_TXN"}, "act": {"dorp": True}}], "$[0].act.dorp", "drop"),
        ({"rules": [{"match": {"api": "END_TXN"}, "act": {"error": "NO_SUCH"}}]}, "$.rules[0].act.error", "NO_SUCH"),
        ([{"act": {"drop": True}}, {"match": {"broker": 9}, "act": {"drop": True}}], "broker", "9"),
        ("hold", "$", "A plan is a list of rules"),
    ],
)
def test_a_wrong_plan_is_refused_whole(hub: HubClient, body: object, field: str, said: str) -> None:
    cluster, _ = made(hub)
    status, problem = refused(lambda: hub.post("clusters", cluster, "rules", body=body))
    assert 400 == status
    assert field in problem["field"]
    assert said in problem["detail"]
    assert [] == hub.get("clusters", cluster, "rules")


# ---------------------------------------------------------------------- waiting and time


def test_what_does_not_come_is_told_with_what_came_nearest(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    Till(bootstrap).close()
    hub.post(
        "clusters",
        cluster,
        "rules",
        body={"name": "other", "match": {"api": "END_TXN", "transactional_id": "x"}, "act": {"hold": True}},
    )

    def wait(**what: object) -> dict[str, Any]:
        status, problem = refused(lambda: hub.post("clusters", cluster, "wait", body={**what, "timeout_ms": 0}))
        assert 408 == status
        return problem

    problem = wait(transaction={"id": "till-1", "state": "Ongoing"})
    assert "After 0 ms: till-1 is in Empty." == problem["detail"]
    assert "Empty" == problem["nearest"][0]["state"]
    assert "no coordinator knows till-2" in wait(transaction={"id": "till-2", "state": "Ongoing"})["detail"]
    assert "rule other had 0 hits and holds 0" in wait(rule={"name": "other"})["detail"]
    assert (
        "0 of 1 event init_producer_id came, the nearest has transactional_id is 'till-1'"
        in wait(event={"kind": "init_producer_id", "fields": {"transactional_id": "x"}})["detail"]
    )
    assert (
        "the high_watermark of t-0 is 0, not 3"
        in wait(partition={"topic": "t", "partition": 0, "high_watermark": 3})["detail"]
    )
    assert "no coordinator knows group g" in wait(group={"id": "g", "state": "Stable"})["detail"]


def test_an_event_that_has_come_already_is_found_and_the_next_one_is_waited_for(
    beside: HubBeside, hub: HubClient
) -> None:
    cluster, bootstrap = made(hub)
    Till(bootstrap).close()
    wanted = {"kind": "init_producer_id", "fields": {"transactional_id": "till-1"}}
    [first] = hub.post("clusters", cluster, "wait", body={"event": wanted})["found"]
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(hub.post, "clusters", cluster, "wait", body={"event": wanted | {"after": first["seq"]}})
        open_waits(beside, cluster, 1)
        Till(bootstrap).close()
        [second] = waiting.result(10)["found"]
    assert first["fields"]["producer_epoch"] + 1 == second["fields"]["producer_epoch"]


def open_waits(beside: HubBeside, cluster: str, count: int) -> None:
    """Return when so many calls wait for something of this cluster."""

    ends = monotonic() + 20
    while count != beside.within(lambda: len(waits_of(beside.hub.get(cluster).running))):
        assert monotonic() < ends


@pytest.mark.parametrize("end", ["remove", "reset"])
def test_who_waits_is_told_that_the_cluster_is_gone(beside: HubBeside, hub: HubClient, end: str) -> None:
    """Or that it is another one now, which knows nothing of what was waited for."""
    cluster, _ = made(hub)
    conditions: list[dict[str, object]] = [
        {"group": {"id": "g"}},
        {"event": {"kind": "fenced"}},
        {"transaction": {"id": "x", "state": "Ongoing"}, "partition": {"topic": "t", "partition": 0}},
    ]
    with ThreadPoolExecutor(3) as others:
        waiting = [
            others.submit(refused, partial(hub.post, "clusters", cluster, "wait", body=each)) for each in conditions
        ]
        open_waits(beside, cluster, 3)
        if end == "remove":
            hub.delete("clusters", cluster)
        else:
            hub.post("clusters", cluster, "reset")
        for each in waiting:
            status, problem = each.result(20)
            assert (404, "The cluster was removed or reset meanwhile.") == (status, problem["detail"])
    if end == "reset":
        status, _ = refused(lambda: hub.post("clusters", cluster, "wait", body={"group": {"id": "g"}, "timeout_ms": 0}))
        assert 408 == status


def test_many_open_waits_are_woken_each_by_its_own(beside: HubBeside, hub: HubClient) -> None:
    """And what is asked of the hub meanwhile reads nothing for them."""
    cluster, bootstrap = made(hub)
    ids = [f"till-{number}" for number in range(20)]
    with ThreadPoolExecutor(len(ids)) as others:
        waiting = {
            each: others.submit(
                hub.post, "clusters", cluster, "wait", body={"transaction": {"id": each, "state": "Empty"}}
            )
            for each in ids
        }
        open_waits(beside, cluster, len(ids))
        for left, each in zip(reversed(range(len(ids))), ids, strict=True):
            Till(bootstrap, each).close()
            assert each == waiting[each].result(20)["found"][0]["transactional_id"]
            open_waits(beside, cluster, left)


def test_a_week_passes_at_once(hub: HubClient) -> None:
    cluster, bootstrap = made(hub)
    Till(bootstrap).close()
    hour_ms = 3_600_000
    told = hub.post("clusters", cluster, "time", body={"freeze": True, "advance_ms": 7 * 24 * hour_ms})
    assert told["frozen"]
    hub.post("clusters", cluster, "time", body={"advance_ms": hour_ms})
    hub.post("clusters", cluster, "wait", body={"transaction": {"id": "till-1", "state": "none"}})
    assert not hub.post("clusters", cluster, "time", body={"resume": True})["frozen"]
    assert hub.get("clusters", cluster, "time")["ahead_ms"] > 6 * 24 * hour_ms


# ---------------------------------------------------------------------- control


def test_brokers_stop_start_pause_and_resume(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, brokers=2)

    def states() -> list[str]:
        return [broker["state"] for broker in hub.get("clusters", cluster, "brokers")]

    def fenced() -> list[bool]:
        return [broker["fenced"] for broker in hub.get("clusters", cluster, "brokers")]

    hub.post("clusters", cluster, "brokers", 2, "pause")
    assert ["running", "paused"] == states()
    assert [False, False] == fenced()
    hub.post("clusters", cluster, "time", body={"advance_ms": 9000})
    assert [False, True] == fenced()
    hub.post("clusters", cluster, "brokers", 2, "resume")
    assert [False, False] == fenced()
    hub.post("clusters", cluster, "brokers", 1, "stop")
    assert ["stopped", "running"] == states()
    assert (409, "Broker 1 is stopped.") == told(lambda: hub.post("clusters", cluster, "brokers", 1, "pause"))
    for broker in (1, 2, 2):
        hub.post("clusters", cluster, "brokers", broker, "start")
    assert ["running", "running"] == states()
    assert (404, "There is no broker 9: the brokers are [1, 2].") == told(
        lambda: hub.post("clusters", cluster, "brokers", 9, "stop")
    )
    assert 404 == told(lambda: hub.post("clusters", cluster, "brokers", "x", "stop"))[0]
    BlockingClient(bootstrap.split(",")[0], client_id="test").close()


CLEANLY: dict[str, bool] = {"cleanly": True}


@pytest.mark.parametrize(
    ("stops", "stays_eligible"),
    [
        ([CLEANLY], True),
        ([{"cleanly": False}], False),
        ([{}], False),
        ([None], False),
        ([CLEANLY, None], True),
        ([None, CLEANLY], False),
    ],
)
def test_only_a_broker_that_is_stopped_cleanly_stays_eligible(
    hub: HubClient, stops: list[dict[str, bool] | None], stays_eligible: bool
) -> None:
    """KIP-966: one that has crashed may have lost what it had, so that the last leader has to come back."""
    cluster, _ = made(hub, brokers=2, topics=["t:1:2"], config={"min.insync.replicas": 2})

    def leaders() -> list[int]:
        return [partition["leader"] for partition in hub.get("clusters", cluster, "partitions")]

    for body in stops:
        assert "stopped" == hub.post("clusters", cluster, "brokers", 1, "stop", body=body)[0]["state"]
    hub.post("clusters", cluster, "brokers", 2, "stop")
    hub.post("clusters", cluster, "brokers", 1, "start")
    assert leaders() == ([1] if stays_eligible else [])
    hub.post("clusters", cluster, "brokers", 2, "start")
    assert leaders() == ([1] if stays_eligible else [2])


def test_a_crash_may_be_noticed_later(hub: HubClient) -> None:
    cluster, _ = made(hub, brokers=2, topics=["t:2:2"])
    hub.post("clusters", cluster, "time", body={"freeze": True})
    told = hub.post("clusters", cluster, "brokers", 2, "stop", body={"fence_after_ms": 9_000})[1]
    assert ("stopped", False) == (told["state"], told["fenced"])
    for advance_ms, fenced in ((8_999, False), (1, True)):
        hub.post("clusters", cluster, "time", body={"advance_ms": advance_ms})
        assert fenced is hub.get("clusters", cluster, "brokers")[1]["fenced"]


@pytest.mark.parametrize(
    "body",
    [
        {"cleanly": "yes"},
        {"clean": True},
        {"fence_after_ms": -1},
        {"fence_after_ms": 1 << 31},
        {"fence_after_ms": 1, "cleanly": True},
    ],
)
def test_how_a_broker_cannot_be_stopped(hub: HubClient, body: dict[str, object]) -> None:
    cluster, _ = made(hub)
    assert 400 == told(lambda: hub.post("clusters", cluster, "brokers", 1, "stop", body=body))[0]
    assert "running" == hub.get("clusters", cluster, "brokers")[0]["state"]


def told(call: Callable[[], object]) -> tuple[int, str]:
    status, problem = refused(call)
    return status, problem["detail"]


def test_leaders_and_coordinators_move(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, brokers=3, topics=["t:1:3"])
    there = hub.get("clusters", cluster, "partitions", "t", 0)
    to = there["leader"] % 3 + 1
    hub.post("clusters", cluster, "partitions", "t", 0, "leader", body={"to": to})
    moved = hub.get("clusters", cluster, "partitions", "t", 0)
    assert (to, there["leader_epoch"] + 1) == (moved["leader"], moved["leader_epoch"])
    for kind in ("transaction", "group"):
        broker = hub.post("clusters", cluster, "coordinators", kind, "x/y z", "move")["broker"]
        assert broker in (1, 2, 3)
        assert {"broker": 3} == hub.post("clusters", cluster, "coordinators", kind, "x/y z", "move", body={"to": 3})
    assert 404 == told(lambda: hub.post("clusters", cluster, "coordinators", "share", "x", "move"))[0]
    assert 404 == told(lambda: hub.post("clusters", cluster, "partitions", "t", 7, "leader", body={"to": 1}))[0]
    assert bootstrap


def test_epochs_features_configs_and_slow_coordinators(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    till = Till(bootstrap)
    assert (
        32_766
        == hub.post("clusters", cluster, "producers", "till-1", "epoch", body={"epoch": 32_766})["producer_epoch"]
    )
    assert 404 == told(lambda: hub.post("clusters", cluster, "producers", "nobody", "epoch", body={"epoch": 1}))[0]
    assert "transaction.version" not in hub.post(
        "clusters", cluster, "features", "transaction.version", body={"level": 0}
    )
    assert 400 == told(lambda: hub.post("clusters", cluster, "features", "transaction.version", body={"level": 9}))[0]
    hub.post("clusters", cluster, "config", body={"topic": "t", "configs": {"retention.ms": 1000}})
    assert (
        400
        == told(lambda: hub.post("clusters", cluster, "config", body={"topic": "t", "configs": {"retention": 1}}))[0]
    )
    hub.post("clusters", cluster, "coordinators", "load", body={"load_ms": 60_000})
    hub.post("clusters", cluster, "coordinators", "transaction", "till-1", "move")
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS == till.add()
    hub.post("clusters", cluster, "disconnect")
    with pytest.raises(ConnectionError):
        till.add()
    till.close()


def test_groups_are_shown_with_their_offsets(hub: HubClient) -> None:
    from odradek.wire.messages.offset_commit_request import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )

    cluster, bootstrap = made(hub, topics=["t"])
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    commit = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])])
    with BlockingClient(bootstrap, client_id="test") as client:
        client.ask(commit, 8)
    [group] = hub.get("clusters", cluster, "groups")
    assert group == hub.get("clusters", cluster, "groups", "g")
    assert ("Empty", [("t", 0, 7)]) == (
        group["state"],
        [(each["topic"], each["partition"], each["offset"]) for each in group["offsets"]],
    )
    assert 404 == told(lambda: hub.get("clusters", cluster, "groups", "other"))[0]


# ---------------------------------------------------------------------- leases


def test_a_cluster_of_which_nobody_is_heard_is_removed(beside: HubBeside, hub: HubClient) -> None:
    forgotten, _ = made(hub, lease_s=0.05)
    connected, bootstrap = made(hub, lease_s=0.05)
    kept, _ = made(hub, lease_s=0)
    with BlockingClient(bootstrap, client_id="test") as client:
        client.ask(MetadataRequest(topics=None), 9)
        while forgotten in {each["id"] for each in hub.get("clusters")}:
            pass
        assert {connected, kept} == {each["id"] for each in hub.get("clusters")}
    while connected in {each["id"] for each in hub.get("clusters")}:
        pass
    assert kept in {each["id"] for each in hub.get("clusters")}


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"broker": 3}, 400, "There is no field broker here: did you mean brokers?"),
        ({"brokers": 0}, 400, ">= 1"),
        ({"brokers": 2, "node_ids": [1, 1]}, 400, "Each node id is given once, and 1 is given 2 times."),
        ({"config": {"no.such": 1}}, 400, "Unknown configuration key no.such."),
        ({"topics": ["t:0"]}, 400, "A topic is NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS, not t:0."),
        ({"as_kafka": "9.9"}, 400, "9.9"),
        ({"id": "a b"}, 400, "id"),
        ({"id": "."}, 400, "id"),
        ({"id": ".."}, 400, "id"),
        ({"id": "a\n"}, 400, "id"),
        ({"id": "..\n"}, 400, "id"),
        ({"advertised_host": "a" * 256}, 400, "to a host of 256 characters: a name has 255 at most."),
        ({"advertised_host": "a" * 40_000}, 400, "to a host of 40000 characters: a name has 255 at most."),
        ({"config": {"broker.rack": "a" * 40_000}}, 409, "rack: a string of 40000 bytes is longer than 32767."),
        ({"rules": [{"name": "..", "act": {"disconnect": "after"}}]}, 400, "A name is neither . nor .."),
        ({"advertised_host": "a b"}, 400, "No client can connect to 'a b': a host is a name or an address"),
        ({"advertised_host": "kafka.example:9"}, 400, "without a port"),
        ({"advertised_host": ""}, 400, "No client can connect to ''"),
        ({"rules": [{"match": {"api": "NO"}}]}, 400, "NO"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(hub: HubClient, body: object, status: int, said: str) -> None:
    got, problem = refused(lambda: hub.post("clusters", body=body))
    assert status == got, problem
    assert said in problem["detail"] or said in problem["field"]
    assert [] == hub.get("clusters")


@pytest.mark.parametrize("cluster_id", ["...", ".a", "a.", "-", "0"])
def test_names_that_clusters_may_have(hub: HubClient, cluster_id: str) -> None:
    made(hub, id=cluster_id, advertised_host="a" * 255)
    assert cluster_id == hub.get("clusters", cluster_id)["id"]


def _call(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


@pytest.mark.parametrize("endpoint", [each for each in ENDPOINTS if not each.body_required], ids=_call)
def test_a_call_that_needs_no_body_takes_an_empty_object(hub: HubClient, endpoint: Endpoint) -> None:
    """It does the same as without a body, which may be to say that there is no such thing."""
    cluster, _ = made(hub, topics=["t"])
    names = {"cluster": cluster, "broker": "1", "topic": "t", "partition": "0", "kind": "group"}
    path = re.sub(r"{(\w+)}", lambda found: names.get(found[1], "x"), endpoint.path)
    without = request(hub, endpoint.method, path)
    if endpoint.method == "DELETE":
        cluster = names["cluster"] = made(hub)[0]
        path = re.sub(r"{(\w+)}", lambda found: names.get(found[1], "x"), endpoint.path)
    empty = request(hub, endpoint.method, path, b"{}")
    assert without[0] == empty[0], empty
    refusal = request(hub, endpoint.method, path, b'{"no such field": 1}')
    assert 400 == refusal[0], refusal


def test_a_name_is_given_once(hub: HubClient) -> None:
    made(hub, id="mine")
    assert (409, "There is a cluster mine already.") == told(lambda: made(hub, id="mine"))


def request(
    hub: HubClient, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, Any], str]:
    """A request as it is written here."""
    connection = http.client.HTTPConnection(urlsplit(hub.url).netloc, timeout=10)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    raw = answer.read()
    connection.close()
    return answer.status, json.loads(raw) if raw else {}, answer.headers.get("content-type", "")


def test_every_problem_is_a_document(hub: HubClient) -> None:
    assert 404 == request(hub, "GET", "/nothing")[0]
    assert 405 == request(hub, "PUT", "/clusters")[0]
    assert "The body is no JSON" in request(hub, "POST", "/clusters", b"{")[1]["detail"]
    assert 413 == request(hub, "POST", "/clusters", b" " * ((1 << 20) + 1))[0]
    assert 400 == request(hub, "POST", "/clusters", b"[" * 100_000)[0]
    assert "There is no parameter x here: there is none." == request(hub, "GET", "/clusters?x=1")[1]["detail"]
    cluster, _ = made(hub)
    assert "This call takes no body, or {}." == request(hub, "POST", f"/clusters/{cluster}/verify", b"[]")[1]["detail"]
    assert "This call takes a body of JSON." == request(hub, "POST", f"/clusters/{cluster}/wait")[1]["detail"]
    _, problem, kind = request(hub, "GET", "/nothing")
    assert "application/problem+json" == kind
    assert (404, "Not there") == (problem["status"], problem["title"])


def test_a_page_of_another_site_drives_nothing(hub: HubClient) -> None:
    port = urlsplit(hub.url).port
    assert 403 == request(hub, "GET", "/", Host="evil.example")[0]
    assert 403 == request(hub, "GET", "/", Host=f"evil.example:{port}")[0]
    assert 403 == request(hub, "POST", "/clusters", b"{}", Origin="http://evil.example")[0]
    assert 403 == request(hub, "GET", "/openapi.json", Origin="null")[0]
    assert 403 == request(hub, "GET", "/nothing", Host="evil.example")[0]
    assert 200 == request(hub, "GET", "/", Host=f"localhost:{port}", Origin=f"http://localhost:{port}")[0]
    assert [] == hub.get("clusters")


def test_a_token_is_asked_for(hub: HubClient) -> None:
    with HubBeside(token="secret") as guarded:
        for client in (HubClient(guarded.url), HubClient(guarded.url, token="guess")):
            with pytest.raises(HubRefused, match="takes requests with its token") as caught:
                client.get("clusters")
            assert 401 == caught.value.status
        assert [] == HubClient(guarded.url, token="secret").get("clusters")


def test_beyond_loopback_a_token_is_needed() -> None:
    from odradek.control.serving import listening

    for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:0"):
        with pytest.raises(UsageError, match="beyond loopback a hub needs a token"):
            listening(address, None)
    with pytest.raises(UsageError, match=r"A hub listens on \[HOST:\]PORT, not on here"):
        listening("here", None)


def test_a_second_hub_on_the_port_says_so(hub: HubClient) -> None:
    from odradek.control.serving import listening

    port = urlsplit(hub.url).port
    with pytest.raises(UsageError, match=f"A hub listens on 127.0.0.1:{port} already: use that one"):
        listening(str(port), None)
