"""A hub: clusters that are made and removed while it runs, each on its own, all in one event loop."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from odradek.cli.usage import UsageError
from odradek.config.table import Config
from odradek.control.controls import Controls
from odradek.control.events import EventRing
from odradek.control.messages.clusters import LEASE_S, AccessView, BrokerView, ClusterMade, NewCluster, NewTopic
from odradek.control.plan import Plan, plan_of
from odradek.control.state import broker_views
from odradek.control.steps import add_rules
from odradek.control.stories import read_story
from odradek.host.cluster_spec import node_ids_of
from odradek.metadata.controller_role import StartTopic
from odradek.net.cluster import RunningCluster, start_cluster
from odradek.net.ports import ListenError, Port

if TYPE_CHECKING:
    from odradek.broker import EventSink, Logger
    from odradek.faults.model import Rule
    from odradek.host.cluster_spec import BrokerSpec
    from odradek.net.prepared import Prepared
    from odradek.releases import Release

__all__ = ["Hosted", "Hub", "Taken"]

Ports = Mapping[int, Mapping[str, Port]]
"""Those of the listeners of each broker."""
Start = Callable[[EventRing, "Ports | None"], Awaitable[RunningCluster]]
"""Starts a cluster that tells this ring what happens, on these ports if they are given."""
BIND_TRIES = 100
"""Turns of the event loop that the sockets of a cluster may take to close, on systems that hold no port."""


class Taken(Exception):
    """The name of a cluster is that of another, or what is asked for cannot be done to this one."""


class Hosted:
    """A cluster of the hub."""

    def __init__(
        self,
        cluster_id: str,
        start: Start,
        *,
        lease_s: float,
        loop: asyncio.AbstractEventLoop,
        prepared: Prepared | None = None,
    ) -> None:
        self.id = cluster_id
        self.lease_s = lease_s
        self._prepared = prepared
        self.also: EventSink | None = None
        """Who else is told of its events."""
        self.running: RunningCluster
        self.events: EventRing
        self.controls: Controls
        self._start = start
        self._loop = loop
        self._heard_at = loop.time()
        self._busy = 0

    async def begin(self, ports: Ports | None = None) -> None:
        """Start it."""
        ring = EventRing(also=self.also)
        self.running = await self._start(ring, ports)
        ring.recent.started(self.running.clock.now)
        self.events = ring
        self.controls = Controls(self.running)

    def advertise_again(self, before: Iterable[BrokerSpec]) -> None:
        """Tell clients the addresses that they were told before, as those of a container's ports."""
        for broker in before:
            new = self.running.spec.broker(broker.node_id).endpoints
            for each in set(broker.endpoints) - set(new):
                self.running.advertise(broker.node_id, port=each.port, host=each.host, listener=each.name)

    async def end(self, *, holds_ports: bool = False) -> None:
        """End its brokers: connections close, and who waits or follows is told."""
        await self.running.stop(holds_ports=holds_ports)
        self.events.end()

    def forget(self) -> None:
        """Remove what was made for it alone; it is not begun again."""
        if self._prepared is not None:
            self._prepared.close()

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Somebody asks something of it: while that takes, and for as long as its lease after it, it is needed."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self._heard_at = self._loop.time()

    def silent_s(self) -> float:
        """For how long nobody has asked anything of it; 0 while a client is connected to one of its brokers."""
        if self._busy or any(driver.has_clients for driver in self.running.drivers.values()):
            self._heard_at = self._loop.time()
        return self._loop.time() - self._heard_at

    @property
    def made(self) -> ClusterMade:
        """What a client has to know of it."""
        brokers: list[BrokerView] = broker_views(self.running)
        bootstrap = self.running.bootstrap
        access = None if self._prepared is None else _access_view(self._prepared, bootstrap)
        return ClusterMade(id=self.id, bootstrap=bootstrap, brokers=brokers, lease_s=self.lease_s, access=access)


