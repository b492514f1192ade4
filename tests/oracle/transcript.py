"""Transcripts: what was asked and answered, and how it is kept in a file.

A file holds one scenario. Where a step has the same answer at every transaction.version it is written once:

    # Apache Kafka 4.4.0, transaction.version 0 1 2

    EndTxn v5 tid x e commit -> x e
      [0]
        error_code=UNSUPPORTED_VERSION producer_id=-1 producer_epoch=-1
      [1 2]
        error_code=NONE producer_id=x producer_epoch=1
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff

__all__ = ["Entry", "Transcript", "difference", "merge", "parse"]

HEADER = re.compile(r"# (?P<who>.+), transaction\.version (?P<levels>[0-2 ]+)")
LEVELS = re.compile(r"  \[(?P<levels>[0-2 ]+)\]")
STEP_LEVELS = re.compile(r"\[(?P<levels>[0-2 ]+)\]")
ANSWER_INDENT = "    "


@dataclass(frozen=True)
class Entry:
    """A step as it is written, and the lines of its answer."""

    step: int
    text: str
    answer: tuple[str, ...] = ()


Transcript = Sequence[Entry]


def numbers(levels: str) -> tuple[int, ...]:
    return tuple(int(word) for word in levels.split())


def merge(who: str, transcripts: Mapping[int, Transcript]) -> str:
    """The transcripts of all levels as one text."""
    levels = sorted(transcripts)
    lines = [f"# {who}, transaction.version {' '.join(map(str, levels))}", ""]
    by_step: dict[int, dict[int, Entry]] = {}
    for level in levels:
        for entry in transcripts[level]:
            by_step.setdefault(entry.step, {})[level] = entry
    for step in sorted(by_step):
        entries = by_step[step]
        lines.append(next(iter(entries.values())).text)
        lines += answers(entries)
    return "\n".join(lines) + "\n"


def answers(entries: Mapping[int, Entry]) -> list[str]:
    """The answers to one step; levels that agree share theirs."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for level, entry in entries.items():
        groups.setdefault(entry.answer, []).append(level)
    lines: list[str] = []
    for answer, levels in groups.items():
        if len(groups) > 1:
            lines.append(f"  [{' '.join(map(str, levels))}]")
        lines += [f"{ANSWER_INDENT}{line}" for line in answer]
    return lines


def parse(text: str) -> dict[int, list[Entry]]:
    """The transcripts by level, from the text of a file."""
    first, _, *rest = text.splitlines()
    header = HEADER.fullmatch(first)
    if header is None:
        raise ValueError(f"not the first line of a transcript: {first}")
    levels = numbers(header["levels"])
    entries: dict[int, dict[int, tuple[str, list[str]]]] = {level: {} for level in levels}
    step, current = -1, levels
    for line in rest:
        if line.startswith(ANSWER_INDENT):
            for level in current:
                entries[level][step][1].append(line.removeprefix(ANSWER_INDENT))
        elif found := LEVELS.fullmatch(line):
            current = numbers(found["levels"])
        else:
            step += 1
            only = STEP_LEVELS.match(line)
            current = tuple(level for level in levels if only is None or level in numbers(only["levels"]))
            for level in current:
                entries[level][step] = (line, [])
    return {
        level: [Entry(number, line, tuple(answer)) for number, (line, answer) in steps.items()]
        for level, steps in entries.items()
    }


def difference(expected: Transcript, actual: Transcript) -> list[str]:
    """What differs, one block per step, ready to print; empty if nothing does."""
    if [entry.text for entry in expected] != [entry.text for entry in actual]:
        return ["the steps themselves differ: the scenario was changed and has to be recorded again"]
    lines: list[str] = []
    for one, other in zip(expected, actual, strict=True):
        if one.answer != other.answer:
            lines.append(one.text)
            changes = list(unified_diff(one.answer, other.answer, n=1, lineterm=""))
            lines += [f"  {line[0]} {line[1:]}" for line in changes[2:] if not line.startswith("@@")]
    return lines
