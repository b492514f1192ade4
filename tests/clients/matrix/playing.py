"""Plays cells: each in a cluster of its own, which tells what the client said to it."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.clients.driver import Failure, play
from tests.clients.matrix.control import Control, control_of, control_of_kafka
from tests.clients.matrix.plan import TRANSACTIONAL, Broker, Cell
from tests.clients.matrix.security import AUTHORIZED, USERS, admitted
from tests.clients.toolchain import MissingToolchain
from tests.oracle.real_kafka import RealKafka
from tests.oracle.releases.real import ReleasedKafka

from odradek.testing import Cluster

if TYPE_CHECKING:
    from odradek.core.machine import Fact

__all__ = ["Outcome", "play_against_kafka", "play_cell"]

CONFIG: Mapping[str, object] = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,  # 10 s if nobody says
    "group.initial.rebalance.delay.ms": 300,  # 3 s if nobody says
    # So long the group waits for an application that was killed: 45 s if nobody says, and no less.
    "group.streams.min.session.timeout.ms": 6000,
    "group.streams.session.timeout.ms": 6000,
    "group.streams.min.heartbeat.interval.ms": 500,
    "group.streams.heartbeat.interval.ms": 500,
    "group.share.min.record.lock.duration.ms": 1000,  # 15 s if nobody says
    "group.share.min.heartbeat.interval.ms": 500,
    "group.share.heartbeat.interval.ms": 500,
}
OPTIONS = {"records": 600, "transactions": 12}
# Doubled each time: some clients need a second or two to connect, others are done in less.
CHANGE_AFTER_S = 0.2
# A client of transactions of version 2 cannot go on at level 0, with a real broker neither.
LEVELS = (2, 1)
TIMEOUT_S = 240
ERROR_MAX = 500


@dataclasses.dataclass
class Outcome:
    """What came of a cell."""

    result: str
    """`passed`, `failed`, `lacking` (the client has no means) or `missing` (this machine has no means)."""
    library: str = ""
    seconds: float = 0.0
    error: str = ""
    spoken: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    """The versions of each API in which the client sent requests."""
    tries: int = 1


class Spoken:
    """An event sink that keeps which versions of which APIs clients used."""

    def __init__(self) -> None:
        self._versions: defaultdict[str, set[int]] = defaultdict(set)
        self.has_produced = threading.Event()

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None:
        """Take note of requests."""
        for fact in facts:
            if fact.kind == "request" and not fact.fields.get("from_broker"):
                api = str(fact.fields["api"])
                self._versions[api].add(int(str(fact.fields["version"])))
                if api == "PRODUCE":
                    self.has_produced.set()

    def versions(self) -> dict[str, list[int]]:
        """Sorted lists, by the name of the API."""
        return {api: sorted(versions) for api, versions in sorted(self._versions.items())}


def play_cell(cell: Cell) -> Outcome:
    """Play one cell; a failure is tried again, as often as its broker allows, and all tries count in `tries`."""
    outcome = Outcome("failed")
    for attempt in range(1, cell.broker.tries + 1):
        spoken = Spoken()
        with _cluster(cell.broker, spoken) as cluster, _changing(cell, control_of(cluster), spoken.has_produced):
            secured = admitted(cluster, cell.client.family) if cell.broker.secured else None
            outcome = _play(cell, cluster.bootstrap.split(",")[0], secured)
        outcome.spoken, outcome.tries = spoken.versions(), attempt
        if outcome.result != "failed":
            break
    return outcome


def play_against_kafka(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Outcome]]:
    """The same cells against a real broker: evidence that a failure is not ours."""
    begun = threading.Event()  # who asks a real broker cannot see what it is asked
    begun.set()
    for broker in dict.fromkeys(cell.broker for cell in cells if not cell.broker.secured):
        with _kafka(broker) as kafka:
            for cell in cells:
                if cell.broker == broker:
                    with _changing(cell, control_of_kafka(kafka), begun):
                        yield cell, _play(cell, kafka.bootstrap)


def _kafka(broker: Broker) -> RealKafka:
    if broker.as_kafka is not None:
        return ReleasedKafka(broker.as_kafka)
    assert broker.transaction_version is not None, "a broker has a level or is of a release"
    times = {key: str(value) for key, value in CONFIG.items() if key.startswith(("group.share.", "group.streams."))}
    return RealKafka(transaction_version=broker.transaction_version, properties=times)


def _play(cell: Cell, bootstrap: str, secured: Mapping[str, str] | None = None) -> Outcome:
    family, version = cell.client.family, cell.client.version
    topic = f"{family}-{version}-{cell.scenario}-{time.time_ns()}".replace("+", "-")
    try:
        result = play(
            family,
            cell.scenario,
            bootstrap,
            version=version,
            topic=topic,
            timeout=TIMEOUT_S,
            secured=secured,
            **OPTIONS,
        )
    except NotImplementedError as lacking:
        return Outcome("lacking", error=str(lacking))
    except MissingToolchain as missing:
        return Outcome("missing", error=str(missing))
    except Failure as failure:
        return Outcome("failed", error=(failure.error or str(failure))[-ERROR_MAX:])
    return Outcome("passed", library=result.client, seconds=result.seconds)


def _cluster(broker: Broker, spoken: Spoken) -> Cluster:
    level: dict[str, Any] = (
        {} if broker.transaction_version is None else {"transaction_version": broker.transaction_version}
    )
    release: dict[str, Any] = {} if broker.as_kafka is None else {"as_kafka": broker.as_kafka}
    secured: dict[str, Any] = {"security": "sasl-ssl", "users": USERS} if broker.secured else {}
    return Cluster(
        brokers=3,
        config={**CONFIG, **AUTHORIZED} if broker.secured else CONFIG,
        events=spoken,
        **level,
        **release,
        **secured,
    )


@contextlib.contextmanager
def _changing(cell: Cell, control: Control, begun: threading.Event) -> Iterator[None]:
    """Change the level of transaction.version again and again, from when the client has begun until it is done.

    A client looks at it when it connects. Those that send nothing twice after an answer was lost are disconnected.
    """
    if not cell.broker.changes:
        yield
        return
    done = threading.Event()
    disconnects = cell.scenario in {"idempotent", *TRANSACTIONAL}

    def change() -> None:
        while not begun.wait(CHANGE_AFTER_S):
            if done.is_set():
                return
        for count, level in enumerate(itertools.cycle(LEVELS)):
            if done.wait(CHANGE_AFTER_S * 2**count):
                return
            control.set_transaction_version(level)
            if disconnects:
                control.disconnect_clients()

    changer = threading.Thread(target=change)
    changer.start()
    try:
        yield
    finally:
        done.set()
        changer.join()
