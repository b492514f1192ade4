"""A simulated cluster: one queue of events, a virtual clock, messages that arrive late or never.

The same seed gives the same run: nothing here reads a real clock, and every choice comes from one `Random`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from struct import Struct as Layout
from typing import Any, TypeVar

from odradek.broker import Node
from odradek.config.table import Config
from odradek.core.machine import Fact
from odradek.core.wording import counted
from odradek.faults.armed import Armed
from odradek.faults.model import Rule
from odradek.faults.rule_set import RuleSet
from odradek.host.cluster_spec import BrokerSpec, ClusterSpec, node_ids_of, racks_of
from odradek.host.events import (
    Advance,
    Announce,
    Command,
    Compute,
    Computed,
    Connected,
    Dial,
    Dialled,
    Disconnected,
    Effect,
    Event,
    Hand,
    Handed,
    HandedRequest,
    Hangup,
    LeaderAdvanced,
    Message,
    MetadataAdvanced,
    NextTurn,
    Received,
    Send,
    Started,
    Stopping,
    Tick,
    Turn,
)
from odradek.log.file_store import FileStore
from odradek.log.log_store import LogStore
from odradek.metadata import membership
from odradek.metadata.controller_role import ControllerRole, StartTopic
from odradek.releases.release import Release
from odradek.sim.world.client import SimClient
from odradek.sim.world.dice import Dice
from odradek.sim.world.disk import SimDisk
from odradek.wire.messages import APIS
from odradek.wire.registry import ApiKey

__all__ = ["Livelock", "World"]

T = TypeVar("T")

START_MS = 1_700_000_000_000
EVENTS_MAX = 100_000
"""More events than this in one virtual millisecond are a livelock."""
WAKES_MAX = 10_000
"""So are more timer wake-ups than this in one virtual millisecond."""
STEPS_TOLD = 100
SEGMENT_BYTES = 64 * 1024
"""Each crash copies the files, and most of a segment is room that was reserved."""
CHECKPOINT_MS = 1_000
"""How often it is written down how far the logs are, and how soon what is to be done later is done at the latest."""
_API = Layout(">xxxxh")
"""Reads the API key of a request, which follows its length."""


class Livelock(AssertionError):
    """Events follow one another without end while no virtual time passes."""


class Lines:
    """A logger that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []
        self.raises = True
        """Whether an exception that a node logs is raised, which ends the test."""

    def debug(self, event: str, **fields: Any) -> None:
        self.lines.append(("debug", event, fields))

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append(("warning", event, fields))

    def error(self, event: str, **fields: Any) -> None:
        self.lines.append(("error", event, fields))
        if self.raises and fields.get("exc_info") is not None:
            raise fields["exc_info"]


