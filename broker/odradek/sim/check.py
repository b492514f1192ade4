"""`odradek sim check`: the event log of a run with real clients, held against the simulator's model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec

from odradek.commands import Argument
from odradek.sim.model import Model
from odradek.sim.promises import PROMISES
from odradek.usage import UsageError

__all__ = ["check", "check_lines"]

FOUND = 1
Lines = Iterator[tuple[int, bytes]]


def check(
    events: Annotated[Path, Argument(help="What `odradek serve --events FILE` has written.")],
) -> None:
    """Check the events of a run with real clients: what transactions promise, as the simulator checks it.

    Exit code 0 if every promise was kept, 1 if one was broken: then each breach is told with its line.
    """
    try:
        with events.open("rb") as file:
            count, found = check_lines(str(events), ((number, line) for number, line in enumerate(file, 1)))
    except OSError as error:
        raise UsageError(f"{events}: {error.strerror}.") from None
    for where, name, seen in found:
        print(f"{where}: {name}: {seen}")
    for name in dict.fromkeys(name for _, name, _ in found):
        print(f"Promised: {PROMISES[name]}")
    print(f"{count} events, {len(found)} with a finding" if found else f"{count} events: every promise was kept.")
    raise SystemExit(FOUND if found else 0)


def check_lines(name: str, lines: Lines) -> tuple[int, list[tuple[str, str, str]]]:
    """How many events there are, and where which promise was broken by what. Raises UsageError for what is no event.

    A file that several starts have appended to is several runs: each begins with the number 1.
    """
    found: list[tuple[str, str, str]] = []
    model, count, last, number = Model(), 0, 0, 0
    for number, line in lines:
        event = _read(name, number, line)
        if event is None:
            continue
        if event["seq"] <= last:
            found += _over(model, name, number - 1)
            model = Model()
        last = event["seq"]
        try:
            model.take(event["node"], event["kind"], event)
        except KeyError as error:
            raise UsageError(f"{name}:{number} is no event: {event['kind']} has no {error.args[0]}.") from None
        count += 1
        found += [(f"{name}:{number}", each.name, each.seen) for each in model.problems]
        model.problems.clear()
    return count, [*found, *_over(model, name, number)]


def _over(model: Model, name: str, number: int) -> list[tuple[str, str, str]]:
    model.end()
    return [(f"{name}:{number}", each.name, each.seen) for each in model.problems]


def _read(name: str, number: int, line: bytes) -> dict[str, Any] | None:
    if not line.strip():
        return None
    try:
        event = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise UsageError(f"{name}:{number} is no event: {error}.") from None
    missing = [field for field in ("seq", "node", "kind") if field not in event]
    if missing:
        raise UsageError(f"{name}:{number} is no event: it has no {missing[0]}.")
    return event
