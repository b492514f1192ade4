"""The events of a cluster: those that were, those to come, and what a slow reader is told."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.hub.helpers import HubBeside, Till, made, refused

from odradek.control.client import HubClient
from odradek.control.event_kinds import KINDS
from odradek.control.events import EventRing
from odradek.control.http import _told
from odradek.core.machine import Fact


def ring_of(count: int, *, size: int) -> EventRing:
    ring = EventRing(lambda: 7, size=size)
    ring.emit(1, [Fact("tick", {"number": number}) for number in range(1, count + 1)])
    return ring


def numbers(ring: EventRing, after: int) -> list[int]:
    return [event.seq for event in ring.after(after)]


def test_the_ring_keeps_the_newest_events() -> None:
    ring = ring_of(0, size=3)
    assert (0, 1, []) == (ring.last, ring.first, numbers(ring, 0))
    ring = ring_of(5, size=3)
    assert (5, 3) == (ring.last, ring.first)
    assert [3, 4, 5] == numbers(ring, 0)
    assert [5] == numbers(ring, 4)
    assert [] == numbers(ring, 5)
    assert [] == numbers(ring, 99)


def test_the_ring_tells_few_and_many() -> None:
    ring = ring_of(500, size=300)
    for after in (0, 200, 201, 435, 436, 437, 499, 500):
        assert [*range(max(after, 200) + 1, 501)] == numbers(ring, after)


def test_the_ring_finds_the_events_of_a_kind() -> None:
    ring = EventRing(lambda: 7, size=4)
    for kind in ("tick", "tock", "tick", "tick", "tock"):
        ring.emit(1, [Fact(kind, {})])
    assert (4, 5, 0) == (ring.last_of("tick"), ring.last_of("tock"), ring.last_of("tack"))
    assert [3, 4] == [event.seq for event in ring.of_kind("tick", 0)]
    assert [4] == [event.seq for event in ring.of_kind("tick", 3)]
    assert [2, 5] == [event.seq for event in ring.of_kind("tock", 0)]
    ring.emit(1, [Fact("tick", {})] * 4)
    assert ([6, 7, 8, 9], []) == ([event.seq for event in ring.of_kind("tick", 5)], ring.of_kind("tock", 0))
    assert 0 == ring.last_of("tock")


def test_what_has_left_the_ring_is_held_by_nobody() -> None:
    ring = ring_of(5, size=10)
    assert 5 == ring.last_of("tick")
    ring.emit(1, [Fact("tock", {})] * 9)
    assert ring._of_kind
    ring.emit(1, [Fact("tock", {})])
    assert not ring._of_kind
    assert (0, 15) == (ring.last_of("tick"), ring.last_of("tock"))
    assert list(range(6, 16)) == [event.seq for event in ring.of_kind("tock", 0)]


async def test_what_happens_in_one_moment_is_told_at_once() -> None:
    """Many may follow a busy broker: were each told of each event by itself, clients would wait for that."""

    class Hosted:
        heard = nullcontext

    ring = ring_of(0, size=10)
    stream = _told(Hosted(), ring, 0, frozenset())  # type: ignore[arg-type]
    assert b": odradek\n\n" == await anext(stream)
    told = asyncio.ensure_future(anext(stream))
    for _ in range(5):
        await asyncio.sleep(0)
        ring.emit(1, [Fact("tick", {})])
    assert 5 == (await told).count(b"event: tick\n")


def test_the_ring_passes_everything_on() -> None:
    class Sink:
        def __init__(self) -> None:
            self.kinds: list[str] = []

        def emit(self, node_id: int, facts: Any) -> None:
            self.kinds += [fact.kind for fact in facts]

    sink = Sink()
    EventRing(lambda: 0, size=1, also=sink).emit(1, (Fact(kind, {}) for kind in "ab"))
    assert ["a", "b"] == sink.kinds


@pytest.mark.slow
def test_events_that_were_are_listed(hub: HubClient) -> None:
    cluster, bootstrap = made(hub)
    Till(bootstrap).close()
    page = hub.get("clusters", cluster, "events", kind="init_producer_id")
    assert ["till-1"] == [event["fields"]["transactional_id"] for event in page["events"]]
    assert 0 == page["lost"]
    assert [] == hub.get("clusters", cluster, "events", after=page["last"])["events"]
    for wrong, said in (
        ({"after": "x"}, "After is the number of an event, not x."),
        ({"after": "9" * 30}, "After is the number of an event, not 9"),
        ({"kind": "request,markers_written"}, "There is no event 'markers_written': did you mean marker_written?"),
        ({"follow": "maybe"}, "Follow is true or false, not maybe."),
    ):
        status, problem = refused(lambda wrong=wrong: hub.get("clusters", cluster, "events", **wrong))  # type: ignore[misc]
        assert 400 == status
        assert said in problem["detail"]
    body = {"event": {"kind": "nonsense"}}
    assert 400 == refused(lambda: hub.post("clusters", cluster, "wait", body=body))[0]


@pytest.mark.slow
def test_events_are_lines_of_a_file(hub: HubClient, tmp_path: Path) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    till = Till(bootstrap)
    assert (0, 0, 0) == (till.add(), till.send(), till.end())
    hub.post("clusters", cluster, "wait", body={"transaction": {"id": "till-1", "state": "CompleteCommit"}})
    lines = hub.get("clusters", cluster, "events", "lines")
    told = hub.get("clusters", cluster, "events")["events"]
    for line, event in zip(lines, told, strict=True):
        fields = json.loads(line)
        head = {name: fields.pop(name) for name in ("ts_ns", "wall_ns", "seq", "node", "kind")}
        assert (event["seq"], event["node"], event["kind"]) == (head["seq"], head["node"], head["kind"])
        assert {name: value for name, value in event["fields"].items() if name != "node"} == fields
        assert abs(head["wall_ns"] // 1_000_000 - event["at_ms"]) < 60_000
    hub.post("clusters", cluster, "time", body={"advance_ms": 300_000})
    assert 0 == till.add()
    till.close()
    later = hub.get("clusters", cluster, "events", after=len(lines))["events"]
    assert {"request", "partitions_added"} <= {event["kind"] for event in later}
    assert all(event["at_ms"] >= told[-1]["at_ms"] + 300_000 for event in later if event["kind"] == "request")
    file = tmp_path / "events.jsonl"
    file.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "odradek", "sim", "check", str(file)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert 0 == checked.returncode, checked.stdout + checked.stderr


@pytest.mark.slow
def test_whoever_looks_sees_what_was_asked_and_answered(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    till = Till(bootstrap)
    till.add()
    till.close()
    lines = map(json.loads, hub.get("clusters", cluster, "events", "lines"))
    of_lines = [line["body"] for line in lines if line["kind"] == "response" and line["api"] == "INIT_PRODUCER_ID"]
    page = hub.get("clusters", cluster, "events", kind="request,response")["events"]
    [asked, answered] = [event["fields"] for event in page if event["fields"]["api"] == "INIT_PRODUCER_ID"]
    assert asked["body"]["transactionalId"] == "till-1"
    assert [answered["body"]] == of_lines
    kind, followed = next(hub.events(cluster, kind="response"))
    assert ("response", {"body"}) == (kind, {"body"} & followed["fields"].keys())
    waited = hub.post(
        "clusters", cluster, "wait", body={"event": {"kind": "response", "fields": {"api": "INIT_PRODUCER_ID"}}}
    )
    assert answered == waited["found"][0]["fields"]


def test_the_kinds_of_events_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
    rows = re.findall(r"^\| (`[^|]+`) \|", page.split("| kind | fields")[1], re.MULTILINE)
    stem = ""
    listed = []
    for name in re.findall(r"`([^`]+)`", " ".join(rows)):
        stem = name.rpartition("_")[0] if not name.startswith("…") else stem
        listed.append(name.replace("…", stem))
    assert list(KINDS) == listed


@pytest.mark.slow
def test_a_stream_has_what_was_what_comes_and_the_end(hub: HubClient) -> None:
    cluster, bootstrap = made(hub)
    Till(bootstrap).close()

    def follow() -> Iterator[tuple[str, Any]]:
        return hub.events(cluster, kind="init_producer_id")

    stream = follow()
    kind, first = next(stream)
    assert ("init_producer_id", 0) == (kind, first["fields"]["producer_epoch"])
    with ThreadPoolExecutor(1) as beside:
        coming = beside.submit(next, stream)
        Till(bootstrap).close()
        _, second = coming.result(10)
        assert 1 == second["fields"]["producer_epoch"]
        assert second["seq"] > first["seq"]
        ending = beside.submit(list, stream)
        hub.delete("clusters", cluster)
        assert [("end", {})] == ending.result(10)


@pytest.mark.slow
def test_a_slow_reader_is_told_of_the_gap_and_stalls_no_broker(beside: HubBeside, hub: HubClient) -> None:
    """It reads nothing while far more happens than fits into what lies between."""
    cluster, bootstrap = made(hub)
    address = urlsplit(hub.url)
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect((address.hostname, address.port))
        path = f"/clusters/{cluster}/events?follow=true&kind=log_segment_dropped"
        reader.sendall(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
        stream = reader.makefile("rb")
        assert b": odradek" in b"".join(stream.readline() for _ in range(8))

        ring = beside.hub.get(cluster).events
        for _ in range(300):
            beside.within(lambda: ring.emit(1, [Fact("log_segment_dropped", {"text": "x" * 1000}) for _ in range(100)]))
            if _ % 100 == 0:
                Till(bootstrap).close()  # the brokers serve meanwhile
        last = ring.last

        seen: list[int] = []
        gaps: list[dict[str, int]] = []
        kind = ""
        while not seen or seen[-1] < last:
            line = stream.readline().decode().strip()
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data" and kind == "gap":
                gaps.append(json.loads(value))
            elif name == "data":
                seen.append(json.loads(value)["seq"])
    assert gaps
    assert seen == sorted(set(seen))
    missed = {number for gap in gaps for number in range(gap["from"], gap["to"] + 1)}
    assert not missed & set(seen)