class World:
    """The nodes of a cluster, the messages between them, and the time.

    `delay_ms`: the range from which each message between brokers draws its delay. `loss`: the probability that a
    connection between brokers breaks in place of a delivery; a test may change it during the run.
    Brokers, and clients that ask for it, pass messages as objects. With `encoded` all messages are bytes, as over a
    socket; the run is the same.
    A broker's requests to itself pass the network like all others, unless it `calls_itself` directly. Without `tells`
    no facts are kept; without `remembers` rules do not report the requests that they saw.
    With a `disk` the logs are files there (see `end_all`), and with `sync` everything is synced before it is
    acknowledged.
    """

    def __init__(
        self,
        *,
        brokers: int | None = None,
        node_ids: Sequence[int] | None = None,
        config: Mapping[str, object] | None = None,
        topics: Sequence[str] = (),
        seed: int = 0,
        delay_ms: tuple[int, int] = (0, 0),
        loss: float = 0.0,
        calls_itself: bool = False,
        encoded: bool = False,
        tells: bool = True,
        dialect: Release | None = None,
        remembers: bool = True,
        disk: SimDisk | None = None,
        sync: bool = False,
    ) -> None:
        self.now = START_MS
        self.disk = disk
        self._syncs = sync
        self._checkpoint_at = START_MS
        self.random = Dice(seed)
        self._ahead: dict[int, int] = {}
        """Milliseconds by which the clock of a broker is ahead, by broker id."""
        self._shown: dict[int, int] = {}
        """The latest time that the clock of a broker has shown, by broker id: it never goes back."""
        self.facts: list[tuple[int, Fact]] = []
        """Every fact, with the id of its node."""
        self.fact_times: list[int] = []
        """Virtual ms of each fact."""
        self.log = Lines()
        self._calls_itself = calls_itself
        self._encoded = encoded
        self._tells = tells
        ids = node_ids_of(brokers, node_ids)
        self.config = Config.parse({key: _text(value) for key, value in (config or {}).items()}, dialect).for_brokers(
            len(ids)
        )
        racks = racks_of(self.config.broker_rack, ids)
        self.store = self._open_store(ids[0])
        self.spec = ClusterSpec(
            cluster_id="simulated-cluster-id-0",
            controller_id=ids[0],
            brokers=tuple(BrokerSpec(node_id, f"broker-{node_id}", 9092, racks.get(node_id)) for node_id in ids),
        )
        self.nodes: dict[int, Node] = {}
        self._delay_ms = delay_ms
        self.loss = loss
        self._queue: list[tuple[int, int, int, Event]] = []
        self._count = 0
        self._clients: dict[tuple[int, int], SimClient] = {}
        self._links: dict[tuple[int, int], tuple[int, int]] = {}
        self._last_delivery: dict[tuple[int, int], int] = {}
        self._next_conn = 1
        self._dead: set[int] = set()
        self.populations: list[tuple[int, int]] = []
        """(Virtual ms, number of running brokers), noted whenever a broker dies or starts."""
        self._running: list[int] = []
        self._steps: deque[tuple[int, int, Event]] = deque(maxlen=STEPS_TOLD)
        """The last events, for the report of a livelock."""
        self._paused: dict[int, list[Event]] = {}
        """Events that wait for paused nodes, by node id."""
        self._wakes: dict[int, int | None] = dict.fromkeys(ids)
        """Next wake-up of each broker (virtual ms), as of the last time it was asked."""
        self._unasked: set[int] = set(ids)
        """Brokers that took a step since then."""
        self.stepped: set[int] = set()
        """Nodes that took a step; the reader of this set empties it."""
        self.rules = RuleSet(nodes=self.nodes.values, act=self._act_on, seed=seed, remembers=remembers)
        """The rules that apply to requests."""
        for broker in self.spec.brokers:
            self.nodes[broker.node_id] = self._make_node(broker.node_id)
        self.nodes[ids[0]].controller.topics_at_start = tuple(StartTopic.parse(text) for text in topics)
        for node_id in self.nodes:
            self._step(node_id, Started())
            refused = self.nodes[node_id].start_refused
            if refused is not None:
                raise refused
        self.run()

    def _open_store(self, node_id: int) -> LogStore:
        if self.disk is None:
            return LogStore(bytes_max=self.config.odradek_log_memory_bytes_max)
        store = FileStore(
            self.disk,
            node_id=node_id,
            now=lambda: self.now,
            unique=lambda: f"{self.random.getrandbits(128):032x}",
            syncs=self._syncs,
            segment_bytes=SEGMENT_BYTES,
        )
        store.begin()
        return store

    def _tend_disk(self, disk: SimDisk) -> None:
        """Do what a process does beside its brokers."""
        if disk.works and not self.random.below(4):
            disk.work()
        if self.now >= self._checkpoint_at:
            self._checkpoint_at = self.now + CHECKPOINT_MS
            disk.work()
            assert isinstance(self.store, FileStore)
            self.store.checkpoint()

    def _make_node(self, node_id: int) -> Node:
        return Node(
            node_id=node_id,
            config=self.config.in_rack(self.spec.broker(node_id).rack),
            store=self.store,
            cluster=self.spec,
            random=Dice(self.random.getrandbits(64)),
            log=self.log,
            now=self._clock(node_id),
            events=self if self._tells else None,
            calls_itself=self._calls_itself,
            encodes=self._encoded,
        )

    def run(self) -> None:
        """Deliver all events that are due now."""
        for _ in range(EVENTS_MAX):
            if not self._queue or self._queue[0][0] > self.now:
                return
            self._deliver()
        raise self._livelock()

    def _livelock(self) -> Livelock:
        told = [f"{at - START_MS} ms  broker {node_id}: {_told(event)}" for at, node_id, event in self._steps]
        steps = "".join(f"\n    {line}" for line in told)
        return Livelock(
            f"events follow one another, and no time passes; the last {counted(len(self._steps), 'step')}:{steps}"
        )

    def advance(self, milliseconds: int) -> None:
        """Let virtual time pass, and deliver all events that become due."""
        self.run_until(lambda: False, within_ms=milliseconds)

    def run_until(self, condition: Callable[[], object], *, within_ms: int) -> bool:
        """Let time pass until the condition holds; False if it does not within `within_ms`."""
        self._unasked.update(self.nodes)
        return self.go_on_until(condition, within_ms=within_ms)

    def go_on_until(self, condition: Callable[[], object], *, within_ms: int) -> bool:
        """The same, for a caller that has had no contact with a broker since, except through events."""
        end = self.now + within_ms
        self.run()
        standing = 0
        while not condition():
            wakes_at = at = self._next_wake()
            if self._queue and (at is None or self._queue[0][0] < at):
                at = self._queue[0][0]
            if at is None or at > end:
                self.now = end
                return bool(condition())
            standing = 0 if at > self.now else standing + 1
            if standing > WAKES_MAX:
                raise self._livelock()
            self.now = now = max(self.now, at)
            if self.disk is not None:
                self._tend_disk(self.disk)
            if wakes_at is not None and wakes_at <= now:
                for node_id in [
                    each for each, wake_at in self._wakes.items() if wake_at is not None and wake_at <= now
                ]:
                    tick = Tick()
                    self._steps.append((now, node_id, tick))
                    self._step(node_id, tick)
            self.run()
        return True

    def _next_wake(self) -> int | None:
        """The earliest wake-up of all brokers. Only brokers that took a step since the last call are asked again."""
        wakes = self._wakes
        if self._unasked:
            for node_id in self._unasked:
                is_awake = node_id not in self._dead and node_id not in self._paused
                wakes[node_id] = self._wake_of(node_id) if is_awake else None
            self._unasked.clear()
        return min((wake_at for wake_at in wakes.values() if wake_at is not None), default=None)

    def _wake_of(self, node_id: int) -> int | None:
        """The next wake-up of a broker, on the clock of the world."""
        wake_at = self.nodes[node_id].wake_at()
        if wake_at is None or node_id not in self._ahead:
            return wake_at
        return self.now if wake_at <= self._clock(node_id) else wake_at - self._ahead[node_id]

    def _clock(self, node_id: int) -> int:
        """The time on the clock of a broker."""
        if node_id not in self._ahead:
            return self.now
        shown = self._shown[node_id] = max(self._shown[node_id], self.now + self._ahead[node_id])
        return shown

    def clock_ahead(self, node_id: int) -> int:
        """Milliseconds by which the clock of a broker is ahead."""
        return self._ahead.get(node_id, 0)

    def set_clock(self, node_id: int, *, ahead_ms: int) -> None:
        """Set the clock of a broker. A clock that already shows a later time stands still until that time."""
        self._shown[node_id] = self._clock(node_id)
        self._ahead[node_id] = ahead_ms
        self._unasked.add(node_id)
        # The broker now does the work that has become due.
        self.post(node_id, Tick())

    def client(self, node_id: int = 1, *, client_id: str | None = "client", hands: bool = False) -> SimClient:
        """A new connection to a node; a dead node closes it at once."""
        client = SimClient(self, node_id, client_id=client_id, hands=hands and not self._encoded)
        if node_id in self._dead:
            self._clients.pop((node_id, client.conn)).hung_up()
        return client

    def leader_known_to(self, node_id: int, topic: str, index: int) -> int:
        """The leader of a partition in this broker's metadata; -1 if there is no leader or no such partition."""
        registered = self.nodes[node_id].image.partition(topic, index)
        return -1 if registered is None else registered.leader

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None:
        """The event sink of every node."""
        now = self.now
        for fact in facts:
            self.facts.append((node_id, fact))
            self.fact_times.append(now)

    def arm(self, rule: Rule) -> Armed:
        """Apply a rule to the requests that are read from now on."""
        [armed] = self.rules.add([rule])
        return armed

    def disarm(self, armed: Armed) -> None:
        """Remove a rule; requests that it holds are served."""
        self.rules.remove(armed)
        self.run()

    def release(self, armed: Armed, count: int | None = None) -> None:
        """Serve the requests that a rule holds: `count` of them, or all."""
        self.rules.release(armed, count)
        self.run()

    def move_leader(self, topic: str, partition: int, to: int, *, unclean: bool = False) -> None:
        """Give a partition to another leader, or to the same one in a new leader epoch.

        `unclean`: the new leader need not be in sync, so that records may be lost.
        """
        controller = self.nodes[self.spec.controller_id].controller

        def move() -> None:
            refused = controller.move_leader(topic, partition, to, unclean=unclean)
            assert refused is None, refused

        self._step(self.spec.controller_id, Command(move))
        self.run()

    def set_replica_lag(self, node_id: int, milliseconds: int | None) -> None:
        """Set how long the replicas of a node take to acknowledge an append; None: they never do."""
        controller = self.nodes[self.spec.controller_id].controller
        self._step(self.spec.controller_id, Command(lambda: controller.set_replica_lag(node_id, milliseconds)))
        self.run()

    def pause(self, node_id: int) -> None:
        """Pause a node; events for it wait."""
        self._unasked.add(node_id)
        self._paused[node_id] = []

    def go_on(self, node_id: int) -> None:
        """Resume a paused node: it takes the events that have waited, then a tick."""
        waiting = self._paused.pop(node_id, [])
        if node_id not in self._dead:
            for event in waiting:
                self._step(node_id, event)
            self._step(node_id, Tick())
        self.run()

    def lose_links(self, node_id: int) -> None:
        """Break every connection between this node and other nodes."""
        for end, (peer, _) in list(self._links.items()):
            if end[0] == node_id != peer:
                self._break(*end)
        self.run()

    @property
    def running(self) -> list[int]:
        """The ids of the nodes that are not dead."""
        if len(self._running) + len(self._dead) != len(self.nodes):
            self._running = [node_id for node_id in self.nodes if node_id not in self._dead]
        return self._running

    def stop_broker(self, node_id: int, *, cleanly: bool = False, noticed: bool = True) -> None:
        """A broker dies: its memory and its connections are gone, and other brokers take over its partitions.

        If not `cleanly`, its replicas do not count as in sync when it comes back.
        If not `noticed`, the cluster holds it for alive and a leader until `notice_crash`, and it acknowledges nothing.
        """
        if node_id in self._dead:
            return
        self._end(node_id)
        if noticed:
            membership.see_off(self.spec, node_id, self.running, self._act, cleanly=cleanly)
        else:
            self._set_unheard(self.spec.unheard | {node_id})
            membership.succeed(self.spec, self.running, self._act)
        self.run()

    def _end(self, node_id: int) -> None:
        self._dead.add(node_id)
        self.populations.append((self.now, len(self.running)))
        self._unasked.add(node_id)
        self._paused.pop(node_id, None)
        # Its last effects are dropped; the step only makes sure that none of its flows can act later.
        self.nodes[node_id].step(Stopping(), self._clock(node_id))
        self._queue = [each for each in self._queue if each[2] != node_id]
        heapify(self._queue)
        for conn in [conn for each, conn in self._clients if each == node_id]:
            self._clients.pop((node_id, conn)).hung_up()
        for end, (peer, peer_conn) in list(self._links.items()):
            if end[0] == node_id != peer:
                # Messages that it sent before still arrive, and the end of the connection after them.
                self._links.pop((peer, peer_conn), None)
                self._post_to_peer(end, peer, Disconnected(peer_conn))
        self._links = {end: other for end, other in self._links.items() if end[0] != node_id}

    def end_all(self, *, with_machine: bool) -> None:
        """All brokers that run end at once, and start again with what the disk has kept.

        Their processes are killed, or the machine loses its power, and with it what was not synced.
        """
        assert self.disk is not None, "logs in memory end with their process"
        ended = self.running
        for node_id in ended:
            self._end(node_id)
        self.disk = self.disk.crashed(self.random) if with_machine else self.disk.killed()
        self.spec.unheard = frozenset()
        self.spec.cleanly = frozenset()
        if self.spec.controller_id not in ended:
            self.spec.controller_id = min(ended)
        self.store = self._open_store(self.spec.controller_id)
        for node_id in sorted(ended, key=self.spec.controller_id.__ne__):
            self.nodes[node_id] = self._make_node(node_id)
            self._dead.discard(node_id)
            self.rules.attach()
            self._step(node_id, Started())
        self.populations.append((self.now, len(ended)))
        for node_id in ended:
            membership.let_in(self.spec, node_id, ended, self._act)
        self.run()

    def notice_crash(self, node_id: int) -> None:
        """The controller notices that a broker has died."""
        self._set_unheard(self.spec.unheard - {node_id})
        membership.see_off(self.spec, node_id, self.running, self._act)
        self.run()

    def _set_unheard(self, unheard: frozenset[int]) -> None:
        """Tell all leaders which brokers' replicas acknowledge nothing."""
        self.spec.unheard = unheard
        for node_id in self.running:
            self._act_on(node_id, self.nodes[node_id].replicas.replication.adopt_all)

    def start_broker(self, node_id: int) -> None:
        """A broker that died starts again, with the state that its logs give."""
        assert node_id in self._dead, f"broker {node_id} runs"
        self.spec.unheard -= {node_id}
        membership.choose_controller(self.spec, node_id, self.running)
        self.nodes[node_id] = self._make_node(node_id)
        self._dead.discard(node_id)
        self.populations.append((self.now, len(self.running)))
        self.rules.attach()
        self._step(node_id, Started())
        membership.let_in(self.spec, node_id, self.running, self._act)
        self.run()

    def _act_on(self, node_id: int, act: Callable[[], None]) -> None:
        if node_id not in self._dead:
            self._step(node_id, Command(act))

    def _act(self, node_id: int, act: Callable[[ControllerRole], None]) -> None:
        self._step(node_id, Command(partial(act, self.nodes[node_id].controller)))

    def accept(self, node_id: int, client: SimClient) -> int:
        """A connection id for a client."""
        conn = self._next_conn
        self._next_conn += 1
        self._clients[node_id, conn] = client
        return conn

    def post(self, node_id: int, event: Event, *, at: int | None = None) -> None:
        """Deliver an event to a node later; events for the same time are delivered in the order of posting."""
        self._count += 1
        heappush(self._queue, (self.now if at is None else at, self._count, node_id, event))

    def _deliver(self) -> None:
        _, _, node_id, event = heappop(self._queue)
        self._steps.append((self.now, node_id, event))
        if node_id in self._paused:
            self._paused[node_id].append(event)
        elif node_id not in self._dead:
            self._step(node_id, event)

    def _step(self, node_id: int, event: Event) -> None:
        self.stepped.add(node_id)
        self._unasked.add(node_id)
        effects = self.nodes[node_id].step(event, self._clock(node_id))
        if effects:
            self._carry_out(node_id, effects)
        if self.rules.failures and self.log.raises:
            raise self.rules.failures.pop(0)

    def _carry_out(self, node_id: int, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Hand(conn=conn, messages=messages):
                    self._hand(node_id, conn, messages)
                case Send(conn=conn, chunks=chunks):
                    self._send(node_id, conn, b"".join(chunks))
                case Dial(conn=conn, node_id=peer):
                    self._dial(node_id, conn, peer)
                case Hangup(conn=conn):
                    self._hang_up(node_id, conn)
                case Announce(offset=offset):
                    for other in self.nodes:
                        if other != node_id:
                            self._post_to_peer((node_id, other), other, MetadataAdvanced(offset))
                case Advance(node_ids=others, topic=topic, index=index):
                    for other in others:
                        self._post_to_peer((node_id, other), other, LeaderAdvanced(topic, index))
                case NextTurn():
                    self.post(node_id, Turn())
                case Compute(work=work):
                    work.run()
                    self.post(node_id, Computed(work))
                case _:
                    pass

    def _send(self, node_id: int, conn: int, data: bytes) -> None:
        client = self._clients.get((node_id, conn))
        if client is not None:
            client.received(data)
        else:
            self._pass(node_id, conn, Received, data)

    def _hand(self, node_id: int, conn: int, messages: Sequence[Message]) -> None:
        client = self._clients.get((node_id, conn))
        if client is not None:
            client.handed(messages)
        else:
            self._pass(node_id, conn, Handed, messages)

    def _pass(self, node_id: int, conn: int, arrival: Callable[[int, T], Event], what: T) -> None:
        """Send to the broker at the other end, or lose the connection."""
        link = self._links.get((node_id, conn))
        if link is None:
            return
        if self.loss and self.random.random() < self.loss:
            self._break(node_id, conn)
            return
        peer, peer_conn = link
        self._post_to_peer((node_id, conn), peer, arrival(peer_conn, what))

    def _dial(self, node_id: int, conn: int, peer: int) -> None:
        if peer not in self.nodes or peer in self._dead:
            self.post(node_id, Disconnected(conn))
            return
        peer_conn = self._next_conn
        self._next_conn += 1
        self._links[node_id, conn] = (peer, peer_conn)
        self._links[peer, peer_conn] = (node_id, conn)
        self._post_to_peer((node_id, conn), peer, Connected(peer_conn, host="peer", port=node_id, broker=True))
        self._post_to_peer((peer, peer_conn), node_id, Dialled(conn))

    def _post_to_peer(self, path: tuple[int, int], node_id: int, event: Event) -> None:
        """Post an event with a random delay; messages on one path arrive in order."""
        at = self.now
        shortest, longest = self._delay_ms
        if longest:
            drawn = at + shortest + int(self.random.random() * (longest - shortest + 1))
            at = self._last_delivery[path] = max(drawn, self._last_delivery.get(path, 0))
        self.post(node_id, event, at=at)

    def _hang_up(self, node_id: int, conn: int) -> None:
        client = self._clients.pop((node_id, conn), None)
        if client is not None:
            client.hung_up()
            self.post(node_id, Disconnected(conn))
        else:
            self._break(node_id, conn)

    def _break(self, node_id: int, conn: int) -> None:
        link = self._links.pop((node_id, conn), None)
        if link is not None:
            self._links.pop(link, None)
            self.post(node_id, Disconnected(conn))
            self.post(link[0], Disconnected(link[1]))


def _told(event: Event) -> str:
    """An event in a few words; for a request with the name of its API."""
    name = type(event).__name__
    if isinstance(event, Handed) and isinstance(event.messages[0], HandedRequest):
        return f"{name} {event.messages[0].api_key.name} on {event.conn}"
    if not isinstance(event, Received):
        return name
    api = _API.unpack_from(event.data)[0] if event.conn > 0 and len(event.data) >= _API.size else None
    return f"{name} on {event.conn}" if api not in APIS else f"{name} {ApiKey(api).name} on {event.conn}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
