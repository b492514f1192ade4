"""The clusters that runs are recorded on, and what happens to them meanwhile.

Each is a context that gives a `Ground`: the address for the client. Its recordings are in `Recordings`, and are whole
when the context has ended. What happens, and when, is drawn from the number of the run; how far the client is by then
differs from one machine to the next.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

from tests.clients.driver import Failure, play
from tests.clients.matrix.playing import CONFIG
from tests.clients.matrix.security import AUTHORIZED, USERS, admitted

from bench.recordings.plan import Run
from odradek.testing import Cluster, rule

__all__ = ["GROUNDS", "Ground", "Recordings"]

START_S = 60
LOOK_S = 0.01
"""How often the size of a recording is looked at."""
PAUSES_S = (0.05, 0.4)
"""The least and the longest time between two things that happen to a cluster."""
FAMILIES_BEFORE = ("transactions", "group", "zombie")
"""What was played on a directory, or is played while a snapshot is made."""
BYTES_BEFORE = (2_000, 60_000)
"""The least and the most that is recorded before a broker is killed, or a snapshot is made."""
FIRST_PORT, PORTS_APART, PORTS_USED = 20_000, 10, 1_000
"""Below those that the kernel gives to clients: one of these might be taken when the second process begins."""
RELEASES = ("2.8", "3.3", "3.6", "3.9", "4.0", "4.3")


@dataclass(frozen=True)
class Ground:
    """What a client needs for its run."""

    bootstrap: str
    secured: Mapping[str, str] | None = None
    """The environment of a client that logs in."""


@dataclass
class Recordings:
    """The files of one run, in its folder."""

    folder: Path
    whole: list[Path] = field(default_factory=list)
    cut: list[Path] = field(default_factory=list)
    """Of processes that were killed: they end without the end of their cluster."""

    def new(self) -> Path:
        """The path of one more recording."""
        path = self.folder / f"{len(self.whole) + len(self.cut) + 1}.rec"
        self.whole.append(path)
        return path

    def is_cut(self, path: Path) -> None:
        """Its process was killed."""
        self.whole.remove(path)
        self.cut.append(path)


Kind = Callable[[Run, Recordings], AbstractContextManager[Ground]]


def _cluster(run: Run, recordings: Recordings, **arguments: Any) -> Cluster:
    usual = {"brokers": run.brokers, "transaction_version": run.level, "config": CONFIG}
    return Cluster(**{"record": recordings.new(), "seed": run.number, **usual, **arguments})


@contextmanager
def plain(run: Run, recordings: Recordings) -> Iterator[Ground]:
    """One broker, or three, at a level of transaction.version."""
    with _cluster(run, recordings) as cluster:
        yield _ground(cluster)


def _ground(cluster: Cluster) -> Ground:
    return Ground(cluster.bootstrap.split(",")[0])


@contextmanager
def of_a_release(run: Run, recordings: Recordings) -> Iterator[Ground]:
    """An older release of Kafka."""
    release = Random(run.number).choice(RELEASES)
    with _cluster(run, recordings, as_kafka=release, transaction_version=None) as cluster:
        yield _ground(cluster)


@contextmanager
def secured(run: Run, recordings: Recordings) -> Iterator[Ground]:
    """Clients log in over TLS, and may do what ACLs let them do."""
    access: dict[str, Any] = {"security": "sasl-ssl", "users": USERS, "with_secrets": True}
    with _cluster(run, recordings, config={**CONFIG, **AUTHORIZED}, **access) as cluster:
        yield Ground(cluster.bootstrap.split(",")[0], admitted(cluster, run.family))


@contextmanager
def faulty(run: Run, recordings: Recordings) -> Iterator[Ground]:
    """Rules delay requests, lose them or their answers, and refuse them, by chance."""
    now_and_then: dict[str, Any] = {"times": "all", "probability": 0.05}
    rules = [
        rule(["PRODUCE", "FETCH", "END_TXN"], disconnect="after", **now_and_then),
        rule(["PRODUCE", "INIT_PRODUCER_ID", "JOIN_GROUP"], disconnect="before", **now_and_then),
        rule(
            ["END_TXN", "TXN_OFFSET_COMMIT", "ADD_PARTITIONS_TO_TXN"], error="CONCURRENT_TRANSACTIONS", **now_and_then
        ),
        rule(["FIND_COORDINATOR"], error="COORDINATOR_NOT_AVAILABLE", **now_and_then),
        rule("PRODUCE", duplicate=True, **now_and_then),
        rule("any", delay_ms=20, **now_and_then),
        rule("any", answer_delay_ms=20, **now_and_then),
    ]
    with _cluster(run, recordings, rules=rules) as cluster:
        yield _ground(cluster)


Deed = Callable[[Cluster, Random], object]


@contextmanager
def _meanwhile(cluster: Cluster, run: Run, *deeds: Deed) -> Iterator[None]:
    """Do one after the other, in a thread of its own, until the client is done; what cannot be done is left out."""
    done, chance = threading.Event(), Random(run.number)

    def disturb() -> None:
        for deed in cycle(deeds):
            if done.wait(chance.uniform(*PAUSES_S)):
                return
            with suppress(RuntimeError, LookupError, ValueError):
                deed(cluster, chance)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _stop_any(cluster: Cluster, chance: Random) -> None:
    cluster.stop_broker(chance.choice(cluster.broker_ids), cleanly=chance.random() < 0.5)


def _start_all(cluster: Cluster, _: Random) -> None:
    for broker in cluster.broker_ids:
        cluster.start_broker(broker)
        cluster.resume_broker(broker)


def _pause_any(cluster: Cluster, chance: Random) -> None:
    cluster.pause_broker(chance.choice(cluster.broker_ids))


@contextmanager
def restarting(run: Run, recordings: Recordings) -> Iterator[Ground]:
    """Brokers crash, stop, pause, and come back."""
    with (
        _cluster(run, recordings, brokers=3) as cluster,
        _meanwhile(cluster, run, _stop_any, _start_all, _pause_any, _start_all),
    ):
        yield _ground(cluster)


@contextmanager
def restarting_on_disk(run: Run, recordings: Recordings) -> Iterator[Ground]:
    """The same with a data directory: brokers read it when they come back."""
    with (
        _cluster(run, recordings, data_dir=recordings.folder / "data", sync=run.number % 2 == 0) as cluster,
        _meanwhile(cluster, run, _stop_any, _start_all),
    ):
        yield _ground(cluster)


@contextmanager
def moving(run: Run, recordings: Recordings) -> Iterator[Ground]:
    """Partitions and coordinators move, slowly at times; replicas lag; clients are disconnected."""
    deeds: list[Deed] = [
        lambda cluster, chance: cluster.move_leader(run.topic(), chance.randrange(3)),
        lambda cluster, _: cluster.move_transaction_coordinator(run.topic("-id")),
        lambda cluster, chance: cluster.set_coordinator_load_ms(chance.choice((0, 0, 50))),
        lambda cluster, _: cluster.move_group_coordinator(run.topic("-group")),
        lambda cluster, chance: cluster.set_replica_lag(chance.choice(cluster.broker_ids), chance.choice((0, 30))),
        lambda cluster, _: cluster.disconnect_clients(),
    ]
    with _cluster(run, recordings) as cluster, _meanwhile(cluster, run, *deeds):
        yield _ground(cluster)


@contextmanager
def changing(run: Run, recordings: Recordings) -> Iterator[Ground]:
    """The level of transaction.version changes, and the brokers' time is moved and stands still."""
    deeds: list[Deed] = [
        lambda cluster, _: cluster.set_transaction_version(1),
        lambda cluster, chance: cluster.advance(timedelta(milliseconds=chance.randrange(1500))),
        lambda cluster, _: cluster.set_transaction_version(2),
        lambda cluster, _: cluster.disconnect_clients(),
        lambda cluster, _: cluster.freeze(),
        lambda cluster, _: cluster.resume(),
    ]
    with _cluster(run, recordings, transaction_version=2) as cluster, _meanwhile(cluster, run, *deeds):
        yield _ground(cluster)


