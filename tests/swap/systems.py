"""Two systems that go on with one directory: a real Kafka, and Odradek as a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from tests.oracle.real_kafka import PROPERTIES, RealKafka, free_port

__all__ = ["OFTEN", "SHARED", "Kafka", "Odradek", "System", "directory", "folders", "free_ports", "is_cut", "shared"]

SHARED = {
    **{
        key: value
        for key, value in PROPERTIES.items()
        if "topic" in key or "state.log" in key or key.startswith("num.p")
    },
    "log.index.interval.bytes": "256",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.max.timeout.ms": "3600000",
    "log.cleaner.backoff.ms": "200",
    # Records that a member has acquired stay its own while the machine is busy.
    "group.share.record.lock.duration.ms": "600000",
    "group.share.max.record.lock.duration.ms": "600000",
    # Members that say nothing are to stay through a change of systems on a slow machine.
    **{
        f"group.{kind}.{key}.ms": "600000"
        for kind in ("consumer", "share", "streams")
        for key in ("session.timeout", "max.session.timeout")
    },
}
"""What both are configured with, as one broker."""
OFTEN = {
    # Segments whose records were deleted go soon.
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "500",
    # Kafka writes once a minute where logs begin; Odradek once a second.
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    # The state of a share group is written as a whole often, and what came before goes (Kafka's cleaner of it).
    "share.coordinator.snapshot.update.records.per.snapshot": "2",
    "share.coordinator.state.topic.prune.interval.ms": "1000",
    "share.coordinator.cold.partition.snapshot.interval.ms": "3600000",
}
"""What both do soon, and would do after minutes."""
REPLICATED = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)


def shared(brokers: int) -> dict[str, str]:
    """What both are configured with, as clusters of so many brokers: each has a replica of everything."""
    return {**SHARED, **dict.fromkeys(REPLICATED, str(brokers))}


TOGETHER = {"controlled.shutdown.enable": "false"}
"""What nodes of Kafka are configured with that all stop at once.

A controlled shutdown asks the controllers, and most of these have gone then: the last node would wait for minutes.
"""
PATIENT = {"broker.session.timeout.ms": "9000"}
"""What nodes of Kafka are configured with, so that their controller fences none of them because its machine is busy.

