"""A cluster in one process: its listeners, its nodes, and the logs they share."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from random import Random, SystemRandom
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from odradek.access.listener_logins import LoginsRefused
from odradek.access.listeners import Listener, ListenersError, read_listeners
from odradek.access.principal import RulesError
from odradek.broker import EventSink, Logger, Node
from odradek.cli.extras import need
from odradek.cli.usage import UsageError
from odradek.config.addresses import bracketed, reachable
from odradek.core.wording import counted
from odradek.host.cluster_spec import BrokerSpec, ClusterSpec, Endpoint, node_ids_of, racks_of
from odradek.host.events import MetadataAdvanced, Stopping
from odradek.log.log_store import LogStore
from odradek.metadata import membership
from odradek.metadata.controller_role import ControllerRole, StartRefused, StartTopic
from odradek.metadata.image import NO_LEADER
from odradek.net.changes import Changes
from odradek.net.clock import Clock
from odradek.net.driver import Driver
from odradek.net.keys import with_keys
from odradek.net.passing import pass_time
from odradek.net.ports import BACKLOG, ListenError, Port
from odradek.net.post import Post
from odradek.net.protocol import ClientProtocol
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from pathlib import Path

    from odradek.config.table import Config
    from odradek.faults.rule_set import RuleSet
    from odradek.metadata.image import PartitionImage
    from odradek.net.data_dir import DataDir
    from odradek.net.listener_tls import ListenerTls

__all__ = ["RunningCluster", "start_cluster"]

T = TypeVar("T")

PORT_MAX = 65_535
HANDSHAKE_TIMEOUT_S = 10.0
"""Who has not ended its TLS handshake by then is hung up on."""
SHUTDOWN_TIMEOUT_S = 1.0
"""How long the end of an encrypted connection waits for the other side to agree."""
GOODBYE_S = 0.25
"""The same when the whole cluster ends."""
LOOK_S = 0.001


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
        clock: Clock | None = None,
        data_dir: DataDir | None = None,
    ) -> None:
        self.spec = spec
        self.config = config
        self.data_dir = data_dir
        """Where the logs are files; None: they are in memory alone."""
        self.store = LogStore(bytes_max=config.odradek_log_memory_bytes_max) if data_dir is None else data_dir.store
        self.log = log
        self.random = random
        self.events = events
        self.loop = loop
        self.clock = clock or Clock()
        self.post = Post(loop)
        self.changes = Changes()
        """Tells those who wait for state when to look."""
        self.drivers: dict[int, Driver] = {}
        self.servers: dict[int, list[asyncio.Server]] = {}
        self.ports: dict[int, dict[str, Port]] = {}
        """Those of each broker, by the names of its listeners; it has them while it is stopped, too."""
        self.encrypted: list[str] = []
        """The names of the listeners with TLS."""
        self.certificates: dict[int, ListenerTls] = {}
        """What each broker shows on them."""
        self._seed = seed
        self._silent_until: dict[int, int] = {}
        """When each node that is paused, or whose crash was not noticed, has been silent for too long (ms)."""
        self._starting: list[asyncio.Task[None]] = []

    @property
    def bootstrap(self) -> str:
        """Where clients connect: the advertised addresses of all brokers, separated by commas."""
        return self.bootstrap_of(None)

    def bootstrap_of(self, listener: str | None) -> str:
        """The same for the clients of one listener; of the first if none is named. Raises LookupError."""
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
        """A broker of the cluster."""
        return self.drivers[node_id].node

    @property
    def controller(self) -> Driver:
        """The node that writes the metadata log."""
        return self.drivers[self.spec.controller_id]

    @cached_property
    def rules(self) -> RuleSet:
        """What is to happen to which requests; imported by the first rule."""
        from odradek.faults.rule_set import RuleSet

        nodes = partial(map, _node_of, self.drivers.values())
        return RuleSet(nodes=nodes, act=self._act_on, seed=self._seed, changed=self.changes.tell)

    @property
    def has_rules(self) -> bool:
        """Whether there has been any rule."""
        return "rules" in vars(self)

    async def stop(self, *, holds_ports: bool = False) -> None:
        """End every node: parked requests end, connections close, and whoever waits for state is told.

        The ports are free then, unless they are held for the cluster that comes next (`start_cluster(ports=…)`).
        """
        await asyncio.gather(*self._starting)
        if self.data_dir is not None:
            self._shut_down()
        for node_id in list(self.servers):
            self._halt(node_id, holds_ports=holds_ports)
        if not holds_ports:
            self.give_up_ports()
        self.changes.end()
        await self._connections_end()
        if self.data_dir is not None:
            broker = self.controller.node.image.brokers.get(self.spec.controller_id)
            self.data_dir.close(broker_epoch=-1 if broker is None else broker.epoch)

    def _shut_down(self) -> None:
        """As after a controlled shutdown the broker is fenced: whoever goes on with the directory need not wait."""
        for node_id in self._running:
            self._act(self.spec.controller_id, lambda controller, node_id=node_id: controller.fence(node_id))  # type: ignore[misc]

    def resume_data(self) -> None:
        """Take up the directory: the broker is registered anew, unless it has just begun the cluster."""
        assert self.data_dir is not None, "the logs are in a directory"
        [node_id] = self._running
        if not self.data_dir.was_new:
            self.spec.cleanly = frozenset([node_id] if self.data_dir.store.was_clean else [])
            membership.let_in(self.spec, node_id, self._running, self._act)
            self.decide(lambda controller: controller.create_topics_at_start())
        self.data_dir.started(self.node(node_id), self.loop)

    def give_up_ports(self) -> None:
        """Let others have the ports of brokers that are stopped."""
        for ports in self.ports.values():
            for port in ports.values():
                port.give_up()

    async def _connections_end(self) -> None:
        """One turn is enough in the clear; with TLS the other side has to agree, and is cut off where it does not.

        A handshake that has begun is waited for, because nobody can end it from here.
        """
        await asyncio.sleep(0)
        ends = self.loop.time() + GOODBYE_S
        # A connection that ends tells its driver alone.
        while self._has_clients and self.loop.time() < ends:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        for driver in self.drivers.values():
            driver.cut_off_clients()
        await asyncio.sleep(LOOK_S if self._has_clients else 0)

    @property
    def _has_clients(self) -> bool:
        return any(driver.has_clients or driver.has_arriving for driver in self.drivers.values())

    def stop_broker(self, node_id: int, *, cleanly: bool = False, fence_after_ms: int = 0) -> None:
        """End one node: others take over what it led and, if need be, the controller.

        If not `cleanly`, it is as if its machine were gone: when it comes back, it is not believed to have what it had.
        With `fence_after_ms` nobody notices for so long: it refuses connections, and clients are still sent to it.
        One that has gone already went as it did. Raises ValueError for a shutdown that is clean and not noticed.
        """
        if fence_after_ms < 0:
            raise ValueError(f"a broker is fenced 0 ms or more after its crash, not {fence_after_ms}")
        if cleanly and fence_after_ms:
            raise ValueError("a broker that is shut down cleanly says so: only a crash is noticed later")
        if self.drivers[node_id].stopped:
            return
        self._halt(node_id)
        self._silent_until.pop(node_id, None)
        self._set_unheard(self.spec.unheard - {node_id})
        others = self._heard or self._running
        if fence_after_ms and others:
            self._miss(node_id, others, fence_after_ms)
        else:
            membership.see_off(self.spec, node_id, others, self._act, cleanly=cleanly)
        self._show_all()

    def _miss(self, node_id: int, others: Collection[int], fence_after_ms: int) -> None:
        """A node has crashed, and its session goes on: the controller moves at once, as in a quorum of its own."""
        self.spec.cleanly -= {node_id}
        self._set_unheard(self.spec.unheard | {node_id})
        self._silent_until[node_id] = self.clock.now() + fence_after_ms
        membership.succeed(self.spec, others, self._act)
        self._watch()

    def start_broker(self, node_id: int) -> None:
        """Start a node again that was stopped, at the same address; it replays what it is given to lead."""
        assert self.drivers[node_id].stopped, f"broker {node_id} runs"
        _listen_again(self.ports[node_id].values())
        self._silent_until.pop(node_id, None)
        self.spec.unheard -= {node_id}
        membership.choose_controller(self.spec, node_id, self._running)
        node = self.make_node(node_id)
        node.inherit(self.drivers[node_id].node)
        driver = self.drivers[node_id] = self.drive(node)
        driver.start()
        membership.let_in(self.spec, node_id, self._running, self._act)
        self._show_all()
        self._watch()
        self._starting = [task for task in self._starting if not task.done()]
        for name, port in self.ports[node_id].items():
            self._starting.append(self.loop.create_task(self._serve(driver, port.socket, name)))

    def advertise(self, node_id: int, *, port: int, host: str | None = None, listener: str | None = None) -> None:
        """Tell clients another address of a broker's listener from now on; it listens where it did.

        Without a host or a listener it is the host that was told before, and the first listener.
        Raises LookupError for a listener that there is not, ValueError for a port that nobody can have, or a host.
        """
        if not 0 < port <= PORT_MAX:
            raise ValueError(f"a port is a number from 1 to {PORT_MAX}, not {port}")
        if host is not None:
            from odradek.config.addresses import check_told_host  # few clusters are told another host

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
        """Read the keys and certificates of every listener again, for the connections to come. Raises `TlsError`."""
        for node_id, certificates in self.certificates.items():
            certificates.reload(self.node(node_id).config)

    def pause_broker(self, node_id: int) -> None:
        """Let one node hear nothing: its connections stay open and take no more, its clock goes on.

        After `broker.session.timeout.ms` it is fenced: others lead what it led and, if need be, control the cluster.
        """
        if self.drivers[node_id].paused:
            return
        self.drivers[node_id].pause()
        self._set_unheard(self.spec.unheard | {node_id})
        self._silent_until[node_id] = self.clock.now() + self.config.broker_session_timeout_ms
        self._watch()

    def resume_broker(self, node_id: int) -> None:
        """Let a node that was paused hear again, what has waited first; if it was fenced, it is in service again."""
        self._silent_until.pop(node_id, None)
        self.drivers[node_id].resume()
        self._set_unheard(self.spec.unheard - {node_id})
        if self.spec.controller_id in self._heard:
            membership.hear_from(self.spec, [node_id], self._act)
        self._watch()

    def _watch(self) -> None:
        """Whoever is heard looks after those that are not; it makes no difference who notices first."""
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
        """Whoever leads learns whose replicas acknowledge nothing."""
        if unheard == self.spec.unheard:
            return
        self.spec.unheard = unheard
        for driver in self.drivers.values():
            if not driver.stopped and not driver.paused:
                driver.act(driver.node.replication.adopt_all)

    def advance(self, milliseconds: int) -> None:
        """Let so much time pass for every broker: what is due by then happens before this returns, in its order.

        Raises ValueError for less than 0, and for more than 64 bits hold.
        """
        pass_time(self.clock, list(self.drivers.values()), self.post, milliseconds)

    def freeze(self) -> None:
        """Let the brokers' clock stand still; `advance` moves it on."""
        self.clock.freeze()
        self._time_changed()

    def resume(self) -> None:
        """Let the brokers' clock go on from where it stands."""
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
        """Those that run and are not paused."""
        return [node_id for node_id in self._running if not self.drivers[node_id].paused]

    @property
    def heard(self) -> list[int]:
        """The brokers that run and are not paused."""
        return sorted(self._heard)

    def leads(self, partition: PartitionImage) -> int:
        """The broker that leads a partition; -1 if none does, or one that was stopped and that nobody could fence."""
        driver = self.drivers.get(partition.leader)
        return NO_LEADER if driver is None or driver.stopped else partition.leader

    def decide(self, act: Callable[[ControllerRole], T]) -> T:
        """Have the controller act, as an operator would; brokers that hear know what came of it when this returns.

        Whoever decides from outside may go on with a client at once, and that client may ask any broker.
        Raises RuntimeError when no broker runs, because then there is no controller.
        """
        if self.controller.stopped:
            raise RuntimeError("no broker runs, and so there is no controller: start one first")
        outcome = self._act(self.spec.controller_id, act)
        self._show_all()
        return outcome

    def _show_all(self) -> None:
        """Every broker that hears learns what the controller has decided."""
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
        self.ports.setdefault(node_id, {})[listener] = port
        await self._serve(self.drivers[node_id], port.socket, listener)

    async def _serve(self, driver: Driver, bound: socket.socket, listener: str) -> None:
        if driver.stopped:  # before its turn came
            bound.close()
            return
        node_id = driver.node.node_id
        backlog = max(BACKLOG, self.config.socket_listen_backlog_size)
        certificates = self.certificates.get(node_id)
        context = None if certificates is None else certificates.contexts.get(listener)
        server = await self.loop.create_server(
            lambda: ClientProtocol(driver, listener) if context is None else driver.await_client(listener),
            sock=bound,
            backlog=backlog,
            ssl=context,
            ssl_handshake_timeout=None if context is None else HANDSHAKE_TIMEOUT_S,
            ssl_shutdown_timeout=None if context is None else SHUTDOWN_TIMEOUT_S,
        )
        if driver.stopped:  # meanwhile
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
            secrets=SystemRandom(),
        )
        if self.encrypted:
            from odradek.net.listener_tls import ListenerTls  # most clusters have no such listeners

            node.certificates = self.certificates[node_id] = ListenerTls(self.encrypted, self.config, self.log)
        return node

    def drive(self, node: Node) -> Driver:
        """A driver for a node of this cluster."""
        return Driver(node, peers=self.drivers, clock=self.clock, post=self.post, loop=self.loop, changes=self.changes)


