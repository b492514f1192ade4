"""Snapshots over HTTP and by `odradek ctl`: taken, listed, forked, removed, refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.hub.helpers import HubBeside, Till, made, refused
from tests.hub.test_ctl import Ctl, ctl

from odradek.cli.usage import UsageError
from odradek.config.table import Config
from odradek.control.client import HubClient
from odradek.control.events import EventRing
from odradek.control.hub import Hosted, Hub, Ports
from odradek.metadata.controller_role import StartTopic
from odradek.net.cluster import RunningCluster, start_cluster
from odradek.testing import Cluster

__all__ = ["ctl"]


@pytest.fixture(autouse=True)
def none_left(hub: HubClient) -> Iterator[None]:
    """What a test has kept is gone after it."""
    yield
    for kept in hub.get("snapshots"):
        hub.delete("snapshots", kept["name"])


def stable_end(hub: HubClient, cluster: str) -> int:
    end: int = hub.get("clusters", cluster, "partitions", "t", 0)["last_stable_offset"]
    return end


def test_a_fork_goes_on_where_its_origin_was(hub: HubClient) -> None:
    origin, bootstrap = made(hub, topics=["t"], id="origin")
    till = Till(bootstrap)
    assert 0 == till.add()
    assert 0 == till.send()
    kept = hub.post("clusters", origin, "snapshots", body={"name": "hanging"})
    assert ("hanging", "origin", [1]) == (kept["name"], kept["cluster"], kept["brokers"])
    assert kept["bytes_held"] > 0
    assert [kept] == hub.get("snapshots")
    assert 0 == till.end()
    till.close()
    hub.delete("clusters", origin)
    first, _ = made(hub, **{"from": "hanging"})
    second, _ = made(hub, **{"from": "hanging"})
    [found] = hub.get("clusters", first, "transactions")
    assert ("till-1", "Ongoing") == (found["transactional_id"], found["state"])
    hub.post("clusters", first, "time", body={"advance_ms": 120_000})  # its timeout aborts what hangs
    hub.post("clusters", first, "wait", body={"partition": {"topic": "t", "partition": 0, "last_stable_offset": 2}})
    assert 0 == stable_end(hub, second)
    assert "Ongoing" == hub.get("clusters", second, "transactions")[0]["state"]


def test_a_reset_fork_is_as_its_snapshot(hub: HubClient) -> None:
    origin, bootstrap = made(hub, topics=["t"])
    hub.post("clusters", origin, "snapshots", body={"name": "empty"})
    fork, bootstrap = made(hub, **{"from": "empty"})
    till = Till(bootstrap)
    assert 0 == till.add()
    assert 0 == till.send()
    till.close()
    assert bootstrap == hub.post("clusters", fork, "reset")["bootstrap"]
    assert [] == hub.get("clusters", fork, "transactions")
    assert 0 == hub.get("clusters", fork, "partitions", "t", 0)["high_watermark"]


def test_rules_of_a_fork_hold_what_its_snapshot_owes(hub: HubClient) -> None:
    hold = {"name": "markers", "match": {"api": "WRITE_TXN_MARKERS"}, "act": {"hold": True}}
    origin, bootstrap = made(hub, topics=["t"], rules=[hold])
    till = Till(bootstrap)
    assert (0, 0, 0) == (till.add(), till.send(), till.end())
    hub.post("clusters", origin, "wait", body={"rule": {"name": "markers", "held": 1}})
    hub.post("clusters", origin, "snapshots", body={"name": "owed"})
    held, _ = made(hub, **{"from": "owed", "rules": [hold]})
    hub.post("clusters", held, "wait", body={"rule": {"name": "markers", "held": 1}})
    assert "PrepareCommit" == hub.get("clusters", held, "transactions")[0]["state"]
    ended, _ = made(hub, **{"from": "owed"})
    hub.post("clusters", ended, "wait", body={"transaction": {"id": "till-1", "state": "CompleteCommit"}})
    till.close()


def test_forks_have_the_certificates_and_users_of_their_origin(hub: HubClient) -> None:
    origin = hub.post("clusters", body={"topics": ["t"], "security": "sasl-ssl", "users": {"alice": "secret"}})
    hub.post("clusters", origin["id"], "snapshots", body={"name": "secured"})
    hub.delete("clusters", origin["id"])
    fork = hub.post("clusters", body={"from": "secured"})
    assert origin["access"]["ca"] == fork["access"]["ca"]
    assert {"alice": "secret"} == fork["access"]["users"]
    hub.delete("clusters", fork["id"])
    again = hub.post("clusters", body={"from": "secured"})
    assert origin["access"]["ca"] == again["access"]["ca"]
    hub.delete("snapshots", "secured")
    assert hub.post("clusters", again["id"], "reset")


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"from": "x"}, 404, "There is no snapshot x: there is kept."),
        ({"from": "kept", "brokers": 3}, 400, "A fork has the brokers of its snapshot, 1 broker, and not 3."),
        ({"from": "kept", "node_ids": [5]}, 400, "A fork has the node ids of its snapshot, 1, and not 5."),
        ({"from": "kept", "dialect": "kip-939"}, 400, "A fork is the release of its snapshot, "),
        ({"from": "kept", "as_kafka": "3.6"}, 400, "Odradek.as.kafka is settled when a cluster is new"),
        ({"from": "kept", "security": "ssl"}, 400, "A fork has the listeners of its snapshot"),
        ({"from": "kept", "users": {"a": "b"}}, 400, "A fork has the listeners of its snapshot"),
        ({"from": 7}, 400, "Expected"),
    ],
)
def test_what_cannot_be_forked(hub: HubClient, body: dict[str, object], status: int, sentence: str) -> None:
    origin, _ = made(hub)
    hub.post("clusters", origin, "snapshots", body={"name": "kept"})
    answered, problem = refused(lambda: hub.post("clusters", body=body))
    assert status == answered
    assert problem["detail"].startswith(sentence), problem
    assert 1 == len(hub.get("clusters"))


def test_what_cannot_be_kept_or_removed(hub: HubClient) -> None:
    origin, _ = made(hub, id="origin")
    hub.post("clusters", origin, "snapshots", body={"name": "a"})
    status, problem = refused(lambda: hub.post("clusters", origin, "snapshots", body={"name": "a"}))
    assert (409, "There is a snapshot a already.") == (status, problem["detail"])
    status, problem = refused(lambda: hub.post("clusters", "x", "snapshots", body={"name": "b"}))
    assert (404, "There is no cluster x: there is origin.") == (status, problem["detail"])
    assert 400 == refused(lambda: hub.post("clusters", origin, "snapshots", body={"name": ".."}))[0]
    assert 400 == refused(lambda: hub.post("clusters", origin, "snapshots", body={}))[0]
    status, problem = refused(lambda: hub.delete("snapshots", "x"))
    assert (404, "There is no snapshot x: there is a.") == (status, problem["detail"])


def test_the_commands(ctl: Ctl, hub: HubClient) -> None:
    ctl("make", "--topic", "t", "--id", "origin")
    assert "ready" in ctl("snapshot", "ready")
    assert "ready" in ctl("snapshots")
    ctl("make", "--from", "ready", "--id", "fork")
    assert {"origin", "fork"} == {each["id"] for each in hub.get("clusters")}
    ctl("remove-snapshot", "ready")
    assert [] == hub.get("snapshots")
    with pytest.raises(UsageError, match="There is no snapshot ready: there is none"):
        ctl("make", "--from", "ready")


def test_a_relative_directory_begins_where_the_user_is(
    ctl: Ctl, hub: HubClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not where the hub was started."""
    with Cluster(data_dir=tmp_path / "origin", topics=["t"]) as origin:
        origin.snapshot(tmp_path / "kept" / "ready")
    monkeypatch.chdir(tmp_path / "kept")
    ctl("make", "--from", "./ready", "--id", "fork")
    assert ["t"] == [each["topic"] for each in hub.get("clusters", "fork", "partitions") if each["topic"] == "t"]
    ctl("remove", "--cluster", "fork")
    with pytest.raises(UsageError, match=f"^There is no directory {tmp_path}/kept/nothing/ready: --from takes"):
        ctl("make", "--from", "nothing/ready")


