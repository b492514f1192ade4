"""A cluster inside the process of a test, over real sockets, under the control of the test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import timedelta
from itertools import count
from os import PathLike, fspath
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from odradek.broker import EventSink, Logger, Node
from odradek.cli.logs import make_logger
from odradek.config.table import Config
from odradek.control.controls import Controls
from odradek.core.internal_topics import CoordinatorKind
from odradek.faults.armed import Armed
from odradek.faults.model import Rule
from odradek.host.cluster_spec import node_ids_of
from odradek.metadata.controller_role import StartTopic
from odradek.metadata.features import TRANSACTION_VERSION
from odradek.net.cluster import RunningCluster, start_cluster
from odradek.net.recent import Recent
from odradek.releases.release import Release
from odradek.testing import damage, proof, recordings, witness
from odradek.testing.arguments import checked, checked_topics, checked_types
from odradek.testing.beside import Beside
from odradek.testing.entered import Entered, place
from odradek.testing.loops import in_loop, runs_here

if TYPE_CHECKING:
    from odradek.net.client_settings import Access
    from odradek.net.prepared import Prepared
    from odradek.net.recording import Record
    from odradek.net.snapshot import ClusterSnapshot
    from odradek.telemetry.sink import Push
    from odradek.testing.snapshot import Snapshot

__all__ = ["Cluster"]

__tracebackhide__ = True
__unittest = True
"""A test's traceback ends with its own line and the sentence: pytest and unittest leave these frames out."""
T = TypeVar("T")

WAIT_S = 0.005
LAST_WORDS_S = 5.0
"""How long Python waits at its exit for a cluster that was never left."""


