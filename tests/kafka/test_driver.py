"""The driver that has the clusters of a JVM: brokers by the ids of a test, and what can be asked of them."""

from __future__ import annotations

import base64
import io
import socket
import socketserver
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import msgspec
import pytest
from tests.kafka.driver import Clusters, configuration
from tests.kafka.entrance import Builder
from tests.kafka.plan import SERVES_ON_S
from tests.kafka.requests import (
    AppendRecords,
    CleanLog,
    CreateAcls,
    Credential,
    CutLog,
    DeleteAcls,
    DescribeLog,
    FindOffset,
    Forget,
    Listening,
    OpenController,
    ReadLog,
    ReadLogins,
    ReadMetadata,
    ReadQuota,
    ReadThrottles,
    Request,
    RollLog,
    SetEpoch,
    StartBroker,
    StopBroker,
)

from odradek.net.client import BlockingClient
from odradek.records.batch import batches
from odradek.records.record import Record, build_batch
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from odradek.wire.messages.create_acls_request import AclCreation
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_acls_request import DeleteAclsFilter
from odradek.wire.messages.describe_cluster_request import DescribeClusterRequest
from odradek.wire.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from odradek.wire.messages.metadata_request import MetadataRequest

CLUSTER = "kept-by-the-test"


@pytest.fixture
async def clusters() -> AsyncIterator[Clusters]:
    made = Clusters(io.StringIO(), {})
    yield made
    await made.stop()


def start(broker: int, config: dict[str, str] | None = None, *, rack: str | None = None) -> StartBroker:
    return StartBroker(CLUSTER, broker, config or {}, {"transaction.version": 1, "share.version": 1}, rack=rack)


async def ask(port: object, request: msgspec.Struct, version: int) -> Any:
    def exchange() -> Any:
        with BlockingClient(f"localhost:{port}", client_id="test") as client:
            return client.ask(request, version)

    return await anyio.to_thread.run_sync(exchange)


async def test_brokers_join_one_after_the_other_with_the_ids_and_racks_of_the_test(clusters: Clusters) -> None:
    first = await clusters.answer(start(7, rack="left"))
    second = await clusters.answer(start(0, rack="right"))
    for port in (first["port"], second["port"]):
        told = await ask(port, MetadataRequest(topics=[]), 9)
        assert [
            (broker.node_id, broker.rack, broker.host) for broker in sorted(told.brokers, key=lambda each: each.node_id)
        ] == [
            (0, "right", "localhost"),
            (7, "left", "localhost"),
        ]
        assert told.cluster_id == CLUSTER


async def test_each_broker_has_its_own_configuration(clusters: Clusters) -> None:
    await clusters.answer(start(0, {"num.partitions": "2"}))
    await clusters.answer(start(1, {"num.partitions": "5"}))
    assert [clusters.cluster(CLUSTER).node(each).config.num_partitions for each in (0, 1)] == [2, 5]


async def test_a_broker_stops_and_comes_back_at_its_port(clusters: Clusters) -> None:
    port = (await clusters.answer(start(0)))["port"]
    await clusters.answer(start(1))
    await clusters.answer(StopBroker(CLUSTER, 0))
    with pytest.raises(OSError):
        await ask(port, MetadataRequest(topics=[]), 9)
    with socket.socket() as other, pytest.raises(OSError):
        other.bind(("127.0.0.1", port))  # which is kept for it
    assert (await clusters.answer(start(0)))["port"] == port
    told = await ask(port, MetadataRequest(topics=[]), 9)
    assert [broker.node_id for broker in told.brokers] == [0, 1]


async def test_a_broker_that_is_told_to_stop_serves_on_where_that_is_set() -> None:
    log = io.StringIO()
    clusters = Clusters(log, {SERVES_ON_S: "1000"})
    port = (await clusters.answer(start(0)))["port"]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clusters.answer, StopBroker(CLUSTER, 0))
        await anyio.wait_all_tasks_blocked()
        told = await ask(port, MetadataRequest(topics=[]), 9)
        tasks.cancel_scope.cancel()
    await clusters.stop()
    assert [broker.node_id for broker in told.brokers] == [0]
    assert SERVES_ON_S not in log.getvalue()  # no broker is told


