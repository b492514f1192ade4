"""`make test`: two stages that together are all tests, with the exit code of the worse one."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from tests.__main__ import STAGES, main
from tests.packaging.tools import ROOT, said

OK, FAILED, INTERRUPTED, USAGE, NONE = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.INTERRUPTED,
    pytest.ExitCode.USAGE_ERROR,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)


class Runs:
    """In place of pytest."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.calls: list[list[str]] = []

    def __call__(self, arguments: list[str]) -> int:
        self.calls.append(arguments)
        return self.codes[len(self.calls) - 1]

    def value(self, call: int, option: str) -> str:
        return self.calls[call][self.calls[call].index(option) + 1]


@pytest.mark.parametrize(
    ("arguments", "codes", "stages", "code"),
    [
        ([], (OK, OK), 2, OK),
        ([], (FAILED, OK), 2, FAILED),
        ([], (OK, FAILED), 2, FAILED),
        ([], (NONE, OK), 2, OK),
        ([], (OK, NONE), 2, OK),
        ([], (NONE, NONE), 2, NONE),
        ([], (NONE, FAILED), 2, FAILED),
        ([], (INTERRUPTED,), 1, INTERRUPTED),
        ([], (USAGE,), 1, USAGE),
        (["-x"], (FAILED,), 1, FAILED),
        (["-x"], (NONE, FAILED), 2, FAILED),
        (["--exitfirst"], (OK, OK), 2, OK),
    ],
)
def test_the_worse_exit_code_counts(arguments: list[str], codes: tuple[int, ...], stages: int, code: int) -> None:
    runs = Runs(*codes)
    assert code == main(arguments, runs)
    assert stages == len(runs.calls)
    assert all(("-x" in call) == bool(arguments) for call in runs.calls)


def test_arguments_go_to_both_stages() -> None:
    runs = Runs(OK, OK)
    main(["-q", "-k", "kips", "tests/kips"], runs)
    assert ["-q", "-k", "kips", "tests/kips"] == runs.calls[0][-4:] == runs.calls[1][-4:]


def test_markers_choose_within_each_stage() -> None:
    runs = Runs(OK, OK)
    main(["-m", "slow or client"], runs)
    assert [f"({stage.markers}) and (slow or client)" for stage in STAGES] == [runs.value(0, "-m"), runs.value(1, "-m")]


def test_the_first_stage_is_played_on_all_cores() -> None:
    runs = Runs(OK, OK)
    main([], runs)
    assert "auto" == runs.value(0, "-n")
    assert "-n" not in runs.calls[1]


def test_the_stages_are_all_tests() -> None:
    quick, alone = STAGES
    assert f"not ({alone.markers})" == quick.markers


def collected(seed: int) -> list[str]:
    done = said(
        *(sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", STAGES[0].markers),
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.slow
def test_workers_that_collect_apart_come_to_the_same_list() -> None:
    first, second = collected(1), collected(2)
    assert first
    assert first == second


def test_what_builds_is_marked() -> None:
    """So that two workers do not build at the same time, in silence."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text()
        if re.search(r"\b(go_tool|declared|with_toolchains)\(", text) and path != Path(__file__):
            assert "mark.client" in text or "mark.builds" in text, path
