"""A broker has its port for as long as its cluster is there: while it is stopped nobody else gets it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.hub.helpers import HubBeside, refused

from odradek.control.client import HubClient
from odradek.control.hub import Hosted, Ports
from odradek.net.client import BlockingClient
from odradek.net.ports import ListenError, Port
from odradek.testing import Cluster
from odradek.wire.messages.metadata_request import MetadataRequest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no socket keeps a port without listening")

LOOPBACK, LOOPBACK_V6 = "127.0.0.1", "::1"
TWO_LISTENERS = {
    "listeners": f"ONE://{LOOPBACK}:0,TWO://{LOOPBACK}:0",
    "listener.security.protocol.map": "ONE:PLAINTEXT,TWO:PLAINTEXT",
}


def has_v6() -> bool:
    try:
        Port(LOOPBACK_V6, 0).close()
    except ListenError:
        return False
    return True


HOSTS = [LOOPBACK, pytest.param(LOOPBACK_V6, marks=pytest.mark.skipif(not has_v6(), reason="no IPv6"))]


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def bootstrap_ports(bootstrap: str) -> list[int]:
    return [port_of(address) for address in bootstrap.split(",")]


def connects(port: int, host: str = LOOPBACK) -> bool:
    """Whether somebody listens there; nobody does where a connection is refused."""
    try:
        socket.create_connection((host, port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def can_be_bound(port: int, host: str = LOOPBACK, *, reuse: bool = True) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        try:
            other.bind((host, port))
        except OSError:
            return False
        return True


def answers(port: int) -> str | None:
    """The id of the cluster that answers there."""
    with BlockingClient(f"{LOOPBACK}:{port}", client_id="client") as client:
        cluster_id: str | None = client.ask(MetadataRequest(topics=None), 9).cluster_id
        return cluster_id


@contextmanager
def free_port(host: str) -> Iterator[int]:
    port = Port(host, 0)
    port.close()
    yield port.address[1]


# ------------------------------------------------------------------ one port


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("drawn", [True, False])
def test_a_held_port_refuses_connections_and_everybody_who_wants_to_bind_it(host: str, drawn: bool) -> None:
    with free_port(host) as number:
        port = Port(host, 0 if drawn else number)
    with port.socket:
        # A connection that the server ends first stays in TIME_WAIT.
        with socket.create_connection(port.address), port.socket.accept()[0]:
            pass
        port.hold()
    everybody = {LOOPBACK_V6, "::"} if ":" in host else {LOOPBACK, "0.0.0.0"}
    assert not connects(port.address[1], host)
    assert not any(can_be_bound(port.address[1], each, reuse=reuse) for each in everybody for reuse in (True, False))
    held = port.socket
    port.listen()
    assert held is port.socket
    assert connects(port.address[1], host)
    with port.socket:
        port.hold()
    assert not connects(port.address[1], host)
    port.give_up()
    assert can_be_bound(port.address[1], host)


def test_who_waits_to_be_accepted_when_the_port_is_held_is_hung_up_on() -> None:
    port = Port(LOOPBACK, 0)
    with socket.create_connection(port.address, timeout=5) as client:
        with port.socket:
            port.hold()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    port.close()


def test_where_no_descriptor_is_left_the_port_is_free_and_bound_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(_: socket.socket) -> socket.socket:
        raise OSError(24, "Too many open files")

    port = Port(LOOPBACK, 0)
    with port.socket, monkeypatch.context() as patched:
        patched.setattr(socket.socket, "dup", exhausted)
        port.hold()
    assert can_be_bound(port.address[1])
    port.listen()
    assert connects(port.address[1])
    port.close()


# ------------------------------------------------------------------ clusters


@pytest.mark.parametrize("given", [True, False])
def test_a_cluster_that_wants_the_port_of_a_stopped_broker_is_refused(given: bool) -> None:
    with free_port(LOOPBACK) as number, Cluster(port=number if given else 0) as first:
        [port] = bootstrap_ports(first.bootstrap)
        mine = answers(port)
        first.stop_broker(1)
        assert not connects(port)
        taken = f"Cannot listen on {LOOPBACK}:{port}: Address already in use"
        with pytest.raises(ListenError, match=taken), Cluster(port=port):
            pass
        first.start_broker(1)
        assert mine == answers(port)
        first.stop_broker(1)
    with Cluster(port=port) as second:
        assert mine != answers(port)
        assert [port] == bootstrap_ports(second.bootstrap)


def test_all_listeners_of_a_broker_keep_their_ports() -> None:
    with Cluster(brokers=2, config=TWO_LISTENERS) as cluster:
        ports = [bootstrap_ports(cluster.bootstrap_of(name))[1] for name in ("ONE", "TWO")]
        for _ in range(2):
            assert [True, True] == [connects(port) for port in ports]
            cluster.stop_broker(2)
            assert [False, False] == [connects(port) for port in ports]
            assert [False, False] == [can_be_bound(port) for port in ports]
            cluster.start_broker(2)
        assert 1 == len({answers(port) for port in ports})


def test_a_start_that_fails_at_one_listener_listens_at_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(config=TWO_LISTENERS) as cluster:
        ports = [bootstrap_ports(cluster.bootstrap_of(name))[0] for name in ("ONE", "TWO")]
        cluster.stop_broker(1)
        listen = Port.listen

        def fail_at_the_second(port: Port) -> None:
            if port.address[1] == ports[1]:
                raise ListenError("Cannot listen on it.")
            listen(port)

        with monkeypatch.context() as patched:
            patched.setattr(Port, "listen", fail_at_the_second)
            with pytest.raises(ListenError):
                cluster.start_broker(1)
        assert [False, False] == [connects(port) for port in ports]
        assert [False, False] == [can_be_bound(port) for port in ports]
        cluster.start_broker(1)
        assert [True, True] == [connects(port) for port in ports]


@pytest.mark.parametrize("ends", ["stopped", "started"])
async def test_a_broker_that_goes_and_comes_within_one_turn_listens_as_it_was_told_last(ends: str) -> None:
    async with Cluster(brokers=2, config=TWO_LISTENERS) as cluster:
        port = bootstrap_ports(cluster.bootstrap_of("TWO"))[1]
        cluster.stop_broker(2)
        for _ in range(3):
            cluster.start_broker(2)
            cluster.stop_broker(2)
        if ends == "started":
            cluster.start_broker(2)
        for _ in range(3):
            await asyncio.sleep(0)
        assert (ends == "started") is connects(port)
        assert not can_be_bound(port)
        for _ in range(2):
            await asyncio.sleep(0)
        if ends == "started":
            assert await asyncio.to_thread(answers, port)


def test_a_reset_lets_nobody_have_the_ports_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process tries when the old brokers are gone and the new ones are not there yet; one was stopped."""
    begin, tried = Hosted.begin, list[bool]()

    async def fight_and_begin(hosted: Hosted, ports: Ports | None = None) -> None:
        if ports is not None:
            # The event loop closes what listened in later turns.
            for _ in range(10):
                await asyncio.sleep(0)
            tried.extend(
                connects(port.address[1]) or can_be_bound(port.address[1])
                for of_broker in ports.values()
                for port in of_broker.values()
            )
        await begin(hosted, ports)

    monkeypatch.setattr(Hosted, "begin", fight_and_begin)
    with HubBeside() as beside:
        hub = HubClient(beside.url)
        made = hub.post("clusters", body={"brokers": 3})
        ports = bootstrap_ports(made["bootstrap"])
        hub.post("clusters", made["id"], "brokers", 2, "stop")
        assert made["bootstrap"] == hub.post("clusters", made["id"], "reset")["bootstrap"]
        assert [False] * 3 == tried
        assert [True] * 3 == [connects(port) for port in ports]
        hub.delete("clusters", made["id"])
        assert [True] * 3 == [can_be_bound(port) for port in ports]


