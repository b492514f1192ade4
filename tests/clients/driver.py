"""Runs the client programs: one per family, one argument style, one line of JSON."""

import dataclasses
import json
import os
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.clients.environments import python_for
from tests.clients.toolchain import JAVA, go_program, jars, java_classes, node_program, rust_program

__all__ = ["FAMILIES", "Failure", "Result", "play", "run", "tool"]

HERE = Path(__file__).resolve().parent
UNSUPPORTED = 3
SAID_MAX = 4000


class Failure(AssertionError):
    """A client program that did not end well, with what it said; `error` is the one in its line of JSON, if any."""

    def __init__(self, said: str, error: str | None = None) -> None:
        super().__init__(said)
        self.error = error


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
    return java_program("java", "Main", version)


def kafka_streams(version: str | None) -> list[str]:
    return java_program("kafka-streams", "WordCount", version)


def kafka_share(version: str | None) -> list[str]:
    return java_program("kafka-share", "Sharing", version)


def java_program(family: str, main: str, version: str | None) -> list[str]:
    """Every family on the JVM is compiled together with the Java client's program, against jars of its own."""
    sources = [source for name in sorted({"java", family}) for source in sorted((HERE / name / "src").glob("*.java"))]
    return [*JAVA, "-cp", java_classes(family, sources, jars(HERE / family / "pom.xml", version)), main]


def go(family: str) -> Callable[[str | None], list[str]]:
    def pinned(version: str | None) -> list[str]:
        """What follows a `+` in the version is a switch of the program."""
        release, _, switch = (version or "").partition("+")
        return [str(go_program(HERE / family, release or None)), *([f"--{switch}"] if switch else [])]

    return pinned


def python(family: str) -> Callable[[str | None], list[str]]:
    def interpreted(version: str | None) -> list[str]:
        return [python_for(family, version), str(HERE / family / "program.py")]

    return interpreted


def node(family: str) -> Callable[[str | None], list[str]]:
    def of_release(version: str | None) -> list[str]:
        return node_program(HERE / family, version)

    return of_release


def rust(family: str) -> Callable[[str | None], list[str]]:
    def pinned(version: str | None) -> list[str]:
        lock = tomllib.loads((HERE / "rust" / "Cargo.lock").read_text())
        (locked,) = (package["version"] for package in lock["package"] if package["name"] == family)
        assert version in {None, locked}, f"the version of {family} is the one of Cargo.lock, {locked}"
        return [str(rust_program(HERE / "rust", family))]

    return pinned


# From a version to the start of a command line.
FAMILIES: dict[str, Callable[[str | None], list[str]]] = {
    "java": java,
    "kafka-share": kafka_share,
    "kafka-streams": kafka_streams,
    "franz-go": go("franz-go"),
    "sarama": go("sarama"),
    "kafka-go": go("kafka-go"),
    "confluent-kafka": python("confluent-kafka"),
    "kafka-python": python("kafka-python"),
    "aiokafka": python("aiokafka"),
    "kafkajs": node("kafkajs"),
    "platformatic": node("platformatic"),
    "krafka": rust("krafka"),
    "rskafka": rust("rskafka"),
}


def run(
    arguments: list[str], *, timeout: float, secured: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    env = None if secured is None else {**os.environ, **secured}
    try:
        return subprocess.run(arguments, capture_output=True, text=True, timeout=timeout, check=False, env=env)
    except subprocess.TimeoutExpired as expired:
        said = [part.decode(errors="replace") for part in (expired.stdout, expired.stderr) if isinstance(part, bytes)]
        error = f"no end after {timeout} s"
        raise Failure(f"{error}: {' '.join(arguments)}\n{ending(''.join(said))}", error) from None


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
    secured: Mapping[str, str] | None = None,
    **options: str | int,
) -> Result:
    """Runs one scenario; a scenario that the client has no means for raises NotImplementedError.

    `secured` is what the client is told over its environment of a broker that asks who comes.
    """
    arguments = [*FAMILIES[family](version), "--bootstrap", bootstrap, "--scenario", scenario]
    for name, value in options.items():
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    done = run(arguments, timeout=timeout, secured=secured)
    said = f"{' '.join(arguments)}\n{ending(done.stderr + done.stdout)}"
    try:
        result = Result(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, TypeError, ValueError):
        raise Failure(f"no result, exit code {done.returncode}: {said}") from None
    if done.returncode == UNSUPPORTED:
        raise NotImplementedError(result.error)
    if done.returncode != 0 or not result.ok:
        raise Failure(said, result.error)
    return result


def tool(java_class: str, *arguments: str, timeout: float = 120) -> str:
    """The output of one of Kafka's own command-line tools; a class without a dot is one of org.apache.kafka.tools."""
    name = java_class if "." in java_class else f"org.apache.kafka.tools.{java_class}"
    libraries = jars(HERE / "kafka-tools" / "pom.xml")
    done = run([*JAVA, "-cp", f"{libraries}/*", name, *arguments], timeout=timeout)
    if done.returncode != 0:
        raise Failure(f"{name} {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr
