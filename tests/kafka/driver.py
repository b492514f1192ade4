"""`python -m tests.kafka.driver KEY=VALUE...`: makes clusters for a JVM that plays Kafka's tests, and tells it of them.

Every broker is told the settings, beyond what its test says.
It prints a port on the loopback interface; there it answers one line of JSON with another, see the requests below.
It ends when its standard input does.
A cluster comes into being with its first broker, which is its controller; every broker brings its own configuration.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import sys
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, TextIO

import anyio
import msgspec
from tests.kafka.entrance import Builder, NamingCluster
from tests.kafka.looks import look
from tests.kafka.plan import SERVES_ON_S
from tests.kafka.requests import (
    CreateAcls,
    DeleteAcls,
    DescribeLog,
    Forget,
    OpenController,
    ReadMetadata,
    ReadTransaction,
    Request,
    SetEpoch,
    StartBroker,
    StopBroker,
)

from odradek.access.listeners import SecurityProtocol
from odradek.cli.logs import make_logger
from odradek.config.table import Config, ConfigError
from odradek.core.machine import Decision, Refused
from odradek.host.cluster_spec import BrokerSpec, ClusterSpec, Endpoint
from odradek.host.events import Started
from odradek.log.partition import Partition
from odradek.metadata.controller import Controller
from odradek.metadata.controller_role import METADATA_CONFIG, METADATA_TOPIC_ID
from odradek.net.cluster import RunningCluster
from odradek.net.driver import Driver
from odradek.net.event_loop import loop_options
from odradek.net.ports import Port
from odradek.releases.table import FEATURES
from odradek.txn.epochs import force_epoch
from odradek.txn.shard import TransactionShard
from odradek.wire.messages.create_acls_request import CreateAclsRequest
from odradek.wire.messages.delete_acls_request import DeleteAclsRequest
from odradek.wire.messages.user_scram_credential_record import UserScramCredentialRecord

__all__ = ["Clusters"]

HOST = "localhost"
CONTROLLER = "CONTROLLER"
TURNS_MAX = 1000

AS_THE_TESTS_EXPECT = {
    "odradek.as.kafka": "4.3",
    "odradek.auto.created.topics.at.once": "false",
    "odradek.internal.topics.at.start": "false",
    "odradek.strict.replication": "true",
    "default.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "3000",
    "group.streams.initial.rebalance.delay.ms": "3000",
}
"""Where Odradek has defaults of its own; what a test says goes before."""

WHAT_LEVELS_THERE_ARE = ("odradek.as.kafka", "unstable.feature.versions.enable")
"""Keys on which it depends whether Odradek can take others."""


class Clusters:
    """The clusters of one JVM, by the ids that its tests gave them."""

    def __init__(self, log: TextIO, settings: Mapping[str, str]) -> None:
        self._running: dict[str, NamingCluster] = {}
        self._log = log
        self._serves_on_s = float(settings.get(SERVES_ON_S, 0))
        self._settings = {key: value for key, value in settings.items() if key != SERVES_ON_S}

    async def answer(self, request: Request) -> Mapping[str, object]:
        """Do what is asked. Raises LookupError, ValueError or RuntimeError for what cannot be done."""
        match request:
            case StartBroker():
                return await self._start(request)
            case StopBroker():
                await anyio.sleep(self._serves_on_s)
                self.cluster(request.cluster).stop_broker(request.broker, cleanly=True)
                return {}
            case Forget():
                cluster = self._running.pop(request.cluster, None)
                if cluster is not None:
                    await cluster.stop()
                return {}
            case ReadMetadata():
                return await self._metadata(self.cluster(request.cluster), request.offset)
            case DescribeLog():
                return {"log": self._describe_log(request)}
            case ReadTransaction(transactional_id=name):
                _, shard = self._coordinator(self.cluster(request.cluster), name)
                entry = shard.machine.entry(name)
                if entry is None:
                    raise LookupError(f"the transactional id {name} is not known")
                return {"epoch": entry.producer_epoch}
            case SetEpoch(transactional_id=name):
                driver, shard = self._coordinator(self.cluster(request.cluster), name)
                driver.act(lambda: force_epoch(shard, name, request.epoch))
                return {}
            case CreateAcls():
                wanted = CreateAclsRequest(creations=request.acls)
                self._decide(request.cluster, lambda controller: controller.create_acls(wanted))
                return {}
            case DeleteAcls():
                meant = DeleteAclsRequest(filters=request.filters)
                self._decide(request.cluster, lambda controller: controller.delete_acls(meant))
                return {}
            case OpenController():
                return {"port": await self._open_controller(self.cluster(request.cluster))}
            case _:
                return look(self.cluster(request.cluster), request)

    async def stop(self) -> None:
        """End everything."""
        for cluster in self._running.values():
            await cluster.stop()

    def cluster(self, name: str) -> NamingCluster:
        """One that runs. Raises LookupError if it does not."""
        cluster = self._running.get(name)
        if cluster is None:
            raise LookupError(f"there is no cluster {name}")
        return cluster

    # ------------------------------------------------------------------ brokers

    async def _start(self, request: StartBroker) -> Mapping[str, object]:
        config, dropped = configuration(request, self._settings)
        for key, why in dropped.items():
            print(f"broker {request.broker} of {request.cluster}: {key} is dropped: {why}", file=self._log, flush=True)
        cluster = self._running.get(request.cluster)
        if cluster is not None and request.broker in cluster.drivers:
            cluster.config = config
            cluster.builders = _builders(request)
            cluster.start_broker(request.broker)
        else:
            await self._add(request, config)
            cluster = self._running[request.cluster]
        told = cluster.spec.broker(request.broker)
        ports = {endpoint.name: endpoint.port for endpoint in told.endpoints}
        return {"port": told.port, "ports": ports, "dropped": sorted(dropped)}

    async def _add(self, request: StartBroker, config: Config) -> None:
        ports = {each.name: Port("127.0.0.1", each.port) for each in request.listeners}
        endpoints = tuple(
            Endpoint(each.name, HOST, ports[each.name].address[1], SecurityProtocol[each.protocol])
            for each in request.listeners
        )
        spec = BrokerSpec(request.broker, HOST, endpoints[0].port, request.rack, endpoints)
        cluster = self._running.get(request.cluster)
        is_first = cluster is None
        if cluster is None:
            cluster = self._running[request.cluster] = NamingCluster(
                spec=ClusterSpec(request.cluster, controller_id=request.broker, brokers=(spec,)),
                config=config,
                log=make_logger(level="error"),
                random=Random(),
                events=None,
                loop=asyncio.get_running_loop(),
            )
        else:
            cluster.config = config
            cluster.spec.brokers = (*cluster.spec.brokers, spec)
        cluster.builders = _builders(request)
        cluster.encrypted = [each.name for each in request.listeners if SecurityProtocol[each.protocol].uses_tls]
        driver = cluster.drivers[request.broker] = cluster.drive(cluster.make_node(request.broker))
        driver.step(Started())
        if is_first and request.credentials:
            records = [UserScramCredentialRecord(**msgspec.structs.asdict(each)) for each in request.credentials]
            self._decide(request.cluster, lambda controller: controller.put_records("Users", records))
        if not is_first:
            controller = cluster.controller
            controller.act(lambda: controller.node.controller.admit(spec))
        cluster.ports[request.broker] = dict(ports)
        for name, port in ports.items():
            await cluster.listen(request.broker, port, name)

    async def _open_controller(self, cluster: NamingCluster) -> int:
        """It listens at the broker that it lives in; the port."""
        broker = cluster.spec.controller_id
        port = cluster.ports[broker].get(CONTROLLER)
        if port is None:
            port = cluster.ports[broker][CONTROLLER] = Port("127.0.0.1", 0)
            await cluster.listen(broker, port, CONTROLLER)
        return port.address[1]

    def _decide(self, cluster: str, decide: Callable[[Controller], Decision[Any]]) -> None:
        """Have the controller decide, and write what follows from it."""
        driver = self.cluster(cluster).controller
        active = driver.node.controller.active
        assert active is not None, "somebody is active"
        shard = active

        def carry_out() -> None:
            with contextlib.suppress(StopIteration):
                shard.carry_out(decide(shard.machine)).send(None)
                raise AssertionError("the controller's own decisions do not park")

        driver.act(carry_out)

    # ------------------------------------------------------------------ what is in them

    async def _metadata(self, cluster: RunningCluster, offset: int) -> Mapping[str, object]:
        log = cluster.store.open(METADATA_TOPIC_ID, 0, METADATA_CONFIG)
        # A test goes on when it sees a change, so it must not see one that some broker has not heard of.
        for _ in range(TURNS_MAX):
            running = [each.node.image.offset for each in cluster.drivers.values() if not each.stopped]
            if min(running, default=log.end_offset) >= log.end_offset - 1:
                break
            await asyncio.sleep(0)
        batches = b"".join(bytes(batch.view) for batch in log.batches(offset))
        return {"batches": base64.b64encode(batches).decode(), "end": log.end_offset}

    def _describe_log(self, request: DescribeLog) -> Mapping[str, object] | None:
        cluster = self.cluster(request.cluster)
        for driver in cluster.drivers.values():
            partition = driver.node.partitions.get((request.topic, request.partition))
            if partition is not None and not driver.stopped:
                return describe(partition)
        return None

    def _coordinator(self, cluster: RunningCluster, transactional_id: str) -> tuple[Driver, TransactionShard]:
        for driver in cluster.drivers.values():
            shard = driver.node.transaction_coordinators.of(transactional_id)
            if not driver.stopped and not isinstance(shard, Refused):
                return driver, shard
        raise LookupError(f"no broker has loaded the coordinator of {transactional_id}")


def _builders(request: StartBroker) -> Mapping[str, Builder]:
    return {each.name: each.builder for each in request.listeners if each.builder is not None}


def configuration(request: StartBroker, settings: Mapping[str, str]) -> tuple[Config, dict[str, str]]:
    """What a broker is told, and what of it Odradek cannot take, with the reason."""
    given = AS_THE_TESTS_EXPECT | dict(settings) | request.config
    given |= {f"odradek.{name}": str(level) for name, level in request.features.items() if name in FEATURES}
    dropped: dict[str, str] = {}
    deciding = {key: given[key] for key in WHAT_LEVELS_THERE_ARE if key in given}
    for key in list(given):
        try:
            Config.parse({key: given[key]} | deciding)
        except ConfigError as error:
            dropped[key] = str(error)
            del given[key]
    return Config.parse(given), dropped


def describe(partition: Partition) -> Mapping[str, object]:
    """What a replica of it can be asked for."""
    return {
        "start": partition.log_start_offset,
        "end": partition.log_end_offset,
        "highWatermark": partition.high_watermark,
        "stable": partition.last_stable_offset,
        "epoch": partition.leader_epoch,
        "size": partition.size_bytes,
        "producers": [
            {
                "id": each.producer_id,
                "epoch": each.producer_epoch,
                "sequence": each.last_sequence,
                "timestamp": each.last_timestamp,
                "coordinatorEpoch": each.coordinator_epoch,
                "openSince": each.current_txn_start_offset,
            }
            for each in partition.describe_producers()
        ],
    }


async def serve() -> None:
    clusters = Clusters(sys.stderr, dict(each.split("=", 1) for each in sys.argv[1:]))

    async def answer_lines(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                try:
                    answer = await clusters.answer(msgspec.json.decode(line, type=Request))
                except Exception as error:  # a test asked for what cannot be; it is told, and the next one goes on
                    answer = {"error": f"{type(error).__name__}: {error}"}
                writer.write(msgspec.json.encode(answer) + b"\n")
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer_lines, "127.0.0.1", 0, limit=2**24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
    server.close()
    await clusters.stop()


if __name__ == "__main__":
    anyio.run(serve, backend_options=loop_options())
