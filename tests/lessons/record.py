"""Records a play of each story for its lesson (`make lessons`).

The cluster is simulated: the events are the same each time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.lessons.plays import PLAYS
from tests.lessons.stage import Stage

from odradek.core.event_line import event_line

__all__ = ["STORIES", "recording"]

STORIES = Path(__file__).parents[2] / "broker" / "odradek" / "page" / "stories"
NS_PER_MS = 1_000_000
HEARTBEATS = frozenset({"HEARTBEAT", "CONSUMER_GROUP_HEARTBEAT", "SHARE_GROUP_HEARTBEAT", "STREAMS_GROUP_HEARTBEAT"})
HEARTBEATS_TOLD = 2
"""So many of each client."""
ROUTINE = frozenset({"ALLOCATE_PRODUCER_IDS", "CREATE_TOPICS", "INCREMENTAL_ALTER_CONFIGS"})
"""Requests that every cluster sees, and no lesson is about."""
LEFT_OUT = frozenset({"controller_activated", "metadata_transaction_began", "metadata_transaction_ended"})
FIRST_LEVEL = "level_from"
"""A broker that starts says of each feature which level it finds; it has no level from before."""
Told = dict[str, Any]


def recording(story: str) -> bytes:
    """The events of a play, as the lines of an event file."""
    stage = Stage(story)
    PLAYS[story](stage)
    stage.ends()
    return b"".join(event_line(event) + b"\n" for event in _numbered(_without_heartbeats(_told(stage))))


def _told(stage: Stage) -> Iterator[Told]:
    """What happened from the beginning of the story on, without what is of no interest to anybody."""
    world = stage.world
    for at_ms, (node, fact) in list(zip(world.fact_times, world.facts, strict=True))[stage.begins_at :]:
        event: Told = {"at_ms": at_ms, "node": node, "kind": fact.kind, **fact.fields, **fact.body}
        if not _is_routine(event):
            yield event


def _is_routine(event: Told) -> bool:
    internal = str(event.get("topic", "")).startswith("__")
    return (
        event["kind"] in LEFT_OUT
        or event.get("api") in ROUTINE
        or (event["kind"] == "lso_moved" and internal)
        or (event["kind"] == "feature_changed" and event["feature"] != "transaction.version")
        or (event["kind"] == "feature_changed" and event.get(FIRST_LEVEL) is None)
    )


def _without_heartbeats(told: Iterator[Told]) -> Iterator[Told]:
    """Of the heartbeats of a client from which nothing follows, only the first ones."""
    events = list(told)
    exchanges: dict[tuple[Any, ...], int] = {}
    beaten: dict[str, int] = {}
    dropped: set[int] = set()
    for index, event in enumerate(events):
        if event.get("api") not in HEARTBEATS:
            continue
        key = (event["node"], event.get("connection"), event.get("correlation"))
        if event["kind"] == "request":
            exchanges[key] = index
        elif event["error"] == "NONE" and index == exchanges.get(key, -2) + 1 and not _assigns(event):
            client = str(event["client_id"])
            beaten[client] = beaten.get(client, 0) + 1
            if beaten[client] > HEARTBEATS_TOLD:
                dropped |= {index - 1, index}
    return (event for index, event in enumerate(events) if index not in dropped)


def _assigns(event: Told) -> bool:
    """Whether the answer to a heartbeat tells its member what it has from now on."""
    body = event.get("body", {})
    return body.get("assignment") is not None or body.get("activeTasks") is not None


def _numbered(told: Iterable[Told]) -> Iterator[Told]:
    """With the fields that every event has. A nanosecond lies between two events of the same millisecond."""
    for seq, event in enumerate(told, 1):
        at_ns = event.pop("at_ms") * NS_PER_MS + seq
        head = {"ts_ns": at_ns, "wall_ns": at_ns, "seq": seq, "node": event.pop("node"), "kind": event.pop("kind")}
        yield head | event


def main() -> None:
    """Write them all, or those that are named."""
    for story in sys.argv[1:] or PLAYS:
        path = STORIES / f"{story}.jsonl"
        path.write_bytes(recording(story))
    size = sum(path.stat().st_size for path in STORIES.glob("*.jsonl"))
    print(f"{len(PLAYS)} stories, {size} bytes")


if __name__ == "__main__":
    main()
