"""A broker for the client programs: Odradek as a process of its own, or whatever ODRADEK_TEST_BOOTSTRAP names."""

import os
import socket
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.building import builds_are_told
from tests.clients.driver import Result, play
from tests.clients.lacking import with_toolchains

from odradek.cli.parent import FLAG
from odradek.cli.usage import READY

__all__ = ["builds_are_told"]

START_SECONDS = 30
LOOK_FOR_TIMEOUTS = "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000"  # 10 s if nobody says


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = os.environ.get("ODRADEK_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    log = tmp_path_factory.mktemp("odradek") / "serve.log"
    with log.open("w") as out:
        command = [sys.executable, "-m", "odradek", "serve", "--port", "0", "--set", LOOK_FOR_TIMEOUTS, FLAG]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield ready(server, log)
    finally:
        server.terminate()
        assert server.stdin is not None
        server.stdin.close()
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
            pytest.fail("odradek serve did not end within 15 s of SIGTERM")


def ready(server: subprocess.Popen[bytes], log: Path) -> str:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        for line in log.read_text().splitlines():
            if line.startswith(READY):
                return line.removeprefix(READY).split()[0]
        if server.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(f"odradek serve did not start:\n{log.read_text()}")


@pytest.fixture(scope="session")
def advertised(bootstrap: str) -> set[int]:
    """The API keys that the broker's ApiVersions answer names (version 0)."""
    host, port = bootstrap.split(",")[0].rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            answer = stream.read(size)
    _, error, count = struct.unpack_from(">ihi", answer)
    assert error == 0
    return {struct.unpack_from(">h", answer, 10 + 6 * n)[0] for n in range(count)}


@pytest.fixture
def name() -> str:
    """A topic name of its own for each test."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def client(bootstrap: str, name: str) -> Callable[..., Result]:
    """Plays a scenario of a family on a topic of its own; a family may be followed by a version."""

    def run(family: str, scenario: str, **options: Any) -> Result:
        chosen, _, version = family.partition(" ")
        with with_toolchains(family):
            return play(chosen, scenario, bootstrap, version=version or None, topic=name, **options)

    return run
