"""Incidents that were found in files, held against what the living cluster says of them, before a command is printed.

Files are of the time at which they were read or copied. A transaction that hangs in them may have ended since, and the
other replicas of a damaged partition may have gone. One look is taken, as `odradek watch` takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.messages.metadata_response import MetadataResponse
from odradek.wire.registry import ApiKey
from odradek_pipeline.audit.result import Result, Severity
from odradek_pipeline.watch.brokers import Brokers, OpenProducer, Partition
from odradek_pipeline.watch.look import Look, is_known, take_look
from odradek_pipeline.watch.watcher import abort_command

__all__ = ["Living", "ask_living", "held_against"]

DESTROYS = ("remove", "Remove")
"""What is said of commands that take a replica's files away."""
_HELD_BACK = "Nothing yet: {why}. Audit again with --bootstrap when the cluster answers."


@dataclass(frozen=True, slots=True)
class Living:
    """What the cluster has said."""

    bootstrap: str
    look: Look | None
    in_sync: Mapping[Partition, tuple[int, ...]]
    """The replicas of each partition that are in sync."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What is said of one incident: `is_over` where it was true of the files and is not of the cluster any more."""

    said: str
    run: str
    is_over: bool = False


def ask_living(bootstrap: str, brokers: Brokers, at_ms: int) -> Living:
    """One look at the cluster, and which replicas are in sync."""
    look = take_look(brokers, at_ms)
    said = brokers.ask_any(MetadataRequest(None, False), ApiKey.METADATA, MetadataResponse) if look else None
    in_sync = {
        (topic.name or "", one.partition_index): tuple(one.isr_nodes)
        for topic in (said.topics if said is not None else ())
        for one in topic.partitions
    }
    return Living(bootstrap, look, in_sync)


def held_against(result: Result, living: Living) -> None:
    """Put the cluster's answers into the incidents; what is over is `info`, and no command is printed for it."""
    assert result.incidents is not None
    answers = [_answer(row, living) for row in result.incidents.to_dict("records")]
    result.incidents["cluster"] = pd.Series([one.said for one in answers], result.incidents.index, dtype="object")
    result.incidents["run"] = pd.Series([one.run for one in answers], result.incidents.index, dtype="object")
    over = [number for number, one in enumerate(answers) if one.is_over]
    result.incidents.loc[over, "severity"] = Severity.INFO
    found = result.anomalies
    of_over = found["incident"].isin(over) & (found["severity"] == Severity.BAD)
    found.loc[of_over, "detail"] += "; the cluster says that it is over"
    found.loc[of_over, "severity"] = Severity.INFO


def _answer(row: Mapping[str, Any], living: Living) -> _Answer:
    look = living.look
    run = str(row["run"]).replace("HOST:PORT", living.bootstrap)
    if look is None:
        why = f"nobody answers at {living.bootstrap}"
        return _Answer(f"{why[0].upper()}{why[1:]}.", _HELD_BACK.format(why=why) if run else "")
    of_kind = _BY_INCIDENT.get(str(row["incident"]))
    if of_kind is not None:
        return of_kind(row, living, look, run)
    if any(word in run for word in DESTROYS):
        return _of_replica(row, living, run)
    return _Answer("", run)


def _hanging(row: Mapping[str, Any], living: Living, look: Look, run: str) -> _Answer:
    at = (str(row["topic"]), int(row["partition"]))
    name = f"{at[0]}-{at[1]}"
    if at not in look.layout.leaders:
        return _Answer(f"There is no {name} any more.", "", is_over=True)
    if at not in look.high or at not in look.stable or (look.high[at] > look.stable[at] and at not in look.told):
        why = f"the leader of {name} does not say who has transactions open there"
        return _Answer(f"{why[0].upper()}{why[1:]}.", _HELD_BACK.format(why=why))
    here = [one for one in look.opened if one.at == at and one.producer_id == row["producer_id"]]
    same = next((one for one in here if one.start_offset == row["offset"]), None)
    if same is None:
        others = f"; it has another one open since offset {here[0].start_offset}" if here else ""
        said = f"The leader of {name} has no transaction of producer {row['producer_id']} open since offset "
        return _Answer(f"{said}{row['offset']} any more{others}.", "", is_over=True)
    if is_known(same, look.under_way):
        state = next(one for one in look.under_way if one.producer_id == same.producer_id)
        said = f"{state.transactional_id} is {state.state} for its coordinator, which ends it"
        return _Answer(f"It is open there, and {said}.", "", is_over=True)
    if look.doubts:
        why = f"it is open there, and not every coordinator could be asked ({look.doubts})"
        return _Answer(f"{why[0].upper()}{why[1:]}.", _HELD_BACK.format(why=why))
    return _Answer(
        "It is open there, no coordinator has it under way, and it was still open after all were asked.",
        _aborts(same, living, look),
    )


def _aborts(one: OpenProducer, living: Living, look: Look) -> str:
    """Of this transaction in every partition where it hangs."""
    of = [
        other
        for other in look.unknown
        if (other.producer_id, other.producer_epoch) == (one.producer_id, one.producer_epoch)
    ]
    places = sorted({(other.topic, other.partition, other.start_offset) for other in of})
    return "; ".join(abort_command(living.bootstrap, place) for place in places)


def _of_coordinator(row: Mapping[str, Any], living: Living, look: Look, run: str) -> _Answer:
    named = str(row["transactional_id"])
    found = next((one for one in look.under_way if one.transactional_id == named), None)
    if found is not None and (found.producer_id, found.producer_epoch) == (row["producer_id"], row["producer_epoch"]):
        return _Answer(f"{named} is {found.state} for its coordinator now, too.", run)
    if found is not None:
        return _Answer(f"{named} is in another transaction by now, {found.state}.", "", is_over=True)
    if look.doubts:
        why = f"not every coordinator could be asked ({look.doubts})"
        return _Answer(f"{why[0].upper()}{why[1:]}.", _HELD_BACK.format(why=why))
    return _Answer(f"No coordinator has {named} under way any more.", "", is_over=True)


def _of_replica(row: Mapping[str, Any], living: Living, run: str) -> _Answer:
    """Files are taken away only where another replica has what is in them."""
    at = (str(row["topic"]), int(row["partition"]))
    in_sync = living.in_sync.get(at)
    if in_sync is None:
        said = f"The cluster has no {at[0]}-{at[1]}." if at[0] else ""
        return _Answer(said, run if not at[0] else _HELD_BACK.format(why="the cluster does not know the partition"))
    listed = ", ".join(map(str, in_sync)) or "none"
    said = f"In sync of {at[0]}-{at[1]} are the replicas on {listed}."
    is_whole_directory = "directory" in run
    if is_whole_directory and len(in_sync) < 2:
        return _Answer(said, "Remove nothing: no other replica is in sync. Restore it from a backup.")
    return _Answer(said, run)


_BY_INCIDENT: Mapping[str, Callable[[Mapping[str, Any], Living, Look, str], _Answer]] = {
    "hanging-transaction": _hanging,
    "stuck-prepare": _of_coordinator,
    "txn-timeout-exceeded": _of_coordinator,
}