class Cluster:
    """A cluster for a test: `async with Cluster() as cluster` in its event loop, `with Cluster() as cluster` beside it.

    The synchronous form runs the cluster in a thread of its own; every method can be called from the test's thread.
    There is one broker, or `brokers`, with the ids 1, 2, … or `node_ids`; several give a topic up to three replicas.
    `bootstrap` is the address for clients. `config` takes broker keys by Kafka's names.
    `as_kafka` is the release of Kafka to imitate, such as "3.6"; the default is 4.4 with older API versions as well.
    `dialect` is a name from `odradek dialects`, or the folder of one of your own, in place of a release.
    `transaction_version` is the finalized level of the feature transaction.version at the start, if not the highest.
    `events` is a sink, or the path of a file that gets JSON lines, as from `odradek serve --events`.
    `security` takes the values of `odradek serve --security`; `access` then has the settings for clients.
    `users` are passwords by name, if clients log in.
    `topics` are names, `NAME:PARTITIONS`, `NAME:PARTITIONS:REPLICAS`, or `StartTopic`s.
    `rules` are there from the start: a list of them, or the path of a plan (docs/rules.md).
    `story` is the name of a story (docs/stories/): its rules, and the settings of its cluster that are not given here.
    `data_dir` is a folder for the logs, in Kafka's format: the next cluster on it goes on with them.
    With `sync` everything is on the device before it is acknowledged, so that it outlives the machine.
    `from_` is what `snapshot` of another cluster gave back, or the directory of one: this one is a fork, and goes on
    from that moment, with its brokers, release and listeners; `config` adds to its configuration (docs/fork.md).
    `record` is a new file that keeps everything that comes in, for `odradek replay` (docs/replay.md); `with_secrets`
    also records clusters with security.
    """

    def __init__(
        self,
        *,
        brokers: int | None = None,
        node_ids: Sequence[int] | None = None,
        topics: str | StartTopic | Iterable[str | StartTopic] = (),
        config: Mapping[str, object] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        seed: int | None = None,
        log: Logger | None = None,
        log_level: str = "error",
        transaction_version: int | None = None,
        as_kafka: str | None = None,
        dialect: str | PathLike[str] | None = None,
        events: EventSink | str | PathLike[str] | None = None,
        security: str | None = None,
        certs: str | PathLike[str] | None = None,
        rules: Iterable[Rule] | str | PathLike[str] = (),
        users: Mapping[str, str] | None = None,
        story: str | None = None,
        data_dir: str | PathLike[str] | None = None,
        from_: Snapshot | str | PathLike[str] | None = None,
        sync: bool = False,
        record: str | PathLike[str] | None = None,
        with_secrets: bool = False,
    ) -> None:
        checked_types(
            brokers=brokers,
            node_ids=node_ids,
            config=config,
            host=host,
            port=port,
            seed=seed,
            transaction_version=transaction_version,
            as_kafka=as_kafka,
            story=story,
        )
        if data_dir is not None and not fspath(data_dir):
            raise ValueError("The data directory has an empty name.")
        if sync and data_dir is None:
            raise ValueError("A sync goes with a data directory.")
        rules = proof.rules_of(rules)
        if story is not None:
            plan = proof.story(story)
            asked, rules = plan.cluster, [*plan.rules, *rules]
            brokers = asked.brokers if brokers is None and node_ids is None else brokers
            topics = [*map(StartTopic.parse, asked.topics), *checked_topics(topics)]
            config = {**asked.overrides, **(config or {})}
            as_kafka = as_kafka or asked.as_kafka
            transaction_version = asked.transaction_version if transaction_version is None else transaction_version
        levels = {"odradek.transaction.version": transaction_version, "odradek.as.kafka": as_kafka}
        overrides = {key: str(value) for key, value in levels.items() if value is not None}
        self._prepared: Prepared | None = None
        if security is not None:
            self._prepared = _prepared(security, host, port, certs, users)
            overrides |= self._prepared.config
        elif users or certs is not None:
            raise ValueError("Users and certificates go with security.")
        overrides |= {key: _text(value) for key, value in (config or {}).items()}
        takes_id = data_dir is not None and brokers is None and node_ids is None
        release = None if dialect is None else _dialect(dialect)
        self._from: ClusterSnapshot | None = None
        if from_ is not None:
            from odradek.net.snapshot import settings_of_fork
            from odradek.testing.snapshot import checked_snapshot  # few tests fork

            snapshot = checked_snapshot(from_, data_dir=data_dir)
            parsed = settings_of_fork(
                snapshot.cluster, overrides, release=release, brokers=brokers, node_ids=node_ids, security=security
            )
            self._from, takes_id, self._prepared = snapshot.cluster, True, snapshot.prepared
        else:
            parsed = Config.parse(overrides, release)
        self._arguments: dict[str, Any] = {
            "config": parsed,
            "log": log if log is not None else make_logger(level=log_level),
            "node_ids": None if takes_id else node_ids_of(brokers, node_ids),
            "host": host,
            "port": port,
            "topics": checked_topics(topics),
            "seed": seed,
            "data_dir": None if data_dir is None else Path(data_dir),
            "sync": sync,
        }
        self._record = None if record is None else _record(record, with_secrets)
        self._starts = count(1)
        if events is not None and not isinstance(events, str | PathLike) and not hasattr(events, "emit"):
            raise TypeError(
                f"Events go to the path of a file or to an object with emit(node_id, facts), not to {events!r}."
            )
        self._events = events
        self._rules = rules
        self._cluster: RunningCluster | None = None
        self._beside: Beside | None = None
        self._entered: Entered | None = None
        self._exits: ExitStack | None = None
        self._warned = 0

    def _check_not_entered(self) -> None:
        if self._exits is not None:
            self._check_process()
            raise RuntimeError("This cluster runs already: it is entered once at a time.")

    def _is_forked_away(self, error: BaseException | None) -> bool:
        """Whether a forked process leaves the cluster with an error of its own, sys.exit included.

        Raises RuntimeError if a forked process leaves it without an error.
        """
        if error is None:
            self._check_process()
        return self._entered is not None and not self._entered.is_here

    def _check_process(self) -> None:
        if self._entered is not None:
            self._entered.check_process()

    async def __aenter__(self) -> Self:
        self._check_not_entered()
        with ExitStack() as exits:
            self._cluster = await self._start(exits)
            self._exits = exits.pop_all()
        self._entered = Entered()
        try:
            self._warned = damage.warn(self._running, 0, stacklevel=2)
        except Warning as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_forked_away(error):
            return
        note = witness.leaves(self._running, error)
        cluster, self._cluster = self._running, None
        await cluster.stop()
        self._leave()
        proof.end(cluster, error, note)
        if error is None:
            damage.warn(cluster, self._warned, stacklevel=2)

    def __enter__(self) -> Self:
        self._check_not_entered()
        with ExitStack() as exits:
            self._beside = exits.enter_context(closing(Beside()))
            self._cluster = self._beside.call(self._start(exits))
            self._exits = exits.pop_all()
        self._entered = Entered(self._end_with_python)
        try:
            self._warned = damage.warn(self._running, 0, stacklevel=2)
        except Warning as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_forked_away(error):
            return
        note = witness.leaves(self._running, error)
        cluster, self._cluster = self._running, None
        assert self._beside is not None, "a cluster that runs was entered"
        self._beside.call(cluster.stop())
        self._leave()
        self._beside = None
        proof.end(cluster, error, note)
        if error is None:
            damage.warn(cluster, self._warned, stacklevel=2)

    def _leave(self) -> None:
        exits, self._exits = self._exits, None
        assert exits is not None, "a cluster that runs was entered"
        assert self._entered is not None, "a cluster that runs was entered"
        self._entered.left()
        exits.close()

    def _end_with_python(self) -> None:
        """End a cluster that was never left; if its thread does not answer, it ends with the process."""
        cluster, self._cluster = self._running, None
        assert self._beside is not None, "a cluster that runs was entered"
        if self._beside.ends(cluster.stop(), timeout_s=LAST_WORDS_S):
            self._leave()

    async def _start(self, exits: ExitStack) -> RunningCluster:
        events = self._events
        if isinstance(events, str | PathLike):
            from odradek.net.event_log import (
                EventLog,
            )  # it imports structlog, which a start without events does not need

            if self._arguments["data_dir"] is not None:
                from odradek.net.apart import check_apart

                check_apart(Path(events), data_dir=self._arguments["data_dir"])
            events = exits.enter_context(closing(EventLog(Path(events), self._arguments["log"])))
        recent = Recent(also=events)
        record = recordings.of_test() if self._record is None else self._record.nth(next(self._starts))
        if self._from is not None:
            # Work that the snapshot owes is done when the brokers start; a rule may have to hold it.
            cluster = await start_cluster(
                **self._arguments,
                events=recent,
                record=record,
                snapshot=self._from,
                before_start=(lambda cluster: proof.add_rules(cluster, self._rules)) if self._rules else None,
            )
        else:
            cluster = await start_cluster(**self._arguments, events=recent, record=record)
        if self._record is None and record is not None:
            recordings.started(cluster)
        recent.started(cluster.clock.now)
        if cluster.data_dir is not None:
            damage.note_events(cluster, recent)
        if self._rules and self._from is None:
            try:
                proof.add_rules(cluster, self._rules)
            except BaseException:
                await cluster.stop()
                raise
        witness.RUNNING[cluster] = recent
        return cluster

    def snapshot(self, directory: str | PathLike[str] | None = None) -> Snapshot:
        """The cluster as it is now, for `Cluster(from_=…)`: nothing that was acknowledged before is missing.

        All brokers are seen at one moment, also while clients write. It outlives the cluster, and costs no copy of the
        records. Rules, connections and what else Kafka loses in a restart of all brokers are not in it.
        With `directory`, a new or empty one, a cluster with a `data_dir` is written there: files of Kafka's that other
        processes fork, too. Raises RuntimeError for a cluster that does not run, and `odradek.cli.usage.UsageError`
        where the directory cannot be written.
        """
        from odradek.testing.snapshot import Snapshot  # few tests fork

        path = None if directory is None else Path(directory)
        return Snapshot(self._call(lambda: self._running.snapshot(path)), prepared=self._prepared)

    @property
    def warnings(self) -> list[str]:
        """What is missing or damaged in the data directory, as far as it was found; each is a `DataDirWarning`, too."""
        return list(self._running.warnings)

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT` of every broker, separated by commas: a client's bootstrap servers."""
        return self._running.bootstrap

    @checked
    def bootstrap_of(self, listener: str) -> str:
        """The bootstrap servers of one listener. Raises LookupError if there is no listener of this name."""
        return self._running.bootstrap_of(listener)

    @property
    def access(self) -> Access:
        """Settings for clients of a secured cluster: `access.librdkafka` and `access.java`."""
        if self._prepared is None:
            raise LookupError(
                "this cluster was made without security, and its listeners are known to who configured them"
            )
        return self._prepared.access(self.bootstrap)

    @property
    def broker_ids(self) -> list[int]:
        """The ids of the brokers: those that were asked for, or 1, 2, …"""
        return sorted(self._running.drivers)

    @checked
    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition; -1 if none does."""
        return self._call(lambda: self._controls.leader(topic, partition))

    @checked
    def add_rule(self, rule: Rule) -> Armed:
        """Apply a rule to the requests that are read from now on; the returned object counts them.

        Raises `RuleError` if it does not fit the cluster or the other rules.
        """
        [armed] = self.add_rules([rule])
        return armed

    @checked
    def add_rules(self, rules: Iterable[Rule] | str | PathLike[str]) -> list[Armed]:
        """Apply several rules, or those of the plan at this path: all of them or none."""
        read = proof.rules_of(rules)
        made = self._call(lambda: proof.add_rules(self._running, read))
        file, line = place()
        for armed in made:
            if armed.rule.name is None:
                armed.added_at = f"{Path(file).name}:{line}"
        return made

    @checked
    def remove_rule(self, armed: Armed) -> None:
        """Remove a rule; requests that it holds are served. Its expectations stay."""
        self._call(lambda: self._controls.remove_rule(armed))

    @checked
    def release(self, armed: Armed, count: int | None = None) -> int:
        """Serve the requests that a rule holds, or `count` of them, and keep the rule; returns their number."""
        return self._call(lambda: self._controls.release(armed, count))

    def verify(self) -> None:
        """Raise AssertionError if an expectation of a rule is not met; raise the exception of a rule's function."""
        self._call(lambda: proof.raise_what_rules_say(self._running, None))

    @checked
    def wait(
        self,
        *,
        rule: Mapping[str, object] | None = None,
        transaction: Mapping[str, object] | None = None,
        partition: Mapping[str, object] | None = None,
        group: Mapping[str, object] | None = None,
        telemetry: Mapping[str, object] | None = None,
        timeout_s: float = 10,
    ) -> list[object]:
        """Return as soon as all of these conditions hold, with the states found; they are data, as in the hub's `wait`.

        `rule`: `name`, and `held` or `hits`; `transaction`: `id` and `state`; `partition`: `topic`, `partition`, and a
        `last_stable_offset` or `high_watermark` to reach; `group`: `id`, and a `state` or a number of `members`;
        `telemetry`: a push with a `metric` of this prefix, of a `client_id`, `terminating` or not, or the `count`-th.

        Raises:
            ValueError: there is no condition, or an unknown one.
            LookupError: there is no such rule.
            RuntimeError: no broker accepts metrics of clients.
            TimeoutError: after `timeout_s`; the text has the present state.
            RuntimeError: the cluster is left meanwhile, by another thread.
        """
        self._refuse_to_block("wait")
        from odradek.testing.waiting import wait  # most tests do not load the words of the hub

        return wait(
            self._running,
            timeout_s,
            rule=rule,
            transaction=transaction,
            partition=partition,
            group=group,
            telemetry=telemetry,
        )

    @checked
    def wait_for(self, condition: Callable[[], object], timeout_s: float = 10) -> None:
        """Return as soon as the condition is true; it is called in the test's thread. TimeoutError after `timeout_s`.

        Not for `async with`, whose brokers do nothing while the test waits.
        """
        self._refuse_to_block("wait_for")
        ends = monotonic() + timeout_s
        while not condition():
            rules = self._running.rules  # or the cluster has been left, and its state does not change any more
            if monotonic() > ends:
                unmet = "; ".join(armed.report().unmet or "" for armed in rules)
                raise TimeoutError(f"The condition is not true after {timeout_s:g} s. {unmet}".strip())
            sleep(WAIT_S)

    @checked
    def advertise(self, broker: int, *, port: int, host: str | None = None, listener: str | None = None) -> None:
        """Change the advertised address of a broker, for example if a container's ports are mapped.

        It listens where it did. Defaults: the first listener, and the host that was advertised before.
        """
        self._call(lambda: self._controls.advertise(broker, port=port, host=host, listener=listener))

    def reload_certificates(self) -> None:
        """Read the keys and certificates of every listener again; connections that stand keep theirs.

        Raises `odradek.cli.usage.UsageError` if they cannot be used, and keeps the old ones.
        """
        self._call(self._controls.reload_certificates)

    @checked
    def move_leader(self, topic: str, partition: int, *, to: int | None = None, unclean: bool = False) -> int:
        """Give a partition to another broker, or to the same one in a new leader epoch; it replays the log.

        Without `to` it is the next running broker in sync, or the same if there is no other. Returns the new leader.
        With `unclean` it may be out of sync: records that it lacks are lost, even committed ones.

        Raises:
            LookupError: there is no such partition or broker.
            RuntimeError: the broker does not run, or is out of sync without `unclean`.
        """
        return self._call(lambda: self._controls.move_leader(topic, partition, to=to, unclean=unclean))

    @checked
    def move_transaction_coordinator(
        self, transactional_id: str, *, to: int | None = None, unclean: bool = False
    ) -> int:
        """Move the coordinator of a transactional id, or reload it, as `move_leader` does; returns its new broker."""
        kind = CoordinatorKind.TRANSACTION
        return self._call(lambda: self._controls.move_coordinator(kind, transactional_id, to=to, unclean=unclean))

    @checked
    def move_group_coordinator(self, group_id: str, *, to: int | None = None, unclean: bool = False) -> int:
        """Move the coordinator of a group, or reload it, as `move_leader` does; returns its new broker."""
        kind = CoordinatorKind.GROUP
        return self._call(lambda: self._controls.move_coordinator(kind, group_id, to=to, unclean=unclean))

    @checked
    def set_coordinator_load_ms(self, milliseconds: int) -> None:
        """From now on coordinators take this long to load, and answer COORDINATOR_LOAD_IN_PROGRESS meanwhile."""
        self._call(lambda: self._controls.set_coordinator_load_ms(milliseconds))

    @checked
    def set_replica_lag(self, broker: int, milliseconds: int | None) -> None:
        """Set how long the replicas of a broker take to acknowledge an append; None: they never do.

        With 0, as at the start, records are committed as soon as they are appended.
        """
        self._call(lambda: self._controls.set_replica_lag(broker, milliseconds))

    @checked
    def set_producer_epoch(self, transactional_id: str, epoch: int) -> None:
        """Give an idle transactional id this epoch, as if its producer had run for long."""
        self._call(lambda: self._controls.set_producer_epoch(transactional_id, epoch))

    @checked
    def set_transaction_version(self, level: int) -> None:
        """Finalize another level of transaction.version, up or down, as an operator would (UpdateFeatures).

        Clients read it when they connect; see `disconnect_clients`.
        """
        self._call(lambda: self._controls.set_feature(TRANSACTION_VERSION, level))

    def disconnect_clients(self) -> None:
        """Close every connection of a client; requests in flight are served, and their responses lost."""
        self._call(lambda: self._controls.disconnect_clients())

    @checked
    def stop_broker(self, broker: int, *, cleanly: bool = False, fence_after_ms: int = 0) -> None:
        """Stop a broker; others take over its partitions. It may be stopped already.

        If not `cleanly`, it crashes like a machine: as in Kafka, such a broker is not eligible as a leader when it is
        back (KIP-966), unless it was the last one.
        With `fence_after_ms` the controller notices the crash so much later, by the brokers' clock. Until then Metadata
        and FindCoordinator name the broker, and it refuses connections. Kafka takes `broker.session.timeout.ms` (9 s).
        Raises ValueError for a negative number, and for a clean shutdown with `fence_after_ms`.
        """
        self._call(lambda: self._controls.stop_broker(broker, cleanly=cleanly, fence_after_ms=fence_after_ms))

    @checked
    def start_broker(self, broker: int) -> None:
        """Start a stopped broker again, at the same address. It may run already."""
        self._call(lambda: self._controls.start_broker(broker))

    @checked
    def pause_broker(self, broker: int) -> None:
        """Pause a broker: it reads nothing from clients or other brokers, while its connections stay open.

        Requests to it wait for `resume_broker`. Its clock and its own work go on; after `broker.session.timeout.ms` it
        is fenced, and other brokers lead its partitions.
        Raises RuntimeError for a stopped broker.
        """
        self._call(lambda: self._controls.pause_broker(broker))

    @checked
    def resume_broker(self, broker: int) -> None:
        """Resume a paused broker: it reads the waiting requests first. It may run already."""
        self._call(lambda: self._controls.resume_broker(broker))

    @checked
    def advance(self, time: timedelta) -> None:
        """Let time pass for the brokers: everything that becomes due happens in order before this returns.

        Clients keep their own clocks. Raises ValueError for a negative time.
        """
        milliseconds = time // timedelta(milliseconds=1)
        self._call(lambda: self._running.advance(milliseconds))

    def freeze(self) -> None:
        """Stop the brokers' clock: nothing becomes due until `advance` or `resume`."""
        self._call(lambda: self._running.freeze())

    def resume(self) -> None:
        """Let the brokers' clock run again from its present time."""
        self._call(lambda: self._running.resume())

    @checked
    def metrics(self, broker: int | None = None) -> dict[str, float]:
        """The metrics of a broker (default: the controller), by the names of docs/metrics.md."""
        return self._call(lambda: self._node(broker).metrics.snapshot())

    def telemetry(self) -> list[Push]:
        """The metrics that clients have pushed, oldest first: the last thousand pushes to each broker (KIP-714).

        Raises RuntimeError without `config={"odradek.telemetry": True}`.
        """
        from odradek.control.telemetry import pushes  # most tests do not load the words of the hub

        return [push for _, push in self._call(lambda: pushes(self._running))]

    @checked
    def wait_for_telemetry(
        self,
        metric: str = "",
        *,
        client_id: str | None = None,
        terminating: bool | None = None,
        timeout_s: float = 10,
    ) -> Push:
        """Return the first push with a metric of this prefix as soon as it is there; TimeoutError after `timeout_s`.

        `client_id` and `terminating` (the last push of a client) narrow it down. Not for `async with`.
        """
        from odradek.control.telemetry import matches

        found: list[Push] = []

        def is_there() -> bool:
            found[:] = [each for each in self.telemetry() if matches(each, metric, client_id, terminating)]
            return bool(found)

        self.wait_for(is_there, timeout_s=timeout_s)
        return found[0]

    def _refuse_to_block(self, method: str) -> None:
        self._check_process()
        if runs_here(self._running.loop):
            raise RuntimeError(f"{method} would keep its own brokers from working: use it beside `with Cluster()`.")

    @property
    def _running(self) -> RunningCluster:
        if self._cluster is None:
            raise RuntimeError("the cluster does not run: use it as a context manager")
        return self._cluster

    @property
    def _controls(self) -> Controls:
        return Controls(self._running)

    def _node(self, node_id: int | None = None) -> Node:
        return self._controls.node(node_id)

    def _call(self, function: Callable[[], T]) -> T:
        """Call a function in the loop of the cluster, so that nothing happens at the same time."""
        self._check_process()
        return in_loop(self._running.loop, function)


def _prepared(
    security: str, host: str, port: int, certs: str | PathLike[str] | None, users: Mapping[str, str] | None
) -> Prepared:
    from odradek.net.prepared import Prepared  # few tests use it

    return Prepared(security, host=host, port=port, folder=None if certs is None else Path(certs), users=users)


def _record(path: str | PathLike[str], with_secrets: bool) -> Record:
    from odradek.net.recording import Record  # most clusters are not recorded

    return Record(path=Path(path), with_secrets=with_secrets)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _dialect(name: str | PathLike[str]) -> Release:
    from odradek.releases.dialects.load import load  # a cluster of Kafka needs none of it

    return load(fspath(name))
