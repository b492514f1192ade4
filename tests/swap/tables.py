"""Tables of damaged directories: a file has the answers of a real Kafka to the rows, and Odradek is compared with it.

`main` is the program of a module with a table: `record [NAME …]` plays it against a real Kafka and writes the answers;
`look [NAME …]` prints both answers to each row.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct
from tests.oracle.real_kafka import free_port
from tests.swap.damages import CLEAN, RECOVERY, Damage, times_of
from tests.swap.outcomes import (
    FOLDER,
    ORDERS,
    OTHER,
    REFUSES,
    STARTS,
    Answer,
    answer_of_kafka,
    answer_of_odradek,
    shortened,
    started,
)
from tests.swap.systems import Kafka, directory

from odradek.log.files.checkpoints import write_offsets

__all__ = ["Case", "Table", "check_told", "locked", "main", "prepared"]

TOGETHER = 18
"""Damages of a partition that one start of a real Kafka answers."""


class Case(Struct):
    """A damaged directory."""

    damage: Damage
    is_locked: bool = False
    """Whether another process has the lock."""
    settles: bool = False
    """Whether a cleaner works after the start: the outcome is what is there when it rests."""


def check_told(told: Sequence[str], how: str, says: Sequence[str]) -> None:
    """Each line of a start has the part that the table names; a refusal begins with one sentence."""
    assert len(told) == len(says)
    assert all(part in line for part, line in zip(told, says, strict=True))
    if how == REFUSES:
        assert told
        assert says[0].endswith(".")
        assert "\n" not in says[0]


def prepared(base: Path, root: Path, case: Case) -> Path:
    """A damaged copy of the directory."""
    shutil.rmtree(root, ignore_errors=True)
    path = directory(root)
    shutil.copytree(base, path)
    case.damage(path)
    return path


@contextmanager
def locked(path: Path, case: Case) -> Iterator[None]:
    """Another process has the lock, where the case says so."""
    if not case.is_locked:
        yield
        return
    program = "import fcntl, sys; file = open(sys.argv[1], 'r+'); fcntl.lockf(file, fcntl.LOCK_EX); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program, path / ".lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        yield
        holder.stdin.write("\n")


class Table(NamedTuple):
    """Damages of one directory, and where the answers of a real Kafka are kept."""

    cases: Mapping[str, Case]
    recorded: Path
    make: Callable[[Path], None]
    """Makes the directory."""
    make_empty: Callable[[Path, int], None]
    """Makes one with so many partitions of the same topic, and without their records."""
    end: int
    """Where the log of the topic ends."""
    told: Mapping[str, Sequence[str]]
    """The warnings of Odradek, or the sentence of its refusal, of those rows that have any; beginnings are enough."""
    instead: Mapping[str, tuple[Answer, str]]
    """The outcome of Odradek where it is not Kafka's, and why."""

    def answers(self) -> Mapping[str, Answer]:
        """Those of a real Kafka."""
        return msgspec.json.decode(self.recorded.read_bytes(), type=dict[str, Answer])


def record(table: Table, names: Sequence[str]) -> None:
    """Play the table against a real Kafka, and keep the answers."""
    known = json.loads(table.recorded.read_bytes()) if table.recorded.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        base, root = Path(folder) / "base", Path(folder) / "kafka"
        table.make(base)
        kinds: dict[str, list[str]] = {}
        for name in names or table.cases:
            kinds.setdefault(kind_of(table, name, base, root), []).append(name)

        def keep(name: str, answer: Answer) -> None:
            known[name] = msgspec.to_builtins(answer)
            print(name, json.dumps(known[name]), flush=True)
            kept = {name: known[name] for name in table.cases if name in known}
            table.recorded.write_text(json.dumps(kept, indent=1) + "\n")

        for kind in sorted(kinds, key=lambda kind: kind == "alone"):
            if kind == "alone":
                for name in kinds[kind]:
                    path = prepared(base, root, table.cases[name])
                    with locked(path, table.cases[name]):
                        keep(name, answer_of_kafka(root, times_of(base), settles=table.cases[name].settles))
                continue
            for first in range(0, len(kinds[kind]), TOGETHER):
                for name, answer in answers_of_kafka(table, kinds[kind][first : first + TOGETHER], base, root):
                    keep(name, answer)