@pytest.mark.parametrize("name", ["", "..", "a/b", "x" * 65])
def test_a_name_that_is_no_part_of_a_path(hub: HubClient, name: str) -> None:
    origin, _ = made(hub)
    status, problem = refused(lambda: hub.post("clusters", origin, "snapshots", body={"name": name}))
    assert status == 400
    assert "A name is of 1 to 64 letters, digits and ._-, and neither . nor .." in problem["detail"]


def test_a_hub_that_ends_leaves_no_certificates() -> None:
    with HubBeside() as beside:
        client = HubClient(beside.url)
        origin = client.post("clusters", body={"security": "ssl"})
        client.post("clusters", origin["id"], "snapshots", body={"name": "kept"})
        client.post("clusters", body={"from": "kept"})
        prepared = beside.hub.snapshots["kept"].prepared
        assert prepared is not None
        assert prepared.certificates is not None
        folder = prepared.certificates.folder
        assert folder.exists()
    assert not folder.exists()


def test_a_snapshot_of_a_data_directory_is_one_beside_it(tmp_path: Path) -> None:
    """As with `odradek serve --data-dir DIR --control`: the next hub is given the path."""
    config = Config.parse({"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"})

    async def adopt(hub: Hub) -> None:
        async def start(events: EventRing, ports: Ports | None) -> RunningCluster:
            return await start_cluster(
                config=config, log=hub.log, topics=[StartTopic("t")], events=events, data_dir=tmp_path / "data"
            )

        hosted = Hosted("default", start, lease_s=0, loop=asyncio.get_running_loop())
        await hosted.begin()
        hub.adopt(hosted)

    with HubBeside() as beside:
        beside.until_done(partial(adopt, beside.hub))
        client = HubClient(beside.url)
        till = Till(client.get("clusters", "default")["bootstrap"])
        assert (0, 0) == (till.add(), till.send())
        kept = client.post("clusters", "default", "snapshots", body={"name": "hanging"})
        path = tmp_path / "data.snapshots" / "hanging"
        assert str(path) == kept["directory"]
        assert kept["bytes_held"] > 0
        till.close()
        fork = client.post("clusters", body={"from": "hanging"})["id"]
        assert "Ongoing" == client.get("clusters", fork, "transactions")[0]["state"]
        client.post("clusters", fork, "time", body={"advance_ms": 120_000})
        client.post("clusters", fork, "wait", body={"transaction": {"id": "till-1", "state": "CompleteAbort"}})
        client.post("clusters", fork, "reset")
        assert "Ongoing" == client.get("clusters", fork, "transactions")[0]["state"]
        of_fork = client.post("clusters", fork, "snapshots", body={"name": "of-fork"})
        assert str(path.with_name("of-fork")) == of_fork["directory"]
        client.delete("snapshots", "of-fork")
    assert ["hanging"] == [each.name for each in path.parent.iterdir()]
    with HubBeside() as beside:
        client = HubClient(beside.url)
        fork = client.post("clusters", body={"from": str(path)})["id"]
        assert "Ongoing" == client.get("clusters", fork, "transactions")[0]["state"]
        beside.until_done(partial(adopt, beside.hub))
        status, problem = refused(lambda: client.post("clusters", "default", "snapshots", body={"name": "hanging"}))
        assert (409, f"There is a snapshot hanging already, in {path}.") == (status, problem["detail"])
        status, problem = refused(lambda: client.post("clusters", body={"from": str(tmp_path)}))
        assert 409 == status
        assert "is no snapshot of a cluster" in problem["detail"]
        client.post("clusters", "default", "snapshots", body={"name": "second"})
        client.delete("snapshots", "second")
    assert ["hanging"] == [each.name for each in path.parent.iterdir()]
