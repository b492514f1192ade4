"""A hub: clusters that are created and removed while it runs, independent of each other, in one event loop."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

from msgspec import Struct, structs

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
    from odradek.net.recording import Record
    from odradek.net.snapshot import ClusterSnapshot
    from odradek.releases.release import Release

__all__ = ["Hosted", "Hub", "KeptSnapshot", "Taken"]

Ports = Mapping[int, Mapping[str, Port]]
"""The ports of each broker's listeners."""
Start = Callable[[EventRing, "Ports | None"], Awaitable[RunningCluster]]
"""Starts a cluster with this ring as the sink of its events, on these ports if they are given."""
SNAPSHOTS = ".snapshots"
"""The folder with the snapshots of a data directory has the name of that directory and this suffix."""
FORK = ".fork-"
"""The name of a directory begins with it that was made for a fork, in the folder of its snapshot."""
BIND_TRIES = 100
"""Turns of the event loop in which the sockets of a cluster may close, on systems that cannot hold a port."""


class Taken(Exception):
    """Another cluster has this name, or the action is impossible for this cluster."""


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
        self.prepared = prepared
        """The certificates and users of its listeners."""
        self.also: EventSink | None = None
        """Further sinks of its events."""
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
        """Advertise the same addresses as before, such as those of a container's ports."""
        for broker in before:
            new = self.running.spec.broker(broker.node_id).endpoints
            for each in set(broker.endpoints) - set(new):
                self.running.advertise(broker.node_id, port=each.port, host=each.host, listener=each.name)

    async def end(self, *, holds_ports: bool = False) -> None:
        """Stop its brokers: connections close, waits and streams end."""
        await self.running.stop(holds_ports=holds_ports)
        self.events.end()

    @contextmanager
    def heard(self) -> Iterator[None]:
        """A call uses the cluster: during the call, and for the lease after it, the cluster is in use."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self._heard_at = self._loop.time()

    def silent_s(self) -> float:
        """The time (ms) without a call; 0 while a client is connected to one of its brokers."""
        if self._busy or any(driver.has_clients for driver in self.running.drivers.values()):
            self._heard_at = self._loop.time()
        return self._loop.time() - self._heard_at

    @property
    def made(self) -> ClusterMade:
        """The information that a client needs about it."""
        brokers: list[BrokerView] = broker_views(self.running)
        bootstrap = self.running.bootstrap
        access = None if self.prepared is None else _access_view(self.prepared, bootstrap)
        return ClusterMade(id=self.id, bootstrap=bootstrap, brokers=brokers, lease_s=self.lease_s, access=access)


class KeptSnapshot(Struct, frozen=True):
    """A snapshot of the hub."""

    name: str
    cluster: str
    """The name of its origin."""
    snapshot: ClusterSnapshot
    prepared: Prepared | None
    """The certificates and users of its origin's listeners, which its forks have, too."""