async def test_the_metadata_log_is_read_from_an_offset(clusters: Clusters) -> None:
    await clusters.answer(start(0))
    end = (await clusters.answer(ReadMetadata(CLUSTER, 0)))["end"]
    assert isinstance(end, int)
    await clusters.answer(start(1))
    later = await clusters.answer(ReadMetadata(CLUSTER, end))
    assert base64.b64decode(str(later["batches"]))[:8] == end.to_bytes(8)


async def test_the_log_of_a_partition_is_described_while_somebody_leads_it(clusters: Clusters) -> None:
    port = (await clusters.answer(start(0)))["port"]
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    await ask(port, CreateTopicsRequest(topics=[topic]), 5)
    log = (await clusters.answer(DescribeLog(CLUSTER, "orders", 0)))["log"]
    assert log == {
        "start": 0,
        "end": 0,
        "highWatermark": 0,
        "stable": 0,
        "epoch": 0,
        "size": 0,
        "producers": [],
    }
    await clusters.answer(StopBroker(CLUSTER, 0))
    assert await clusters.answer(DescribeLog(CLUSTER, "orders", 0)) == {"log": None}


async def test_a_change_is_shown_once_every_broker_has_heard_of_it(clusters: Clusters) -> None:
    for broker in (0, 1, 2):
        await clusters.answer(start(broker))
    await clusters.answer(StopBroker(CLUSTER, 0))
    end = (await clusters.answer(ReadMetadata(CLUSTER, 0)))["end"]
    assert isinstance(end, int)
    assert [clusters.cluster(CLUSTER).node(each).image.offset for each in (1, 2)] == [end - 1, end - 1]


async def test_a_cluster_is_forgotten(clusters: Clusters) -> None:
    await clusters.answer(start(0))
    await clusters.answer(Forget(CLUSTER))
    await clusters.answer(Forget(CLUSTER))
    with pytest.raises(LookupError):
        await clusters.answer(StopBroker(CLUSTER, 0))


async def test_an_id_that_nobody_knows_has_no_epoch(clusters: Clusters) -> None:
    await clusters.answer(start(0))
    with pytest.raises(LookupError):
        await clusters.answer(SetEpoch(CLUSTER, "till-1", 7))


def test_a_configuration_keeps_what_odradek_knows_and_tells_the_rest() -> None:
    config, dropped = configuration(
        start(0, {"num.partitions": "3", "no.such.key": "x", "log.segment.bytes": "many", "metadata.version": "x"}), {}
    )
    assert config.num_partitions == 3
    assert set(dropped) == {"no.such.key", "log.segment.bytes", "metadata.version"}
    assert config.odradek_transaction_version == 1
    assert config.odradek_strict_replication
    assert config.group_initial_rebalance_delay_ms == 3000


def test_settings_go_before_what_the_tests_expect_and_after_what_a_test_says() -> None:
    settings = {"odradek.replica.lag.ms": "100", "num.partitions": "7", "odradek.strict.replication": "false"}
    config, _ = configuration(start(0, {"num.partitions": "3"}), settings)
    assert (config.odradek_replica_lag_ms, config.num_partitions) == (100, 3)
    assert not config.odradek_strict_replication


def test_a_level_is_kept_that_the_release_of_the_tests_has_with_its_switch() -> None:
    level, switch = {"metadata.version": 31}, {"unstable.feature.versions.enable": "true"}
    with_it, kept = configuration(StartBroker(CLUSTER, 0, switch, level), {})
    without, dropped = configuration(StartBroker(CLUSTER, 0, {}, level), {})
    assert (with_it.odradek_metadata_version, without.odradek_metadata_version) == (31, 30)
    assert (list(kept), list(dropped)) == ([], ["odradek.metadata.version"])


def test_a_request_is_a_line_of_json() -> None:
    line = b'{"type":"start","cluster":"c","broker":0,"rack":null,"config":{"a":"b"},"features":{"f":1}}'
    assert msgspec.json.decode(line, type=Request) == StartBroker("c", 0, {"a": "b"}, {"f": 1})


# ------------------------------------------------------------------ who comes, and what they may do

ALLOWED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:boss",
}
BUILT = {"clerks": "User:clerk", "bosses": "User:boss"}
CLIENTS = Listening("CLIENTS")


