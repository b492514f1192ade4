"""Audits that are repeated: what is new since the last one, what somebody has acknowledged, and what an alert is for.

An incident has a name of its own, made of what it is about, so that it is the same the next night: nothing of it
changes as the log goes on. The folder of `--state` keeps when each was first and last seen, and why one was
acknowledged.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from odradek.cli.usage import UsageError

if TYPE_CHECKING:
    from odradek_pipeline.audit.result import Result

__all__ = [
    "EXIT_CODES",
    "Seen",
    "acknowledge",
    "alerts_of",
    "exit_code",
    "identity",
    "metrics_of",
    "noted",
    "read_seen",
]

FILE = "incidents.json"
LAYOUT = 1
EXIT_CODES = {"critical": 1, "warning": 3}
"""By the worst severity of what counts; 0 where nothing does, 2 where nobody could look."""
_ID = re.compile(r"[0-9a-f]{12}")
_OF = ("incident", "topic", "partition", "producer_id", "producer_epoch", "offset")
_NUMBERS = frozenset(_OF) - {"incident", "topic"}
METRIC = "odradek_audit"


@dataclass(slots=True)
class Seen:
    """What earlier audits have seen."""

    last_ms: int = -1
    """When the last one began."""
    clock_ms: int = -1
    """The newest time in the logs then."""
    incidents: dict[str, dict[str, Any]] = field(default_factory=dict)
    acknowledged: dict[str, dict[str, Any]] = field(default_factory=dict)


def identity(row: Mapping[str, Any]) -> str:
    """The name of an incident: twelve digits that stay as long as it is about the same."""
    path = PurePath(str(row.get("path", "")))
    about = [str(row.get(key, -1 if key in _NUMBERS else "")) for key in _OF]
    if int(row.get("offset", -1)) < 0:  # then it is about a file
        about += [path.parent.name, path.name]
    return hashlib.sha256("|".join(about).encode()).hexdigest()[:12]


def read_seen(folder: Path) -> Seen:
    """What a folder has; nothing where no audit has been there."""
    path = folder / FILE
    try:
        said = json.loads(path.read_text())
        if said["layout"] != LAYOUT:
            raise ValueError(f"it is of layout {said['layout']}")
        return Seen(int(said["last_ms"]), int(said["clock_ms"]), dict(said["incidents"]), dict(said["acknowledged"]))
    except FileNotFoundError:
        return Seen()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from None


def _write(folder: Path, seen: Seen) -> None:
    """Whole or not at all."""
    content = {
        "layout": LAYOUT,
        "last_ms": seen.last_ms,
        "clock_ms": seen.clock_ms,
        "incidents": seen.incidents,
        "acknowledged": seen.acknowledged,
    }
    try:
        handle, beside = tempfile.mkstemp(dir=folder, prefix=f".{FILE}.")
        with os.fdopen(handle, "w") as file:
            json.dump(content, file, indent=1, sort_keys=True)
        os.replace(beside, folder / FILE)
    except OSError as error:
        raise UsageError(f"{folder / FILE} cannot be written: {error.strerror}.") from None


def acknowledge(folder: Path, name: str, why: str, at_ms: int) -> dict[str, Any]:
    """Note that somebody knows of an incident; it is no alert any more, for as long as it is the same."""
    if not _ID.fullmatch(name):
        raise UsageError(f"{name} names no incident: it is twelve digits, which an audit with --state prints.")
    if not why.strip():
        raise UsageError("Say why with --why: whoever looks at it next wants to know.")
    seen = read_seen(folder)
    if name not in seen.incidents:
        raise UsageError(f"No audit with this --state has seen an incident {name}.")
    seen.acknowledged[name] = {"why": why.strip(), "at_ms": at_ms}
    _write(folder, seen)
    return seen.incidents[name]


def noted(result: Result, folder: Path, *, at_ms: int, clock_ms: int, is_all: bool) -> None:
    """Give the incidents their names, and say which are new or acknowledged; the folder knows them from now on.

    `is_all`: all of the logs was looked at, so that what was not found is over.
    """
    assert result.incidents is not None
    seen = read_seen(folder)
    now: dict[str, dict[str, Any]] = {}
    rows = result.incidents.to_dict("records")
    names = [row["id"] for row in rows]
    for name, row in zip(names, rows, strict=True):
        known = seen.incidents.get(name, {})
        now[name] = {
            "incident": row["incident"],
            "severity": row["severity"],
            "what": row["what"],
            "first_seen_ms": known.get("first_seen_ms", at_ms),
            "last_seen_ms": at_ms,
        }
    acknowledged = [seen.acknowledged.get(name, {}).get("why", "") for name in names]
    result.incidents["first_seen"] = [now[name]["first_seen_ms"] for name in names]
    result.incidents["is_new"] = [name not in seen.incidents for name in names]
    result.incidents["acknowledged"] = acknowledged
    result.incidents = result.incidents.astype({"first_seen": "int64", "is_new": "bool", "acknowledged": "object"})
    result.facts["incidents_new"] = sum(name not in seen.incidents for name in now)
    result.facts["incidents_over"] = len(seen.incidents.keys() - now.keys()) if is_all else 0
    kept = now if is_all else seen.incidents | now
    alive = {name: one for name, one in seen.acknowledged.items() if name in kept}
    _write(folder, Seen(at_ms, max(clock_ms, seen.clock_ms), kept, alive))


def counting(result: Result, *, only_new: bool) -> list[dict[str, Any]]:
    """The incidents that an alert is for: not acknowledged, not over, and new ones alone where that is asked for."""
    assert result.incidents is not None
    rows = result.incidents.to_dict("records")
    return [
        row
        for row in rows
        if row["severity"] in EXIT_CODES and not row["acknowledged"] and (row["is_new"] or not only_new)
    ]


def exit_code(result: Result, *, only_new: bool) -> int:
    """1 where something critical counts, 3 where nothing but warnings does, 0 where nothing does."""
    found = {row["severity"] for row in counting(result, only_new=only_new)}
    return next((code for severity, code in EXIT_CODES.items() if severity in found), 0)


def alerts_of(result: Result, *, only_new: bool, code: int) -> dict[str, Any]:
    """What a program wants to know that sends alerts."""
    names = ("id", "incident", "severity", "topic", "partition", "offset", "producer_id", "transactional_id", "since")
    more = ("first_seen", "is_new", "what", "blocks", "run", "cluster")
    rows = counting(result, only_new=only_new)
    assert result.incidents is not None
    return {
        "audit": result.audit,
        "verdict": "bad" if rows else "ok",
        "exit_code": code,
        "incidents": [{key: row[key] for key in (*names, *more)} for row in rows],
        "acknowledged": int((result.incidents["acknowledged"] != "").sum()),
    }


def metrics_of(result: Result, *, at_ms: int, code: int) -> str:
    """The audit as metrics of Prometheus, for the textfile collector of its node exporter."""
    assert result.incidents is not None
    counts: dict[tuple[str, str, str], int] = {}
    for row in result.incidents.to_dict("records"):
        key = row["incident"], row["severity"], "true" if row["acknowledged"] else "false"
        counts[key] = counts.get(key, 0) + 1
    lines = [
        f"# HELP {METRIC}_incidents Incidents of the last audit.",
        f"# TYPE {METRIC}_incidents gauge",
        *(
            f'{METRIC}_incidents{{incident="{incident}",severity="{severity}",acknowledged="{known}"}} {count}'
            for (incident, severity, known), count in sorted(counts.items())
        ),
    ]
    for name, told, value in (
        ("last_run_timestamp_seconds", "When the last audit began.", at_ms / 1000),
        ("duration_seconds", "How long it took.", round(result.seconds, 3)),
        ("bytes_read", "Bytes of segments that it read.", result.bytes),
        ("bytes_remembered", "Bytes that it knew from earlier audits.", result.facts.get("bytes_remembered", 0)),
        ("open_transactions", "Transactions that were open.", result.facts.get("open_transactions", 0)),
        ("exit_code", "How it ended.", code),
    ):
        lines += [f"# HELP {METRIC}_{name} {told}", f"# TYPE {METRIC}_{name} gauge", f"{METRIC}_{name} {value}"]
    return "\n".join(lines) + "\n"