def answers_of_kafka(table: Table, names: Sequence[str], base: Path, root: Path) -> Iterator[tuple[str, Answer]]:
    """The answers to damages of one partition's folder: each has a partition of its own, so that one start does."""
    path, one = directory(root), root.with_name("one")
    shutil.rmtree(root, ignore_errors=True)
    table.make_empty(path, len(names))
    here, there = ((each / FOLDER / "partition.metadata").read_bytes().split()[-1] for each in (base, path))
    for number, name in enumerate(names):
        damaged = prepared(base, one, table.cases[name])
        folder = path / f"{ORDERS}-{number}"
        shutil.rmtree(folder)
        (damaged / FOLDER).rename(folder)
        if (folder / "partition.metadata").exists():
            named = (folder / "partition.metadata").read_bytes()
            (folder / "partition.metadata").write_bytes(named.replace(here, there))
        for file in (CLEAN, RECOVERY):
            if not (damaged / file).exists():
                (path / file).unlink(missing_ok=True)
    if (path / RECOVERY).exists():
        (path / RECOVERY).write_bytes(
            write_offsets({(OTHER, 0): 2, **{(ORDERS, each): table.end for each in range(len(names))}})
        )
    how, logs, said = started(Kafka(root, free_port()), root, times_of(base))
    by_name = {
        name: [line for line in said if re.search(rf"\b{ORDERS}-{number}\b", line)] for number, name in enumerate(names)
    }
    if how == STARTS:
        for number, name in enumerate(names):
            found = {key: logs[key] for key in (f"{ORDERS}-{number}", f"{OTHER}-0") if key in logs}
            renamed = {FOLDER if key.startswith(ORDERS) else key: seen for key, seen in found.items()}
            yield name, Answer(how, renamed, shortened(by_name[name], number))
        return
    if len(names) == 1:
        yield names[0], Answer(how, {}, shortened(said, 0))
        return
    guilty = [name for name in names if any("ERROR" in line for line in by_name[name])]
    rest = [name for name in names if name not in guilty]
    if not guilty or not rest:
        guilty, rest = list(names[::2]), list(names[1::2])
    for some in (rest, guilty):
        if some:
            yield from answers_of_kafka(table, some, base, root)


def _stamps(path: Path) -> dict[str, tuple[int, int]]:
    """Size and time of each file."""
    return {
        str(each.relative_to(path)): (each.stat().st_size, each.stat().st_mtime_ns)
        for each in path.rglob("*")
        if each.is_file()
    }


def kind_of(table: Table, name: str, base: Path, root: Path) -> str:
    """The checkpoints that a case changes, or "alone" where it changes anything beside the folder of a partition."""
    if table.cases[name].is_locked or table.cases[name].settles or "other topic" in name:
        return "alone"
    path = prepared(base, root, table.cases[name])
    there, now = _stamps(base), _stamps(path)
    changed = {each for each in there.keys() | now.keys() if there.get(each) != now.get(each)}
    gone = {each for each in (CLEAN, RECOVERY) if each in changed and not (path / each).exists()}
    folders = {each.name for each in path.iterdir()} == {each.name for each in base.iterdir()} - gone
    is_folder = (path / FOLDER).is_dir() and not (path / FOLDER).is_symlink()
    if not is_folder or not folders or any(not each.startswith(f"{FOLDER}/") for each in changed - gone):
        return "alone"
    return " ".join(sorted(gone))


def show(table: Table, names: Sequence[str]) -> None:
    """Print both answers."""
    known = json.loads(table.recorded.read_bytes()) if table.recorded.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        table.make(base)
        times = times_of(base)
        for name in names or table.cases:
            path = prepared(base, Path(folder) / "odradek", table.cases[name])
            try:
                with locked(path, table.cases[name]):
                    found = msgspec.to_builtins(answer_of_odradek(path, times, settles=table.cases[name].settles))
            except BaseException as error:
                found = {"how": "TRACEBACK", "says": f"{error!r}"}
            theirs = known.get(name, {})
            mark = "same" if {**theirs, "says": 0} == {**found, "says": 0} else "DIFFERS"
            print(f"== {mark}: {name}\n   kafka   {json.dumps(theirs)}\n   odradek {json.dumps(found)}", flush=True)


def main(table: Table) -> None:
    {"record": record, "look": show}[sys.argv[1]](table, sys.argv[2:])