class Hub:
    """The clusters by their names; to be used in one event loop."""

    def __init__(self, *, log: Logger, host: str = "127.0.0.1") -> None:
        self.log = log
        self._host = host
        self._clusters: dict[str, Hosted] = {}
        self._starting: set[str] = set()
        self._reaper: asyncio.Task[None] | None = None

    def __iter__(self) -> Iterator[Hosted]:
        return iter(list(self._clusters.values()))

    def __len__(self) -> int:
        return len(self._clusters)

    def get(self, cluster_id: str) -> Hosted:
        """The cluster of this name. Raises LookupError if there is none."""
        hosted = self._clusters.get(cluster_id)
        if hosted is None:
            names = ", ".join(sorted(self._clusters)) or "none"
            raise LookupError(f"there is no cluster {cluster_id}: there is {names}")
        return hosted

    async def make(self, body: NewCluster) -> Hosted:
        """Make a cluster.

        Raises:
            ValueError: it cannot be; the text is one sentence (`ConfigError`, `PlanError`, `RuleError`, …).
            Taken: there is one of this name.
            UsageError: an address cannot be listened on, or the brokers refuse to start.
        """
        cluster_id = self._new_id() if body.id is None else body.id
        if cluster_id in self._clusters or cluster_id in self._starting:
            raise Taken(f"there is a cluster {cluster_id} already")
        self._starting.add(cluster_id)
        prepared: Prepared | None = None
        try:
            prepared = await self._prepare(body)
            start = self._starter(body, prepared)
            loop = asyncio.get_running_loop()
            hosted = Hosted(cluster_id, start, lease_s=body.lease_s, loop=loop, prepared=prepared)
            await hosted.begin()
        except BaseException:
            if prepared is not None:
                prepared.close()
            raise
        finally:
            self._starting.discard(cluster_id)
        self.adopt(hosted)
        return hosted

    def adopt(self, hosted: Hosted) -> None:
        """Let a cluster that runs be one of the hub."""
        self._clusters[hosted.id] = hosted
        if self._reaper is None:
            self._reaper = asyncio.get_running_loop().create_task(self._reap())

    async def reset(self, cluster_id: str) -> Hosted:
        """Everything as new: no topics but the first, no rules but the first, a clock that goes.

        Brokers listen on the same ports, and clients are told the same addresses.
        """
        hosted = self.get(cluster_id)
        ended = hosted.running
        await hosted.end(holds_ports=True)
        try:
            await _begin_again(hosted, ended.ports)
        except BaseException:
            ended.give_up_ports()
            self._clusters.pop(cluster_id, None)
            hosted.forget()
            raise
        hosted.advertise_again(ended.spec.brokers)
        return hosted

    async def remove(self, cluster_id: str) -> None:
        """End a cluster: its clients' connections close."""
        hosted = self.get(cluster_id)
        del self._clusters[cluster_id]
        await hosted.end()
        hosted.forget()

    async def close(self) -> None:
        """End all clusters."""
        if self._reaper is not None:
            self._reaper.cancel()
        for cluster_id in list(self._clusters):
            await self.remove(cluster_id)

    # ------------------------------------------------------------------ inside

    def _new_id(self) -> str:
        while True:
            found = secrets.token_hex(4)
            if found not in self._clusters:
                return found

    async def _prepare(self, body: NewCluster) -> Prepared | None:
        """Listeners, certificates and users, where they are asked for in a word; other clusters go on meanwhile."""
        if body.advertised_host is not None:
            from odradek.config.addresses import check_told_host  # few clusters have one

            check_told_host(body.advertised_host)
        if body.security is None:
            if body.users is not None:
                raise ValueError("Users go with security: sasl-plaintext or sasl-ssl.")
            return None
        from odradek.net.prepared import Prepared  # most hubs are never asked for any

        hosts = [] if body.advertised_host is None else [body.advertised_host]
        make = partial(Prepared, body.security, host=self._host, port=body.port, hosts=hosts, users=body.users)
        try:
            return await asyncio.to_thread(make)
        except UsageError as error:
            raise ValueError(str(error)) from None

    def _starter(self, body: NewCluster, prepared: Prepared | None) -> Start:
        story = _story(body.story)
        asked = story.cluster
        settings = {} if prepared is None else dict(prepared.config)
        settings |= asked.overrides | {key: _text(value) for key, value in body.config.items()}
        level = asked.transaction_version if body.transaction_version is None else body.transaction_version
        levels = {"odradek.transaction.version": level, "odradek.as.kafka": body.as_kafka or asked.as_kafka}
        settings |= {key: str(value) for key, value in levels.items() if value is not None}
        config = Config.parse(settings, None if body.dialect is None else _dialect(body.dialect))
        brokers = asked.brokers if body.brokers is None and body.node_ids is None else body.brokers
        node_ids = node_ids_of(brokers, body.node_ids)
        topics = [_topic(topic) for topic in (*asked.topics, *body.topics)]
        known = [rule.name for rule in story.rules if rule.name is not None]
        own: list[Rule] = [] if body.rules is None else plan_of(body.rules, known=known).rules
        rules = [*story.rules, *own]

        async def start(events: EventRing, ports: Ports | None) -> RunningCluster:
            cluster = await start_cluster(
                config=config,
                log=self.log,
                node_ids=node_ids,
                host=self._host,
                port=body.port,
                ports=ports,
                advertised_host=body.advertised_host,
                topics=topics,
                seed=body.seed,
                events=events,
            )
            if rules:
                try:
                    add_rules(cluster, rules)
                except BaseException:
                    await cluster.stop()
                    raise
            return cluster

        return start

    async def _reap(self) -> None:
        """Remove the clusters of suites that died."""
        while True:
            shortest = min((hosted.lease_s for hosted in self if hosted.lease_s), default=LEASE_S)
            await asyncio.sleep(max(shortest / 4, 0.01))
            for hosted in self:
                if hosted.lease_s and hosted.silent_s() > hosted.lease_s:
                    self.log.info("cluster_lease_over", cluster=hosted.id, lease_s=hosted.lease_s)
                    await self.remove(hosted.id)


async def _begin_again(hosted: Hosted, ports: Ports) -> None:
    for _ in range(BIND_TRIES):
        try:
            return await hosted.begin(ports)
        except ListenError:
            # The event loop closes a listener in a turn of its own.
            await asyncio.sleep(0)
    return await hosted.begin(ports)


def _access_view(prepared: Prepared, bootstrap: str) -> AccessView:
    access = prepared.access(bootstrap)
    return AccessView(
        protocol=access.protocol,
        ca=access.ca_pem,
        certificate=access.client_pem,
        mechanism=access.mechanism,
        users=prepared.users,
        librdkafka=access.librdkafka_whole,
        java=access.java_whole,
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _dialect(name: str) -> Release:
    from odradek.dialects.load import load, names  # a cluster of Kafka needs none of it

    # A folder is code: who may only ask the hub for a cluster must not have it run what lies there.
    if name not in names():
        raise ValueError(f"There is no dialect {name}: there are {', '.join(names())}.")
    return load(name)


def _story(name: str | None) -> Plan:
    if name is None:
        return Plan(rules=[])
    try:
        return read_story(name)
    except LookupError as error:
        raise ValueError(str(error)) from None


def _topic(topic: str | NewTopic) -> StartTopic:
    return StartTopic.parse(topic) if isinstance(topic, str) else StartTopic(*structs.astuple(topic))
