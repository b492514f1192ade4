"""Where two runs differ first.

Two runs of one test have different times, correlation ids, producer ids and topic ids, brokers that do not wait for
each other act in any order, and the leader of a partition may be random. So events are compared in strands: the events
of a transactional id at its coordinator, or of one partition, are in order. Random ids are numbered as they appear.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator
from itertools import zip_longest

from msgspec import Struct

from odradek.show.attribution import MESSAGES
from odradek.show.events import Fields, Value
from odradek.show.history import History, Step
from odradek.show.places import INTERNAL_TOPICS

__all__ = ["Difference", "difference"]

IGNORED = frozenset(
    {"correlation", "connection", "duration_ns", "topic_id", "body", "body_bytes", "from_broker", "why"}
)
"""Fields without meaning for the comparison, or with another value in every run."""
COMPARED_IN_BODIES = frozenset({"producerEpoch", "committed", "isolationLevel", "verifyOnly", "acks", "groupId"})
"""Fields of requests and responses that are compared beside the error: the decisions of clients."""
BY_THE_CLOCK = frozenset(
    {
        "API_VERSIONS",
        "METADATA",
        "FETCH",
        "HEARTBEAT",
        "CONSUMER_GROUP_HEARTBEAT",
        "SHARE_GROUP_HEARTBEAT",
        "STREAMS_GROUP_HEARTBEAT",
        "SHARE_FETCH",
        "FIND_COORDINATOR",
        "DESCRIBE_CLUSTER",
        "DESCRIBE_TRANSACTIONS",
        "LIST_OFFSETS",
        "BROKER_HEARTBEAT",
        "PUSH_TELEMETRY",
        "GET_TELEMETRY_SUBSCRIPTIONS",
        "ALLOCATE_PRODUCER_IDS",
    }
)
"""Requests that are repeated periodically: their number does not matter."""
UNTIL_IT_IS_READY = frozenset({"CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"})
"""Errors after which a request is sent again until it succeeds."""
IGNORED_KINDS = frozenset({"telemetry_pushed", "why"})
RANDOM = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?<![0-9a-z])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}(?![0-9a-z])"
    r"|[0-9]{6,}",
    re.I,
)
"""The part of a name that differs in every run: a UUID, hexadecimal digits, a time or port behind a name."""
Token = dict[str, Hashable]
Strand = tuple[str, str]
"""The subject of an event: `("x", "t-0")`."""


class Difference(Struct, frozen=True, kw_only=True):
    """The first step in which two histories differ. Both are None if they do not."""

    sentence: str
    left: int | None = None
    """The `seq` of the step in the first history; None if it has no step there."""
    right: int | None = None
    """The same in the second history."""
    pairs: tuple[tuple[int, int], ...] = ()
    """The `seq`s of steps that are the same, in the order of the first history."""


class _Told(Struct, frozen=True):
    """A step, its compared values, and its place among the compared steps."""

    step: Step
    token: Token
    place: int


def difference(left: History, right: History) -> Difference:
    """Compare two histories from their beginnings."""
    ours, theirs = _strands(left), _strands(right)
    pairs: list[tuple[int, int]] = []
    found: list[tuple[int, Strand, _Told | None, _Told | None]] = []
    for strand in dict.fromkeys([*ours, *theirs]):
        for mine, other in zip_longest(ours.get(strand, ()), theirs.get(strand, ())):
            if mine is not None and other is not None and mine.token == other.token:
                pairs.append((mine.step.seq, other.step.seq))
                continue
            if (mine is None and left.left_out) or (other is None and right.left_out):
                break  # later steps are not in the window
            found.append((min(each.place for each in (mine, other) if each), strand, mine, other))
            break
    pairs.sort()
    if not found:
        return Difference(sentence=_no_difference(left, right), pairs=tuple(pairs))
    _, strand, mine, other = min(found, key=lambda each: (each[0], each[1]))
    return Difference(
        sentence=_sentence(strand, (left.title, mine), (right.title, other)),
        left=mine.step.seq if mine else None,
        right=other.step.seq if other else None,
        pairs=tuple(pairs),
    )


class _Names:
    """Numbers the random ids of a run in the order of their appearance."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, Value], int] = {}
        self._counts: Counter[str] = Counter()
        self._shown: dict[tuple[str, str], str] = {}

    def number(self, kind: str, value: Value) -> int:
        """The number of an id among those of its kind, from 1."""
        known = self._numbers.get((kind, value))
        if known is None:
            self._counts[kind] += 1
            known = self._numbers[kind, value] = self._counts[kind]
        return known

    def name(self, kind: str, name: str) -> str:
        """A name; one with a random part by its number: `till-*#1`."""
        shown = self._shown.get((kind, name))
        if shown is None:
            stem = RANDOM.sub("*", name)
            shown = name if stem == name else f"{stem}#{self.number(f'{kind} {stem}', name)}"
            self._shown[kind, name] = shown
        return shown