def test_a_reset_that_fails_gives_the_ports_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Port) -> None:
        raise ListenError("Cannot listen on it.")

    with HubBeside() as beside:
        hub = HubClient(beside.url)
        made = hub.post("clusters", body={"brokers": 2})
        with monkeypatch.context() as patched:
            patched.setattr(Port, "listen", fail)
            assert 409 == refused(lambda: hub.post("clusters", made["id"], "reset"))[0]
        assert [True, True] == [can_be_bound(port) for port in bootstrap_ports(made["bootstrap"])]
        assert 404 == refused(lambda: hub.get("clusters", made["id"]))[0]


def test_a_cluster_of_the_hub_that_wants_the_port_of_a_stopped_broker_is_refused() -> None:
    with HubBeside() as beside:
        hub = HubClient(beside.url)
        made = hub.post("clusters", body={})
        [port] = bootstrap_ports(made["bootstrap"])
        hub.post("clusters", made["id"], "brokers", 1, "stop")
        status, problem = refused(lambda: hub.post("clusters", body={"port": port}))
        assert (409, True) == (status, "Address already in use" in problem["detail"])
        assert "running" == hub.post("clusters", made["id"], "brokers", 1, "start")[0]["state"]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("leave", [lambda _: None, lambda cluster: cluster.stop_broker(1)])
def test_no_socket_is_left_behind(leave: Callable[[Cluster], None]) -> None:
    def once() -> None:
        with Cluster(brokers=2) as cluster:
            cluster.stop_broker(2)
            cluster.start_broker(2)
            leave(cluster)

    once()
    before = descriptors()
    once()
    assert before == descriptors()
