"""Runs the client programs: one per family, one argument style, one line of JSON."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clients.toolchain import JAVA, go_program, jars, java_classes

__all__ = ["FAMILIES", "Failure", "Result", "play", "run", "tool"]

HERE = Path(__file__).resolve().parent
UNSUPPORTED = 3
SAID_MAX = 4000


class Failure(AssertionError):
    """A client program that did not end well, with what it said."""


@dataclasses.dataclass(frozen=True)
class Result:
    """The line that every client program prints."""

    ok: bool
    client: str
    scenario: str
    seconds: float
    counts: dict[str, Any]
    error: str | None
    unsupported: bool


def java(version: str | None) -> list[str]:
    sources = sorted((HERE / "java" / "src").glob("*.java"))
    return [*JAVA, "-cp", java_classes("java", sources, jars(HERE / "java" / "pom.xml", version)), "Main"]


def franz_go(version: str | None) -> list[str]:
    assert version is None, "the version is the one of go.mod"
    return [str(go_program(HERE / "franz-go"))]


def python(family: str) -> Callable[[str | None], list[str]]:
    def interpreted(interpreter: str | None) -> list[str]:
        return [interpreter or sys.executable, str(HERE / family / "program.py")]

    return interpreted


# From a version (for the Python families: an interpreter that has it installed) to the start of a command line.
FAMILIES: dict[str, Callable[[str | None], list[str]]] = {
    "java": java,
    "franz-go": franz_go,
    "confluent-kafka": python("confluent-kafka"),
    "kafka-python": python("kafka-python"),
    "aiokafka": python("aiokafka"),
}


def run(arguments: list[str], *, timeout: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(arguments, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as expired:
        said = [part.decode(errors="replace") for part in (expired.stdout, expired.stderr) if isinstance(part, bytes)]
        raise Failure(f"no end after {timeout} s: {' '.join(arguments)}\n{ending(''.join(said))}") from None


def ending(said: str) -> str:
    """Clients that cannot connect say so thousands of times."""
    return said if len(said) < SAID_MAX else f"...{said[-SAID_MAX:]}"


def play(
    family: str,
    scenario: str,
    bootstrap: str,
    *,
    version: str | None = None,
    timeout: float = 150,
    **options: str | int,
) -> Result:
    """Runs one scenario; a scenario that the client has no means for raises NotImplementedError."""
    arguments = [*FAMILIES[family](version), "--bootstrap", bootstrap, "--scenario", scenario]
    for name, value in options.items():
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    done = run(arguments, timeout=timeout)
    said = f"{' '.join(arguments)}\n{ending(done.stdout + done.stderr)}"
    try:
        result = Result(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, TypeError, ValueError):
        raise Failure(f"no result, exit code {done.returncode}: {said}") from None
    if done.returncode == UNSUPPORTED:
        raise NotImplementedError(result.error)
    if done.returncode != 0 or not result.ok:
        raise Failure(said)
    return result


def tool(java_class: str, *arguments: str, timeout: float = 120) -> str:
    """The output of one of Kafka's own command-line tools; a class without a dot is one of org.apache.kafka.tools."""
    name = java_class if "." in java_class else f"org.apache.kafka.tools.{java_class}"
    libraries = jars(HERE / "kafka-tools" / "pom.xml")
    done = run([*JAVA, "-cp", f"{libraries}/*", name, *arguments], timeout=timeout)
    if done.returncode != 0:
        raise Failure(f"{name} {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr
