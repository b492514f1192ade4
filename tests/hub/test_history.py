"""The history of a cluster's newest events, as the page asks for it."""

from __future__ import annotations

from contextlib import closing

import msgspec
import pytest
from tests.hub.helpers import Till, made, refused

from odradek.control.client import HubClient
from odradek.control.events import EventRing
from odradek.control.history import NEAR, history
from odradek.core.machine import Fact
from odradek.show.history import History


def history_of(hub: HubClient, cluster: str, **query: str | int) -> History:
    """The answer of the hub has the fields of a History."""
    return msgspec.convert(hub.get("clusters", cluster, "history", **query), History)


def ring_of(count: int, *, size: int = 10_000) -> EventRing:
    ring = EventRing(lambda: 7, size=size)
    for _ in range(count):
        ring.emit(1, [Fact("lso_moved", {"topic": "t", "partition": 0, "hw": 1, "lso": 1})])
    return ring


def seqs(told: History) -> list[int]:
    return [step.seq for step in told.steps]


def test_a_transaction_from_its_first_request_to_its_last_marker(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    with closing(Till(bootstrap)) as till:
        assert [0, 0, 0] == [till.add(), till.send(), till.end()]
    hub.post("clusters", cluster, "wait", body={"transaction": {"id": "till-1", "state": "CompleteCommit"}})
    told = history_of(hub, cluster)
    mine = [(step.kind, step.fields.get("api")) for step in told.steps if step.transactional_id == "till-1"]
    assert mine[0] == ("request", "INIT_PRODUCER_ID")
    assert {("request", "END_TXN"), ("request", "PRODUCE"), ("marker_written", None)} <= set(mine)
    assert ("till-1",) == told.transactions
    assert cluster == told.title
    assert {"client:till", "coordinator:1", "broker:1", "partition:t-0"} <= {lane.key for lane in told.lanes}


def test_steps_and_events_are_the_same(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    with closing(Till(bootstrap)) as till:
        till.add()
    told = history_of(hub, cluster, most=5000)
    events = hub.get("clusters", cluster, "events")["events"][: len(told.steps)]
    assert [(step.seq, step.kind, step.node, step.fields) for step in told.steps] == [
        (event["seq"], event["kind"], event["node"], event["fields"]) for event in events
    ]
    assert (told.left_out, told.note) == (0, "")


def test_a_window_and_the_one_before_it(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    with closing(Till(bootstrap)) as till:
        till.add()
    newest = history_of(hub, cluster, most=4)
    older = history_of(hub, cluster, most=3, before=newest.steps[0].seq)
    assert seqs(older) + seqs(newest) == list(range(older.steps[0].seq, newest.steps[-1].seq + 1))
    assert newest.note == f"4 events of {4 + newest.left_out:,}: the newest."
    assert older.note.endswith(f"the newest before number {newest.steps[0].seq}.")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"most": "0"}, "Most is a number from 1 to 5000, not 0"),
        ({"most": "5001"}, "Most is a number from 1 to 5000, not 5001"),
        ({"most": "many"}, "Most is a number from 1 to 5000, not many"),
        ({"before": "-1"}, "Before is a number from 1 to 1000000000000000000, not -1"),
    ],
)
def test_what_is_no_window_is_refused(hub: HubClient, query: dict[str, str], sentence: str) -> None:
    cluster, _ = made(hub, topics=["t"])
    status, problem = refused(lambda: hub.get("clusters", cluster, "history", **query))
    assert (400, f"{sentence}.") == (status, problem["detail"].rstrip(".") + ".")


def test_what_has_left_the_ring_is_not_counted() -> None:
    told = history(ring_of(50, size=20), "c", most=5)
    assert (seqs(told), told.left_out) == ([46, 47, 48, 49, 50], 15)
    assert seqs(history(ring_of(50, size=20), "c", before=33)) == [31, 32]
    assert seqs(history(ring_of(50, size=20), "c", before=3)) == []


def test_an_id_among_many_events() -> None:
    """The events about it, by its id or its producer id, and those near them."""
    ring = ring_of(100)
    ring.emit(1, [Fact("init_producer_id", {"transactional_id": "x", "producer_id": 7})])
    ring.emit(1, [Fact("init_producer_id", {"transactional_id": "y", "producer_id": 8})])
    for _ in range(100):
        ring.emit(1, [Fact("lso_moved", {})])
    ring.emit(1, [Fact("transaction_opened", {"topic": "t", "partition": 0, "producer_id": 7})])
    ring.emit(1, [Fact("transaction_opened", {"topic": "t", "partition": 1, "producer_id": 8})])
    told = history(ring, "c", transactional_id="x")
    assert seqs(told) == [*range(101 - NEAR, 102 + NEAR), *range(203 - NEAR, 205)]
    assert told.left_out == 204 - len(told.steps)
    assert "those about x" in told.note
    assert seqs(history(ring, "c", transactional_id="x", most=3)) == [202, 203, 204]
    assert seqs(history(ring, "c", transactional_id="z")) == []
