"""Brokers and players as processes, on ports that are free here."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from confluent_kafka import Consumer, Producer

from odradek.cli.usage import READY

__all__ = ["Places", "environment", "produce_and_consume", "serving"]

TIMEOUT_S = 60
BROKER, BROKERS, METRICS, CONTROL = 9092, 3, 9100, 9644


class Places:
    """Puts the hosts and ports of this machine into texts that name those of a container or of the README."""

    def __init__(self, *more: int) -> None:
        first, *others = free_ports(2 + len(more))
        self.ports = {BROKER + at: first + at for at in range(BROKERS)} | dict(
            zip((METRICS, CONTROL, *more), others, strict=True)
        )
        self._pattern = re.compile(rf"\b({'|'.join(map(str, self.ports))})\b")

    def __call__(self, text: str) -> str:
        """The text, for here."""
        here = self._pattern.sub(lambda found: str(self.ports[int(found[1])]), text)
        return re.sub(r"\bodradek:(?=\d)", "127.0.0.1:", here).replace("-host=odradek", "-host=127.0.0.1")

    def each(self, texts: Sequence[str]) -> list[str]:
        """A command line, for here."""
        return [self(text) for text in texts]


def free_ports(others: int) -> list[int]:
    """The first of so many ports in a row as there are brokers, and so many other ones."""
    while True:
        with ExitStack() as bound:
            try:
                servers = [bound.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(1 + others)]
                ports: list[int] = [server.getsockname()[1] for server in servers]
                for at in range(1, BROKERS):
                    bound.enter_context(socket.create_server(("127.0.0.1", ports[0] + at)))
            except OSError:
                continue
            return ports


def environment(folder: Path, **more: str) -> dict[str, str]:
    """As if this virtual environment were the only one."""
    kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    return {**kept, "PATH": f"{folder / 'bin'}{os.pathsep}{kept['PATH']}", **more}


@contextmanager
def serving(
    command: Sequence[str] | str, env: Mapping[str, str], *, cwd: Path | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A broker that is ready, and its bootstrap address; a string is a line for the shell."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            shell=isinstance(command, str),
            env=env,
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        try:
            yield process, _bootstrap(process, errors)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(TIMEOUT_S)
            assert process.stdout is not None
            process.stdout.close()


def _bootstrap(process: subprocess.Popen[str], errors: IO[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(READY):
            return line.removeprefix(READY).strip()
    code = process.wait(TIMEOUT_S)
    errors.seek(0)
    raise AssertionError(f"exit code {code} before it was ready: {errors.read()}")


def produce_and_consume(bootstrap: str) -> None:
    """One record there and back, with a real client."""
    topic = f"t-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"there and back")
    assert 0 == producer.flush(TIMEOUT_S)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                assert b"there and back" == message.value()
                return
        raise AssertionError("nothing came back")
    finally:
        consumer.close()