def _told(error: ErrorCode) -> None:
    assert error is ErrorCode.NONE, f"a broker that runs is registered: {error.name}"


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
) -> RunningCluster:
    """Bind the listeners and start the nodes.

    The brokers have these ids, or are numbered from 1; the first listens on `port`, the others on those that follow, or
    each on any free one where `port` is 0; or they listen on the `ports` of a cluster that was stopped and held them.
    With `data_dir` the logs are files there, and what an earlier process has left is gone on with: for one broker.
    Raises `ListenError` where an address cannot be bound, `ValueError` for ids and racks that no cluster can have, and
    `UsageError` where the directory cannot be used.
    """
    if config.odradek_telemetry:
        need("opentelemetry.proto", extra="telemetry")
    clock, opened_dir = Clock(), None
    random = Random(seed)
    if data_dir is not None:
        if sys.platform == "win32":
            raise UsageError("A data directory needs locks and mapped files of POSIX, which Windows does not have.")
        from odradek.net.data_dir import DataDir, the_one  # most clusters have none

        opened_dir = DataDir(
            data_dir,
            node_id=the_one(brokers, node_ids),
            cluster_id=cluster_id,
            log=log,
            now=clock.now,
            new_cluster_id=partial(_cluster_id, random),
        )
        node_ids, cluster_id = [opened_dir.meta.node_id], opened_dir.meta.cluster_id
    bound: list[Mapping[str, Port]] = []
    try:
        ids = node_ids_of(brokers, node_ids)
        racks = racks_of(config.broker_rack, ids)
        if port + len(ids) - 1 > PORT_MAX and not ports:
            raise ListenError(
                f"Port {port} is out of range for {counted(len(ids), 'broker')}: ports end at {PORT_MAX}."
            )
        config = with_keys(config.for_brokers(len(ids)))
        loop = asyncio.get_running_loop()
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
            controller_id=ids[0],
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
            clock=clock,
            data_dir=opened_dir,
        )
        cluster.encrypted = [each.name for each in listeners if each.protocol.uses_tls]
        for broker in spec.brokers:
            node = cluster.make_node(broker.node_id)
            cluster.drivers[broker.node_id] = cluster.drive(node)
        cluster.controller.node.controller.topics_at_start = tuple(topics)
        for driver in cluster.drivers.values():
            driver.start()
        if opened_dir is not None:
            cluster.resume_data()
    except BaseException as refused:
        for opened in bound:
            for each in opened.values():
                each.close()
        if opened_dir is not None:
            opened_dir.abandon()
        if not isinstance(refused, StartRefused | RulesError | LoginsRefused):
            raise
        raise UsageError(str(refused)) from refused
    await _listen_everywhere(cluster, bound)
    return cluster


async def _listen_everywhere(cluster: RunningCluster, bound: Sequence[Mapping[str, Port]]) -> None:
    """Accept connections over every listener; if that fails or is given up, over none."""

    async def listen() -> None:
        for broker, opened in zip(cluster.spec.brokers, bound, strict=True):
            for name, each in opened.items():
                await cluster.listen(broker.node_id, each, name)

    listening = asyncio.ensure_future(listen())
    try:
        # A server that is cancelled while it starts would listen, and nobody would have it.
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
    """The port of a later broker, where that of the first is given: each has as many as there are listeners."""
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
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")
