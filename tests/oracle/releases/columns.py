"""What is compared: a release at a transaction.version, one column of the answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.oracle.real_kafka import KAFKA_VERSION
from tests.oracle.releases.real import VERSIONS, has_transaction_version
from tests.oracle.transcript import Entry, Transcript

__all__ = ["COLUMNS", "Column", "merge", "parse"]


@dataclass(frozen=True, order=True)
class Column:
    """A release, and the finalized level of transaction.version; 0 too where the release does not have the feature."""

    release: str
    level: int
    only_level: bool = True

    @property
    def name(self) -> str:
        """As it stands in a transcript: `3.6`, or `4.0@2` where there are several levels."""
        return self.release if self.only_level else f"{self.release}@{self.level}"


COLUMNS: tuple[Column, ...] = tuple(
    column
    for release, version in VERSIONS.items()
    if version != KAFKA_VERSION
    for column in (
        [Column(release, level, only_level=False) for level in (0, 1, 2)]
        if has_transaction_version(release)
        else [Column(release, 0)]
    )
)
"""All that is recorded here; the newest release has its own answers, in `tests/oracle/answers`."""

BY_NAME: Mapping[str, Column] = {column.name: column for column in COLUMNS}
MARK = re.compile(r"  \[(?P<columns>[\d.@ ]+)\]")
STEP_LEVELS = re.compile(r"\[(?P<levels>[0-2 ]+)\]")
ANSWER_INDENT = "    "
HEADER = re.compile(r"# \D+ (?P<columns>\d.*)")


def merge(who: str, transcripts: Mapping[Column, Transcript]) -> str:
    """The transcripts of all columns as one text; columns that agree share their lines."""
    columns = [column for column in COLUMNS if column in transcripts]
    lines = [f"# {who} {names(columns)}", ""]
    by_step: dict[int, dict[Column, Entry]] = {}
    for column in columns:
        for entry in transcripts[column]:
            by_step.setdefault(entry.step, {})[column] = entry
    for step in sorted(by_step):
        entries = by_step[step]
        lines.append(next(iter(entries.values())).text)
        groups: dict[tuple[str, ...], list[Column]] = {}
        for column, entry in entries.items():
            groups.setdefault(entry.answer, []).append(column)
        for answer, members in groups.items():
            if len(groups) > 1:
                lines.append(f"  [{names(members)}]")
            lines += [f"{ANSWER_INDENT}{line}" for line in answer]
    return "\n".join(lines) + "\n"


def names(columns: Iterable[Column]) -> str:
    return " ".join(column.name for column in columns)


def parse(text: str) -> dict[Column, list[Entry]]:
    """The transcripts by column, from the text of a file."""
    first, _, *rest = text.splitlines()
    header = HEADER.fullmatch(first)
    if header is None:
        raise ValueError(f"not the first line of a transcript: {first}")
    columns = [BY_NAME[name] for name in header["columns"].split()]
    steps: dict[Column, dict[int, tuple[str, list[str]]]] = {column: {} for column in columns}
    step, current = -1, columns
    for line in rest:
        if line.startswith(ANSWER_INDENT):
            for column in current:
                steps[column][step][1].append(line.removeprefix(ANSWER_INDENT))
        elif found := MARK.fullmatch(line):
            current = [BY_NAME[name] for name in found["columns"].split()]
        else:
            step += 1
            only = STEP_LEVELS.match(line)
            current = [each for each in columns if only is None or str(each.level) in only["levels"].split()]
            for column in current:
                steps[column][step] = (line, [])
    return {
        column: [Entry(number, line, tuple(answer)) for number, (line, answer) in taken.items()]
        for column, taken in steps.items()
    }
