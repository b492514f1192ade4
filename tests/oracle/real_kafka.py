"""A real Apache Kafka to compare with: one KRaft node, formatted and started on a free port of 127.0.0.1.

The jars named in `kafka/pom.xml` are resolved by Maven on the first call and kept in the user's cache;
after that neither Maven nor a network is needed.

    with RealKafka(transaction_version=1) as kafka:
        print(kafka.bootstrap)

As a program it runs one until interrupted: `python -m tests.oracle.real_kafka --transaction-version 1`.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import itertools
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType

from tests.clients.toolchain import java_classes, resolved

__all__ = ["CONTROLLER_ID", "KAFKA_VERSION", "PROPERTIES", "RealKafka", "class_path", "free_port"]

POM = Path(__file__).parent / "kafka" / "pom.xml"

CONTROLLER_ID = 1

PROPERTIES: Mapping[str, str] = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Start, stop and come back fast on a small machine.
    "num.network.threads": "3",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}

LOG_CONFIG = """\
status=error
appender.out.type=Console
appender.out.name=out
appender.out.target={target}
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level={level}
rootLogger.appenderRef.out.ref=out
"""

FIRST_PORT = 16_384
OF_CLIENTS = Path("/proc/sys/net/ipv4/ip_local_port_range")

API_VERSIONS_V0 = bytes.fromhex("0000000a 0012 0000 00000001 ffff")


def pom_property(name: str) -> str:
    """A value from the properties of the pom."""
    found = re.search(rf"<{name}>(.*?)</{name}>", POM.read_text())
    assert found is not None, f"the pom names no {name}"
    return found.group(1)


KAFKA_VERSION = pom_property("kafka.version")


def class_path(pom: Path = POM, properties: Mapping[str, str] | None = None) -> str:
    """The class path of the broker and its tools; resolved by Maven when it is asked for the first time."""
    return f"{resolved(pom, properties or {})}/*"


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now, another one each time.

    The system gives none of them to clients. A broker that has stopped would lose such a port to anybody's connection,
    and a client that asks for it again and again may at last be connected with itself.
    """
    for port in _ports():
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("there are always more")


@cache
def _ports() -> Iterator[int]:
    """All ports below those of clients and above the well known ones, again and again, from any of them on."""
    count = _first_port_of_clients() - FIRST_PORT
    begins = random.randrange(count)
    return (FIRST_PORT + (begins + number) % count for number in itertools.count())


def _first_port_of_clients() -> int:
    try:
        return int(OF_CLIENTS.read_text().split()[0])
    except OSError:
        return 32_768


def java() -> str:
    """The java command: of JAVA_HOME, or of the PATH."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def answers(port: int) -> bool:
    """Whether a broker on this port answers ApiVersions v0."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(API_VERSIONS_V0)
            reply = connection.recv(10, socket.MSG_WAITALL)
    except OSError:
        return False
    return reply[4:] == bytes.fromhex("00000001 0000")


def new_cluster_id() -> str:
    """A random one, which no option of a command could be."""
    return base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "A")


