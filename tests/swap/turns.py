"""Two systems that take turns, and what is seen of each."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from tests.swap.look import NotReady, look
from tests.swap.states import Clients
from tests.swap.systems import OFTEN, Kafka, Odradek, System, free_ports

from odradek.metadata.api.started_with import QUORUM_VOTERS

__all__ = ["LARGE", "at_rest", "both", "differences", "played", "ready", "settled", "until"]

SETTLES_S = 120
PLAYS = 3
"""So often a play in which Kafka forgets markers begins anew; if it does each time, that is no chance."""
LARGE = pytest.mark.skipif(os.environ.get("ODRADEK_SWAP") == "small", reason="the smaller part")


def both(
    root: Path,
    level: int = 2,
    *,
    brokers: int = 1,
    settings: Mapping[str, str] | None = None,
    voters_in_log: bool = False,
) -> tuple[Kafka, Odradek]:
    """The two systems, at the same addresses; with voters in the log these have those of Kafka's controllers."""
    settings = {**OFTEN, **(settings or {})}
    port = free_ports(brokers)
    kafka = Kafka(root, port, level=level, brokers=brokers, settings=settings, keeps_ports=voters_in_log)
    if voters_in_log:
        settings = {**settings, QUORUM_VOTERS: kafka.nodes[0].properties[QUORUM_VOTERS]}
    return kafka, Odradek(root, port, level=level, brokers=brokers, settings=settings)


def differences(one: object, other: object, where: str = "") -> Iterator[str]:
    """Where two descriptions differ, and how."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from differences(one[key], other[key], f"{where}/{key}")
    elif one != other:
        yield f"{where}: {str(one)[:500]} != {str(other)[:500]}"


def settled(system: System, expected: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """What is seen when leaders and coordinators have come up: as expected, or else what stays for a while."""
    ends = time.monotonic() + SETTLES_S
    while True:
        try:
            seen = look(system.bootstrap)
            if expected in (None, seen) or time.monotonic() > ends:
                return seen
        except (NotReady, OSError):
            if time.monotonic() > ends:
                raise
        time.sleep(0.1)


def until(system: System, holds: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
    """What is seen as soon as that holds. It does not while something is missing that it is about.

    A Kafka that is not yet elected as a coordinator lists no transactions, and no groups.
    """
    ends = time.monotonic() + SETTLES_S
    while True:
        seen = settled(system)
        with suppress(KeyError):
            if holds(seen):
                return seen
        if time.monotonic() > ends:
            return seen
        time.sleep(0.2)


def at_rest(system: System, holds: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
    """What is seen twice in a row, of a system that holds so and owes no markers."""
    last: Mapping[str, Any] = {}

    def rests(seen: Mapping[str, Any]) -> bool:
        nonlocal last
        before, last = last, seen
        owes = any(state.startswith("Prepare") for state, *_ in seen["transactions"].values())
        return not owes and seen == before and holds(seen)

    return until(system, rests)


def played(
    root: Path,
    play: Callable[[Path, Kafka, Odradek], None],
    level: int = 2,
    *,
    brokers: int = 1,
    settings: Mapping[str, str] | None = None,
    voters_in_log: bool = False,
) -> None:
    """Play it with the two systems, and anew where Kafka's log says that it has forgotten markers (docs/disk.md).

    It is known for that: what fails then says nothing of Odradek.
    """
    for number in range(1, PLAYS + 1):
        part = root / f"play-{number}"
        kafka, odradek = both(part, level, brokers=brokers, settings=settings, voters_in_log=voters_in_log)
        try:
            play(part, kafka, odradek)
        except (AssertionError, KafkaException):
            forgotten = kafka.forgotten()
            print(f"play {number}: Kafka has forgotten markers: {forgotten}")
            if not forgotten or number == PLAYS:
                raise
        else:
            return


def ready(system: System, topic: str = "orders", *, replicas: int = 1) -> Clients:
    """The system runs, with a topic."""
    system.start()
    clients = Clients(system.bootstrap, replicas=replicas)
    clients.make_topics({topic: 1})
    return clients
