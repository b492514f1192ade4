"""`odradek sim check`: the event file of a run with real clients, judged by the simulator's model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from odradek.cli.commands import Argument
from odradek.cli.usage import UsageError
from odradek.core.wording import counted
from odradek.sim.model.model import Fields, Model
from odradek.sim.model.promises import PROMISES

__all__ = ["check", "check_lines"]

FOUND = 1
FIELDS = {"seq": int, "node": int, "kind": str}
"""Fields of every event."""
Lines = Iterator[tuple[int, bytes]]


def check(
    events: Annotated[Path, Argument(help="What `odradek serve --events FILE` has written.")],
) -> None:
    """Check the events of a run with real clients against the promises of transactions, as the simulator does.

    Exit code 0 if every promise was kept, 1 if one was broken: then each breach is printed with its line.
    """
    try:
        with events.open("rb") as file:
            count, lost, found = check_lines(str(events), ((number, line) for number, line in enumerate(file, 1)))
    except OSError as error:
        raise UsageError(f"{events}: {error.strerror}.") from None
    for where, name, seen in found:
        print(f"{where}: {name}: {seen}")
    for name in dict.fromkeys(name for _, name, _ in found):
        print(f"Promised: {PROMISES[name]}")
    told = counted(count, "event") + (f" ({lost} missing)" if lost else "")
    print(f"{told}, {len(found)} with a finding" if found else f"{told}: every promise was kept.")
    raise SystemExit(FOUND if found else 0)


def check_lines(name: str, lines: Lines) -> tuple[int, int, list[tuple[str, str, str]]]:
    """Count events and missing events, and list breaches as (file:line, name of the breach, sentence).

    A file that several starts have appended to holds several runs: each begins with the number 1.
    Raises UsageError for a line that is no event, and for events in the wrong order.
    """
    found: list[tuple[str, str, str]] = []
    model, count, lost, last, number = Model(), 0, 0, 0, 0
    for number, line in lines:
        event = _read(name, number, line)
        if event is None:
            continue
        seq = event["seq"]
        if seq == 1 and last:
            found += _over(model, name, number - 1)
            model, last = Model(), 0
        elif seq <= last:
            raise UsageError(f"{name}:{number} has event {seq} behind event {last}: they are not of one run, in order.")
        lost += seq - last - 1
        last = seq
        try:
            model.take(event["node"], event["kind"], event)
        except KeyError as error:
            raise UsageError(f"{name}:{number} is no event: {event['kind']} has no {error.args[0]}.") from None
        except TypeError:
            raise UsageError(f"{name}:{number} is no event: a field of {event['kind']} is of another type.") from None
        count += 1
        found += [(f"{name}:{number}", each.name, each.seen) for each in model.problems]
        model.problems.clear()
    if count == 0:
        raise UsageError(f"There is no event in {name}.")
    return count, lost, [*found, *_over(model, name, number)]


def _over(model: Model, name: str, number: int) -> list[tuple[str, str, str]]:
    model.end()
    return [(f"{name}:{number}", each.name, each.seen) for each in model.problems]


def _read(name: str, number: int, line: bytes) -> Fields | None:
    if not line.strip():
        return None
    try:
        event: Fields = msgspec.json.decode(line, type=dict)
    except msgspec.DecodeError as error:
        raise UsageError(f"{name}:{number} is no event: {error}.") from None
    for field, kind in FIELDS.items():
        if field not in event:
            raise UsageError(f"{name}:{number} is no event: it has no {field}.")
        if type(event[field]) is not kind:
            raise UsageError(f"{name}:{number} is no event: its {field} is {event[field]!r}.")
    return event
