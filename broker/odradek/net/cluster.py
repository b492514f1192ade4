"""A cluster in one process: its listeners, its nodes, and the logs they share."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from random import Random
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from odradek.access.listeners import Listener, ListenersError, read_listeners
from odradek.access.principal import RulesError
from odradek.broker import EventSink, Logger, Node
from odradek.cli.extras import need
from odradek.cli.usage import UsageError
from odradek.config.addresses import bracketed, reachable
from odradek.core.wording import counted
from odradek.host.cluster_spec import BrokerSpec, ClusterSpec, Endpoint, node_ids_of, racks_of
from odradek.host.events import MetadataAdvanced, Stopping
from odradek.log.disk import DiskError
from odradek.log.log_store import LogStore
from odradek.metadata import membership
from odradek.metadata.controller_role import ControllerRole, StartRefused, StartTopic
from odradek.metadata.image import NO_LEADER
from odradek.net.changes import Changes
from odradek.net.driver import Driver
from odradek.net.keys import with_keys
from odradek.net.outside import GO_ON, START, Outside, deed
from odradek.net.ports import BACKLOG, ListenError, Port
from odradek.net.post import Post
from odradek.releases.table import RELEASES
from odradek.wire.errors import ErrorCode
from odradek.wire.primitives import uuid_text

if TYPE_CHECKING:
    from pathlib import Path

    from odradek.config.table import Config
    from odradek.faults.rule_set import RuleSet
    from odradek.metadata.image import MetadataImage, PartitionImage
    from odradek.net.beginning import Began, Piece
    from odradek.net.cluster_dir import ClusterDir
    from odradek.net.fork_dir import SnapshotFiles
    from odradek.net.listener_tls import ListenerTls
    from odradek.net.recording import Record
    from odradek.net.snapshot import ClusterSnapshot

__all__ = ["RunningCluster", "listen_everywhere", "start_cluster"]

T = TypeVar("T")

PORT_MAX = 65_535
HANDSHAKE_TIMEOUT_S = 10.0
"""A connection whose TLS handshake takes longer is closed."""
SHUTDOWN_TIMEOUT_S = 1.0
"""The time that the end of an encrypted connection waits for the other side to agree."""
GOODBYE_S = 0.25
"""The same when the whole cluster ends."""
LOOK_S = 0.001
ID_BYTES = 16


class RunningCluster:
    """The nodes of a cluster while they run."""

    def __init__(
        self,
        *,
        spec: ClusterSpec,
        config: Config,
        log: Logger,
        random: Random,
        events: EventSink | None,
        loop: asyncio.AbstractEventLoop,
        seed: int = 0,
        outside: Outside | None = None,
        data_dir: ClusterDir | None = None,
        store: LogStore | None = None,
    ) -> None:
        """`store` has the logs of a fork."""
        self.spec = spec
        self.config = config
        self.data_dir = data_dir
        """The directory with the log files; None: the logs are only in memory."""
        self.warnings: list[str] = []
        """Warnings about the data directory; more may come while the brokers run."""
        self.made_dir: Path | None = None
        """A directory that was made for this fork alone, and is removed with it."""
        if data_dir is not None:
            store = data_dir.store
        self.store = store or LogStore(bytes_max=config.odradek_log_memory_bytes_max)
        self.log = log
        self.random = random
        self.events = events
        self.loop = loop
        self.outside = outside or Outside(loop)
        self.clock = self.outside.clock
        self.post = Post(self.outside.calls)
        self.changes = Changes()
        """Notifies code that waits for a state of the brokers."""
        self.drivers: dict[int, Driver] = {}
        self.servers: dict[int, list[asyncio.Server]] = {}
        self.ports: dict[int, dict[str, Port]] = {}
        """The ports of each broker, by listener name; a stopped broker keeps them."""
        self.encrypted: list[str] = []
        """The names of the listeners with TLS."""
        self.certificates: dict[int, ListenerTls] = {}
        """The certificates that each broker presents on its TLS listeners."""
        self.seed = seed
        self._silent_until: dict[int, int] = {}
        """When the session of each node that is paused, or whose crash is not noticed yet, ends (ms)."""
        self._starting: list[asyncio.Task[None]] = []

    @property
    def bootstrap(self) -> str:
        """Where clients connect: the advertised addresses of all brokers, separated by commas."""
        return self.bootstrap_of(None)

    def bootstrap_of(self, listener: str | None) -> str:
        """The addresses of one listener for clients; of the first if none is named. Raises LookupError."""
        told = []
        for broker in self.spec.brokers:
            found = [each for each in broker.endpoints if listener in (None, each.name)]
            if not found and listener is not None:
                names = ", ".join(each.name for each in broker.endpoints)
                raise LookupError(f"there is no listener {listener}: the listeners are {names}")
            host, port = (found[0].host, found[0].port) if found else (broker.host, broker.port)
            told.append(f"{bracketed(host)}:{port}")
        return ",".join(told)

    def node(self, node_id: int) -> Node:
        return self.drivers[node_id].node

    @property
    def controller(self) -> Driver:
        """The node that writes the metadata log."""
        return self.drivers[self.spec.controller_id]

    @cached_property
    def rules(self) -> RuleSet:
        """The rules that apply to requests; imported by the first rule."""
        from odradek.faults.rule_set import RuleSet

        nodes = partial(map, _node_of, self.drivers.values())
        return RuleSet(nodes=nodes, act=self._act_on, seed=self.seed, changed=self.changes.tell)

    @property
    def has_rules(self) -> bool:
        """Whether there has been any rule."""
        return "rules" in vars(self)

    async def stop(self, *, holds_ports: bool = False) -> None:
        """End every node: parked requests end, connections close, waits for a state end.

        The ports are free then, unless they are held for the next cluster (`start_cluster(ports=…)`).
        """
        await asyncio.gather(*self._starting)
        ended = self._running
        if self.data_dir is not None and self.made_dir is None:
            self.shut_down()
        self.halt_all(holds_ports=holds_ports)
        self.outside.end()
        if not holds_ports:
            self.give_up_ports()
        self.changes.end()
        await self._connections_end()
        if self.data_dir is not None:
            self.data_dir.close({node_id: self._epoch_of(node_id) for node_id in ended})
        if self.made_dir is not None:
            from shutil import rmtree  # few clusters have such a directory

            rmtree(self.made_dir, ignore_errors=True)

    @deed
    def shut_down(self) -> None:
        """Fence the brokers as after a controlled shutdown: the next process with the directory need not wait."""
        with suppress(DiskError):  # it is in the log
            for node_id in self._running:
                self._act(self.spec.controller_id, lambda controller, node_id=node_id: controller.fence(node_id))  # type: ignore[misc]

    def resume_data(self) -> None:
        """Start with the content of the directory: the broker is registered again, unless the cluster is new."""
        assert self.data_dir is not None, "the logs are in a directory"
        self.data_dir.check()
        if not self.data_dir.was_new:
            self.spec.cleanly = self.data_dir.cleanly
            self.data_dir.go_back(self.controller.node.image)
            for node_id in self._running:
                membership.let_in(self.spec, node_id, self._running, self._act)
            # The directory of one broker of several knows others, which were killed with it.
            for node_id in self.controller.node.image.brokers.keys() - self.drivers.keys():
                self._act(self.spec.controller_id, lambda controller, node_id=node_id: controller.fence(node_id))  # type: ignore[misc]
            self.decide(lambda controller: controller.create_topics_at_start())
        self.data_dir.started(self.nodes_running, self.outside.calls)

    def nodes_running(self) -> dict[int, Node]:
        return {node_id: self.drivers[node_id].node for node_id in self._heard}

    def _epoch_of(self, node_id: int) -> int:
        broker = self.controller.node.image.brokers.get(node_id)
        return -1 if broker is None else broker.epoch

    def snapshot(self, directory: Path | None = None) -> ClusterSnapshot:
        """The cluster as it is now, for forks; to be taken in its event loop.

        With `directory` it is written there, where the logs of the cluster are files. Raises `UsageError` where it
        cannot be.
        """
        from odradek.net.snapshot import ClusterSnapshot  # most clusters are never forked

        taken_at_ms, is_frozen = self.clock.now(), self.clock.frozen
        gone = frozenset(node_id for node_id, driver in self.drivers.items() if driver.stopped)
        if directory is not None:
            if self.data_dir is None:
                raise UsageError("A snapshot of a cluster without a data directory is kept in memory, not in a folder.")
            from odradek.net.snapshot_dir import write_directory

            write_directory(
                directory,
                self.data_dir,
                self.config,
                taken_at_ms=taken_at_ms,
                is_frozen=is_frozen,
                controller_id=self.spec.controller_id,
                cleanly=self.spec.cleanly,
                gone=gone,
            )
        return ClusterSnapshot(
            config=self.config,
            cluster_id=self.spec.cluster_id,
            node_ids=tuple(broker.node_id for broker in self.spec.brokers),
            controller_id=self.spec.controller_id,
            taken_at_ms=taken_at_ms,
            is_frozen=is_frozen,
            cleanly=self.spec.cleanly,
            gone=gone,
            image=max((each.node.controller.image for each in self.drivers.values()), key=_offset_of),
            store=self.store.fork() if directory is None else None,
            directory=directory,
        )

    def resume_snapshot(self, snapshot: ClusterSnapshot) -> None:
        """Go on from a snapshot: every broker starts, those that were not in service then are now."""
        self._go_on(snapshot)
        if self.data_dir is not None:
            self.data_dir.started(self.nodes_running, self.outside.calls)

    def _go_on(self, snapshot: ClusterSnapshot) -> None:
        # The clients of a test have the machine's time, which the fork's may be an hour behind.
        self.store.clients_ahead_ms = max(0, -self.clock.ahead_ms)
        for node_id, driver in self.drivers.items():
            controller = driver.node.controller
            controller.is_fork, controller.image_at_start = True, snapshot.image
            if node_id == self.spec.controller_id:
                driver.start()
        if snapshot.image is None:
            snapshot.image = self.controller.node.controller.image_found
        for node_id, driver in self.drivers.items():
            if node_id != self.spec.controller_id:
                # What the controller has folded just now is the same for all.
                driver.node.controller.image_at_start = self.controller.node.image
                driver.start()
        for node_id in self.drivers:
            broker = self.controller.node.image.brokers.get(node_id)
            if node_id in snapshot.gone or broker is None or broker.fenced:
                membership.let_in(self.spec, node_id, self._running, self._act)
        if self.controller.node.controller.topics_at_start:
            self.decide(lambda controller: controller.create_topics_at_start())
        self._show_all()

    def give_up_ports(self) -> None:
        """Release the ports of stopped brokers."""
        for ports in self.ports.values():
            for port in ports.values():
                port.give_up()

    @deed
    def halt_all(self, *, holds_ports: bool = False) -> None:
        """End every node that runs: parked requests end, connections close."""
        for node_id in self._running:
            self._halt(node_id, holds_ports=holds_ports)

    async def _connections_end(self) -> None:
        """Wait for connections to end. Without TLS one turn is enough; a TLS peer that does not agree is cut off.

        A handshake that has begun is waited for, because it cannot be ended from here.
        """
        await asyncio.sleep(0)
        ends = self.loop.time() + GOODBYE_S
        # The end of a connection is reported only to its driver.
        while self._has_clients and self.loop.time() < ends:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        for driver in self.drivers.values():
            driver.cut_off_clients()
        await asyncio.sleep(LOOK_S if self._has_clients else 0)

    @property
    def _has_clients(self) -> bool:
        return any(driver.has_clients or driver.has_arriving for driver in self.drivers.values())

    def stop_broker(self, node_id: int, *, cleanly: bool = False, fence_after_ms: int = 0) -> None:
        """End one node: others take over the partitions that it led and, if it was the controller, that role.

        If not `cleanly`, it crashes: when it comes back, its data is not trusted. With `fence_after_ms` the crash is
        noticed only after this time: until then the broker refuses connections while clients are still directed to it.
        Calling this for a stopped node changes nothing. Raises ValueError for a clean shutdown with `fence_after_ms`.
        """
        if fence_after_ms < 0:
            raise ValueError(f"a broker is fenced 0 ms or more after its crash, not {fence_after_ms}")
        if cleanly and fence_after_ms:
            raise ValueError("a broker that is shut down cleanly says so: only a crash is noticed later")
        if self.drivers[node_id].stopped:
            return
        self._halt(node_id)
        self.store.absent(node_id)
        self._silent_until.pop(node_id, None)
        self._set_unheard(self.spec.unheard - {node_id})
        others = self._heard or self._running
        if fence_after_ms and others:
            self._miss(node_id, others, fence_after_ms)
        else:
            membership.see_off(self.spec, node_id, others, self._act, cleanly=cleanly)
        self._show_all()
        if cleanly and self.data_dir is not None:
            self.data_dir.stop(node_id, broker_epoch=self._epoch_of(node_id))

    def _miss(self, node_id: int, others: Collection[int], fence_after_ms: int) -> None:
        """A node has crashed and its session goes on; only the controller role moves at once, as in a quorum."""
        self.spec.cleanly -= {node_id}
        self._set_unheard(self.spec.unheard | {node_id})
        self._silent_until[node_id] = self.clock.now() + fence_after_ms
        membership.succeed(self.spec, others, self._act)
        self._watch()

    def start_broker(self, node_id: int) -> None:
        """Start a stopped node again at the same address; it replays the logs of the partitions it leads."""
        assert self.drivers[node_id].stopped, f"broker {node_id} runs"
        _listen_again(self.ports[node_id].values())
        self._silent_until.pop(node_id, None)
        self.spec.unheard -= {node_id}
        membership.choose_controller(self.spec, node_id, self._running)
        if self.data_dir is not None:
            self.data_dir.resume(node_id)
        self.store.back(node_id)
        node = self.make_node(node_id)
        node.inherit(self.drivers[node_id].node)
        driver = self.drivers[node_id] = self.drive(node)
        driver.start()
        membership.let_in(self.spec, node_id, self._running, self._act)
        self._show_all()
        self._watch()
        self._starting = [task for task in self._starting if not task.done()]
        if self.outside.has_sockets:
            for name, port in self.ports[node_id].items():
                self._starting.append(self.loop.create_task(self._serve(driver, port.socket, name)))

    @deed
    def advertise(self, node_id: int, *, port: int, host: str | None = None, listener: str | None = None) -> None:
        """Change the advertised address of a broker's listener; the broker still listens at its old address.

        Without a host it is the last advertised host; without a listener the first one. Raises LookupError for an
        unknown listener, ValueError for an invalid port or host.
        """
        if not 0 < port <= PORT_MAX:
            raise ValueError(f"a port is a number from 1 to {PORT_MAX}, not {port}")
        if host is not None:
            from odradek.config.addresses import check_told_host  # few clusters change an advertised address

            check_told_host(host)
        before = self.spec.broker(node_id)
        names = [each.name for each in before.endpoints]
        wanted = names[0] if listener is None else listener
        if wanted not in names:
            raise LookupError(f"there is no listener {wanted}: the listeners are {', '.join(names)}")
        told = tuple(
            replace(each, host=host or each.host, port=port) if each.name == wanted else each
            for each in before.endpoints
        )
        after = replace(before, host=told[0].host, port=told[0].port, endpoints=told)
        self.spec.brokers = tuple(after if each.node_id == node_id else each for each in self.spec.brokers)
        if node_id in self._running:
            self.decide(lambda controller: _told(controller.change_addresses(after)))

    def reload_certificates(self) -> None:
        """Read the keys and certificates of every listener again, for new connections. Raises `TlsError`."""
        for node_id, certificates in self.certificates.items():
            certificates.reload(self.node(node_id).config)

    def pause_broker(self, node_id: int) -> None:
        """Pause one node: its connections stay open and accept nothing, its clock goes on.

        After `broker.session.timeout.ms` it is fenced: other brokers lead its partitions and take over the controller
        role.
        """
        if self.drivers[node_id].paused:
            return
        self.drivers[node_id].pause()
        self.store.absent(node_id)
        self._set_unheard(self.spec.unheard | {node_id})
        self._silent_until[node_id] = self.clock.now() + self.config.broker_session_timeout_ms
        self._watch()

    def resume_broker(self, node_id: int) -> None:
        """Resume a paused node; waiting input comes first. If it was fenced, it is unfenced."""
        self._silent_until.pop(node_id, None)
        self.store.back(node_id)
        self.drivers[node_id].resume()
        self._set_unheard(self.spec.unheard - {node_id})
        if self.spec.controller_id in self._heard:
            membership.hear_from(self.spec, [node_id], self._act)
        self._watch()

    def _watch(self) -> None:
        """Fence nodes whose session has ended. Any running broker can do it; the result is the same."""
        for node_id in self._heard:
            for silent, until in self._silent_until.items():
                over = partial(self.post.send, self._session_over, silent)
                timers = self.drivers[node_id].node.timers
                self._act_on(node_id, partial(timers.set, ("session", silent), until, over))

    def _session_over(self, node_id: int) -> None:
        heard, until = self._heard, self._silent_until.get(node_id)
        if until is not None and until <= self.clock.now() and heard:
            if self.drivers[node_id].stopped:
                del self._silent_until[node_id]
                self._set_unheard(self.spec.unheard - {node_id})
            membership.see_off(self.spec, node_id, heard, self._act)
            membership.hear_from(self.spec, heard, self._act)

    def _set_unheard(self, unheard: frozenset[int]) -> None:
        """Inform the leaders about replicas that acknowledge nothing."""
        if unheard == self.spec.unheard:
            return
        self.spec.unheard = unheard
        for driver in self.drivers.values():
            if not driver.stopped and not driver.paused:
                driver.act(driver.node.replicas.replication.adopt_all)

    @deed
    def advance(self, milliseconds: int) -> None:
        """Let this much time pass for every broker: everything due by then happens in order before this returns.

        Raises ValueError below 0, and for a time beyond 64 bits.
        """
        from odradek.net.passing import pass_time  # few starts need it

        pass_time(self.clock, list(self.drivers.values()), self.post, milliseconds)

    @deed
    def freeze(self) -> None:
        """Stop the brokers' clock; `advance` still moves it."""
        self.clock.freeze()
        self._time_changed()

    @deed
    def resume(self) -> None:
        """Start the brokers' clock again at the time where it stopped."""
        self.clock.resume()
        self._time_changed()

    def _time_changed(self) -> None:
        for driver in self.drivers.values():
            driver.time_changed()

    @property
    def _running(self) -> list[int]:
        return [node_id for node_id, driver in self.drivers.items() if not driver.stopped]

    @property
    def _heard(self) -> list[int]:
        """The drivers of brokers that run and are not paused."""
        return [node_id for node_id in self._running if not self.drivers[node_id].paused]

    @property
    def heard(self) -> list[int]:
        """The brokers that run and are not paused."""
        return sorted(self._heard)

    def leads(self, partition: PartitionImage) -> int:
        """The leader of a partition; -1 if there is none, or a stopped broker that could not be fenced."""
        driver = self.drivers.get(partition.leader)
        return NO_LEADER if driver is None or driver.stopped else partition.leader

    def decide(self, act: Callable[[ControllerRole], T]) -> T:
        """Run an action of an operator on the controller; running brokers know its outcome when this returns.

        A test may then let a client ask any broker at once. Raises RuntimeError if no broker runs, so that there is no
        controller.
        """
        if self.controller.stopped:
            raise RuntimeError("no broker runs, and so there is no controller: start one first")
        outcome = self._act(self.spec.controller_id, act)
        self._show_all()
        return outcome

    def _show_all(self) -> None:
        """Deliver the committed metadata to every running broker."""
        decided = MetadataAdvanced(self.controller.node.image.offset)
        for node_id in self._heard:
            if node_id != self.spec.controller_id:
                self.drivers[node_id].step(decided)

    def _act(self, node_id: int, act: Callable[[ControllerRole], T]) -> T:
        driver = self.drivers[node_id]
        return driver.act(lambda: act(driver.node.controller))

    def _act_on(self, node_id: int, act: Callable[[], None]) -> None:
        driver = self.drivers[node_id]
        if not driver.stopped:
            driver.act(act)

    def _halt(self, node_id: int, *, holds_ports: bool = True) -> None:
        for port in self.ports.get(node_id, {}).values() if holds_ports else ():
            port.hold()
        for server in self.servers.pop(node_id, ()):
            server.close()
        driver = self.drivers[node_id]
        if not driver.stopped:
            driver.step(Stopping())
            driver.stop()

    async def listen(self, node_id: int, port: Port, listener: str = "") -> None:
        """Accept connections of clients for a node, over one of its listeners."""
        await self._serve(self.drivers[node_id], port.socket, listener)

    async def _serve(self, driver: Driver, bound: socket.socket, listener: str) -> None:
        if driver.stopped:  # stopped before this ran
            bound.close()
            return
        node_id = driver.node.node_id
        client = partial(self.outside.client, driver, node_id, listener)
        backlog = max(BACKLOG, self.config.socket_listen_backlog_size)
        certificates = self.certificates.get(node_id)
        context = None if certificates is None else certificates.contexts.get(listener)
        server = await self.loop.create_server(
            client if context is None else lambda: driver.await_client(client()),
            sock=bound,
            backlog=backlog,
            ssl=context,
            ssl_handshake_timeout=None if context is None else HANDSHAKE_TIMEOUT_S,
            ssl_shutdown_timeout=None if context is None else SHUTDOWN_TIMEOUT_S,
        )
        if driver.stopped:  # stopped meanwhile
            server.close()
        else:
            self.servers.setdefault(node_id, []).append(server)

    def make_node(self, node_id: int) -> Node:
        """A node of this cluster, not started yet. Raises `TlsError`."""
        node = Node(
            node_id=node_id,
            config=self.config.in_rack(self.spec.broker(node_id).rack),
            store=self.store,
            cluster=self.spec,
            random=Random(self.random.getrandbits(64)),
            log=self.log,
            now=self.clock.now(),
            events=self.events,
            calls_itself=True,
            secrets=self.outside.secrets,
        )
        if self.encrypted and self.outside.has_sockets:
            from odradek.net.listener_tls import ListenerTls  # most clusters have no TLS listeners

            node.certificates = self.certificates[node_id] = ListenerTls(self.encrypted, self.config, self.log)
        return node

    def drive(self, node: Node) -> Driver:
        """A driver for a node of this cluster."""
        return Driver(
            node,
            peers=self.drivers,
            clock=self.clock,
            post=self.post,
            loop=self.outside.calls,
            changes=self.changes,
            watch=self.outside.watch(),
        )


