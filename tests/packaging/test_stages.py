"""`make test`: two stages that together are all tests, with the exit code of the worse one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.__main__ import STAGES, main
from tests.packaging.tools import ROOT

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


def test_the_stages_are_played_on_all_cores() -> None:
    runs = Runs(OK, OK)
    main([], runs)
    assert ["auto", "auto"] == [runs.value(0, "-n"), runs.value(1, "-n")]


def test_what_is_set_up_for_a_file_of_the_second_stage_is_set_up_once() -> None:
    runs = Runs(OK, OK)
    main([], runs)
    assert "loadfile" == runs.value(1, "--dist")


def test_the_stages_are_all_tests() -> None:
    quick, alone = STAGES
    assert f"not ({alone.markers})" == quick.markers


def test_what_builds_is_marked() -> None:
    """So that nobody waits for it who wants to know of the broker by itself."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text()
        if re.search(r"\b(go_tool|declared|with_toolchains)\(", text) and path != Path(__file__):
            assert "mark.client" in text or "mark.builds" in text, path
