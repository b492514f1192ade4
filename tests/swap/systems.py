"""Two systems that go on with one directory: a real Kafka, and Odradek as a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tests.oracle.real_kafka import PROPERTIES, RealKafka, free_port

__all__ = ["SHARED", "Kafka", "Odradek", "System", "directory"]

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
}
"""What both are configured with."""
READY = "odradek ready bootstrap="
STOP_S = 30


class System(Protocol):
    """A broker that runs on a directory, or has been ended there."""

    name: str

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def complaints(self) -> list[str]:
        """Lines of its log that say that something is wrong with the directory."""


def directory(root: Path) -> Path:
    """Where the logs lie."""
    return root / "data"


class Kafka:
    """A real Kafka."""

    name = "Kafka"

    def __init__(self, root: Path, port: int, *, level: int = 2) -> None:
        self._kafka = RealKafka(directory=root, port=port, properties=SHARED, transaction_version=level)
        self._seen = 0

    @property
    def bootstrap(self) -> str:
        return self._kafka.bootstrap

    def start(self) -> None:
        self._kafka.controller_port = free_port()
        self._kafka.properties |= self._kafka.addresses()
        self._kafka.start()

    def stop(self) -> None:
        self._kafka.stop()

    def kill(self) -> None:
        self._kafka.kill()

    def complaints(self) -> list[str]:
        """Errors and warnings of those who read files; others complain of a machine that is busy, too."""
        lines = self._kafka.log.read_text().splitlines()
        new, self._seen = lines[self._seen :], len(lines)
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

    def __init__(self, root: Path, port: int, *, level: int = 2, settings: Mapping[str, str] | None = None) -> None:
        self._root = root
        self._port = port
        self._level = level
        self._settings = {**SHARED, **(settings or {})}
        self._process: subprocess.Popen[str] | None = None
        self.log = root / "odradek.log"
        self._seen = 0
        self.faults: Path | None = None
        """A plan for the next start."""

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        settings = [word for key, value in self._settings.items() for word in ("--set", f"{key}={value}")]
        faults = [] if self.faults is None else ["--faults", str(self.faults)]
        self._root.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "odradek", "serve", "--port", str(self._port)),
                    *("--data-dir", str(directory(self._root)), "--transaction-version", str(self._level)),
                    *settings,
                    *faults,
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith(READY), self.log.read_text()[-2000:]

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