def _told(error: ErrorCode) -> None:
    assert error is ErrorCode.NONE, f"a broker that runs is registered: {error.name}"


def _offset_of(image: MetadataImage) -> int:
    return image.offset


def _node_of(driver: Driver) -> Node:
    return driver.node


async def start_cluster(
    *,
    config: Config,
    log: Logger,
    brokers: int | None = None,
    node_ids: Sequence[int] | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    ports: Mapping[int, Mapping[str, Port]] | None = None,
    advertised_host: str | None = None,
    advertised_port: int | None = None,
    topics: Sequence[StartTopic] = (),
    seed: int | None = None,
    cluster_id: str | None = None,
    events: EventSink | None = None,
    data_dir: Path | None = None,
    snapshot: ClusterSnapshot | None = None,
    before_start: Callable[[RunningCluster], object] | None = None,
    sync: bool = False,
    record: Record | None = None,
    outside: Outside | None = None,
) -> RunningCluster:
    """Bind the listeners and start the nodes.

    The brokers have these ids, or are numbered from 1; the first listens on `port`, the others on those that follow, or
    each on any free one where `port` is 0; or they listen on the `ports` of a cluster that was stopped and held them.
    With `snapshot` the cluster goes on from it, with its brokers; `config` is then that of the snapshot, or more.
    `before_start` is called before the brokers take up their duties.
    With `data_dir` the logs are files there, and what an earlier process has left is gone on with. With
    `sync` everything is on the device before it is acknowledged.
    With `record` everything that comes in is kept in a file; with an `outside` it comes from there.
    Raises `ListenError` where an address cannot be bound, `ValueError` for ids and racks that no cluster can have, and
    `UsageError` where the directory cannot be used, or the recording cannot be made.
    """
    if config.odradek_telemetry:
        need("opentelemetry.proto", extra="telemetry")
    if sync and data_dir is None:
        raise UsageError("Nothing can be on disk before it is acknowledged without a data directory.")
    if data_dir is not None and not config.release.tells_features:
        others = ", ".join(name for name, each in RELEASES.items() if each.tells_features)
        raise UsageError(
            f"Kafka {config.release.name} kept its metadata in ZooKeeper, so a data directory has to be of another"
            f" release: {others}."
        )
    loop, opened_dir = asyncio.get_running_loop(), None
    if record is not None:
        from odradek.net.apart import check_apart
        from odradek.net.beginning import metadata_at_start
        from odradek.net.recording import Recording, head_of, new_seed  # most clusters are not recorded

        check_apart(record.path, data_dir=data_dir)
        seed = new_seed() if seed is None else seed
        outside = recording = Recording(loop, record, log)
        if snapshot is not None or data_dir is not None:
            recording.keep_beginning(partial(_beginning, snapshot, data_dir))
        if snapshot is not None:
            snapshot = snapshot.for_recording()
    outside = outside or Outside(loop)
    made_dir: Path | None = None
    made_of: Mapping[str, SnapshotFiles] = {}
    asked_id = cluster_id
    bound: list[Mapping[str, Port]] = []
    warned: list[str] = []
    try:
        if snapshot is not None:
            node_ids = snapshot.node_ids
            outside.clock = snapshot.clock(outside.machine)
            if snapshot.directory is not None:
                from odradek.net.apart import check_apart
                from odradek.net.fork_dir import fork_directory, place_for_fork

                if data_dir is None:
                    data_dir = made_dir = place_for_fork(snapshot.directory)
                else:
                    check_apart(data_dir)
                made_of = snapshot.files
                fork_directory(snapshot.directory, made_of, data_dir, late=made_dir is not None)
        random = Random(seed)
        if data_dir is not None:
            if sys.platform == "win32":
                raise UsageError("A data directory needs locks and mapped files of POSIX, which Windows does not have.")
            from odradek.net.cluster_dir import ClusterDir  # most clusters have none
            from odradek.net.kept_warnings import KeptWarnings

            opened_dir = ClusterDir(
                data_dir,
                node_ids=node_ids_of(brokers, node_ids) if brokers is not None or node_ids is not None else None,
                cluster_id=cluster_id,
                log=KeptWarnings(log, warned),
                new_cluster_id=partial(_cluster_id, random),
                syncs=sync,
                names_directories=config.release.names_directories,
                made_of=made_of,
                goes_with_cluster=made_dir is not None,
                outside=outside,
                new_id=partial(random.randbytes, ID_BYTES),
            )
            brokers, node_ids, cluster_id = None, opened_dir.node_ids, opened_dir.cluster_id
        elif snapshot is not None:
            cluster_id = snapshot.cluster_id
        ids = node_ids_of(brokers, node_ids)
        racks = racks_of(config.broker_rack, ids)
        if port + len(ids) - 1 > PORT_MAX and not ports:
            raise ListenError(
                f"Port {port} is out of range for {counted(len(ids), 'broker')}: ports end at {PORT_MAX}."
            )
        config = with_keys(config.for_brokers(len(ids)))
        listeners = _listeners(config, host, port, advertised_host, advertised_port)
        for index in range(len(ids)):
            if ports is not None:
                _listen_again(ports[ids[index]].values())
                bound.append(ports[ids[index]])
                continue
            wanted = {each.name: (each.host, _nth(each.port, index, len(listeners))) for each in listeners}
            bound.append(_open_all(wanted))
        spec = ClusterSpec(
            cluster_id=cluster_id or _cluster_id(random),
            controller_id=ids[0] if snapshot is None else snapshot.controller_id,
            cleanly=frozenset() if snapshot is None else snapshot.cleanly,
            brokers=tuple(
                _broker(node_id, racks.get(node_id), listeners, bound[index], index)
                for index, node_id in enumerate(ids)
            ),
        )
        cluster = RunningCluster(
            spec=spec,
            config=config,
            log=log,
            random=random,
            events=events,
            loop=loop,
            seed=random.getrandbits(64) if seed is None else seed,
            outside=outside,
            data_dir=opened_dir,
            store=None
            if snapshot is None or opened_dir is not None
            else snapshot.store(bytes_max=config.odradek_log_memory_bytes_max),
        )
        cluster.made_dir = made_dir
        cluster.warnings = warned
        cluster.encrypted = [each.name for each in listeners if each.protocol.uses_tls]
        cluster.ports = {broker.node_id: dict(opened) for broker, opened in zip(spec.brokers, bound, strict=True)}
        if record is not None:
            head = head_of(
                config,
                listeners,
                cluster.ports,
                host=host,
                port=port,
                advertised_host=advertised_host,
                advertised_port=advertised_port,
                topics=topics,
                seed=cluster.seed,
                cluster_id=asked_id,
                began=_began(snapshot, opened_dir),
            )
            recording.begin(head, metadata_at_start(cluster.store))
        outside.attend(cluster)
        outside.does(START, partial(_start_nodes, cluster, topics, starts=snapshot is None), dict)
        if snapshot is not None:
            if before_start is not None:
                before_start(cluster)
            outside.does(GO_ON, partial(cluster.resume_snapshot, snapshot), dict)
    except BaseException as refused:
        for opened in bound:
            for each in opened.values():
                each.close()
        if opened_dir is not None:
            opened_dir.abandon()
        outside.abandon()
        if made_dir is not None:
            from shutil import rmtree

            rmtree(made_dir, ignore_errors=True)
        if isinstance(refused, DiskError):
            raise UsageError(f"The data directory {data_dir} cannot be used: {refused}.") from None
        from odradek.access.mechanisms import LoginsRefused  # a start that succeeds does not need it

        if not isinstance(refused, StartRefused | RulesError | LoginsRefused):
            raise
        raise UsageError(str(refused)) from refused
    if outside.has_sockets:
        await listen_everywhere(cluster)
    if opened_dir is not None:
        opened_dir.serves()
    return cluster


