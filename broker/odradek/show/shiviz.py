"""A history as a log for ShiViz (https://bestchai.bitbucket.io/shiviz/), which draws causal order.

The file has the form that ShiViz documents for an upload: a line with the regular expression of an event, a line with
that of the delimiter between executions (empty for one), then two lines for each event. The hosts are clients and
brokers. An event at a coordinator or in a partition is one of the broker that emitted it.

Only brokers emit events, so a client's send stands directly before its receipt, and its receipt of a response directly
behind that response.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from odradek.show.attribution import MESSAGES
from odradek.show.history import History, Lane, Step
from odradek.stuck.words import plain

__all__ = ["DELIMITER", "EXPRESSION", "shiviz"]

EXPRESSION = r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})"
"""The default of ShiViz."""
DELIMITER = r"=== (?<trace>.*) ==="
"""The delimiter before each of several executions, with its name; two of one name would be one execution."""
UNSAFE = re.compile(r'[\s"\\{}]')
"""A host ends at a space, and its name is a key of JSON."""
BRACES = str.maketrans("{}", "()")
"""An event that ends in braces could be taken for the line with its host and clock."""
LINE_MAX = 500

Clock = dict[str, int]


def shiviz(*histories: History) -> str:
    """The log of one run, or of several that ShiViz compares.

    Each event increments its host's entry of the clock; a receipt has seen what its sender had.
    """
    lines = [EXPRESSION, DELIMITER if len(histories) > 1 else ""]
    for number, history in enumerate(histories, 1):
        if len(histories) > 1:
            lines.append(f"=== {number}: {_line(history.title)} ===")
        for event, host, clock in _Telling(history).events():
            lines += [_line(event), f"{host} {msgspec.json.encode(clock).decode()}"]
    return "\n".join(lines) + "\n"


def _line(text: str) -> str:
    return plain(text.translate(BRACES).replace("===", "= ="), LINE_MAX)


class _Telling:
    """The vector clocks, as they are after the last event."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.hosts = _hosts(history.lanes)
        self.clocks: dict[str, Clock] = {}

    def events(self) -> Iterator[tuple[str, str, Clock]]:
        """Each event, its host and its clock, in an order in which a send stands before its receipt."""
        for step in self.history.steps:
            sender, receiver = self.ends(step)
            if sender == receiver:
                yield step.text, receiver, self.tick(receiver)
                continue
            sent = self.tick(sender)
            yield f"sends {step.text}", sender, sent
            yield f"receives {step.text}", receiver, self.tick(receiver, sent)

    def ends(self, step: Step) -> tuple[str, str]:
        """The sending and the receiving host; they are equal for an event without a message."""
        if step.kind not in MESSAGES:
            here = f"broker:{step.node}"
            return here, here
        return self.hosts[step.source], self.hosts[step.target]

    def tick(self, host: str, seen: Clock | None = None) -> Clock:
        """The clock of a host at its next event; the one after that changes it."""
        clock = self.clocks.setdefault(host, {})
        for other, count in (seen or {}).items():
            clock[other] = max(count, clock.get(other, 0))
        clock[host] = clock.get(host, 0) + 1
        return clock


def _hosts(lanes: tuple[Lane, ...]) -> list[str]:
    """The host of each lane; two clients whose names differ only in spaces stay two hosts."""
    hosts: list[str] = []
    for lane in lanes:
        if lane.kind != "client":
            hosts.append(f"broker:{lane.key.partition(':')[2]}")
            continue
        name = wanted = UNSAFE.sub("_", plain(lane.key))
        number = 1
        while name in hosts:
            number += 1
            name = f"{wanted}_{number}"
        hosts.append(name)
    return hosts