class _Answers(socketserver.StreamRequestHandler):
    """What builders of principals in a JVM would say."""

    def handle(self) -> None:
        name, _, certified = self.rfile.readline().decode().rstrip("\n").partition("\t")
        assert not certified
        self.wfile.write(f"{BUILT[name]}\n".encode())


@pytest.fixture(scope="module")
def builders() -> Iterator[int]:
    """The port of some that live elsewhere."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def listeners(builders: int) -> tuple[Listening, Listening]:
    """One for clerks and one for bosses."""
    clerks, bosses = Builder(builders, "clerks"), Builder(builders, "bosses")
    return Listening("CLIENTS", builder=clerks), Listening("BOSSES", builder=bosses)


def secured(broker: int, *listeners: Listening, **more: object) -> StartBroker:
    return msgspec.structs.replace(start(broker, ALLOWED), listeners=listeners, **more)


async def ports_of(clusters: Clusters, request: StartBroker) -> dict[str, int]:
    ports = (await clusters.answer(request))["ports"]
    assert isinstance(ports, dict)
    return ports


async def test_each_listener_has_a_port_and_whoever_comes_over_it_is_whom_the_test_says(
    clusters: Clusters, listeners: tuple[Listening, Listening]
) -> None:
    ports = await ports_of(clusters, secured(0, *listeners))
    assert list(ports) == ["CLIENTS", "BOSSES"]
    topic = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    refused = await ask(ports["CLIENTS"], topic, 7)
    assert refused.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (await ask(ports["BOSSES"], topic, 7)).topics[0].error_code == ErrorCode.NONE
    told = await ask(ports["CLIENTS"], DescribeClusterRequest(), 1)
    assert [broker.port for broker in told.brokers] == [ports["CLIENTS"]]


async def test_who_comes_is_asked_at_every_connection(
    clusters: Clusters, listeners: tuple[Listening, Listening], monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = await ports_of(clusters, secured(0, *listeners))
    topic = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    monkeypatch.setitem(BUILT, "clerks", "User:boss")
    assert (await ask(ports["CLIENTS"], topic, 7)).topics[0].error_code == ErrorCode.NONE


async def test_a_broker_that_comes_back_has_its_listeners_and_principals(
    clusters: Clusters, listeners: tuple[Listening, Listening]
) -> None:
    before = await ports_of(clusters, secured(0, *listeners))
    await clusters.answer(secured(1, CLIENTS))
    await clusters.answer(StopBroker(CLUSTER, 0))
    assert await ports_of(clusters, secured(0, *listeners)) == before
    topic = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    assert (await ask(before["BOSSES"], topic, 7)).topics[0].error_code == ErrorCode.NONE


async def test_permissions_are_created_and_deleted_past_the_listeners(
    clusters: Clusters, listeners: tuple[Listening, Listening]
) -> None:
    ports = await ports_of(clusters, secured(0, listeners[0]))
    acl = AclCreation(
        resource_type=2, resource_name="t", principal="User:clerk", host="*", operation=5, permission_type=3
    )
    topic = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    await clusters.answer(CreateAcls(CLUSTER, [acl]))
    assert (await ask(ports["CLIENTS"], topic, 7)).topics[0].error_code == ErrorCode.NONE
    meant = DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    await clusters.answer(DeleteAcls(CLUSTER, [meant]))
    assert not clusters.cluster(CLUSTER).node(0).image.acls


async def test_users_that_a_cluster_is_formatted_with_are_there_from_the_start(
    clusters: Clusters, listeners: tuple[Listening, Listening]
) -> None:
    user = Credential("alice", 1, 4096, b"salt", b"stored", b"server")
    ports = await ports_of(clusters, secured(0, listeners[1], credentials=(user,)))
    told = await ask(ports["BOSSES"], DescribeUserScramCredentialsRequest(users=None), 0)
    [found] = told.results
    assert (found.user, [(each.mechanism, each.iterations) for each in found.credential_infos]) == (
        "alice",
        [(1, 4096)],
    )


# ------------------------------------------------------------------ past the protocol


async def led(clusters: Clusters, config: dict[str, str] | None = None) -> object:
    """A broker that leads t-0; its port."""
    port = (await clusters.answer(start(0, config)))["port"]
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    assert (await ask(port, CreateTopicsRequest(topics=[topic]), 5)).topics[0].error_code == ErrorCode.NONE
    return port


def written(key: bytes, timestamp: int) -> AppendRecords:
    return AppendRecords(CLUSTER, "t", 0, build_batch([Record(key=key, timestamp=timestamp)]))


async def test_records_are_appended_and_found_past_the_protocol(clusters: Clusters) -> None:
    await led(clusters)
    for timestamp in (10, 30, 20):
        await clusters.answer(written(b"k", timestamp))
    assert (await clusters.answer(FindOffset(CLUSTER, "t", 0, -3)))["offset"] == 1
    assert await clusters.answer(FindOffset(CLUSTER, "t", 0, 15)) == {"offset": 1, "timestamp": 30, "epoch": 0}
    await clusters.answer(CutLog(CLUSTER, "t", 0, 2, ends=True))
    await clusters.answer(CutLog(CLUSTER, "t", 0, 1, ends=False))
    log = (await clusters.answer(DescribeLog(CLUSTER, "t", 0)))["log"]
    assert isinstance(log, dict)
    assert (log["start"], log["end"]) == (1, 2)
    with pytest.raises(LookupError):
        await clusters.answer(FindOffset(CLUSTER, "t", 1, -1))


async def test_a_log_is_rolled_and_cleaned_when_a_test_says_so(clusters: Clusters) -> None:
    await led(clusters, {"log.cleanup.policy": "compact", "log.cleaner.min.cleanable.ratio": "0"})
    for timestamp in (1, 2, 3):
        await clusters.answer(written(b"k", timestamp))
    assert (await clusters.answer(CleanLog(CLUSTER, "t", 0)))["until"] == 0  # the active segment is not cleaned
    await clusters.answer(RollLog(CLUSTER, "t", 0))
    await clusters.answer(written(b"k", 4))
    assert (await clusters.answer(CleanLog(CLUSTER, "t", 0)))["until"] == 3
    segments = (await clusters.answer(ReadLog(CLUSTER, "t", 0)))["segments"]
    assert isinstance(segments, list)
    held = [[batch.base_offset for batch in batches(memoryview(base64.b64decode(each)))] for each in segments]
    assert held == [[2], [3]]


async def test_what_a_client_may_use_is_told_with_how_long_it_had_to_wait(clusters: Clusters) -> None:
    port = (await clusters.answer(start(0)))["port"]
    asked = ReadQuota(CLUSTER, -1, "controller_mutation_rate", "ANONYMOUS", "test")
    unlimited = {"limit": None, "used": False, "count": 0, "throttled_ms": 0}
    assert await clusters.answer(asked) == unlimited
    entity = [EntityData(entity_type="client-id", entity_name="test")]
    limits = [OpData(key="controller_mutation_rate", value=1.0)]
    await ask(port, AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=limits)]), 1)
    assert await clusters.answer(asked) == unlimited | {"limit": 1.0}
    for name in ("a", "b"):
        topic = CreatableTopic(name=name, num_partitions=100, replication_factor=1)
        await ask(port, CreateTopicsRequest(topics=[topic]), 6)
    told = await clusters.answer(asked)
    assert (told["limit"], told["used"], told["count"]) == (1.0, True, 1)
    throttled_ms = told["throttled_ms"]
    assert isinstance(throttled_ms, int)
    assert throttled_ms > 0
    assert await clusters.answer(ReadThrottles(CLUSTER)) == {"controller_mutation_rate": throttled_ms}


async def test_logins_that_ran_out_are_told_by_broker(clusters: Clusters) -> None:
    for broker in (0, 1):
        await clusters.answer(start(broker))
    counted = clusters.cluster(CLUSTER).node(1).counters
    counted.sessions_expired, counted.logins_again_refused = 2, 1
    told = {"0": {"expired": 0, "refused": 0}, "1": {"expired": 2, "refused": 1}}
    assert await clusters.answer(ReadLogins(CLUSTER)) == told


async def test_the_controller_listens_for_itself_when_a_test_asks_where(clusters: Clusters) -> None:
    own = (await clusters.answer(start(0)))["port"]
    port = (await clusters.answer(OpenController(CLUSTER)))["port"]
    assert port not in (None, own)
    assert (await clusters.answer(OpenController(CLUSTER)))["port"] == port
    assert (await ask(port, MetadataRequest(topics=[]), 9)).cluster_id == CLUSTER
