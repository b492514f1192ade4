"""What an incident rests on: the batches around its place, and the steps of its transactions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from odradek_pipeline.logs import files
from odradek_pipeline.logs.layout import find_files
from odradek_pipeline.logs.scan import CONTROL, TRANSACTIONAL, scan_segments
from odradek_pipeline.logs.scanned import Scan

__all__ = ["batches_around", "event_times", "steps_of"]

AROUND = 4
STEPS_MAX = 12
_SHOWN = ["base_offset", "last_offset", "producer_id", "producer_epoch", "base_sequence", "leader_epoch"]


def batches_around(incident: Mapping[str, Any]) -> pd.DataFrame:
    """A few batches before and behind the place of an incident, if its partition is still where it was read.

    The column `here` says which lie in the offsets that it is about, `before` which lie before its place.
    """
    directory = _directory(incident)
    offset, position = int(incident["offset"]), int(incident["position"])
    is_of_a_place = offset >= 0 or (position >= 0 and str(incident["path"]).endswith(".log"))
    if directory is None or not is_of_a_place:
        return pd.DataFrame()
    parts = []
    for chunk in scan_segments(find_files([directory]).files, Scan()):
        frame = pd.DataFrame({name: chunk.columns[name] for name in (*_SHOWN, "attributes", "marker_type", "position")})
        parts.append(frame.assign(path=chunk.file.path, timestamp=chunk.columns["max_timestamp"]))
    if not parts:
        return pd.DataFrame()
    rows = pd.concat(parts, ignore_index=True)
    if int(incident.get("upto", -1)) >= 0:  # what was appended since, the incident does not speak of
        rows = rows[rows["last_offset"] <= int(incident["upto"])].reset_index(drop=True)
    if offset >= 0:
        end = max(int(incident["end_offset"]), offset + 1)
        here = (rows["last_offset"] >= offset) & (rows["base_offset"] < end)
        at = (
            int((rows["base_offset"] >= offset).to_numpy().argmax())
            if (rows["base_offset"] >= offset).any()
            else len(rows)
        )
    else:
        here = (rows["path"] == incident["path"]) & (rows["position"] == position)
        behind = (rows["path"] == incident["path"]) & (rows["position"] >= position)
        at = int(behind.to_numpy().argmax()) if behind.any() else len(rows)
    shown = rows.iloc[max(0, at - AROUND) : at + AROUND].assign(here=here)
    shown["before"] = shown.index < at
    shown.insert(2, "kind", [_kind(*pair) for pair in zip(shown["attributes"], shown["marker_type"], strict=True)])
    return shown[["base_offset", "last_offset", "kind", *_SHOWN[2:], "timestamp", "here", "before"]].reset_index(
        drop=True
    )


def _directory(incident: Mapping[str, Any]) -> Path | None:
    name = f"{incident['topic']}-{incident['partition']}"
    path = files.path_of(incident["path"])
    for one in (path, path.parent, path.parent.parent / name):
        if one.name == name and files.is_dir(one):
            return one
    return None


def _kind(attributes: int, marker: int) -> str:
    if marker >= 0:
        return "commit marker" if marker else "abort marker"
    if attributes & CONTROL:
        return "control"
    return "transactional" if attributes & TRANSACTIONAL else "data"


def event_times(audit: Path, rows: list[dict[str, Any]], clock_ns: int) -> list[dict[str, Any]]:
    """Incidents of an event log, with the time at which their partition reached the offset that they are about."""
    ends = pd.read_parquet(audit / "lso.parquet", columns=["ts_ns", "topic", "partition", "hw"])
    for row in rows:
        of = ends[(ends["topic"] == row["topic"]) & (ends["partition"] == row["partition"])]
        reached = of.loc[of["hw"] > row["offset"], "ts_ns"] if row["offset"] >= 0 else of["ts_ns"].iloc[:0]
        if len(reached):
            row["since"] = (int(reached.min()) + clock_ns) // 1_000_000
    return rows


def steps_of(audit: Path, incident: Mapping[str, Any]) -> pd.DataFrame:
    """The timeline of the transactions of the incident's producer: its own, and the last ones before."""
    path = audit / "timelines.parquet"
    if not path.exists() or int(incident["producer_id"]) < 0:
        return pd.DataFrame()
    rows = pd.read_parquet(path, filters=[("producer_id", "==", int(incident["producer_id"]))])
    near = rows.sort_values("begin", kind="stable")
    epoch = int(incident["producer_epoch"])
    own = near[(near["epoch"] == epoch) | (near["marker_epoch"] == epoch)]
    shown = (own if 0 < len(own) <= STEPS_MAX else near).tail(STEPS_MAX)
    columns = ["transactional_id", "epoch", "level", "outcome", "begin", "first_record", "prepare", "first_marker"]
    return shown[[*columns, "last_marker", "complete", "partitions"]].reset_index(drop=True)
