"""A standalone Spark cluster on this machine: a master, and workers of one core each, every one a JVM of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path

from bench.audit_scale.watch import descendants, end_all

__all__ = ["Cluster", "ended_with", "spark_cluster"]

HOST = "127.0.0.1"
START_S = 90
DAEMON_MEMORY = "256m"
WORKER_MEMORY = "1500m"


@dataclass
class Cluster:
    """Its master's address, and the processes of its workers."""

    master: str
    workers: list[int]


@contextlib.contextmanager
def spark_cluster(workers: int, folder: Path) -> Iterator[Cluster]:
    """A cluster that has all its workers; logs and scratch files go to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    port, pages = free_port(), free_port()
    address = f"spark://{HOST}:{port}"
    with contextlib.ExitStack() as stack:
        master = ["master.Master", "--host", HOST, "--port", str(port), "--webui-port", str(pages)]
        stack.enter_context(_daemon(folder, "master", master))
        _await_state(pages, 0, folder)
        pids = []
        for number in range(workers):
            worker = ["worker.Worker", "--host", HOST, "--cores", "1", "--memory", WORKER_MEMORY, "--webui-port", "0"]
            work = ["--work-dir", str(folder / f"work-{number}"), address]
            pids.append(stack.enter_context(_daemon(folder, f"worker-{number}", worker + work)).pid)
        _await_state(pages, workers, folder)
        yield Cluster(address, pids)


@contextlib.contextmanager
def _daemon(folder: Path, name: str, arguments: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    script = spark_home() / "bin" / "spark-class"
    environment = os.environ | {
        "SPARK_HOME": str(spark_home()),
        "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC",
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [str(script), f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    with ended_with(process):
        yield process


@contextlib.contextmanager
def ended_with(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """At the end the process is ended, and all that it has started: executors, their Python workers."""
    try:
        yield
    finally:
        family = descendants([process.pid])
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        family |= descendants([process.pid])
        end_all(family, signal=signal.SIGKILL)
        process.wait()


def spark_home() -> Path:
    """Where pyspark lies."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise SystemExit("pyspark is not installed here: run this with .venv-pipeline/bin/python")
    return Path(found.origin).parent


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as opened:
        opened.bind((HOST, 0))
        return int(opened.getsockname()[1])


def _await_state(pages: int, workers: int, folder: Path) -> None:
    """Until the master answers, and has so many workers."""
    until = time.monotonic() + START_S
    said = "nothing"
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{pages}/json/", timeout=5) as answer:
                state = json.load(answer)
        except (OSError, HTTPException, ValueError) as error:  # not there yet, or not yet whole
            said = repr(error)
        else:
            said = f"{state.get('aliveworkers')} workers"
            if state.get("aliveworkers", -1) >= workers:
                return
        time.sleep(0.2)
    logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(folder.glob("*.log")))
    raise TimeoutError(f"no Spark cluster of {workers} workers within {START_S} s: the master said {said}\n{logs}")
