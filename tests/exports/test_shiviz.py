"""Logs for ShiViz, read by the regular expressions that they name, and the clocks in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise

from msgspec.structs import replace
from tests.exports.histories import hostile_texts, named, two_transactions

from odradek.show.history import Lane
from odradek.show.shiviz import DELIMITER, EXPRESSION, shiviz

Event = tuple[str, str, dict[str, int]]


def read(log: str) -> list[list[Event]]:
    """The executions of a log, read as ShiViz documents it: by the expressions in its first two lines."""
    expression, delimiter, rest = log.split("\n", 2)
    executions = re.split(python(delimiter).replace("?P<trace>", "?:"), rest)[1:] if delimiter else [rest]
    return [list(events(python(expression), part)) for part in executions]


def python(expression: str) -> str:
    """The same expression of JavaScript in Python: named groups have a P."""
    return re.sub(r"\(\?<(?=\w)", "(?P<", expression)


def events(expression: str, text: str) -> Iterator[Event]:
    position = 0
    for found in re.finditer(expression, text):
        assert text[position : found.start()].strip() == "", "nothing stands between events"
        position = found.end()
        yield found["host"], found["event"], json.loads(found["clock"])
    assert text[position:].strip() == ""


def assert_consistent(told: list[Event]) -> None:
    """The rules of vector clocks, and what ShiViz asks for: a host's own entry goes up by one, from 1 on."""
    last: dict[str, dict[str, int]] = {}
    for host, _, clock in told:
        before = last.get(host, {})
        assert clock[host] == before.get(host, 0) + 1
        assert all(clock.get(other, 0) >= count for other, count in before.items())
        for other, count in clock.items():
            # Nobody knows of an event of another host that has not happened.
            assert other == host or count <= last[other][other]
        last[host] = clock


def received(told: list[Event]) -> list[tuple[Event, Event]]:
    """Each receipt with its send, which stands before it."""
    return [(one, other) for one, other in pairwise(told) if other[1].startswith("receives ")]


def test_every_event_has_a_host_that_runs_and_a_clock_that_is_right() -> None:
    history = two_transactions()
    [told] = read(shiviz(history))
    assert_consistent(told)
    assert {host for host, _, _ in told} == {"client:client", "broker:1", "broker:2"}
    assert sum(event.startswith("sends ") for _, event, _ in told) > 5
    assert "CompleteAbort" in " ".join(event for _, event, _ in told)


def test_a_receipt_has_seen_what_its_sender_had() -> None:
    pairs = received(read(shiviz(two_transactions()))[0])
    assert len(pairs) > 5
    for (sender, sent, before), (receiver, receipt, after) in pairs:
        assert sender != receiver
        assert sent.removeprefix("sends ") == receipt.removeprefix("receives ")
        assert all(after[host] >= count for host, count in before.items())


def test_a_response_goes_back_to_its_client() -> None:
    [told] = read(shiviz(named("till")))
    assert [(host, event) for host, event, _ in told] == [
        ("client:till", "sends till"),
        ("broker:1", "receives till"),
        ("broker:1", "till"),
        ("broker:1", "sends till"),
        ("client:till", "receives till"),
    ]
    assert told[-1][2] == {"client:till": 2, "broker:1": 3}


def test_a_coordinator_and_a_partition_are_at_the_broker_that_tells() -> None:
    history = two_transactions()
    assert {lane.kind for lane in history.lanes} == {"client", "coordinator", "broker", "partition"}
    [told] = read(shiviz(history))
    at = {event: host for host, event, _ in told}
    [opened] = {f"broker:{step.node}" for step in history.steps if step.kind == "transaction_opened"}
    assert {host for event, host in at.items() if event.startswith("open: ")} == {opened}


def test_no_name_breaks_the_log() -> None:
    for text in hostile_texts():
        [told] = read(shiviz(named(text)))
        assert len(told) == 5, text
        assert_consistent(told)


def test_clients_whose_names_differ_in_spaces_are_two_hosts() -> None:
    one, other = (Lane(key=f"client:{name}", kind="client", name=name) for name in ("a b", "a_b"))
    history = named("x")
    lanes, again = (one, history.lanes[1], other), replace(history.steps[0], source=2, seq=9)
    [told] = read(shiviz(replace(history, lanes=lanes, steps=(*history.steps, again))))
    assert {"client:a_b", "client:a_b_2"} < {host for host, _, _ in told}


def test_two_runs_are_two_executions() -> None:
    log = shiviz(two_transactions(), named("till"))
    assert log.splitlines()[:2] == [EXPRESSION, DELIMITER]
    first, second = read(log)
    assert (len(second), len(first) > 20) == (5, True)
    assert_consistent(first)
    assert_consistent(second)
    assert "=== 2: till ===" in log.splitlines()
    # Neither a name that looks like what stands between them nor the same name makes more of them, or fewer.
    assert len(read(shiviz(named("=== x ==="), named("=== x ===")))) == 2