@contextmanager
def going_on(run: Run, recordings: Recordings) -> Iterator[Ground]:
    """A data directory on which something else was played before; that is recorded, too."""
    where: dict[str, Any] = {"data_dir": recordings.folder / "data", "sync": run.number % 2 == 0}
    with _cluster(run, recordings, **where) as cluster:
        _play_before(run, cluster)
    with _cluster(run, recordings, brokers=None, **where) as cluster:
        yield _ground(cluster)


def _play_before(run: Run, cluster: Cluster) -> None:
    named = {"topic": run.topic("-before"), "group": run.topic("-group"), "transactional_id": run.topic("-id")}
    options: dict[str, Any] = {**named, "records": 60, "partitions": 3, "transactions": 4}
    scenario = Random(run.number).choice(FAMILIES_BEFORE)
    family = "java" if run.family.startswith("kafka-s") else run.family
    with suppress(Failure, NotImplementedError):
        play(family, scenario, cluster.bootstrap.split(",")[0], timeout=60, **options)


@contextmanager
def _forked(run: Run, recordings: Recordings, **where: Any) -> Iterator[Ground]:
    """A fork of a cluster whose client goes on there, as if nothing was. Both clusters are recorded."""
    with _cluster(run, recordings, **where) as origin:
        [recording] = recordings.whole
        client = threading.Thread(target=_play_before, args=(run, origin))
        client.start()
        try:
            _wait_for_bytes(recording, run, until=lambda: not client.is_alive())
            snapshot = origin.snapshot(recordings.folder / "kept" if where and run.number % 2 else None)
            fork = Cluster(from_=snapshot, record=recordings.new(), seed=run.number)
            with fork as cluster:
                yield _ground(cluster)
        finally:
            client.join()


