"""A real Apache Kafka of an older release: like `RealKafka`, with the jars and the manners of its time.

The jars of a release are resolved by Maven on its first start and kept in the user's cache.
2.8 runs beside a ZooKeeper, as it did in production: its KRaft mode was a preview without transactions.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.clients.toolchain import resolved
from tests.oracle.real_kafka import KAFKA_VERSION, RealKafka, free_port
from tests.oracle.real_kafka import POM as NEWEST_POM

__all__ = [
    "UNSTABLE",
    "VERSIONS",
    "ReleasedKafka",
    "has_controller",
    "has_groups_of_every_kind",
    "has_transaction_version",
    "jars_of",
    "number",
]

VERSIONS: Mapping[str, str] = {
    "2.8": "2.8.2",
    "3.3": "3.3.2",
    "3.6": "3.6.2",
    "3.9": "3.9.1",
    "4.0": "4.0.1",
    "4.3": "4.3.1",
    "4.4": KAFKA_VERSION,
}
"""The releases that Odradek can be served as, and the version that was asked."""

POM = Path(__file__).parent / "kafka" / "pom.xml"
LOG4J_1 = {"group": "org.slf4j", "artifact": "slf4j-reload4j", "version": "1.7.36"}
LOG4J_2 = {"group": "org.apache.logging.log4j", "artifact": "log4j-slf4j-impl", "version": "2.25.5"}

LOG4J_1_CONFIG = """\
log4j.rootLogger={level}, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.target={target}
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""

KRAFT_KEYS = ("node.id", "process.roles", "controller.listener.names", "controller.quorum.voters")


def number(release: str) -> tuple[int, ...]:
    """A release to compare with another."""
    return tuple(map(int, release.split(".")))


def has_controller(release: str) -> bool:
    """Whether it runs without ZooKeeper here."""
    return number(release) >= (3, 3)


def has_transaction_version(release: str) -> bool:
    """Whether there is the feature."""
    return number(release) >= (4, 0)


def has_groups_of_every_kind(release: str) -> bool:
    """Whether consumer, share and streams groups are more than a preview."""
    return number(release) >= (4, 3)


def jars_of(release: str) -> Path:
    """The folder of its jars; Maven brings them the first time."""
    if VERSIONS[release] == KAFKA_VERSION:
        return resolved(NEWEST_POM, {})
    logging = LOG4J_1 if number(release) < (4, 0) else LOG4J_2
    return resolved(
        POM, {"kafka.version": VERSIONS[release], **{f"logging.{key}": value for key, value in logging.items()}}
    )


UNSTABLE: Mapping[str, str] = {"unstable.api.versions.enable": "true", "unstable.feature.versions.enable": "true"}
"""The switches for what a release has and does not promise yet; before 4.0 they had other names."""


class ReleasedKafka(RealKafka):
    """One node of the real broker of a release."""

    def __init__(
        self,
        release: str,
        *,
        transaction_version: int | None = None,
        properties: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        jvm_options: Sequence[str] = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    ) -> None:
        super().__init__(
            transaction_version=transaction_version or 0,
            properties=properties,
            features=features,
            jvm_options=jvm_options,
        )
        self.release = release
        if transaction_version is None:
            del self.features["transaction.version"]
        self.zookeeper: subprocess.Popen[bytes] | None = None
        if self.has_zookeeper:
            self.zookeeper_port = free_port()
            self.properties = {key: value for key, value in self.properties.items() if key not in KRAFT_KEYS} | {
                "broker.id": "1",
                "zookeeper.connect": f"127.0.0.1:{self.zookeeper_port}",
                "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
            }

    @property
    def has_zookeeper(self) -> bool:
        """Whether the metadata lie in ZooKeeper."""
        return not has_controller(self.release)

    def class_path(self) -> str:
        """The jars of this release."""
        return f"{jars_of(self.release)}/*"

    def log_options(self, target: str, level: str) -> list[str]:
        """The options that tell the virtual machine where its log goes."""
        if number(self.release) >= (4, 0):
            return super().log_options(target, level)
        path = self.directory / f"log4j-{level}.properties"
        stream = "System." + target.removeprefix("SYSTEM_").lower()
        path.write_text(LOG4J_1_CONFIG.format(target=stream, level=level))
        return [f"-Dlog4j.configuration=file:{path}"]

    def format(self) -> None:
        """Only KRaft wants its directory formatted."""
        if not self.has_zookeeper:
            super().format()

    def start(self) -> None:
        """Start it, and before it the ZooKeeper that it may need."""
        if self.has_zookeeper and self.zookeeper is None:
            self.start_zookeeper()
        super().start()

    def start_zookeeper(self) -> None:
        """A ZooKeeper of its own, with its data beside the broker's."""
        self.directory.mkdir(parents=True, exist_ok=True)
        data = self.directory / "zookeeper"
        command = self.command(
            "org.apache.zookeeper.server.ZooKeeperServerMain", str(self.zookeeper_port), str(data), level="WARN"
        )
        command[1:1] = ["-Dzookeeper.admin.enableServer=false"]
        with (self.directory / "zookeeper.log").open("ab") as log:
            self.zookeeper = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        deadline = time.monotonic() + self.start_timeout_s
        while not listens(self.zookeeper_port):
            if self.zookeeper.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"ZooKeeper does not start: {(self.directory / 'zookeeper.log').read_text()[-2000:]}"
                )
            time.sleep(0.05)

    def remove(self) -> None:
        """End the ZooKeeper too, and delete what both left."""
        if self.zookeeper is not None:
            self.zookeeper.send_signal(signal.SIGKILL)
            self.zookeeper.wait()
            self.zookeeper = None
        super().remove()


def listens(port: int) -> bool:
    """Whether somebody accepts connections there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
