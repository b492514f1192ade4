"""What each executor of a Spark cluster did, by the events that Spark writes: how many tasks, and for how long."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["SETTINGS", "Stage", "read_events", "stages_of", "table_of"]

SETTINGS = """\
spark.eventLog.enabled true
spark.eventLog.compress false
spark.eventLog.rolling.enabled false
spark.eventLog.dir file://{folder}
"""


@dataclass(slots=True)
class Stage:
    """The tasks of a stage that succeeded, by executor; seconds that they ran, those of Python included."""

    name: str
    tasks: dict[str, list[float]] = field(default_factory=dict)
    cpu_s: float = 0.0
    """Of the JVMs alone: Spark does not know that of Python's workers."""

    @property
    def longest_s(self) -> float:
        """Of the task that ran longest."""
        return max((second for of in self.tasks.values() for second in of), default=0.0)


def read_events(folder: Path) -> list[dict[str, Any]]:
    """The events of the one application whose log is there."""
    (path,) = [one for one in folder.iterdir() if one.is_file() and not one.name.startswith(".")]
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def stages_of(events: Iterable[dict[str, Any]]) -> dict[int, Stage]:
    """By number, in the order in which they were submitted."""
    found: dict[int, Stage] = {}
    for event in events:
        if event["Event"] == "SparkListenerStageSubmitted":
            about = event["Stage Info"]
            found.setdefault(about["Stage ID"], Stage(about["Stage Name"].split(" at ")[0]))
        elif event["Event"] == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] == "Success":
            stage = found.setdefault(event["Stage ID"], Stage(""))
            metrics = event["Task Metrics"]
            stage.tasks.setdefault(event["Task Info"]["Executor ID"], []).append(metrics["Executor Run Time"] / 1000)
            stage.cpu_s += metrics["Executor CPU Time"] / 1e9
    return found


def table_of(stages: dict[int, Stage]) -> str:
    """Markdown: the stages, and at the end all of them."""
    executors = sorted({name for stage in stages.values() for name in stage.tasks})
    heads = ["stage", "tasks", "longest, s", "CPU of JVMs, s", *(f"executor {name}: tasks, s" for name in executors)]
    lines = ["| " + " | ".join(heads) + " |", "|" + " ---: |" * len(heads)]
    everything = Stage("all")
    for number, stage in stages.items():
        lines.append(_line(f"{number} {stage.name}", stage, executors))
        everything.cpu_s += stage.cpu_s
        for name, seconds in stage.tasks.items():
            everything.tasks.setdefault(name, []).extend(seconds)
    return "\n".join([*lines, _line("all", everything, executors)])


def _line(name: str, stage: Stage, executors: list[str]) -> str:
    of_each = [stage.tasks.get(executor, []) for executor in executors]
    cells = [name, str(sum(map(len, of_each))), f"{stage.longest_s:.1f}", f"{stage.cpu_s:.1f}"]
    return "| " + " | ".join([*cells, *(f"{len(of)}, {sum(of):.1f}" for of in of_each)]) + " |"
