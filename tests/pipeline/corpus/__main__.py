"""How much the audit of logs finds, and how often it cries wolf: `python -m tests.pipeline.corpus`.

Every fault of `faults.py` is planted into a fresh copy of directories that a real broker wrote, and audited; so is
every healthy situation. Prints the table of `docs/pipeline.md`; with --write puts it there.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.pipeline.corpus.faults import FAULTS, Fault
from tests.pipeline.corpus.harmless import HARMLESS

from odradek_pipeline.audit.result import Result
from odradek_pipeline.jobs.audit_logs import audit_logs

__all__ = ["Outcome", "healthy", "play", "unpack"]

DATA = Path(__file__).parents[1] / "data"
PAGE = Path(__file__).parents[3] / "docs" / "pipeline.md"
ALSO_HEALTHY = ("tv1", "tv2", "cleaned", "idle")
BEGIN, END = "<!-- corpus -->", "<!-- end of corpus -->"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an audit said of one fault."""

    fault: Fault
    incidents: tuple[str, ...]
    told: frozenset[str]
    """Incidents, and with a leading `~` problems of severity info."""
    wordless: tuple[str, ...] = ()
    """Incidents that do not say what they block, or what to run."""

    @property
    def is_found(self) -> bool:
        return not self.told.isdisjoint(self.fault.names)

    @property
    def others(self) -> tuple[str, ...]:
        """Incidents that are not the fault."""
        return tuple(name for name in self.incidents if name not in self.fault.names)


def unpack(name: str, folder: Path) -> Path:
    """A recorded situation, as `broker-N` below the folder; or one that is made from it."""
    if name in HARMLESS:
        base, made = HARMLESS[name]
        root = unpack(base, folder / name)
        made(root)
        return root
    path = DATA / "healthy" / f"{name}.tar.gz"
    target = folder / name
    if not path.exists():
        path, target = DATA / f"{name}.tar.gz", folder / name / "broker-1"
    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path) as archive:
        archive.extractall(target, filter="data")
    return folder / name


def audited(root: Path) -> Result:
    """The audit of all its brokers, as the command does it."""
    return audit_logs(sorted(root.glob("broker-*")), not_after=int(time.time() * 1000))


def play(fault: Fault, folder: Path) -> Outcome:
    """Plant one fault, and audit."""
    root = unpack(fault.base, folder)
    fault.plant(root)
    result = audited(root)
    assert result.incidents is not None
    incidents = tuple(result.incidents["incident"])
    told = {*incidents, *(f"~{one.problem}" for one in result.problems if one.severity == "info")}
    rows = result.incidents.to_dict("records")
    wordless = tuple(row["incident"] for row in rows if not (row["blocks"] and row["run"]))
    return Outcome(fault, incidents, frozenset(told), wordless)


def healthy() -> list[str]:
    """The names of all healthy situations: those that were recorded, and those made from them."""
    recorded = sorted(path.name.removesuffix(".tar.gz") for path in (DATA / "healthy").glob("*.tar.gz"))
    return [*ALSO_HEALTHY, *recorded, *HARMLESS]


def table(outcomes: Iterable[Outcome], false_alarms: Iterable[str]) -> str:
    """Precision and recall, by groups."""
    listed = list(outcomes)
    groups: dict[str, list[Outcome]] = {}
    for one in listed:
        groups.setdefault(one.fault.group, []).append(one)
    lines = [
        "| faults | kinds | found | recall | incidents beside the cause | precision |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, of in {**groups, "all": listed}.items():
        found, beside = sum(one.is_found for one in of), sum(len(one.others) for one in of)
        right = sum(len(one.incidents) - len(one.others) for one in of) + sum(
            one.is_found for one in of if one.fault.expected.startswith("~")
        )
        precision = right / (right + beside) if right + beside else 1.0
        lines.append(f"| {name} | {len(of)} | {found} | {found / len(of):.2f} | {beside} | {precision:.2f} |")
    names, wrong = healthy(), list(false_alarms)
    lines.append(f"| healthy situations | {len(names)} | {len(wrong)} called bad | | | |")
    return "\n".join(lines)


def main() -> int:
    """Play everything; the exit code says whether anything was missed or a healthy situation called bad."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/pipeline.md")
    parser.add_argument("--only", default="", help="faults whose name has this in it")
    arguments = parser.parse_args()
    outcomes, false_alarms = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number, fault in enumerate(FAULTS):
            if arguments.only and arguments.only not in str(fault):
                continue
            try:
                outcome = play(fault, Path(folder) / str(number))
            except Exception:
                traceback.print_exc()
                print("FAILED", fault)
                continue
            outcomes.append(outcome)
            if not outcome.is_found or outcome.others:
                print(
                    "found " if outcome.is_found else "MISSED",
                    fault,
                    "->",
                    fault.expected,
                    "| told:",
                    outcome.incidents,
                )
        for name in () if arguments.only else healthy():
            result = audited(unpack(name, Path(folder)))
            if result.is_bad:
                false_alarms.append(name)
                assert result.incidents is not None
                print("FALSE ALARM", name, "->", result.incidents["incident"].tolist())
    text = table(outcomes, false_alarms)
    print(text)
    if arguments.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")
    return int(bool(false_alarms) or not all(one.is_found or one.fault.is_missed for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
