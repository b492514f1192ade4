"""`make image-test`: the image is built by Buildah, and what it is for happens in it: serve, health, the demo.

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

from odradek.usage import READY

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
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


class Image:
    """The image, with a container of it."""

    def __init__(self, buildah: Buildah, configuration: dict[str, Any], complaints: IO[str]) -> None:
        self.configuration = configuration
        self._complaints = complaints
        self._buildah = buildah
        self._container = buildah.container(IMAGE)

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
    def serving(self, *words: str) -> Iterator[list[str]]:
        """A broker as `docker run IMAGE WORDS` starts it, and its addresses; it ends well when it is told to."""
        # The shell says its process id, which the broker takes over: Buildah passes no signals on.
        words = ("sh", "-c", 'echo $$; exec "$@"', "sh", *self.configuration["Entrypoint"], *words)
        command = self._buildah.run(self._container, *words)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._complaints, text=True) as process:
            assert process.stdout is not None
            broker = int(process.stdout.readline())
            try:
                line = process.stdout.readline()
                assert line.startswith(READY), f"not the line that it is ready: {line!r}"
                yield line.removeprefix(READY).strip().split(",")
            except BaseException:
                os.kill(broker, signal.SIGKILL)
                raise
            os.kill(broker, signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0, "it ends with 0 when it is stopped"


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
