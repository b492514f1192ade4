"""Where there is no uvloop, as on Windows, everything runs in the event loop of the standard library."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.control.client import HubClient
from odradek.net.event_loop import heeding_stops, loop_factory
from odradek.tools.health import check_health

pytestmark = pytest.mark.slow

TIMEOUT_S = 60
CHECK = """
def check(loop):
    assert type(loop).__module__.startswith("asyncio"), loop
"""
BESIDE = """
with Cluster(topics=["t"]) as cluster:
    check(cluster._running.loop)
    assert cluster.leader("t", 0) == 1
    cluster.wait(partition={"topic": "t", "partition": 0, "high_watermark": 0})
    assert not check_health(cluster.bootstrap, wait_s=0, timeout_s=20)
"""
IN_THE_LOOP = """
async def main():
    check(asyncio.get_running_loop())
    async with Cluster(topics=["t"]) as cluster:
        assert not await asyncio.to_thread(check_health, cluster.bootstrap, wait_s=0, timeout_s=20)

asyncio.run(main())
"""
WITH_THE_PLUGIN = """
def test_it(kafka_cluster, kafka_bootstrap):
    check(kafka_cluster._running.loop)
    assert not check_health(kafka_bootstrap, wait_s=0, timeout_s=20)
"""
IMPORTS = """
import asyncio
from odradek.testing import Cluster
from odradek.tools.health import check_health
"""


@pytest.fixture
def without(tmp_path: Path) -> Mapping[str, str]:
    """An environment in which uvloop cannot be imported."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "uvloop.py").write_text("raise ImportError('there is no uvloop here')\n")
    path = os.pathsep.join(filter(None, [str(hidden), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def run(without: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of Python that ends by itself."""
    return subprocess.run(
        [sys.executable, *arguments], env=without, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


@contextmanager
def running(without: Mapping[str, str], *arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A command of odradek, and the lines that it prints until it is ready; it is told to stop at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "odradek", *arguments, "--until-stdin-ends"],
        env=without,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        while not lines or " ready " not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], process.communicate()
        yield process, lines
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("program", [BESIDE, IN_THE_LOOP])
def test_a_cluster_in_a_test(without: Mapping[str, str], program: str) -> None:
    done = run(without, "-W", "error", "-c", IMPORTS + CHECK + program)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


def test_the_fixtures_of_the_plugin(without: Mapping[str, str], tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(IMPORTS + CHECK + WITH_THE_PLUGIN)
    done = run(without, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(test))
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_serve(without: Mapping[str, str], stop: signal.Signals) -> None:
    with running(without, "serve", "--port", "0", "--brokers", "2", "--topic", "t") as (process, lines):
        assert not check_health(lines[-1].strip().partition("=")[2], wait_s=0, timeout_s=20)
        process.send_signal(stop)
        assert 0 == process.wait(TIMEOUT_S)


def test_a_hub(without: Mapping[str, str]) -> None:
    with running(without, "hub", "--listen", "127.0.0.1:0") as (process, lines):
        hub = HubClient(lines[-1].strip().partition("=")[2])
        made = hub.post("clusters", body={"topics": ["t"]})
        assert not check_health(made["bootstrap"], wait_s=0, timeout_s=20)
        hub.post("clusters", made["id"], "reset")
        hub.post("clusters", made["id"], "wait", body={"partition": {"topic": "t", "partition": 0}})
        hub.delete("clusters", made["id"])
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(TIMEOUT_S)


def test_where_there_is_one_it_is_taken() -> None:
    pytest.importorskip("uvloop")
    assert "uvloop" == loop_factory().__module__


class WithoutSignals(asyncio.SelectorEventLoop):
    """A loop that handles no signals, as those of Windows."""

    def add_signal_handler(self, sig: object, callback: object, *args: object) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("make", [WithoutSignals, asyncio.SelectorEventLoop])
def test_a_signal_ends_the_wait_for_one_whatever_the_loop_handles(make: type[asyncio.AbstractEventLoop]) -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def heed() -> signal.Signals:
        with heeding_stops() as first_stop:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            return await first_stop()

    with asyncio.Runner(loop_factory=make) as runner:
        assert signal.SIGTERM is runner.run(heed())
    assert before is signal.getsignal(signal.SIGTERM)