def _start_nodes(cluster: RunningCluster, topics: Sequence[StartTopic], *, starts: bool) -> None:
    """Make the nodes, and start them."""
    for broker in cluster.spec.brokers:
        node = cluster.make_node(broker.node_id)
        cluster.drivers[broker.node_id] = cluster.drive(node)
    cluster.controller.node.controller.topics_at_start = tuple(topics)
    if not starts:
        return
    for driver in cluster.drivers.values():
        driver.start()
    if cluster.data_dir is not None:
        cluster.resume_data()


def _began(snapshot: ClusterSnapshot | None, opened_dir: ClusterDir | None) -> Began | None:
    """What a recording says of its beginning; None: the cluster is empty, and in memory."""
    directory = None if opened_dir is None else os.path.abspath(opened_dir.path)
    if snapshot is not None:
        return snapshot.began(directory)
    if directory is None:
        return None
    from odradek.net.beginning import Began  # most clusters are not recorded

    return Began(directory=directory)


def _beginning(snapshot: ClusterSnapshot | None, data_dir: Path | None) -> list[Piece]:
    """The state of a cluster before its start, for its recording. Raises `UsageError`."""
    from odradek.net.beginning import pieces_of_folder  # most clusters are not recorded

    if snapshot is not None:
        return snapshot.pieces
    assert data_dir is not None, "a cluster begins with a snapshot or with a directory"
    return pieces_of_folder(data_dir)


