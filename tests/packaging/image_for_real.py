"""`make image-test`: the image is built by Buildah, and what it is for happens in it: serve, health, a hub, the demo.

A program and no test of pytest, because it wants to be root and to have nothing but Debian's packages and the Python
that is there. The containers run in a network of their own: the ports of the image are free in it, whatever else runs
on the machine, and nobody else sees them.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.request import urlopen

from tests.packaging.buildah import Buildah, CannotRun, base_archive, installed, thrown_away
from tests.packaging.forwarder import Forwarder

from odradek.cli.usage import READY
from odradek.control.client import HubClient, HubRefused

ROOT = Path(__file__).resolve().parent.parent.parent
DOCKERFILE = ROOT / "docker" / "Dockerfile"
CACHE = ROOT / "build" / "image-test"
BASE, IMAGE = "docker.io/library/python:3.11-slim", "odradek"
CONFIGURATION = "configuration.json"
CANNOT_RUN = 2
TIMEOUT_S = 120
OUTSIDE = "127.0.0.2"  # an address of the loopback device that only who listens on all addresses hears
THREE = ["localhost:9092", "localhost:9093", "localhost:9094"]
TOLD = """
from confluent_kafka.admin import AdminClient
brokers = AdminClient({"bootstrap.servers": "127.0.0.2:9092"}).list_topics(timeout=60).brokers.values()
print(",".join(sorted(f"{broker.host}:{broker.port}" for broker in brokers)))
"""
COMMITTED = """
from confluent_kafka import Consumer, Producer
where = {"bootstrap.servers": "127.0.0.2:29092"}
till = Producer({**where, "transactional.id": "till-1"})
till.init_transactions(60)
till.begin_transaction()
till.produce("orders", b"one coffee")
till.commit_transaction(60)
kitchen = Consumer({**where, "group.id": "kitchen", "auto.offset.reset": "earliest"})
kitchen.subscribe(["orders"])
print(kitchen.poll(60).value().decode())
kitchen.close()
"""
PACKAGES = "import odradek, pathlib; print(pathlib.Path(odradek.__file__).parent.parent)"
ADDED_MB_MAX = 120
STARTS = 5
HUB_READY = "odradek hub ready url="
TOKEN = "mine"
MAPPED = 29092
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


class Image:
    """The image, with a container of it."""

    def __init__(self, buildah: Buildah, configuration: dict[str, Any], complaints: IO[str]) -> None:
        self.configuration = configuration
        self._complaints = complaints
        self._buildah = buildah
        self._container = buildah.container(IMAGE)
        self.ready_after_ms = 0.0
        """How long what was served last took from its start to the line that it is ready."""
        self.memory_mb = 0.0
        """What it had in memory then."""

    def said(self, *words: str) -> tuple[int, str]:
        """Exit code and output of a command, as `docker exec` would do it."""
        command = self._buildah.run(self._container, *words)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=self._complaints, text=True, timeout=TIMEOUT_S)
        return done.returncode, done.stdout.strip()

    def health(self, bootstrap: str | None = None) -> int:
        """The exit code of the image's own health check, or of the same for other addresses."""
        kind, *check = self.configuration["Healthcheck"]["Test"]
        assert kind == "CMD", "the check needs no shell"
        code, _ = self.said(*(check if bootstrap is None else [*check[:-1], bootstrap]))
        return code

    @contextmanager
    def serving(self, *words: str, ready: str = READY) -> Iterator[list[str]]:
        """A broker as `docker run IMAGE WORDS` starts it, and its addresses; it ends well when it is told to."""
        # The shell says its process id, which the broker takes over: Buildah passes no signals on.
        words = ("sh", "-c", 'echo $$; exec "$@"', "sh", *self.configuration["Entrypoint"], *words)
        command = self._buildah.run(self._container, *words)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._complaints, text=True) as process:
            assert process.stdout is not None
            broker = int(process.stdout.readline())
            start = time.monotonic()
            try:
                line = process.stdout.readline()
                self.ready_after_ms = (time.monotonic() - start) * 1000
                assert line.startswith(ready), f"not the line that it is ready: {line!r}"
                self.memory_mb = _memory_mb(broker)
                yield line.removeprefix(ready).strip().split(",")
            except BaseException:
                os.kill(broker, signal.SIGKILL)
                raise
            os.kill(broker, signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0, "it ends with 0 when it is stopped"


def _memory_mb(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1000


def nobody_is_root(image: Image) -> None:
    """Who runs in it is an unprivileged user."""
    code, user = image.said("id", "-u")
    assert code == 0
    assert user != "0", "The user is root."


def it_serves(image: Image) -> None:
    """Its own command serves, is healthy, has metrics, and ends when it is told to."""
    assert image.health() == 1, "nothing serves yet"
    with image.serving(*image.configuration["Cmd"]) as addresses:
        assert addresses == THREE[:1], addresses
        assert image.health() == 0
        assert image.health(f"{OUTSIDE}:9092") == 0
        with urlopen(f"http://{OUTSIDE}:9100/metrics", timeout=TIMEOUT_S) as page:
            assert b"odradek_requests_total" in page.read()
    assert image.health() == 1, "nothing serves any more"


def another_command_is_reached_too(image: Image) -> None:
    """`serve --brokers 3` listens on all addresses, and clients are told one that they reach."""
    with image.serving("serve", "--brokers", "3") as addresses:
        assert addresses == THREE, addresses
        assert image.health(",".join(f"{OUTSIDE}:{port}" for port in (9092, 9093, 9094))) == 0
        told = image.said("python", "-c", TOLD)
        assert told == (0, ",".join(THREE)), told


def it_asks_who_comes(image: Image) -> None:
    """`--security sasl-ssl` finds what it needs to make certificates, and writes nothing where it may not."""
    with image.serving("serve", "--security", "sasl-ssl") as addresses:
        assert addresses == THREE[:1], addresses


def _status_without_token(url: str) -> int:
    try:
        HubClient(url).get("clusters")
    except HubRefused as refused:
        return refused.status
    return 200


def its_clients_are_told_a_mapped_port(image: Image) -> None:
    """`serve --control` is driven from outside, and a client gets in by a mapped port alone once that is advertised."""
    told = ("--control", "9644", "--control-token", TOKEN)
    with image.serving("serve", "--topic", "orders", *told), Forwarder(9092, port=MAPPED, host=OUTSIDE) as mapped:
        url = f"http://{OUTSIDE}:9644"
        assert _status_without_token(url) == 401, "nobody was asked for the token"
        hub = HubClient(url, token=TOKEN)
        hub.post("clusters", "default", "brokers", 1, "advertise", body={"host": OUTSIDE, "port": MAPPED})
        assert image.said("python", "-c", COMMITTED) == (0, "one coffee")
        assert mapped.connections > 1, "the client went on by another way than the mapped port"
        ctl = ("env", f"ODRADEK_HUB_TOKEN={TOKEN}", *image.configuration["Entrypoint"], "ctl")
        code, said = image.said(*ctl, "transactions")
        assert code == 0, said
        assert "CompleteCommit" in said, said
        assert hub.post("clusters", "default", "reset")["bootstrap"] == f"{OUTSIDE}:{MAPPED}"


def a_hub_makes_clusters(image: Image) -> None:
    """`hub` makes a cluster, with logins and certificates, and one that takes the metrics of clients."""
    with image.serving("hub", "--token", TOKEN, ready=HUB_READY):
        hub = HubClient(f"http://{OUTSIDE}:9644", token=TOKEN)
        hub.post("clusters", body={"security": "sasl-ssl"})
        plain = hub.post("clusters", body={"port": 9092, "config": {"odradek.telemetry": True}})
        assert plain["bootstrap"] == THREE[0], plain
        assert image.health(f"{OUTSIDE}:9092") == 0


def it_is_small(image: Image) -> None:
    """Its size, its start and its memory, of which docs/other-languages.md tells; the size has a limit."""
    code, said = image.said("python", "-c", PACKAGES)
    assert code == 0, said
    added_mb = int(image.said("du", "--summarize", "--block-size=1000", said)[1].split()[0]) / 1000
    starts, memory = [], []
    for words in (("serve",), ("serve", "--control", "9644", "--control-token", TOKEN)):
        for _ in range(STARTS):
            with image.serving(*words):
                starts.append(image.ready_after_ms)
                memory.append(image.memory_mb)
        how = f"{' '.join(words[:2])}: ready after {min(starts):.0f} to {max(starts):.0f} ms"
        print(f"    {how}, {max(memory):.0f} MB of memory", flush=True)
        starts, memory = [], []
    print(f"    {added_mb:.0f} MB of packages over the base", flush=True)
    assert added_mb < ADDED_MB_MAX, added_mb


def the_demo_finds_exactly_once(image: Image) -> None:
    """The demo plays in it, and its verdict is that exactly-once held."""
    code, said = image.said(*image.configuration["Entrypoint"], "demo", "--seconds", "5")
    assert code == 0, said
    assert "Exactly-once held" in said, said


def the_demo_can_fail(image: Image) -> None:
    """A consumer that reads what was aborted is found out."""
    reading = ("--isolation", "read_uncommitted", "--abort-every", "2")
    code, said = image.said(*image.configuration["Entrypoint"], "demo", "--seconds", "3", *reading)
    assert code == 1, said
    assert "EXACTLY-ONCE DID NOT HOLD" in said, said


SCENES = (
    nobody_is_root,
    it_serves,
    another_command_is_reached_too,
    it_asks_who_comes,
    its_clients_are_told_a_mapped_port,
    a_hub_makes_clusters,
    it_is_small,
    the_demo_finds_exactly_once,
    the_demo_can_fail,
)


def build(mirror: str) -> int:
    """Build it and have it played, in a storage that is gone afterwards; the exit code of the play."""
    installed()
    CACHE.mkdir(parents=True, exist_ok=True)
    archive = base_archive(CACHE, mirror)
    owner = ROOT.stat()
    for made in (CACHE.parent, CACHE, archive):  # `make clean` is not for root alone
        os.chown(made, owner.st_uid, owner.st_gid)
    with thrown_away(CACHE) as work:
        buildah = Buildah(work)
        print("Buildah builds it.", flush=True)
        with timed():
            buildah.import_base(archive, BASE)
            configuration = buildah.build(DOCKERFILE, ROOT, IMAGE)
        (work / CONFIGURATION).write_text(json.dumps(configuration))
        playing = [sys.executable, "-m", "tests.packaging.image_for_real", "play", str(work)]
        return subprocess.run(["unshare", "--mount", "--net", *playing]).returncode


def play(work: Path) -> int:
    """All scenes, in the network of this process alone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    with (work / "complaints").open("w+") as complaints:
        try:
            image = Image(Buildah(work), json.loads((work / CONFIGURATION).read_text()), complaints)
            for scene in SCENES:
                print(scene.__doc__, flush=True)
                with timed():
                    scene(image)
        except BaseException:
            complaints.seek(0)
            print(complaints.read(), file=sys.stderr)
            raise
    return 0


@contextmanager
def timed() -> Iterator[None]:
    """Says that it went well, and how long it took."""
    start = time.monotonic()
    yield
    print(f"    ok ({time.monotonic() - start:.0f} s)", flush=True)


def main(words: Sequence[str]) -> int:
    """`build MIRROR` or, within it, `play FOLDER`."""
    act, operand = words
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was begun is still cleared away
    try:
        return build(operand) if act == "build" else play(Path(operand))
    except CannotRun as reason:
        print(f"make image-test: {reason}", file=sys.stderr)
        return CANNOT_RUN
    except AssertionError as wrong:
        print(f"make image-test: this is not so. {wrong}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