class Hub:
    """The clusters and the snapshots by their names; to be used in one event loop."""

    def __init__(
        self, *, log: Logger, host: str = "127.0.0.1", record: Path | None = None, with_secrets: bool = False
    ) -> None:
        """`record` is a folder for a recording of each cluster; `with_secrets` records those with security, too."""
        self._record = record
        self._with_secrets = with_secrets
        self.log = log
        self._host = host
        self._clusters: dict[str, Hosted] = {}
        self.snapshots: dict[str, KeptSnapshot] = {}
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

    def snapshot(self, name: str) -> KeptSnapshot:
        """The snapshot of this name, or the directory that this path names.

        Raises LookupError if there is none of the name, and `UsageError` for a path that is no snapshot.
        """
        kept = self.snapshots.get(name)
        if kept is None and "/" in name:
            from odradek.net.snapshot import ClusterSnapshot

            return KeptSnapshot(name, "", ClusterSnapshot.read(Path(name).absolute()), None)
        if kept is None:
            names = ", ".join(sorted(self.snapshots)) or "none"
            raise LookupError(f"there is no snapshot {name}: there is {names}")
        return kept

    def take_snapshot(self, cluster_id: str, name: str) -> KeptSnapshot:
        """Keep a cluster as it is now, for `make`: in memory, or beside the directory of its logs.

        Raises LookupError for no cluster, Taken for a name in use, `UsageError` where it cannot be written.
        """
        hosted = self.get(cluster_id)
        if name in self.snapshots:
            raise Taken(f"there is a snapshot {name} already")
        data_dir, directory = hosted.running.data_dir, None
        if data_dir is not None:
            directory = _folder_of_snapshots(data_dir.path) / name
            if directory.exists():
                raise Taken(f"there is a snapshot {name} already, in {directory}")
        kept = KeptSnapshot(name, cluster_id, hosted.running.snapshot(directory), hosted.prepared)
        self.snapshots[name] = kept
        return kept

    def remove_snapshot(self, name: str) -> None:
        """Keep it no longer; its forks go on. Raises LookupError if there is none of this name."""
        kept = self.snapshots.get(name) or self.snapshot(name)
        if self.snapshots.pop(name, None) is None:
            raise LookupError(f"{name} is a directory that this hub has not made: remove it as such")
        if kept.snapshot.directory is not None:
            kept.snapshot.let_go()
            rmtree(kept.snapshot.directory, ignore_errors=True)
        self._close(kept.prepared)

    async def make(self, body: NewCluster) -> Hosted:
        """Make a cluster.

        Raises:
            LookupError: it is to be a fork of a snapshot that there is not.
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
            origin = None if body.from_ is None else self.snapshot(body.from_)
            prepared = await self._prepare(body) if origin is None else origin.prepared
            start = self._starter(cluster_id, body, prepared, origin)
            loop = asyncio.get_running_loop()
            hosted = Hosted(cluster_id, start, lease_s=body.lease_s, loop=loop, prepared=prepared)
            await hosted.begin()
        except BaseException:
            self._close(prepared)
            raise
        finally:
            self._starting.discard(cluster_id)
        self.adopt(hosted)
        return hosted

    def adopt(self, hosted: Hosted) -> None:
        """Add a running cluster to the hub."""
        self._clusters[hosted.id] = hosted
        if self._reaper is None:
            self._reaper = asyncio.get_running_loop().create_task(self._reap())

    async def reset(self, cluster_id: str) -> Hosted:
        """Start the cluster from the beginning: only its first topics and rules, and a running clock.

        Brokers listen on the same ports, and advertise the same addresses.
        """
        hosted = self.get(cluster_id)
        ended = hosted.running
        await hosted.end(holds_ports=True)
        try:
            await _begin_again(hosted, ended.ports)
        except BaseException:
            ended.give_up_ports()
            self._clusters.pop(cluster_id, None)
            self._close(hosted.prepared)
            raise
        hosted.advertise_again(ended.spec.brokers)
        return hosted

    async def remove(self, cluster_id: str) -> None:
        """End a cluster: its clients' connections close."""
        hosted = self.get(cluster_id)
        del self._clusters[cluster_id]
        await hosted.end()
        self._close(hosted.prepared)

    async def close(self) -> None:
        if self._reaper is not None:
            self._reaper.cancel()
        # Those in directories stay: the next hub is given their paths.
        self.snapshots.clear()
        for cluster_id in list(self._clusters):
            await self.remove(cluster_id)

    def _close(self, prepared: Prepared | None) -> None:
        """Remove the certificates that were made for one start, unless a fork or a snapshot has them, too."""
        if prepared is None:
            return
        clusters = any(each.prepared is prepared for each in self._clusters.values())
        if not clusters and all(each.prepared is not prepared for each in self.snapshots.values()):
            prepared.close()

    def _new_id(self) -> str:
        while True:
            found = secrets.token_hex(4)
            if found not in self._clusters:
                return found

    async def _prepare(self, body: NewCluster) -> Prepared | None:
        """Create the listeners, certificates and users of `security`; other clusters run meanwhile."""
        if body.advertised_host is not None:
            from odradek.config.addresses import check_told_host  # few clusters have security

            check_told_host(body.advertised_host)
        if body.security is None:
            if body.users is not None:
                raise ValueError("Users go with security: sasl-plaintext or sasl-ssl.")
            return None
        from odradek.net.prepared import Prepared  # most hubs have no such cluster

        hosts = [] if body.advertised_host is None else [body.advertised_host]
        make = partial(Prepared, body.security, host=self._host, port=body.port, hosts=hosts, users=body.users)
        try:
            return await asyncio.to_thread(make)
        except UsageError as error:
            raise ValueError(str(error)) from None

    def _starter(
        self, cluster_id: str, body: NewCluster, prepared: Prepared | None, origin: KeptSnapshot | None
    ) -> Start:
        story = _story(body.story)
        asked = story.cluster
        settings = {} if prepared is None or origin is not None else dict(prepared.config)
        settings |= asked.overrides | {key: _text(value) for key, value in body.config.items()}
        level = asked.transaction_version if body.transaction_version is None else body.transaction_version
        levels = {"odradek.transaction.version": level, "odradek.as.kafka": body.as_kafka or asked.as_kafka}
        settings |= {key: str(value) for key, value in levels.items() if value is not None}
        release = None if body.dialect is None else _dialect(body.dialect)
        brokers = asked.brokers if body.brokers is None and body.node_ids is None else body.brokers
        snapshot = None if origin is None else origin.snapshot
        if snapshot is None:
            config = Config.parse(settings, release)
            node_ids = node_ids_of(brokers, body.node_ids)
        else:
            from odradek.net.snapshot import settings_of_fork  # most hubs are never asked for a fork

            config = settings_of_fork(
                snapshot,
                settings,
                release=release,
                brokers=brokers,
                node_ids=body.node_ids,
                security=body.security if body.users is None else "users",
            )
            node_ids = snapshot.node_ids
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
                snapshot=snapshot,
                record=self._record_of(cluster_id),
                # What the snapshot owes is done as soon as the brokers start: a rule may be meant to hold it.
                before_start=None if snapshot is None or not rules else partial(add_rules, rules=rules),
            )
            if rules and snapshot is None:
                try:
                    add_rules(cluster, rules)
                except BaseException:
                    await cluster.stop()
                    raise
            return cluster

        return start

    def _record_of(self, cluster_id: str) -> Record | None:
        if self._record is None:
            return None
        from odradek.net.recording import new_record  # most hubs record nothing

        return new_record(self._record, cluster_id, with_secrets=self._with_secrets)

    async def _reap(self) -> None:
        """Remove the clusters of test suites that have ended without doing so."""
        while True:
            shortest = min((hosted.lease_s for hosted in self if hosted.lease_s), default=LEASE_S)
            await asyncio.sleep(max(shortest / 4, 0.01))
            for hosted in self:
                if hosted.lease_s and hosted.silent_s() > hosted.lease_s:
                    self.log.info("cluster_lease_over", cluster=hosted.id, lease_s=hosted.lease_s)
                    await self.remove(hosted.id)


def _folder_of_snapshots(data_dir: Path) -> Path:
    """Beside the directory; those of a fork without a directory of its own lie beside the snapshot that it is of."""
    if data_dir.name.startswith(FORK):
        return data_dir.parent
    return data_dir.with_name(f"{data_dir.name}{SNAPSHOTS}")


async def _begin_again(hosted: Hosted, ports: Ports) -> None:
    for _ in range(BIND_TRIES):
        try:
            return await hosted.begin(ports)
        except ListenError:
            # The event loop closes a listener in a later turn.
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
    from odradek.releases.dialects.load import load, names  # a cluster of Kafka needs none of it

    # A dialect's folder is code; a client that may create clusters must not choose which code runs.
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