NAMES = frozenset({"transactional_id", "client_id", "group_id", "topic"})


def _strands(history: History) -> dict[Strand, list[_Told]]:
    names = _Names()
    of_strands: dict[Strand, _Names] = {}
    strands: dict[Strand, list[_Told]] = {}
    for place, step in enumerate(_compared(history)):
        strand = _strand(step, history, names)
        token = _token(step, names, of_strands.setdefault(strand, _Names()))
        strands.setdefault(strand, []).append(_Told(step, token, place))
    return strands


def _compared(history: History) -> Iterator[Step]:
    """The steps that are compared."""
    again = {step.answer_to for step in history.steps if step.error in UNTIL_IT_IS_READY} - {None}
    for step in history.steps:
        if step.kind in IGNORED_KINDS or step.fields.get("api") in BY_THE_CLOCK:
            continue
        if step.error in UNTIL_IT_IS_READY or step.seq in again:
            continue
        if step.kind == "lso_moved" and step.fields.get("topic") in INTERNAL_TOPICS:
            continue
        yield step


def _strand(step: Step, history: History, names: _Names) -> Strand:
    return _whom(step, history, names), _where(step, history, names)


def _whom(step: Step, history: History, names: _Names) -> str:
    if step.transactional_id is not None:
        return names.name("transactional_id", step.transactional_id)
    if "group_id" in step.fields:
        return f"group {names.name('group_id', str(step.fields['group_id']))}"
    if step.kind in MESSAGES:
        client = history.lanes[step.source if step.kind == "request" else step.target]
        return f"client {names.name('client_id', client.name)}" if client.kind == "client" else "brokers"
    return ""


def _where(step: Step, history: History, names: _Names) -> str:
    topic, partition = step.fields.get("topic"), step.fields.get("partition")
    if topic is not None and partition is not None:
        return f"{names.name('topic', str(topic))}-{partition}"
    if step.kind in MESSAGES:
        asked = history.lanes[step.target if step.kind == "request" else step.source]
        return f"requests to the {asked.kind}" if step.kind == "request" else f"responses of the {asked.kind}"
    return "coordinator" if history.lanes[step.source].kind == "coordinator" else f"broker {step.node}"


def _token(step: Step, names: _Names, of_strand: _Names) -> Token:
    token: Token = {"kind": step.kind}
    for name, value in step.fields.items():
        if value is None or name in IGNORED:
            continue
        if name == "producer_id":
            token[name] = of_strand.number(name, value)
        elif name in NAMES and isinstance(value, str):
            token[name] = "a broker" if step.fields.get("from_broker") else names.name(name, value)
        else:
            token[name] = value if isinstance(value, str | int | float) else str(value)
    body = step.fields.get("body")
    if isinstance(body, dict):
        token |= {name: str(body[name]) for name in COMPARED_IN_BODIES & body.keys()}
    return token


def _no_difference(left: History, right: History) -> str:
    if left.left_out or right.left_out:
        return f"{left.title} and {right.title} do not differ in the events that were read."
    return f"{left.title} and {right.title} do not differ, except in times and in ids that are drawn."


def _sentence(strand: Strand, mine: tuple[str, _Told | None], other: tuple[str, _Told | None]) -> str:
    where = f"They differ first in {', '.join(filter(None, strand))}"
    (title, one), (other_title, two) = mine, other
    if one is None or two is None:
        (having, told), lacking = ((title, one), other_title) if one else ((other_title, two), title)
        assert told is not None, "one of both has something there"
        return (
            f"{where}: {having} has “{told.step.text}” (event {told.step.seq}), and {lacking} has nothing more there."
        )
    fields = _differing(one.token, two.token) if one.step.text == two.step.text else ""
    return (
        f"{where}: {title} has “{one.step.text}” (event {one.step.seq}), "
        f"{other_title} has “{two.step.text}” (event {two.step.seq}){fields}."
    )


def _differing(mine: Fields, other: Fields) -> str:
    names = [name for name in dict.fromkeys([*mine, *other]) if mine.get(name) != other.get(name)]
    shown = [f"{name} is {mine.get(name, 'absent')} and {other.get(name, 'absent')}" for name in names]
    return f": {', '.join(shown)}"
