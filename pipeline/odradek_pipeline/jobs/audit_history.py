"""The audit of client histories: what clients saw against what was acknowledged to them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from odradek_pipeline.audit.lines import json_lines
from odradek_pipeline.audit.progress import Progress, files_read
from odradek_pipeline.audit.result import Result, anomalies_frame
from odradek_pipeline.history.checks import check_history
from odradek_pipeline.history.operations import History, fold
from odradek_pipeline.logs.layout import Problem

__all__ = ["audit_history"]

CHECKED = 0.5
"""The part of its time that a file's operations are checked for, once they are read."""


def audit_history(paths: Iterable[Path], *, progress: Progress | None = None) -> Result:
    """Audit each file as a history of its own."""
    began = time.perf_counter()
    problems: list[Problem] = []
    rows = []
    tables: dict[str, list[pd.DataFrame]] = {"transactions": [], "unseen": [], "lag": []}
    files = list(paths)
    operations = answered = 0
    if progress is not None:
        progress.step("reading")
    for path, reading in files_read(files, progress, checked=CHECKED):
        history = fold(json_lines(path, problems, reading), str(path), problems)
        operations += len(history.operations)
        answered += sum(one.is_answered for one in history.operations)
        rows += [{**found, "path": str(path)} for found in check_history(history)]
        for name, table in (
            ("transactions", _transactions(history)),
            ("unseen", _unseen(history)),
            ("lag", _lag(history)),
        ):
            tables[name].append(table.assign(path=str(path)))
    if progress is not None:
        progress.step("checking")
    size = sum(path.stat().st_size for path in files if path.is_file())
    facts = {"operations": operations, "answered": answered}
    result = Result("history", anomalies_frame(rows), problems, files=len(files), bytes=size, facts=facts)
    result.tables = {name: pd.concat(found, ignore_index=True) for name, found in tables.items() if found}
    result.seconds = time.perf_counter() - began
    return result


def _transactions(history: History) -> pd.DataFrame:
    rows = [
        (
            operation.time,
            operation.process,
            operation.type,
            operation.f,
            operation.txn,
            len(operation.sends),
            sum(1 for _ in operation.reads()),
        )
        for operation in history.operations
    ]
    return pd.DataFrame(rows, columns=["time", "process", "type", "f", "txn", "sent", "read"])


def _unseen(history: History) -> pd.DataFrame:
    """How many acknowledged values nobody had polled yet, over time."""
    first_read = {at: min(reader.time for reader in readers) for at, readers in history.readers.items()}
    changes: list[tuple[int, int]] = []
    for operation in history.operations:
        if operation.type == "ok":
            for send in operation.sends:
                changes.append((operation.time, 1))
                if (send.key, send.value) in first_read:
                    changes.append((max(operation.time, first_read[send.key, send.value]), -1))
    frame = pd.DataFrame(sorted(changes), columns=["time", "change"])
    frame["unseen"] = frame["change"].cumsum()
    return frame.groupby("time", as_index=False)["unseen"].last()


def _lag(history: History) -> pd.DataFrame:
    """How far behind the acknowledged end each poll was."""
    end: dict[str, int] = {}
    rows = []
    for operation in sorted((one for one in history.operations if one.type == "ok"), key=lambda one: one.time):
        for send in operation.sends:
            end[send.key] = max(end.get(send.key, -1), send.offset)
        last: dict[str, int] = {}
        for key, offset, _ in operation.reads():
            last[key] = max(last.get(key, -1), offset)
        rows += [
            (operation.time, operation.process, key, offset, max(0, end.get(key, offset) - offset))
            for key, offset in last.items()
        ]
    return pd.DataFrame(rows, columns=["time", "process", "key", "offset", "lag"])