A fenced node leads nothing, and a coordinator that has markers to write then takes the partitions for deleted.
After SIGKILL a node waits so long before it may register.
"""
FORGETS = "these partitions are likely deleted already and hence can be skipped"
"""A line of Kafka's coordinator: it writes no markers, and completes the transaction."""
READY = "odradek ready bootstrap="
STOP_S = 120
START_S = 240
KAFKA_STARTS_SLOWER = 8
QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""The virtual machine starts in less time, and compiles less."""


CUT = ("Found invalid messages in log segment", "Corruption found in segment", "log_tail_cut")
"""Lines for the end of a log that a killed process had begun to write, or had reserved and not written to."""


def is_cut(line: str) -> bool:
    return any(words in line for words in CUT)


class System(Protocol):
    """A broker that runs on a directory, or has been ended there."""

    name: str

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def start_in_vain(self, seconds: float) -> None:
        """Start it, and kill it when so much of the time that a start takes is over (Odradek's; Kafka's is longer)."""

    def complaints(self) -> list[str]:
        """Lines of its log that say that something is wrong with the directory."""


def directory(root: Path) -> Path:
    """Where the logs lie."""
    return root / "data"


def folders(root: Path) -> list[Path]:
    """The directory of each broker: that of all logs, if it is of one broker."""
    return sorted(directory(root).glob("broker-*")) or [directory(root)]


def free_ports(count: int) -> int:
    """The first of so many ports in a row of the loopback interface that nobody listens on now."""
    while True:
        ports = [free_port() for _ in range(count)]
        if ports[-1] == ports[0] + count - 1:
            return ports[0]


class Kafka:
    """A real Kafka: one node, or some on ports in a row. All are brokers and controllers."""

    name = "Kafka"

    def __init__(
        self,
        root: Path,
        port: int,
        *,
        level: int = 2,
        settings: Mapping[str, str] | None = None,
        brokers: int = 1,
        others: Mapping[str, str] | None = None,
        keeps_ports: bool = False,
    ) -> None:
        """`others` are properties that Odradek does not get, such as listeners.

        Controllers that find each other by the voters in their log keep their ports; others get new ones at each start.
        """
        self.keeps_ports = keeps_ports
        quorum = {node_id: free_port() for node_id in range(1, brokers + 1)}
        self.nodes: list[RealKafka] = []
        for node_id in quorum:
            self.nodes.append(
                RealKafka(
                    directory=root if brokers == 1 else root / f"node-{node_id}",
                    data=directory(root) if brokers == 1 else directory(root) / f"broker-{node_id}",
                    node_id=node_id,
                    joins=self.nodes[0] if self.nodes else None,
                    quorum=quorum,
                    port=port + node_id - 1,
                    properties={**shared(brokers), **PATIENT, **(TOGETHER if brokers > 1 else {}), **(settings or {})},
                    transaction_version=level,
                    jvm_options=("-Xms64m" if brokers > 1 else "-Xms256m", "-Xmx1g", *QUICK),
                    start_timeout_s=START_S,
                    stop_timeout_s=STOP_S,
                )
            )
        self._others = others or {}
        self._seen: dict[Path, int] = {}

    @property
    def bootstrap(self) -> str:
        return self.nodes[0].bootstrap

    def start(self) -> None:
        first = self.nodes[0]
        if not self.keeps_ports:
            first.quorum.update({node_id: free_port() for node_id in first.quorum})
        for node in self.nodes:
            node.properties |= {**node.addresses(), **self._others}
        with ThreadPoolExecutor() as threads:
            list(threads.map(RealKafka.start, self.nodes))

    def stop(self) -> None:
        self._end(RealKafka.stop)

    def kill(self) -> None:
        self._end(RealKafka.kill)

    def _end(self, how: Callable[[RealKafka], None]) -> None:
        with ThreadPoolExecutor() as threads:
            list(threads.map(how, self.nodes))

    def start_in_vain(self, seconds: float) -> None:
        """See `System`."""
        for node in self.nodes:
            node.start_timeout_s = seconds * KAFKA_STARTS_SLOWER
        try:
            self.start()
        except RuntimeError:
            return
        finally:
            for node in self.nodes:
                node.start_timeout_s = START_S
            self.kill()

    def forgotten(self) -> list[str]:
        """What its log says of transactions that it has completed without their markers."""
        logs = [node.log.read_text() for node in self.nodes if node.log.exists()]
        return [line for log in logs for line in log.splitlines() if FORGETS in line]

    def complaints(self) -> list[str]:
        """Errors and warnings of those who read files; others complain of a machine that is busy, too."""
        new = []
        for node in self.nodes:
            lines = node.log.read_text().splitlines()
            new += lines[self._seen.get(node.log, 0) :]
            self._seen[node.log] = len(lines)
        readers = (
            *("storage.internals.log", "LogManager", "LogLoader", "MetadataLoader", "raft.internals", "snapshot"),
            *("FaultHandler", "KafkaRaftClient", "MetadataLog", "BrokerMetadataPublisher"),
        )
        return [
            line
            for line in new
            if (" WARN " in line or " ERROR " in line) and any(reader in line.rpartition("(")[2] for reader in readers)
        ]


class Odradek:
    """Odradek, as it is started at a prompt."""

    name = "Odradek"

    def __init__(
        self,
        root: Path,
        port: int,
        *,
        level: int = 2,
        settings: Mapping[str, str] | None = None,
        brokers: int = 1,
    ) -> None:
        self._root = root
        self._port = port
        self._level = level
        self._brokers = brokers
        self._settings = {**shared(brokers), **(settings or {})}
        self._process: subprocess.Popen[str] | None = None
        self.log = root / "odradek.log"
        self._seen = 0
        self.faults: Path | None = None
        """A plan for the next start."""

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        self._launch()
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith(READY), self.log.read_text()[-2000:]

    def start_in_vain(self, seconds: float) -> None:
        """See `System`."""
        self._launch()
        time.sleep(seconds)
        self.kill()

    def _launch(self) -> None:
        settings = [word for key, value in self._settings.items() for word in ("--set", f"{key}={value}")]
        faults = [] if self.faults is None else ["--faults", str(self.faults)]
        self._root.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "odradek", "serve", "--port", str(self._port)),
                    *("--data-dir", str(directory(self._root)), "--transaction-version", str(self._level)),
                    *("--brokers", str(self._brokers)),
                    *settings,
                    *faults,
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        process.wait(STOP_S)
        assert process.stdout is not None
        process.stdout.close()

    def complaints(self) -> list[str]:
        """Errors, and warnings about files."""
        lines = self.log.read_text().splitlines()
        new, self._seen = lines[self._seen :], len(lines)
        wrong = ("error", "file_damaged", "log_tail_cut", "stray", "disk_failed", "folder_without", "metadata_fault")
        return [line for line in new if any(word in line for word in wrong)]
