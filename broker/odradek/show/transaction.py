"""One transaction out of a history, as a picture shows it: a lane for each broker, with its role."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from odradek.cli.usage import UsageError
from odradek.show.attribution import MESSAGES, TRANSACTIONAL
from odradek.show.history import History, Lane, Step
from odradek.show.places import VERIFICATION

__all__ = ["of_transaction", "only"]

ENDED = ("CompleteCommit", "CompleteAbort")
TOLD_BY_OTHERS = frozenset({"resumed", "init_producer_id"})
"""Kinds that are left out: a verdict or a state of the coordinator says the same."""


def only(history: History, transactional_id: str) -> History:
    """The steps about a transactional id, and the lanes that they use."""
    steps = [step for step in history.steps if step.transactional_id == transactional_id]
    return _with(history, steps, history.lanes, transactional_id)


def of_transaction(history: History, transactional_id: str | None = None) -> History:
    """The picture of a transactional id; by default of the one whose transaction ended last, or was seen last.

    Events of a partition stand at its leader. Two events with the same content are shown once.
    Raises UsageError if there is no such id.
    """
    chosen = transactional_id or _last_ended(history) or next(iter(history.transactions[-1:]), None)
    if chosen is None:
        raise UsageError("These events are about no transaction.")
    steps = [step for step in history.steps if step.transactional_id == chosen and step.kind not in TOLD_BY_OTHERS]
    asked = any(step.kind == "verify_start" for step in steps)
    steps = [step for step in steps if _is_shown(step, asked=asked)]
    if not steps:
        raise UsageError(f"These events say nothing about the transactional id {chosen!r}.")
    return _with(history, *_at_leaders(steps, history.lanes), chosen)


def _last_ended(history: History) -> str | None:
    ends = (step.transactional_id for step in reversed(history.steps) if step.fields.get("state_to") in ENDED)
    return next(ends, None)


def _is_shown(step: Step, *, asked: bool) -> bool:
    """Whether a step is shown: requests that change a transaction, but no verification that `verify_start` shows."""
    if step.kind not in MESSAGES:
        return True
    api = step.fields.get("api")
    return api in TRANSACTIONAL and not (asked and api == VERIFICATION and step.fields.get("from_broker"))


def _at_leaders(steps: Sequence[Step], lanes: tuple[Lane, ...]) -> tuple[list[Step], list[Lane]]:
    """The steps, those of a partition at its broker; and the lanes, those of brokers with their partitions."""
    leads: dict[int, dict[str, None]] = {}
    for step in steps:
        if lanes[step.source].kind == "partition":
            leads.setdefault(step.node, {})[lanes[step.source].name] = None
    brokers = {lane.key: index for index, lane in enumerate(lanes) if lane.kind == "broker"}
    all_lanes = list(lanes)
    for node, places in leads.items():
        key = f"broker:{node}"
        led = Lane(key=key, kind="broker", name=f"broker {node}", about=f"leader of {', '.join(places)}")
        if key in brokers:
            all_lanes[brokers[key]] = led
        else:
            brokers[key] = len(all_lanes)
            all_lanes.append(led)
    return [_at_leader(step, lanes, brokers, leads) for step in steps], all_lanes


def _at_leader(step: Step, lanes: Sequence[Lane], brokers: dict[str, int], leads: dict[int, dict[str, None]]) -> Step:
    lane = lanes[step.source]
    if lane.kind != "partition":
        return step
    at = brokers[f"broker:{step.node}"]
    is_clear = len(leads[step.node]) == 1 or lane.name in step.text
    return msgspec.structs.replace(
        step, source=at, target=at, text=step.text if is_clear else f"{lane.name}: {step.text}"
    )


def _with(history: History, steps: Sequence[Step], lanes: Sequence[Lane], transactional_id: str) -> History:
    """A history of these steps only, which starts at the first one."""
    used = sorted({lane for step in steps for lane in (step.source, step.target)})
    index_of = {lane: index for index, lane in enumerate(used)}
    first_ms = steps[0].at_ms if steps else 0.0
    return msgspec.structs.replace(
        history,
        lanes=tuple(_of_one(lanes[index], transactional_id) for index in used),
        steps=tuple(
            msgspec.structs.replace(
                step, at_ms=step.at_ms - first_ms, source=index_of[step.source], target=index_of[step.target]
            )
            for step in steps
        ),
        transactions=(transactional_id,) if steps else (),
        start_ms=history.start_ms + first_ms,
    )


def _of_one(lane: Lane, transactional_id: str) -> Lane:
    """The lane of a client, with this id only."""
    return msgspec.structs.replace(lane, about=transactional_id) if lane.kind == "client" else lane