def forked(run: Run, recordings: Recordings) -> AbstractContextManager[Ground]:
    """A fork of what is in memory."""
    return _forked(run, recordings)


def forked_from_disk(run: Run, recordings: Recordings) -> AbstractContextManager[Ground]:
    """A fork of a data directory in use, in memory or by a copy of the directory."""
    return _forked(run, recordings, data_dir=recordings.folder / "data")


def _wait_for_bytes(recording: Path, run: Run, *, until: Callable[[], bool]) -> None:
    """Until the recording has become longer by so much, or this holds."""
    least = recording.stat().st_size + Random(run.number).randrange(*BYTES_BEFORE)
    pause = threading.Event()
    while recording.stat().st_size < least and not until():
        pause.wait(LOOK_S)


@contextmanager
def killed(run: Run, recordings: Recordings) -> Iterator[Ground]:
    """A process with a data directory gets SIGKILL while its client is at work; another one goes on."""
    ports = FIRST_PORT + PORTS_APART * (run.number % PORTS_USED)
    words = ["--port", str(ports), "--data-dir", str(recordings.folder / "data"), "--seed", str(run.number)]
    words += ["--transaction-version", str(run.level), "--log-level", "error", *(["--sync"] * (run.number % 2))]
    words += [word for key, value in CONFIG.items() for word in ("--set", f"{key}={value}")]
    first = recordings.new()
    process = _serve(first, *words, "--brokers", str(run.brokers))
    done, processes = threading.Event(), [process]

    def kill() -> None:
        _wait_for_bytes(first, run, until=done.is_set)
        process.kill()
        process.wait()
        recordings.is_cut(first)
        processes[:] = [_serve(recordings.new(), *words)]

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield Ground(f"127.0.0.1:{ports}")
    finally:
        done.set()
        killer.join()
        for each in processes:
            each.terminate()
            assert each.wait(START_S) is not None


def _serve(recording: Path, *words: str) -> subprocess.Popen[str]:
    """A process that is ready."""
    command = [sys.executable, "-m", "odradek", "serve", "--record", str(recording), *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if not process.stdout.readline().startswith("odradek ready"):
        raise RuntimeError(f"no start: {' '.join(command)}, exit code {process.wait(START_S)}")
    return process


GROUNDS: dict[str, Kind] = {
    "plain": plain,
    "release": of_a_release,
    "secured": secured,
    "faulty": faulty,
    "restarting": restarting,
    "restarting-on-disk": restarting_on_disk,
    "moving": moving,
    "changing": changing,
    "going-on": going_on,
    "forked": forked,
    "forked-from-disk": forked_from_disk,
    "killed": killed,
}
