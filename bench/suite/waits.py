"""What the clients of the suite wait for: the time line of each test, from the event file of Odradek.

    python -m bench.suite.waits --families java --match rebalance
    python -m bench.suite.waits --families franz-go --before ../main    # another working copy in turn, as `before`

Of each test it prints the longest times in which no request is at the broker, with the answer before and the request
after; the requests that the broker answered last; and how many members each generation of a classic group had. Below
are the sums over all tests.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bench.brokers import PEERS, odradek, odradek_before, running
from bench.suite.cases import CASES, Case
from bench.suite.families import FAMILIES
from bench.suite.grounds import Ground
from bench.suite.turns import Turn, play

__all__ = ["Told", "main", "read", "tell"]

LONG_MS = 15.0
"""Shorter waits are the work of clients."""
SHOWN = 5
SUMS = 12
Event = dict[str, Any]


class Wait(NamedTuple):
    ms: float
    what: str


@dataclass
class Told:
    """One test."""

    requests: int = 0
    at_client: list[Wait] = field(default_factory=list)
    """Times in which no request was at the broker."""
    at_broker: list[Wait] = field(default_factory=list)
    """Times from a request to its answer."""
    generations: list[int] = field(default_factory=list)
    """The number of members of each generation of a classic group."""


def read(events: Iterable[Event], began_ns: int, ended_ns: int) -> Told:
    """What the events of a test tell; a request that was never answered, as one whose client has gone, holds nobody."""
    told = Told()
    within = [event for event in events if began_ns <= event["ts_ns"] <= ended_ns]
    asked: dict[tuple[int, int], int] = {}
    answered = {_key(event) for event in within if event["kind"] == "response"}
    quiet_since, last = began_ns, "the start"
    for event in within:
        if event["kind"] == "group_state_change" and event["state_to"] == "CompletingRebalance":
            told.generations.append(event["members"])
        if event["kind"] not in ("request", "response") or not event["connection"]:
            continue
        if event["kind"] == "request":
            told.requests += 1
            if not asked:
                told.at_client.append(Wait((event["ts_ns"] - quiet_since) / 1e6, f"{last} to {event['api']}"))
            if _key(event) in answered:
                asked[_key(event)] = event["ts_ns"]
        elif _key(event) in asked:
            told.at_broker.append(Wait((event["ts_ns"] - asked.pop(_key(event))) / 1e6, event["api"]))
            error = event.get("error", "NONE")
            last = event["api"] if error == "NONE" else f"{event['api']} ({error})"
            quiet_since = event["ts_ns"]
    if not asked:
        told.at_client.append(Wait((ended_ns - quiet_since) / 1e6, f"{last} to the end"))
    return told


def _key(event: Event) -> tuple[int, int]:
    return event["connection"], event["correlation"]


def tell(name: str, told: Told) -> str:
    """One line."""
    parts = [f"{name}: {told.requests} requests"]
    for where, waits in (("client", told.at_client), ("broker", told.at_broker)):
        longest = sorted((wait for wait in waits if wait.ms >= LONG_MS), reverse=True)[:SHOWN]
        if longest:
            parts.append(f"{where} " + ", ".join(f"{wait.ms:.0f} ms {wait.what}" for wait in longest))
    if told.generations:
        parts.append(f"generations of {', '.join(map(str, told.generations))}")
    return "; ".join(parts)


def sums(all_told: Sequence[Told]) -> Iterator[str]:
    for where, lists in (
        ("client", [told.at_client for told in all_told]),
        ("broker", [told.at_broker for told in all_told]),
    ):
        whole, count = Counter[str](), Counter[str]()
        for wait in (wait for waits in lists for wait in waits if wait.ms >= LONG_MS):
            whole[wait.what] += round(wait.ms)
            count[wait.what] += 1
        for what, ms in whole.most_common(SUMS):
            yield f"  {where}: {ms:,} ms in {count[what]}, {what}"


def ground(peer: str, marks: list[tuple[int, int]]) -> Callable[[], AbstractContextManager[Ground]]:
    """One broker for all tests; notes when each began and ended, by the clock of the event file."""

    @contextlib.contextmanager
    def place(bootstrap: str) -> Iterator[str]:
        began = time.monotonic_ns()
        yield bootstrap
        marks.append((began, time.monotonic_ns()))

    @contextlib.contextmanager
    def whole() -> Iterator[Ground]:
        with running(peer) as broker:
            yield Ground(broker.process.pid, broker.start_seconds, lambda: place(broker.bootstrap))

    return whole


def turn_of(family: str, peer: str, cases: Sequence[Case], events: Path) -> None:
    marks: list[tuple[int, int]] = []
    turn = Turn(family, peer)
    with tempfile.TemporaryFile() as said:
        play(turn, FAMILIES[family], ground(peer, marks), cases, said, quick=False)
    facts = [json.loads(line) for line in events.read_text().splitlines()]
    all_told = [read(facts, *mark) for mark in marks]
    for case, told in zip(cases, all_told, strict=True):
        print(f"{family}, {peer}: {tell(case.name, told)}")
    print(f"{family}, {peer}: {sum(turn.times.values()):.1f} s in {len(turn.times)} tests, {len(turn.failed)} failed")
    print("\n".join(sums(all_told)), flush=True)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="bench.suite.waits", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", default=",".join(FAMILIES), help=f"of {','.join(FAMILIES)}")
    parser.add_argument("--match", default="", help="only tests whose name contains this")
    parser.add_argument("--before", type=Path, help="another working copy, which takes turns")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the broker")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args(words)
    cases = [case for case in CASES if given.match in case.name]
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "events.jsonl"
        more = ["--events", str(events), *(word for each in given.set for word in ("--set", each))]
        peers = {"odradek with events": odradek(*more)}
        if given.before:
            peers["before with events"] = odradek_before(given.before, *more)
        PEERS.update(peers)
        for _ in range(given.rounds):
            for family in given.families.split(","):
                for peer in peers:
                    events.unlink(missing_ok=True)
                    turn_of(family, peer, cases, events)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
