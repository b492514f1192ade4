"""What tests of the judge have in common."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from odradek.conform.driver import Limits
from odradek.conform.protocol import Hello
from odradek.conform.run import Result, Wanted, run
from odradek.conform.scenario import Scenario, read_scenarios

__all__ = ["PRETENDER", "QUICK", "pretender", "results", "scenario"]

PRETENDER = Path(__file__).with_name("bad_drivers") / "pretender.py"
QUICK = Limits(hello_ms=10_000, answer_ms=400, grace_ms=200, end_ms=200, stderr_bytes_max=1 << 20)


def pretender(how: str = "") -> list[str]:
    """The command of a driver that misbehaves in this way."""
    return [sys.executable, str(PRETENDER), *([how] if how else [])]


def scenario(text: str) -> Scenario:
    """One of these fields."""
    [found] = read_scenarios(f'[[scenario]]\nid = "kip-1/a/b"\nabout = "Something."\n{text}', "test")
    return found


def results(command: list[str], *scenarios: Scenario, **wanted: object) -> tuple[Hello, list[Result]]:
    """What comes of scenarios with a driver."""

    async def main() -> tuple[Hello, list[Result]]:
        asked = {"jobs": 1, "limits": QUICK, **wanted}
        return await run(Wanted(scenarios=scenarios, command=command, **asked), lambda result: None)  # type: ignore[arg-type]

    return anyio.run(main)
