"""The client families of the suite: their programs, and the settings that they are given."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.clients.toolchain import JAVA, go_program, jars, java_classes

__all__ = ["FAMILIES", "Family"]

HERE = Path(__file__).resolve().parent / "programs"
CLIENTS = Path(__file__).resolve().parents[2] / "tests" / "clients"


@dataclass(frozen=True)
class Family:
    """A client program. `group` are the arguments of every run, `quick` those of docs/testing.md beside them."""

    program: Callable[[], list[str]]
    group: list[str]
    quick: list[str]
    lacks: Mapping[str, str]
    """Plays that the client has no means for, and why."""

    def command(self, *, quick: bool) -> list[str]:
        return [*self.program(), *self.group, *(self.quick if quick else [])]


def java() -> list[str]:
    sources = sorted([*(HERE / "java").glob("*.java"), *(CLIENTS / "java" / "src").glob("*.java")])
    return [*JAVA, "-cp", java_classes("suite", sources, jars(CLIENTS / "java" / "pom.xml")), "Suite"]


def python(family: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, str(HERE / "python" / "families.py"), family]


def franz_go() -> list[str]:
    return [str(go_program(HERE / "franz-go"))]


# A member hears of a rebalance with a heartbeat: after 0.3 s, and not after the three seconds of every client.
# The quick ones are those of "Fast and quiet clients" in docs/testing.md.
FAMILIES = {
    "java": Family(
        java,
        ["consumer.heartbeat.interval.ms=300"],
        ["consumer.heartbeat.interval.ms=100", "consumer.fetch.max.wait.ms=10", "producer.retry.backoff.ms=10"],
        {},
    ),
    "confluent-kafka": Family(
        python("confluent-kafka"),
        ["--consumer=heartbeat.interval.ms=300"],
        [
            *("--consumer=heartbeat.interval.ms=100", "--consumer=fetch.wait.max.ms=10"),
            *("--producer=retry.backoff.ms=10", "--producer=linger.ms=0"),
        ],
        {},
    ),
    "franz-go": Family(franz_go, ["-heartbeat=300ms"], ["-heartbeat=100ms", "-metadata=10ms"], {}),
    "aiokafka": Family(
        python("aiokafka"),
        ["--consumer=heartbeat_interval_ms=300"],
        [
            *("--consumer=heartbeat_interval_ms=100", "--consumer=fetch_max_wait_ms=10"),
            *("--consumer=retry_backoff_ms=10", "--producer=retry_backoff_ms=10"),
        ],
        {},
    ),
}
