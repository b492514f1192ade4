"""In whose hands a directory lost something: its files are read after each turn, while no system runs.

What clients find at the end names the value, and not the system that lost it. The files of each turn do: a batch that
was there and is there no more, a marker of the wrong kind, or a transaction that is complete without its marker.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from odradek.log.files.walk import walk
from odradek.records.batch import CONTROL, TRANSACTIONAL, Batch, parse_batch
from odradek.records.control import read_marker
from odradek.records.record import iterate_records
from odradek.txn.entry import decode_entry, decode_id
from odradek.txn.states import TxnState

__all__ = ["Hands", "Turn"]

COMMIT_OF = {TxnState.PREPARE_COMMIT: True, TxnState.PREPARE_ABORT: False}
COMPLETE = (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)
WRONG = {"committed": ("absent", "aborted", "forgotten", "twice"), "aborted": ("committed", "twice")}
"""By the outcome that a client was answered: the states in the files that contradict it."""
_VALUE = re.compile(r"\b(?:writer-\d+|plain)-\d+\b")


class Turn(NamedTuple):
    """A system on the directory, from its start to its death."""

    number: int
    system: str

    def __str__(self) -> str:
        return f"turn {self.number} ({self.system})"


class Marker(NamedTuple):
    """What a partition has of the end of a transaction."""

    offset: int
    producer_id: int
    producer_epoch: int
    commit: bool


class Hands:
    """What has become of each value, turn by turn."""

    def __init__(self, directory: Path, topic: str, partitions: int) -> None:
        self.directory, self.topic, self.partitions = directory, topic, partitions
        self.turn = Turn(0, "nobody")
        self.forgotten: dict[tuple[str, int, int], Turn] = {}
        """Transactions that were complete without a marker: id, producer id and epoch, and the turn that says so."""
        self._told: dict[str, tuple[str, Turn]] = {}
        self._states: dict[tuple[str, int], list[tuple[Turn, str]]] = {}
        """Of each value in each partition: the turns after which the files had something else of it."""
        self._ended: set[tuple[str, int, int]] = set()

    def begin(self, system: str) -> None:
        """A system is about to start."""
        self.turn = Turn(self.turn.number + 1, system)

    def tell(self, value: str, outcome: str) -> None:
        """A client was answered this about a value, during the present turn."""
        self._told[value] = outcome, self.turn

    def look(self) -> None:
        """The system of this turn is dead: read its files."""
        found = [self._look_at(f"{self.topic}-{number}") for number in range(self.partitions)]
        markers = {f"{self.topic}-{number}": ends for number, (_, ends) in enumerate(found)}
        without = set(self._without_marker(markers))
        for key in without:
            self.forgotten.setdefault(key, self.turn)
        producers = {key[1:] for key in self.forgotten}
        for number, (values, _) in enumerate(found):
            for value in self._told.keys() | values.keys():
                state, *producer = values.get(value, ("absent",))
                if state == "open" and any(
                    producer[0] == pid and producer[1] in (epoch, epoch - 1) for pid, epoch in producers
                ):
                    state = "forgotten"
                history = self._states.setdefault((value, number), [])
                if not history or history[-1][1] != state:
                    history.append((self.turn, state))

    def _look_at(self, folder: str) -> tuple[dict[str, tuple[str, int, int]], list[Marker]]:
        """The values in a partition, each with its state, producer id and epoch; and the markers."""
        values: dict[str, tuple[str, int, int]] = {}
        open_: dict[int, list[str]] = {}
        markers: list[Marker] = []
        for batch in self._batches(folder):
            producer = batch.producer_id, batch.producer_epoch
            if batch.attributes & CONTROL:
                marker = read_marker(batch)
                if marker is None:
                    continue
                markers.append(Marker(batch.base_offset, *producer, marker.commit))
                for value in open_.pop(batch.producer_id, ()):
                    if values[value][0] == "open":
                        values[value] = "committed" if marker.commit else "aborted", *values[value][1:]
                continue
            is_open = bool(batch.attributes & TRANSACTIONAL)
            for record in iterate_records(batch):
                value = bytes(record.value or b"").decode().rstrip(".")
                if is_open:
                    open_.setdefault(batch.producer_id, []).append(value)
                state = "twice" if value in values else "open" if is_open else "committed"
                values[value] = state, *producer
        return values, markers

    def _without_marker(self, markers: dict[str, list[Marker]]) -> Iterator[tuple[str, int, int]]:
        """Transactions that the transaction log calls complete, and that lack a marker in a partition of the topic."""
        there = {folder: {(each.producer_id, each.producer_epoch) for each in of} for folder, of in markers.items()}
        for folder in sorted(self.directory.glob("__transaction_state-*")):
            if not folder.name.rpartition("-")[2].isdigit():
                continue
            prepared: dict[str, tuple[int, int, list[str]]] = {}
            for batch in self._batches(folder.name):
                for record in () if batch.attributes & CONTROL else iterate_records(batch):
                    transactional_id = decode_id(bytes(record.key or b""))
                    if transactional_id is None or record.value is None:
                        continue
                    entry = decode_entry(transactional_id, bytes(record.value))
                    if entry is None:
                        continue
                    if entry.state in COMMIT_OF:
                        names = [f"{topic}-{index}" for topic, index in entry.partitions]
                        prepared[transactional_id] = entry.producer_id, entry.producer_epoch, names
                    elif entry.state in COMPLETE and transactional_id in prepared:
                        pid, epoch, names = prepared.pop(transactional_id)
                        key = transactional_id, pid, epoch
                        if key not in self._ended:
                            self._ended.add(key)
                            if any((pid, epoch) not in there[name] for name in names if name in there):
                                yield key

    def _batches(self, folder: str) -> Iterator[Batch]:
        for path in sorted((self.directory / folder).glob("*.log")):
            if not path.stat().st_size:
                continue
            with path.open("rb") as file:
                view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            for position in walk(view, int(path.stem), checks=True).positions:
                yield parse_batch(view, position)

    def loser(self, fault: str) -> str | None:
        """The system in whose turn the files first contradicted the client; None if they never did."""
        turns = [turn for value in _VALUE.findall(fault) if (turn := self._lost(value)) is not None]
        # The offset of a group names no value.
        turns = turns or [turn for (name, *_), turn in self.forgotten.items() if f"group {name} " in fault]
        return min(turns).system if turns else None

    def _lost(self, value: str) -> Turn | None:
        """The first turn since the client was answered after which the files contradicted it."""
        outcome, answered = self._told.get(value, ("unknown", Turn(0, "")))
        wrong = WRONG.get(outcome, ("twice", "forgotten"))
        found = []
        for number in self._places(value):
            history = self._states.get((value, number), [])
            for (turn, state), later in zip(history, [*(turn for turn, _ in history[1:]), None], strict=True):
                if state in wrong and (later is None or later > answered):
                    found.append(max(turn, answered))
        return min(found, default=None)

    def _places(self, value: str) -> range:
        """The partitions that it was written to: of a plain record one, of a transaction all."""
        if not value.startswith("plain"):
            return range(self.partitions)
        number = int(value.rpartition("-")[2]) % self.partitions
        return range(number, number + 1)

    def story(self, fault: str) -> str:
        """What is known of the values that a fault names."""
        lines = [fault]
        for value in _VALUE.findall(fault):
            outcome, turn = self._told.get(value, ("unknown", self.turn))
            lines.append(f"  {value}: the client was answered {outcome} in {turn}")
            for number in self._places(value):
                states = ", ".join(f"{state} after {turn}" for turn, state in self._states.get((value, number), ()))
                lines.append(f"    in the files of partition {number}: {states or 'never'}")
        for (name, pid, epoch), turn in self.forgotten.items():
            if f"{name} " in fault or f"{name}-" in fault:
                lines.append(f"  {name}, producer {pid}, epoch {epoch}: complete without its marker after {turn}")
        return "\n".join(lines)
