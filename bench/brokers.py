"""The brokers that are measured side by side, each a process of its own on a free port."""

import base64
import contextlib
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.clients.toolchain import go_program, jars

from odradek.net.certs import Certificates, make_certificates

__all__ = ["PEERS", "TOPIC", "WITH_TLS", "Running", "odradek_before", "odradek_on", "running"]

HERE = Path(__file__).resolve().parent
TOPIC = "bench-%04d"  # names of one length: the echo answers with one of its own
START_SECONDS = 180
# What Kafka's own start script gives the JVM.
KAFKA_JVM = ["-Xms1G", "-Xmx1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
KAFKA_JVM += ["-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"]
RETENTION_CHECK = "log.retention.check.interval.ms"

Prepare = Callable[[int, Path], list[str]]
"""From a port and an empty folder to a command line; what it does before that is not measured."""


@dataclass
class Running:
    """A broker that has answered its first request."""

    name: str
    process: subprocess.Popen[bytes]
    bootstrap: str
    start_seconds: float

    def resident_mib(self) -> float:
        """Resident memory of the process and its children."""
        pids = [self.process.pid, *self._children(self.process.pid)]
        return sum(_status_kib(pid, "VmRSS") for pid in pids) / 1024

    def _children(self, pid: int) -> list[int]:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in listed]


def _status_kib(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    return 0


def odradek(*more: str) -> Prepare:
    def prepare(port: int, _folder: Path) -> list[str]:
        settings = ["--set", f"{RETENTION_CHECK}=1000", *more]
        return [sys.executable, "-m", "odradek", "serve", "--port", str(port), "--log-level", "error", *settings]

    return prepare


def odradek_tls(port: int, folder: Path) -> list[str]:
    return [*odradek()(port, folder), "--security", "ssl", "--certs", str(certificates(folder).folder)]


def odradek_recorded(port: int, folder: Path) -> list[str]:
    return [*odradek()(port, folder), "--record", str(folder / "recording")]


def odradek_before(package: Path, *more: str) -> Prepare:
    """The same from another working copy: what a change has cost."""

    def prepare(port: int, folder: Path) -> list[str]:
        return ["env", f"PYTHONPATH={package / 'broker'}", *odradek(*more)(port, folder)]

    return prepare


def odradek_on(python: Path) -> Prepare:
    """The same on another interpreter, one that has what Odradek needs: what its build has cost or given."""

    def prepare(port: int, folder: Path) -> list[str]:
        _, *rest = odradek()(port, folder)
        return ["env", f"PYTHONPATH={HERE.parent / 'broker'}", str(python), *rest]

    return prepare


def certificates(folder: Path) -> Certificates:
    return make_certificates(folder / "certs")


def kafka(transaction_version: int, *, tls: bool = False) -> Prepare:
    def prepare(port: int, folder: Path) -> list[str]:
        libraries = jars(HERE / "peers" / "kafka" / "pom.xml")
        properties, logging = folder / "server.properties", folder / "log4j2.properties"
        text = kafka_properties(port, free_port(), folder / "data")
        properties.write_text(with_tls(text, certificates(folder)) if tls else text)
        logging.write_text("rootLogger.level=error\n")
        java = ["java", f"-Dlog4j2.configurationFile={logging}", "-cp", f"{libraries}/*"]
        cluster = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "A")
        tool = [*java, "kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", str(properties)]
        tool += ["--feature", f"transaction.version={transaction_version}"]
        subprocess.run(tool, check=True, capture_output=True)
        return [java[0], *KAFKA_JVM, *java[1:], "kafka.Kafka", str(properties)]

    return prepare


def with_tls(properties: str, made: Certificates) -> str:
    """The same broker with TLS towards clients, and towards itself."""
    return "\n".join(
        [
            properties.replace("PLAINTEXT://", "SSL://").replace("PLAINTEXT:PLAINTEXT", "SSL:SSL"),
            "inter.broker.listener.name=SSL",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={made.server}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={made.ca}",
            "ssl.endpoint.identification.algorithm=",
        ]
    )


def kafka_properties(port: int, controller_port: int, data: Path) -> str:
    one_copy = [f"{log}.replication.factor=1" for log in ("offsets.topic", "transaction.state.log", "default")]
    return "\n".join(
        [
            "node.id=1",
            "process.roles=broker,controller",
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names=CONTROLLER",
            f"controller.quorum.voters=1@127.0.0.1:{controller_port}",
            f"log.dirs={data}",
            *one_copy,
            "transaction.state.log.min.isr=1",
            "offsets.topic.num.partitions=3",
            "transaction.state.log.num.partitions=3",
            "share.coordinator.state.topic.replication.factor=1",
            "share.coordinator.state.topic.min.isr=1",
            "share.coordinator.state.topic.num.partitions=3",
            "group.initial.rebalance.delay.ms=0",
            f"{RETENTION_CHECK}=1000",
            "log.segment.delete.delay.ms=1000",
        ]
    )


def kfake(port: int, _folder: Path) -> list[str]:
    return [str(go_program(HERE / "peers" / "kfake")), str(port)]


def echo(port: int, _folder: Path) -> list[str]:
    return [sys.executable, str(HERE / "peers" / "echo.py"), str(port), TOPIC % 0]


PEERS: dict[str, Prepare] = {
    "odradek": odradek(),
    "odradek-tv1": odradek("--transaction-version", "1"),
    "kafka": kafka(2),
    "kafka-tv1": kafka(1),
    "odradek-recorded": odradek_recorded,
    "odradek-tls": odradek_tls,
    "kafka-tls": kafka(2, tls=True),
    "kfake": kfake,
    "echo": echo,
}


WITH_TLS = frozenset({"odradek-tls", "kafka-tls"})


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def answers(port: int, *, tls: bool = False) -> bool:
    """True if the broker answers an ApiVersions request."""
    try:
        with contextlib.ExitStack() as stack:
            connection = socket.create_connection(("127.0.0.1", port), timeout=START_SECONDS)
            stack.enter_context(connection)
            if tls:
                connection = stack.enter_context(whoever().wrap_socket(connection))
            connection.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
            return len(connection.recv(8)) == 8
    except (ConnectionError, ssl.SSLError):
        return False


def whoever() -> ssl.SSLContext:
    """Asks for no certificate: speed is measured here."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextlib.contextmanager
def running(name: str) -> Iterator[Running]:
    """Starts the broker, measures the time to its first answer, and ends it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
    port = free_port()
    command = PEERS[name](port, folder)
    with (folder / "log").open("wb") as log:
        start = time.perf_counter()
        # Everybody's second start finds compiled modules, except where the environment forbids to keep them.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    try:
        while not answers(port, tls=name in WITH_TLS):
            if process.poll() is not None or time.perf_counter() - start > START_SECONDS:
                raise RuntimeError(f"{name} did not start:\n{(folder / 'log').read_text()}")
            time.sleep(0.001)
        yield Running(name, process, f"127.0.0.1:{port}", time.perf_counter() - start)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)