async def listen_everywhere(cluster: RunningCluster) -> None:
    """Accept connections on every listener; on none if that fails or is cancelled."""

    async def listen() -> None:
        for node_id, opened in cluster.ports.items():
            for name, each in opened.items():
                await cluster.listen(node_id, each, name)

    listening = asyncio.ensure_future(listen())
    try:
        # A server that is cancelled while it starts would go on listening, and nothing would close it.
        await asyncio.shield(listening)
    except BaseException:
        await asyncio.wait({listening})
        await cluster.stop()
        raise


def _listeners(
    config: Config, host: str, port: int, advertised_host: str | None, advertised_port: int | None
) -> tuple[Listener, ...]:
    try:
        return read_listeners(
            config, host=host, port=port, advertised_host=advertised_host, advertised_port=advertised_port
        )
    except ListenersError as error:
        raise ListenError(str(error)) from None


def _broker(
    node_id: int, rack: str | None, listeners: Sequence[Listener], bound: Mapping[str, Port], index: int
) -> BrokerSpec:
    endpoints = tuple(
        Endpoint(
            name=each.name,
            host=each.advertised_host or reachable(each.host),
            port=_nth(each.advertised_port, index, len(listeners)) or bound[each.name].address[1],
            security_protocol=each.protocol,
        )
        for each in listeners
    )
    return BrokerSpec(node_id, endpoints[0].host, endpoints[0].port, rack, endpoints)


def _nth(port: int | None, index: int, listeners: int) -> int:
    """The port of a later broker: each broker has as many ports as there are listeners, from the first's on."""
    return port + index * listeners if port else 0


def _open_all(wanted: Mapping[str, tuple[str, int]]) -> dict[str, Port]:
    """A port for each listener, or none at all. Raises `ListenError`."""
    opened: dict[str, Port] = {}
    try:
        for name, address in wanted.items():
            opened[name] = Port(*address)
    except ListenError:
        for port in opened.values():
            port.close()
        raise
    return opened


def _listen_again(ports: Iterable[Port]) -> None:
    """Listen on all of them, or on none. Raises `ListenError`."""
    listening: list[Port] = []
    try:
        for port in ports:
            port.listen()
            listening.append(port)
    except ListenError:
        for port in listening:
            with port.socket:
                port.hold()
        raise


def _cluster_id(random: Random) -> str:
    return uuid_text(random.randbytes(16))