class RealKafka:
    """One node of the real broker, with its data in a directory of its own.

    `plug_ins` are Java sources of classes that its properties name. One that `joins` another is a broker of that one's
    cluster. Nodes that `quorum` names, with the ports of their controllers, are controllers, too: the first one alone
    unless others are named. A node answers when most of the controllers run.
    """

    def __init__(
        self,
        *,
        transaction_version: int = 2,
        properties: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        port: int = 0,
        directory: Path | None = None,
        jvm_options: Sequence[str] = ("-Xms256m", "-Xmx1g"),
        start_timeout_s: float = 90,
        stop_timeout_s: float = 30,
        plug_ins: Sequence[Path] = (),
        node_id: int = CONTROLLER_ID,
        joins: RealKafka | None = None,
        quorum: Mapping[int, int] | None = None,
        data: Path | None = None,
    ) -> None:
        self.plug_ins = plug_ins
        self.node_id = node_id
        self.cluster_id: str = joins.cluster_id if joins else new_cluster_id()
        self.features = {"transaction.version": transaction_version, **(features or {})}
        self.port = port or free_port()
        self.quorum: dict[int, int] = joins.quorum if joins else dict(quorum or {CONTROLLER_ID: free_port()})
        self.own_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="real-kafka-"))
        self.data = data or self.directory / "data"
        roles = "broker,controller" if node_id in self.quorum else "broker"
        self.properties = {
            **PROPERTIES,
            "node.id": str(node_id),
            "process.roles": roles,
            **self.addresses(),
            **(properties or {}),
        }
        self.jvm_options = tuple(jvm_options)
        self.start_timeout_s = start_timeout_s
        self.stop_timeout_s = stop_timeout_s
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def controller_port(self) -> int:
        """The port of the first controller."""
        return self.quorum[CONTROLLER_ID]

    def addresses(self) -> dict[str, str]:
        """The properties that name ports and directories."""
        own = self.quorum.get(self.node_id)
        controller = f",CONTROLLER://127.0.0.1:{own}" if own is not None else ""
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.quorum.voters": ",".join(f"{node}@127.0.0.1:{port}" for node, port in self.quorum.items()),
            "log.dirs": str(self.data),
        }

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What the broker printed."""
        return self.directory / "broker.log"

    def start(self) -> None:
        """Format the directory if it is new, start the broker and wait until it answers."""
        assert self.process is None, "it runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = "".join(f"{key}={value}\n" for key, value in self.properties.items())
        (self.directory / "server.properties").write_text(settings)
        if not (self.data / "meta.properties").exists():
            self.format()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command("kafka.Kafka", str(self.directory / "server.properties"), level="INFO"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.wait_until_it_answers()

    def format(self) -> None:
        """Write the first metadata records, with the wanted feature levels."""
        features = [word for name, level in self.features.items() for word in ("--feature", f"{name}={level}")]
        arguments = ["format", "--cluster-id", self.cluster_id, "--config", str(self.directory / "server.properties")]
        done = subprocess.run(
            self.command("kafka.tools.StorageTool", *arguments, *features, level="WARN"),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"formatting failed: {done.stdout}{done.stderr}")

    def command(self, main_class: str, *arguments: str, level: str) -> list[str]:
        """The command line of a class of the broker."""
        target = "SYSTEM_OUT" if main_class == "kafka.Kafka" else "SYSTEM_ERR"
        options = [*self.jvm_options, "-Djava.awt.headless=true", *self.log_options(target, level)]
        return [java(), *options, "-cp", self.class_path(), main_class, *arguments]

    def class_path(self) -> str:
        """The jars to run, and the plug-ins."""
        if not self.plug_ins:
            return class_path()
        return java_classes("plug-ins", self.plug_ins, resolved(POM, {}))

    def log_options(self, target: str, level: str) -> list[str]:
        """The options that tell the virtual machine where its log goes."""
        log_config = self.directory / f"log4j2-{level}.properties"
        log_config.write_text(LOG_CONFIG.format(target=target, level=level))
        return [f"-Dlog4j2.configurationFile={log_config}"]

    def wait_until_it_answers(self) -> None:
        """Return when a client is served; raise if the broker ends before, or takes too long."""
        assert self.process is not None
        deadline = time.monotonic() + self.start_timeout_s
        while not answers(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the broker does not answer: {self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def freeze(self) -> None:
        """Have it do nothing until it is thawed; its connections stay open."""
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.send(signal.SIGCONT)

    def send(self, which: signal.Signals) -> None:
        assert self.process is not None, "it does not run"
        self.process.send_signal(which)

    def stop(self) -> None:
        """End it cleanly; its data stays until `remove`."""
        self.end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would."""
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals) -> None:
        """Send the signal and wait; the hard way if that takes too long."""
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(self.stop_timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def remove(self) -> None:
        """Delete what it left on disk, if the directory was made for it."""
        if self.own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> RealKafka:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self.remove()


def main() -> None:
    """Run one until interrupted."""
    parser = argparse.ArgumentParser(description="Start a real Kafka and keep it running.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--transaction-version", type=int, default=2, choices=(0, 1, 2))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a server property")
    arguments = parser.parse_args()
    properties = dict(pair.split("=", 1) for pair in arguments.set)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    with RealKafka(
        transaction_version=arguments.transaction_version, properties=properties, port=arguments.port
    ) as kafka:
        print(f"kafka {KAFKA_VERSION} ready bootstrap={kafka.bootstrap} log={kafka.log}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
